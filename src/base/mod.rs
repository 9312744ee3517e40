//! Ground floor: identities, units, time, seeded randomness and operating-system calls.
//!
//! Knows nothing of events, devices or files. Every other module may use it.

pub mod clock;
mod ids;
pub mod os;
pub mod random;
mod units;

pub use ids::{
    BufferId, DeviceId, EntryId, Generation, GraphId, IdSpace, LaunchId, NameId, OwnerId, PoolId, PromptId,
    PurgeId, SegmentId, Seq, StreamId,
};
pub use units::{Bytes, Nanos, ParseBytesError};
