//! The simulated device: computes nothing, keeps time and the truth, and fails when its seed says so.
//!
//! Time is a manual clock that the device itself moves: a little with each call, and as far as needed when
//! someone waits. Each piece of work gets a random duration, so it is truly in flight: marks are reached
//! later, and work on one queue overtakes that on another. A run follows from its seed alone.
//!
//! ```
//! use vramscope::base::Bytes;
//! use vramscope::base::clock::Clock;
//! use vramscope::device::sim::{SimConfig, SimDevice};
//! use vramscope::device::{Device, Space};
//!
//! let mut device = SimDevice::open(SimConfig::of(Bytes::mib(8)), 7, Clock::manual());
//! let truth = device.truth();
//! device.reserve(Space::Device, Bytes::mib(6))?;
//! assert!(device.reserve(Space::Device, Bytes::mib(4)).is_err());
//! assert_eq!(truth.reserved(Space::Device), Bytes::mib(6));
//! # Ok::<(), vramscope::device::DeviceError>(())
//! ```

mod queue;
mod truth;

use std::collections::HashMap;

use crate::base::clock::Clock;
use crate::base::random::Random;
use crate::base::{Bytes, LaunchId, Nanos};
use crate::device::{
    Access, Address, Completion, Description, Device, DeviceError, GraphHandle, Kind, Launch, Mark,
    MemoryInfo, NodeTiming, Queue, Space, Span,
};
use queue::{Graph, Node, Task, WorkQueue, overlap};

pub use truth::{Truth, Violation};

/// The longest time that a call takes, without waiting.
const CALL_NANOS: u64 = 400;

/// The longest time that a kernel or a copy takes.
const WORK_NANOS: u64 = 20_000;

/// How often a simulated device fails: once in so many calls on average, never where it is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reservations that find no room though there is some.
    pub out_of_memory: u64,
    /// Reservations that fail for another reason.
    pub reserve: u64,
    /// Launches, copies and uploads, captured ones too; nothing is put on the queue then.
    pub launch: u64,
    /// Replays; nothing is put on the queue then.
    pub replay: u64,
    /// Ends of captures.
    pub capture: u64,
    /// Waits for a queue, downloads too: the queue is empty after them all the same.
    pub synchronize: u64,
}

/// What a simulated device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Its place among simulated devices, for its name.
    pub index: u32,
    /// Device memory.
    pub vram: Bytes,
    /// Of which the driver took this for itself.
    pub context: Bytes,
    /// Pinned host memory.
    pub pinned: Bytes,
    /// How often it fails.
    pub faults: Faults,
}

impl SimConfig {
    /// Device 0 with this much memory of either kind; nothing fails.
    #[must_use]
    pub fn of(vram: Bytes) -> SimConfig {
        SimConfig {
            index: 0,
            vram,
            context: Bytes::ZERO,
            pinned: vram,
            faults: Faults::default(),
        }
    }
}

/// A device that only pretends.
#[derive(Debug)]
pub struct SimDevice {
    config: SimConfig,
    random: Random,
    clock: Clock,
    truth: Truth,
    queues: Vec<WorkQueue>,
    graphs: HashMap<GraphHandle, Graph>,
    next_graph: u64,
    /// When each mark is reached.
    marks: Vec<Nanos>,
}

impl SimDevice {
    /// Opens a device whose behaviour follows from `seed`. It moves `clock`, which must be a manual one.
    #[must_use]
    pub fn open(config: SimConfig, seed: u64, clock: Clock) -> SimDevice {
        let truth = Truth::new(config.vram, config.context, config.pinned);
        SimDevice {
            config,
            random: Random::seeded(seed),
            clock,
            truth,
            queues: Vec::new(),
            graphs: HashMap::new(),
            next_graph: 0,
            marks: Vec::new(),
        }
    }

    /// The true state of its memory, now and later.
    #[must_use]
    pub fn truth(&self) -> Truth {
        self.truth.clone()
    }

    fn fails(&mut self, once_in: u64, what: &'static str) -> Result<(), DeviceError> {
        let spent = self.random.below(CALL_NANOS);
        self.clock.advance(Nanos(spent));
        if once_in > 0 && self.random.one_in(once_in) {
            return Err(DeviceError::Injected(what));
        }
        Ok(())
    }

    fn queue(&mut self, queue: Queue) -> Result<&mut WorkQueue, DeviceError> {
        self.queues.get_mut(queue.0 as usize).ok_or(DeviceError::Unknown {
            what: "queue",
            value: u64::from(queue.0),
        })
    }

    fn refuse_in_capture(&mut self, queue: Queue, what: &'static str) -> Result<(), DeviceError> {
        if self.queue(queue)?.capture.is_some() {
            return Err(DeviceError::WrongState {
                what,
                state: "while the queue is captured",
            });
        }
        Ok(())
    }

    /// Captured work becomes a node. Other work gets a begin and an end, and what it touches is checked.
    fn put(
        &mut self,
        queue: Queue,
        id: LaunchId,
        op: &'static str,
        spans: Vec<Span>,
    ) -> Result<(), DeviceError> {
        if let Some(graph) = self.queue(queue)?.capture.as_mut() {
            graph.nodes.push(Node { op, spans });
            return Ok(());
        }
        for span in &spans {
            self.touch(op, span)?;
        }
        self.enqueue(queue, id, op, spans)
    }

    fn touch(&self, op: &'static str, span: &Span) -> Result<(), DeviceError> {
        if self.truth.touch(op, span) {
            return Ok(());
        }
        Err(DeviceError::IllegalAddress {
            op,
            address: span.address.0,
            bytes: span.bytes,
        })
    }

    fn enqueue(
        &mut self,
        queue: Queue,
        id: LaunchId,
        op: &'static str,
        spans: Vec<Span>,
    ) -> Result<(), DeviceError> {
        let took = Nanos(1 + self.random.below(WORK_NANOS));
        let begin = self.clock.now().max(self.queue(queue)?.free_at);
        let end = begin + took;
        let others = self.queues.iter().enumerate();
        for (_, other) in others.filter(|(index, _)| *index != queue.0 as usize) {
            let clash = |task: &Task| task.conflict(begin, end, &spans).copied();
            if let Some(span) = other.tasks.iter().find_map(clash) {
                self.truth.note_race(op, &span);
            }
        }
        let queue = self.queue(queue)?;
        queue.free_at = end;
        queue.tasks.push_back(Task {
            id,
            begin,
            end,
            spans: spans.into(),
        });
        Ok(())
    }

    /// Lets time pass until all work on the queue is done.
    fn pass(&mut self, queue: Queue) -> Result<(), DeviceError> {
        let until = self.queue(queue)?.free_at;
        self.clock.advance(until.since(self.clock.now()));
        Ok(())
    }
}

fn unknown_graph(graph: GraphHandle) -> DeviceError {
    DeviceError::Unknown {
        what: "graph",
        value: graph.0,
    }
}

fn span(address: Address, bytes: Bytes, access: Access) -> Span {
    Span {
        address,
        bytes,
        access,
    }
}

impl Device for SimDevice {
    fn describe(&self) -> Description {
        Description {
            name: format!("sim:{}", self.config.index),
            kind: Kind::Sim,
            context: self.config.context,
            pinned: self.config.pinned,
        }
    }

    fn memory(&self, space: Space) -> MemoryInfo {
        self.truth.memory(space)
    }

    fn reserve(&mut self, space: Space, bytes: Bytes) -> Result<Address, DeviceError> {
        self.fails(self.config.faults.reserve, "a reservation")?;
        let info = self.memory(space);
        self.fails(self.config.faults.out_of_memory, "a reservation")
            .map_err(|_| DeviceError::OutOfMemory {
                asked: bytes,
                free: info.free,
                total: info.total,
            })?;
        self.truth.reserve(space, bytes)
    }

    fn give_back(&mut self, space: Space, address: Address) -> Result<(), DeviceError> {
        let bytes = self.truth.give_back(space, address)?;
        let segment = span(address, bytes, Access::Write);
        let now = self.clock.now();
        let in_flight = self.queues.iter().flat_map(|queue| &queue.tasks);
        for task in in_flight.filter(|task| task.end > now) {
            if let Some(used) = task.spans.iter().find(|used| overlap(used, &segment)) {
                self.truth.note_violation("give_back", used);
            }
        }
        Ok(())
    }

    fn open_queue(&mut self) -> Result<Queue, DeviceError> {
        self.queues.push(WorkQueue::default());
        Ok(Queue(self.queues.len() as u32 - 1))
    }

    fn launch(&mut self, queue: Queue, id: LaunchId, launch: &Launch) -> Result<(), DeviceError> {
        self.fails(self.config.faults.launch, "a launch")?;
        self.put(queue, id, launch.kernel.name, launch.spans().to_vec())
    }

    fn copy(
        &mut self,
        queue: Queue,
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    ) -> Result<(), DeviceError> {
        self.fails(self.config.faults.launch, "a copy")?;
        let spans = vec![span(from, bytes, Access::Read), span(to, bytes, Access::Write)];
        self.put(queue, id, "memcpy", spans)
    }

    fn upload(&mut self, queue: Queue, id: LaunchId, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "an upload")?;
        self.fails(self.config.faults.launch, "an upload")?;
        let target = span(to, Bytes(bytes.len() as u64), Access::Write);
        self.put(queue, id, "upload", vec![target])
    }

    fn download(
        &mut self,
        queue: Queue,
        id: LaunchId,
        from: Address,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a download")?;
        self.pass(queue)?;
        self.fails(self.config.faults.synchronize, "a download")?;
        let source = span(from, Bytes(into.len() as u64), Access::Read);
        self.put(queue, id, "download", vec![source])?;
        into.fill(0);
        self.pass(queue)
    }

    fn mark(&mut self, queue: Queue) -> Result<Mark, DeviceError> {
        let at = self.queue(queue)?.free_at;
        self.marks.push(at);
        Ok(Mark(self.marks.len() as u64 - 1))
    }

    fn reached(&mut self, mark: Mark) -> Result<bool, DeviceError> {
        self.fails(0, "a look at a mark")?;
        let at = usize::try_from(mark.0)
            .ok()
            .and_then(|index| self.marks.get(index));
        let at = at.ok_or(DeviceError::Unknown {
            what: "mark",
            value: mark.0,
        })?;
        Ok(*at <= self.clock.now())
    }

    fn wait(&mut self, queue: Queue, mark: Mark) -> Result<(), DeviceError> {
        let at = self.marks.get(mark.0 as usize).copied();
        let at = at.ok_or(DeviceError::Unknown {
            what: "mark",
            value: mark.0,
        })?;
        let queue = self.queue(queue)?;
        queue.free_at = queue.free_at.max(at);
        Ok(())
    }

    fn synchronize(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a synchronization")?;
        self.pass(queue)?;
        self.fails(self.config.faults.synchronize, "a synchronization")
    }

    fn begin_capture(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a second capture")?;
        self.queue(queue)?.capture = Some(Graph::default());
        Ok(())
    }

    fn end_capture(&mut self, queue: Queue) -> Result<GraphHandle, DeviceError> {
        let graph = self.queue(queue)?.capture.take().ok_or(DeviceError::WrongState {
            what: "the end of a capture",
            state: "while none is open",
        })?;
        self.fails(self.config.faults.capture, "the end of a capture")?;
        let handle = GraphHandle(self.next_graph);
        self.next_graph += 1;
        self.graphs.insert(handle, graph);
        Ok(handle)
    }

    fn replay(&mut self, queue: Queue, id: LaunchId, graph: GraphHandle) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a replay")?;
        self.fails(self.config.faults.replay, "a replay")?;
        let nodes = &self.graphs.get(&graph).ok_or_else(|| unknown_graph(graph))?.nodes;
        let mut spans = Vec::new();
        for node in nodes {
            for span in &node.spans {
                self.touch(node.op, span)?;
                spans.push(*span);
            }
        }
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.replays += 1;
        }
        self.enqueue(queue, id, "replay", spans)
    }

    fn drop_graph(&mut self, graph: GraphHandle) -> Result<(), DeviceError> {
        let removed = self.graphs.remove(&graph);
        removed.map(|_| ()).ok_or_else(|| unknown_graph(graph))
    }

    /// Each node took 1 ns a replay.
    fn node_timings(&mut self, graph: GraphHandle) -> Vec<NodeTiming> {
        let Some(graph) = self.graphs.get_mut(&graph) else {
            return Vec::new();
        };
        let replays = std::mem::take(&mut graph.replays);
        let mut timings: Vec<NodeTiming> = Vec::new();
        for node in graph.nodes.iter().filter(|_| replays > 0) {
            match timings.iter_mut().find(|timing| timing.kernel == node.op) {
                Some(timing) => {
                    timing.launches += replays;
                    timing.took += Nanos(replays);
                }
                None => timings.push(NodeTiming {
                    kernel: node.op,
                    launches: replays,
                    took: Nanos(replays),
                }),
            }
        }
        timings
    }

    fn completions(&mut self, into: &mut Vec<Completion>) {
        let now = self.clock.now();
        let mut done: Vec<Task> = Vec::new();
        for queue in &mut self.queues {
            let count = queue.tasks.partition_point(|task| task.end <= now);
            done.extend(queue.tasks.drain(..count));
        }
        done.sort_by_key(|task| (task.end, task.id));
        into.extend(done.into_iter().map(|task| Completion {
            launch: task.id,
            took: task.end.since(task.begin),
        }));
    }
}
