//! Units: bytes (binary multiples) and nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

/// An exact number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A time span, or a point in time counted from the start of the trace, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` binary kilobytes.
    #[must_use]
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` binary megabytes.
    #[must_use]
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// A sum or difference as bytes: nothing where it is negative, the largest where it is too large.
    #[must_use]
    pub fn clamped(n: i128) -> Bytes {
        Bytes(u64::try_from(n.max(0)).unwrap_or(u64::MAX))
    }

    /// `self - other`, or zero where that would be negative.
    #[must_use]
    pub fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// The next multiple of `unit` (a power of two) at or above `self`; saturates at the top.
    #[must_use]
    pub fn round_up(self, unit: u64) -> Bytes {
        debug_assert!(unit.is_power_of_two());
        Bytes(
            self.0
                .checked_add(unit - 1)
                .map_or(!(unit - 1), |n| n & !(unit - 1)),
        )
    }
}

impl Add for Bytes {
    type Output = Bytes;
    /// Saturates: a sum of hostile sizes must not panic.
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Add::add)
    }
}

const UNITS: [(&str, u32); 5] = [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Rounds to two decimals: `1.50 KiB`. Exact bytes below 1 KiB. For exact figures print `.0`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .iter()
            .rev()
            .find(|(_, shift)| self.0 >> shift != 0)
            .unwrap_or(&UNITS[0]);
        let text = if *shift == 0 {
            format!("{} B", self.0)
        } else {
            format!("{:.2} {unit}", self.0 as f64 / (1u64 << shift) as f64)
        };
        f.pad(&text)
    }
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseBytesError {
    /// No digits at the start.
    #[error("size `{0}` has no number; write for example 512mb or 8gb")]
    NoNumber(String),
    /// The unit is none of b, k/kb/kib, m/mb/mib, g/gb/gib, t/tb/tib.
    #[error("size `{text}` has unknown unit `{unit}`; units are b, kb, mb, gb, tb (binary)")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What followed the number.
        unit: String,
    },
    /// Does not fit in 64 bits.
    #[error("size `{0}` is over 2^64 - 1 bytes")]
    TooLarge(String),
}

/// Reads `8gb`, `2.5g`, `512mb`, `1024`; units are binary, case does not matter.
impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Bytes, ParseBytesError> {
        let trimmed = text.trim();
        let digits = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ if number.is_empty() => return Err(ParseBytesError::NoNumber(text.to_owned())),
            other => {
                return Err(ParseBytesError::UnknownUnit {
                    text: text.to_owned(),
                    unit: other.to_owned(),
                });
            }
        };
        if let Ok(whole) = number.parse::<u64>() {
            let scaled = u128::from(whole) << shift;
            return u64::try_from(scaled)
                .map(Bytes)
                .map_err(|_| ParseBytesError::TooLarge(text.to_owned()));
        }
        if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseBytesError::TooLarge(text.to_owned()));
        }
        let value: f64 = number
            .parse()
            .map_err(|_| ParseBytesError::NoNumber(text.to_owned()))?;
        let scaled = value * (1u64 << shift) as f64;
        if scaled >= u64::MAX as f64 {
            return Err(ParseBytesError::TooLarge(text.to_owned()));
        }
        Ok(Bytes(scaled as u64))
    }
}

impl Nanos {
    /// `self - earlier`, or zero where that would be negative.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// In whole seconds, rounded down.
    #[must_use]
    pub fn whole_seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    /// Saturates.
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

/// Three significant figures: `12.3 µs`, `1.50 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "µs"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let decimals = if value < 10.0 {
            2
        } else {
            usize::from(value < 100.0)
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Nanos, ParseBytesError};

    #[test]
    fn sizes_read_as_written() {
        let read = |text: &str| text.parse::<Bytes>().map(|b| b.0);
        assert_eq!(read("8gb"), Ok(8 << 30));
        assert_eq!(read("2.5g"), Ok(5 << 29));
        assert_eq!(read(" 512 MB "), Ok(512 << 20));
        assert_eq!(read("17"), Ok(17));
        assert_eq!(read("2tb"), Ok(2 << 40));
        assert!(matches!(read("1e3"), Err(ParseBytesError::UnknownUnit { .. })));
        assert!(matches!(read("gb"), Err(ParseBytesError::NoNumber(_))));
        assert!(matches!(read("1.2.3g"), Err(ParseBytesError::NoNumber(_))));
        assert!(matches!(
            read("99999999999999999999"),
            Err(ParseBytesError::TooLarge(_))
        ));
        assert!(matches!(read("16777216tb"), Err(ParseBytesError::TooLarge(_))));
        assert!(read("-1").is_err());
    }

    #[test]
    fn figures_print_with_their_unit() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16777216.00 TiB");
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(12_345).to_string(), "12.3 µs");
        assert_eq!(Nanos(1_500_000_000).to_string(), "1.50 s");
    }

    #[test]
    fn rounding_saturates() {
        assert_eq!(Bytes(1).round_up(512), Bytes(512));
        assert_eq!(Bytes(512).round_up(512), Bytes(512));
        assert_eq!(Bytes(u64::MAX).round_up(512), Bytes(u64::MAX - 511));
    }
}
