//! Where and when a thing happened.

use crate::base::{Nanos, Seq};
use crate::ledger::digest::digest;

/// Place and time of an event. The digest takes the place only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its number in the trace.
    pub seq: Seq,
    /// Time since the start of the trace.
    pub at: Nanos,
}
digest!(Mark { seq } untimed { at });
