//! The choice of a token from logits.

use crate::ops::host::shape::{ShapeError, at_least, length, multiple};

/// Writes the index of the largest logit of the last row of `logits [rows, vocab]` to `out [1]`.
///
/// The first of equals wins. NaN never wins; where all are NaN, the answer is 0.
///
/// # Errors
/// No row, or a length that does not fit.
pub fn argmax(logits: &[f32], vocab: usize, out: &mut [u32]) -> Result<(), ShapeError> {
    multiple("logits", logits.len(), vocab)?;
    at_least("logits", logits.len(), vocab.max(1))?;
    length("out", out.len(), 1)?;
    let row = &logits[logits.len() - vocab..];
    let mut best: Option<(usize, f32)> = None;
    for (i, logit) in row.iter().enumerate().filter(|(_, logit)| !logit.is_nan()) {
        if best.is_none_or(|(_, largest)| *logit > largest) {
            best = Some((i, *logit));
        }
    }
    out[0] = best.map_or(0, |(i, _)| i as u32);
    Ok(())
}
