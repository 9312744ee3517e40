//! What the runtime knows, under one lock. Handles outside hold ids and a shared generation cell.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, LaunchId, Nanos, OwnerId, PoolId, PromptId,
    PurgeId, SegmentId, StreamId,
};
use crate::device::{Completion, Device, DeviceError, GraphHandle, Queue, Space};
use crate::event::{OwnerKind, Stage};
use crate::runtime::allocator::{Allocator, Placement};
use crate::runtime::probe::Probe;

/// A memory space of a device, which the trace calls a device.
pub(super) struct SpaceState {
    pub(super) id: DeviceId,
    pub(super) name: String,
    /// Place of the device in [`State::devices`].
    pub(super) device: usize,
    pub(super) space: Space,
    pub(super) allocator: Allocator,
}

pub(super) struct StreamState {
    pub(super) device: usize,
    pub(super) queue: Queue,
    /// Issued and not known to be done, in order.
    pub(super) in_flight: VecDeque<LaunchId>,
    /// What a wait met that had nobody to tell. Whoever waits next hears it.
    pub(super) failure: Option<DeviceError>,
    pub(super) capture: Option<CaptureState>,
}

/// A graph that is being recorded.
pub(super) struct CaptureState {
    pub(super) graph: GraphId,
    pub(super) nodes: u64,
    pub(super) baked: Vec<Baked>,
}

/// One address that a graph recorded, by the identity that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Baked {
    pub(super) slot: u32,
    pub(super) generation: Generation,
    /// Whose it was then; the slot may be someone else's by now.
    pub(super) owner: OwnerId,
    pub(super) node: u64,
    pub(super) argument: String,
    /// Released while the capture was open: scratch that lives in the graph alone.
    pub(super) internal: bool,
}

pub(super) struct GraphState {
    pub(super) key: String,
    pub(super) handle: GraphHandle,
    pub(super) stream: StreamId,
    pub(super) baked: Vec<Baked>,
}

/// Where a slot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// No storage, no handle.
    Free,
    /// Storage and a handle.
    Live,
    /// Storage; the handle is gone, another stream is not past its last use.
    Pending,
    /// Storage; the handle is gone, a graph baked it.
    Held,
    /// A handle; the storage is gone.
    Dead,
}

/// How a slot's storage was taken away, and what it was: the slot may be used again by then.
#[derive(Clone, Debug)]
pub(super) struct Obituary {
    pub(super) generation: Generation,
    pub(super) purge: PurgeId,
    pub(super) stage: Stage,
    pub(super) at: Nanos,
    pub(super) life: Storage,
}

/// What a slot's storage is, or was.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) requested: Bytes,
    pub(super) owner: OwnerId,
    pub(super) site: String,
    pub(super) allocated_at: Nanos,
}

/// One slot of the buffer table.
pub(super) struct Slot {
    /// Shared with the handles: their one atomic load.
    pub(super) cell: Arc<AtomicU32>,
    pub(super) life: Life,
    pub(super) space: usize,
    pub(super) stream: StreamId,
    pub(super) placement: Option<Placement>,
    pub(super) requested: Bytes,
    pub(super) owner: OwnerId,
    pub(super) site: String,
    pub(super) allocated_at: Nanos,
    pub(super) entry: Option<EntryId>,
    pub(super) reload_source: bool,
    /// Graphs that baked the current generation.
    pub(super) bakes: u32,
    /// Last uses on streams other than its own.
    pub(super) foreign_uses: Vec<(StreamId, LaunchId)>,
    pub(super) obituary: Option<Obituary>,
}

impl Slot {
    pub(super) fn generation(&self) -> Generation {
        Generation(self.cell.load(Ordering::Acquire))
    }

    pub(super) fn storage(&self) -> Storage {
        Storage {
            requested: self.requested,
            owner: self.owner,
            site: self.site.clone(),
            allocated_at: self.allocated_at,
        }
    }

    /// From here on every older handle, pool entry and graph is stale.
    pub(super) fn advance(&mut self) {
        let next = self.generation().next();
        self.cell.store(next.0, Ordering::Release);
        self.bakes = 0;
    }

    pub(super) fn has_storage(&self) -> bool {
        self.placement.is_some()
    }
}

pub(super) struct OwnerState {
    pub(super) name: String,
    pub(super) kind: OwnerKind,
    pub(super) cleared_by: Stage,
}

pub(super) struct EntryState {
    pub(super) key: String,
    pub(super) parts: Vec<(&'static str, u32, Generation, Bytes)>,
}

/// What is remembered of a purge, for the words of a later error.
pub(super) struct PurgeState {
    pub(super) threshold: Bytes,
    /// Owners cleared, by stage; a stage that ran is a key.
    pub(super) cleared: BTreeMap<Stage, Vec<OwnerId>>,
}

/// The next number of each kind.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) launch: u64,
    pub(super) segment: u32,
    pub(super) pool: u32,
    pub(super) entry: u32,
    pub(super) graph: u32,
    pub(super) prompt: u32,
}

impl Counters {
    pub(super) fn launch(&mut self) -> LaunchId {
        self.launch += 1;
        LaunchId(self.launch - 1)
    }

    pub(super) fn segment(&mut self) -> SegmentId {
        self.segment += 1;
        SegmentId(self.segment - 1)
    }

    pub(super) fn pool(&mut self) -> PoolId {
        self.pool += 1;
        PoolId(self.pool - 1)
    }

    pub(super) fn entry(&mut self) -> EntryId {
        self.entry += 1;
        EntryId(self.entry - 1)
    }

    pub(super) fn graph(&mut self) -> GraphId {
        self.graph += 1;
        GraphId(self.graph - 1)
    }

    pub(super) fn prompt(&mut self) -> PromptId {
        self.prompt += 1;
        PromptId(self.prompt - 1)
    }
}

pub(super) struct State {
    pub(super) probe: Probe,
    pub(super) devices: Vec<Box<dyn Device>>,
    pub(super) spaces: Vec<SpaceState>,
    pub(super) streams: Vec<StreamState>,
    pub(super) slots: Vec<Slot>,
    pub(super) free_slots: Vec<u32>,
    /// Slots in [`Life::Pending`].
    pub(super) pending: Vec<u32>,
    pub(super) graphs: BTreeMap<GraphId, GraphState>,
    pub(super) entries: HashMap<EntryId, EntryState>,
    pub(super) owners: Vec<OwnerState>,
    pub(super) purges: Vec<PurgeState>,
    pub(super) next: Counters,
    pub(super) completions: Vec<Completion>,
}

impl State {
    pub(super) fn stream(&mut self, id: StreamId) -> &mut StreamState {
        &mut self.streams[id.0 as usize]
    }

    pub(super) fn owner_name(&self, owner: OwnerId) -> String {
        let known = self.owners.get(owner.0 as usize);
        known.map_or_else(|| format!("owner#{owner}"), |owner| owner.name.clone())
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.in_flight.len() as u64)
            .sum()
    }

    /// Whether a piece of work on a stream is done, as far as the device said.
    pub(super) fn is_done(&self, stream: StreamId, launch: LaunchId) -> bool {
        let stream = &self.streams[stream.0 as usize];
        stream.in_flight.front().is_none_or(|first| *first > launch)
    }

    pub(super) fn buffer_id(slot: u32) -> BufferId {
        BufferId(slot)
    }
}
