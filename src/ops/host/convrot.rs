//! ConvRot: regular Hadamard rotation in groups along K.

/// Why a rotation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RotateError {
    /// The group is not one of 4, 16, 64, 256.
    #[error("rotation group {0} is not 4, 16, 64 or 256")]
    Group(usize),
    /// The length is not a multiple of the group.
    #[error("length {len} is not a multiple of the rotation group {group}")]
    Length {
        /// Elements given: K, or rows x K.
        len: usize,
        /// The group.
        group: usize,
    },
}

/// Rotates `x [rows, K]` in place by `kron^n(H4)/sqrt(g)`; applying it twice restores `x`.
///
/// # Errors
/// A group other than 4, 16, 64, 256, or a K (`cols`) or length that it does not divide.
pub fn rotate(x: &mut [f32], cols: usize, group: usize) -> Result<(), RotateError> {
    if ![4, 16, 64, 256].contains(&group) {
        return Err(RotateError::Group(group));
    }
    for len in [cols, x.len()] {
        if !len.is_multiple_of(group) {
            return Err(RotateError::Length { len, group });
        }
    }
    for g in x.chunks_exact_mut(group) {
        let mut stride = 1;
        while stride < group {
            for i in (0..group).filter(|i| (i / stride).is_multiple_of(4)) {
                let [a, b, c, d] = [0, 1, 2, 3].map(|j| g[i + j * stride]);
                g[i] = (a + b + c - d) * 0.5;
                g[i + stride] = (a + b - c + d) * 0.5;
                g[i + 2 * stride] = (a - b + c + d) * 0.5;
                g[i + 3 * stride] = (b + c + d - a) * 0.5;
            }
            stride *= 4;
        }
    }
    Ok(())
}
