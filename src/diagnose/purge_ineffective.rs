//! PURGE_INEFFECTIVE: a purge claims more than came back, or left an owner alone whose stage it ran.
//!
//! Over a whole purge and one device three layers are compared: what owners claim, what the allocator's books lost,
//! what the device got back. Single stages may disagree with each other: a stage clears entries whose storage an
//! earlier one killed, and only the return of segments reaches the device. Free bytes in segments that live buffers
//! pin are no lie of the claims; they are the matter of CACHED_NOT_RETURNED.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Bytes, DeviceId, OwnerId, PurgeId};
use crate::diagnose::finding::{Answer, Code, Finding, Severity, Step};
use crate::diagnose::view::{View, buffer, count, size, stage};
use crate::event::{Holder, Stage};
use crate::ledger::{Layers, Purge, StageRun};

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    let mut cannot_tell = None;
    for (id, purge) in view.ledger.purges().purges() {
        if purge.ended.is_none() {
            let over = view.ledger.run().ended().is_some() && purge.refused.is_none();
            cannot_tell =
                cannot_tell.or_else(|| over.then(|| format!("purge#{id} has no end in the record")));
            continue;
        }
        let unmeasured = purge
            .stages
            .iter()
            .find(|run| run.layers.is_empty() && !run.claims.is_empty());
        if let Some(run) = unmeasured {
            let by = stage(*id, run.stage);
            cannot_tell = cannot_tell.or_else(|| Some(format!("{by} has claims and no measurement")));
            continue;
        }
        let devices = totals(purge);
        findings.extend(
            devices
                .iter()
                .filter_map(|(device, total)| overclaimed(view, *id, purge, *device, total)),
        );
        findings.extend(left_alone(view, *id, purge));
    }
    view.answer_or(findings, cannot_tell, None)
}

/// The three layers of a whole purge on one device.
struct Total {
    claimed: i128,
    allocator: i128,
    device_before: i128,
    device_after: i128,
}

impl Total {
    fn device(&self) -> i128 {
        self.device_before - self.device_after
    }
}

fn totals(purge: &Purge) -> BTreeMap<DeviceId, Total> {
    let mut all = BTreeMap::<DeviceId, Total>::new();
    for (run, layers) in measured(purge) {
        let total = all.entry(layers.device).or_insert(Total {
            claimed: 0,
            allocator: 0,
            device_before: i128::from(layers.device_before.0),
            device_after: 0,
        });
        // What goes back to the driver was claimed by the owners that let it go.
        if run.stage != Stage::ReturnCached {
            total.claimed += i128::from(layers.claimed.0);
        }
        total.allocator += layers.allocator_freed();
        total.device_after = i128::from(layers.device_after.0);
    }
    all
}

fn measured(purge: &Purge) -> impl Iterator<Item = (&StageRun, &Layers)> {
    purge
        .stages
        .iter()
        .flat_map(|run| run.layers.iter().map(move |layers| (run, layers)))
}

fn overclaimed(
    view: &View<'_>,
    id: PurgeId,
    purge: &Purge,
    device: DeviceId,
    total: &Total,
) -> Option<Finding> {
    let tolerance = view.limits.tolerance(total.claimed);
    let books = total.claimed - total.allocator;
    let pinned = purge.rest.get(&device).map_or(0, |rest| rest.pinned_bytes);
    let driver = total.claimed - total.device() - pinned;
    let returned = purge.ran(Stage::ReturnCached);
    let (short, layer, severity) = if books > tolerance {
        (books, "the allocator's books miss", Severity::Error)
    } else if returned && driver > tolerance {
        (driver, "the device misses", Severity::Warning)
    } else {
        return None;
    };
    let on = view.device(device);
    let mut chain: Vec<Step> = measured(purge)
        .filter(|(_, layers)| layers.device == device)
        .map(|(run, layers)| layers_of(id, run, layers))
        .collect();
    chain.extend(survivors(view, purge, device));
    let missing = size(short);
    let (claimed, allocator, back) = (size(total.claimed), size(total.allocator), size(total.device()));
    Some(
        Finding {
            code: Code::PurgeIneffective,
            severity,
            confidence: view.confidence(),
            headline: format!(
                "purge#{id} claims {claimed} on {on}; {layer} {missing} of it \
                 (allocator {allocator}, device {back})"
            ),
            chain: Vec::new(),
            evidence: Vec::new(),
            bytes: Bytes::clamped(short),
            next_step: match severity {
                Severity::Error => "find who holds the survivors: the owners' claims are not true".to_owned(),
                _ => "return cached segments after the last stage that frees, and check other processes"
                    .to_owned(),
            },
        }
        .with_chain(chain),
    )
}

fn layers_of(id: PurgeId, run: &StageRun, layers: &Layers) -> Step {
    let text = format!(
        "{}: claimed {}, allocator {}, device {}",
        stage(id, run.stage),
        layers.claimed,
        size(layers.allocator_freed()),
        size(layers.device_freed())
    );
    Step::new(layers.mark, text)
}

/// What outlived the purge on a device, by owner and holder.
fn survivors(view: &View<'_>, purge: &Purge, device: DeviceId) -> Vec<Step> {
    let mut sums = BTreeMap::<(OwnerId, Holder), (u64, i128, Step)>::new();
    for survivor in &purge.survivors {
        let Some(storage) = survivor.storage.filter(|storage| storage.device == device) else {
            continue;
        };
        let fresh = || (0, 0, Step::new(survivor.mark, String::new()));
        let (n, bytes, _) = sums
            .entry((survivor.owner, survivor.holder))
            .or_insert_with(fresh);
        (*n, *bytes) = (*n + 1, *bytes + storage.size());
    }
    let said = sums.into_iter().map(|((owner, holder), (n, bytes, step))| Step {
        text: format!(
            "{} of {}, {}, kept by {holder}",
            count(n, "survivor"),
            view.owner(owner),
            size(bytes)
        ),
        ..step
    });
    said.collect()
}

/// Owners whose stage ran, that did not clear themselves, and that still have memory.
fn left_alone(view: &View<'_>, id: PurgeId, purge: &Purge) -> Vec<Finding> {
    // This profile keeps models that are not flagged, and all that is theirs.
    let selective = purge
        .profile
        .is_some_and(|name| view.ledger.name(name) == Some("selective"));
    if selective {
        return Vec::new();
    }
    let claims = purge.stages.iter().flat_map(|run| &run.claims);
    let spoke: BTreeSet<OwnerId> = claims.map(|claim| claim.owner).collect();
    let mut sums = BTreeMap::<OwnerId, (i128, Vec<Step>)>::new();
    for survivor in &purge.survivors {
        let duty = view
            .ledger
            .owner(survivor.owner)
            .map(|registration| registration.cleared_by);
        let ran = duty.is_some_and(|duty| purge.ran(duty));
        let source = (survivor.buffer, survivor.generation);
        let by_design = view.ledger.models().sources().contains_key(&source);
        if !ran || by_design || spoke.contains(&survivor.owner) || survivor.holder == Holder::Stream {
            continue;
        }
        let bytes = survivor.storage.map_or(0, |storage| storage.size());
        let (sum, steps) = sums.entry(survivor.owner).or_default();
        *sum += bytes;
        if steps.len() < view.limits.names_per_list {
            let what = buffer(survivor.buffer, survivor.generation);
            let text = format!("{what} survives, {}, kept by {}", size(bytes), survivor.holder);
            steps.push(Step::new(survivor.mark, text));
        }
    }
    sums.retain(|_, (bytes, _)| *bytes > i128::from(view.limits.claim_tolerance.0));
    sums.into_iter()
        .filter_map(|(owner, (bytes, mut chain))| {
            let duty = view.ledger.owner(owner)?.cleared_by;
            let runs = purge.stages.iter().filter(|run| run.stage == duty);
            let name = view.owner(owner);
            chain.extend(runs.map(|run| {
                let others = run.claims.iter().map(|claim| view.owner(claim.owner));
                let text = format!("{} cleared {}", stage(id, duty), view.list(others));
                Step::new(run.began, text)
            }));
            let finding = Finding {
                code: Code::PurgeIneffective,
                severity: Severity::Warning,
                confidence: view.confidence(),
                headline: format!(
                    "{} left {name} alone, which keeps {}",
                    stage(id, duty),
                    size(bytes)
                ),
                chain: Vec::new(),
                evidence: Vec::new(),
                bytes: Bytes::clamped(bytes),
                next_step: format!("have stage {duty} clear {name} (profile `full` does)"),
            };
            Some(finding.with_chain(chain))
        })
        .collect()
}
