//! Root-mean-square norm.

use crate::ops::host::shape::{ShapeError, length, multiple};
use crate::ops::host::sum::dot;

/// `out = weight * (x / sqrt(mean(x^2) + eps))` for each row of `x [rows, hidden]`, in f32.
///
/// `hidden` is the length of `weight`; `out` is as long as `x`. The mean is over a row
/// (Zhang and Sennrich: "Root Mean Square Layer Normalization", 2019).
///
/// # Errors
/// A length that does not fit.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> Result<(), ShapeError> {
    let hidden = weight.len();
    multiple("x", x.len(), hidden)?;
    length("out", out.len(), x.len())?;
    let width = hidden.max(1);
    for (row, to) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mean = dot(row, row, |v| v) / hidden as f32;
        let factor = 1.0 / (mean + eps).sqrt();
        for ((place, v), w) in to.iter_mut().zip(row).zip(weight) {
            *place = w * (v * factor);
        }
    }
    Ok(())
}
