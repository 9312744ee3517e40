//! The numbers that decide whether something is worth a finding.

use crate::base::Bytes;

/// Sizes and shares that rules compare with. The defaults suit models of any size; tests and callers may change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A claim may exceed what was measured by this much: rounding, and alignment of small buffers.
    pub claim_tolerance: Bytes,
    /// It may also exceed it by this many thousandths of the claim; the larger of the two counts.
    pub claim_tolerance_permille: u64,
    /// Free bytes in segments that buffers pin are worth a finding from here on.
    pub pinned_bytes: Bytes,
    /// They must also be this many thousandths of all segments.
    pub pinned_permille: u64,
    /// Bytes of a model that outlive its unload are worth a finding from here on.
    pub retained_bytes: Bytes,
    /// Findings of one rule that are given; the rest is counted.
    pub findings_per_rule: usize,
    /// Names that one sentence lists; the rest is counted.
    pub names_per_list: usize,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            claim_tolerance: Bytes::kib(64),
            claim_tolerance_permille: 10,
            pinned_bytes: Bytes::mib(64),
            pinned_permille: 250,
            retained_bytes: Bytes(1),
            findings_per_rule: 32,
            names_per_list: 6,
        }
    }
}

impl Thresholds {
    /// By how much a claim of `claimed` bytes may exceed what was measured.
    #[must_use]
    pub fn tolerance(&self, claimed: i128) -> i128 {
        let share = claimed.max(0) / 1000 * i128::from(self.claim_tolerance_permille);
        share.max(i128::from(self.claim_tolerance.0))
    }
}
