//! From f32 to codes and scales.

use crate::ops::host::formats::{amax, e2m1_encode, e4m3_decode, e4m3_encode};
use crate::ops::host::nvfp4::{BLOCK, Layout, scale_offset};
use crate::ops::host::shape::{ShapeError, length, product};

/// What quantization did, in blocks of 16 elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuantizeCounts {
    /// All blocks; does not include padding rows.
    pub blocks: u64,
    /// Blocks whose scale was clamped at 448.
    pub saturated: u64,
    /// Non-zero blocks whose scale rounded to zero.
    pub flushed: u64,
    /// Blocks whose scale is NaN.
    pub nan: u64,
}

/// Where the scale of a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TensorScale {
    /// `amax(|x|) / 2688` (448 x 6), measured in a pass before.
    Measured,
    /// Given with the model.
    Given(f32),
}

impl TensorScale {
    /// 0 becomes 1: all codes of a zero tensor are zero under any other scale.
    fn of(self, x: &[f32]) -> f32 {
        let scale = match self {
            TensorScale::Measured => amax(x.iter().copied()) / 2688.0,
            TensorScale::Given(scale) => scale,
        };
        if scale == 0.0 { 1.0 } else { scale }
    }
}

/// Quantizes `x [rows, cols]` to `codes [stored_rows, stored_cols/2]`, swizzled `scales` and `tensor_scale [1]`.
///
/// Padding is zeros, codes and scales alike. The scale that was used, which decoding needs, goes to
/// `tensor_scale`.
///
/// # Errors
/// A length that does not fit `layout`.
pub fn quantize(
    x: &[f32],
    layout: Layout,
    scale: TensorScale,
    codes: &mut [u8],
    scales: &mut [u8],
    tensor_scale: &mut [f32],
) -> Result<QuantizeCounts, ShapeError> {
    length("x", x.len(), product(layout.rows(), layout.cols()))?;
    length("codes", codes.len(), layout.codes_bytes())?;
    length("scales", scales.len(), layout.scales_bytes())?;
    length("tensor_scale", tensor_scale.len(), 1)?;
    let scale = scale.of(x);
    tensor_scale[0] = scale;
    codes.fill(0);
    scales.fill(0);
    let (cols, blocks) = (layout.cols(), layout.blocks());
    let mut counts = QuantizeCounts::default();
    for r in 0..layout.rows() {
        let row = &x[r * cols..][..cols];
        for (block, from) in row.chunks(BLOCK).enumerate() {
            let mut values = [0f32; BLOCK];
            values[..from.len()].copy_from_slice(from);
            let codes = &mut codes[(r * blocks + block) * (BLOCK / 2)..][..BLOCK / 2];
            scales[scale_offset(r, block, blocks)] = quantize_block(&values, scale, codes, &mut counts);
        }
    }
    Ok(counts)
}

/// Writes the codes of one block, which are zero before, and gives its scale.
fn quantize_block(x: &[f32; BLOCK], ts: f32, codes: &mut [u8], counts: &mut QuantizeCounts) -> u8 {
    counts.blocks += 1;
    let m = amax(x.iter().copied());
    let v = m / 6.0 / ts;
    if v.is_nan() {
        counts.nan += 1;
        return 0x7F;
    }
    counts.saturated += u64::from(v > 448.0);
    let scale = e4m3_encode(v.min(448.0));
    counts.flushed += u64::from(scale == 0 && m > 0.0);
    let t = ts * e4m3_decode(scale);
    if t != 0.0 {
        let values = x.map(|v| e2m1_encode(v / t));
        for (code, [high, low]) in codes.iter_mut().zip(values.as_chunks().0) {
            *code = high << 4 | low;
        }
    }
    scale
}
