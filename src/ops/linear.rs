//! Products with dense weights.

use bytemuck::AnyBitPattern;

use crate::device::{HostArguments, Kernel, KernelFault};
use crate::ops::host::linear as host;
use crate::ops::host::shape::{LinearShape, ShapeError};
use crate::ops::llama::{Batch, Dense, Rows};
use crate::ops::{CURSOR_BYTES, cursor, rows, rows_mut};
use crate::runtime::{Buffer, RuntimeError, Stream};

static LINEAR_F32: Kernel = Kernel {
    name: "linear_f32",
    host: |a| linear_with(a, host::linear_f32),
};

static LINEAR_BF16: Kernel = Kernel {
    name: "linear_bf16",
    host: |a| linear_with(a, host::linear_bf16),
};

/// Rows, weight, cursor, out; for a weight of either element type.
fn linear_with<T: AnyBitPattern>(
    a: &mut HostArguments<'_>,
    host: impl Fn(&[f32], &[T], LinearShape, &mut [f32]) -> Result<(), ShapeError>,
) -> Result<(), KernelFault> {
    let shape = shape(a)?;
    let out = a.write::<f32>(3)?;
    let x = rows(a.read::<f32>(0)?, shape.rows, shape.inputs)?;
    let out = rows_mut(out, shape.rows, shape.outputs)?;
    Ok(host(x, a.read(1)?, shape, out)?)
}

/// A cursor of padding 1 stands for one row, whatever its count.
fn shape(arguments: &HostArguments<'_>) -> Result<LinearShape, KernelFault> {
    let padded = arguments.size(2)?;
    Ok(LinearShape {
        rows: cursor(arguments, 2)?.count.min(padded),
        inputs: arguments.size(0)?,
        outputs: arguments.size(1)?,
    })
}

/// `out = x W^T`, `W [width of out, width of x]`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn dense(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    (weight, dense): (&Buffer, Dense),
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    let kernel = if dense == Dense::F32 {
        &LINEAR_F32
    } else {
        &LINEAR_BF16
    };
    stream
        .call(kernel)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("weight", weight, dense.bytes(x.width * out.width))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(x.width)
        .size(out.width)
        .size(batch.padded)
        .submit()
}
