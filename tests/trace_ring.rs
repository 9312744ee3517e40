//! Ring files, cuts, and reading a file that is being written.

#[path = "common/workload.rs"]
mod workload;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use vramscope::base::clock::Clock;
use vramscope::base::random::Random;
use vramscope::base::{Bytes, DeviceId, NameId, Nanos, PurgeId, Seq};
use vramscope::event::{Event, NameDefined, Record, Stamped};
use vramscope::ledger::{Accounts, Ledger};
use vramscope::trace::{
    Completeness, CutError, End, FileRecorder, Followed, Follower, Header, RING_MIN, Range, SLOT, Start,
    Summary, TextTrace, TraceError, TraceReader, TraceWriter, WriteError, assemble, cut,
};

use workload::{Naive, Workload};

const CHILD: &str = "VRAMSCOPE_TEST_KILL_RING_CHILD";
const SEED: u64 = 0xB10C;

fn ring(path: &Path, clock: &Clock, slots: u64) -> FileRecorder {
    let limit = Bytes(slots * SLOT as u64);
    FileRecorder::create_ring(path, &Header::default(), clock.clone(), limit).expect("a fresh path")
}

/// Records what a workload gives, 1 µs apart.
fn record(recorder: &FileRecorder, clock: &Clock, events: &[Stamped]) {
    for stamped in events {
        clock.advance(Nanos(stamped.at.0 - clock.now().0));
        assert_eq!(recorder.record(&stamped.event).seq, stamped.seq);
    }
}

/// A finished ring file of `count` events.
fn finished(seed: u64, count: u64, slots: u64) -> (Vec<Stamped>, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    let clock = Clock::manual();
    let recorder = ring(&path, &clock, slots);
    let events = Workload::events(seed, count);
    record(&recorder, &clock, &events);
    recorder.finish(0xD1).expect("a disk with room");
    (events, std::fs::read(&path).expect("the file just written"))
}

#[derive(Debug)]
struct Content {
    start: Option<Start>,
    events: Vec<Stamped>,
    summary: Summary,
}

fn read(input: impl Read + Seek) -> Result<Content, TraceError> {
    let mut reader = TraceReader::open(input)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok(Content {
        start: reader.start(),
        events,
        summary: reader.summary(),
    })
}

fn balances(events: &[Stamped]) -> [Accounts; 2] {
    let mut ledger = Ledger::default();
    events.iter().for_each(|stamped| ledger.apply(stamped));
    [ledger.device(DeviceId(0)), ledger.device(DeviceId(1))]
}

/// Holds what was read against all that was recorded up to its last event, and returns how many that are.
fn check(back: &Content, all: &[Stamped]) -> usize {
    let mut events = &back.events[..];
    if let Some(gap) = back.start.and_then(|start| start.gap()) {
        assert_eq!(events.first(), Some(&gap));
        events = &events[1..];
    }
    let (kept, from) = back
        .start
        .map_or((0, 0), |start| (start.kept as usize, start.from.0));
    let numbers: Vec<u64> = events.iter().map(|stamped| stamped.seq.0).collect();
    assert!(numbers[..kept].is_sorted_by(|a, b| a < b));
    assert!(numbers[..kept].last().is_none_or(|last| *last < from));
    let tail = numbers[kept..].iter().copied();
    assert!(tail.eq((from..).take(numbers.len() - kept)));
    let count = numbers.last().map_or(0, |last| *last as usize + 1);
    for stamped in events {
        assert_eq!(stamped, &all[stamped.seq.0 as usize]);
    }
    assert_eq!(back.summary.events + back.summary.dropped, count as u64);
    assert_eq!(Naive::of(&back.events), Naive::of(&all[..count]));
    assert_eq!(balances(&back.events), balances(&all[..count]));
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_ring_folds_into_what_all_events_fold_into(
        seed in any::<u64>(), count in 0u64..60_000, slots in 8u64..24, end in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("t.vtrace");
        let clock = Clock::manual();
        let recorder = ring(&path, &clock, slots);
        let events = Workload::events(seed, count);
        record(&recorder, &clock, &events);
        let health = recorder.health();
        prop_assert_eq!(&health.failure, &None);
        if end {
            recorder.finish(5).expect("a disk with room");
        }
        prop_assert!(std::fs::metadata(&path).expect("the file").len() <= slots * SLOT as u64);
        let back = read(File::open(&path).expect("the file")).expect("a trace");
        prop_assert_eq!(check(&back, &events) as u64, count);
        prop_assert_eq!(back.summary.dropped, health.dropped);
        let expected = if end { Completeness::Complete { digest: 5 } } else { Completeness::Truncated };
        prop_assert_eq!(back.summary.completeness, expected);
    }

    #[test]
    fn a_cut_folds_into_what_held_at_its_end(
        seed in any::<u64>(), slots in 8u64..30, a in 0u64..20_000, b in 0u64..20_000,
    ) {
        let (events, bytes) = finished(seed, 20_000, slots);
        let whole = read(Cursor::new(&bytes)).expect("a trace").start.map_or(0, |start| start.from.0);
        let (from, to) = (a.min(b), a.max(b));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("cut");
        let range = Range::Events { from: Some(Seq(from)), to: Some(Seq(to)) };
        let report = cut(Cursor::new(&bytes), &out, range);
        if from < whole {
            let refused = matches!(report, Err(CutError::Dropped { .. }));
            prop_assert!(refused);
            prop_assert!(!out.exists());
            return Ok(());
        }
        let report = report.expect("a range inside the trace");
        let back = read(File::open(&out).expect("the file")).expect("a trace");
        prop_assert_eq!(check(&back, &events) as u64, to + 1);
        let complete = Completeness::Complete { digest: 0xD1 };
        prop_assert_eq!(&back.summary.completeness, if to == 19_999 { &complete } else { &Completeness::Cut });
        prop_assert_eq!(back.start, report.start);
    }
}

#[test]
fn a_limit_below_the_least_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    let limit = Bytes(RING_MIN.0 - 1);
    let refused = FileRecorder::create_ring(&path, &Header::default(), Clock::manual(), limit);
    let error = refused.expect_err("too small").to_string();
    assert_eq!(error, "trace limit is 131071 bytes, the least is 131072 bytes");
    assert!(!path.exists());
}

#[test]
fn state_beyond_the_limit_ends_the_recording_as_an_exact_prefix() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    let clock = Clock::manual();
    let recorder = ring(&path, &clock, 8);
    let name = |seq| {
        let text = format!("a name that stays for ever {seq}").into();
        Event::from(NameDefined {
            name: NameId(seq),
            text,
        })
    };
    for seq in 0..10_000 {
        recorder.record(&name(seq));
    }
    let health = recorder.health();
    assert!(
        health
            .failure
            .expect("it is full")
            .contains("what is still true fills")
    );
    assert_eq!(health.recorded + health.lost, 10_000);
    recorder.finish(0).expect("a disk with room");
    let back = read(File::open(&path).expect("the file")).expect("a trace");
    assert_eq!(back.summary.completeness, Completeness::Truncated);
    assert_eq!(back.summary.events, health.recorded);
    for (seq, stamped) in (0..).zip(&back.events) {
        assert_eq!(stamped.event, name(seq));
    }
}

/// Run by the kill test in a process of its own; does nothing otherwise.
#[test]
fn kill_child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let clock = Clock::manual();
    let events = Workload::events(SEED, 150_000);
    let recorder = ring(Path::new(&path), &clock, 8);
    record(&recorder, &clock, &events);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_ring_opens_with_right_balances() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = std::env::current_exe().expect("the test binary's own path");
    let all = Workload::events(SEED, 150_000);
    let mut random = Random::seeded(0x5EED);
    let mut wrapped = 0;
    for round in 0..50 {
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
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        match read(File::open(&path).expect("the child made it")) {
            Ok(back) => {
                assert_eq!(
                    back.summary.completeness,
                    Completeness::Truncated,
                    "round {round}"
                );
                check(&back, &all);
                wrapped += u64::from(
                    back.summary.dropped > 0 && back.summary.events + back.summary.dropped < 150_000,
                );
            }
            // Killed between creating the file and committing its header.
            Err(error) => assert!(matches!(error, TraceError::NotATrace { .. }), "{error}"),
        }
        std::fs::remove_file(&path).expect("the file is ours");
    }
    assert!(
        wrapped > 10,
        "only {wrapped} of 50 kills came while the ring was evicting"
    );
}

#[test]
fn no_flipped_byte_of_a_ring_passes_as_complete() {
    let (_, bytes) = finished(1, 30_000, 8);
    assert!(read(Cursor::new(&bytes)).expect("a trace").summary.dropped > 0);
    let mut random = Random::seeded(9);
    for at in 0..bytes.len() {
        if !random.one_in(if at % SLOT < 80 { 2 } else { 60 }) {
            continue;
        }
        let mut bad = bytes.clone();
        bad[at] ^= 1 << random.below(8);
        if let Ok(back) = read(Cursor::new(&bad)) {
            let damaged = matches!(
                back.summary.completeness,
                Completeness::Damaged { .. } | Completeness::Truncated
            );
            assert!(
                damaged,
                "byte {at} was flipped and the file still passes as complete"
            );
        }
    }
    for length in (0..bytes.len()).step_by(1111) {
        if let Ok(back) = read(Cursor::new(&bytes[..length])) {
            let complete = matches!(back.summary.completeness, Completeness::Complete { .. });
            assert!(!complete, "cut to {length} bytes");
        }
    }
}

/// Makes a block's checksum fit its bytes.
fn forge(slot: &mut [u8]) {
    let length = usize::from(u16::from_le_bytes([slot[24], slot[25]])).min(SLOT - 32);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..24]), &slot[32..32 + length]);
    slot[24..28].copy_from_slice(&(length as u32).to_le_bytes());
    slot[28..32].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_trailer_counts_in_its_head_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("row");
    let recorder = FileRecorder::create(&path, &Header::default(), Clock::manual()).expect("a fresh path");
    recorder.finish(0).expect("a disk with room");
    let mut bytes = std::fs::read(&path).expect("the file just written");
    let trailer = bytes.len() - SLOT;
    bytes[trailer + 8] = 1;
    forge(&mut bytes[trailer..]);
    let summary = read(Cursor::new(&bytes[..])).expect("a header").summary;
    assert!(matches!(
        summary.completeness,
        Completeness::Damaged {
            reason: "trailer is malformed",
            ..
        }
    ));
}

#[test]
fn a_follower_sees_the_end_of_an_empty_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("empty");
    let writer = TraceWriter::create(&path, &Header::default(), None, &[]).expect("a fresh path");
    writer
        .finish(End::Complete { digest: 0 })
        .expect("a disk with room");
    let mut follower = Follower::open(File::open(&path).expect("the file just written")).expect("a header");
    assert_eq!(follower.poll().expect("a sound file"), Followed::Ended);
}

#[test]
fn forged_rings_never_panic() {
    let (_, bytes) = finished(2, 20_000, 8);
    let mut random = Random::seeded(10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..1500 {
        let mut bad = bytes.clone();
        for _ in 0..=random.below(3) {
            let slot = random.below((bytes.len() / SLOT) as u64) as usize * SLOT;
            let inside = if random.one_in(2) {
                random.below(72)
            } else {
                random.below(SLOT as u64)
            };
            let noise = if random.one_in(3) { u64::MAX } else { random.bits() };
            let at = (slot + inside as usize).min(bad.len() - 8);
            let width = 1 + random.below(8) as usize;
            bad[at..at + width].copy_from_slice(&noise.to_le_bytes()[..width]);
            forge(&mut bad[slot..slot + SLOT]);
        }
        let _ = read(Cursor::new(&bad));
        let mut follower = Follower::open(Cursor::new(&bad));
        for _ in 0..200_000 {
            let Ok(open) = &mut follower else { break };
            if !matches!(open.poll(), Ok(Followed::Event(_) | Followed::Restarted)) {
                break;
            }
        }
        let range = Range::Events {
            from: Some(Seq(19_000)),
            to: None,
        };
        let _ = cut(Cursor::new(&bad), &folder.path().join(round.to_string()), range);
    }
}

#[test]
fn the_text_form_is_one_to_one_for_rings_and_cuts() {
    let (events, bytes) = finished(6, 20_000, 8);
    let back = read(Cursor::new(&bytes)).expect("a trace");
    let start = back.start.expect("it wrapped");
    for end in [End::Truncated, End::Complete { digest: 0xD1 }, End::Cut] {
        let trace = TextTrace {
            header: Header::default(),
            start: Some(start),
            events: back.events[1..].to_vec(),
            end,
        };
        let text = trace.to_string();
        assert_eq!(assemble(&text), Ok(trace.clone()));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("t.vtrace");
        let (kept, rest) = trace.events.split_at(start.kept as usize);
        let mut writer = TraceWriter::create(&path, &trace.header, trace.start, kept).expect("a fresh path");
        rest.iter()
            .for_each(|stamped| writer.push(stamped).expect("a disk with room"));
        writer.finish(end).expect("a disk with room");
        let again = read(File::open(&path).expect("the file")).expect("a trace");
        assert_eq!(check(&again, &events), events.len());
        assert_eq!((again.start, &again.events), (back.start, &back.events));
    }
    let head = "vtrace schema=1 process=0 unix_zero=0 command=\"\"\n";
    for (text, reason) in [
        (
            "kept events=2 lost=0 from=5\n",
            "line 2: 2 kept and 0 lost events are not all before event 5",
        ),
        (
            "kept events=1 lost=4 from=5\n",
            "line 2: text ends before 1 of its kept events",
        ),
        (
            "kept events=1 lost=4 from=5\n5 0 RunEnded outcome=noop\n",
            "line 3: kept event has number 5",
        ),
        (
            "kept events=1 lost=4 from=5\n3 0 RunEnded outcome=noop\n4 0 RunEnded outcome=noop\n",
            "expected 5",
        ),
        (
            "0 0 RunEnded outcome=noop\nkept events=0 lost=4 from=4\n",
            "right after the header",
        ),
        (
            "kept events=0 lost=18446744073709551615 from=18446744073709551615\n",
            "are not all before event",
        ),
    ] {
        let error = assemble(&format!("{head}{text}")).expect_err(text).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_writer_takes_only_events_that_follow() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events = Workload::events(1, 4);
    let path = folder.path().join("t.vtrace");
    let mut writer = TraceWriter::create(&path, &Header::default(), None, &[]).expect("a fresh path");
    writer.push(&events[0]).expect("the first");
    let refused = writer.push(&events[2]);
    assert!(matches!(
        refused,
        Err(WriteError::OutOfOrder {
            found: 2,
            expected: 1
        })
    ));
}

#[test]
fn a_purge_can_be_cut_out() {
    let (events, bytes) = finished(12, 20_000, 200);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let began = events.iter().filter_map(|stamped| match &stamped.event {
        Event::PurgeBegan(e) => Some((stamped.seq, e.purge)),
        _ => None,
    });
    let (from, purge) = began.max().expect("a purge");
    let report =
        cut(Cursor::new(&bytes), &folder.path().join("a"), Range::Purge(purge)).expect("it is there");
    assert_eq!(report.from, from);
    assert!(matches!(&events[report.to.0 as usize].event, Event::PurgeEnded(e) if e.purge == purge));
    let back = read(File::open(folder.path().join("a")).expect("the file")).expect("a trace");
    check(&back, &events);
    let out = folder.path().join("b");
    let refuse = |range| {
        cut(Cursor::new(&bytes), &out, range)
            .expect_err("a bad range")
            .to_string()
    };
    let range = |from, to| Range::Events {
        from: Some(Seq(from)),
        to: Some(Seq(to)),
    };
    assert_eq!(
        refuse(Range::Purge(PurgeId(0))),
        "purge 0 did not begin in the trace"
    );
    assert_eq!(
        refuse(range(9, 3)),
        "range is from event 9 to event 3, which is before it"
    );
    assert_eq!(
        refuse(range(9, 20_000)),
        "event 20000 is not in the trace, its last event is 19999"
    );
    assert!(!out.exists());
}

/// Polls until there is nothing new; a restart begins anew.
fn drain(follower: &mut Follower<File>, events: &mut Vec<Stamped>) -> (u64, Followed) {
    let mut restarts = 0;
    loop {
        match follower.poll().expect("a sound file") {
            Followed::Event(stamped) => events.push(stamped),
            Followed::Restarted => {
                events.clear();
                restarts += 1;
            }
            other => return (restarts, other),
        }
    }
}

#[test]
fn a_follower_sees_what_was_recorded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = Workload::events(21, 60_000);
    let mut random = Random::seeded(3);
    for (name, slots, most) in [
        ("row", None, 5000),
        ("ring", Some(12), 400),
        ("overtaken", Some(8), 20_000),
    ] {
        let path = folder.path().join(name);
        let clock = Clock::manual();
        let recorder = match slots {
            Some(slots) => ring(&path, &clock, slots),
            None => FileRecorder::create(&path, &Header::default(), clock.clone()).expect("a fresh path"),
        };
        let mut follower = Follower::open(File::open(&path).expect("the file")).expect("a header");
        let (mut seen, mut done, mut restarts) = (Vec::new(), 0, 0);
        while done < all.len() {
            let next = (done + random.below(most) as usize).min(all.len());
            record(&recorder, &clock, &all[done..next]);
            done = next;
            let (more, state) = drain(&mut follower, &mut seen);
            restarts += more;
            assert_eq!(state, Followed::Nothing);
            assert_eq!(seen.last().map_or(0, |last| last.seq.0 as usize + 1), done);
            assert_eq!(Naive::of(&seen), Naive::of(&all[..done]), "{name} at {done}");
        }
        recorder.finish(0).expect("a disk with room");
        assert_eq!(drain(&mut follower, &mut seen).1, Followed::Ended);
        assert_eq!(restarts > 0, name == "overtaken", "{name}: {restarts}");
        if restarts == 0 {
            assert_eq!(seen, all);
        }
    }
}

#[test]
fn a_follower_beside_a_fast_writer_ends_with_the_right_state() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.vtrace");
    let all = Workload::events(33, 200_000);
    let clock = Clock::manual();
    let recorder = ring(&path, &clock, 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            record(&recorder, &clock, &all);
            recorder.finish(0).expect("a disk with room");
        });
        let mut follower = Follower::open(File::open(&path).expect("the file")).expect("a header");
        let mut seen = Vec::new();
        while drain(&mut follower, &mut seen).1 != Followed::Ended {
            std::thread::yield_now();
        }
        assert_eq!(Naive::of(&seen), Naive::of(&all));
        assert_eq!(balances(&seen), balances(&all));
    });
}

#[test]
fn a_follower_of_a_damaged_ring_says_so() {
    let (_, bytes) = finished(1, 30_000, 8);
    let kept = (0..bytes.len()).step_by(SLOT).find(|at| bytes[at + 4] == 4);
    let mut bad = bytes.clone();
    bad[kept.expect("it wrapped") + 100] ^= 1;
    let mut follower = Follower::open(Cursor::new(bad)).expect("the header is intact");
    let error = follower.poll().expect_err("a kept block is damaged").to_string();
    assert_eq!(error, "ring has no whole beginning at offset 16384");
}
