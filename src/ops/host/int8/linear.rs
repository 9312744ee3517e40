//! Products of codes, and their scaling to floats.

use crate::ops::host::int8::quantize::{Element, quantize_row};
use crate::ops::host::shape::{LinearShape, ShapeError, length, product};

/// `out = a b^T` in i32: `a [rows, inputs]`, `b [outputs, inputs]`, `out [rows, outputs]`; exact for up to 131,071
/// inputs, and wrapping beyond.
///
/// # Errors
/// A length that does not fit `shape`.
pub fn gemm(a: &[i8], b: &[i8], shape: LinearShape, out: &mut [i32]) -> Result<(), ShapeError> {
    shape.check(a.len(), b.len(), out.len())?;
    let k = shape.inputs;
    for row in 0..shape.rows {
        let a = &a[row * k..][..k];
        let out = &mut out[row * shape.outputs..][..shape.outputs];
        for (n, place) in out.iter_mut().enumerate() {
            *place = dot(a, &b[n * k..][..k]);
        }
    }
    Ok(())
}

/// The float result of a product: `f32(acc) * (x_scales[r] * w_scales[n])`, rounded to `T`, plus `bias[n]` in `T`.
///
/// `acc` and `out` are `[rows, outputs]`, `x_scales [rows]`, `w_scales` one for all or `[outputs]`, `bias [outputs]`.
///
/// # Errors
/// A length that does not fit `shape`.
pub fn scale<T: Element>(
    acc: &[i32],
    x_scales: &[f32],
    w_scales: &[f32],
    bias: Option<&[f32]>,
    shape: LinearShape,
    out: &mut [T],
) -> Result<(), ShapeError> {
    let elements = product(shape.rows, shape.outputs);
    length("acc", acc.len(), elements)?;
    length("x_scales", x_scales.len(), shape.rows)?;
    length("out", out.len(), elements)?;
    let epilogue = Epilogue::new(w_scales, bias, shape)?;
    let width = shape.outputs.max(1);
    let rows = acc.chunks_exact(width).zip(out.chunks_exact_mut(width));
    for ((acc, out), x_scale) in rows.zip(x_scales) {
        for (n, (place, acc)) in out.iter_mut().zip(acc).enumerate() {
            *place = epilogue.apply(*acc, *x_scale, n);
        }
    }
    Ok(())
}

/// `x [rows, inputs]` times `w [outputs, inputs]` transposed: each row of x is quantized, multiplied in i32 and
/// scaled as by [`scale`].
///
/// `codes [inputs]` is scratch for one row. The result equals that of the three kernels run one after another.
///
/// # Errors
/// A length that does not fit `shape`.
pub fn linear<T: Element>(
    x: &[T],
    w: &[i8],
    w_scales: &[f32],
    bias: Option<&[f32]>,
    shape: LinearShape,
    codes: &mut [i8],
    out: &mut [T],
) -> Result<(), ShapeError> {
    shape.check(x.len(), w.len(), out.len())?;
    length("codes", codes.len(), shape.inputs)?;
    let epilogue = Epilogue::new(w_scales, bias, shape)?;
    let k = shape.inputs;
    for row in 0..shape.rows {
        let x_scale = quantize_row(&x[row * k..][..k], codes);
        let out = &mut out[row * shape.outputs..][..shape.outputs];
        for (n, place) in out.iter_mut().enumerate() {
            *place = epilogue.apply(dot(codes, &w[n * k..][..k]), x_scale, n);
        }
    }
    Ok(())
}

struct Epilogue<'a> {
    w_scales: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> Epilogue<'a> {
    fn new(
        w_scales: &'a [f32],
        bias: Option<&'a [f32]>,
        shape: LinearShape,
    ) -> Result<Epilogue<'a>, ShapeError> {
        if w_scales.len() != 1 {
            length("w_scales", w_scales.len(), shape.outputs)?;
        }
        if let Some(bias) = bias {
            length("bias", bias.len(), shape.outputs)?;
        }
        Ok(Epilogue { w_scales, bias })
    }

    fn apply<T: Element>(&self, acc: i32, x_scale: f32, n: usize) -> T {
        let w_scale = if let [one] = self.w_scales {
            *one
        } else {
            self.w_scales[n]
        };
        let y = T::from_f32(acc as f32 * (x_scale * w_scale));
        let Some(bias) = self.bias else { return y };
        T::from_f32(y.to_f32() + T::from_f32(bias[n]).to_f32())
    }
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    const CHUNK: usize = 16;
    let (a_chunks, a_rest) = a.as_chunks::<CHUNK>();
    let (b_chunks, b_rest) = b.as_chunks::<CHUNK>();
    let multiply = |x: i16, y: i16| i32::from(x) * i32::from(y);
    let mut sum = 0i32;
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        // Widened to i16 first, of which processors multiply and add pairs in one step.
        let (x, y) = (x.map(i16::from), y.map(i16::from));
        let part: i32 = x.iter().zip(&y).map(|(x, y)| multiply(*x, *y)).sum();
        sum = sum.wrapping_add(part);
    }
    let rest = a_rest.iter().zip(b_rest);
    rest.fold(sum, |sum, (x, y)| {
        sum.wrapping_add(multiply(i16::from(*x), i16::from(*y)))
    })
}
