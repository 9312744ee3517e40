//! Prompts and their phases, and how whole the record is.

use crate::base::{Nanos, PromptId};
use crate::event::{GapCause, Outcome, Phase, Refusal};
use crate::ledger::{Anomaly, Ledger};
use crate::report::row::{Column, Row, display_as_line, span};

/// One phase of one prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseRow {
    /// The prompt.
    pub prompt: PromptId,
    /// The phase; absent where the prompt ended none.
    pub phase: Option<Phase>,
    /// Tokens that it processed or made.
    pub tokens: u64,
    /// How long it took.
    pub took: Nanos,
    /// Tokens a second; absent where no time passed.
    pub tokens_per_second: Option<f64>,
    /// How the whole prompt ended, where it did.
    pub outcome: Option<Outcome>,
}

impl Row for PhaseRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("prompt", 6),
        Column::word("phase", 8),
        Column::figure("tokens", 8),
        Column::time("took", 8),
        Column::time("tokens/s", 9),
        Column::word("prompt ended", 12),
    ];

    fn cells(&self) -> Vec<String> {
        let rate = self.tokens_per_second;
        vec![
            self.prompt.to_string(),
            self.phase.map_or("-", Phase::word).to_owned(),
            self.phase.map_or("-".to_owned(), |_| self.tokens.to_string()),
            self.phase.map_or("-".to_owned(), |_| span(self.took)),
            rate.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
            self.outcome.map_or("-", Outcome::word).to_owned(),
        ]
    }
}

display_as_line!(PhaseRow);

/// Anomalies that are shown; all are counted.
const ANOMALIES_SHOWN: usize = 16;

/// How whole the record is, and what was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// Events that were folded.
    pub events: u64,
    /// How the run ended; absent where it was cut off, or goes on.
    pub ended: Option<Outcome>,
    /// Events that were lost, by cause.
    pub lost: Vec<(GapCause, u64)>,
    /// Events that did not fit the ones before.
    pub anomalies: u64,
    /// The first of them.
    pub first_anomalies: Vec<Anomaly>,
    /// Work that was not seen to be done.
    pub in_flight: u64,
    /// Refused uses, by reason.
    pub refused: Vec<(Refusal, u64)>,
    /// Allocations that failed.
    pub allocations_failed: u64,
    /// The state's digest, without times.
    pub digest: u64,
}

impl std::fmt::Display for RecordView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = self.ended.map_or("no end", Outcome::word);
        write!(f, "record: {} events, run ended: {ended}", self.events)?;
        for (cause, lost) in &self.lost {
            write!(f, ", {lost} lost ({cause})")?;
        }
        write!(f, ", {} anomalies, {} in flight", self.anomalies, self.in_flight)?;
        for (refusal, count) in &self.refused {
            write!(f, ", {count} refused ({refusal})")?;
        }
        if self.allocations_failed > 0 {
            write!(f, ", {} allocations failed", self.allocations_failed)?;
        }
        write!(f, ", digest {:016x}", self.digest)
    }
}

pub(super) fn phases(ledger: &Ledger) -> Vec<PhaseRow> {
    let mut rows = Vec::new();
    for (id, prompt) in ledger.run().prompts() {
        let row = |phase, tokens, took: Nanos| PhaseRow {
            prompt: *id,
            phase,
            tokens,
            took,
            tokens_per_second: (took.0 > 0).then(|| tokens as f64 / took.seconds()),
            outcome: prompt.ended.map(|(outcome, _)| outcome),
        };
        let phases = prompt.phases.iter();
        rows.extend(phases.map(|run| row(Some(run.phase), run.tokens, run.took)));
        if prompt.phases.is_empty() {
            rows.push(row(None, 0, Nanos(0)));
        }
    }
    rows
}

pub(super) fn record(ledger: &Ledger) -> RecordView {
    let run = ledger.run();
    let lost = GapCause::ALL.iter().map(|cause| (*cause, run.lost(*cause)));
    let refused = Refusal::ALL
        .iter()
        .map(|refusal| (*refusal, ledger.refusals().total(*refusal)));
    RecordView {
        events: run.events(),
        ended: run.ended().map(|(outcome, _)| outcome),
        lost: lost.filter(|(_, count)| *count > 0).collect(),
        anomalies: ledger.anomalies().total(),
        first_anomalies: ledger.anomalies().iter().take(ANOMALIES_SHOWN).copied().collect(),
        in_flight: ledger.launches().in_flight().len() as u64,
        refused: refused.filter(|(_, count)| *count > 0).collect(),
        allocations_failed: ledger.refusals().failures_total(),
        digest: ledger.digest(),
    }
}
