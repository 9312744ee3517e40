//! What people and scripts read: plain values. Every number is computed here, once; who draws them adds nothing.
//!
//! Each row prints as one line of fixed columns, in ASCII. Times can be left out, for output that must not change
//! from run to run.

mod device;
mod findings;
mod pool;
mod purge;
mod row;
mod run;
mod summary;
mod work;

pub use device::{DeviceRow, OwnerRow};
pub use findings::findings_text;
pub use pool::PoolRow;
pub use purge::{PurgeView, StageRow, SurvivorRow};
pub use row::{Column, Row, Times};
pub use run::{PhaseRow, RecordView};
pub use summary::{Summary, summarise};
pub use work::{CopyRow, GraphsView, KernelRow};
