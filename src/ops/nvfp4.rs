//! NVFP4 quantization, and its product. On a device without the hardware format the product is emulated, and
//! the kernel's name says so.

use crate::base::Bytes;
use crate::device::{HostArguments, Kernel, KernelFault};
use crate::ops::host::nvfp4::{Layout, Operand, TensorScale, gemm as host_gemm, quantize as host_quantize};
use crate::ops::llama::{Batch, Rows};
use crate::ops::{CURSOR_BYTES, cursor, rows, rows_mut};
use crate::runtime::{Buffer, RuntimeError, Stream};

/// Bytes of a quantizer's counters: blocks, saturated, flushed, NaN, each a `u64`.
pub const COUNTER_BYTES: u64 = 32;

/// The name of the activations' quantizer on every surface.
pub const QUANTIZE_NAME: &str = "nvfp4_quantize";

static QUANTIZE: Kernel = Kernel {
    name: QUANTIZE_NAME,
    host: |a| {
        let (count, width) = (cursor(a, 1)?.count, a.size(0)?);
        let (codes, scales) = (a.write::<u8>(2)?, a.write::<u8>(3)?);
        let (tensor_scale, counters) = (a.write::<f32>(4)?, a.write::<u64>(5)?);
        let x = rows(a.read::<f32>(0)?, count, width)?;
        let layout = Layout::exact(count, width);
        let codes = rows_mut(codes, layout.codes_bytes(), 1)?;
        let scales = rows_mut(scales, layout.scales_bytes(), 1)?;
        let counts = host_quantize(x, layout, TensorScale::Measured, codes, scales, tensor_scale)?;
        let sums = [counts.blocks, counts.saturated, counts.flushed, counts.nan];
        for (counter, count) in counters.iter_mut().zip(sums) {
            *counter += count;
        }
        Ok(())
    },
};

static QUANTIZE_WEIGHT: Kernel = Kernel {
    name: "nvfp4_quantize_weight",
    host: |a| {
        let layout = Layout::exact(a.size(0)?, a.size(1)?);
        let (codes, scales, tensor_scale) = (a.write(1)?, a.write(2)?, a.write(3)?);
        host_quantize(
            a.read(0)?,
            layout,
            TensorScale::Measured,
            codes,
            scales,
            tensor_scale,
        )?;
        Ok(())
    },
};

static GEMM: Kernel = Kernel {
    name: "nvfp4_gemm_emulated",
    host: |a| {
        let (inputs, outputs) = (a.size(0)?, a.size(1)?);
        let count = cursor(a, 6)?.count;
        let out = a.write::<f32>(9)?;
        let layout = Layout::exact(count, inputs);
        let codes = rows(a.read::<u8>(0)?, layout.codes_bytes(), 1)?;
        let scales = rows(a.read::<u8>(1)?, layout.scales_bytes(), 1)?;
        let x = Operand::new(layout, codes, scales, first(a, 2)?)?;
        let weight = Operand::new(
            Layout::exact(outputs, inputs),
            a.read(3)?,
            a.read(4)?,
            first(a, 5)?,
        )?;
        // The workspace is the library's on a device that has one; the host's product needs none.
        Ok(host_gemm(&x, &weight, None, rows_mut(out, count, outputs)?)?)
    },
};

fn first(arguments: &HostArguments<'_>, index: usize) -> Result<f32, KernelFault> {
    let fault = KernelFault::Argument {
        index,
        wanted: "tensor scale",
    };
    arguments.read::<f32>(index)?.first().copied().ok_or(fault)
}

/// A quantized matrix in buffers.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'b> {
    /// Packed codes.
    pub codes: &'b Buffer,
    /// Swizzled block scales.
    pub scales: &'b Buffer,
    /// One f32.
    pub tensor_scale: &'b Buffer,
}

/// Bytes of the codes and of the scales of `rows x cols`.
#[must_use]
pub fn sizes(rows: usize, cols: usize) -> (Bytes, Bytes) {
    let layout = Layout::exact(rows, cols);
    (
        Bytes(layout.codes_bytes() as u64),
        Bytes(layout.scales_bytes() as u64),
    )
}

/// Quantizes rows of activations, with a tensor scale measured on the real rows.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn quantize(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    out: Quantized<'_>,
    counters: &Buffer,
) -> Result<(), RuntimeError> {
    let (codes, scales) = sizes(batch.padded, x.width);
    stream
        .call(&QUANTIZE)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("qx", out.codes, codes.0)
        .write("scales", out.scales, scales.0)
        .write("tensor_scale", out.tensor_scale, 4)
        .write("counters", counters, COUNTER_BYTES)
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
        .write("tensor_scale", out.tensor_scale, 4)
        .size(outputs)
        .size(inputs)
        .submit()
}

/// What a product needs besides its operands.
#[derive(Clone, Copy, Debug)]
pub struct Scratch<'b> {
    /// Stands where a bias would: products here have none.
    pub no_bias: &'b Buffer,
    /// The library's workspace of this stream.
    pub workspace: &'b Buffer,
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
        .read("tensor_scale", x.tensor_scale, 4)
        .read("weight", weight.codes, codes.0)
        .read("weight_scales", weight.scales, scales.0)
        .read("weight_tensor_scale", weight.tensor_scale, 4)
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .read("bias", scratch.no_bias, scratch.no_bias.bytes().0)
        .write("workspace", scratch.workspace, scratch.workspace.bytes().0)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(inputs)
        .size(out.width)
        .submit()
}
