//! The traces that the product recorded: each opens, folds to its digest, and is diagnosed as it always was.

use std::io::Cursor;
use std::path::PathBuf;

use vramscope::diagnose::{Thresholds, diagnose};
use vramscope::event::{Event, Refusal};
use vramscope::ledger::Ledger;
use vramscope::trace::{Completeness, TraceReader};

/// File, and the codes of its findings.
const GOLDEN: [(&str, &[&str]); 5] = [
    ("healthy", &[]),
    ("kitchen-only", &["STALE_POOL_ENTRY", "CACHED_NOT_RETURNED"]),
    (
        "stale-graph",
        &[
            "STALE_GRAPH",
            "STALE_GRAPH",
            "CACHED_NOT_RETURNED",
            "STALE_WORKSPACE",
            "RETAINED_AFTER_UNLOAD",
            "STALE_POOL_ENTRY",
        ],
    ),
    (
        "torn-entry",
        &["TORN_POOL_ENTRY", "CACHED_NOT_RETURNED", "STALE_POOL_ENTRY"],
    ),
    ("fragmentation", &["CACHED_NOT_RETURNED"]),
];

fn read(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "traces"].iter().collect();
    std::fs::read(path.join(format!("{name}.vtrace"))).expect("a golden trace")
}

/// The state, and how whole the file is; an error where it is no trace at all.
fn fold(bytes: &[u8]) -> Option<(Ledger, Completeness)> {
    let mut reader = TraceReader::open(Cursor::new(bytes)).ok()?;
    let mut ledger = Ledger::default();
    while let Ok(Some(event)) = reader.next_event() {
        ledger.apply(&event);
    }
    Some((ledger, reader.summary().completeness))
}

#[test]
fn golden_traces_are_whole_and_fold_to_their_digest() {
    for (name, codes) in GOLDEN {
        let (ledger, completeness) = fold(&read(name)).expect("a trace");
        let Completeness::Complete { digest } = completeness else {
            panic!("{name} is {completeness:?}");
        };
        assert_eq!(ledger.digest(), digest, "{name}");
        assert_eq!(ledger.anomalies().total(), 0, "{name}");
        let diagnosis = diagnose(&ledger, &Thresholds::default());
        let found: Vec<&str> = diagnosis
            .findings
            .iter()
            .map(|finding| finding.code.word())
            .collect();
        assert_eq!(found, codes, "{name}");
    }
}

#[test]
fn the_incidents_are_refused_uses_and_the_last_is_a_lack_of_one_large_block() {
    let refused = |name: &str| {
        let (ledger, _) = fold(&read(name)).expect("a trace");
        let kept: Vec<Refusal> = ledger
            .refusals()
            .kept()
            .iter()
            .map(|refused| refused.refusal)
            .collect();
        kept
    };
    assert_eq!(refused("healthy"), []);
    assert_eq!(refused("kitchen-only"), [Refusal::StaleBuffer]);
    assert_eq!(refused("stale-graph"), [Refusal::StaleGraph]);
    assert_eq!(refused("torn-entry"), [Refusal::TornEntry]);
    let bytes = read("fragmentation");
    let mut reader = TraceReader::open(Cursor::new(&bytes[..])).expect("a trace");
    let mut failed = None;
    while let Some(event) = reader.next_event().expect("whole") {
        if let Event::AllocFailed(e) = event.event {
            failed = Some(e);
        }
    }
    let failed = failed.expect("an allocation failed");
    assert!(
        failed.cached > failed.requested && failed.largest < failed.requested,
        "{failed:?}"
    );
}

#[test]
fn a_damaged_golden_trace_is_never_complete_and_never_a_panic() {
    for (name, _) in GOLDEN {
        let whole = read(name);
        for cut in (0..whole.len()).step_by(1009) {
            if let Some((_, completeness)) = fold(&whole[..cut]) {
                assert!(
                    !matches!(completeness, Completeness::Complete { .. }),
                    "{name} cut at {cut}"
                );
            }
        }
        for at in (0..whole.len()).step_by(1013) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            if let Some((_, completeness)) = fold(&damaged) {
                assert!(
                    !matches!(completeness, Completeness::Complete { .. }),
                    "{name} flipped at {at}"
                );
            }
        }
    }
}
