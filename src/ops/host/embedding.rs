//! Embedding: rows of a table by token id.

use crate::ops::host::formats::bf16_widen;
use crate::ops::host::shape::{ShapeError, length, multiple, product};

/// Copies row `ids[i]` of `table [vocab, hidden]` to row i of `out [ids, hidden]`.
///
/// # Errors
/// A length that does not fit, or an id that is not below `vocab`.
pub fn embed_f32(table: &[f32], hidden: usize, ids: &[u32], out: &mut [f32]) -> Result<(), ShapeError> {
    embed(table, hidden, ids, out, |v| v)
}

/// [`embed_f32`] from the bits of a bf16 table; widening is exact.
///
/// # Errors
/// As [`embed_f32`].
pub fn embed_bf16(table: &[u16], hidden: usize, ids: &[u32], out: &mut [f32]) -> Result<(), ShapeError> {
    embed(table, hidden, ids, out, bf16_widen)
}

fn embed<T: Copy>(
    table: &[T],
    hidden: usize,
    ids: &[u32],
    out: &mut [f32],
    widen: impl Fn(T) -> f32,
) -> Result<(), ShapeError> {
    multiple("table", table.len(), hidden)?;
    length("out", out.len(), product(ids.len(), hidden))?;
    let vocab = table.len() / hidden.max(1);
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
        return Err(ShapeError::Range {
            argument: "ids",
            limit: vocab,
            found: *id as usize,
        });
    }
    for (id, row) in ids.iter().zip(out.chunks_exact_mut(hidden.max(1))) {
        let from = &table[*id as usize * hidden..][..hidden];
        for (place, value) in row.iter_mut().zip(from) {
            *place = widen(*value);
        }
    }
    Ok(())
}
