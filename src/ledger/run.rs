//! The run itself: names, settings, streams, prompts, and how whole the record is.

use std::collections::BTreeMap;

use crate::base::{DeviceId, NameId, Nanos, PromptId, Seq, StreamId};
use crate::event::{
    ConfigNoted, Gap, GapCause, NameDefined, Outcome, Phase, PhaseEnded, PromptBegan, StreamOpened,
};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::table::Table;

/// One ordered queue of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its device.
    pub device: DeviceId,
    /// Its name.
    pub name: NameId,
}
digest!(Stream { device, name });

/// One phase of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseRun {
    /// Which.
    pub phase: Phase,
    /// Tokens that it processed or made.
    pub tokens: u64,
    /// Since the phase before ended, or the prompt began.
    pub took: Nanos,
    /// When it ended.
    pub ended: Mark,
}
digest!(PhaseRun { phase, tokens, ended } untimed { took });

/// One prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Its length in tokens.
    pub tokens: u64,
    /// When it began.
    pub began: Mark,
    /// Its phases; at most [`limits::PHASES`].
    pub phases: Vec<PhaseRun>,
    /// How and when it ended, where it did.
    pub ended: Option<(Outcome, Mark)>,
}
digest!(Prompt {
    tokens,
    began,
    phases,
    ended
});

/// Tokens of one kind of phase, over all prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Phases that ended.
    pub phases: u64,
    /// Tokens that they processed or made; saturates.
    pub tokens: u64,
    /// How long they took, in sum.
    pub took: Nanos,
}
digest!(Tokens { phases, tokens } untimed { took });

/// The run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    names: Table<Box<str>, { limits::NAMES }>,
    name_bytes: u64,
    settings: BTreeMap<NameId, NameId>,
    streams: BTreeMap<StreamId, Stream>,
    prompts: BTreeMap<PromptId, Prompt>,
    prompts_begun: u64,
    tokens: [Tokens; Phase::ALL.len()],
    ended: Option<(Outcome, Mark)>,
    events: u64,
    next: Seq,
    lost: [u64; GapCause::ALL.len()],
    gaps: u64,
    holes: u64,
    /// Numbers that may still be skipped, since a ring wrote over them.
    skippable: u64,
    last: Nanos,
}
digest!(Run {
    names, name_bytes, settings, streams, prompts, prompts_begun, tokens, ended, events, next, lost, gaps, holes, skippable,
} untimed { last });

impl Run {
    /// The text of a name.
    #[must_use]
    pub fn name(&self, name: NameId) -> Option<&str> {
        self.names.get(name.0).map(AsRef::as_ref)
    }

    /// Settings: key to value.
    #[must_use]
    pub fn settings(&self) -> &BTreeMap<NameId, NameId> {
        &self.settings
    }

    /// Streams by number.
    #[must_use]
    pub fn streams(&self) -> &BTreeMap<StreamId, Stream> {
        &self.streams
    }

    /// How many prompts began, kept or not.
    #[must_use]
    pub fn prompts_begun(&self) -> u64 {
        self.prompts_begun
    }

    /// Tokens of one kind of phase, over all prompts.
    #[must_use]
    pub fn tokens(&self, phase: Phase) -> Tokens {
        self.tokens[phase as usize]
    }

    /// The latest prompts by number.
    #[must_use]
    pub fn prompts(&self) -> &BTreeMap<PromptId, Prompt> {
        &self.prompts
    }

    /// How and when the run ended; absent where it was cut off, or goes on.
    #[must_use]
    pub fn ended(&self) -> Option<(Outcome, Mark)> {
        self.ended
    }

    /// How many events were folded.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many events gaps say were lost for this cause.
    #[must_use]
    pub fn lost(&self, cause: GapCause) -> u64 {
        self.lost[cause as usize]
    }

    /// How many gaps there are.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// How often event numbers were missing or repeated without a gap that says so.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// The time of the last event.
    #[must_use]
    pub fn last(&self) -> Nanos {
        self.last
    }

    /// Numbers and times of events.
    #[inline]
    pub(crate) fn stamped(&mut self, mark: Mark, odd: &mut Anomalies) {
        self.events += 1;
        if mark.seq != self.next {
            let skipped = mark.seq.0.checked_sub(self.next.0);
            match skipped.and_then(|skipped| self.skippable.checked_sub(skipped)) {
                Some(rest) => self.skippable = rest,
                None => {
                    self.holes += 1;
                    odd.add(mark.seq, Why::SeqHole);
                }
            }
        }
        if mark.at < self.last {
            odd.add(mark.seq, Why::TimeWentBack);
        }
        self.next = Seq(mark.seq.0.saturating_add(1));
        self.last = self.last.max(mark.at);
    }

    /// Whether the record is still in what a ring kept of the events that it wrote over.
    pub(crate) fn is_in_kept_part(&self) -> bool {
        self.skippable > 0
    }

    /// A gap. One that a ring leaves says in advance that numbers will be missing, its own among them.
    pub(crate) fn gap(&mut self, mark: Mark, e: &Gap, odd: &mut Anomalies) {
        self.gaps += 1;
        let lost = &mut self.lost[e.cause as usize];
        *lost = lost.saturating_add(e.lost);
        let ring = e.cause == GapCause::RingOverwritten && e.lost > 0;
        if ring {
            self.skippable = self.skippable.saturating_add(e.lost);
        }
        self.stamped(mark, odd);
        if ring {
            self.next = mark.seq;
        }
    }

    pub(crate) fn named(&mut self, mark: Mark, e: &NameDefined, odd: &mut Anomalies) {
        if self.names.get(e.name.0).is_some() {
            return odd.add(mark.seq, Why::Redefined);
        }
        let bytes = self.name_bytes.saturating_add(e.text.len() as u64);
        if bytes > limits::NAME_BYTES as u64 {
            return odd.add(mark.seq, Why::OverLimit);
        }
        match self.names.row(e.name.0) {
            Some(text) => {
                *text = e.text.clone();
                self.name_bytes = bytes;
            }
            None => odd.add(mark.seq, Why::OverLimit),
        }
    }

    pub(crate) fn stream_opened(&mut self, mark: Mark, e: &StreamOpened, odd: &mut Anomalies) {
        if self.streams.contains_key(&e.stream) {
            return odd.add(mark.seq, Why::Redefined);
        }
        if self.streams.len() >= limits::STREAMS {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let (device, name) = (e.device, e.name);
        self.streams.insert(e.stream, Stream { device, name });
    }

    pub(crate) fn noted(&mut self, mark: Mark, e: &ConfigNoted, odd: &mut Anomalies) {
        if self.settings.len() >= limits::SETTINGS && !self.settings.contains_key(&e.key) {
            return odd.add(mark.seq, Why::OverLimit);
        }
        self.settings.insert(e.key, e.value);
    }

    pub(crate) fn prompt_began(&mut self, mark: Mark, e: &PromptBegan, odd: &mut Anomalies) {
        if self.prompts.contains_key(&e.prompt) {
            return odd.add(mark.seq, Why::Redefined);
        }
        if self.prompts.len() >= limits::PROMPTS {
            self.prompts.pop_first();
        }
        self.prompts_begun += 1;
        let prompt = Prompt {
            tokens: e.tokens,
            began: mark,
            ..Prompt::default()
        };
        self.prompts.insert(e.prompt, prompt);
    }

    pub(crate) fn phase_ended(&mut self, mark: Mark, e: &PhaseEnded, odd: &mut Anomalies) {
        let Some(prompt) = self.prompts.get_mut(&e.prompt) else {
            return odd.add(mark.seq, Why::UnknownPrompt);
        };
        if prompt.phases.len() >= limits::PHASES {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let totals = &mut self.tokens[e.phase as usize];
        totals.phases += 1;
        totals.tokens = totals.tokens.saturating_add(e.tokens);
        let before = prompt.phases.last().map_or(prompt.began, |run| run.ended);
        let took = mark.at.since(before.at);
        totals.took += took;
        prompt.phases.push(PhaseRun {
            phase: e.phase,
            tokens: e.tokens,
            took,
            ended: mark,
        });
    }

    pub(crate) fn prompt_ended(&mut self, mark: Mark, id: PromptId, outcome: Outcome, odd: &mut Anomalies) {
        match self.prompts.get_mut(&id) {
            None => odd.add(mark.seq, Why::UnknownPrompt),
            Some(prompt) if prompt.ended.is_some() => odd.add(mark.seq, Why::WrongState),
            Some(prompt) => prompt.ended = Some((outcome, mark)),
        }
    }

    pub(crate) fn run_ended(&mut self, mark: Mark, outcome: Outcome, odd: &mut Anomalies) {
        if self.ended.is_some() {
            return odd.add(mark.seq, Why::WrongState);
        }
        self.ended = Some((outcome, mark));
    }
}
