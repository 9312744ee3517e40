//! Pools and their entries. Whether an entry is alive is not stated by any event: it follows from its buffers.

use std::collections::BTreeMap;

use crate::base::{BufferId, Bytes, EntryId, Generation, NameId, OwnerId, PoolId, StreamId};
use crate::event::{EntryAdded, EntryPartSet, PoolOpened, PoolTaken, ReleaseCause, TakeOutcome};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::memory::Memory;

/// One pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its owner; absent where its opening is missing.
    pub owner: Option<OwnerId>,
    /// The stream in its key.
    pub stream: StreamId,
    /// It evicts above this.
    pub limit: Bytes,
    /// When it was opened, or first seen.
    pub opened: Mark,
    /// Takes that found a live entry.
    pub hits: u64,
    /// Takes that found none.
    pub misses: u64,
    /// Takes that found a dead one and built it again.
    pub rebuilt: u64,
    /// Entries it has.
    pub entries: u64,
    /// Entries it let go, by cause in the order of [`ReleaseCause::ALL`].
    pub dropped: [u64; ReleaseCause::ALL.len()],
    /// Bytes that its entries took when they were filled, rounding included. Not what is still alive of them.
    pub bytes: i128,
    /// The largest [`Pool::bytes`].
    pub bytes_peak: i128,
}
digest!(Pool {
    owner,
    stream,
    limit,
    opened,
    hits,
    misses,
    rebuilt,
    entries,
    dropped,
    bytes,
    bytes_peak
});

/// One buffer of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name, such as `qx` or `scales`.
    pub name: NameId,
    /// The slot.
    pub buffer: BufferId,
    /// The generation that the entry holds.
    pub generation: Generation,
    /// What it took when it was set, rounding included; 0 where it had no storage even then.
    pub bytes: i128,
    /// When it was set.
    pub set: Mark,
}
digest!(Part {
    name,
    buffer,
    generation,
    bytes,
    set
});

/// One entry of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The pool.
    pub pool: PoolId,
    /// Its key, in words.
    pub key: NameId,
    /// When it was added.
    pub added: Mark,
    /// Its buffers.
    pub parts: Vec<Part>,
    /// How often it was taken.
    pub taken: u64,
    /// When it was last taken.
    pub last_taken: Option<Mark>,
}
digest!(Entry {
    pool,
    key,
    added,
    parts,
    taken,
    last_taken
});

/// Whether an entry can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vitality {
    /// All parts have their storage.
    Live,
    /// No part has.
    Dead,
    /// Some parts have.
    Torn,
}

impl Entry {
    /// Whether it can be used. An entry without parts is live: there is nothing to lose.
    #[must_use]
    pub fn vitality(&self, memory: &Memory) -> Vitality {
        let alive = self.parts.iter().filter(|part| part.alive(memory)).count();
        match alive {
            n if n == self.parts.len() => Vitality::Live,
            0 => Vitality::Dead,
            _ => Vitality::Torn,
        }
    }
}

impl Part {
    /// Whether its storage is still there.
    #[must_use]
    pub fn alive(&self, memory: &Memory) -> bool {
        memory.reaches(self.buffer, self.generation, self.set.seq)
    }
}

/// All pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    pools: BTreeMap<PoolId, Pool>,
    entries: BTreeMap<EntryId, Entry>,
}
digest!(Pools { pools, entries });

impl Pools {
    /// Pools by number.
    #[must_use]
    pub fn pools(&self) -> &BTreeMap<PoolId, Pool> {
        &self.pools
    }

    /// Entries that pools have, by number.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<EntryId, Entry> {
        &self.entries
    }

    /// The pool, made where it is new; none where there are too many.
    fn row(&mut self, mark: Mark, id: PoolId, odd: &mut Anomalies) -> Option<&mut Pool> {
        let full = self.pools.len() >= limits::POOLS;
        if full && !self.pools.contains_key(&id) {
            odd.add(mark.seq, Why::OverLimit);
            return None;
        }
        let fresh = || Pool {
            opened: mark,
            ..Pool::default()
        };
        Some(self.pools.entry(id).or_insert_with(fresh))
    }

    fn known(&mut self, mark: Mark, id: PoolId, odd: &mut Anomalies) -> Option<&mut Pool> {
        if !self.pools.contains_key(&id) {
            odd.add(mark.seq, Why::UnknownPool);
        }
        self.row(mark, id, odd)
    }

    pub(crate) fn opened(&mut self, mark: Mark, e: &PoolOpened, odd: &mut Anomalies) {
        if self.pools.get(&e.pool).is_some_and(|pool| pool.owner.is_some()) {
            return odd.add(mark.seq, Why::Redefined);
        }
        if let Some(pool) = self.row(mark, e.pool, odd) {
            (pool.owner, pool.stream, pool.limit) = (Some(e.owner), e.stream, e.limit);
        }
    }

    pub(crate) fn added(&mut self, mark: Mark, e: &EntryAdded, odd: &mut Anomalies) {
        if self.entries.contains_key(&e.entry) {
            return odd.add(mark.seq, Why::DuplicateEntry);
        }
        if self.entries.len() >= limits::ENTRIES {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let Some(pool) = self.known(mark, e.pool, odd) else {
            return;
        };
        pool.entries += 1;
        let entry = Entry {
            pool: e.pool,
            key: e.key,
            added: mark,
            parts: Vec::new(),
            taken: 0,
            last_taken: None,
        };
        self.entries.insert(e.entry, entry);
    }

    pub(crate) fn part_set(
        &mut self,
        mark: Mark,
        e: &EntryPartSet,
        memory: &mut Memory,
        odd: &mut Anomalies,
    ) {
        let Some(entry) = self.entries.get_mut(&e.entry) else {
            return odd.add(mark.seq, Why::UnknownEntry);
        };
        let bytes = memory.storage(e.buffer, e.generation).map(|buffer| buffer.size());
        if bytes.is_none() {
            odd.add(mark.seq, Why::UnknownBuffer);
        } else if let Some(slot) = memory.slot_mut(e.buffer) {
            slot.entry = Some(e.entry);
        }
        let part = Part {
            name: e.part,
            buffer: e.buffer,
            generation: e.generation,
            bytes: bytes.unwrap_or(0),
            set: mark,
        };
        let before = match entry.parts.iter().position(|known| known.name == e.part) {
            Some(index) => std::mem::replace(&mut entry.parts[index], part).bytes,
            None if entry.parts.len() < limits::PARTS => {
                entry.parts.push(part);
                0
            }
            None => return odd.add(mark.seq, Why::OverLimit),
        };
        if let Some(pool) = self.pools.get_mut(&entry.pool) {
            pool.bytes += part.bytes - before;
            pool.bytes_peak = pool.bytes_peak.max(pool.bytes);
        }
    }

    pub(crate) fn taken(&mut self, mark: Mark, e: &PoolTaken, odd: &mut Anomalies) {
        let Some(pool) = self.known(mark, e.pool, odd) else {
            return;
        };
        match e.outcome {
            TakeOutcome::Hit => pool.hits += 1,
            TakeOutcome::Miss => pool.misses += 1,
            TakeOutcome::Rebuilt => pool.rebuilt += 1,
        }
        match self.entries.get_mut(&e.entry) {
            Some(entry) => {
                entry.taken += 1;
                entry.last_taken = Some(mark);
            }
            // A new entry may be stated before it is added.
            None if e.outcome == TakeOutcome::Hit => odd.add(mark.seq, Why::UnknownEntry),
            None => {}
        }
    }

    pub(crate) fn dropped(
        &mut self,
        mark: Mark,
        (id, cause): (EntryId, ReleaseCause),
        memory: &mut Memory,
        odd: &mut Anomalies,
    ) {
        let Some(entry) = self.entries.remove(&id) else {
            return odd.add(mark.seq, Why::UnknownEntry);
        };
        if let Some(pool) = self.pools.get_mut(&entry.pool) {
            pool.entries = pool.entries.saturating_sub(1);
            pool.dropped[cause as usize] += 1;
            pool.bytes -= entry.parts.iter().map(|part| part.bytes).sum::<i128>();
        }
        for part in &entry.parts {
            if let Some(slot) = memory.slot_mut(part.buffer)
                && slot.entry == Some(id)
            {
                slot.entry = None;
            }
        }
    }
}
