//! Reference operators on host slices: no I/O, no device, no allocation by kernels. Row-major matrices.
//!
//! A kernel writes to outputs that the caller gives. Lengths that do not fit are a [`shape::ShapeError`] and
//! leave the outputs untouched. Sums have a fixed order. NVFP4 products here are emulated.

pub mod attention;
pub mod convrot;
pub mod elementwise;
pub mod embedding;
pub mod formats;
pub mod int8;
pub mod linear;
pub mod logits;
pub mod norm;
pub mod nvfp4;
pub mod rope;
pub mod shape;
mod sum;
