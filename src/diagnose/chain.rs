//! Steps that several chains share: who filled, who killed, who should have cleared, who used.

use crate::base::{BufferId, Generation, OwnerId};
use crate::diagnose::finding::Step;
use crate::diagnose::view::{View, buffer, count, size, stage};
use crate::event::Stage;
use crate::ledger::{Entry, Obituary, Refused};

/// How a pool's entry came to be.
pub(crate) fn filled(view: &View<'_>, entry: &Entry, refused: BufferId, pool: &str) -> Vec<Step> {
    let key = view.name(entry.key);
    let mut steps = vec![Step::new(
        entry.added,
        format!("{pool} added the entry of key `{key}`"),
    )];
    let part = entry.parts.iter().find(|part| part.buffer == refused);
    if let Some(part) = part {
        let (name, what) = (view.name(part.name), buffer(part.buffer, part.generation));
        let text = format!(
            "it became part `{name}` of that entry: {what}, {}",
            size(part.bytes)
        );
        steps.push(Step::new(part.set, text));
    }
    steps
}

/// How the storage came to be and how it was killed.
pub(crate) fn killed(
    view: &View<'_>,
    (id, generation): (BufferId, Generation),
    obituary: &Obituary,
) -> Vec<Step> {
    let was = &obituary.buffer;
    let what = buffer(id, generation);
    let (owner, site) = (view.owner(was.owner), view.name(was.site));
    let born = format!("{owner} allocated {what} for `{site}`, {}", size(was.size()));
    let threshold = view.purge(obituary.purge).map(|purge| purge.threshold);
    let limit = match threshold {
        Some(limit) if obituary.stage == Stage::StorageKill => format!(", taking all of {limit} or more"),
        _ => String::new(),
    };
    let mut holders = Vec::new();
    if let Some(entry) = obituary.entry {
        holders.push(format!("pool entry {entry}"));
    }
    if obituary.graphs > 0 {
        holders.push(count(u64::from(obituary.graphs), "graph"));
    }
    let under = if holders.is_empty() {
        String::new()
    } else {
        format!(" under {}", holders.join(" and "))
    };
    let by = stage(obituary.purge, obituary.stage);
    vec![
        Step::new(was.allocated, born),
        Step::new(obituary.mark, format!("{by} killed {what}{under}{limit}")),
    ]
}

/// What the stage did whose duty it was to clear the owner after the kill.
pub(crate) fn not_cleared(view: &View<'_>, owner: OwnerId, obituary: &Obituary) -> Option<Step> {
    let purge = view.purge(obituary.purge)?;
    let duty = view.ledger.owner(owner)?.cleared_by;
    let (name, by) = (view.owner(owner), stage(obituary.purge, duty));
    let runs = purge.stages.iter().filter(|run| run.stage == duty);
    let Some(run) = runs.max_by_key(|run| run.began.seq) else {
        let mark = purge.ended.map_or(purge.began, |(_, mark)| mark);
        let text = format!(
            "purge#{} had no stage {duty}, which clears {name}",
            obituary.purge
        );
        return Some(Step::new(mark, text));
    };
    if run.began.seq < obituary.mark.seq {
        return Some(Step::new(
            run.began,
            format!("{by} ran before the kill, not after it"),
        ));
    }
    let text = match run.claims.iter().find(|claim| claim.owner == owner) {
        Some(claim) => format!(
            "{by} had {name} clear {}, not this one",
            count(claim.entries, "entry")
        ),
        None => {
            let others = run.claims.iter().map(|claim| view.owner(claim.owner));
            let others = view.list(others);
            format!("{by} cleared {others}, not {name}, whose duty stage it is")
        }
    };
    Some(Step::new(run.began, text))
}

/// The refused use itself.
pub(crate) fn used(view: &View<'_>, refused: &Refused) -> Step {
    let (op, argument) = (view.name(refused.op), view.name(refused.argument));
    let what = buffer(refused.buffer, refused.expected);
    let text = format!(
        "`{op}` was refused ({}): its argument `{argument}` is {what}, the slot has generation {}",
        refused.refusal, refused.found
    );
    Step::new(refused.mark, text)
}
