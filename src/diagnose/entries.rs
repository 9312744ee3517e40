//! What the rules about pool entries share: refused uses, and dead entries that no one has used yet.

use std::collections::BTreeMap;

use crate::base::{BufferId, Bytes, Generation, PoolId, PurgeId};
use crate::diagnose::chain;
use crate::diagnose::finding::{Answer, Code, Confidence, Finding, Severity, Step};
use crate::diagnose::view::{View, buffer, count, size, stage};
use crate::event::{OwnerKind, Refusal};
use crate::ledger::{Entry, EntryThen, Obituary, Part, Refused, Vitality};

/// What tells one of these rules from the others.
pub(crate) struct Subject {
    pub(crate) code: Code,
    pub(crate) refusal: Refusal,
    pub(crate) vitality: Vitality,
    /// Whether this kind of owner is the rule's.
    pub(crate) owns: fn(Option<OwnerKind>) -> bool,
}

/// The whole rule.
pub(crate) fn ask(view: &View<'_>, subject: &Subject) -> Answer {
    let mut findings = Vec::new();
    let mut groups = BTreeMap::<(BufferId, Generation), Vec<&Refused>>::new();
    let mut doubtful = None;
    for refused in view.ledger.refusals().kept() {
        let ours =
            refused.refusal == subject.refusal && (subject.owns)(view.ledger.owner_kind(refused.owner));
        if !ours {
            continue;
        }
        if refused.obituary.is_none() && refused.purge.is_none() {
            // No purge killed it: it was released, and its handle used. Or the kill is not in the record.
            doubtful = doubtful.or(Some(refused));
            continue;
        }
        let place = (refused.buffer, refused.expected);
        groups.entry(place).or_default().push(refused);
    }
    let mut pools = Vec::new();
    for group in groups.values() {
        pools.extend(group[0].entry.as_ref().map(|then| then.entry.pool));
        findings.push(used(view, subject, group));
    }
    findings.extend(unused(view, subject, &pools));
    let cannot_tell = match (doubtful, &view.missing) {
        (Some(refused), Some(missing)) => {
            let what = buffer(refused.buffer, refused.expected);
            Some(format!("how {what} ended is not in the record: {missing}"))
        }
        _ => None,
    };
    view.answer_or(findings, cannot_tell, None)
}

/// One buffer's refused uses.
fn used(view: &View<'_>, subject: &Subject, group: &[&Refused]) -> Finding {
    let first = group[0];
    let place = (first.buffer, first.expected);
    let owner = view.owner(first.owner);
    let mut chain = Vec::new();
    if let Some(then) = &first.entry {
        chain.extend(chain::filled(view, &then.entry, first.buffer, &owner));
    }
    if let Some(obituary) = &first.obituary {
        chain.extend(chain::killed(view, place, obituary));
        chain.extend(chain::not_cleared(view, first.owner, obituary));
    }
    chain.push(chain::used(view, first));
    let entry = first.entry.as_ref();
    let (what, bytes) = match entry {
        Some(then) if subject.refusal == Refusal::TornEntry => {
            (halves(view, first, then.alive.as_slice()), gone(then))
        }
        _ => (
            buffer(first.buffer, first.expected),
            first.obituary.map_or(0, |o| o.buffer.size()),
        ),
    };
    let of = match entry {
        Some(then) => format!("{owner} entry `{}`", view.name(then.entry.key)),
        None => owner.clone(),
    };
    let by = match (&first.obituary, first.purge) {
        (Some(obituary), _) => stage(obituary.purge, obituary.stage),
        (None, Some(purge)) => format!("purge#{purge}"),
        (None, None) => "a purge".to_owned(),
    };
    let where_used = view.name(first.op);
    Finding {
        code: subject.code,
        severity: Severity::Error,
        confidence: match first.obituary {
            Some(_) => view.confidence(),
            None => Confidence::Low,
        },
        headline: format!("`{where_used}` was given {what} of {of}, which {by} had killed"),
        chain: Vec::new(),
        evidence: group.iter().map(|refused| refused.mark.seq).collect(),
        bytes: Bytes::clamped(bytes),
        next_step: next_step(view, first),
    }
    .with_chain(chain)
}

/// Which parts of the entry are dead, and which live, with the size that decided.
fn halves(view: &View<'_>, refused: &Refused, alive: &[bool]) -> String {
    let parts = refused.entry.iter().flat_map(|then| &then.entry.parts);
    let said = parts.zip(alive).map(|(part, alive)| {
        let state = if *alive { "alive" } else { "dead" };
        format!("`{}` {state} at {}", view.name(part.name), size(part.bytes))
    });
    let threshold = refused
        .obituary
        .and_then(|o| view.purge(o.purge))
        .map(|p| p.threshold);
    let limit = threshold.map_or_else(String::new, |limit| format!("; the threshold was {limit}"));
    format!("half an entry ({}{limit})", view.list(said))
}

fn gone(then: &EntryThen) -> i128 {
    let parts = then.entry.parts.iter().zip(&then.alive);
    parts
        .filter(|(_, alive)| !**alive)
        .map(|(part, _)| part.bytes)
        .sum()
}

fn next_step(view: &View<'_>, refused: &Refused) -> String {
    let owner = view.owner(refused.owner);
    let duty = view
        .ledger
        .owner(refused.owner)
        .map(|registration| registration.cleared_by);
    match (duty, refused.obituary) {
        (Some(duty), Some(obituary)) => format!(
            "let stage {duty} clear {owner} after stage {} (profile `full` does), or run with `--stale rebuild`",
            obituary.stage
        ),
        _ => format!("clear {owner} in the purge that kills its storage, after the kill"),
    }
}

/// Entries of this vitality that a purge left in pools, one finding a pool.
fn unused(view: &View<'_>, subject: &Subject, reported: &[PoolId]) -> Vec<Finding> {
    let mut by_pool = BTreeMap::<PoolId, Vec<(&Entry, &Part, &Obituary)>>::new();
    for entry in view.ledger.pools().entries().values() {
        let owner = view
            .ledger
            .pools()
            .pools()
            .get(&entry.pool)
            .and_then(|pool| pool.owner);
        let ours = (subject.owns)(owner.and_then(|owner| view.ledger.owner_kind(owner)));
        if !ours || reported.contains(&entry.pool) || entry.vitality(view.ledger.memory()) != subject.vitality
        {
            continue;
        }
        let mut dead = entry.parts.iter().filter_map(|part| {
            let obituary = view.ledger.obituary(part.buffer, part.generation)?;
            over(view, obituary.purge).then_some((entry, part, obituary))
        });
        if let Some(first) = dead.next() {
            by_pool.entry(entry.pool).or_default().push(first);
        }
    }
    let census = view.ledger.census();
    let gone = |pool: &PoolId| census.get(pool).map_or(0, |census| census.bytes_gone);
    by_pool
        .iter()
        .map(|(pool, entries)| left_in(view, subject, gone(pool), entries))
        .collect()
}

fn over(view: &View<'_>, purge: PurgeId) -> bool {
    view.purge(purge).is_some_and(|purge| purge.ended.is_some())
}

fn left_in(
    view: &View<'_>,
    subject: &Subject,
    bytes: i128,
    entries: &[(&Entry, &Part, &Obituary)],
) -> Finding {
    let (entry, part, obituary) = entries[0];
    let owner_id = obituary.buffer.owner;
    let owner = view.owner(owner_id);
    let mut chain = chain::filled(view, entry, part.buffer, &owner);
    chain.extend(chain::killed(view, (part.buffer, part.generation), obituary));
    chain.extend(chain::not_cleared(view, owner_id, obituary));
    if let Some((outcome, mark)) = view.purge(obituary.purge).and_then(|purge| purge.ended) {
        let text = format!(
            "purge#{} ended ({outcome}) with the entry still in the pool",
            obituary.purge
        );
        chain.push(Step::new(mark, text));
    }
    let state = match subject.vitality {
        Vitality::Torn => "torn entry",
        _ => "dead entry",
    };
    let count = count(entries.len() as u64, state);
    let (severity, next_use) = if view.rebuilds {
        (Severity::Info, "the next use will build anew")
    } else {
        (Severity::Warning, "the next use will fail")
    };
    let by = stage(obituary.purge, obituary.stage);
    let duty = view
        .ledger
        .owner(owner_id)
        .map(|registration| registration.cleared_by);
    let duty = duty.map_or_else(String::new, |duty| format!(" in stage {duty}"));
    Finding {
        code: subject.code,
        severity,
        confidence: view.confidence(),
        headline: format!("{owner} still has {count} that {by} killed; {next_use}"),
        chain: Vec::new(),
        evidence: entries.iter().map(|(_, _, obituary)| obituary.mark.seq).collect(),
        bytes: Bytes::clamped(bytes),
        next_step: format!("clear {owner}{duty} after the kill, before the next prompt"),
    }
    .with_chain(chain)
}
