//! JSON of findings and summaries. Sizes are exact bytes, times nanoseconds, digests hexadecimal text.
//!
//! `schema_version` goes up when a field changes its meaning or goes away; new fields may come at any time.

use serde_json::{Value, json};

use crate::cli::load::Loaded;
use crate::diagnose::{Answer, Diagnosis, Finding};
use crate::report::{
    CopyRow, DeviceRow, KernelRow, OwnerRow, PhaseRow, PoolRow, PurgeView, RecordView, Summary,
};

const SCHEMA_VERSION: u64 = 1;

/// A diagnosis as one JSON object.
pub(super) fn diagnosis(loaded: &Loaded, diagnosis: &Diagnosis) -> serde_json::Result<String> {
    let mut object = head(loaded);
    object["findings"] = findings(diagnosis);
    object["findings_left_out"] = json!(diagnosis.left_out);
    object["answers"] = answers(diagnosis);
    pretty(&object)
}

/// A summary with its diagnosis as one JSON object.
pub(super) fn summary(
    loaded: &Loaded,
    summary: &Summary,
    diagnosis: &Diagnosis,
) -> serde_json::Result<String> {
    let mut object = head(loaded);
    object["record"] = record(&summary.record);
    object["devices"] = summary.devices.iter().map(device).collect();
    object["owners"] = summary.owners.iter().map(owner).collect();
    object["pools"] = summary.pools.iter().map(pool).collect();
    object["purges"] = summary.purges.iter().map(purge).collect();
    object["kernels"] = summary.kernels.iter().map(kernel).collect();
    object["copies"] = summary.copies.iter().map(copy).collect();
    object["graphs"] = graphs(summary);
    object["phases"] = summary.phases.iter().map(phase).collect();
    object["findings"] = findings(diagnosis);
    object["findings_left_out"] = json!(diagnosis.left_out);
    object["answers"] = answers(diagnosis);
    pretty(&object)
}

fn pretty(value: &Value) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn head(loaded: &Loaded) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "completeness": loaded.completeness_word(),
        "incomplete_reason": loaded.incomplete(),
        "events": loaded.ledger.run().events(),
        "events_unknown": loaded.unknown,
        "digest": format!("{:016x}", loaded.ledger.digest()),
    })
}

fn findings(diagnosis: &Diagnosis) -> Value {
    diagnosis.findings.iter().map(finding).collect()
}

fn finding(finding: &Finding) -> Value {
    let chain = finding.chain.iter();
    let chain = chain.map(|step| json!({ "seq": step.seq.0, "at_ns": step.at.0, "text": step.text }));
    json!({
        "code": finding.code.word(),
        "severity": finding.severity.word(),
        "confidence": finding.confidence.word(),
        "bytes": finding.bytes.0,
        "headline": finding.headline,
        "chain": chain.collect::<Value>(),
        "evidence": finding.evidence.iter().map(|seq| seq.0).collect::<Vec<_>>(),
        "next_step": finding.next_step,
    })
}

fn answers(diagnosis: &Diagnosis) -> Value {
    let said = diagnosis.answers.iter().map(|(code, answer)| {
        let (word, why) = match answer {
            Answer::Clear => ("clear", None),
            Answer::Found { .. } => ("found", None),
            Answer::TooEarly(why) => ("too_early", Some(why)),
            Answer::CannotTell(why) => ("cannot_tell", Some(why)),
        };
        json!({ "code": code.word(), "answer": word, "why": why })
    });
    said.collect()
}

/// A sum that may be negative. JSON numbers hold 64 bits; what is over is cut to the largest.
fn sum(bytes: i128) -> Value {
    let cut = bytes.clamp(i128::from(i64::MIN), i128::from(u64::MAX));
    match u64::try_from(cut) {
        Ok(positive) => json!(positive),
        // Not under the smallest i64, as cut above.
        Err(_) => json!(cut as i64),
    }
}

fn record(view: &RecordView) -> Value {
    let lost = view
        .lost
        .iter()
        .map(|(cause, n)| json!({ "cause": cause.word(), "events": n }));
    let refused = view
        .refused
        .iter()
        .map(|(why, n)| json!({ "refusal": why.word(), "count": n }));
    json!({
        "ended": view.ended.map(|outcome| outcome.word()),
        "lost": lost.collect::<Value>(),
        "anomalies": view.anomalies,
        "first_anomalies": view.first_anomalies.iter().map(|odd| json!({ "seq": odd.seq.0, "why": format!("{:?}", odd.why) })).collect::<Value>(),
        "in_flight": view.in_flight,
        "refused": refused.collect::<Value>(),
        "allocations_failed": view.allocations_failed,
    })
}

fn device(row: &DeviceRow) -> Value {
    json!({
        "device": row.device.0,
        "name": row.name,
        "kind": row.kind.map(|kind| kind.word()),
        "total_bytes": row.total.map(|total| total.0),
        "context_bytes": sum(row.context),
        "reserved_bytes": sum(row.reserved),
        "reserved_bytes_peak": sum(row.reserved_peak),
        "live_bytes": sum(row.live),
        "live_bytes_peak": sum(row.live_peak),
        "slack_bytes": sum(row.slack),
        "cached_bytes": sum(row.cached),
        "pending_bytes": sum(row.pending),
        "held_bytes": sum(row.held),
        "segments": row.segments,
        "largest_free_bytes": sum(row.largest),
    })
}

fn owner(row: &OwnerRow) -> Value {
    json!({
        "owner": row.owner.0,
        "name": row.name,
        "kind": row.kind.map(|kind| kind.word()),
        "live_bytes": sum(row.live),
        "live_bytes_peak": sum(row.live_peak),
        "retained_bytes": sum(row.retained),
        "buffers": row.buffers,
        "allocations": row.allocations,
        "killed": row.killed,
    })
}

fn pool(row: &PoolRow) -> Value {
    json!({
        "pool": row.pool.0,
        "owner": row.owner,
        "entries_live": row.live,
        "entries_dead": row.dead,
        "entries_torn": row.torn,
        "hits": row.hits,
        "misses": row.misses,
        "rebuilt": row.rebuilt,
        "bytes": sum(row.bytes),
        "bytes_gone": sum(row.bytes_gone),
        "bytes_peak": sum(row.bytes_peak),
        "limit_bytes": row.limit.map(|limit| limit.0),
    })
}

fn purge(view: &PurgeView) -> Value {
    let stages = view.stages.iter().map(|row| {
        json!({
            "stage": row.stage.word(),
            "device": row.device.0,
            "claimed_bytes": row.claimed.0,
            "allocator_bytes": sum(row.allocator),
            "device_bytes": sum(row.returned),
            "killed": row.killed,
            "took_ns": row.took.0,
        })
    });
    let survivors = view.survivors.iter().map(|row| {
        json!({
            "owner": row.owner,
            "holder": row.holder.word(),
            "buffers": row.buffers,
            "bytes": sum(row.bytes),
        })
    });
    json!({
        "purge": view.purge.0,
        "profile": view.profile,
        "outcome": view.outcome.map(|outcome| outcome.word()),
        "refused": view.refused,
        "in_flight": view.in_flight,
        "killed": view.killed,
        "killed_bytes": sum(view.killed_bytes),
        "took_ns": view.took.map(|took| took.0),
        "stages": stages.collect::<Value>(),
        "survivors": survivors.collect::<Value>(),
        "left_out": view.left_out,
    })
}

fn kernel(row: &KernelRow) -> Value {
    json!({
        "kernel": row.kernel,
        "launches": row.count,
        "in_graphs": row.in_graphs,
        "timed": row.timed,
        "total_ns": row.total.0,
        "mean_ns": row.mean.0,
        "longest_ns": row.longest.map(|longest| longest.0),
        "share_permille": row.share_permille,
    })
}

fn copy(row: &CopyRow) -> Value {
    json!({
        "direction": row.direction.word(),
        "count": row.count,
        "bytes": row.bytes.0,
        "total_ns": row.total.0,
    })
}

fn graphs(summary: &Summary) -> Value {
    let view = &summary.graphs;
    json!({
        "captured": view.captured,
        "failed": view.failed,
        "present": view.present,
        "stale": view.stale,
        "replays": view.replays,
        "dropped": view.dropped,
    })
}

fn phase(row: &PhaseRow) -> Value {
    json!({
        "prompt": row.prompt.0,
        "phase": row.phase.map(|phase| phase.word()),
        "tokens": row.tokens,
        "took_ns": row.took.0,
        "tokens_per_second": row.tokens_per_second,
        "prompt_outcome": row.outcome.map(|outcome| outcome.word()),
    })
}
