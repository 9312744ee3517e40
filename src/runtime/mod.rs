//! The instrumented runtime: every allocation, pool take, launch, copy, capture, replay and purge stage
//! goes through here, is checked first and stated after.
//!
//! A [`Buffer`] is a slot and a generation. A purge may take its storage away under whoever holds it; the
//! slot's generation moves on, and every later use of the old one is refused before the driver is called,
//! with the culprit's name. Raw addresses don't leave this module. It never reads the ledger.
//!
//! Locks: an owner's own, then the registry of owners, then the state. None is held while an owner clears.

mod allocator;
mod buffer;
mod error;
mod graph;
mod memory;
mod owner;
mod pool;
mod probe;
mod prompt;
mod purge;
mod refuse;
mod state;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Bytes, DeviceId, OwnerId, StreamId};
use crate::device::{Device, Kind, Space};
use crate::event::{
    ConfigNoted, DeviceKind, DeviceOpened, MeterRead, ModelLoaded, ModelUnloaded, Outcome, Record,
    ReloadSourceKept, RunEnded, StreamOpened,
};
use allocator::Allocator;
use memory::Request;
use owner::Registered;
use probe::Probe;
use state::{Counters, SpaceState, State, StreamState};

pub use allocator::AllocatorConfig;
pub use buffer::{Buffer, Lease};
pub use error::{Killer, OutOfMemory, Part, RefusedUse, RuntimeError};
pub use graph::{Freshness, GRAPH_CACHE_LIMIT, Graph, GraphCache};
pub use owner::{Claim, Owner};
pub use pool::{Entry, Pool, PoolConfig};
pub use prompt::{Phase, Prompt, layer_span};
pub use purge::{Busy, PurgeReport, PurgeRequest, StageReport, Survivor};
pub use stream::{Call, Stream};

/// What happens when a pool or a graph cache meets something dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StalePolicy {
    /// It is given out, and the launch is refused by name.
    #[default]
    Error,
    /// It is dropped, built again and counted.
    Rebuild,
}

/// How many dead things were built again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Pool entries.
    pub entries: u64,
    /// Graphs.
    pub graphs: u64,
}

/// Settings of a runtime.
#[derive(Clone, Debug, Default)]
pub struct RuntimeConfig {
    /// Sizes of the allocator.
    pub allocator: AllocatorConfig,
    /// What to do about dead entries and graphs.
    pub stale: StalePolicy,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    owners: Mutex<Vec<Registered>>,
    config: RuntimeConfig,
    healed_entries: AtomicU64,
    healed_graphs: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runtime over one or more devices. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// A device of a runtime, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIndex(usize);

impl Runtime {
    /// A runtime without devices that states its facts to `sink`.
    #[must_use]
    pub fn new(config: RuntimeConfig, sink: Arc<dyn Record>) -> Runtime {
        let state = State {
            probe: Probe::new(sink),
            devices: Vec::new(),
            spaces: Vec::new(),
            streams: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            pending: Vec::new(),
            graphs: BTreeMap::new(),
            entries: HashMap::new(),
            owners: Vec::new(),
            purges: Vec::new(),
            next: Counters::default(),
            completions: Vec::new(),
        };
        Runtime {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                owners: Mutex::new(Vec::new()),
                config,
                healed_entries: AtomicU64::new(0),
                healed_graphs: AtomicU64::new(0),
            }),
        }
    }

    /// Takes a device with its two memory spaces: its own, and pinned host memory.
    pub fn add_device(&self, device: Box<dyn Device>) -> DeviceIndex {
        let mut state = self.shared.lock();
        let index = state.devices.len();
        let about = device.describe();
        let kind = match about.kind {
            Kind::Host => DeviceKind::Host,
            Kind::Sim => DeviceKind::Sim,
            Kind::Cuda => DeviceKind::Cuda,
        };
        let pinned = format!("{}.pinned", about.name);
        let rows = [
            (about.name, Space::Device, kind, about.context),
            (pinned, Space::Pinned, DeviceKind::Pinned, Bytes::ZERO),
        ];
        for (name, space, kind, context) in rows {
            let id = DeviceId(state.spaces.len() as u32);
            let text = state.probe.name(&name);
            let total = device.memory(space).total;
            state.probe.record(DeviceOpened {
                device: id,
                name: text,
                kind,
                total,
                context,
            });
            state.spaces.push(SpaceState {
                id,
                name,
                device: index,
                space,
                allocator: Allocator::new(self.shared.config.allocator.clone()),
            });
        }
        state.devices.push(device);
        DeviceIndex(index)
    }

    /// Opens a stream on a device.
    ///
    /// # Errors
    /// What the driver says.
    pub fn open_stream(&self, device: DeviceIndex, name: &str) -> Result<Stream, RuntimeError> {
        let mut state = self.shared.lock();
        let queue = state.devices[device.0].open_queue()?;
        let id = StreamId(state.streams.len() as u32);
        let text = state.probe.name(name);
        let space = state.spaces[device.0 * 2].id;
        state.probe.record(StreamOpened {
            stream: id,
            device: space,
            name: text,
        });
        state.streams.push(StreamState {
            device: device.0,
            queue,
            in_flight: Default::default(),
            failure: None,
            capture: None,
        });
        Ok(Stream {
            shared: Arc::clone(&self.shared),
            id,
            device: device.0,
        })
    }

    /// Allocates on the stream's device. `site` says what for.
    ///
    /// # Errors
    /// 0 bytes, or no room after one retry.
    pub fn allocate(
        &self,
        stream: &Stream,
        owner: OwnerId,
        site: &str,
        bytes: Bytes,
    ) -> Result<Buffer, RuntimeError> {
        self.allocate_in(stream.device * 2, stream, owner, site, bytes)
    }

    /// Allocates pinned host memory of the stream's device.
    ///
    /// # Errors
    /// As [`Runtime::allocate`].
    pub fn allocate_pinned(
        &self,
        stream: &Stream,
        owner: OwnerId,
        site: &str,
        bytes: Bytes,
    ) -> Result<Buffer, RuntimeError> {
        self.allocate_in(stream.device * 2 + 1, stream, owner, site, bytes)
    }

    fn allocate_in(
        &self,
        space: usize,
        stream: &Stream,
        owner: OwnerId,
        site: &str,
        bytes: Bytes,
    ) -> Result<Buffer, RuntimeError> {
        self.shared.allocate(Request {
            space,
            stream: stream.id,
            owner,
            site,
            bytes,
        })
    }

    /// Whether dropping the handle would free the storage at once: it is alive, no graph baked it, and no other
    /// stream may still use it.
    #[must_use]
    pub fn would_free(&self, buffer: &Buffer) -> bool {
        self.shared.lock().would_free(buffer.slot, buffer.generation)
    }

    /// The trace's number of the stream's device.
    #[must_use]
    pub fn device_of(&self, stream: &Stream) -> DeviceId {
        self.shared.lock().spaces[stream.device * 2].id
    }

    /// What to do about dead entries and graphs.
    #[must_use]
    pub fn stale_policy(&self) -> StalePolicy {
        self.shared.config.stale
    }

    /// How many dead things were built again so far.
    #[must_use]
    pub fn healed(&self) -> Healed {
        Healed {
            entries: self.shared.healed_entries.load(Ordering::Relaxed),
            graphs: self.shared.healed_graphs.load(Ordering::Relaxed),
        }
    }

    fn note_healed_entry(&self) {
        self.shared.healed_entries.fetch_add(1, Ordering::Relaxed);
    }

    fn note_healed_graph(&self) {
        self.shared.healed_graphs.fetch_add(1, Ordering::Relaxed);
    }

    fn owners(&self) -> Vec<Registered> {
        self.shared
            .owners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Bytes in use by space, by the allocator's books.
    #[must_use]
    pub fn bytes_held(&self) -> BTreeMap<DeviceId, Bytes> {
        let state = self.shared.lock();
        state
            .spaces
            .iter()
            .map(|space| (space.id, space.allocator.in_use()))
            .collect()
    }

    /// Bytes that the allocator has from the driver, and used bytes by the device's own count, by space.
    #[must_use]
    pub fn bytes_reserved(&self) -> BTreeMap<DeviceId, (Bytes, Bytes)> {
        let state = self.shared.lock();
        let row = |space: &SpaceState| {
            let used = state.devices[space.device].memory(space.space).used();
            (space.id, (space.allocator.reserved(), used))
        };
        state.spaces.iter().map(row).collect()
    }

    /// States a setting of the run. Never a prompt or a value of the environment.
    pub fn note_config(&self, key: &str, value: &str) {
        let mut state = self.shared.lock();
        let (key, value) = (state.probe.name(key), state.probe.name(value));
        state.probe.record(ConfigNoted { key, value });
    }

    /// States that a model's weights are on the device.
    pub fn note_loaded(&self, model: OwnerId) {
        self.shared.lock().probe.record(ModelLoaded { model });
    }

    /// States that a model's weights are gone from the device.
    pub fn note_unloaded(&self, model: OwnerId) {
        self.shared.lock().probe.record(ModelUnloaded { model });
    }

    /// States that the next load of a model reads this host copy. A purge leaves it alone.
    pub fn keep_reload_source(&self, model: OwnerId, tensor: &str, copy: &Buffer) {
        let mut state = self.shared.lock();
        let tensor = state.probe.name(tensor);
        state.slots[copy.slot as usize].reload_source = true;
        state.probe.record(ReloadSourceKept {
            model,
            tensor,
            buffer: copy.id(),
            generation: copy.generation(),
        });
    }

    /// Reads every device's own count into the trace.
    pub fn read_meters(&self) {
        let mut state = self.shared.lock();
        let meter = state.probe.fixed_name("device");
        for space in &state.spaces {
            let info = state.devices[space.device].memory(space.space);
            state.probe.record(MeterRead {
                meter,
                device: space.id,
                used: info.used(),
                free: info.free,
            });
        }
    }

    /// Waits for all work, states the last timings and the end of the run.
    ///
    /// # Errors
    /// What the work in flight met; the end is stated in any case.
    pub fn end(&self, outcome: Outcome) -> Result<(), RuntimeError> {
        let mut state = self.shared.lock();
        let result = state.synchronize_all();
        state.state_all_timings();
        let outcome = if result.is_ok() { outcome } else { Outcome::Failed };
        state.probe.record(RunEnded { outcome });
        result
    }
}
