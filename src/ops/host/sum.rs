//! Sums in one fixed order: 16 interleaved partial sums, folded in halves, then the rest in order.
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
    let rest = a_rest.iter().zip(b_rest);
    rest.fold(fold(lanes), |sum, (x, y)| sum + x * widen(*y))
}

fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}
