//! Facts about work on streams.

use crate::base::Generation;
use crate::base::{BufferId, Bytes, GraphId, LaunchId, NameId, Nanos, StreamId};
use crate::event::schema::facts;
use crate::event::{Direction, Outcome, ReleaseCause, Uses};

facts! {
    /// A kernel was put on a stream.
    Detail KernelLaunched = 30 {
        /// The piece of work.
        launch: LaunchId,
        /// The kernel.
        kernel: NameId,
        /// The stream.
        stream: StreamId,
        /// The buffers it touches, in argument order.
        uses: Uses,
    }
    /// A copy was put on a stream.
    Detail CopyIssued = 31 {
        /// The piece of work.
        launch: LaunchId,
        /// Which way.
        direction: Direction,
        /// How much.
        bytes: Bytes,
        /// Source and target, in this order, where they are ours.
        uses: Uses,
        /// The stream.
        stream: StreamId,
    }
    /// A piece of work was done, by the device's own timing.
    Detail WorkCompleted = 32 {
        /// The piece of work.
        launch: LaunchId,
        /// How long it ran.
        took: Nanos,
    }
    /// A quantizer's own count of what it did to its blocks.
    Detail QuantizeCounted = 33 {
        /// The kernel.
        kernel: NameId,
        /// All blocks.
        blocks: u64,
        /// Blocks whose scale was clamped.
        saturated: u64,
        /// Blocks that became zero though they were not.
        flushed: u64,
        /// Blocks with a NaN.
        nan: u64,
    }
    /// What the nodes of a graph took since this was last stated, where the device times nodes.
    Detail GraphKernelTimed = 34 {
        /// The graph.
        graph: GraphId,
        /// The kernel.
        kernel: NameId,
        /// How many times it ran.
        launches: u64,
        /// How long, in sum.
        took: Nanos,
    }
    /// Recording of a graph began.
    Book CaptureBegan = 40 {
        /// Its number.
        graph: GraphId,
        /// The stream.
        stream: StreamId,
        /// Its key, in words.
        key: NameId,
    }
    /// A graph recorded the address of a buffer.
    Book GraphBaked = 41 {
        /// The graph.
        graph: GraphId,
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
        /// The first node that uses it.
        node: u64,
        /// The argument there, as `kernel.argument`.
        argument: NameId,
    }
    /// Recording of a graph ended.
    Book CaptureEnded = 42 {
        /// The graph.
        graph: GraphId,
        /// How many nodes it has.
        nodes: u64,
        /// How it ended.
        outcome: Outcome,
    }
    /// A graph was put on a stream.
    Book GraphReplayed = 43 {
        /// The graph.
        graph: GraphId,
        /// The piece of work.
        launch: LaunchId,
    }
    /// A graph was destroyed.
    Book GraphDropped = 44 {
        /// The graph.
        graph: GraphId,
        /// Why.
        cause: ReleaseCause,
    }
}
