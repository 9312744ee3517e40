//! The emulated product: exact integer products of blocks, scaled and summed in f64.
//!
//! A code is half of an integer up to 12, so 16 products sum exactly in i32. With both E4M3 scales a block still
//! fits an f32, and f64 sums of blocks are exact for K up to 1,024 and in practice beyond.

use crate::ops::host::formats::{E2M1_MAGNITUDES, e4m3_decode};
use crate::ops::host::nvfp4::{BLOCK, Operand};
use crate::ops::host::shape::{ShapeError, length, product};

/// Rows of an operand that are unpacked at once.
const ROWS: usize = 8;
/// Blocks of a row that are unpacked at once.
const BLOCKS: usize = 16;
/// Codes are unpacked to twice their value.
const TWICE_TWICE: f64 = 4.0;

/// Some rows and columns of an operand, unpacked. Beyond `rows` and `blocks` it holds leftovers.
struct Tile {
    rows: usize,
    blocks: usize,
    codes: [[[i16; BLOCK]; BLOCKS]; ROWS],
    scales: [[f32; BLOCKS]; ROWS],
}

/// `out = a b^T + bias` in f32: `a [M, K]`, `b [N, K]`, `bias [N]`, `out [M, N]`, where M and N do not include
/// padding rows.
///
/// The product of both tensor scales and the bias are applied in f64 to the sum, which is rounded once.
///
/// # Errors
/// `a` and `b` differ in columns, or a length does not fit.
pub fn gemm(
    a: &Operand<'_>,
    b: &Operand<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let (m, n) = (a.layout.rows(), b.layout.rows());
    length("columns of b", b.layout.cols(), a.layout.cols())?;
    length("out", out.len(), product(m, n))?;
    if let Some(bias) = bias {
        length("bias", bias.len(), n)?;
    }
    let alpha = f64::from(a.tensor_scale) * f64::from(b.tensor_scale) / TWICE_TWICE;
    let (mut a_tile, mut b_tile) = (Tile::empty(), Tile::empty());
    for m_start in (0..m).step_by(ROWS) {
        for n_start in (0..n).step_by(ROWS) {
            let mut sums = [[0f64; ROWS]; ROWS];
            // At least once, so that the tiles know their rows where there are no columns.
            for block in (0..a.layout.blocks().max(1)).step_by(BLOCKS) {
                a_tile.unpack(a, m_start, block);
                b_tile.unpack(b, n_start, block);
                a_tile.multiply(&b_tile, &mut sums);
            }
            for (i, sums) in sums.iter().enumerate().take(a_tile.rows) {
                let out = &mut out[(m_start + i) * n + n_start..];
                for (j, (place, sum)) in out.iter_mut().zip(sums).take(b_tile.rows).enumerate() {
                    let bias = bias.map_or(0.0, |bias| f64::from(bias[n_start + j]));
                    *place = (sum * alpha + bias) as f32;
                }
            }
        }
    }
    Ok(())
}

impl Tile {
    fn empty() -> Tile {
        Tile {
            rows: 0,
            blocks: 0,
            codes: [[[0; BLOCK]; BLOCKS]; ROWS],
            scales: [[0.0; BLOCKS]; ROWS],
        }
    }

    /// Takes up to [`ROWS`] rows from `row` and up to [`BLOCKS`] blocks from `block`.
    fn unpack(&mut self, from: &Operand<'_>, row: usize, block: usize) {
        self.rows = (from.layout.rows() - row).min(ROWS);
        self.blocks = (from.layout.blocks() - block).min(BLOCKS);
        let places = self.codes.iter_mut().zip(&mut self.scales).take(self.rows);
        for (r, (codes, scales)) in places.enumerate() {
            let (packed, _) = from.row(row + r).as_chunks::<{ BLOCK / 2 }>();
            for (place, packed) in codes.iter_mut().zip(&packed[block..]) {
                *place = unpack_block(packed);
            }
            for (c, place) in scales.iter_mut().enumerate().take(self.blocks) {
                *place = e4m3_decode(from.scale(row + r, block + c));
            }
        }
    }

    /// Adds the products of all rows of both to `sums`.
    fn multiply(&self, other: &Tile, sums: &mut [[f64; ROWS]; ROWS]) {
        for (i, sums) in sums.iter_mut().enumerate().take(self.rows) {
            for (j, sum) in sums.iter_mut().enumerate().take(other.rows) {
                let codes = self.codes[i].iter().zip(&other.codes[j]);
                let scales = self.scales[i].iter().zip(&other.scales[j]);
                let blocks = codes.zip(scales).take(self.blocks);
                *sum += blocks.fold(0.0, |sum, ((x, y), (s, t))| {
                    sum + f64::from(dot(x, y) as f32 * (s * t))
                });
            }
        }
    }
}

/// Twice the values of a block, in order.
fn unpack_block(packed: &[u8; BLOCK / 2]) -> [i16; BLOCK] {
    let mut codes = [0; BLOCK];
    for (pair, byte) in codes.as_chunks_mut().0.iter_mut().zip(packed) {
        *pair = PAIRS[usize::from(*byte)];
    }
    codes
}

/// Twice the values of both codes of a byte, high nibble first.
static PAIRS: [[i16; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [twice(byte >> 4), twice(byte & 15)];
        byte += 1;
    }
    pairs
};

/// Twice the value of an E2M1 code.
const fn twice(code: usize) -> i16 {
    let magnitude = (E2M1_MAGNITUDES[code & 7] * 2.0) as i16;
    if code & 8 == 0 { magnitude } else { -magnitude }
}

fn dot(x: &[i16; BLOCK], y: &[i16; BLOCK]) -> i32 {
    x.iter().zip(y).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum()
}
