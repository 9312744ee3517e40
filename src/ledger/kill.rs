//! Kills: whose storage a purge took away, and who held it then.

use std::collections::BTreeMap;

use crate::base::{BufferId, EntryId, Generation, PurgeId, Seq};
use crate::event::Stage;
use crate::ledger::anomaly::{Anomalies, Why};
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
    total: u64,
}
digest!(Kills { kept, total });

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

    pub(crate) fn add(
        &mut self,
        seq: Seq,
        place: (BufferId, Generation),
        obituary: Obituary,
        odd: &mut Anomalies,
    ) {
        self.total += 1;
        if self.kept.len() >= limits::KILLS && !self.kept.contains_key(&place) {
            return odd.add(seq, Why::OverLimit);
        }
        self.kept.insert(place, obituary);
    }
}
