//! The key and value cache, and causal attention over it.

use crate::ops::host::shape::{HeadShape, Positions, ShapeError, at_least, length, multiple, product};
use crate::ops::host::sum::dot;

/// Elements of a head that are mixed at once.
const CHUNK: usize = 16;

/// Writes the rows `k`, `v [rows, width]` to their positions in the caches `[positions, width]`.
///
/// `width` is [`HeadShape::kv_width`]. A cache may be longer than the sequence; other positions are untouched.
///
/// # Errors
/// A length that does not fit, or a position beyond the end of a cache.
pub fn append_kv(
    k: &[f32],
    v: &[f32],
    width: usize,
    positions: Positions,
    k_cache: &mut [f32],
    v_cache: &mut [f32],
) -> Result<(), ShapeError> {
    let values = product(positions.count, width);
    length("k", k.len(), values)?;
    length("v", v.len(), values)?;
    check_cache("k_cache", k_cache.len(), width, positions)?;
    check_cache("v_cache", v_cache.len(), width, positions)?;
    let start = positions.first * width;
    k_cache[start..][..values].copy_from_slice(k);
    v_cache[start..][..values].copy_from_slice(v);
    Ok(())
}

/// Causal attention of `q [rows, heads, head_dim]` over the caches `[positions, kv_heads, head_dim]`.
///
/// Row r sees positions up to its own, `positions.first + r`, which [`append_kv`] has written. Scores are
/// `q.k / sqrt(head_dim)`; softmax is in f32, with the largest score subtracted first. `scratch` holds at
/// least `positions.end()` scores; `out` has the shape of `q`.
///
/// # Errors
/// `heads` is not a multiple of `kv_heads`, a length does not fit, or a cache or `scratch` is too short.
pub fn attention(
    q: &[f32],
    k_cache: &[f32],
    v_cache: &[f32],
    heads: HeadShape,
    positions: Positions,
    scratch: &mut [f32],
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let (width, dim) = (heads.kv_width(), heads.head_dim);
    multiple("heads", heads.heads, heads.kv_heads)?;
    let values = product(positions.count, heads.query_width());
    length("q", q.len(), values)?;
    length("out", out.len(), values)?;
    check_cache("k_cache", k_cache.len(), width, positions)?;
    check_cache("v_cache", v_cache.len(), width, positions)?;
    at_least("scratch", scratch.len(), positions.end())?;
    if values == 0 {
        return Ok(());
    }
    let group = heads.heads / heads.kv_heads;
    let each = q.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).enumerate();
    for (i, (q_head, out_head)) in each {
        let (row, head) = (i / heads.heads, i % heads.heads);
        let scores = &mut scratch[..=positions.first + row];
        let start = head / group * dim;
        let keys = k_cache[start..].chunks(width).map(|row| &row[..dim]);
        let values = v_cache[start..].chunks(width).map(|row| &row[..dim]);
        for (score, key) in scores.iter_mut().zip(keys) {
            *score = dot(q_head, key, |v| v);
        }
        softmax(scores, 1.0 / (dim as f32).sqrt());
        mix(scores, values, out_head);
    }
    Ok(())
}

/// `out = sum(weights[p] * values[p])`, in the order of positions.
fn mix<'a>(weights: &[f32], values: impl Iterator<Item = &'a [f32]> + Clone, out: &mut [f32]) {
    let (chunks, rest) = out.as_chunks_mut::<CHUNK>();
    let mut start = 0;
    for chunk in chunks {
        // An array of fixed length stays in registers during the sum.
        let mut sums = [0f32; CHUNK];
        for (weight, value) in weights.iter().zip(values.clone()) {
            for (sum, v) in sums.iter_mut().zip(&value[start..][..CHUNK]) {
                *sum += weight * v;
            }
        }
        *chunk = sums;
        start += CHUNK;
    }
    for (i, place) in rest.iter_mut().enumerate() {
        let each = weights.iter().zip(values.clone());
        *place = each.fold(0.0, |sum, (weight, value)| sum + weight * value[start + i]);
    }
}

/// `softmax(scores * scale)` in place.
fn softmax(scores: &mut [f32], scale: f32) {
    let mut largest = f32::NEG_INFINITY;
    for score in scores.iter_mut() {
        *score *= scale;
        largest = largest.max(*score);
    }
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    let factor = 1.0 / sum;
    scores.iter_mut().for_each(|score| *score *= factor);
}

fn check_cache(
    argument: &'static str,
    found: usize,
    width: usize,
    positions: Positions,
) -> Result<(), ShapeError> {
    multiple(argument, found, width)?;
    at_least(argument, found, product(positions.end(), width))
}
