//! The seam between those who state facts and those who keep them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::base::clock::Clock;
use crate::base::{NameId, Nanos, Seq};
use crate::event::{Event, Stamped};

/// Where an event landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its place in the trace.
    pub seq: Seq,
    /// When, since the start of the trace.
    pub at: Nanos,
}

/// Keeps events. A failure to keep them degrades the recording, never the run: so there is no error here.
pub trait Record: Send + Sync {
    /// Gives the event its number and time and keeps it. Call it under the lock that made the fact true.
    fn record(&self, event: &Event) -> Stamp;
}

/// Keeps events in memory, for tests and small tools. Unbounded.
#[derive(Debug)]
pub struct MemoryLog {
    clock: Clock,
    events: Mutex<Vec<Stamped>>,
}

impl MemoryLog {
    /// An empty log that stamps with `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> MemoryLog {
        MemoryLog {
            clock,
            events: Mutex::new(Vec::new()),
        }
    }

    /// Everything recorded so far.
    #[must_use]
    pub fn events(&self) -> Vec<Stamped> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Record for MemoryLog {
    fn record(&self, event: &Event) -> Stamp {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp {
            seq: Seq(events.len() as u64),
            at: self.clock.now(),
        };
        events.push(Stamped {
            seq: stamp.seq,
            at: stamp.at,
            event: event.clone(),
        });
        stamp
    }
}

/// The numbers of the strings of one trace.
#[derive(Debug, Default)]
pub struct NameTable {
    numbers: HashMap<Box<str>, NameId>,
}

impl NameTable {
    /// The number of `text`, and whether it is new: then the caller records its
    /// [`NameDefined`](crate::event::NameDefined).
    pub fn intern(&mut self, text: &str) -> (NameId, bool) {
        if let Some(id) = self.numbers.get(text) {
            return (*id, false);
        }
        let id = NameId(u32::try_from(self.numbers.len()).unwrap_or(u32::MAX));
        self.numbers.insert(text.into(), id);
        (id, true)
    }
}
