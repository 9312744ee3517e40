//! Captured graphs. Whether a graph is stale is not stated by any event: it follows from what it baked.

use std::collections::BTreeMap;

use crate::base::{BufferId, Generation, GraphId, NameId, Nanos, StreamId};
use crate::event::{CaptureBegan, CaptureEnded, GraphBaked, GraphDropped, Outcome, ReleaseCause};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::launch::Timing;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::memory::Memory;

/// An address that a graph recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baked {
    /// The slot.
    pub buffer: BufferId,
    /// Its generation.
    pub generation: Generation,
    /// The first node that uses it.
    pub node: u64,
    /// The argument there.
    pub argument: NameId,
    /// When.
    pub mark: Mark,
}
digest!(Baked {
    buffer,
    generation,
    node,
    argument,
    mark
});

/// One captured graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Its key, in words.
    pub key: NameId,
    /// The stream that it was captured on.
    pub stream: StreamId,
    /// When its capture began.
    pub began: Mark,
    /// How many nodes it has; 0 until its capture has ended.
    pub nodes: u64,
    /// How its capture ended, where it did.
    pub outcome: Option<Outcome>,
    /// What it baked.
    pub baked: Vec<Baked>,
    /// Its replays and how long they took.
    pub replays: Timing,
    /// The last replay.
    pub last_replayed: Option<Mark>,
}
digest!(Graph {
    key,
    stream,
    began,
    nodes,
    outcome,
    baked,
    replays,
    last_replayed
});

impl Graph {
    /// What it baked that has moved on.
    pub fn stale<'a>(&'a self, memory: &'a Memory) -> impl Iterator<Item = &'a Baked> {
        self.baked
            .iter()
            .filter(|b| !memory.reaches(b.buffer, b.generation, b.mark.seq))
    }

    /// Whether a replay must be refused.
    #[must_use]
    pub fn is_stale(&self, memory: &Memory) -> bool {
        self.stale(memory).next().is_some()
    }
}

/// All graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    graphs: BTreeMap<GraphId, Graph>,
    baked: u64,
    captures: [u64; Outcome::ALL.len()],
    dropped: [u64; ReleaseCause::ALL.len()],
    replays: u64,
}
digest!(Graphs {
    graphs,
    baked,
    captures,
    dropped,
    replays
});

impl Graphs {
    /// The graphs there are, by number.
    #[must_use]
    pub fn graphs(&self) -> &BTreeMap<GraphId, Graph> {
        &self.graphs
    }

    /// How many captures ended so.
    #[must_use]
    pub fn captures(&self, outcome: Outcome) -> u64 {
        self.captures[outcome as usize]
    }

    /// How many graphs were destroyed for this cause.
    #[must_use]
    pub fn dropped(&self, cause: ReleaseCause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Replays of all graphs ever.
    #[must_use]
    pub fn replays(&self) -> u64 {
        self.replays
    }

    pub(crate) fn began(&mut self, mark: Mark, e: &CaptureBegan, odd: &mut Anomalies) {
        if self.graphs.contains_key(&e.graph) {
            return odd.add(mark.seq, Why::DuplicateGraph);
        }
        if self.graphs.len() >= limits::GRAPHS {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let graph = Graph {
            key: e.key,
            stream: e.stream,
            began: mark,
            nodes: 0,
            outcome: None,
            baked: Vec::new(),
            replays: Timing::default(),
            last_replayed: None,
        };
        self.graphs.insert(e.graph, graph);
    }

    pub(crate) fn baked(&mut self, mark: Mark, e: &GraphBaked, memory: &mut Memory, odd: &mut Anomalies) {
        let Some(graph) = self.graphs.get_mut(&e.graph) else {
            return odd.add(mark.seq, Why::UnknownGraph);
        };
        if self.baked >= limits::BAKED as u64 || graph.baked.len() >= limits::BAKED_PER_GRAPH {
            return odd.add(mark.seq, Why::OverLimit);
        }
        if memory.storage(e.buffer, e.generation).is_none() {
            odd.add(mark.seq, Why::UnknownBuffer);
        } else if let Some(slot) = memory.slot_mut(e.buffer) {
            slot.graphs = slot.graphs.saturating_add(1);
        }
        self.baked += 1;
        graph.baked.push(Baked {
            buffer: e.buffer,
            generation: e.generation,
            node: e.node,
            argument: e.argument,
            mark,
        });
    }

    pub(crate) fn captured(&mut self, mark: Mark, e: &CaptureEnded, odd: &mut Anomalies) {
        let Some(graph) = self.graphs.get_mut(&e.graph) else {
            return odd.add(mark.seq, Why::UnknownGraph);
        };
        if graph.outcome.is_some() {
            return odd.add(mark.seq, Why::WrongState);
        }
        (graph.nodes, graph.outcome) = (e.nodes, Some(e.outcome));
        self.captures[e.outcome as usize] += 1;
    }

    pub(crate) fn replayed(&mut self, mark: Mark, id: GraphId, odd: &mut Anomalies) {
        self.replays += 1;
        let Some(graph) = self.graphs.get_mut(&id) else {
            return odd.add(mark.seq, Why::UnknownGraph);
        };
        if graph.outcome != Some(Outcome::Complete) {
            odd.add(mark.seq, Why::WrongState);
        }
        graph.replays.count += 1;
        graph.last_replayed = Some(mark);
    }

    pub(crate) fn timed(&mut self, id: GraphId, took: Nanos) {
        if let Some(graph) = self.graphs.get_mut(&id) {
            graph.replays.add(took);
        }
    }

    pub(crate) fn dropped_one(
        &mut self,
        mark: Mark,
        e: &GraphDropped,
        memory: &mut Memory,
        odd: &mut Anomalies,
    ) {
        let Some(graph) = self.graphs.remove(&e.graph) else {
            return odd.add(mark.seq, Why::UnknownGraph);
        };
        self.dropped[e.cause as usize] += 1;
        self.baked -= graph.baked.len() as u64;
        for baked in &graph.baked {
            if memory.reaches(baked.buffer, baked.generation, baked.mark.seq)
                && let Some(slot) = memory.slot_mut(baked.buffer)
            {
                slot.graphs = slot.graphs.saturating_sub(1);
            }
        }
    }
}
