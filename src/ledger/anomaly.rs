//! What did not fit. Kept up to a bound, counted beyond it.

use crate::base::Seq;
use crate::ledger::digest::Untimed;

/// How many anomalies are kept.
pub const KEPT: usize = 1024;

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
    /// The buffer is not in the state that the event needs.
    WrongState,
    /// The slot has storage already.
    AllocatedOverLive,
    /// A segment went back with buffers in it.
    ReturnedWithBuffers,
    /// Sequence numbers are missing or repeated.
    SeqHole,
    /// The time went back.
    TimeWentBack,
}

/// One event that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anomaly {
    /// Which event.
    pub seq: Seq,
    /// Why.
    pub why: Why,
}

/// All that did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Anomalies {
    kept: Vec<Anomaly>,
    total: u64,
    times: Untimed<(Vec<Anomaly>, u64)>,
}

impl Anomalies {
    pub(crate) fn add(&mut self, seq: Seq, why: Why) {
        let timed = why == Why::TimeWentBack;
        let (kept, total) = if timed {
            (&mut self.times.0.0, &mut self.times.0.1)
        } else {
            (&mut self.kept, &mut self.total)
        };
        *total = total.saturating_add(1);
        if kept.len() < KEPT {
            kept.push(Anomaly { seq, why });
        }
    }

    /// The kept ones, those about time last; each of the two kinds keeps its first [`KEPT`].
    pub fn iter(&self) -> impl Iterator<Item = &Anomaly> {
        self.kept.iter().chain(&self.times.0.0)
    }

    /// How many there were, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.saturating_add(self.times.0.1)
    }
}
