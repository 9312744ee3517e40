//! The command itself: exit codes, messages, and the round trip through text.

use std::path::Path;
use std::process::{Command, Output};

use vramscope::base::clock::Clock;
use vramscope::base::{Bytes, PromptId};
use vramscope::event::{Outcome, PromptBegan, PromptEnded, Record};
use vramscope::trace::{FileRecorder, Header};

fn vramscope(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .arg("trace")
        .args(arguments)
        .output()
        .expect("the command runs")
}

const TEXT: &str = "vtrace schema=1 process=0 unix_zero=0 command=\"demo\"
0 0 NameDefined name=0 text=\"host:0\"
1 5 DeviceOpened device=0 name=0 kind=host total=8192 context=0
2 9 SegmentReserved device=0 segment=0 stream=0 bytes=4096
3 12 RunEnded outcome=complete
end events=4 digest=be2f816eb14b1568
";

#[test]
fn text_to_file_to_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, file) = (folder.path().join("t.txt"), folder.path().join("t.vtrace"));
    std::fs::write(&text, TEXT).expect("a temporary folder");
    let verb = |word| Path::new(word);
    assert_eq!(
        vramscope(&[verb("assemble"), &text, &file]).status.code(),
        Some(0)
    );
    let dumped = vramscope(&[verb("dump"), &file]);
    assert_eq!(
        (
            String::from_utf8_lossy(&dumped.stdout).as_ref(),
            dumped.status.code()
        ),
        (TEXT, Some(0))
    );
    let verified = vramscope(&[verb("verify"), &file]);
    assert_eq!(verified.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&verified.stdout).contains("(checked)"));

    let whole = std::fs::read(&file).expect("the file just made");
    std::fs::write(&file, &whole[..whole.len() - 16384]).expect("a temporary folder");
    let cut = vramscope(&[verb("verify"), &file]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&cut.stdout).contains("truncated"));

    for (path, reason) in [
        (&text, "not a trace"),
        (&folder.path().join("none"), "failed to open"),
    ] {
        let refused = vramscope(&[verb("verify"), path]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(reason));
    }
    let again = vramscope(&[verb("assemble"), &text, &file]);
    assert_eq!(
        again.status.code(),
        Some(2),
        "an existing file is not overwritten"
    );
}

#[test]
fn a_trace_that_contradicts_its_digest_is_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, file) = (folder.path().join("t.txt"), folder.path().join("t.vtrace"));
    std::fs::write(&text, TEXT.replace("total=8192", "total=8193")).expect("a temporary folder");
    let verb = |word| Path::new(word);
    let made = vramscope(&[verb("assemble"), &text, &file]);
    assert_eq!(made.status.code(), Some(0));
    let verified = vramscope(&[verb("verify"), &file]);
    assert_eq!(verified.status.code(), Some(1));
    let told = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(told.contains(", but its events give "), "{told}");
}

/// Ten events that come and go, and two that stay.
fn long_text() -> String {
    let mut text = "vtrace schema=1 process=0 unix_zero=0 command=\"demo\"\n".to_owned();
    text += "0 0 NameDefined name=0 text=\"host:0\"\n1 5 SegmentReserved device=0 segment=0 stream=0 bytes=4096\n";
    for prompt in 0..5 {
        let seq = 2 + 2 * prompt;
        text += &format!("{seq} 9 PromptBegan prompt={prompt} tokens=4\n");
        text += &format!("{} 9 PromptEnded prompt={prompt} outcome=complete\n", seq + 1);
    }
    text + "end events=12 digest=00000000000000ff\n"
}

#[test]
fn a_cut_is_a_trace_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, file) = (folder.path().join("t.txt"), folder.path().join("t.vtrace"));
    let (part, again) = (folder.path().join("part"), folder.path().join("again"));
    std::fs::write(&text, long_text()).expect("a temporary folder");
    let verb = |word| Path::new(word);
    assert_eq!(
        vramscope(&[verb("assemble"), &text, &file]).status.code(),
        Some(0)
    );
    let cut = |from, to| {
        vramscope(&[
            verb("cut"),
            &file,
            &part,
            verb("--from"),
            verb(from),
            verb("--to"),
            verb(to),
        ])
    };
    for (from, to, reason) in [
        ("9", "5", "range is from event 9 to event 5, which is before it"),
        ("9", "50", "event 50 is not in the trace, its last event is 11"),
    ] {
        let refused = cut(from, to);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(reason));
    }
    let made = cut("7", "9");
    assert_eq!(made.status.code(), Some(0));
    let told = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        told.contains("events 7 to 9 (cut there), 3 kept from before, 4 dropped"),
        "{told}"
    );

    let dumped = vramscope(&[verb("dump"), &part]);
    assert_eq!(dumped.status.code(), Some(1), "a part is not the whole");
    let expected = "vtrace schema=1 process=0 unix_zero=0 command=\"demo\"
kept events=3 lost=4 from=7
0 0 NameDefined name=0 text=\"host:0\"
1 5 SegmentReserved device=0 segment=0 stream=0 bytes=4096
6 9 PromptBegan prompt=2 tokens=4
7 9 PromptEnded prompt=2 outcome=complete
8 9 PromptBegan prompt=3 tokens=4
9 9 PromptEnded prompt=3 outcome=complete
cut events=10
";
    assert_eq!(String::from_utf8_lossy(&dumped.stdout), expected);
    std::fs::write(&text, expected).expect("a temporary folder");
    assert_eq!(
        vramscope(&[verb("assemble"), &text, &again]).status.code(),
        Some(0)
    );
    let files = [&part, &again].map(|path| std::fs::read(path).expect("the file just made"));
    assert_eq!(files[0], files[1]);

    let verified = vramscope(&[verb("verify"), &part]);
    let told = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.status.code(), Some(1));
    assert!(
        told.contains("cut: the rest") && told.contains("dropped 4 events of the first 7; kept 3"),
        "{told}"
    );
}

#[test]
fn a_ring_tells_what_it_dropped_and_goes_through_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (header, limit) = (Header::default(), Bytes(128 << 10));
    let ring = FileRecorder::create_ring(&path("ring"), &header, Clock::manual(), limit);
    let ring = ring.expect("a fresh path");
    for prompt in (0..40_000).map(PromptId) {
        ring.record(&PromptBegan { prompt, tokens: 1 }.into());
        let outcome = Outcome::Complete;
        ring.record(&PromptEnded { prompt, outcome }.into());
    }
    let dropped = ring.finish(1).expect("a disk with room").dropped;
    let verb = |word| Path::new(word);
    let verified = vramscope(&[verb("verify"), &path("ring")]);
    let told = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.status.code(), Some(0), "it ran to its end");
    assert!(
        dropped > 0 && told.contains(&format!("dropped {dropped} events of the first")),
        "{told}"
    );
    let dumped = vramscope(&[verb("dump"), &path("ring")]).stdout;
    std::fs::write(path("text"), &dumped).expect("a temporary folder");
    assert_eq!(
        vramscope(&[verb("assemble"), &path("text"), &path("again")])
            .status
            .code(),
        Some(0)
    );
    let again = vramscope(&[verb("dump"), &path("again")]);
    assert!(again.stdout == dumped && again.status.code() == Some(0));
}
