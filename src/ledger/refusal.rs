//! Refused uses and failed allocations, with all that our books knew at that moment.

use crate::base::{BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, NameId, OwnerId, PurgeId};
use crate::event::{AccessRefused, AllocFailed, AllocRetried, Refusal};
use crate::ledger::digest::digest;
use crate::ledger::graph::{Baked, Graph, Graphs};
use crate::ledger::kill::{Kills, Obituary};
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::memory::{Buffer, Memory};
use crate::ledger::pool::{Entry, Part, Pools};

/// The pool entry that a refused use came from, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryThen {
    /// Its number.
    pub id: EntryId,
    /// The entry.
    pub entry: Entry,
    /// For each part, whether its storage was there.
    pub alive: Vec<bool>,
}
digest!(EntryThen { id, entry, alive });

/// The graph that a refused replay was of, as it was then. Only the refused buffer of what it baked is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphThen {
    /// Its number.
    pub id: GraphId,
    /// Its key.
    pub key: NameId,
    /// When its capture began.
    pub began: Mark,
    /// What it baked of the refused slot.
    pub baked: Option<Baked>,
    /// How many of the buffers that it baked had moved on.
    pub stale: u64,
    /// How often it was replayed before.
    pub replays: u64,
}
digest!(GraphThen {
    id,
    key,
    began,
    baked,
    stale,
    replays
});

/// One refused use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// When.
    pub mark: Mark,
    /// The operation, or the graph's name.
    pub op: NameId,
    /// The argument.
    pub argument: NameId,
    /// The slot.
    pub buffer: BufferId,
    /// The generation that the handle has.
    pub expected: Generation,
    /// The generation that the slot had.
    pub found: Generation,
    /// Who allocated it.
    pub owner: OwnerId,
    /// The purge that the runtime names.
    pub purge: Option<PurgeId>,
    /// How the expected generation died, where our books know.
    pub obituary: Option<Obituary>,
    /// The storage that the slot had at that moment.
    pub storage: Option<Buffer>,
    /// The pool entry that holds the expected generation.
    pub entry: Option<EntryThen>,
    /// The graph, where a replay was refused. Its fields are those of the event where our books lack it.
    pub graph: Option<GraphId>,
    /// The same, as our books know it.
    pub graph_then: Option<GraphThen>,
}
digest!(Refused {
    refusal,
    mark,
    op,
    argument,
    buffer,
    expected,
    found,
    owner,
    purge,
    obituary,
    storage,
    entry,
    graph,
    graph_then
});

/// One failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub mark: Mark,
    /// Where.
    pub device: DeviceId,
    /// Who asked.
    pub owner: OwnerId,
    /// What for.
    pub site: NameId,
    /// What was asked for.
    pub requested: Bytes,
    /// What the driver said was free.
    pub free: Bytes,
    /// Free bytes inside segments, in sum.
    pub cached: Bytes,
    /// The largest free block inside a segment.
    pub largest: Bytes,
}
digest!(Failure {
    mark,
    device,
    owner,
    site,
    requested,
    free,
    cached,
    largest
});

/// All that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    kept: Vec<Refused>,
    totals: [u64; Refusal::ALL.len()],
    failures: Vec<Failure>,
    failures_total: u64,
    retries: u64,
    retried: Bytes,
}
digest!(Refusals {
    kept,
    totals,
    failures,
    failures_total,
    retries,
    retried
});

impl Refusals {
    /// The first [`limits::REFUSALS`] refused uses.
    #[must_use]
    pub fn kept(&self) -> &[Refused] {
        &self.kept
    }

    /// How many uses were refused for this, kept or not.
    #[must_use]
    pub fn total(&self, refusal: Refusal) -> u64 {
        self.totals[refusal as usize]
    }

    /// The first [`limits::FAILURES`] failed allocations.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// How many allocations failed, kept or not.
    #[must_use]
    pub fn failures_total(&self) -> u64 {
        self.failures_total
    }

    /// How often an allocation returned cached segments to find room, and the bytes in sum.
    #[must_use]
    pub fn retries(&self) -> (u64, Bytes) {
        (self.retries, self.retried)
    }

    pub(crate) fn refused(
        &mut self,
        mark: Mark,
        e: &AccessRefused,
        (memory, kills, pools, graphs): (&Memory, &Kills, &Pools, &Graphs),
    ) {
        self.totals[e.refusal as usize] += 1;
        if self.kept.len() >= limits::REFUSALS {
            return;
        }
        let obituary = kills.get(e.buffer, e.expected).copied();
        let slot = memory.slot(e.buffer);
        let current = slot.filter(|slot| slot.generation == e.expected);
        let entry = match &obituary {
            Some(obituary) => obituary.entry,
            None => current.and_then(|slot| slot.entry),
        };
        let graph = e.graph.and_then(|id| graphs.graphs().get(&id).map(|g| (id, g)));
        self.kept.push(Refused {
            refusal: e.refusal,
            mark,
            op: e.op,
            argument: e.argument,
            buffer: e.buffer,
            expected: e.expected,
            found: e.found,
            owner: e.owner,
            purge: e.purge,
            obituary,
            storage: slot.and_then(|slot| slot.buffer),
            entry: entry.and_then(|id| entry_then(id, e, memory, pools)),
            graph: e.graph,
            graph_then: graph.map(|(id, graph)| graph_then(id, graph, e, memory)),
        });
    }

    pub(crate) fn failed(&mut self, mark: Mark, e: &AllocFailed) {
        self.failures_total += 1;
        if self.failures.len() < limits::FAILURES {
            self.failures.push(Failure {
                mark,
                device: e.device,
                owner: e.owner,
                site: e.site,
                requested: e.requested,
                free: e.free,
                cached: e.cached,
                largest: e.largest,
            });
        }
    }

    pub(crate) fn retried(&mut self, e: &AllocRetried) {
        self.retries += 1;
        self.retried += e.returned;
    }
}

fn entry_then(id: EntryId, e: &AccessRefused, memory: &Memory, pools: &Pools) -> Option<EntryThen> {
    let entry = pools.entries().get(&id)?;
    let holds = |part: &Part| part.buffer == e.buffer && part.generation == e.expected;
    if !entry.parts.iter().any(holds) {
        return None;
    }
    Some(EntryThen {
        id,
        alive: entry.parts.iter().map(|part| part.alive(memory)).collect(),
        entry: entry.clone(),
    })
}

fn graph_then(id: GraphId, graph: &Graph, e: &AccessRefused, memory: &Memory) -> GraphThen {
    GraphThen {
        id,
        key: graph.key,
        began: graph.began,
        baked: graph
            .baked
            .iter()
            .find(|b| b.buffer == e.buffer && b.generation == e.expected)
            .copied(),
        stale: graph.stale(memory).count() as u64,
        replays: graph.replays.count,
    }
}
