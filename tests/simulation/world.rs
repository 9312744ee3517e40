//! The runtime under simulation, and what the checkers need to know of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope::base::clock::Clock;
use vramscope::base::random::Random;
use vramscope::base::{Bytes, LaunchId, OwnerId, Seq};
use vramscope::device::sim::{Faults, SimConfig, SimDevice, Truth};
use vramscope::device::{
    Address, Completion, Description, Device, DeviceError, GraphHandle, Launch, Mark, MemoryInfo, NodeTiming,
    Queue, Space,
};
use vramscope::event::{Event, OwnerKind, Record, Stage, Stamp, Stamped};
use vramscope::ledger::Ledger;
use vramscope::runtime::{
    Buffer, Claim, Entry, Graph, GraphCache, Owner, Pool, PoolConfig, Runtime, RuntimeConfig, StalePolicy,
    Stream,
};

use crate::steps::Identity;

/// A deliberate corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    None,
    /// The recording loses one completed release.
    LosesRelease,
    /// The device keeps one segment that was given back.
    LeaksSegment,
    /// Waiting for a queue does not wait.
    StopsWaiting,
}

/// Folds what is recorded at once.
pub(crate) struct Tape {
    clock: Clock,
    inner: Mutex<Folded>,
}

pub(crate) struct Folded {
    pub(crate) ledger: Ledger,
    pub(crate) events: Vec<Stamped>,
    loses_release: bool,
    next: u64,
}

impl Tape {
    fn new(clock: Clock, canary: Canary) -> Tape {
        Tape {
            clock,
            inner: Mutex::new(Folded {
                ledger: Ledger::default(),
                events: Vec::new(),
                loses_release: canary == Canary::LosesRelease,
                next: 0,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Folded> {
        self.inner.lock().expect("no recording panics")
    }
}

impl Record for Tape {
    fn record(&self, event: &Event) -> Stamp {
        let mut folded = self.lock();
        let stamp = Stamp {
            seq: Seq(folded.next),
            at: self.clock.now(),
        };
        if folded.loses_release && matches!(event, Event::ReleaseCompleted(_)) {
            folded.loses_release = false;
            return stamp;
        }
        let stamped = Stamped {
            seq: stamp.seq,
            at: stamp.at,
            event: event.clone(),
        };
        folded.next += 1;
        folded.ledger.apply(&stamped);
        folded.events.push(stamped);
        stamp
    }
}

/// A simulated device, maybe a corrupt one.
struct Corrupt {
    device: SimDevice,
    leaks: bool,
    waits: bool,
}

impl Device for Corrupt {
    fn describe(&self) -> Description {
        self.device.describe()
    }
    fn memory(&self, space: Space) -> MemoryInfo {
        self.device.memory(space)
    }
    fn reserve(&mut self, space: Space, bytes: Bytes) -> Result<Address, DeviceError> {
        self.device.reserve(space, bytes)
    }
    fn give_back(&mut self, space: Space, address: Address) -> Result<(), DeviceError> {
        if std::mem::take(&mut self.leaks) {
            return Ok(());
        }
        self.device.give_back(space, address)
    }
    fn open_queue(&mut self) -> Result<Queue, DeviceError> {
        self.device.open_queue()
    }
    fn launch(&mut self, queue: Queue, id: LaunchId, launch: &Launch) -> Result<(), DeviceError> {
        self.device.launch(queue, id, launch)
    }
    fn copy(
        &mut self,
        queue: Queue,
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    ) -> Result<(), DeviceError> {
        self.device.copy(queue, id, to, from, bytes)
    }
    fn upload(&mut self, queue: Queue, id: LaunchId, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.upload(queue, id, to, bytes)
    }
    fn download(
        &mut self,
        queue: Queue,
        id: LaunchId,
        from: Address,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.device.download(queue, id, from, into)
    }
    fn mark(&mut self, queue: Queue) -> Result<Mark, DeviceError> {
        self.device.mark(queue)
    }
    fn reached(&mut self, mark: Mark) -> Result<bool, DeviceError> {
        self.device.reached(mark)
    }
    fn wait(&mut self, queue: Queue, mark: Mark) -> Result<(), DeviceError> {
        self.device.wait(queue, mark)
    }
    fn synchronize(&mut self, queue: Queue) -> Result<(), DeviceError> {
        if !self.waits {
            return Ok(());
        }
        self.device.synchronize(queue)
    }
    fn begin_capture(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.device.begin_capture(queue)
    }
    fn end_capture(&mut self, queue: Queue) -> Result<GraphHandle, DeviceError> {
        self.device.end_capture(queue)
    }
    fn replay(&mut self, queue: Queue, id: LaunchId, graph: GraphHandle) -> Result<(), DeviceError> {
        self.device.replay(queue, id, graph)
    }
    fn drop_graph(&mut self, graph: GraphHandle) -> Result<(), DeviceError> {
        self.device.drop_graph(graph)
    }
    fn node_timings(&mut self, graph: GraphHandle) -> Vec<NodeTiming> {
        self.device.node_timings(graph)
    }
    fn completions(&mut self, into: &mut Vec<Completion>) {
        self.device.completions(into)
    }
}

/// A model with weights, and host copies that the next load reads.
pub(crate) struct Model {
    runtime: Runtime,
    stream: Stream,
    pub(crate) owner: OwnerId,
    pub(crate) weights: Mutex<Vec<Buffer>>,
    pub(crate) flagged: Mutex<bool>,
}

impl Owner for Model {
    fn clear(&self) -> Vec<Claim> {
        let weights = std::mem::take(&mut *self.weights.lock().expect("no clearing panics"));
        let freed = weights.iter().filter(|buffer| self.runtime.would_free(buffer));
        vec![Claim {
            device: self.runtime.device_of(&self.stream),
            entries: weights.len() as u64,
            bytes: freed.map(Buffer::bytes).sum(),
        }]
    }

    fn is_flagged(&self) -> bool {
        *self.flagged.lock().expect("no flagging panics")
    }
}

/// A graph that is in no cache, with what it baked.
pub(crate) struct Loose {
    pub(crate) graph: Graph,
    pub(crate) stream: usize,
    pub(crate) baked: Vec<Identity>,
}

/// How often what happened, to show that the seeds reach everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(pub(crate) HashMap<&'static str, u64>);

impl Seen {
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Seen) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn is_broad(&self) -> bool {
        let wanted = [
            "purged",
            "purge refused",
            "no memory",
            "stale use",
            "stale replay",
            "torn",
            "replayed",
            "injected",
            "used",
            "wrong device",
            "reload source kept",
            "taken",
        ];
        wanted
            .iter()
            .all(|what| self.0.get(what).is_some_and(|n| *n > 20))
    }
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) runtime: Runtime,
    pub(crate) tape: Arc<Tape>,
    pub(crate) truths: Vec<Truth>,
    /// Two on the first device, one on the second.
    pub(crate) streams: Vec<Stream>,
    pub(crate) owners: Vec<OwnerId>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) pinned: Vec<Buffer>,
    /// The stream that used a generation last: the next one has to wait for it.
    pub(crate) last: HashMap<Identity, usize>,
    pub(crate) pool: Arc<Pool<u64>>,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) cache: Arc<GraphCache>,
    pub(crate) graphs: Vec<Loose>,
    /// What the last capture of each key of the cache baked.
    pub(crate) cached: HashMap<String, Vec<Identity>>,
    /// Whether the cache captured, in the step that is under way.
    pub(crate) seen_capture: Cell<bool>,
    pub(crate) models: Vec<Arc<Model>>,
    pub(crate) sources: Vec<Buffer>,
    /// Whether a purge was forced under work in flight: then streams may meet in freed memory.
    pub(crate) forced: bool,
    pub(crate) may_force: bool,
    pub(crate) seen: Seen,
}

fn faults(random: &mut Random) -> Faults {
    if random.one_in(4) {
        return Faults::default();
    }
    Faults {
        out_of_memory: 30,
        reserve: 60,
        launch: 60,
        replay: 20,
        capture: 15,
        synchronize: 40,
    }
}

/// Two devices, the first with two streams.
fn open_devices(
    runtime: &Runtime,
    random: &mut Random,
    clock: &Clock,
    canary: Canary,
) -> (Vec<Truth>, Vec<Stream>) {
    let (mut truths, mut streams) = (Vec::new(), Vec::new());
    for (index, count) in [(0, 2), (1, 1)] {
        let config = SimConfig {
            index,
            context: Bytes::mib(3),
            faults: faults(random),
            ..SimConfig::of(Bytes::mib(26 + random.below(30)))
        };
        let device = SimDevice::open(config, random.bits(), clock.clone());
        truths.push(device.truth());
        let device = runtime.add_device(Box::new(Corrupt {
            device,
            leaks: canary == Canary::LeaksSegment,
            waits: canary != Canary::StopsWaiting,
        }));
        for number in 0..count {
            let name = format!("{index}.{number}");
            streams.push(runtime.open_stream(device, &name).expect("opening does not fail"));
        }
    }
    (truths, streams)
}

impl World {
    pub(crate) fn open(seed: u64, canary: Canary) -> World {
        let mut random = Random::seeded(seed);
        let clock = Clock::manual();
        let tape = Arc::new(Tape::new(clock.clone(), canary));
        let config = RuntimeConfig {
            stale: if random.one_in(3) {
                StalePolicy::Rebuild
            } else {
                StalePolicy::Error
            },
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(config, tape.clone());
        let (truths, streams) = open_devices(&runtime, &mut random, &clock, canary);
        let owners = vec![
            runtime.own_passively("executor.output_cache", OwnerKind::Cache, Stage::ExecutorCaches),
            runtime.own_passively("gemm.cublas_workspaces", OwnerKind::Workspace, Stage::OwnerCaches),
            runtime.own_passively("host.pin_pool", OwnerKind::Pins, Stage::PinPool),
        ];
        let config = PoolConfig {
            name: "nvfp4_runtime.act_q_pool",
            kind: OwnerKind::Pool,
            cleared_by: Stage::OwnerCaches,
            limit: Bytes::mib(12),
        };
        let pool = Pool::open(&runtime, &streams[0], config);
        let cache = GraphCache::open(&runtime, "nvfp4_runtime.graph_cache");
        let model = |name: &str| {
            runtime.own(name, OwnerKind::Model, Stage::UnloadModels, |owner| Model {
                runtime: runtime.clone(),
                stream: streams[0].clone(),
                owner,
                weights: Mutex::default(),
                flagged: Mutex::new(false),
            })
        };
        let models = vec![model("model.a"), model("model.b")];
        World {
            may_force: seed.is_multiple_of(3),
            random,
            runtime,
            tape,
            truths,
            streams,
            owners,
            buffers: Vec::new(),
            pinned: Vec::new(),
            last: HashMap::new(),
            pool,
            entries: Vec::new(),
            cache,
            graphs: Vec::new(),
            cached: HashMap::new(),
            seen_capture: Cell::new(false),
            models,
            sources: Vec::new(),
            forced: false,
            seen: Seen::default(),
        }
    }

    pub(crate) fn digest(&self) -> (u64, u64) {
        let folded = self.tape.lock();
        let last = folded.events.last().map_or(0, |event| event.at.0);
        (folded.ledger.digest(), last)
    }
}
