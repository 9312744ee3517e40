//! The tables, and the commands that print them and the findings.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::script;
use vramscope::report::{Row, Times, summarise};
use vramscope::trace::line;

/// One prompt on a pool, a purge that kills under it, and a refused use.
const RUN: &str = r#"
NameDefined name=0 text="host:0"
NameDefined name=1 text="nvfp4_runtime.act_q_pool"
NameDefined name=2 text="gemm.cublas_workspaces"
NameDefined name=3 text="qx"
NameDefined name=4 text="64x64"
NameDefined name=5 text="kitchen-only"
NameDefined name=6 text="nvfp4_gemm"
NameDefined name=7 text="evil\u001b[2J"
DeviceOpened device=0 name=0 kind=host total=1073741824 context=1048576
OwnerRegistered owner=1 name=1 kind=pool cleared_by=2c
OwnerRegistered owner=2 name=2 kind=workspace cleared_by=2c
PoolOpened pool=0 owner=1 stream=0 limit=16777216
PromptBegan prompt=1 tokens=12
SegmentReserved device=0 segment=0 stream=0 bytes=4194304
PoolTaken pool=0 entry=0 outcome=miss
EntryAdded pool=0 entry=0 key=4
BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=2097152 slack=0 stream=0 owner=1 site=3
EntryPartSet entry=0 part=3 buffer=0 generation=0
BufferAllocated buffer=1 generation=0 segment=0 offset=2097152 requested=1000 slack=24 stream=0 owner=2 site=6
CopyIssued launch=0 direction=h2d bytes=4096 uses=[0] stream=0
KernelLaunched launch=1 kernel=6 stream=0 uses=[0,1]
WorkCompleted launch=0 took=1500
WorkCompleted launch=1 took=3000
KernelLaunched launch=2 kernel=7 stream=0 uses=[0]
WorkCompleted launch=2 took=1000
PhaseEnded prompt=1 phase=prefill tokens=12
PromptEnded prompt=1 outcome=complete
PurgeBegan purge=1 profile=5 threshold=1048576 in_flight=0
StageBegan purge=1 stage=3
BufferKilled buffer=0 generation=0 purge=1 stage=3
StageEnded purge=1 stage=3 device=0 claimed=0 allocator_before=2098152 allocator_after=1000 device_before=5242880 device_after=5242880
StageBegan purge=1 stage=2c
OwnerCleared purge=1 stage=2c owner=2 device=0 entries=1 bytes=0
StageEnded purge=1 stage=2c device=0 claimed=0 allocator_before=1000 allocator_after=1000 device_before=5242880 device_after=5242880
PurgeSurvivor purge=1 buffer=1 generation=0 owner=2 holder=host_ref
PurgeEnded purge=1 outcome=partial
PromptBegan prompt=2 tokens=3
PoolTaken pool=0 entry=0 outcome=hit
AccessRefused refusal=StaleBuffer op=6 argument=3 buffer=0 expected=0 found=1 owner=1 graph=- purge=1
PromptEnded prompt=2 outcome=failed
RunEnded outcome=failed
"#;

const TABLES: &str = r#"DEVICES
device          kind           total      context     reserved         peak         live    live peak
host:0          host        1.00 GiB     1.00 MiB     4.00 MiB     4.00 MiB       1000 B     2.00 MiB

SEGMENTS
device          segments         live        slack       cached      pending         held  largest free
host:0                 1       1000 B         24 B     4.00 MiB          0 B          0 B      2.00 MiB

OWNERS
owner                             kind              live    live peak     retained  buffers  allocations  killed
nvfp4_runtime.act_q_pool          pool               0 B     2.00 MiB          0 B        0            1       1
gemm.cublas_workspaces            workspace       1000 B       1000 B          0 B        1            1       0

POOLS
pool                               live   dead   torn      hits    misses  rebuilt        bytes         gone         peak        limit
nvfp4_runtime.act_q_pool              0      1      0         1         1        0          0 B     2.00 MiB     2.00 MiB    16.00 MiB

PURGES
purge#1 profile kitchen-only: partial, buffers killed 1 (2.00 MiB), work in flight 0
stage   device              claimed    allocator       device  killed
3       host:0                  0 B     2.00 MiB          0 B       1
2c      host:0                  0 B          0 B          0 B       0

survivors of                      kept by         buffers        bytes
gemm.cublas_workspaces            host_ref              1     1.00 KiB

KERNELS
kernel                             launches  in graphs      timed
evil\u{1b}[2J                             1          0          1
nvfp4_gemm                                1          0          1

COPIES
copies                                count        bytes
h2d                                       1     4.00 KiB

PROMPTS
prompt  phase       tokens  prompt ended
1       prefill         12  complete
2       -                -  failed

record: 41 events, run ended: failed, 0 anomalies, 0 in flight, 1 refused (StaleBuffer)"#;

#[test]
fn the_summary_without_times_is_the_same_each_run() {
    let summary = summarise(&script::fold(&script::events(RUN)));
    let text = summary.to_text(Times::Hidden);
    let without_digest = text.split(", digest").next().unwrap_or("");
    assert_eq!(without_digest, TABLES, "{text}");
    assert!(text.is_ascii());
    assert!(summary.to_string().is_ascii() && summary.to_string().contains("3.00 us"));
}

#[test]
fn shares_means_and_rates_are_computed_once() {
    let summary = summarise(&script::fold(&script::events(RUN)));
    let first = &summary.kernels[0];
    assert_eq!((first.share_permille, first.mean.0, first.timed), (750, 3000, 1));
    assert!(first.to_string().contains("75.0%"));
    assert!(!first.line(Times::Hidden).contains('%'));
    let phase = &summary.phases[0];
    let seconds = phase.took.seconds();
    assert_eq!(phase.tokens_per_second, Some(12.0 / seconds));
}

#[test]
fn any_state_has_tables() {
    for seed in 0..100 {
        for events in [common::events(seed, 200), common::crowded(seed, 200)] {
            let text = summarise(&script::fold(&events)).to_string();
            assert!(text.is_ascii());
        }
    }
}

fn vramscope(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(arguments)
        .arg(file)
        .output()
        .expect("the command runs")
}

fn text_form(end: bool) -> String {
    let events = script::events(RUN);
    let mut text = "vtrace schema=1 process=0 unix_zero=0 command=\"demo\"\n".to_owned();
    for event in &events {
        text += &line(event);
        text.push('\n');
    }
    if end {
        text += &format!("end events={} digest=0000000000000000\n", events.len());
    }
    text
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn diagnose_reads_both_forms_and_its_exit_code_tells() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, file) = (folder.path().join("t.txt"), folder.path().join("t.vtrace"));
    std::fs::write(&text, text_form(true)).expect("a temporary folder");
    let assembled = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(["trace", "assemble"])
        .args([&text, &file])
        .status()
        .expect("the command runs");
    assert!(assembled.success());
    let of_text = vramscope(&["diagnose"], &text);
    let of_file = vramscope(&["diagnose"], &file);
    assert_eq!((of_text.status.code(), of_file.status.code()), (Some(1), Some(1)));
    assert_eq!(out(&of_text), out(&of_file));
    assert!(out(&of_text).starts_with("error STALE_POOL_ENTRY (2.00 MiB, confidence high)\n"));
    assert!(
        out(&of_text)
            .contains("purge#1 stage 2c cleared gemm.cublas_workspaces, not nvfp4_runtime.act_q_pool")
    );

    let whole = std::fs::read(&file).expect("the file just made");
    std::fs::write(&file, &whole[..whole.len() - 16384]).expect("a temporary folder");
    let cut = vramscope(&["diagnose"], &file);
    assert_eq!(cut.status.code(), Some(1));
    assert_eq!(
        out(&cut),
        format!("truncated: the run was cut off or goes on\n\n{}", out(&of_file))
    );

    let healthy = folder.path().join("healthy.txt");
    std::fs::write(
        &healthy,
        "vtrace schema=1 process=0 unix_zero=0 command=\"\"\n0 0 RunEnded outcome=complete\nend events=1 digest=0\n",
    )
    .expect("a temporary folder");
    let clear = vramscope(&["diagnose"], &healthy);
    assert_eq!(clear.status.code(), Some(0));
    assert!(out(&clear).starts_with("clear: STALE_POOL_ENTRY, "));
}

#[test]
fn diagnose_as_json_has_a_schema_version_and_the_chain() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = folder.path().join("t.txt");
    std::fs::write(&text, text_form(false)).expect("a temporary folder");
    let output = vramscope(&["diagnose", "--json", "--fail-on", "error"], &text);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["completeness"], "truncated");
    let finding = &json["findings"][0];
    assert_eq!(finding["code"], "STALE_POOL_ENTRY");
    assert_eq!(finding["bytes"], 2_097_152);
    let last = finding["chain"]
        .as_array()
        .and_then(|chain| chain.last())
        .expect("a chain");
    assert_eq!(last["seq"], 38);
    assert_eq!(json["answers"].as_array().map(Vec::len), Some(9));
    let shown = vramscope(&["diagnose"], &text);
    assert!(out(&shown).starts_with("truncated: "));
}

#[test]
fn report_prints_tables_and_says_whether_the_trace_is_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = folder.path().join("t.txt");
    std::fs::write(&text, text_form(true)).expect("a temporary folder");
    let whole = vramscope(&["report", "--no-times"], &text);
    assert_eq!(whole.status.code(), Some(0));
    assert!(out(&whole).starts_with("DEVICES\n") && out(&whole).contains("FINDINGS\nerror STALE_POOL_ENTRY"));
    let output = vramscope(&["report", "--json"], &text);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["pools"][0]["entries_dead"], 1);
    assert_eq!(json["purges"][0]["stages"][0]["allocator_bytes"], 2_097_152);
    std::fs::write(&text, text_form(false)).expect("a temporary folder");
    assert_eq!(vramscope(&["report"], &text).status.code(), Some(1));
}

#[test]
fn what_is_not_a_trace_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("t");
    for (content, reason) in [
        ("", "not a trace"),
        ("hello", "not a trace"),
        ("vtrace schema=1\n", "line 1: expected `process=`"),
        (
            "vtrace schema=1 process=0 unix_zero=0 command=\"\"\n5 0 RunEnded outcome=complete\n",
            "line 2: event has number 5",
        ),
    ] {
        std::fs::write(&file, content).expect("a temporary folder");
        for command in ["diagnose", "report"] {
            let refused = vramscope(&[command], &file);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
        }
    }
    let missing = vramscope(&["diagnose"], &folder.path().join("none"));
    assert_eq!(missing.status.code(), Some(2));
}
