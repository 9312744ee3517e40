//! Observability-first VRAM profiler and purge-diagnosis toolkit that also runs inference.

pub mod base;
pub mod event;
pub mod ledger;
