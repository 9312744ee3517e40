//! The host device: kernels run on the CPU, memory is modelled with a budget that is enforced.
//!
//! Queues are real queues: work waits in them until someone synchronizes, asks for a mark or fills them up,
//! so work is in flight as on a GPU, and a run is the same each time. Captured graphs bake raw addresses;
//! a replay after their memory moved on reads whatever is there now, or meets an illegal address.

mod graph;
mod memory;
mod queue;

use std::collections::HashMap;

use crate::base::clock::Clock;
use crate::base::{Bytes, LaunchId, Nanos};
use crate::device::{
    Address, Completion, Description, Device, DeviceError, GraphHandle, Kind, Launch, Mark, MemoryInfo,
    NodeTiming, Queue, Space,
};
use graph::Graph;
use memory::Arena;
use queue::{Task, WorkQueue, run};

/// Modelled device addresses start here, pinned ones at [`PINNED_BASE`]: a null pointer is never ours.
const DEVICE_BASE: u64 = 1 << 44;
const PINNED_BASE: u64 = 1 << 45;

/// A queue that holds this much work is drained before it takes more.
const QUEUE_DEPTH: usize = 1024;

/// Budgets of a host device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its place among host devices, for its name.
    pub index: u32,
    /// Modelled device memory.
    pub vram: Bytes,
    /// Modelled pinned host memory.
    pub pinned: Bytes,
}

/// A device whose kernels run on the CPU.
#[derive(Debug)]
pub struct HostDevice {
    config: HostConfig,
    memory: Memory,
    queues: Vec<WorkQueue>,
    graphs: HashMap<GraphHandle, Graph>,
    next_graph: u64,
    marks: u64,
    clock: Clock,
    done: Vec<Completion>,
}

/// Both spaces.
#[derive(Debug)]
struct Memory {
    device: Arena,
    pinned: Arena,
}

impl Memory {
    fn space(&mut self, space: Space) -> &mut Arena {
        match space {
            Space::Device => &mut self.device,
            Space::Pinned => &mut self.pinned,
        }
    }

    fn home(&mut self, address: Address) -> &mut Arena {
        if self.pinned.has(address) {
            &mut self.pinned
        } else {
            &mut self.device
        }
    }

    fn copy(&mut self, to: Address, from: Address, bytes: Bytes) -> Result<(), DeviceError> {
        let op = "memcpy";
        if self.pinned.has(to) == self.pinned.has(from) {
            return self.home(to).copy_within(op, to, from, bytes);
        }
        let (target, source) = if self.pinned.has(to) {
            (&mut self.pinned, &mut self.device)
        } else {
            (&mut self.device, &mut self.pinned)
        };
        let source = source.bytes(op, from, bytes)?;
        target.bytes(op, to, bytes)?.copy_from_slice(source);
        Ok(())
    }
}

impl HostDevice {
    /// Opens a host device with the given budgets. Physical memory is taken as it is touched.
    ///
    /// # Errors
    /// The system refuses the address space.
    pub fn open(config: HostConfig, clock: Clock) -> Result<HostDevice, DeviceError> {
        let memory = Memory {
            device: Arena::open(DEVICE_BASE, config.vram)?,
            pinned: Arena::open(PINNED_BASE, config.pinned)?,
        };
        Ok(HostDevice {
            config,
            memory,
            queues: Vec::new(),
            graphs: HashMap::new(),
            next_graph: 0,
            marks: 0,
            clock,
            done: Vec::new(),
        })
    }

    fn queue(&mut self, queue: Queue) -> Result<&mut WorkQueue, DeviceError> {
        self.queues.get_mut(queue.0 as usize).ok_or(DeviceError::Unknown {
            what: "queue",
            value: u64::from(queue.0),
        })
    }

    fn put(&mut self, queue: Queue, task: Task) -> Result<(), DeviceError> {
        if self.queue(queue)?.len() >= QUEUE_DEPTH {
            self.drain(queue)?;
        }
        self.queue(queue)?.push(task);
        Ok(())
    }

    /// Runs a queue's work, and that of others as far as it waits for them.
    fn drain(&mut self, queue: Queue) -> Result<(), DeviceError> {
        while let Some(task) = self.queue(queue)?.pop() {
            self.run_task(queue, task)?;
        }
        Ok(())
    }

    /// What comes after a failure on a queue can't be trusted: it is given up, and done with.
    fn run_task(&mut self, queue: Queue, task: Task) -> Result<(), DeviceError> {
        let result = match task {
            Task::Wait(mark) => self.run_until(mark),
            other => self.execute(other),
        };
        if result.is_err() {
            let given_up = self.queue(queue)?.clear();
            let done = given_up.into_iter().map(|launch| Completion {
                launch,
                took: Nanos(0),
            });
            self.done.extend(done);
        }
        result
    }

    /// A mark that nobody holds is one that was reached.
    fn run_until(&mut self, mark: Mark) -> Result<(), DeviceError> {
        let holder = self.queues.iter().position(|queue| queue.holds(mark));
        let Some(holder) = holder else { return Ok(()) };
        let queue = Queue(holder as u32);
        while let Some(task) = self.queue(queue)?.pop() {
            match task {
                Task::Mark(reached) if reached == mark => return Ok(()),
                other => self.run_task(queue, other)?,
            }
        }
        Ok(())
    }

    fn execute(&mut self, task: Task) -> Result<(), DeviceError> {
        let began = self.clock.now();
        let (id, result) = match task {
            Task::Mark(_) | Task::Wait(_) => return Ok(()),
            Task::Launch(id, launch) => (id, run(&mut self.memory, &launch)),
            Task::Copy { id, to, from, bytes } => (id, self.memory.copy(to, from, bytes)),
            Task::Upload { id, to, bytes } => {
                let target = self.memory.home(to);
                let slice = target.bytes("upload", to, Bytes(bytes.len() as u64));
                (id, slice.map(|slice| slice.copy_from_slice(&bytes)))
            }
            Task::Replay(id, handle) => {
                let graph = self.graphs.get_mut(&handle);
                let result = match graph {
                    Some(graph) => graph.replay(&mut self.memory, &self.clock),
                    None => Err(unknown_graph(handle)),
                };
                (id, result)
            }
        };
        self.done.push(Completion {
            launch: id,
            took: self.clock.now().since(began),
        });
        result
    }
}

fn unknown_graph(graph: GraphHandle) -> DeviceError {
    DeviceError::Unknown {
        what: "graph",
        value: graph.0,
    }
}

impl Device for HostDevice {
    fn describe(&self) -> Description {
        Description {
            name: format!("host:{}", self.config.index),
            kind: Kind::Host,
            context: Bytes::ZERO,
            pinned: self.config.pinned,
        }
    }

    fn memory(&self, space: Space) -> MemoryInfo {
        match space {
            Space::Device => self.memory.device.info(),
            Space::Pinned => self.memory.pinned.info(),
        }
    }

    fn reserve(&mut self, space: Space, bytes: Bytes) -> Result<Address, DeviceError> {
        self.memory.space(space).reserve(bytes)
    }

    fn give_back(&mut self, space: Space, address: Address) -> Result<(), DeviceError> {
        self.memory.space(space).give_back(address)
    }

    fn open_queue(&mut self) -> Result<Queue, DeviceError> {
        self.queues.push(WorkQueue::default());
        Ok(Queue(self.queues.len() as u32 - 1))
    }

    fn launch(&mut self, queue: Queue, id: LaunchId, launch: &Launch) -> Result<(), DeviceError> {
        if let Some(graph) = self.queue(queue)?.capture.as_mut() {
            graph.add_launch(*launch);
            return Ok(());
        }
        self.put(queue, Task::Launch(id, *launch))
    }

    fn copy(
        &mut self,
        queue: Queue,
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    ) -> Result<(), DeviceError> {
        if let Some(graph) = self.queue(queue)?.capture.as_mut() {
            graph.add_copy(to, from, bytes);
            return Ok(());
        }
        self.put(queue, Task::Copy { id, to, from, bytes })
    }

    fn upload(&mut self, queue: Queue, id: LaunchId, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "an upload")?;
        let bytes = bytes.into();
        self.put(queue, Task::Upload { id, to, bytes })
    }

    fn download(
        &mut self,
        queue: Queue,
        id: LaunchId,
        from: Address,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a download")?;
        self.drain(queue)?;
        let began = self.clock.now();
        let source = self.memory.home(from);
        into.copy_from_slice(source.bytes("download", from, Bytes(into.len() as u64))?);
        self.done.push(Completion {
            launch: id,
            took: self.clock.now().since(began),
        });
        Ok(())
    }

    fn mark(&mut self, queue: Queue) -> Result<Mark, DeviceError> {
        let mark = Mark(self.marks);
        self.put(queue, Task::Mark(mark))?;
        self.marks += 1;
        Ok(mark)
    }

    fn reached(&mut self, mark: Mark) -> Result<bool, DeviceError> {
        if mark.0 >= self.marks {
            return Err(DeviceError::Unknown {
                what: "mark",
                value: mark.0,
            });
        }
        Ok(!self.queues.iter().any(|queue| queue.holds(mark)))
    }

    fn wait(&mut self, queue: Queue, mark: Mark) -> Result<(), DeviceError> {
        self.put(queue, Task::Wait(mark))
    }

    fn synchronize(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a synchronization")?;
        self.drain(queue)
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
        let handle = GraphHandle(self.next_graph);
        self.next_graph += 1;
        self.graphs.insert(handle, graph);
        Ok(handle)
    }

    fn replay(&mut self, queue: Queue, id: LaunchId, graph: GraphHandle) -> Result<(), DeviceError> {
        self.refuse_in_capture(queue, "a replay")?;
        if !self.graphs.contains_key(&graph) {
            return Err(unknown_graph(graph));
        }
        self.put(queue, Task::Replay(id, graph))
    }

    fn drop_graph(&mut self, graph: GraphHandle) -> Result<(), DeviceError> {
        let removed = self.graphs.remove(&graph);
        removed.map(|_| ()).ok_or_else(|| unknown_graph(graph))
    }

    fn node_timings(&mut self, graph: GraphHandle) -> Vec<NodeTiming> {
        self.graphs
            .get_mut(&graph)
            .map(Graph::take_timings)
            .unwrap_or_default()
    }

    fn completions(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }
}

impl HostDevice {
    fn refuse_in_capture(&mut self, queue: Queue, what: &'static str) -> Result<(), DeviceError> {
        if self.queue(queue)?.capture.is_some() {
            return Err(DeviceError::WrongState {
                what,
                state: "while the queue is captured",
            });
        }
        Ok(())
    }
}
