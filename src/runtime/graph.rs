//! Captured graphs: what they baked is checked before each replay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Bytes, Generation, GraphId, LaunchId, OwnerId, StreamId};
use crate::event::{
    CaptureBegan, CaptureEnded, GraphBaked, GraphDropped, GraphKernelTimed, GraphReplayed, Outcome,
    OwnerKind, ReleaseCause, Stage,
};
use crate::runtime::probe::spans;
use crate::runtime::state::{Baked, CaptureState, GraphState, Life, State};
use crate::runtime::{Claim, Owner, Runtime, RuntimeError, Shared, StalePolicy, Stream};

/// What has become of the buffers that a graph baked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// All are there and have their owners.
    Fresh,
    /// An owner has let go of one, which the graph holds: what a replay reads and writes there is nobody's.
    Outdated,
    /// One has moved on.
    Stale,
}

/// A captured graph. Dropping it destroys it, and lets go of the buffers it held.
pub struct Graph {
    shared: Arc<Shared>,
    id: GraphId,
    stream: StreamId,
    cause: ReleaseCause,
}

impl Graph {
    /// Its number in the trace.
    #[must_use]
    pub fn id(&self) -> GraphId {
        self.id
    }

    /// Puts the graph on its stream, after checking every (buffer, generation) that it baked. What owners let go of
    /// since is held for it and safe to touch; whether anybody reads it there is another question, see
    /// [`Graph::freshness`].
    ///
    /// # Errors
    /// [`RuntimeError::Refused`] with `StaleGraph` before the driver is called, or what the driver says.
    pub fn replay(&self) -> Result<(), RuntimeError> {
        let span = spans::replay(self.id);
        let mut state = self.shared.lock();
        if let Err(error) = state.check_baked(self.id) {
            span.record("error.type", "StaleGraph");
            return Err(error);
        }
        let Some(handle) = state.graphs.get(&self.id).map(|graph| graph.handle) else {
            return Ok(());
        };
        let id = state.next.launch();
        let (device, queue) = (state.stream(self.stream).device, state.stream(self.stream).queue);
        state.devices[device].replay(queue, id, handle)?;
        state.issued(self.stream, id, std::iter::empty());
        state.probe.record_in(
            &span,
            GraphReplayed {
                graph: self.id,
                launch: id,
            },
        );
        Ok(())
    }

    /// Whether a buffer that it baked has moved on.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.freshness() == Freshness::Stale
    }

    /// What has become of the buffers that it baked.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.shared.lock().freshness(self.id)
    }

    fn bakes_any_of(&self, owners: &[OwnerId]) -> bool {
        let state = self.shared.lock();
        let graph = state.graphs.get(&self.id);
        graph.is_some_and(|graph| graph.baked.iter().any(|baked| owners.contains(&baked.owner)))
    }

    fn drop_for(mut self, cause: ReleaseCause) {
        self.cause = cause;
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.shared.lock().drop_graph(self.id, self.cause);
    }
}

impl Stream {
    /// Captures what `work` launches on this stream. Allocations are allowed meanwhile; buffers that the
    /// graph baked stay held until it is dropped.
    ///
    /// Waits for the stream first: an allocation in the capture may return segments, and nobody can wait for a
    /// stream that is captured.
    ///
    /// # Errors
    /// What `work` or the driver says, or what work before it met; then there is no graph.
    pub fn capture(
        &self,
        key: &str,
        work: impl FnOnce() -> Result<(), RuntimeError>,
    ) -> Result<Graph, RuntimeError> {
        let mut state = self.shared.lock();
        if state.stream(self.id).capture.is_none() {
            state.synchronize(self.id.0 as usize)?;
        }
        let graph = state.next.graph();
        let span = spans::capture(graph, key);
        let queue = state.stream(self.id).queue;
        state.devices[self.device].begin_capture(queue)?;
        let name = state.probe.name(key);
        state.probe.record_in(
            &span,
            CaptureBegan {
                graph,
                stream: self.id,
                key: name,
            },
        );
        state.stream(self.id).capture = Some(CaptureState {
            graph,
            nodes: 0,
            baked: Vec::new(),
        });
        drop(state);
        let result = work();
        let mut state = self.shared.lock();
        state.end_capture(self, key, result)?;
        Ok(Graph {
            shared: Arc::clone(&self.shared),
            id: graph,
            stream: self.id,
            cause: ReleaseCause::Dropped,
        })
    }
}

impl State {
    fn end_capture(
        &mut self,
        stream: &Stream,
        key: &str,
        result: Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let queue = self.stream(stream.id).queue;
        let ended = self.devices[stream.device].end_capture(queue);
        let Some(capture) = self.stream(stream.id).capture.take() else {
            return result;
        };
        let CaptureState { graph, nodes, baked } = capture;
        for bake in &baked {
            let argument = self.probe.name(&bake.argument);
            self.probe.record(GraphBaked {
                graph,
                buffer: State::buffer_id(bake.slot),
                generation: bake.generation,
                node: bake.node,
                argument,
            });
        }
        let ok = result.is_ok() && ended.is_ok();
        let outcome = if ok { Outcome::Complete } else { Outcome::Failed };
        self.probe.record(CaptureEnded {
            graph,
            nodes,
            outcome,
        });
        let handle = ended.as_ref().ok().copied();
        if let Some(handle) = handle {
            let key = key.to_owned();
            let stream = stream.id;
            self.graphs.insert(
                graph,
                GraphState {
                    key,
                    handle,
                    stream,
                    baked,
                },
            );
        } else {
            for bake in baked {
                self.unbake(bake.slot, bake.generation);
            }
        }
        if !ok && handle.is_some() {
            self.drop_graph(graph, ReleaseCause::Dropped);
        }
        result?;
        ended?;
        Ok(())
    }

    fn moved_on(&self, slot: u32, generation: Generation) -> bool {
        self.slots[slot as usize].generation() != generation
    }

    fn let_go(&self, baked: &Baked) -> bool {
        let held = self.slots[baked.slot as usize].life == Life::Held;
        held && !baked.internal && !self.moved_on(baked.slot, baked.generation)
    }

    fn first_stale(&self, graph: &GraphState) -> Option<Baked> {
        let mut baked = graph.baked.iter();
        baked
            .find(|baked| self.moved_on(baked.slot, baked.generation))
            .cloned()
    }

    fn freshness(&self, id: GraphId) -> Freshness {
        match self.graphs.get(&id) {
            Some(graph) if self.first_stale(graph).is_none() => {
                if graph.baked.iter().any(|baked| self.let_go(baked)) {
                    Freshness::Outdated
                } else {
                    Freshness::Fresh
                }
            }
            _ => Freshness::Stale,
        }
    }

    fn check_baked(&mut self, id: GraphId) -> Result<(), RuntimeError> {
        let Some(graph) = self.graphs.get(&id) else {
            return Ok(());
        };
        match self.first_stale(graph) {
            None => Ok(()),
            Some(baked) => {
                let key = graph.key.clone();
                Err(self.refuse_replay(id.0, &key, &baked))
            }
        }
    }

    /// Waits for replays in flight, states the last timings, destroys the graph, lets its buffers go.
    fn drop_graph(&mut self, id: GraphId, cause: ReleaseCause) {
        let Some(graph) = self.graphs.remove(&id) else {
            return;
        };
        let device = self.stream(graph.stream).device;
        if !self.stream(graph.stream).in_flight.is_empty() && self.stream(graph.stream).capture.is_none() {
            let result = self.synchronize(graph.stream.0 as usize);
            self.stream(graph.stream).failure = result.err();
        }
        self.state_timings(id, device, graph.handle);
        self.probe.record(GraphDropped { graph: id, cause });
        // The handle is ours, so the driver knows it.
        let _ = self.devices[device].drop_graph(graph.handle);
        for baked in graph.baked {
            self.unbake(baked.slot, baked.generation);
        }
    }

    fn state_timings(&mut self, graph: GraphId, device: usize, handle: crate::device::GraphHandle) {
        for timing in self.devices[device].node_timings(handle) {
            let kernel = self.probe.fixed_name(timing.kernel);
            self.probe.record(GraphKernelTimed {
                graph,
                kernel,
                launches: timing.launches,
                took: timing.took,
            });
        }
    }

    /// States what all graphs' nodes took since the last time.
    pub(super) fn state_all_timings(&mut self) {
        let graphs: Vec<_> = self
            .graphs
            .iter()
            .map(|(id, graph)| (*id, graph.stream, graph.handle))
            .collect();
        for (id, stream, handle) in graphs {
            let device = self.stream(stream).device;
            self.state_timings(id, device, handle);
        }
    }

    /// Whether dropping the last handle would free the storage at once.
    pub(super) fn would_free(&self, slot: u32, generation: Generation) -> bool {
        let entry = &self.slots[slot as usize];
        let done = |(stream, launch): &(StreamId, LaunchId)| self.is_done(*stream, *launch);
        let free = entry.bakes == 0 && entry.foreign_uses.iter().all(done);
        free && entry.life == Life::Live && entry.generation() == generation
    }
}

/// How many graphs a cache keeps.
pub const GRAPH_CACHE_LIMIT: usize = 32;

struct Cached {
    graph: Graph,
    used: u64,
}

#[derive(Default)]
struct CacheState {
    graphs: BTreeMap<String, Cached>,
    clock: u64,
}

/// Graphs by key; the least recently used goes first. An owner that a purge clears.
pub struct GraphCache {
    runtime: Runtime,
    state: Mutex<CacheState>,
}

impl GraphCache {
    /// A cache that is registered under `name`, to be cleared by stage 2c.
    #[must_use]
    pub fn open(runtime: &Runtime, name: &str) -> Arc<GraphCache> {
        runtime.own(name, OwnerKind::Graphs, Stage::OwnerCaches, |_| GraphCache {
            runtime: runtime.clone(),
            state: Mutex::default(),
        })
    }

    /// Replays the graph with this key; captures it first where it is not there, is outdated, or is
    /// stale and the policy is to rebuild.
    ///
    /// # Errors
    /// As [`Graph::replay`] and [`Stream::capture`].
    pub fn run(
        &self,
        stream: &Stream,
        key: &str,
        work: impl FnOnce() -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let drop_first = match state.graphs.get(key).map(|cached| cached.graph.freshness()) {
            None | Some(Freshness::Fresh) => false,
            // What owners merely let go of, such as an evicted pool entry, is nobody's fault: capture again.
            Some(Freshness::Outdated) => true,
            Some(Freshness::Stale) => {
                let heal = self.runtime.stale_policy() == StalePolicy::Rebuild;
                if heal {
                    self.runtime.note_healed_graph();
                }
                heal
            }
        };
        if drop_first && let Some(cached) = state.graphs.remove(key) {
            cached.graph.drop_for(ReleaseCause::Stale);
        }
        if let Some(cached) = state.graphs.get_mut(key) {
            cached.used = now;
            return cached.graph.replay();
        }
        let graph = stream.capture(key, work)?;
        graph.replay()?;
        state.graphs.insert(key.to_owned(), Cached { graph, used: now });
        if state.graphs.len() > GRAPH_CACHE_LIMIT {
            let oldest = state.graphs.iter().min_by_key(|(_, cached)| cached.used);
            if let Some(key) = oldest.map(|(key, _)| key.clone())
                && let Some(cached) = state.graphs.remove(&key)
            {
                cached.graph.drop_for(ReleaseCause::Evicted);
            }
        }
        Ok(())
    }

    fn drop_where(&self, condition: impl Fn(&Graph) -> bool) -> Vec<Claim> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<String> = state
            .graphs
            .iter()
            .filter(|(_, cached)| condition(&cached.graph))
            .map(|(key, _)| key.clone())
            .collect();
        let before = self.runtime.bytes_held();
        for key in &keys {
            if let Some(cached) = state.graphs.remove(key) {
                cached.graph.drop_for(ReleaseCause::Cleared);
            }
        }
        let after = self.runtime.bytes_held();
        before
            .into_iter()
            .map(|(device, held)| Claim {
                device,
                entries: keys.len() as u64,
                bytes: held.saturating_sub(after.get(&device).copied().unwrap_or(Bytes::ZERO)),
            })
            .collect()
    }
}

impl Owner for GraphCache {
    fn clear(&self) -> Vec<Claim> {
        self.drop_where(|_| true)
    }

    fn drop_dependents(&self, of: &[OwnerId]) -> Vec<Claim> {
        self.drop_where(|graph| graph.bakes_any_of(of))
    }
}
