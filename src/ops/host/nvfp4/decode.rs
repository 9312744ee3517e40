//! From codes and scales to values.

use crate::ops::host::formats::{bf16_narrow, bf16_widen, e2m1_decode, e4m3_decode};
use crate::ops::host::nvfp4::{BLOCK, Operand};
use crate::ops::host::shape::{ShapeError, length};

/// Decodes to f32, padding included: `code * (tensor scale * block scale)`.
///
/// `out` is `[stored_rows, stored_cols]`.
///
/// # Errors
/// `out` has another length.
pub fn dequantize(x: &Operand<'_>, out: &mut [f32]) -> Result<(), ShapeError> {
    decode(x, out, |s| x.tensor_scale * s, |v| v)
}

/// Decodes to the bits of bf16, padding included, rounding three times as the reference does: the tensor scale,
/// its product with the block scale, and the product of that with the code.
///
/// `out` is `[stored_rows, stored_cols]`.
///
/// # Errors
/// `out` has another length.
pub fn dequantize_bf16(x: &Operand<'_>, out: &mut [u16]) -> Result<(), ShapeError> {
    let round = |v| bf16_widen(bf16_narrow(v));
    let tensor_scale = round(x.tensor_scale);
    decode(x, out, |s| round(tensor_scale * s), bf16_narrow)
}

fn decode<T>(
    x: &Operand<'_>,
    out: &mut [T],
    scale: impl Fn(f32) -> f32,
    cast: impl Fn(f32) -> T,
) -> Result<(), ShapeError> {
    length("out", out.len(), x.layout.stored_elements())?;
    let cols = x.layout.stored_cols();
    for (r, to) in out.chunks_exact_mut(cols.max(1)).enumerate() {
        let blocks = to.chunks_exact_mut(BLOCK).zip(x.row(r).chunks_exact(BLOCK / 2));
        for (block, (to, codes)) in blocks.enumerate() {
            let scale = scale(e4m3_decode(x.scale(r, block)));
            for (pair, byte) in to.chunks_exact_mut(2).zip(codes) {
                pair[0] = cast(e2m1_decode(byte >> 4) * scale);
                pair[1] = cast(e2m1_decode(*byte) * scale);
            }
        }
    }
    Ok(())
}
