//! The operators of a Llama decoder other than its products.

use bytemuck::AnyBitPattern;

use crate::device::{HostArguments, Kernel, KernelFault};
use crate::ops::host::shape::{HeadShape, ShapeError};
use crate::ops::host::{
    attention as host_attention, elementwise, embedding, logits, norm, rope as host_rope,
};
use crate::ops::{CURSOR_BYTES, F32, cursor, rows, rows_mut};
use crate::runtime::{Buffer, RuntimeError, Stream};

static EMBED_F32: Kernel = Kernel {
    name: "embed_f32",
    host: |a| embed_with(a, embedding::embed_f32),
};

static EMBED_BF16: Kernel = Kernel {
    name: "embed_bf16",
    host: |a| embed_with(a, embedding::embed_bf16),
};

/// Table, ids, cursor, out; for a table of either element type.
fn embed_with<T: AnyBitPattern>(
    a: &mut HostArguments<'_>,
    host: impl Fn(&[T], usize, &[u32], &mut [f32]) -> Result<(), ShapeError>,
) -> Result<(), KernelFault> {
    let count = cursor(a, 2)?.count;
    let hidden = a.size(0)?;
    let out = a.write::<f32>(3)?;
    let ids = rows(a.read::<u32>(1)?, count, 1)?;
    Ok(host(a.read(0)?, hidden, ids, rows_mut(out, count, hidden)?)?)
}

static WIDEN_BF16: Kernel = Kernel {
    name: "widen_bf16",
    host: |a| {
        let out = a.write::<f32>(1)?;
        let bits = a.read::<u16>(0)?;
        if bits.len() != out.len() {
            return Err(KernelFault::Shape(format!(
                "{} values do not fit {}",
                bits.len(),
                out.len()
            )));
        }
        for (wide, bits) in out.iter_mut().zip(bits) {
            *wide = f32::from_bits(u32::from(*bits) << 16);
        }
        Ok(())
    },
};

static RMS_NORM: Kernel = Kernel {
    name: "rms_norm",
    host: |a| {
        let count = cursor(a, 2)?.count;
        let (hidden, eps) = (a.size(0)?, a.constant(1)?);
        let out = a.write::<f32>(3)?;
        let x = rows(a.read::<f32>(0)?, count, hidden)?;
        Ok(norm::rms_norm(x, a.read(1)?, eps, rows_mut(out, count, hidden)?)?)
    },
};

static RMS_NORM_LAST: Kernel = Kernel {
    name: "rms_norm_last",
    host: |a| {
        let count = cursor(a, 2)?.count;
        let (hidden, eps) = (a.size(0)?, a.constant(1)?);
        let out = a.write::<f32>(3)?;
        let x = rows(a.read::<f32>(0)?, count, hidden)?;
        let last = x.len().saturating_sub(hidden);
        Ok(norm::rms_norm(&x[last..], a.read(1)?, eps, out)?)
    },
};

static ROPE: Kernel = Kernel {
    name: "rope",
    host: |a| {
        let positions = cursor(a, 0)?;
        let heads = heads(a.size(0)?, a.size(1)?, a.size(2)?);
        // Two f32 carry the base: bases over 2^24 that are no f32 would lose digits in one.
        let theta = f64::from(a.constant(3)?) + f64::from(a.constant(4)?);
        let (q, k) = (a.write::<f32>(1)?, a.write::<f32>(2)?);
        let q = rows_mut(q, positions.count, heads.query_width())?;
        let k = rows_mut(k, positions.count, heads.kv_width())?;
        Ok(host_rope::rope(q, k, heads, positions, theta)?)
    },
};

static APPEND_KV: Kernel = Kernel {
    name: "append_kv",
    host: |a| {
        let positions = cursor(a, 2)?;
        let width = a.size(0)?;
        let (k_cache, v_cache) = (a.write(3)?, a.write(4)?);
        let k = rows(a.read::<f32>(0)?, positions.count, width)?;
        let v = rows(a.read::<f32>(1)?, positions.count, width)?;
        Ok(host_attention::append_kv(
            k, v, width, positions, k_cache, v_cache,
        )?)
    },
};

static ATTENTION: Kernel = Kernel {
    name: "attention",
    host: |a| {
        let positions = cursor(a, 3)?;
        let heads = heads(a.size(0)?, a.size(1)?, a.size(2)?);
        let width = heads.query_width();
        let (scores, out) = (a.write::<f32>(4)?, a.write::<f32>(5)?);
        let q = rows(a.read::<f32>(0)?, positions.count, width)?;
        let out = rows_mut(out, positions.count, width)?;
        let (k, v) = (a.read(1)?, a.read(2)?);
        Ok(host_attention::attention(q, k, v, heads, positions, scores, out)?)
    },
};

static SILU_MUL: Kernel = Kernel {
    name: "silu_mul",
    host: |a| {
        let (count, width) = (cursor(a, 2)?.count, a.size(0)?);
        let out = a.write::<f32>(3)?;
        let gate = rows(a.read::<f32>(0)?, count, width)?;
        let up = rows(a.read::<f32>(1)?, count, width)?;
        Ok(elementwise::silu_mul(gate, up, rows_mut(out, count, width)?)?)
    },
};

static ADD: Kernel = Kernel {
    name: "add",
    host: |a| {
        let (count, width) = (cursor(a, 2)?.count, a.size(0)?);
        let x = a.write::<f32>(0)?;
        let y = rows(a.read::<f32>(1)?, count, width)?;
        Ok(elementwise::add_in_place(rows_mut(x, count, width)?, y)?)
    },
};

static ARGMAX: Kernel = Kernel {
    name: "argmax",
    host: |a| {
        let vocab = a.size(0)?;
        let out = a.write(1)?;
        Ok(logits::argmax(a.read(0)?, vocab, out)?)
    },
};

fn heads(heads: usize, kv_heads: usize, head_dim: usize) -> HeadShape {
    HeadShape {
        heads,
        kv_heads,
        head_dim,
    }
}

/// Rows of f32 in a buffer: `rows` of them may be touched.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'b> {
    /// The buffer.
    pub buffer: &'b Buffer,
    /// Elements of a row.
    pub width: usize,
}

impl Rows<'_> {
    /// Bytes of `rows` rows.
    #[must_use]
    pub fn bytes(&self, rows: usize) -> u64 {
        (rows as u64) * (self.width as u64) * F32
    }
}

/// Where the rows of a launch are, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'b> {
    /// First position and count.
    pub cursor: &'b Buffer,
    /// Rows after padding; the count is at most this.
    pub padded: usize,
}

/// How the embedding table is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dense {
    /// f32.
    F32,
    /// The upper half of an f32.
    Bf16,
}

impl Dense {
    /// Bytes of `elements` elements.
    #[must_use]
    pub fn bytes(self, elements: usize) -> u64 {
        elements as u64 * if self == Dense::F32 { 4 } else { 2 }
    }
}

/// `out[i] = table[ids[i]]`, `table [vocab, width of out]`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit), as all launches here.
pub fn embed(
    stream: &Stream,
    batch: Batch<'_>,
    (table, dense): (&Buffer, Dense),
    ids: &Buffer,
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    let kernel = if dense == Dense::F32 {
        &EMBED_F32
    } else {
        &EMBED_BF16
    };
    stream
        .call(kernel)
        .read("table", table, table.bytes().0)
        .read("ids", ids, batch.padded as u64 * 4)
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(out.width)
        .submit()
}

/// `out = f32(bits)`, all of it.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn widen_bf16(stream: &Stream, bits: &Buffer, out: &Buffer, elements: usize) -> Result<(), RuntimeError> {
    stream
        .call(&WIDEN_BF16)
        .read("bits", bits, elements as u64 * 2)
        .write("out", out, elements as u64 * F32)
        .submit()
}

/// Root mean square norm of each row.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn rms_norm(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    (weight, eps): (&Buffer, f32),
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    stream
        .call(&RMS_NORM)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("weight", weight, x.bytes(1))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(x.width)
        .constant(eps)
        .submit()
}

/// Root mean square norm of the last row alone, to the first row of `out`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn rms_norm_last(
    stream: &Stream,
    batch: Batch<'_>,
    x: Rows<'_>,
    (weight, eps): (&Buffer, f32),
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    stream
        .call(&RMS_NORM_LAST)
        .read("x", x.buffer, x.bytes(batch.padded))
        .read("weight", weight, x.bytes(1))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out.buffer, out.bytes(1))
        .size(x.width)
        .constant(eps)
        .submit()
}

/// Rotary positions, in place.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn rope(
    stream: &Stream,
    batch: Batch<'_>,
    (q, k): (&Buffer, &Buffer),
    shape: HeadShape,
    theta: f64,
) -> Result<(), RuntimeError> {
    let bytes = |width: usize| (batch.padded * width) as u64 * F32;
    let high = theta as f32;
    stream
        .call(&ROPE)
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("q", q, bytes(shape.query_width()))
        .write("k", k, bytes(shape.kv_width()))
        .size(shape.heads)
        .size(shape.kv_heads)
        .size(shape.head_dim)
        .constant(high)
        .constant((theta - f64::from(high)) as f32)
        .submit()
}

/// Writes rows of keys and values to their positions in the caches.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn append_kv(
    stream: &Stream,
    batch: Batch<'_>,
    (k, v): (Rows<'_>, Rows<'_>),
    (k_cache, v_cache): (&Buffer, &Buffer),
) -> Result<(), RuntimeError> {
    stream
        .call(&APPEND_KV)
        .read("k", k.buffer, k.bytes(batch.padded))
        .read("v", v.buffer, v.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("k_cache", k_cache, k_cache.bytes().0)
        .write("v_cache", v_cache, v_cache.bytes().0)
        .size(k.width)
        .submit()
}

/// Causal attention over the caches; `scores` is scratch for one row.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn attention(
    stream: &Stream,
    batch: Batch<'_>,
    q: &Buffer,
    (k_cache, v_cache): (&Buffer, &Buffer),
    shape: HeadShape,
    (scores, out): (&Buffer, &Buffer),
) -> Result<(), RuntimeError> {
    let bytes = (batch.padded * shape.query_width()) as u64 * F32;
    stream
        .call(&ATTENTION)
        .read("q", q, bytes)
        .read("k_cache", k_cache, k_cache.bytes().0)
        .read("v_cache", v_cache, v_cache.bytes().0)
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("scores", scores, scores.bytes().0)
        .write("out", out, bytes)
        .size(shape.heads)
        .size(shape.kv_heads)
        .size(shape.head_dim)
        .submit()
}

/// `out = silu(gate) * up`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn silu_mul(
    stream: &Stream,
    batch: Batch<'_>,
    (gate, up): (Rows<'_>, Rows<'_>),
    out: Rows<'_>,
) -> Result<(), RuntimeError> {
    stream
        .call(&SILU_MUL)
        .read("gate", gate.buffer, gate.bytes(batch.padded))
        .read("up", up.buffer, up.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .write("out", out.buffer, out.bytes(batch.padded))
        .size(gate.width)
        .submit()
}

/// `x += y`.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn add(stream: &Stream, batch: Batch<'_>, x: Rows<'_>, y: Rows<'_>) -> Result<(), RuntimeError> {
    stream
        .call(&ADD)
        .write("x", x.buffer, x.bytes(batch.padded))
        .read("y", y.buffer, y.bytes(batch.padded))
        .read("cursor", batch.cursor, CURSOR_BYTES)
        .size(x.width)
        .submit()
}

/// The index of the largest of one row of logits.
///
/// # Errors
/// As [`Call::submit`](crate::runtime::Call::submit).
pub fn argmax(stream: &Stream, logits: Rows<'_>, out: &Buffer) -> Result<(), RuntimeError> {
    stream
        .call(&ARGMAX)
        .read("logits", logits.buffer, logits.bytes(1))
        .write("out", out, 4)
        .size(logits.width)
        .submit()
}
