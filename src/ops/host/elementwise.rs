//! Elementwise kernels of the decoder: the gate of the MLP and the residual sum.

use crate::ops::host::shape::{ShapeError, length};

/// `out = silu(gate) * up`, `silu(x) = x / (1 + e^-x)`; all of one length.
///
/// # Errors
/// A length that does not fit.
pub fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) -> Result<(), ShapeError> {
    length("up", up.len(), gate.len())?;
    length("out", out.len(), gate.len())?;
    for ((place, g), u) in out.iter_mut().zip(gate).zip(up) {
        *place = g / (1.0 + (-g).exp()) * u;
    }
    Ok(())
}

/// `out = a + b`; all of one length.
///
/// # Errors
/// A length that does not fit.
pub fn add(a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), ShapeError> {
    length("b", b.len(), a.len())?;
    length("out", out.len(), a.len())?;
    for ((place, x), y) in out.iter_mut().zip(a).zip(b) {
        *place = x + y;
    }
    Ok(())
}

/// `x += y`; both of one length.
///
/// # Errors
/// A length that does not fit.
pub fn add_in_place(x: &mut [f32], y: &[f32]) -> Result<(), ShapeError> {
    length("y", y.len(), x.len())?;
    for (place, value) in x.iter_mut().zip(y) {
        *place += value;
    }
    Ok(())
}
