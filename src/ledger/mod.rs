//! The pure, total fold of events into state: any sequence of events gives a state, never a panic.
//!
//! The state mirrors the domains of [`crate::event`]. What does not fit becomes an [`Anomaly`]; what is too much
//! is counted and not kept ([`limits`]). Nothing here reads a clock, a file or the environment.
//!
//! ```
//! use vramscope::base::{Bytes, DeviceId, Nanos, SegmentId, Seq, StreamId};
//! use vramscope::event::{SegmentReserved, Stamped};
//! use vramscope::ledger::{Account, Ledger};
//!
//! let mut ledger = Ledger::default();
//! let event = SegmentReserved {
//!     device: DeviceId(0),
//!     segment: SegmentId(0),
//!     stream: StreamId(0),
//!     bytes: Bytes::mib(2),
//! };
//! ledger.apply(&Stamped { seq: Seq(0), at: Nanos(5), event: event.into() });
//! assert_eq!(ledger.device(DeviceId(0)).get(Account::Cached), 2 << 20);
//! ```

mod accounts;
mod anomaly;
mod device;
mod digest;
mod fold;
mod graph;
mod kill;
mod launch;
pub mod limits;
mod mark;
mod memory;
mod meter;
mod model;
mod owner;
mod pool;
mod purge;
mod query;
mod refusal;
mod run;
mod table;

pub use accounts::{Account, Accounts};
pub use anomaly::{Anomalies, Anomaly, Why};
pub use device::{Device, Devices, Opening};
pub use fold::Ledger;
pub use graph::{Baked, Graph, Graphs};
pub use kill::{Kills, Obituary};
pub use launch::{Copies, InFlight, Kernel, Launches, Quantized, Timing, Work};
pub use mark::Mark;
pub use memory::{Buffer, Memory, Segment, Slot, State};
pub use meter::{Meters, Reading};
pub use model::{Loss, Model, Models, Source};
pub use owner::{Owner, Owners, Registration};
pub use pool::{Entry, Part, Pool, Pools, Vitality};
pub use purge::{Claim, Layers, Purge, Purges, Rest, StageRun, Survivor};
pub use query::{Census, FreeSpace};
pub use refusal::{EntryThen, Failure, GraphThen, Refusals, Refused};
pub use run::{PhaseRun, Prompt, Run, Stream, Tokens};
pub use table::Table;
