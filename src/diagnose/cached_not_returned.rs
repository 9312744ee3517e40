//! CACHED_NOT_RETURNED: free memory stayed in segments after a purge that returns them to the driver.
//!
//! A segment without any buffer has no reason to stay: a warning at any size. Free bytes beside a live buffer can't
//! go back: a warning where they are what the purge's own claims are short of on the device, and else information,
//! only where they are large ([`Thresholds`](crate::diagnose::Thresholds)). A purge without the stage `return`
//! promises nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Bytes, DeviceId, OwnerId, PurgeId, SegmentId};
use crate::diagnose::finding::{Answer, Code, Finding, Severity, Step};
use crate::diagnose::view::{View, count, size, stage};
use crate::event::Stage;
use crate::ledger::{Purge, Rest};

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    if view.missing.is_none() {
        for (id, purge) in view.ledger.purges().purges() {
            if purge.ended.is_some() && purge.ran(Stage::ReturnCached) {
                let devices = purge.rest.iter();
                findings.extend(devices.filter_map(|(device, rest)| judge(view, *id, purge, *device, rest)));
            }
        }
    }
    view.answer(findings)
}

fn judge(view: &View<'_>, id: PurgeId, purge: &Purge, device: DeviceId, rest: &Rest) -> Option<Finding> {
    let on = view.device(device);
    let share =
        rest.pinned_bytes.saturating_mul(1000) >= rest.reserved * i128::from(view.limits.pinned_permille);
    let large = rest.pinned_bytes >= i128::from(view.limits.pinned_bytes.0) && share;
    let short = shortfall(purge, device).min(rest.pinned_bytes);
    let is_short = short > i128::from(view.limits.claim_tolerance.0);
    let (severity, bytes, headline, next_step) = if rest.empty_bytes > 0 {
        let (segments, bytes) = (count(rest.empty_segments, "segment"), size(rest.empty_bytes));
        (
            Severity::Warning,
            rest.empty_bytes,
            format!("{segments} without any buffer ({bytes}) stayed on {on} after purge#{id}"),
            "return cached segments last: after every stage that frees",
        )
    } else if large || is_short {
        let (segments, bytes) = (count(rest.pinned_segments, "segment"), size(rest.pinned_bytes));
        let severity = if is_short {
            Severity::Warning
        } else {
            Severity::Info
        };
        (
            severity,
            rest.pinned_bytes,
            format!("{bytes} are free on {on} after purge#{id}, but buffers pin {segments}"),
            "release or move the buffers that pin them, or allocate long-lived ones first",
        )
    } else {
        return None;
    };
    let mut chain = Vec::new();
    for run in purge.stages.iter().filter(|run| run.stage == Stage::ReturnCached) {
        let layers = run.layers.iter().filter(|layers| layers.device == device);
        chain.extend(layers.map(|layers| {
            let text = format!(
                "{} gave {} back",
                stage(id, run.stage),
                size(layers.device_freed())
            );
            Step::new(layers.mark, text)
        }));
    }
    chain.extend(pins(view, purge, device));
    if let Some((outcome, mark)) = purge.ended {
        let text = format!(
            "purge#{id} ended ({outcome}) with {} in segments",
            size(rest.reserved)
        );
        chain.push(Step::new(mark, text));
    }
    let finding = Finding {
        code: Code::CachedNotReturned,
        severity,
        confidence: view.confidence(),
        headline,
        chain: Vec::new(),
        evidence: Vec::new(),
        bytes: Bytes::clamped(bytes),
        next_step: next_step.to_owned(),
    };
    Some(finding.with_chain(chain))
}

/// By how much what the owners freed, by their word and by the books, exceeds what the device got back.
fn shortfall(purge: &Purge, device: DeviceId) -> i128 {
    let (mut claimed, mut freed, mut back) = (0, 0, 0);
    for run in &purge.stages {
        for layers in run.layers.iter().filter(|layers| layers.device == device) {
            if run.stage != Stage::ReturnCached {
                claimed += i128::from(layers.claimed.0);
            }
            freed += layers.allocator_freed();
            back += layers.device_freed();
        }
    }
    claimed.min(freed) - back
}

/// Which owners' survivors sit in how many segments.
fn pins(view: &View<'_>, purge: &Purge, device: DeviceId) -> Vec<Step> {
    let mut owners = BTreeMap::<OwnerId, (BTreeSet<SegmentId>, Step)>::new();
    for survivor in &purge.survivors {
        if let Some(storage) = survivor.storage.filter(|storage| storage.device == device) {
            let fresh = || (BTreeSet::new(), Step::new(survivor.mark, String::new()));
            let (segments, _) = owners.entry(survivor.owner).or_insert_with(fresh);
            segments.insert(storage.segment);
        }
    }
    let said = owners.into_iter().map(|(owner, (segments, step))| Step {
        text: format!(
            "{} pins {}",
            view.owner(owner),
            count(segments.len() as u64, "segment")
        ),
        ..step
    });
    said.collect()
}
