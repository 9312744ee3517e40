//! Rotary positions.

use crate::ops::host::shape::{HeadShape, Positions, ShapeError, length, multiple, product};

/// Turns `q [rows, heads, head_dim]` and `k [rows, kv_heads, head_dim]` in place by their positions.
///
/// Element i of the first half of a head is paired with element i of the second half (the convention of the
/// Hugging Face checkpoints, not the interleaved one) and turned by `position * theta^(-2i/head_dim)` radians
/// (Su et al.: "RoFormer", 2021). Exponent, frequency, angle, sine and cosine are each rounded to f32, as the
/// models were trained.
///
/// # Errors
/// An odd `head_dim`, or a length that does not fit.
pub fn rope(
    q: &mut [f32],
    k: &mut [f32],
    heads: HeadShape,
    positions: Positions,
    theta: f64,
) -> Result<(), ShapeError> {
    let dim = heads.head_dim;
    let (q_width, k_width) = (heads.query_width(), heads.kv_width());
    multiple("head_dim", dim, 2)?;
    length("q", q.len(), product(positions.count, q_width))?;
    length("k", k.len(), product(positions.count, k_width))?;
    let half = dim / 2;
    for pair in 0..half {
        let exponent = (2 * pair) as f32 / dim as f32;
        let frequency = 1.0 / theta.powf(f64::from(exponent)) as f32;
        for row in 0..positions.count {
            let angle = (positions.first + row) as f32 * frequency;
            let (sin, cos) = angle.sin_cos();
            for (x, width) in [(&mut *q, q_width), (&mut *k, k_width)] {
                for head in x[row * width..][..width].chunks_exact_mut(dim) {
                    let (a, b) = (head[pair], head[pair + half]);
                    head[pair] = a * cos - b * sin;
                    head[pair + half] = b * cos + a * sin;
                }
            }
        }
    }
    Ok(())
}
