//! The driver seam: what a memory space with ordered queues of work can do. Policy lives above, in `runtime`.
//!
//! Addresses are raw here, as they are in a driver. They never leave `runtime`, which checks generations
//! before it calls. Nothing in this trait blocks except [`Device::synchronize`] and [`Device::download`].

mod error;
pub mod host;
mod kernel;
pub mod sim;

use crate::base::{Bytes, LaunchId, Nanos};

pub use error::DeviceError;
pub use kernel::{
    Access, HostArguments, HostSlice, Kernel, KernelFault, Launch, MAX_SCALARS, MAX_SPANS, Scalar, Span,
};

/// A raw address in the space of one device, or of its pinned host memory; the two never overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// One ordered queue of work, by the device's own numbering from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue(pub u32);

/// A point in a queue, by the device's own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub u64);

/// An instantiated graph, by the device's own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphHandle(pub u64);

/// Which memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The device's own.
    Device,
    /// Pinned host memory that the device can reach.
    Pinned,
}

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Kernels on the CPU, memory modelled with a budget.
    Host,
    /// Simulated; computes nothing.
    Sim,
    /// CUDA.
    Cuda,
}

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Such as `host:0`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Memory that the driver took for itself.
    pub context: Bytes,
    /// Pinned host memory that it may hand out.
    pub pinned: Bytes,
}

/// The device's own count of its memory. Never derived from our books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// All of it, or the budget.
    pub total: Bytes,
    /// What is not taken.
    pub free: Bytes,
}

impl MemoryInfo {
    /// What is taken.
    #[must_use]
    pub fn used(self) -> Bytes {
        self.total.saturating_sub(self.free)
    }
}

/// A piece of work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub launch: LaunchId,
    /// How long it ran, by the device's own timing.
    pub took: Nanos,
}

/// What the nodes of a graph took since they were last asked, by kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTiming {
    /// The kernel.
    pub kernel: &'static str,
    /// How many times it ran.
    pub launches: u64,
    /// How long, in sum.
    pub took: Nanos,
}

/// A memory space with ordered queues of work.
pub trait Device: Send {
    /// What it says of itself.
    fn describe(&self) -> Description;

    /// Its own count of a space.
    fn memory(&self, space: Space) -> MemoryInfo;

    /// Takes a segment of `bytes` from the driver, aligned to 512 bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or what the driver says.
    fn reserve(&mut self, space: Space, bytes: Bytes) -> Result<Address, DeviceError>;

    /// Gives a segment back. Work in flight that touches it must be done.
    ///
    /// # Errors
    /// The driver knows no such segment.
    fn give_back(&mut self, space: Space, address: Address) -> Result<(), DeviceError>;

    /// Opens a queue.
    ///
    /// # Errors
    /// What the driver says.
    fn open_queue(&mut self) -> Result<Queue, DeviceError>;

    /// Puts a kernel on a queue; between begin and end of a capture, into the graph instead.
    ///
    /// # Errors
    /// What the driver says.
    fn launch(&mut self, queue: Queue, id: LaunchId, launch: &Launch) -> Result<(), DeviceError>;

    /// Puts a copy between two addresses on a queue; may be captured as [`Device::launch`].
    ///
    /// # Errors
    /// What the driver says.
    fn copy(
        &mut self,
        queue: Queue,
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    ) -> Result<(), DeviceError>;

    /// Puts a copy from the program's memory on a queue. `bytes` may be reused when this returns.
    ///
    /// # Errors
    /// What the driver says; a capture takes no uploads.
    fn upload(&mut self, queue: Queue, id: LaunchId, to: Address, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Waits for the queue and copies to the program's memory.
    ///
    /// # Errors
    /// What the driver says, or what work before it on the queue met.
    fn download(
        &mut self,
        queue: Queue,
        id: LaunchId,
        from: Address,
        into: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// Marks this point of a queue.
    ///
    /// # Errors
    /// What the driver says.
    fn mark(&mut self, queue: Queue) -> Result<Mark, DeviceError>;

    /// Whether the queue has got to the mark.
    ///
    /// # Errors
    /// What work before it met.
    fn reached(&mut self, mark: Mark) -> Result<bool, DeviceError>;

    /// Lets later work on `queue` wait for the mark.
    ///
    /// # Errors
    /// What the driver says.
    fn wait(&mut self, queue: Queue, mark: Mark) -> Result<(), DeviceError>;

    /// Waits until all work on the queue is done.
    ///
    /// # Errors
    /// What that work met. Nothing of it is in flight then either.
    fn synchronize(&mut self, queue: Queue) -> Result<(), DeviceError>;

    /// From now on, launches and copies on `queue` go into a graph, with their addresses as they are.
    ///
    /// # Errors
    /// A capture is open on this queue, or what the driver says.
    fn begin_capture(&mut self, queue: Queue) -> Result<(), DeviceError>;

    /// Ends the capture and instantiates the graph.
    ///
    /// # Errors
    /// No capture is open, or what the driver says. The capture is over in any case.
    fn end_capture(&mut self, queue: Queue) -> Result<GraphHandle, DeviceError>;

    /// Puts a graph on a queue.
    ///
    /// # Errors
    /// No such graph, or what the driver says.
    fn replay(&mut self, queue: Queue, id: LaunchId, graph: GraphHandle) -> Result<(), DeviceError>;

    /// Destroys a graph.
    ///
    /// # Errors
    /// No such graph.
    fn drop_graph(&mut self, graph: GraphHandle) -> Result<(), DeviceError>;

    /// What the graph's nodes took since the last call; empty where the device does not time them.
    fn node_timings(&mut self, graph: GraphHandle) -> Vec<NodeTiming>;

    /// Moves what was done since the last call to `into`, in the order in which it was done. Work that was
    /// given up since earlier work failed is done too.
    fn completions(&mut self, into: &mut Vec<Completion>);
}
