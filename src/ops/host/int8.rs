//! INT8: symmetric quantization and exact i32 products (semantics of comfy-kitchen's eager reference).

use half::{bf16, f16};

use crate::base::random::Random;
use crate::ops::host::formats::amax;

/// An element type whose division is rounded to the type itself.
pub trait Element: Copy {
    /// Widened, exact.
    fn to_f32(self) -> f32;
    /// `self / scale` with the scale and the quotient rounded to this type; a scale of 0 becomes the smallest normal.
    fn over(self, scale: f32) -> f32;
}

impl Element for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn over(self, scale: f32) -> f32 {
        self / if scale == 0.0 { f32::MIN_POSITIVE } else { scale }
    }
}

macro_rules! half_element {
    ($t:ty) => {
        impl Element for $t {
            fn to_f32(self) -> f32 {
                <$t>::to_f32(self)
            }
            fn over(self, scale: f32) -> f32 {
                let s = <$t>::from_f32(scale).to_f32();
                let s = if s == 0.0 {
                    <$t>::MIN_POSITIVE.to_f32()
                } else {
                    s
                };
                <$t>::from_f32(<$t>::to_f32(self) / s).to_f32()
            }
        }
    };
}
half_element!(bf16);
half_element!(f16);

fn scale_of<T: Element>(x: &[T]) -> f32 {
    let s = amax(x.iter().map(|v| v.to_f32())) / 127.0;
    if s < 1e-30 { 1e-30 } else { s }
}

fn round<T: Element>(x: T, scale: f32) -> i8 {
    x.over(scale).round_ties_even().clamp(-128.0, 127.0) as i8
}

/// Quantizes `x [rows, cols]` with one scale `max(amax/127, 1e-30)` a row: codes and scales `[rows]`.
#[must_use]
pub fn quantize_rowwise<T: Element>(x: &[T], cols: usize) -> (Vec<i8>, Vec<f32>) {
    let rows = x.chunks(cols.max(1));
    let scales: Vec<f32> = rows.clone().map(scale_of).collect();
    (
        rows.zip(&scales)
            .flat_map(|(row, s)| row.iter().map(|v| round(*v, *s)))
            .collect(),
        scales,
    )
}

/// Quantizes with one scale for all elements.
#[must_use]
pub fn quantize_tensorwise<T: Element>(x: &[T]) -> (Vec<i8>, f32) {
    let s = scale_of(x);
    (x.iter().map(|v| round(*v, s)).collect(), s)
}

/// `floor(x/scale + U[0,1))`, seeded.
#[must_use]
pub fn quantize_stochastic(x: &[f32], scale: f32, seed: u64) -> Vec<i8> {
    let mut random = Random::seeded(seed);
    x.iter()
        .map(|v| (v.over(scale) + random.unit()).floor().clamp(-128.0, 127.0) as i8)
        .collect()
}

/// Exact `A B^T` in i32, `A [M,k]`, `B [N,k]`, row-major; exact for k up to 131,071.
#[must_use]
pub fn gemm(a: &[i8], b: &[i8], k: usize) -> Vec<i32> {
    let k = k.max(1);
    let dot = |r: &[i8], c: &[i8]| r.iter().zip(c).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum();
    a.chunks(k)
        .flat_map(|r| b.chunks(k).map(move |c| dot(r, c)))
        .collect()
}

/// `x [M,k]` times `w [N,k]` transposed: rows of x are quantized, `f32(acc) * (xs * ws) + bias`.
/// `ws` holds one scale or N; `None` where a length does not fit.
#[must_use]
pub fn int8_linear(x: &[f32], w: &[i8], ws: &[f32], bias: Option<&[f32]>, k: usize) -> Option<Vec<f32>> {
    if k == 0 || !x.len().is_multiple_of(k) || !w.len().is_multiple_of(k) {
        return None;
    }
    let n = w.len() / k;
    if n == 0 || (ws.len() != 1 && ws.len() != n) || bias.is_some_and(|b| b.len() != n) {
        return None;
    }
    let (q, xs) = quantize_rowwise(x, k);
    let scaled = gemm(&q, w, k).into_iter().enumerate().map(|(i, acc)| {
        let s = xs[i / n] * ws[(i % n) % ws.len()];
        acc as f32 * s + bias.map_or(0.0, |b| b[i % n])
    });
    Some(scaled.collect())
}
