//! The command itself: exit codes, messages, and the round trip through text.

use std::path::Path;
use std::process::{Command, Output};

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
end events=4 digest=00000000000000ff
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
    assert_eq!(vramscope(&[verb("verify"), &file]).status.code(), Some(0));

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
