//! The pure, total fold of events into state: any sequence of events gives a state, never a panic.

mod accounts;
mod anomaly;
mod digest;
mod memory;

use std::collections::BTreeMap;

use crate::base::{Bytes, DeviceId, NameId, Nanos, OwnerId, Seq};
use crate::event::{Event, Stamped};

pub use accounts::{Account, Accounts};
pub use anomaly::{Anomalies, Anomaly, KEPT, Why};
pub use digest::Untimed;
pub use memory::{Buffer, Memory, Obituary, Segment, Slot, State};

/// The state that a trace folds into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    memory: Memory,
    names: BTreeMap<NameId, Box<str>>,
    next: Option<Seq>,
    lost: u64,
    last: Untimed<Nanos>,
}

impl Ledger {
    /// Folds one event.
    pub fn apply(&mut self, stamped: &Stamped) {
        let seq = stamped.seq;
        if self.next.unwrap_or_default() != seq {
            self.memory.anomalies.add(seq, Why::SeqHole);
        }
        if stamped.at < self.last.0 {
            self.memory.anomalies.add(seq, Why::TimeWentBack);
        }
        self.next = Some(Seq(seq.0.saturating_add(1)));
        self.last.0 = self.last.0.max(stamped.at);
        let memory = &mut self.memory;
        let live = [State::Live];
        let released = [State::Pending, State::Held];
        match &stamped.event {
            Event::NameDefined(e) => {
                self.names.insert(e.name, e.text.clone());
            }
            Event::DeviceOpened(e) => {
                memory.post(
                    seq,
                    e.device,
                    Account::Driver,
                    Account::Context,
                    i128::from(e.context.0),
                );
            }
            Event::SegmentReserved(e) => memory.reserved(seq, e),
            Event::SegmentReturned(e) => memory.returned(seq, e.segment),
            Event::BufferAllocated(e) => memory.allocated(seq, e),
            Event::ReleaseRequested(e) => {
                memory.moved(seq, e.buffer, e.generation, &live, Some(State::Pending))
            }
            Event::BufferHeld(e) => {
                memory.moved(seq, e.buffer, e.generation, &[State::Pending], Some(State::Held));
            }
            Event::ReleaseCompleted(e) => memory.moved(seq, e.buffer, e.generation, &released, None),
            Event::BufferKilled(e) => memory.killed(seq, stamped.at, e),
            Event::Gap(e) => self.lost = self.lost.saturating_add(e.lost),
            _ => {}
        }
    }

    /// The balances of a device; all zero where it is not known.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Accounts {
        self.memory.accounts.get(&device).cloned().unwrap_or_default()
    }

    /// The books of memory.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The text of a name.
    #[must_use]
    pub fn name(&self, name: NameId) -> Option<&str> {
        self.names.get(&name).map(AsRef::as_ref)
    }

    /// How many events gaps say were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Requested bytes of live buffers by owner.
    #[must_use]
    pub fn live_by_owner(&self) -> BTreeMap<OwnerId, Bytes> {
        let mut sums = BTreeMap::new();
        for buffer in self.memory.slots.values().filter_map(|s| s.buffer.as_ref()) {
            if buffer.state == State::Live {
                *sums.entry(buffer.owner).or_insert(Bytes::ZERO) += buffer.requested;
            }
        }
        sums
    }

    /// A digest of the state without its times.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest::of(self)
    }
}
