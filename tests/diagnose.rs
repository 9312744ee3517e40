//! Every rule: what fires it, the near miss that must not, what is too early, what it cannot tell.

mod common;

use common::script;
use vramscope::diagnose::{Answer, Code, Confidence, Diagnosis, Finding, Severity, Thresholds, diagnose};

fn run(text: &str) -> Diagnosis {
    diagnose(&script::fold(&script::events(text)), &Thresholds::default())
}

/// One rule's answer in words: `clear`, `too early: why`, `cannot tell: why`, or a line `severity headline` a finding.
fn check(code: Code, parts: &[&str], expect: &str) {
    let diagnosis = run(&parts.join("\n"));
    let said = match diagnosis.answer(code).expect("every rule answers") {
        Answer::Clear => "clear".to_owned(),
        Answer::TooEarly(why) => format!("too early: {why}"),
        Answer::CannotTell(why) => format!("cannot tell: {why}"),
        Answer::Found { findings, .. } => {
            let lines = findings
                .iter()
                .map(|finding| format!("{} {}", finding.severity, finding.headline));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    assert_eq!(said, expect);
}

/// The only finding, and its chain as `seq text` lines.
fn chain(parts: &[&str], expect: &[&str]) -> Finding {
    let mut findings = run(&parts.join("\n")).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = findings.remove(0);
    let steps: Vec<String> = finding
        .chain
        .iter()
        .map(|step| format!("{} {}", step.seq, step.text))
        .collect();
    assert_eq!(steps, expect);
    assert!(
        finding
            .chain
            .iter()
            .all(|step| finding.evidence.contains(&step.seq))
    );
    assert!(finding.evidence.is_sorted() && !finding.next_step.is_empty());
    finding
}

const START: &str = r#"
NameDefined name=0 text="host:0"
NameDefined name=1 text="nvfp4_runtime.act_q_pool"
NameDefined name=2 text="gemm.cublas_workspaces"
NameDefined name=3 text="model.weights"
NameDefined name=4 text="qx"
NameDefined name=5 text="scales"
NameDefined name=6 text="64x64"
NameDefined name=7 text="custom"
NameDefined name=8 text="nvfp4_gemm"
NameDefined name=9 text="decode"
DeviceOpened device=0 name=0 kind=host total=1073741824 context=0
OwnerRegistered owner=1 name=1 kind=pool cleared_by=2c
OwnerRegistered owner=2 name=2 kind=workspace cleared_by=2c
OwnerRegistered owner=3 name=3 kind=model cleared_by=1
SegmentReserved device=0 segment=0 stream=0 bytes=4194304
"#;

const FILL: &str = "
PoolOpened pool=0 owner=1 stream=0 limit=9999999
EntryAdded pool=0 entry=0 key=6
BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=2097152 slack=0 stream=0 owner=1 site=4
EntryPartSet entry=0 part=4 buffer=0 generation=0
";

const SCALES: &str = "
BufferAllocated buffer=1 generation=0 segment=0 offset=2097152 requested=327680 slack=0 stream=0 owner=1 site=5
EntryPartSet entry=0 part=5 buffer=1 generation=0
";

const KILL: &str = "
PurgeBegan purge=1 profile=7 threshold=1048576 in_flight=0
StageBegan purge=1 stage=3
BufferKilled buffer=0 generation=0 purge=1 stage=3
";

/// The released bug: the stage clears the workspaces only.
const WORKSPACES_ONLY: &str = "
StageBegan purge=1 stage=2c
OwnerCleared purge=1 stage=2c owner=2 device=0 entries=0 bytes=0
StageEnded purge=1 stage=2c device=0 claimed=0 allocator_before=0 allocator_after=0 device_before=4194304 device_after=4194304
PurgeEnded purge=1 outcome=complete
";

const USE: &str = "
PoolTaken pool=0 entry=0 outcome=hit
AccessRefused refusal=StaleBuffer op=8 argument=4 buffer=0 expected=0 found=1 owner=1 graph=- purge=1
RunEnded outcome=failed
";

const LOSS: &str = "Gap lost=40 cause=ring";

#[test]
fn stale_pool_entry_fires_on_use_with_the_whole_chain() {
    let finding = chain(
        &[START, FILL, KILL, WORKSPACES_ONLY, USE],
        &[
            "16 nvfp4_runtime.act_q_pool added the entry of key `64x64`",
            "17 nvfp4_runtime.act_q_pool allocated buffer 0 generation 0 for `qx`, 2.00 MiB",
            "18 it became part `qx` of that entry: buffer 0 generation 0, 2.00 MiB",
            "21 purge#1 stage 3 killed buffer 0 generation 0 under pool entry 0, taking all of 1.00 MiB or more",
            "22 purge#1 stage 2c cleared gemm.cublas_workspaces, not nvfp4_runtime.act_q_pool, whose duty stage it is",
            "27 `nvfp4_gemm` was refused (StaleBuffer): its argument `qx` is buffer 0 generation 0, the slot has generation 1",
        ],
    );
    assert_eq!(
        (
            finding.code,
            finding.severity,
            finding.confidence,
            finding.bytes.0
        ),
        (Code::StalePoolEntry, Severity::Error, Confidence::High, 2 << 20)
    );
    assert_eq!(
        finding.headline,
        "`nvfp4_gemm` was given buffer 0 generation 0 of nvfp4_runtime.act_q_pool entry `64x64`, which purge#1 stage 3 had killed"
    );
}

#[test]
fn stale_pool_entry_warns_before_the_use() {
    let parts = [START, FILL, KILL, WORKSPACES_ONLY, "RunEnded outcome=complete"];
    check(
        Code::StalePoolEntry,
        &parts,
        "warning nvfp4_runtime.act_q_pool still has 1 dead entry that purge#1 stage 3 killed; the next use will fail",
    );
}

#[test]
fn stale_pool_entry_informs_where_the_run_rebuilds() {
    let names = "NameDefined name=20 text=\"stale\"\nNameDefined name=21 text=\"rebuild\"\nConfigNoted key=20 value=21";
    check(
        Code::StalePoolEntry,
        &[START, names, FILL, KILL, WORKSPACES_ONLY],
        "info nvfp4_runtime.act_q_pool still has 1 dead entry that purge#1 stage 3 killed; the next use will build anew",
    );
}

#[test]
fn stale_pool_entry_is_silent_where_no_purge_did_it() {
    let code = Code::StalePoolEntry;
    let released = "
        ReleaseRequested buffer=0 generation=0 cause=dropped
        ReleaseCompleted buffer=0 generation=0
        BufferAllocated buffer=0 generation=1 segment=0 offset=0 requested=64 slack=0 stream=0 owner=1 site=4
        AccessRefused refusal=StaleBuffer op=8 argument=4 buffer=0 expected=0 found=1 owner=1 graph=- purge=-
    ";
    check(code, &[START, FILL, released], "clear");
    let device = "AccessRefused refusal=WrongDevice op=8 argument=4 buffer=0 expected=0 found=0 owner=1 graph=- purge=-";
    check(code, &[START, FILL, device], "clear");
    let cleared = "EntryDropped entry=0 cause=cleared";
    check(code, &[START, FILL, KILL, cleared, WORKSPACES_ONLY], "clear");
}

#[test]
fn stale_pool_entry_waits_for_the_purge() {
    check(
        Code::StalePoolEntry,
        &[START, FILL, KILL],
        "too early: purge#1 is still going on",
    );
}

#[test]
fn stale_pool_entry_cannot_tell_without_the_kill() {
    let used = "AccessRefused refusal=StaleBuffer op=8 argument=4 buffer=0 expected=0 found=1 owner=1 graph=- purge=-";
    check(
        Code::StalePoolEntry,
        &[LOSS, START, used],
        "cannot tell: how buffer 0 generation 0 ended is not in the record: 40 events are missing from the record",
    );
    check(
        Code::StalePoolEntry,
        &[LOSS, START],
        "cannot tell: 40 events are missing from the record",
    );
}

#[test]
fn a_hole_in_the_numbers_is_missing_knowledge_and_dropped_details_are_not() {
    let hole = "cannot tell: event numbers are missing from the record";
    check(Code::StaleGraph, &[START, "@900 RunEnded outcome=complete"], hole);
    let details = "Gap lost=9 cause=pressure";
    check(Code::StaleGraph, &[START, details], "clear");
}

#[test]
fn stale_pool_entry_is_less_sure_where_only_the_runtime_names_the_purge() {
    let findings = run(&[START, USE].join("\n")).findings;
    let sure: Vec<_> = findings
        .iter()
        .map(|finding| (finding.severity, finding.confidence))
        .collect();
    assert_eq!(sure, [(Severity::Error, Confidence::Low)]);
}

#[test]
fn stale_pool_entry_blames_the_right_duty() {
    let none = "PurgeEnded purge=1 outcome=complete";
    let finding = run(&[START, FILL, KILL, none, USE].join("\n")).findings.remove(0);
    let said = |finding: &Finding, text: &str| finding.chain.iter().any(|step| step.text.contains(text));
    assert!(said(
        &finding,
        "purge#1 had no stage 2c, which clears nvfp4_runtime.act_q_pool"
    ));
    let lied = WORKSPACES_ONLY.replace("owner=2 device=0 entries=0", "owner=1 device=0 entries=3");
    let finding = run(&[START, FILL, KILL, &lied, USE].join("\n"))
        .findings
        .remove(0);
    assert!(said(
        &finding,
        "stage 2c had nvfp4_runtime.act_q_pool clear 3 entries, not this one"
    ));
    let early = "PurgeBegan purge=1 profile=7 threshold=1 in_flight=0\nStageBegan purge=1 stage=2c";
    let kill = KILL.replace("PurgeBegan purge=1 profile=7 threshold=1048576 in_flight=0", "");
    let finding = run(&[START, FILL, early, &kill, none, USE].join("\n"))
        .findings
        .remove(0);
    assert!(said(&finding, "stage 2c ran before the kill, not after it"));
}

const TORN_USE: &str = "
PoolTaken pool=0 entry=0 outcome=hit
AccessRefused refusal=TornEntry op=8 argument=4 buffer=0 expected=0 found=1 owner=1 graph=- purge=1
RunEnded outcome=failed
";

#[test]
fn torn_pool_entry_fires_and_says_which_half() {
    check(
        Code::TornPoolEntry,
        &[START, FILL, SCALES, KILL, WORKSPACES_ONLY, TORN_USE],
        "error `nvfp4_gemm` was given half an entry (`qx` dead at 2.00 MiB, `scales` alive at 320.00 KiB; \
         the threshold was 1.00 MiB) of nvfp4_runtime.act_q_pool entry `64x64`, which purge#1 stage 3 had killed",
    );
    check(
        Code::TornPoolEntry,
        &[START, FILL, SCALES, KILL, WORKSPACES_ONLY],
        "warning nvfp4_runtime.act_q_pool still has 1 torn entry that purge#1 stage 3 killed; the next use will fail",
    );
}

#[test]
fn torn_pool_entry_is_silent_on_an_entry_that_died_whole() {
    let both = "BufferKilled buffer=1 generation=0 purge=1 stage=3";
    let parts = [START, FILL, SCALES, KILL, both, WORKSPACES_ONLY];
    check(Code::TornPoolEntry, &parts, "clear");
    assert_eq!(run(&parts.join("\n")).findings[0].code, Code::StalePoolEntry);
}

#[test]
fn torn_pool_entry_waits_for_the_purge() {
    check(
        Code::TornPoolEntry,
        &[START, FILL, SCALES, KILL],
        "too early: purge#1 is still going on",
    );
}

#[test]
fn torn_pool_entry_cannot_tell_with_events_missing() {
    let missing = "cannot tell: 40 events are missing from the record";
    check(Code::TornPoolEntry, &[LOSS, START, FILL, SCALES], missing);
}

const CAPTURE: &str = "
CaptureBegan graph=5 stream=0 key=9
GraphBaked graph=5 buffer=0 generation=0 node=17 argument=4
CaptureEnded graph=5 nodes=30 outcome=complete
GraphReplayed graph=5 launch=1
WorkCompleted launch=1 took=9
";

#[test]
fn stale_graph_fires_on_replay() {
    let drop_entry = "EntryDropped entry=0 cause=cleared";
    let replay = "AccessRefused refusal=StaleGraph op=9 argument=4 buffer=0 expected=0 found=1 owner=1 graph=5 purge=1";
    let finding = chain(
        &[START, FILL, CAPTURE, KILL, drop_entry, WORKSPACES_ONLY, replay],
        &[
            "17 nvfp4_runtime.act_q_pool allocated buffer 0 generation 0 for `qx`, 2.00 MiB",
            "19 capture of graph 5 `decode` began",
            "20 node 17 baked the address of buffer 0 generation 0 as `qx`",
            "26 purge#1 stage 3 killed buffer 0 generation 0 under pool entry 0 and 1 graph, taking all of 1.00 MiB or more",
            "28 purge#1 stage 2c cleared gemm.cublas_workspaces, not nvfp4_runtime.act_q_pool, whose duty stage it is",
            "32 `decode` was refused (StaleGraph): its argument `qx` is buffer 0 generation 0, the slot has generation 1",
        ],
    );
    assert_eq!(
        finding.headline,
        "replay refused: node 17 of graph 5 `decode` baked buffer 0 generation 0, which purge#1 stage 3 had killed; \
         the slot has generation 1"
    );
}

#[test]
fn stale_graph_warns_before_the_replay() {
    let drop_entry = "EntryDropped entry=0 cause=cleared";
    check(
        Code::StaleGraph,
        &[START, FILL, CAPTURE, KILL, drop_entry, WORKSPACES_ONLY],
        "warning graph 5 `decode` outlived purge#1 stage 3, which killed 1 of its buffers; its next replay will be refused",
    );
}

#[test]
fn stale_graph_is_silent_on_dropped_graphs_and_on_held_buffers() {
    let dropped = "GraphDropped graph=5 cause=cleared";
    check(
        Code::StaleGraph,
        &[START, FILL, CAPTURE, dropped, KILL, WORKSPACES_ONLY],
        "clear",
    );
    let held = "
        ReleaseRequested buffer=0 generation=0 cause=evicted
        BufferHeld buffer=0 generation=0 graph=5
        GraphReplayed graph=5 launch=2
    ";
    check(Code::StaleGraph, &[START, FILL, CAPTURE, held], "clear");
}

#[test]
fn stale_graph_waits_for_the_purge() {
    let parts = [START, FILL, CAPTURE, KILL];
    check(Code::StaleGraph, &parts, "too early: purge#1 is still going on");
}

#[test]
fn stale_graph_cannot_tell_with_events_missing() {
    let missing = "cannot tell: 40 events are missing from the record";
    check(Code::StaleGraph, &[LOSS, START, FILL], missing);
}

const WORKSPACE: &str = "
BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=2097152 slack=0 stream=0 owner=2 site=9
";
const NO_OWNER_CACHES: &str = "PurgeEnded purge=1 outcome=complete";

#[test]
fn stale_workspace_fires() {
    let used = "AccessRefused refusal=StaleBuffer op=8 argument=9 buffer=0 expected=0 found=1 owner=2 graph=- purge=1";
    let parts = [START, WORKSPACE, KILL, NO_OWNER_CACHES, used];
    check(
        Code::StaleWorkspace,
        &parts,
        "error `nvfp4_gemm` was given buffer 0 generation 0 of gemm.cublas_workspaces, which purge#1 stage 3 had killed",
    );
    check(Code::StalePoolEntry, &parts, "clear");
}

#[test]
fn stale_workspace_is_silent_on_pools_and_on_other_refusals() {
    check(
        Code::StaleWorkspace,
        &[START, FILL, KILL, WORKSPACES_ONLY, USE],
        "clear",
    );
    let small =
        "AccessRefused refusal=TooSmall op=8 argument=9 buffer=0 expected=0 found=0 owner=2 graph=- purge=-";
    check(Code::StaleWorkspace, &[START, WORKSPACE, small], "clear");
}

#[test]
fn stale_workspace_waits_for_the_purge() {
    let parts = [START, WORKSPACE, KILL];
    check(
        Code::StaleWorkspace,
        &parts,
        "too early: purge#1 is still going on",
    );
}

#[test]
fn stale_workspace_cannot_tell_with_events_missing() {
    let missing = "cannot tell: 40 events are missing from the record";
    check(Code::StaleWorkspace, &[LOSS, START, WORKSPACE], missing);
}

/// A purge of one stage: claim, books before and after, device before and after.
fn purge(claim: u64, books: (u64, u64), device: (u64, u64)) -> String {
    format!(
        "PurgeBegan purge=1 profile=7 threshold=1048576 in_flight=0
        StageBegan purge=1 stage=2c
        OwnerCleared purge=1 stage=2c owner=1 device=0 entries=4 bytes={claim}
        StageEnded purge=1 stage=2c device=0 claimed={claim} allocator_before={} allocator_after={} device_before={} device_after={}
        StageBegan purge=1 stage=return
        StageEnded purge=1 stage=return device=0 claimed=0 allocator_before={} allocator_after={} device_before={} device_after={}",
        books.0, books.1, device.0, device.0, books.1, books.1, device.0, device.1
    )
}

#[test]
fn purge_ineffective_fires_where_the_books_disagree() {
    let lie = purge(38 << 20, (40 << 20, 30 << 20), (64 << 20, 54 << 20));
    let survivor = "
        BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=2097152 slack=0 stream=0 owner=1 site=4
        PurgeSurvivor purge=1 buffer=0 generation=0 owner=1 holder=pool
        PurgeEnded purge=1 outcome=partial
    ";
    let finding = chain(
        &[START, &lie, survivor],
        &[
            "18 purge#1 stage 2c: claimed 38.00 MiB, allocator 10.00 MiB, device 0 B",
            "20 purge#1 stage return: claimed 0 B, allocator 0 B, device 10.00 MiB",
            "22 1 survivor of nvfp4_runtime.act_q_pool, 2.00 MiB, kept by pool",
        ],
    );
    assert_eq!(
        (finding.severity, finding.headline.as_str()),
        (
            Severity::Error,
            "purge#1 claims 38.00 MiB on host:0; the allocator's books miss 28.00 MiB of it (allocator 10.00 MiB, device 10.00 MiB)"
        )
    );
}

#[test]
fn purge_ineffective_fires_where_the_device_got_nothing() {
    let stuck = purge(10 << 20, (40 << 20, 30 << 20), (64 << 20, 64 << 20));
    let returned = "SegmentReturned segment=0 cause=purge";
    check(
        Code::PurgeIneffective,
        &[START, returned, &stuck, NO_OWNER_CACHES],
        "warning purge#1 claims 10.00 MiB on host:0; the device misses 10.00 MiB of it (allocator 10.00 MiB, device 0 B)",
    );
}

#[test]
fn purge_ineffective_fires_where_an_owner_was_left_alone() {
    let survivor = "
        BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=2097152 slack=0 stream=0 owner=1 site=4
        PurgeBegan purge=1 profile=7 threshold=1048576 in_flight=0
        StageBegan purge=1 stage=2c
        OwnerCleared purge=1 stage=2c owner=2 device=0 entries=0 bytes=0
        StageEnded purge=1 stage=2c device=0 claimed=0 allocator_before=1 allocator_after=1 device_before=1 device_after=1
        PurgeSurvivor purge=1 buffer=0 generation=0 owner=1 holder=pool
        PurgeEnded purge=1 outcome=partial
    ";
    let left = "warning purge#1 stage 2c left nvfp4_runtime.act_q_pool alone, which keeps 2.00 MiB";
    check(Code::PurgeIneffective, &[START, survivor], left);
    let selective = START.replace("custom", "selective");
    check(Code::PurgeIneffective, &[&selective, survivor], "clear");
}

#[test]
fn purge_ineffective_is_silent_on_nothing_and_on_rounding() {
    let idle = purge(0, (1 << 20, 1 << 20), (4 << 20, 4 << 20));
    check(Code::PurgeIneffective, &[START, &idle, NO_OWNER_CACHES], "clear");
    let rounding = purge((10 << 20) + 500, (40 << 20, 30 << 20), (64 << 20, 54 << 20));
    check(
        Code::PurgeIneffective,
        &[START, &rounding, NO_OWNER_CACHES],
        "clear",
    );
    // The device keeps what a live buffer pins.
    let pin = "BufferAllocated buffer=9 generation=0 segment=0 offset=0 requested=64 slack=0 stream=0 owner=1 site=4";
    let pinned = purge(2 << 20, (40 << 20, 38 << 20), (64 << 20, 64 << 20));
    check(
        Code::PurgeIneffective,
        &[START, pin, &pinned, NO_OWNER_CACHES],
        "clear",
    );
}

#[test]
fn purge_ineffective_waits_for_the_end() {
    let lie = purge(38 << 20, (40 << 20, 30 << 20), (64 << 20, 54 << 20));
    let early = "too early: purge#1 is still going on";
    check(Code::PurgeIneffective, &[START, &lie], early);
}

#[test]
fn purge_ineffective_cannot_tell_without_measurements_or_an_end() {
    let lie = purge(38 << 20, (40 << 20, 30 << 20), (64 << 20, 54 << 20));
    check(
        Code::PurgeIneffective,
        &[START, &lie, "RunEnded outcome=failed"],
        "cannot tell: purge#1 has no end in the record",
    );
    let bare: Vec<&str> = lie.lines().filter(|line| !line.contains("StageEnded")).collect();
    check(
        Code::PurgeIneffective,
        &[START, &bare.join("\n"), NO_OWNER_CACHES],
        "cannot tell: purge#1 stage 2c has claims and no measurement",
    );
}

const FLIGHT: &str = "KernelLaunched launch=7 kernel=8 stream=2 uses=[]";

#[test]
fn purge_during_execution_fires_and_names_the_work() {
    let busy = KILL.replace("in_flight=0", "in_flight=1");
    let parts = [
        START,
        FILL,
        FLIGHT,
        &busy,
        "EntryDropped entry=0 cause=cleared",
        WORKSPACES_ONLY,
    ];
    let finding = chain(
        &parts,
        &[
            "19 launch 7 (kernel nvfp4_gemm) on stream 2 began",
            "20 purge#1 began with 1 in flight",
            "21 stage 3 killed 1 buffer",
        ],
    );
    assert_eq!(
        (finding.severity, finding.headline.as_str()),
        (
            Severity::Error,
            "purge#1 ran while 1 piece of work was in flight, and killed 1 buffer"
        )
    );
    check(
        Code::PurgeDuringExecution,
        &[START, "PurgeRefused purge=1 in_flight=3"],
        "info purge#1 was refused, since 3 pieces of work were in flight",
    );
}

#[test]
fn purge_during_execution_is_silent_on_an_idle_device() {
    let done = "WorkCompleted launch=7 took=5";
    check(
        Code::PurgeDuringExecution,
        &[START, FILL, FLIGHT, done, KILL],
        "clear",
    );
}

#[test]
fn purge_during_execution_waits_for_a_purge() {
    check(
        Code::PurgeDuringExecution,
        &[START, FLIGHT],
        "too early: no purge has begun",
    );
}

#[test]
fn purge_during_execution_cannot_tell_without_the_beginning() {
    check(
        Code::PurgeDuringExecution,
        &[
            START,
            "StageBegan purge=4 stage=3",
            "PurgeEnded purge=4 outcome=complete",
        ],
        "cannot tell: the beginning of purge#4 is not in the record",
    );
}

#[test]
fn cached_not_returned_fires_on_empty_segments_and_on_large_pinned_ones() {
    let idle = purge(0, (0, 0), (4 << 20, 4 << 20));
    check(
        Code::CachedNotReturned,
        &[START, &idle, NO_OWNER_CACHES],
        "warning 1 segment without any buffer (4.00 MiB) stayed on host:0 after purge#1",
    );
    let large = START.replace("bytes=4194304", "bytes=268435456");
    let pin = "
        BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=512 slack=0 stream=0 owner=3 site=4
    ";
    let survivor = "PurgeSurvivor purge=1 buffer=0 generation=0 owner=3 holder=model";
    let parts = [&large, pin, &idle, survivor, NO_OWNER_CACHES];
    check(
        Code::CachedNotReturned,
        &parts,
        "info 256.00 MiB are free on host:0 after purge#1, but buffers pin 1 segment",
    );
    let said = run(&parts.join("\n")).findings.remove(0);
    assert!(
        said.chain
            .iter()
            .any(|step| step.text == "model.weights pins 1 segment")
    );
}

#[test]
fn cached_not_returned_is_silent_on_small_pins_and_where_nothing_was_promised() {
    let idle = purge(0, (0, 0), (4 << 20, 4 << 20));
    check(
        Code::CachedNotReturned,
        &[START, WORKSPACE, &idle, NO_OWNER_CACHES],
        "clear",
    );
    check(
        Code::CachedNotReturned,
        &[START, FILL, KILL, NO_OWNER_CACHES],
        "clear",
    );
}

#[test]
fn cached_not_returned_waits_for_the_end() {
    let idle = purge(0, (0, 0), (4 << 20, 4 << 20));
    let early = "too early: purge#1 is still going on";
    check(Code::CachedNotReturned, &[START, &idle], early);
}

#[test]
fn cached_not_returned_cannot_tell_with_events_missing() {
    let idle = purge(0, (0, 0), (4 << 20, 4 << 20));
    check(
        Code::CachedNotReturned,
        &[LOSS, START, &idle, NO_OWNER_CACHES],
        "cannot tell: 40 events are missing from the record",
    );
}

const MODEL: &str = "
BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=1048576 slack=0 stream=0 owner=3 site=4
BufferAllocated buffer=1 generation=0 segment=0 offset=1048576 requested=1048576 slack=0 stream=0 owner=3 site=5
ModelLoaded model=3
";
const HALF_GONE: &str = "
ReleaseRequested buffer=0 generation=0 cause=unloaded
ReleaseCompleted buffer=0 generation=0
ModelUnloaded model=3
";

#[test]
fn retained_after_unload_fires_and_names_the_holder() {
    let retained = |holder: &str| {
        format!("warning 1 buffer of model.weights (1.00 MiB) outlived its unload, kept by {holder}")
    };
    let code = Code::RetainedAfterUnload;
    check(code, &[START, MODEL, HALF_GONE], &retained("unknown"));
    let held = "
        ReleaseRequested buffer=1 generation=0 cause=unloaded
        BufferHeld buffer=1 generation=0 graph=5
    ";
    check(code, &[START, MODEL, HALF_GONE, held], &retained("graph 5"));
    let survivor = "
        PurgeBegan purge=1 profile=7 threshold=1 in_flight=0
        PurgeSurvivor purge=1 buffer=1 generation=0 owner=3 holder=host_ref
        PurgeEnded purge=1 outcome=partial
    ";
    check(code, &[START, MODEL, HALF_GONE, survivor], &retained("host_ref"));
}

#[test]
fn retained_after_unload_is_silent_on_a_new_load() {
    let rest = "
        ReleaseRequested buffer=1 generation=0 cause=unloaded
        ReleaseCompleted buffer=1 generation=0
        BufferAllocated buffer=0 generation=1 segment=0 offset=0 requested=1048576 slack=0 stream=0 owner=3 site=4
        ModelLoaded model=3
    ";
    check(
        Code::RetainedAfterUnload,
        &[START, MODEL, HALF_GONE, rest],
        "clear",
    );
}

#[test]
fn retained_after_unload_waits_for_streams_and_purges() {
    let early = "too early: releases of model.weights are not complete";
    let pending = "ReleaseRequested buffer=1 generation=0 cause=unloaded";
    check(
        Code::RetainedAfterUnload,
        &[START, MODEL, HALF_GONE, pending],
        early,
    );
    let purge = "PurgeBegan purge=1 profile=7 threshold=1 in_flight=0";
    check(
        Code::RetainedAfterUnload,
        &[START, MODEL, purge, HALF_GONE],
        early,
    );
}

#[test]
fn retained_after_unload_cannot_tell_without_the_load() {
    check(
        Code::RetainedAfterUnload,
        &[START, "ModelUnloaded model=3"],
        "cannot tell: the load of model.weights is not in the record, so neither is all of its memory",
    );
}

const SOURCE: &str = "
DeviceOpened device=1 name=9 kind=pinned total=1073741824 context=0
SegmentReserved device=1 segment=1 stream=0 bytes=1048576
BufferAllocated buffer=4 generation=0 segment=1 offset=0 requested=65536 slack=0 stream=0 owner=3 site=4
ReloadSourceKept model=3 tensor=4 buffer=4 generation=0
ModelLoaded model=3
";

#[test]
fn reload_source_destroyed_fires_on_a_kill_and_on_a_careless_drop() {
    let kill = "
        PurgeBegan purge=1 profile=7 threshold=1 in_flight=0
        StageBegan purge=1 stage=0
        BufferKilled buffer=4 generation=0 purge=1 stage=0
        PurgeEnded purge=1 outcome=complete
    ";
    let gone = "gone: 1 host copy (64.00 KiB) that the next load of model.weights reads: qx";
    let finding = chain(
        &[START, SOURCE, kill],
        &[
            "18 a host copy of `qx` became what the next load of model.weights reads",
            "22 `qx`: purge#1 stage 0 killed it, 64.00 KiB",
        ],
    );
    assert_eq!(
        (finding.severity, finding.headline.as_str()),
        (Severity::Error, gone)
    );
    let dropped = "
        ReleaseRequested buffer=4 generation=0 cause=dropped
        ReleaseCompleted buffer=4 generation=0
        PromptBegan prompt=2 tokens=4
    ";
    check(
        Code::ReloadSourceDestroyed,
        &[START, SOURCE, dropped],
        &format!("warning {gone}"),
    );
}

#[test]
fn reload_source_destroyed_is_silent_at_shutdown_and_after_a_reload() {
    let release = |cause: &str| {
        format!(
            "ReleaseRequested buffer=4 generation=0 cause={cause}\nReleaseCompleted buffer=4 generation=0"
        )
    };
    let code = Code::ReloadSourceDestroyed;
    check(
        code,
        &[START, SOURCE, &release("shutdown"), "RunEnded outcome=complete"],
        "clear",
    );
    check(
        code,
        &[START, SOURCE, &release("dropped"), "RunEnded outcome=complete"],
        "clear",
    );
    check(
        code,
        &[START, SOURCE, &release("evicted"), "ModelLoaded model=3"],
        "clear",
    );
}

#[test]
fn reload_source_destroyed_waits_for_the_purge() {
    let open = "PurgeBegan purge=1 profile=7 threshold=1 in_flight=0";
    let early = "too early: purge#1 is still going on";
    check(Code::ReloadSourceDestroyed, &[START, SOURCE, open], early);
}

#[test]
fn reload_source_destroyed_cannot_tell_without_named_copies() {
    check(
        Code::ReloadSourceDestroyed,
        &[START, "ModelLoaded model=3", "ModelUnloaded model=3"],
        "cannot tell: no host copy of model.weights is named in the record",
    );
}

/// Graphs, pools and workspaces are cleared after the kill, and what is free goes back.
const HEALTHY: &str = "
BufferAllocated buffer=2 generation=0 segment=0 offset=2424832 requested=65536 slack=0 stream=0 owner=2 site=9
ModelLoaded model=3
PurgeBegan purge=1 profile=7 threshold=1048576 in_flight=0
StageBegan purge=1 stage=1
ModelUnloaded model=3
StageEnded purge=1 stage=1 device=0 claimed=0 allocator_before=2490368 allocator_after=2490368 device_before=4194304 device_after=4194304
StageBegan purge=1 stage=3
BufferKilled buffer=0 generation=0 purge=1 stage=3
StageEnded purge=1 stage=3 device=0 claimed=0 allocator_before=2490368 allocator_after=393216 device_before=4194304 device_after=4194304
StageBegan purge=1 stage=2c
GraphDropped graph=5 cause=cleared
EntryDropped entry=0 cause=cleared
ReleaseRequested buffer=1 generation=0 cause=cleared
ReleaseCompleted buffer=1 generation=0
OwnerCleared purge=1 stage=2c owner=1 device=0 entries=1 bytes=2424832
ReleaseRequested buffer=2 generation=0 cause=cleared
ReleaseCompleted buffer=2 generation=0
OwnerCleared purge=1 stage=2c owner=2 device=0 entries=1 bytes=65536
StageEnded purge=1 stage=2c device=0 claimed=2490368 allocator_before=393216 allocator_after=0 device_before=4194304 device_after=4194304
StageBegan purge=1 stage=return
SegmentReturned segment=0 cause=purge
StageEnded purge=1 stage=return device=0 claimed=4194304 allocator_before=0 allocator_after=0 device_before=4194304 device_after=0
PurgeEnded purge=1 outcome=complete
SegmentReserved device=0 segment=1 stream=0 bytes=4194304
BufferAllocated buffer=0 generation=1 segment=1 offset=0 requested=2097152 slack=0 stream=0 owner=1 site=4
EntryAdded pool=0 entry=1 key=6
EntryPartSet entry=1 part=4 buffer=0 generation=1
RunEnded outcome=complete
";

#[test]
fn a_healthy_full_purge_has_no_finding() {
    let text = [START, FILL, SCALES, CAPTURE, HEALTHY].join("\n");
    assert_eq!(
        script::fold(&script::events(&text)).anomalies().iter().next(),
        None
    );
    assert_eq!(run(&text).findings, []);
}

#[test]
fn no_sequence_of_events_makes_a_rule_panic() {
    for seed in 0..200 {
        for events in [common::events(seed, 300), common::crowded(seed, 300)] {
            let diagnosis = diagnose(&script::fold(&events), &Thresholds::default());
            assert!(
                diagnosis
                    .findings
                    .is_sorted_by_key(|f| std::cmp::Reverse((f.severity, f.bytes)))
            );
        }
    }
    for seed in 0..50 {
        let events = common::plausible::run(seed, 300);
        let diagnosis = diagnose(&script::fold(&events), &Thresholds::default());
        assert!(
            diagnosis.worst() != Some(Severity::Error),
            "{:#?}",
            diagnosis.findings
        );
    }
}

#[test]
fn findings_are_bounded_and_the_rest_is_counted() {
    let mut text = START.to_owned();
    for n in 0..50 {
        text += &format!(
            "AccessRefused refusal=StaleBuffer op=8 argument=4 buffer={n} expected=0 found=1 owner=1 graph=- purge=1\n"
        );
    }
    let diagnosis = run(&text);
    assert_eq!((diagnosis.findings.len(), diagnosis.left_out), (32, 18));
}
