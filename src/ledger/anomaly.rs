//! What did not fit. Kept up to a bound, counted beyond it.

use crate::base::Seq;
use crate::ledger::digest::{as_word_of_enum, digest};
use crate::ledger::limits;

/// Why an event did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// An account lacked bytes; an implied opening was posted.
    ImpliedOpening,
    /// The segment is not known.
    UnknownSegment,
    /// The segment is already there.
    DuplicateSegment,
    /// The buffer is not known, or has no storage.
    UnknownBuffer,
    /// The slot has another generation.
    WrongGeneration,
    /// The buffer, graph or purge is not in the state that the event needs.
    WrongState,
    /// The slot has storage already.
    AllocatedOverLive,
    /// A segment went back with buffers in it.
    ReturnedWithBuffers,
    /// Sequence numbers are missing or repeated.
    SeqHole,
    /// The time went back.
    TimeWentBack,
    /// The device, stream, owner, name or setting is already there, and says something else.
    Redefined,
    /// The pool is not known.
    UnknownPool,
    /// The entry is not known.
    UnknownEntry,
    /// The entry is already there.
    DuplicateEntry,
    /// The graph is not known.
    UnknownGraph,
    /// The graph is already there.
    DuplicateGraph,
    /// Work was given a buffer without storage.
    UseWithoutStorage,
    /// The purge or its stage is not known.
    UnknownPurge,
    /// The purge is already there.
    DuplicatePurge,
    /// The prompt is not known.
    UnknownPrompt,
    /// The model was not loaded.
    UnknownModel,
    /// An event after the run's end.
    AfterEnd,
    /// There is more than we keep; see [`limits`].
    OverLimit,
}
as_word_of_enum!(Why);

/// One event that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which event.
    pub seq: Seq,
    /// Why.
    pub why: Why,
}
digest!(Anomaly { seq, why });

/// All that did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    kept: Vec<Anomaly>,
    total: u64,
    about_time: Vec<Anomaly>,
    about_time_total: u64,
}
digest!(Anomalies { kept, total } untimed { about_time, about_time_total });

impl Anomalies {
    pub(crate) fn add(&mut self, seq: Seq, why: Why) {
        let (kept, total) = if why == Why::TimeWentBack {
            (&mut self.about_time, &mut self.about_time_total)
        } else {
            (&mut self.kept, &mut self.total)
        };
        *total = total.saturating_add(1);
        if kept.len() < limits::ANOMALIES {
            kept.push(Anomaly { seq, why });
        }
    }

    /// The kept ones, those about time last.
    pub fn iter(&self) -> impl Iterator<Item = &Anomaly> {
        self.kept.iter().chain(&self.about_time)
    }

    /// How many there were, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.saturating_add(self.about_time_total)
    }
}
