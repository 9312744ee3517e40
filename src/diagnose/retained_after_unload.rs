//! RETAINED_AFTER_UNLOAD: a model says that it is gone from the device, and memory that it had before is still there.
//!
//! Memory that it got after the unload, by a new load, is not meant. A release that waits for its stream is early.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{BufferId, Bytes, Generation, OwnerId};
use crate::diagnose::finding::{Answer, Code, Finding, Severity, Step};
use crate::diagnose::view::{View, buffer, count, size};
use crate::event::Holder;
use crate::ledger::{Buffer, Mark, State};

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let models = view.ledger.models().models();
    let mut kept = BTreeMap::<OwnerId, Vec<(BufferId, Generation, &Buffer)>>::new();
    if models.values().any(|model| model.unloads > 0) {
        for (id, generation, storage) in view.ledger.memory().buffers() {
            let unloaded = models.get(&storage.owner).and_then(|model| model.unloaded);
            if unloaded.is_some_and(|mark| storage.allocated.seq < mark.seq) {
                kept.entry(storage.owner)
                    .or_default()
                    .push((id, generation, storage));
            }
        }
    }
    let running = view.ledger.run().ended().is_none();
    let listed = listed(view);
    let (mut findings, mut too_early) = (Vec::new(), None);
    for (owner, buffers) in &kept {
        let Some(unloaded) = models.get(owner).and_then(|model| model.unloaded) else {
            continue;
        };
        let pending = buffers
            .iter()
            .all(|(_, _, storage)| storage.state == State::Pending);
        if running && (pending || in_open_purge(view, unloaded)) {
            let name = view.owner(*owner);
            too_early = Some(format!("releases of {name} are not complete"));
            continue;
        }
        findings.extend(judge(view, *owner, unloaded, buffers, &listed));
    }
    let unknown = models
        .iter()
        .find(|(_, model)| model.unloads > 0 && model.loads == 0);
    let cannot_tell = unknown.map(|(owner, _)| {
        let name = view.owner(*owner);
        format!("the load of {name} is not in the record, so neither is all of its memory")
    });
    match view.answer_or(findings, cannot_tell, too_early) {
        // An open purge matters only to the models that it unloads.
        Answer::TooEarly(_) if kept.is_empty() => Answer::Clear,
        answer => answer,
    }
}

fn in_open_purge(view: &View<'_>, unloaded: Mark) -> bool {
    let open = view.open_purge.and_then(|id| view.purge(id));
    open.is_some_and(|purge| purge.began.seq < unloaded.seq)
}

fn judge(
    view: &View<'_>,
    owner: OwnerId,
    unloaded: Mark,
    buffers: &[(BufferId, Generation, &Buffer)],
    listed: &BTreeMap<(BufferId, Generation), Holder>,
) -> Option<Finding> {
    let bytes: i128 = buffers.iter().map(|(_, _, storage)| storage.size()).sum();
    if bytes < i128::from(view.limits.retained_bytes.0) {
        return None;
    }
    let name = view.owner(owner);
    let mut chain = vec![Step::new(unloaded, format!("{name} says that it is unloaded"))];
    let mut holders = BTreeSet::new();
    for (index, (id, generation, storage)) in buffers.iter().enumerate() {
        let holder = holder(storage, listed.get(&(*id, *generation)));
        if index < view.limits.names_per_list {
            let (what, site) = (buffer(*id, *generation), view.name(storage.site));
            let text = format!(
                "allocated {what} for `{site}`, {}, kept by {holder}",
                size(storage.size())
            );
            chain.push(Step::new(storage.allocated, text));
        }
        holders.insert(holder);
    }
    let finding = Finding {
        code: Code::RetainedAfterUnload,
        severity: Severity::Warning,
        confidence: view.confidence(),
        headline: format!(
            "{} of {name} ({}) outlived its unload, kept by {}",
            count(buffers.len() as u64, "buffer"),
            size(bytes),
            view.list(holders.into_iter())
        ),
        chain: Vec::new(),
        evidence: buffers
            .iter()
            .map(|(_, _, storage)| storage.allocated.seq)
            .collect(),
        bytes: Bytes::clamped(bytes),
        next_step: format!("drop what keeps them, then unload {name} again"),
    };
    Some(finding.with_chain(chain))
}

/// Who kept which buffer, as purges listed them; the last one counts.
fn listed(view: &View<'_>) -> BTreeMap<(BufferId, Generation), Holder> {
    let survivors = view
        .ledger
        .purges()
        .purges()
        .values()
        .flat_map(|purge| &purge.survivors);
    survivors
        .map(|survivor| ((survivor.buffer, survivor.generation), survivor.holder))
        .collect()
}

/// Who keeps a buffer: by its own state, or as a purge listed it.
fn holder(storage: &Buffer, listed: Option<&Holder>) -> String {
    match (storage.held_by, storage.state) {
        (Some(graph), _) => format!("graph {graph}"),
        (None, State::Pending) => Holder::Stream.to_string(),
        (None, _) => listed.copied().unwrap_or(Holder::Unknown).to_string(),
    }
}
