//! The trace container: round trips, damage, and `kill -9`.

mod common;

use std::io::{Cursor, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vramscope::base::clock::Clock;
use vramscope::base::random::Random;
use vramscope::base::{Bytes, Nanos};
use vramscope::event::{Record, Stamped};
use vramscope::trace::{
    Completeness, End, FileRecorder, Header, SCHEMA_VERSION, SLOT, Summary, TextTrace, TraceError,
    TraceReader, assemble, line, parse_line,
};

const CHILD: &str = "VRAMSCOPE_TEST_KILL_CHILD";

fn header() -> Header {
    Header {
        schema: SCHEMA_VERSION,
        process: 7,
        unix_zero: Nanos(11),
        command: "run --tokens 4".to_owned(),
    }
}

fn write(path: &Path, events: &[Stamped], digest: Option<u64>) {
    let clock = Clock::manual();
    let recorder =
        FileRecorder::create(path, &header(), clock.clone()).expect("a fresh path in a temporary folder");
    let mut now = Nanos(0);
    for stamped in events {
        clock.advance(stamped.at.since(now));
        now = stamped.at;
        let stamp = recorder.record(&stamped.event);
        assert_eq!((stamp.seq, stamp.at), (stamped.seq, stamped.at));
    }
    if let Some(digest) = digest {
        assert_eq!(recorder.finish(digest).expect("a disk with room").lost, 0);
    }
}

fn read(input: impl Read + Seek) -> Result<(Vec<Stamped>, Summary), TraceError> {
    let mut reader = TraceReader::open(input)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok((events, reader.summary()))
}

fn written(count: u64) -> (Vec<Stamped>, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    let events = common::events(3, count);
    write(&path, &events, Some(0xABCD));
    (events, std::fs::read(&path).expect("the file just written"))
}

#[test]
fn what_is_written_is_read_back() {
    for count in [0, 1, 5000] {
        let (events, bytes) = written(count);
        let (back, summary) = read(Cursor::new(&bytes[..])).expect("an intact file");
        assert_eq!(back, events);
        assert_eq!(summary.completeness, Completeness::Complete { digest: 0xABCD });
        assert_eq!((summary.events, summary.unknown), (count, 0));
    }
}

#[test]
fn the_text_form_is_one_to_one() {
    let events = common::events(5, 2000);
    for stamped in &events {
        assert_eq!(parse_line(&line(stamped)).as_ref(), Ok(stamped));
    }
    for end in [End::Truncated, End::Complete { digest: 0x12 }, End::Cut] {
        let trace = TextTrace {
            header: header(),
            start: None,
            events: events.clone(),
            end,
        };
        assert_eq!(assemble(&trace.to_string()), Ok(trace));
    }
}

#[test]
fn wrong_text_is_refused_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = assemble(text).expect_err(text).to_string();
        assert!(
            error.contains(expected),
            "{error:?} does not contain {expected:?}"
        );
    };
    let head = "vtrace schema=1 process=0 unix_zero=0 command=\"\"\n";
    check("", "line 1: text is empty");
    check("hello", "line 1: text does not begin");
    check(
        &format!("{head}0 0 Nothing a=1"),
        "line 2: no event is called `Nothing`",
    );
    check(
        &format!("{head}1 0 RunEnded outcome=complete"),
        "line 2: event has number 1, expected 0",
    );
    check(
        &format!("{head}0 0 RunEnded outcome=odd"),
        "outcome `odd` is none of complete",
    );
    check(
        &format!("{head}0 0 RunEnded outcome=complete more=1"),
        "left over",
    );
    check(
        &format!("{head}0 0 SegmentReturned segment=4294967296 cause=purge"),
        "segment 4294967296 is over",
    );
    check(
        &format!("{head}end events=3 digest=00"),
        "line 2: end says 3 events, there are 0",
    );
}

#[test]
fn no_flipped_byte_passes_as_complete() {
    let (_, bytes) = written(600);
    let mut random = Random::seeded(9);
    // Every byte that holds data, and a sample of the padding.
    for at in 0..bytes.len() {
        let padding = bytes[at] == 0 && at % SLOT > 200;
        if padding && !random.one_in(40) {
            continue;
        }
        let mut bad = bytes.clone();
        bad[at] ^= 1 << random.below(8);
        if let Ok((_, summary)) = read(Cursor::new(&bad[..])) {
            let complete = matches!(summary.completeness, Completeness::Complete { .. });
            assert!(
                !complete,
                "byte {at} was flipped and the file still passes as complete"
            );
        }
    }
}

#[test]
fn no_cut_file_passes_as_complete() {
    let (events, bytes) = written(1500);
    for length in (0..bytes.len()).step_by(311) {
        match read(Cursor::new(&bytes[..length])) {
            Ok((back, summary)) => {
                assert_eq!(
                    summary.completeness,
                    Completeness::Truncated,
                    "cut to {length} bytes"
                );
                assert_eq!(back[..], events[..back.len()]);
            }
            Err(error) => assert!(
                length < SLOT && matches!(error, TraceError::NotATrace { .. }),
                "{error}"
            ),
        }
    }
    let mut longer = bytes;
    longer.push(0);
    let (_, summary) = read(Cursor::new(&longer[..])).expect("the header is intact");
    assert_eq!(summary.completeness, Completeness::Truncated);
}

#[test]
fn noise_is_refused() {
    let mut random = Random::seeded(1);
    for size in [0, 1, SLOT - 1, SLOT, 3 * SLOT] {
        let noise: Vec<u8> = (0..size).map(|_| random.bits() as u8).collect();
        assert!(matches!(
            read(Cursor::new(&noise[..])),
            Err(TraceError::NotATrace { .. })
        ));
    }
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("kept");
    std::fs::write(&path, "kept").expect("a temporary folder");
    FileRecorder::create(&path, &header(), Clock::manual()).expect_err("the path exists");
    assert_eq!(std::fs::read(&path).expect("the file just written"), b"kept");
}

#[test]
fn an_event_takes_sixteen_bytes_on_average() {
    use vramscope::base::{BufferId, Generation, NameId, OwnerId, SegmentId, Seq, StreamId};
    use vramscope::event::{BufferAllocated, ReleaseCause, ReleaseCompleted, ReleaseRequested};
    let mut events: Vec<Stamped> = Vec::new();
    let mut push = |event| {
        let seq = events.len() as u64;
        events.push(Stamped {
            seq: Seq(seq),
            at: Nanos(seq * 700),
            event,
        });
    };
    for turn in 0..20_000u32 {
        let (buffer, generation) = (BufferId(turn % 300), Generation(turn / 300));
        let fact = BufferAllocated {
            buffer,
            generation,
            segment: SegmentId(turn % 7),
            offset: Bytes(u64::from(turn % 64) << 14),
            requested: Bytes(20_000),
            slack: Bytes(480),
            stream: StreamId(0),
            owner: OwnerId(turn % 5),
            site: NameId(turn % 90),
        };
        push(fact.into());
        push(
            ReleaseRequested {
                buffer,
                generation,
                cause: ReleaseCause::Dropped,
            }
            .into(),
        );
        push(ReleaseCompleted { buffer, generation }.into());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    write(&path, &events, Some(0));
    let size = std::fs::metadata(&path).expect("the file just written").len();
    let average = size as f64 / events.len() as f64;
    assert!(
        average <= 16.0,
        "{average} bytes an event, padding and trailer included"
    );
}

/// Run by the kill test in a process of its own; does nothing otherwise.
#[test]
fn kill_child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let recorder = FileRecorder::create(Path::new(&path), &header(), Clock::real()).expect("a fresh path");
    for seq in 0..4_000_000 {
        recorder.record(&common::event(77, seq));
    }
}

#[test]
fn a_killed_run_keeps_all_but_the_event_being_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = std::env::current_exe().expect("the test binary's own path");
    let mut random = Random::seeded(0x5EED);
    let mut with_events = 0;
    for round in 0..200 {
        let path = folder.path().join(format!("{round}.vtrace"));
        let mut child = Command::new(&program)
            .args(["--exact", "kill_child", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test binary runs");
        while !path.exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        match read(std::fs::File::open(&path).expect("the child made it")) {
            Ok((events, summary)) => {
                assert_eq!(summary.completeness, Completeness::Truncated, "round {round}");
                with_events += usize::from(!events.is_empty());
                for (seq, stamped) in events.iter().enumerate() {
                    assert_eq!(stamped.seq.0, seq as u64);
                    assert_eq!(stamped.event, common::event(77, seq as u64), "round {round}");
                }
            }
            // Killed between creating the file and committing its header.
            Err(error) => assert!(
                matches!(error, TraceError::NotATrace { .. }),
                "round {round}: {error}"
            ),
        }
        std::fs::remove_file(&path).expect("the file is ours");
    }
    assert!(
        with_events > 100,
        "only {with_events} of 200 kills came while events were being written"
    );
}

/// A file may claim any length for the price of nothing.
#[test]
fn a_file_of_endless_nothing_is_damaged_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["healthy.vtrace", "stub.vtrace"] {
        let path = folder.path().join(name);
        let whole = std::fs::read("traces/healthy.vtrace").expect("a golden trace");
        let part = if name == "healthy.vtrace" {
            &whole[..]
        } else {
            &whole[..vramscope::trace::SLOT * 2]
        };
        std::fs::write(&path, part).expect("room");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("the file just made");
        file.set_len(1 << 40).expect("a sparse file");
        let mut reader = vramscope::trace::TraceReader::open(std::fs::File::open(&path).expect("it opens"))
            .expect("a trace");
        while reader.next_event().expect("readable").is_some() {}
        let completeness = reader.summary().completeness;
        assert!(
            matches!(completeness, vramscope::trace::Completeness::Damaged { .. }),
            "{name}: {completeness:?}"
        );
    }
}
