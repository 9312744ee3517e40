//! ConvRot: regular Hadamard rotation in groups along K.
//!
//! `H4 = [[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]]` and `H_g = kron^n(H4)/sqrt(g)`, which is symmetric and its own
//! inverse. Weights and activations turned alike keep their product.

use crate::ops::host::shape::{ShapeError, length, multiple};

/// Elements that are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationGroup(usize);

impl RotationGroup {
    /// A group of 4, 16, 64 or 256; other sizes have no rotation.
    #[must_use]
    pub fn new(size: usize) -> Option<RotationGroup> {
        matches!(size, 4 | 16 | 64 | 256).then_some(RotationGroup(size))
    }

    /// The number of elements.
    #[must_use]
    pub fn size(self) -> usize {
        self.0
    }
}

/// Multiplies each group of each row of `x [rows, cols]` by `H_g`, in place. Applying it twice restores `x`.
///
/// # Errors
/// `cols` is not a multiple of the group, or the length of `x` not one of `cols`.
pub fn rotate(x: &mut [f32], cols: usize, group: RotationGroup) -> Result<(), ShapeError> {
    multiple("cols", cols, group.0)?;
    multiple("x", x.len(), cols)?;
    for values in x.chunks_exact_mut(group.0) {
        let mut stride = 1;
        while stride < group.0 {
            for part in values.chunks_exact_mut(4 * stride) {
                turn(part, stride);
            }
            stride *= 4;
        }
    }
    Ok(())
}

/// [`rotate`] from `x` to `out`, which has the same shape.
///
/// # Errors
/// As [`rotate`], or a length that differs.
pub fn rotate_into(x: &[f32], cols: usize, group: RotationGroup, out: &mut [f32]) -> Result<(), ShapeError> {
    multiple("cols", cols, group.0)?;
    multiple("x", x.len(), cols)?;
    length("out", out.len(), x.len())?;
    out.copy_from_slice(x);
    rotate(out, cols, group)
}

/// Multiplies by `H4 / 2` across the four quarters of `part`, each `stride` long.
fn turn(part: &mut [f32], stride: usize) {
    let (first, second) = part.split_at_mut(2 * stride);
    let (a, b) = first.split_at_mut(stride);
    let (c, d) = second.split_at_mut(stride);
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let (w, x, y, z) = (*a, *b, *c, *d);
        *a = (w + x + y - z) * 0.5;
        *b = (w + x - y + z) * 0.5;
        *c = (w - x + y + z) * 0.5;
        *d = (x + y + z - w) * 0.5;
    }
}
