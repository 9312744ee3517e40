//! ConvRot: activations are rotated by the fast form, weights by a product with the cached Hadamard matrix.

use crate::device::{Kernel, KernelFault};
use crate::ops::host::convrot::{self, RotationGroup};
use crate::ops::host::linear as host;
use crate::ops::host::shape::LinearShape;
use crate::ops::llama::{Batch, Rows};
use crate::ops::{CURSOR_BYTES, cursor, rows, rows_mut};
use crate::runtime::{Buffer, RuntimeError, Stream};

static ROTATE: Kernel = Kernel {
    name: "convrot_rotate",
    host: |a| {
        let (count, width, size) = (cursor(a, 1)?.count, a.size(0)?, a.size(1)?);
        let group = RotationGroup::new(size)
            .ok_or_else(|| KernelFault::Shape(format!("rotation group {size} is not 4, 16, 64 or 256")))?;
        let out = a.write::<f32>(2)?;
        let x = rows(a.read::<f32>(0)?, count, width)?;
        Ok(convrot::rotate_into(
            x,
            width,
            group,
            rows_mut(out, count, width)?,
        )?)
    },
};

static ROTATE_WEIGHT: Kernel = Kernel {
    name: "convrot_rotate_weight",
    host: |a| {
        let size = a.size(0)?;
        let out = a.write::<f32>(2)?;
        let x = a.read::<f32>(0)?;
        let shape = LinearShape {
            rows: x.len() / size.max(1),
            inputs: size,
            outputs: size,
        };
        Ok(host::linear_f32(x, a.read(1)?, shape, out)?)
    },
};

/// The rows of the Hadamard matrix of a group, `[g, g]`; symmetric, and its own inverse.
#[must_use]
pub fn hadamard(group: RotationGroup) -> Vec<f32> {
    let size = group.size();
    let mut matrix = vec![0.0; size * size];
    for i in 0..size {
        matrix[i * size + i] = 1.0;
    }
    // The identity has whole rows of a group, so this can't be refused.
    let _ = convrot::rotate(&mut matrix, size, group);
    matrix
}

/// `out = x H`, by groups along the rows.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn rotate(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    group: RotationGroup,
    out: &Buffer,
) -> Result<(), RuntimeError> {
    stream
        .call(&ROTATE)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out, x.bytes(batch.padded))
        .size(x.width)
        .size(group.size())
        .submit()
}

/// `out = W H^T` by groups along the rows of a weight of `elements`; `hadamard` is `[g, g]`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn rotate_weight(
    stream: &Stream,
    (weight, elements): (&Buffer, usize),
    (hadamard, group): (&Buffer, RotationGroup),
    out: &Buffer,
) -> Result<(), RuntimeError> {
    let size = group.size();
    stream
        .call(&ROTATE_WEIGHT)
        .read("weight", weight, elements as u64 * 4)
        .read("hadamard", hadamard, (size * size) as u64 * 4)
        .write("out", out, elements as u64 * 4)
        .size(size)
        .submit()
}
