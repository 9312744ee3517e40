//! Runs the rules and ranks what they find.

use crate::diagnose::finding::{Answer, Code, Finding, Severity};
use crate::diagnose::thresholds::Thresholds;
use crate::diagnose::view::{View, rank};
use crate::diagnose::{
    cached_not_returned, purge_during_execution, purge_ineffective, reload_source_destroyed,
    retained_after_unload, stale_graph, stale_pool_entry, stale_workspace, torn_pool_entry,
};
use crate::ledger::Ledger;

/// What all rules say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The gravest first, then those about the most bytes.
    pub findings: Vec<Finding>,
    /// Each rule's answer, in the order of [`Code::ALL`]. The findings are in both.
    pub answers: Vec<(Code, Answer)>,
    /// Findings that were left out, since one rule had too many.
    pub left_out: usize,
}

impl Diagnosis {
    /// The gravest finding's severity.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// One rule's answer.
    #[must_use]
    pub fn answer(&self, code: Code) -> Option<&Answer> {
        let mut answers = self.answers.iter();
        answers.find(|(rule, _)| *rule == code).map(|(_, answer)| answer)
    }
}

/// Asks every rule.
#[must_use]
pub fn diagnose(ledger: &Ledger, thresholds: &Thresholds) -> Diagnosis {
    let view = View::new(ledger, thresholds);
    let answers: Vec<(Code, Answer)> = Code::ALL.iter().map(|code| (*code, ask(*code, &view))).collect();
    let (mut findings, mut left_out) = (Vec::new(), 0);
    for (_, answer) in &answers {
        if let Answer::Found {
            findings: some,
            left_out: more,
        } = answer
        {
            findings.extend(some.iter().cloned());
            left_out += more;
        }
    }
    rank(&mut findings);
    Diagnosis {
        findings,
        answers,
        left_out,
    }
}

fn ask(code: Code, view: &View<'_>) -> Answer {
    match code {
        Code::StalePoolEntry => stale_pool_entry::ask(view),
        Code::TornPoolEntry => torn_pool_entry::ask(view),
        Code::StaleGraph => stale_graph::ask(view),
        Code::StaleWorkspace => stale_workspace::ask(view),
        Code::PurgeIneffective => purge_ineffective::ask(view),
        Code::PurgeDuringExecution => purge_during_execution::ask(view),
        Code::CachedNotReturned => cached_not_returned::ask(view),
        Code::RetainedAfterUnload => retained_after_unload::ask(view),
        Code::ReloadSourceDestroyed => reload_source_destroyed::ask(view),
    }
}
