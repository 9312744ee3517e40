//! Products with a weight matrix stored as `[outputs, inputs]`.

use crate::ops::host::formats::{bf16_narrow, bf16_widen};
use crate::ops::host::shape::{LinearShape, ShapeError};
use crate::ops::host::sum::dot;

/// Elements of a row that [`linear_bf16`] rounds at once.
const ROUNDED: usize = 1024;

/// `out = x W^T` in f32.
///
/// # Errors
/// A length that does not fit `shape`.
pub fn linear_f32(x: &[f32], w: &[f32], shape: LinearShape, out: &mut [f32]) -> Result<(), ShapeError> {
    shape.check(x.len(), w.len(), out.len())?;
    let k = shape.inputs;
    for row in 0..shape.rows {
        let x = &x[row * k..][..k];
        let out = &mut out[row * shape.outputs..][..shape.outputs];
        for (n, place) in out.iter_mut().enumerate() {
            *place = dot(x, &w[n * k..][..k], |v| v);
        }
    }
    Ok(())
}

/// `out = bf16(x) W^T` from the bits of a bf16 weight: products are exact, sums are in f32.
///
/// Emulates a bf16 product with f32 accumulation and f32 output; `out` is not rounded to bf16. Rows longer
/// than 1,024 are summed in pieces of that length.
///
/// # Errors
/// A length that does not fit `shape`.
pub fn linear_bf16(x: &[f32], w: &[u16], shape: LinearShape, out: &mut [f32]) -> Result<(), ShapeError> {
    shape.check(x.len(), w.len(), out.len())?;
    out.fill(0.0);
    let k = shape.inputs;
    let mut rounded = [0f32; ROUNDED];
    for row in 0..shape.rows {
        let x = &x[row * k..][..k];
        let out = &mut out[row * shape.outputs..][..shape.outputs];
        for (piece, x) in x.chunks(ROUNDED).enumerate() {
            for (place, v) in rounded.iter_mut().zip(x) {
                *place = bf16_widen(bf16_narrow(*v));
            }
            for (n, place) in out.iter_mut().enumerate() {
                let w = &w[n * k + piece * ROUNDED..][..x.len()];
                *place += dot(&rounded[..x.len()], w, bf16_widen);
            }
        }
    }
    Ok(())
}
