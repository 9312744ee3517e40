//! Rules over the state: what went wrong with memory, by what chain of events, and what to do next.
//!
//! A rule looks at the [`Ledger`](crate::ledger::Ledger) alone, so it works on a live run, on a file and on a
//! truncated one. It answers clear, finding, too early, or cannot tell. Sizes and shares that decide are in
//! [`Thresholds`], nowhere else.
//!
//! ```
//! use vramscope::diagnose::{Thresholds, diagnose};
//! use vramscope::ledger::Ledger;
//!
//! assert!(diagnose(&Ledger::default(), &Thresholds::default()).findings.is_empty());
//! ```

mod cached_not_returned;
mod chain;
mod entries;
mod finding;
mod purge_during_execution;
mod purge_ineffective;
mod reload_source_destroyed;
mod retained_after_unload;
mod rules;
mod stale_graph;
mod stale_pool_entry;
mod stale_workspace;
mod thresholds;
mod torn_pool_entry;
mod view;

pub use finding::{Answer, Code, Confidence, Finding, Severity, Step};
pub use rules::{Diagnosis, diagnose};
pub use thresholds::Thresholds;
