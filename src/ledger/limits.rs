//! How much state a trace can make us keep, whatever it says. Beyond a limit things are counted, not kept.
//!
//! Of purges, prompts and kills the latest are kept, since a long run is asked about its end; of all else the first.

/// Slots of the buffer table.
pub const BUFFERS: usize = 1 << 20;
/// Segments that are with us at once.
pub const SEGMENTS: usize = 1 << 18;
/// Devices; the balances of all others are summed in one.
pub const DEVICES: usize = 256;
/// Owners; the sums of all others are in one.
pub const OWNERS: usize = 1 << 16;
/// Names.
pub const NAMES: usize = 1 << 18;
/// Bytes of all names in sum.
pub const NAME_BYTES: usize = 32 << 20;
/// Streams.
pub const STREAMS: usize = 1 << 12;
/// Settings.
pub const SETTINGS: usize = 1 << 10;
/// Prompts; the latest.
pub const PROMPTS: usize = 1 << 12;
/// Phases of one prompt.
pub const PHASES: usize = 64;
/// Kills whose circumstances are kept; the latest.
pub const KILLS: usize = 1 << 16;
/// Pools.
pub const POOLS: usize = 1 << 12;
/// Entries of all pools at once.
pub const ENTRIES: usize = 1 << 18;
/// Parts of one entry.
pub const PARTS: usize = 64;
/// Graphs at once.
pub const GRAPHS: usize = 1 << 12;
/// Baked buffers of all graphs at once.
pub const BAKED: usize = 1 << 20;
/// Baked buffers of one graph.
pub const BAKED_PER_GRAPH: usize = 1 << 16;
/// Kernels.
pub const KERNELS: usize = 1 << 16;
/// Pieces of work in flight at once.
pub const IN_FLIGHT: usize = 1 << 16;
/// Pieces of work in flight that a purge keeps.
pub const PURGE_WORK: usize = 32;
/// Purges; the latest.
pub const PURGES: usize = 1 << 10;
/// Stages of one purge.
pub const STAGES: usize = 256;
/// Stages, claims, measurements and survivors of all purges.
pub const PURGE_DETAILS: usize = 1 << 17;
/// Refused uses that are kept in full.
pub const REFUSALS: usize = 1 << 10;
/// Failed allocations that are kept in full.
pub const FAILURES: usize = 256;
/// Models.
pub const MODELS: usize = 1 << 12;
/// Host copies that loads will read.
pub const SOURCES: usize = 1 << 16;
/// Pairs of meter and device.
pub const METERS: usize = 256;
/// Anomalies that are kept, of each of two kinds: about time, and all others.
pub const ANOMALIES: usize = 1 << 10;
