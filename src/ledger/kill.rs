//! Kills: whose storage a purge took away, and who held it then.

use std::collections::{BTreeMap, VecDeque};

use crate::base::{BufferId, EntryId, Generation, PurgeId, Seq};
use crate::event::Stage;
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::memory::Buffer;

/// How the storage of a slot was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obituary {
    /// The purge.
    pub purge: PurgeId,
    /// Its stage.
    pub stage: Stage,
    /// The event.
    pub mark: Mark,
    /// What was killed, as it was just before.
    pub buffer: Buffer,
    /// The pool entry that held it.
    pub entry: Option<EntryId>,
    /// How many graphs had baked it.
    pub graphs: u32,
}
digest!(Obituary {
    purge,
    stage,
    mark,
    buffer,
    entry,
    graphs
});

/// All kills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    kept: BTreeMap<(BufferId, Generation), Obituary>,
    /// The keys of `kept` and of what they replaced, the earliest first.
    order: VecDeque<(Seq, (BufferId, Generation))>,
    total: u64,
}
digest!(Kills { kept, total } untimed { order });

impl Kills {
    /// How the storage of this generation died.
    #[must_use]
    pub fn get(&self, buffer: BufferId, generation: Generation) -> Option<&Obituary> {
        self.kept.get(&(buffer, generation))
    }

    /// The kept ones, by slot and generation.
    pub fn iter(&self) -> impl Iterator<Item = (BufferId, Generation, &Obituary)> {
        self.kept
            .iter()
            .map(|((buffer, generation), obituary)| (*buffer, *generation, obituary))
    }

    /// How many there were, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn add(&mut self, place: (BufferId, Generation), obituary: Obituary) {
        self.total += 1;
        if self.order.len() >= limits::KILLS
            && let Some((seq, oldest)) = self.order.pop_front()
            && self.kept.get(&oldest).is_some_and(|kept| kept.mark.seq == seq)
        {
            self.kept.remove(&oldest);
        }
        self.order.push_back((obituary.mark.seq, place));
        self.kept.insert(place, obituary);
    }
}
