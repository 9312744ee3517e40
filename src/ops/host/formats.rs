//! Scalar formats E2M1, E4M3FN (OCP microscaling and FP8 definitions) and bf16.

/// Magnitudes of E2M1 codes 0 to 7.
pub const E2M1_MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Largest magnitude; 0 of nothing, NaN where any element is NaN.
pub(crate) fn amax(x: impl Iterator<Item = f32>) -> f32 {
    x.map(f32::abs)
        .fold(0.0, |m, v| if v.is_nan() || v > m { v } else { m })
}

/// Value of the low four bits of `code` (bit 3 is the sign).
#[must_use]
pub fn e2m1_decode(code: u8) -> f32 {
    let m = E2M1_MAGNITUDES[usize::from(code & 7)];
    if code & 8 == 0 { m } else { -m }
}

/// Nearest E2M1 code, ties to the even code, saturating at 6; the sign of zero is kept and NaN gives 0.
#[must_use]
pub fn e2m1_encode(x: f32) -> u8 {
    if x.is_nan() {
        return 0;
    }
    let sign = if x.is_sign_negative() { 8 } else { 0 };
    let mut code = 0u8;
    while code < 7 {
        let i = usize::from(code);
        let mid = (E2M1_MAGNITUDES[i] + E2M1_MAGNITUDES[i + 1]) / 2.0;
        if x.abs() < mid || (x.abs() == mid && code & 1 == 0) {
            break;
        }
        code += 1;
    }
    sign | code
}

/// Value of an E4M3FN byte: bias 7, no infinity, NaN at 0x7F and 0xFF.
#[must_use]
pub fn e4m3_decode(byte: u8) -> f32 {
    let (e, m) = (i32::from((byte >> 3) & 15), f32::from(byte & 7));
    let v = match byte & 0x7F {
        0x7F => f32::NAN,
        _ if e == 0 => m / 512.0,
        _ => (1.0 + m / 8.0) * 2f32.powi(e - 7),
    };
    if byte & 0x80 == 0 { v } else { -v }
}

/// Nearest E4M3FN byte, ties to even, saturating at 448; NaN gives 0x7F.
#[must_use]
pub fn e4m3_encode(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7F;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let a = x.abs().min(448.0);
    if a < 2f32.powi(-6) {
        return sign | (a * 512.0).round_ties_even() as u8;
    }
    // Round the f32 mantissa to three bits; a carry moves into the exponent.
    let bits = a.to_bits();
    let rounded = bits + 0x7_FFFF + ((bits >> 20) & 1);
    sign | ((rounded >> 20) - (120 << 3)) as u8
}

/// Value of the bits of a bf16, exact.
#[must_use]
pub fn bf16_widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}
