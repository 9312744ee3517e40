//! Pools of reusable entries, each a handful of buffers under one key.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Bytes, EntryId, OwnerId, PoolId};
use crate::event::{
    EntryAdded, EntryDropped, EntryPartSet, OwnerKind, PoolOpened, PoolTaken, ReleaseCause, Stage,
    TakeOutcome,
};
use crate::runtime::probe::spans;
use crate::runtime::state::EntryState;
use crate::runtime::{Buffer, Claim, Owner, Runtime, RuntimeError, StalePolicy, Stream};

/// What a pool is.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its owner's name, such as `nvfp4_runtime.act_q_pool`.
    pub name: &'static str,
    /// What its owner is.
    pub kind: OwnerKind,
    /// The purge stage whose duty it is to clear it.
    pub cleared_by: Stage,
    /// Above this, the least recently used entries go.
    pub limit: Bytes,
}

/// One entry: its parts, in the order in which they were asked for.
pub struct Entry {
    id: EntryId,
    parts: Vec<(&'static str, Buffer)>,
}

impl Entry {
    /// The part at `index`. It may be dead: a launch that uses it is refused then.
    ///
    /// # Panics
    /// The entry has fewer parts than the taker asked for, which can't be.
    #[must_use]
    pub fn part(&self, index: usize) -> &Buffer {
        &self.parts[index].1
    }

    fn bytes(&self) -> Bytes {
        self.parts.iter().map(|(_, buffer)| buffer.bytes()).sum()
    }

    fn is_alive(&self) -> bool {
        self.parts.iter().all(|(_, buffer)| buffer.is_alive())
    }
}

struct Held {
    entry: Arc<Entry>,
    used: u64,
}

struct PoolState<K> {
    entries: BTreeMap<K, Held>,
    clock: u64,
    bytes: Bytes,
}

/// A pool on one stream. Entries are shared: what a pool gives out stays in the pool.
pub struct Pool<K> {
    runtime: Runtime,
    config: PoolConfig,
    owner: OwnerId,
    id: PoolId,
    stream: Stream,
    state: Mutex<PoolState<K>>,
}

impl<K: Ord + Clone + Display + Send + 'static> Pool<K> {
    /// A pool that is registered as an owner.
    #[must_use]
    pub fn open(runtime: &Runtime, stream: &Stream, config: PoolConfig) -> Arc<Pool<K>> {
        runtime.own(config.name, config.kind, config.cleared_by, |owner| {
            let mut state = runtime.shared.lock();
            let id = state.next.pool();
            state.probe.record(PoolOpened {
                pool: id,
                owner,
                stream: stream.id,
                limit: config.limit,
            });
            Pool {
                runtime: runtime.clone(),
                owner,
                id,
                stream: stream.clone(),
                state: Mutex::new(PoolState {
                    entries: BTreeMap::new(),
                    clock: 0,
                    bytes: Bytes::ZERO,
                }),
                config: config.clone(),
            }
        })
    }

    /// The entry under `key`; built with these parts where there is none. A dead entry is given out as it is
    /// under [`StalePolicy::Error`], so that the launch names the culprit, and built again under
    /// [`StalePolicy::Rebuild`].
    ///
    /// # Errors
    /// A part finds no room.
    pub fn take(&self, key: &K, parts: &[(&'static str, Bytes)]) -> Result<Arc<Entry>, RuntimeError> {
        let span = spans::take(self.config.name);
        let mut pool = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        pool.clock += 1;
        let now = pool.clock;
        let mut outcome = TakeOutcome::Miss;
        if let Some(held) = pool.entries.get_mut(key) {
            if held.entry.is_alive() || self.runtime.stale_policy() == StalePolicy::Error {
                held.used = now;
                let entry = Arc::clone(&held.entry);
                self.state_taken(&span, entry.id, TakeOutcome::Hit);
                return Ok(entry);
            }
            outcome = TakeOutcome::Rebuilt;
            self.drop_entry(&mut pool, key, ReleaseCause::Stale);
            self.runtime.note_healed_entry();
        }
        let entry = Arc::new(self.build(key, parts)?);
        pool.bytes += entry.bytes();
        let held = Held {
            entry: Arc::clone(&entry),
            used: now,
        };
        pool.entries.insert(key.clone(), held);
        self.state_taken(&span, entry.id, outcome);
        while pool.bytes > self.config.limit && pool.entries.len() > 1 {
            let oldest = pool.entries.iter().min_by_key(|(_, held)| held.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.drop_entry(&mut pool, &oldest, ReleaseCause::Evicted);
        }
        Ok(entry)
    }

    fn state_taken(&self, span: &tracing::Span, entry: EntryId, outcome: TakeOutcome) {
        let state = self.runtime.shared.lock();
        state.probe.record_in(
            span,
            PoolTaken {
                pool: self.id,
                entry,
                outcome,
            },
        );
    }

    fn build(&self, key: &K, parts: &[(&'static str, Bytes)]) -> Result<Entry, RuntimeError> {
        let key = key.to_string();
        let mut buffers = Vec::with_capacity(parts.len());
        for (name, bytes) in parts {
            let site = format!("{name} {key}");
            let buffer = self.runtime.allocate(&self.stream, self.owner, &site, *bytes)?;
            buffers.push((*name, buffer));
        }
        let mut state = self.runtime.shared.lock();
        let id = state.next.entry();
        let name = state.probe.name(&key);
        state.probe.record(EntryAdded {
            pool: self.id,
            entry: id,
            key: name,
        });
        for (part, buffer) in &buffers {
            let part = state.probe.fixed_name(part);
            state.probe.record(EntryPartSet {
                entry: id,
                part,
                buffer: buffer.id(),
                generation: buffer.generation(),
            });
            state.slots[buffer.slot as usize].entry = Some(id);
        }
        let parts = buffers
            .iter()
            .map(|(name, buffer)| (*name, buffer.slot, buffer.generation, buffer.bytes));
        let entry = EntryState {
            key,
            parts: parts.collect(),
        };
        state.entries.insert(id, entry);
        Ok(Entry { id, parts: buffers })
    }

    fn drop_entry(&self, pool: &mut PoolState<K>, key: &K, cause: ReleaseCause) -> Bytes {
        let Some(held) = pool.entries.remove(key) else {
            return Bytes::ZERO;
        };
        pool.bytes = pool.bytes.saturating_sub(held.entry.bytes());
        let mut state = self.runtime.shared.lock();
        let entry = held.entry.id;
        state.probe.record(EntryDropped { entry, cause });
        state.entries.remove(&entry);
        let ours = Arc::strong_count(&held.entry) == 1;
        let parts = held
            .entry
            .parts
            .iter()
            .filter(|(_, part)| ours && state.would_free(part.slot, part.generation));
        let freed = parts.map(|(_, part)| part.bytes).sum();
        drop(state);
        if let Some(entry) = Arc::into_inner(held.entry) {
            for (_, buffer) in entry.parts {
                buffer.release(cause);
            }
        }
        freed
    }
}

impl<K: Ord + Clone + Display + Send + 'static> Owner for Pool<K> {
    fn clear(&self) -> Vec<Claim> {
        let mut pool = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<K> = pool.entries.keys().cloned().collect();
        let mut bytes = Bytes::ZERO;
        for key in &keys {
            bytes += self.drop_entry(&mut pool, key, ReleaseCause::Cleared);
        }
        vec![Claim {
            device: self.runtime.device_of(&self.stream),
            entries: keys.len() as u64,
            bytes,
        }]
    }
}
