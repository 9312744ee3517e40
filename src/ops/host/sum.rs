//! Sums in one fixed order: 16 interleaved partial sums, added one after another, then the rest.
//!
//! The order depends on the length alone, so results do not change with the build or the number of rows.

const LANES: usize = 16;

/// `sum(a[i] * widen(b[i]))` in f32, over the shorter length.
pub(crate) fn dot<T: Copy>(a: &[f32], b: &[T], widen: impl Fn(T) -> f32) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * widen(*y);
        }
    }
    // Added one after another: folding in halves makes the compiler narrow the loop above to half a register.
    let sum = lanes.iter().fold(0.0, |sum, lane| sum + lane);
    let rest = a_rest.iter().zip(b_rest);
    rest.fold(sum, |sum, (x, y)| sum + x * widen(*y))
}
