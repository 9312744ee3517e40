//! Facts about memory: segments from the driver, buffers in them.

use crate::base::{
    BufferId, Bytes, DeviceId, Generation, GraphId, NameId, OwnerId, PurgeId, SegmentId, StreamId,
};
use crate::event::schema::facts;
use crate::event::{Refusal, ReleaseCause, ReturnCause, Stage};

facts! {
    /// The allocator got a segment from the driver. Recorded after getting it.
    Book SegmentReserved = 10 {
        /// Where.
        device: DeviceId,
        /// Its number; unique within the run.
        segment: SegmentId,
        /// The stream that it was reserved on.
        stream: StreamId,
        /// Its size.
        bytes: Bytes,
    }
    /// The allocator gave a segment back to the driver. Recorded before giving it back.
    Book SegmentReturned = 11 {
        /// Which.
        segment: SegmentId,
        /// Why.
        cause: ReturnCause,
    }
    /// A buffer got storage inside a segment.
    Book BufferAllocated = 12 {
        /// The slot.
        buffer: BufferId,
        /// The generation that this storage has.
        generation: Generation,
        /// The segment.
        segment: SegmentId,
        /// Where in the segment, in bytes.
        offset: Bytes,
        /// What was asked for.
        requested: Bytes,
        /// What rounding and an unsplit rest added.
        slack: Bytes,
        /// The stream whose order the storage follows.
        stream: StreamId,
        /// Who asked.
        owner: OwnerId,
        /// What for.
        site: NameId,
    }
    /// An allocation found no room, also after its one retry.
    Book AllocFailed = 13 {
        /// Where.
        device: DeviceId,
        /// The stream.
        stream: StreamId,
        /// Who asked.
        owner: OwnerId,
        /// What for.
        site: NameId,
        /// What was asked for.
        requested: Bytes,
        /// What the driver said was free.
        free: Bytes,
        /// Free bytes inside segments, in sum.
        cached: Bytes,
        /// The largest free block inside a segment.
        largest: Bytes,
    }
    /// Before it failed or went on, an allocation returned cached segments to the driver.
    Book AllocRetried = 14 {
        /// Where.
        device: DeviceId,
        /// How many bytes went back.
        returned: Bytes,
    }
    /// The owner let a buffer go; work on its stream may still use it.
    Book ReleaseRequested = 15 {
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
        /// Why.
        cause: ReleaseCause,
    }
    /// A released buffer can't be freed yet, since a captured graph baked it.
    Book BufferHeld = 16 {
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
        /// The graph.
        graph: GraphId,
    }
    /// A released buffer's stream got past its last use: the storage is reusable.
    Book ReleaseCompleted = 17 {
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
    }
    /// A purge emptied the storage of a buffer under whoever held it.
    Book BufferKilled = 18 {
        /// The slot.
        buffer: BufferId,
        /// The generation that died.
        generation: Generation,
        /// The purge.
        purge: PurgeId,
        /// Its stage.
        stage: Stage,
    }
    /// A use was refused before the driver saw it.
    Book AccessRefused = 19 {
        /// Why.
        refusal: Refusal,
        /// The operation, or the graph's name.
        op: NameId,
        /// The argument.
        argument: NameId,
        /// The slot.
        buffer: BufferId,
        /// The generation that the handle has.
        expected: Generation,
        /// The generation that the slot has.
        found: Generation,
        /// Who allocated it.
        owner: OwnerId,
        /// The graph, where a replay was refused.
        graph: Option<GraphId>,
        /// The purge that killed it, where one did.
        purge: Option<PurgeId>,
    }
}
