//! INT8 quantization by rows, and its product with i32 sums in the workspace.

use crate::base::Bytes;
use crate::device::Kernel;
use crate::ops::host::int8 as host;
use crate::ops::host::shape::LinearShape;
use crate::ops::llama::{Batch, Rows};
use crate::ops::nvfp4::Scratch;
use crate::ops::{CURSOR_BYTES, cursor, rows, rows_mut};
use crate::runtime::{Buffer, RuntimeError, Stream};

static QUANTIZE: Kernel = Kernel {
    name: "int8_quantize",
    host: |a| {
        let (count, width) = (cursor(a, 1)?.count, a.size(0)?);
        let (codes, scales) = (a.write::<i8>(2)?, a.write::<f32>(3)?);
        let x = rows(a.read::<f32>(0)?, count, width)?;
        let codes = rows_mut(codes, count, width)?;
        Ok(host::quantize_rowwise(
            x,
            width,
            codes,
            rows_mut(scales, count, 1)?,
        )?)
    },
};

static QUANTIZE_WEIGHT: Kernel = Kernel {
    name: "int8_quantize_weight",
    host: |a| {
        let width = a.size(0)?;
        let (codes, scales) = (a.write(1)?, a.write(2)?);
        Ok(host::quantize_rowwise::<f32>(a.read(0)?, width, codes, scales)?)
    },
};

static GEMM: Kernel = Kernel {
    name: "int8_gemm",
    host: |a| {
        let (inputs, outputs) = (a.size(0)?, a.size(1)?);
        let count = cursor(a, 4)?.count;
        let (workspace, out) = (a.write::<i32>(6)?, a.write::<f32>(7)?);
        let x = rows(a.read::<i8>(0)?, count, inputs)?;
        let x_scales = rows(a.read::<f32>(1)?, count, 1)?;
        let (weight, weight_scales) = (a.read::<i8>(2)?, a.read::<f32>(3)?);
        let out = rows_mut(out, count, outputs)?;
        // As many rows at a time as the workspace holds sums for.
        let step = (workspace.len() / outputs.max(1)).max(1);
        for first in (0..count).step_by(step) {
            let shape = LinearShape {
                rows: step.min(count - first),
                inputs,
                outputs,
            };
            let sums = rows_mut(workspace, shape.rows, outputs)?;
            host::gemm(&x[first * inputs..][..shape.rows * inputs], weight, shape, sums)?;
            let scales = &x_scales[first..][..shape.rows];
            let out = &mut out[first * outputs..][..shape.rows * outputs];
            host::scale::<f32>(sums, scales, weight_scales, None, shape, out)?;
        }
        Ok(())
    },
};

/// A matrix quantized by rows, in buffers.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'b> {
    /// One byte an element.
    pub codes: &'b Buffer,
    /// One f32 a row.
    pub scales: &'b Buffer,
}

/// Bytes of the codes and of the scales of `rows x cols`.
#[must_use]
pub fn sizes(rows: usize, cols: usize) -> (Bytes, Bytes) {
    (Bytes((rows * cols) as u64), Bytes(rows as u64 * 4))
}

/// Quantizes rows of activations.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn quantize(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    out: Quantized<'_>,
) -> Result<(), RuntimeError> {
    let (codes, scales) = sizes(batch.padded, x.width);
    stream
        .call(&QUANTIZE)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("qx", out.codes, codes.0)
        .write("scales", out.scales, scales.0)
        .size(x.width)
        .submit()
}

/// Quantizes a weight `[outputs, inputs]` of f32.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn quantize_weight(
    stream: &Stream,
    x: &Buffer,
    (outputs, inputs): (usize, usize),
    out: Quantized<'_>,
) -> Result<(), RuntimeError> {
    let (codes, scales) = sizes(outputs, inputs);
    stream
        .call(&QUANTIZE_WEIGHT)
        .read("x", x, (outputs * inputs) as u64 * 4)
        .write("codes", out.codes, codes.0)
        .write("scales", out.scales, scales.0)
        .size(inputs)
        .submit()
}

/// `out = x W^T` of two quantized operands, `W [width of out, inputs]`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn gemm(
    stream: &Stream,
    batch: Batch<'_>,
    (x, inputs): (Quantized<'_>, usize),
    weight: Quantized<'_>,
    scratch: Scratch<'_>,
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    let (x_codes, x_scales) = sizes(batch.padded, inputs);
    let (codes, scales) = sizes(out.width, inputs);
    stream
        .call(&GEMM)
        .read("qx", x.codes, x_codes.0)
        .read("scales", x.scales, x_scales.0)
        .read("weight", weight.codes, codes.0)
        .read("weight_scales", weight.scales, scales.0)
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .read("bias", scratch.no_bias, scratch.no_bias.bytes().0)
        .write("workspace", scratch.workspace, scratch.workspace.bytes().0)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(inputs)
        .size(out.width)
        .submit()
}
