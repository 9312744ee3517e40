//! Typed launches, one function an operator: what goes where, and how much of it is touched.
//!
//! Rows are tokens. How many rows of a buffer are real stands in a *cursor* on the device (first position,
//! count), so that a captured graph serves every position and every count up to its padding.

pub mod host;
pub mod int8;
pub mod linear;
pub mod llama;
pub mod nvfp4;
pub mod rotate;

use crate::device::{HostArguments, KernelFault};
use crate::ops::host::shape::{Positions, ShapeError};

/// Bytes of a cursor: `u32` first position and `u32` count.
pub const CURSOR_BYTES: u64 = 8;

/// Bytes of an f32.
const F32: u64 = 4;

impl From<ShapeError> for KernelFault {
    fn from(error: ShapeError) -> KernelFault {
        KernelFault::Shape(error.to_string())
    }
}

/// The cursor at argument `index`.
fn cursor(arguments: &HostArguments<'_>, index: usize) -> Result<Positions, KernelFault> {
    match arguments.read::<u32>(index)? {
        [first, count] => Ok(Positions {
            first: *first as usize,
            count: *count as usize,
        }),
        _ => Err(KernelFault::Argument {
            index,
            wanted: "cursor",
        }),
    }
}

/// The first `rows` rows of `width` elements; a shape fault where there are fewer.
fn rows<T>(slice: &[T], rows: usize, width: usize) -> Result<&[T], KernelFault> {
    let len = rows.saturating_mul(width);
    slice
        .get(..len)
        .ok_or_else(|| too_short(slice.len(), rows, width))
}

/// As [`rows`], for what is written.
fn rows_mut<T>(slice: &mut [T], rows: usize, width: usize) -> Result<&mut [T], KernelFault> {
    let (found, len) = (slice.len(), rows.saturating_mul(width));
    slice.get_mut(..len).ok_or_else(|| too_short(found, rows, width))
}

fn too_short(found: usize, rows: usize, width: usize) -> KernelFault {
    KernelFault::Shape(format!(
        "{rows} rows of {width} elements are more than the {found} there are"
    ))
}
