//! From floats to codes in -128..=127.

use half::{bf16, f16};

use crate::base::random::Random;
use crate::ops::host::formats::amax;
use crate::ops::host::shape::{ShapeError, length, multiple};

/// An element type whose arithmetic is rounded to the type itself.
pub trait Element: Copy {
    /// Widened, exact.
    fn to_f32(self) -> f32;
    /// Rounded to this type, ties to even.
    fn from_f32(x: f32) -> Self;
    /// `self / scale` with the scale and the quotient rounded to this type; a scale of 0 becomes the smallest normal.
    fn over(self, scale: f32) -> f32;
}

macro_rules! element {
    ($t:ty, $widen:expr, $round:expr) => {
        impl Element for $t {
            fn to_f32(self) -> f32 {
                $widen(self)
            }
            fn from_f32(x: f32) -> $t {
                $round(x)
            }
            fn over(self, scale: f32) -> f32 {
                let rounded = $widen($round(scale));
                let divisor = if rounded == 0.0 {
                    $widen(<$t>::MIN_POSITIVE)
                } else {
                    rounded
                };
                $widen($round($widen(self) / divisor))
            }
        }
    };
}
element!(f32, |x| x, |x| x);
element!(bf16, bf16::to_f32, bf16::from_f32);
element!(f16, f16::to_f32, f16::from_f32);

/// Quantizes `x [rows, cols]` to `codes [rows, cols]` with one of `scales [rows]` a row, `max(amax/127, 1e-30)`.
///
/// Weights `[N, K]` are quantized alike, one scale an output. A row with an infinity gets an infinite scale and
/// one with a NaN a NaN scale; their codes are 0 and products with them NaN.
///
/// # Errors
/// A length that does not fit.
pub fn quantize_rowwise<T: Element>(
    x: &[T],
    cols: usize,
    codes: &mut [i8],
    scales: &mut [f32],
) -> Result<(), ShapeError> {
    multiple("x", x.len(), cols)?;
    length("codes", codes.len(), x.len())?;
    length("scales", scales.len(), x.len() / cols.max(1))?;
    let width = cols.max(1);
    let rows = x.chunks_exact(width).zip(codes.chunks_exact_mut(width));
    for ((row, codes), scale) in rows.zip(scales) {
        *scale = quantize_row(row, codes);
    }
    Ok(())
}

/// Quantizes with one scale for all elements, which goes to `scale [1]`.
///
/// # Errors
/// A length that does not fit.
pub fn quantize_tensorwise<T: Element>(
    x: &[T],
    codes: &mut [i8],
    scale: &mut [f32],
) -> Result<(), ShapeError> {
    length("codes", codes.len(), x.len())?;
    length("scale", scale.len(), 1)?;
    scale[0] = quantize_row(x, codes);
    Ok(())
}

/// `floor(x/scale + U[0,1))`: on average the value itself. The random numbers follow from `seed`, in order.
///
/// # Errors
/// `codes` is not as long as `x`.
pub fn quantize_stochastic(x: &[f32], scale: f32, seed: u64, codes: &mut [i8]) -> Result<(), ShapeError> {
    length("codes", codes.len(), x.len())?;
    let mut random = Random::seeded(seed);
    for (code, v) in codes.iter_mut().zip(x) {
        *code = (v.over(scale) + random.unit()).floor().clamp(-128.0, 127.0) as i8;
    }
    Ok(())
}

/// Both of one length. Gives the scale.
pub(super) fn quantize_row<T: Element>(row: &[T], codes: &mut [i8]) -> f32 {
    let exact = amax(row.iter().map(|v| v.to_f32())) / 127.0;
    let scale = if exact < 1e-30 { 1e-30 } else { exact };
    for (code, v) in codes.iter_mut().zip(row) {
        *code = v.over(scale).round_ties_even().clamp(-128.0, 127.0) as i8;
    }
    scale
}
