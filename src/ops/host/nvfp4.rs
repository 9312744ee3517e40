//! NVFP4: E2M1 codes, an E4M3 scale for 16 elements along K, one f32 scale a tensor.
//! Semantics follow comfy-kitchen's eager reference, save that zero and NaN input are made safe.

use crate::ops::host::formats::{amax, e2m1_decode, e2m1_encode, e4m3_decode, e4m3_encode};

/// What quantization did, in blocks of 16 elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuantizeCounts {
    /// All blocks.
    pub blocks: u64,
    /// Blocks whose scale was clamped at 448.
    pub saturated: u64,
    /// Non-zero blocks whose scale rounded to zero.
    pub flushed: u64,
    /// Blocks whose scale is NaN.
    pub nan: u64,
}

/// A quantized matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Nvfp4 {
    /// Rows after padding.
    pub rows: usize,
    /// Columns after padding, a multiple of 16.
    pub cols: usize,
    /// Packed codes `[rows, cols/2]`, even column in the high nibble.
    pub codes: Vec<u8>,
    /// Swizzled E4M3 scales, `scales_bytes(rows, cols)` long.
    pub scales: Vec<u8>,
    /// Scale of the tensor.
    pub tensor_scale: f32,
    /// What happened to the blocks.
    pub counts: QuantizeCounts,
}

/// Bytes of packed codes for `[rows, cols]`.
#[must_use]
pub fn codes_bytes(rows: usize, cols: usize) -> usize {
    rows * cols.next_multiple_of(16) / 2
}

/// Bytes of the swizzled scale buffer for `[rows, cols]`.
#[must_use]
pub fn scales_bytes(rows: usize, cols: usize) -> usize {
    rows.next_multiple_of(128) * cols.div_ceil(16).next_multiple_of(4)
}

/// Byte offset of the scale of row `r`, block `c`, of `nb` blocks a row (the 128x4 layout of cuBLASLt).
#[must_use]
pub fn scale_offset(r: usize, c: usize, nb: usize) -> usize {
    ((r / 128) * nb.div_ceil(4) + c / 4) * 512 + (r % 32) * 16 + ((r % 128) / 32) * 4 + c % 4
}

/// `amax(|x|) / 2688` (448 x 6), or 1 where that is zero.
#[must_use]
pub fn tensor_scale(x: &[f32]) -> f32 {
    let s = amax(x.iter().copied()) / 2688.0;
    if s == 0.0 { 1.0 } else { s }
}

/// Quantizes `x [rows, cols]`. Columns are padded to 16 with zeros, rows too where `pad_rows`.
/// `scale` is the tensor scale, by default [`tensor_scale`]. Elements missing from `x` count as zero.
#[must_use]
pub fn quantize(x: &[f32], rows: usize, cols: usize, scale: Option<f32>, pad_rows: bool) -> Nvfp4 {
    let scale = scale.unwrap_or_else(|| tensor_scale(x));
    let tensor_scale = if scale == 0.0 { 1.0 } else { scale };
    let r_out = if pad_rows { rows.next_multiple_of(16) } else { rows };
    let c_out = cols.next_multiple_of(16);
    let nb = c_out / 16;
    let mut out = Nvfp4 {
        rows: r_out,
        cols: c_out,
        codes: vec![0; codes_bytes(r_out, c_out)],
        scales: vec![0; scales_bytes(r_out, c_out)],
        tensor_scale,
        counts: QuantizeCounts::default(),
    };
    for r in 0..r_out {
        for b in 0..nb {
            let mut block = [0f32; 16];
            for (j, slot) in block.iter_mut().enumerate() {
                let c = b * 16 + j;
                if r < rows && c < cols {
                    *slot = x.get(r * cols + c).copied().unwrap_or(0.0);
                }
            }
            let at = (r * nb + b) * 8;
            let codes = &mut out.codes[at..at + 8];
            out.scales[scale_offset(r, b, nb)] = quantize_block(&block, tensor_scale, codes, &mut out.counts);
        }
    }
    out
}

fn quantize_block(x: &[f32; 16], ts: f32, codes: &mut [u8], n: &mut QuantizeCounts) -> u8 {
    n.blocks += 1;
    let m = amax(x.iter().copied());
    let v = m / 6.0 / ts;
    if v.is_nan() {
        n.nan += 1;
        return 0x7F;
    }
    n.saturated += u64::from(v > 448.0);
    let scale = e4m3_encode(v.min(448.0));
    n.flushed += u64::from(scale == 0 && m > 0.0);
    let t = ts * e4m3_decode(scale);
    if t != 0.0 {
        for (code, pair) in codes.iter_mut().zip(x.chunks_exact(2)) {
            *code = e2m1_encode(pair[0] / t) << 4 | e2m1_encode(pair[1] / t);
        }
    }
    scale
}

fn code(q: &Nvfp4, r: usize, c: usize) -> u8 {
    let byte = q.codes[(r * q.cols + c) / 2];
    if c.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

fn block_scale(q: &Nvfp4, r: usize, b: usize) -> f32 {
    e4m3_decode(q.scales[scale_offset(r, b, q.cols / 16)])
}

/// Decodes to f32 `[rows, cols]`: `code * (tensor scale * block scale)`.
#[must_use]
pub fn dequantize(q: &Nvfp4) -> Vec<f32> {
    let each = (0..q.rows).flat_map(|r| (0..q.cols).map(move |c| (r, c)));
    each.map(|(r, c)| e2m1_decode(code(q, r, c)) * (q.tensor_scale * block_scale(q, r, c / 16)))
        .collect()
}

/// Emulated `Y[M,N] = A B^T + bias`, `A [M,K]`, `B [N,K]`, summed in f64; `None` where K differs.
#[must_use]
pub fn gemm(a: &Nvfp4, b: &Nvfp4, bias: Option<&[f32]>) -> Option<Vec<f32>> {
    if a.cols != b.cols || bias.is_some_and(|v| v.len() != b.rows) {
        return None;
    }
    let alpha = f64::from(a.tensor_scale) * f64::from(b.tensor_scale);
    let mut y = Vec::with_capacity(a.rows * b.rows);
    for m in 0..a.rows {
        for n in 0..b.rows {
            let mut sum = 0f64;
            for k in 0..a.cols / 16 {
                let dot: f32 = (k * 16..k * 16 + 16)
                    .map(|c| e2m1_decode(code(a, m, c)) * e2m1_decode(code(b, n, c)))
                    .sum();
                sum += f64::from(dot) * f64::from(block_scale(a, m, k)) * f64::from(block_scale(b, n, k));
            }
            y.push((sum * alpha + bias.map_or(0.0, |v| f64::from(v[n]))) as f32);
        }
    }
    Some(y)
}
