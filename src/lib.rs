//! Observability-first VRAM profiler and purge-diagnosis toolkit that also runs inference.

pub mod base;
pub mod cli;
pub mod device;
pub mod diagnose;
pub mod event;
pub mod ledger;
pub mod model;
pub mod ops;
pub mod plan;
pub mod report;
pub mod runtime;
pub mod trace;
