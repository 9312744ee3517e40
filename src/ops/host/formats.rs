//! Scalar formats E2M1, E4M3FN (OCP microscaling and FP8 definitions) and bf16.

/// Magnitudes of E2M1 codes 0 to 7.
pub const E2M1_MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Largest magnitude; 0 of nothing, NaN where any element is NaN.
pub(crate) fn amax(x: impl Iterator<Item = f32>) -> f32 {
    // Without the sign, bits are ordered like the values, and every NaN is above infinity.
    f32::from_bits(x.fold(0, |m, v| m.max(v.to_bits() & 0x7FFF_FFFF)))
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
    // The code is the number of midpoints passed; a tie goes up where the code above is even.
    let a = x.abs();
    let passed = [
        a > 0.25,
        a >= 0.75,
        a > 1.25,
        a >= 1.75,
        a > 2.5,
        a >= 3.5,
        a > 5.0,
    ];
    let code: u32 = passed.into_iter().map(u32::from).sum();
    let sign = if x.is_nan() { 0 } else { x.to_bits() >> 28 & 8 };
    (sign | code) as u8
}

/// Values of all E4M3FN bytes.
const E4M3_VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte as usize] = e4m3_value(byte);
        byte += 1;
    }
    values
};

const fn e4m3_value(byte: u32) -> f32 {
    let magnitude = match byte & 0x7F {
        0x7F => f32::NAN,
        m @ 0..8 => m as f32 / 512.0,
        // Exponent and mantissa move to their places in an f32; the bias grows from 7 to 127.
        m => f32::from_bits((m << 20) + (120 << 23)),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Value of an E4M3FN byte: bias 7, no infinity, NaN at 0x7F and 0xFF.
#[must_use]
pub fn e4m3_decode(byte: u8) -> f32 {
    E4M3_VALUES[usize::from(byte)]
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

/// Bits of the bf16 nearest to `x`, ties to even.
#[must_use]
pub fn bf16_narrow(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}
