//! What all rules look at: the state, and words for what is in it.

use crate::base::{BufferId, Bytes, DeviceId, Generation, NameId, OwnerId, PurgeId, Seq};
use crate::diagnose::finding::{Answer, Confidence, Finding};
use crate::diagnose::thresholds::Thresholds;
use crate::event::{GapCause, Stage};
use crate::ledger::{InFlight, Ledger, Purge, Work};

/// The state, what is missing from it, and what is not over.
pub(crate) struct View<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) limits: &'a Thresholds,
    /// Why facts that never may be dropped are missing, where they are.
    pub(crate) missing: Option<String>,
    /// A purge that is still going on.
    pub(crate) open_purge: Option<PurgeId>,
    /// Whether the run says that it rebuilds what is stale instead of failing.
    pub(crate) rebuilds: bool,
}

impl<'a> View<'a> {
    pub(crate) fn new(ledger: &'a Ledger, limits: &'a Thresholds) -> View<'a> {
        let run = ledger.run();
        let lost = run
            .lost(GapCause::Storage)
            .saturating_add(run.lost(GapCause::RingOverwritten));
        let holes = run.holes() > 0;
        let missing = match (lost, holes) {
            (0, false) => None,
            (0, true) => Some("event numbers are missing from the record".to_owned()),
            (lost, _) => Some(format!("{} missing from the record", are(lost, "event"))),
        };
        let mut purges = ledger.purges().purges().iter();
        let open = purges.find(|(_, purge)| purge.ended.is_none() && purge.refused.is_none());
        View {
            ledger,
            limits,
            missing,
            rebuilds: run
                .settings()
                .iter()
                .any(|(key, value)| run.name(*key) == Some("stale") && run.name(*value) == Some("rebuild")),
            open_purge: open.map(|(id, _)| *id).filter(|_| run.ended().is_none()),
        }
    }

    /// How sure a chain is whose every step is there.
    pub(crate) fn confidence(&self) -> Confidence {
        match self.missing {
            None => Confidence::High,
            Some(_) => Confidence::Medium,
        }
    }

    /// The answer where nothing is missing that the rule itself needs.
    pub(crate) fn answer(&self, findings: Vec<Finding>) -> Answer {
        self.answer_or(findings, None, None)
    }

    /// The answer of a rule that has its own reasons to wait or to doubt.
    pub(crate) fn answer_or(
        &self,
        findings: Vec<Finding>,
        cannot_tell: Option<String>,
        too_early: Option<String>,
    ) -> Answer {
        if !findings.is_empty() {
            return found(findings, self.limits.findings_per_rule);
        }
        if let Some(why) = cannot_tell.or_else(|| self.missing.clone()) {
            return Answer::CannotTell(why);
        }
        let open = self.open_purge.map(|id| format!("purge#{id} is still going on"));
        too_early.or(open).map_or(Answer::Clear, Answer::TooEarly)
    }

    pub(crate) fn purge(&self, id: PurgeId) -> Option<&'a Purge> {
        self.ledger.purges().purges().get(&id)
    }

    pub(crate) fn name(&self, name: NameId) -> String {
        let text = self.ledger.name(name);
        text.map_or_else(|| format!("name#{name}"), str::to_owned)
    }

    pub(crate) fn owner(&self, owner: OwnerId) -> String {
        let text = self.ledger.owner_name(owner);
        text.map_or_else(|| format!("owner#{owner}"), str::to_owned)
    }

    pub(crate) fn device(&self, device: DeviceId) -> String {
        let opened = self.ledger.memory().devices().get(device).and_then(|d| d.opened);
        opened.map_or_else(|| format!("device#{device}"), |opened| self.name(opened.name))
    }

    pub(crate) fn work(&self, piece: &InFlight) -> String {
        let what = match piece.work {
            Work::Kernel(name) => format!("kernel {}", self.name(name)),
            Work::Copy(direction) => format!("copy {direction}"),
            Work::Graph(graph) => format!("replay of graph {graph}"),
        };
        match piece.stream {
            Some(stream) => format!("launch {} ({what}) on stream {stream}", piece.launch),
            None => format!("launch {} ({what})", piece.launch),
        }
    }

    /// `a, b and 3 more`; `nothing` where there is nothing.
    pub(crate) fn list(&self, mut names: impl Iterator<Item = String>) -> String {
        let some: Vec<String> = names.by_ref().take(self.limits.names_per_list).collect();
        match (some.is_empty(), names.count()) {
            (true, _) => "nothing".to_owned(),
            (false, 0) => some.join(", "),
            (false, more) => format!("{} and {more} more", some.join(", ")),
        }
    }
}

fn found(mut findings: Vec<Finding>, keep: usize) -> Answer {
    rank(&mut findings);
    let left_out = findings.len().saturating_sub(keep);
    findings.truncate(keep);
    Answer::Found { findings, left_out }
}

/// The gravest first, then the most bytes, then the earliest.
pub(crate) fn rank(findings: &mut [Finding]) {
    let first = |finding: &Finding| finding.evidence.first().copied().unwrap_or(Seq(u64::MAX));
    findings.sort_by(|a, b| {
        (b.severity, b.bytes)
            .cmp(&(a.severity, a.bytes))
            .then(a.code.cmp(&b.code))
            .then(first(a).cmp(&first(b)))
    });
}

/// `purge#1 stage 3`.
pub(crate) fn stage(purge: PurgeId, stage: Stage) -> String {
    format!("purge#{purge} stage {stage}")
}

/// `buffer 3 generation 5`.
pub(crate) fn buffer(id: BufferId, generation: Generation) -> String {
    format!("buffer {id} generation {generation}")
}

/// `1 buffer`, `2 buffers`: the plural is with an `s`, or `ies` for a `y`.
pub(crate) fn count(n: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if n == 1 => format!("1 {one}"),
        Some(stem) => format!("{n} {stem}ies"),
        None => format!("{n} {one}s"),
    }
}

/// `1 buffer is`, `2 buffers are`.
pub(crate) fn are(n: u64, one: &str) -> String {
    format!("{} {}", count(n, one), if n == 1 { "is" } else { "are" })
}

/// A sum as a readable size.
pub(crate) fn size(bytes: i128) -> String {
    if bytes < 0 {
        format!("-{}", Bytes::clamped(-bytes))
    } else {
        Bytes::clamped(bytes).to_string()
    }
}
