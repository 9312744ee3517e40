//! Reference operators on host slices: no I/O, no device. Row-major matrices; NVFP4 products here are emulated.

pub mod convrot;
pub mod formats;
pub mod int8;
pub mod nvfp4;
