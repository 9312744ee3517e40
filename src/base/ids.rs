//! Identities. A device address is never one of them: addresses are reused, and two empty buffers
//! may share one.

use std::fmt;

/// The families of identities. The trace codec keeps one delta base per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // one family per id type below
pub enum IdSpace {
    Device,
    Segment,
    Buffer,
    Generation,
    Stream,
    Owner,
    Pool,
    Entry,
    Graph,
    Purge,
    Prompt,
    Name,
    Launch,
}

impl IdSpace {
    /// Number of families, for tables indexed by `IdSpace as usize`.
    pub const COUNT: usize = IdSpace::Launch as usize + 1;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($repr:ty) in $space:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl $name {
            /// The family that this identity belongs to.
            pub const SPACE: IdSpace = IdSpace::$space;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// One memory space: a GPU, the modelled GPU of the host device, or pinned host memory.
    DeviceId(u32) in Device;
    /// One range that the allocator got from the driver.
    SegmentId(u32) in Segment;
    /// One slot of the buffer table. Only with its [`Generation`] does it name a buffer.
    BufferId(u32) in Buffer;
    /// How often a slot's storage has been taken away. A handle is valid while its own equals the slot's.
    Generation(u32) in Generation;
    /// One ordered queue of device work.
    StreamId(u32) in Stream;
    /// Whoever asked for memory: a pool, a model, a workspace, a cache.
    OwnerId(u32) in Owner;
    /// One pool of reusable entries.
    PoolId(u32) in Pool;
    /// One entry of a pool; unique within the run.
    EntryId(u32) in Entry;
    /// One captured graph.
    GraphId(u32) in Graph;
    /// One purge, numbered from 1.
    PurgeId(u32) in Purge;
    /// One prompt, numbered from 1.
    PromptId(u32) in Prompt;
    /// One interned string of a trace.
    NameId(u32) in Name;
    /// One piece of work given to a stream: a kernel, a copy or a graph replay.
    LaunchId(u64) in Launch;
}

/// Position of an event in its trace, from 0 without holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Generation {
    /// The generation after this one. Wraps after 4,294,967,296 deaths of one slot.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0.wrapping_add(1))
    }
}
