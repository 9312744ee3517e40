//! Operators of the runtime.

pub mod host;
