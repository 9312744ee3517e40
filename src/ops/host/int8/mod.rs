//! INT8: symmetric quantization and exact i32 products (semantics of comfy-kitchen's eager reference).

mod linear;
mod quantize;

pub use linear::{gemm, linear, scale};
pub use quantize::{Element, quantize_rowwise, quantize_stochastic, quantize_tensorwise};
