#![expect(
    unsafe_code,
    reason = "one call: pages of a returned segment go back to the system"
)]
//! Modelled memory: segments with a real budget, carved from reserved address space.

use std::collections::BTreeMap;

use memmap2::MmapMut;
use memmap2::MmapOptions;

use crate::base::Bytes;
use crate::device::{Access, Address, DeviceError, HostSlice, MAX_SPANS, MemoryInfo, Span};

/// Segments start at multiples of this.
const ALIGNMENT: u64 = 64 << 10;

/// Addresses reserved for each byte of the budget. A driver maps pages wherever there are addresses, so free bytes
/// in many small pieces are as good to it as in one; with room to spare the same holds here.
const ADDRESSES_PER_BYTE: u64 = 4;

/// One space: a row of addresses from `base`, longer than its budget.
#[derive(Debug)]
pub(super) struct Arena {
    map: MmapMut,
    base: u64,
    budget: u64,
    used: u64,
    /// Length by start, both in bytes from `base`.
    segments: BTreeMap<u64, u64>,
}

impl Arena {
    pub(super) fn open(base: u64, budget: Bytes) -> Result<Arena, DeviceError> {
        let refuse = |reason: String| DeviceError::NoAddressSpace {
            asked: budget,
            reason,
        };
        let least = budget.round_up(ALIGNMENT).0.max(ALIGNMENT);
        if least > u64::MAX / 4 || isize::try_from(least).is_err() {
            return Err(refuse("it is more than a process can address".to_owned()));
        }
        let map = Arena::reserve_addresses(least.saturating_mul(ADDRESSES_PER_BYTE))
            .or_else(|_| Arena::reserve_addresses(least))
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Arena {
            map,
            base,
            budget: budget.0,
            used: 0,
            segments: BTreeMap::new(),
        })
    }

    fn reserve_addresses(span: u64) -> std::io::Result<MmapMut> {
        let len = usize::try_from(span).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        MmapOptions::new().len(len).no_reserve_swap().map_anon()
    }

    pub(super) fn info(&self) -> MemoryInfo {
        MemoryInfo {
            total: Bytes(self.budget),
            free: Bytes(self.budget - self.used),
        }
    }

    /// First fit, so that a run is the same each time.
    pub(super) fn reserve(&mut self, bytes: Bytes) -> Result<Address, DeviceError> {
        let full = DeviceError::OutOfMemory {
            asked: bytes,
            free: self.info().free,
            total: Bytes(self.budget),
        };
        if bytes.0 == 0 || bytes.0 > self.budget - self.used {
            return Err(full);
        }
        let need = bytes.round_up(ALIGNMENT).0;
        let mut start = 0;
        for (at, len) in &self.segments {
            if at - start >= need {
                break;
            }
            start = Bytes(at + len).round_up(ALIGNMENT).0;
        }
        if start + need > self.map.len() as u64 {
            return Err(full);
        }
        self.segments.insert(start, bytes.0);
        self.used += bytes.0;
        Ok(Address(self.base + start))
    }

    pub(super) fn give_back(&mut self, address: Address) -> Result<(), DeviceError> {
        let start = address.0.wrapping_sub(self.base);
        let Some(len) = self.segments.remove(&start) else {
            return Err(DeviceError::Unknown {
                what: "segment",
                value: address.0,
            });
        };
        self.used -= len;
        self.release_pages(start as usize, Bytes(len).round_up(ALIGNMENT).0 as usize);
        Ok(())
    }

    /// Best effort: where the system keeps the pages, only this process is larger than it needs to be.
    fn release_pages(&mut self, start: usize, len: usize) {
        #[cfg(unix)]
        {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the contract of this advice is that the bytes may change to zero. The map is private,
            // anonymous and borrowed mutably here, so no slice of it exists, and nobody relies on the
            // contents of memory outside segments.
            let _ = unsafe { self.map.unchecked_advise_range(advice, start, len) };
        }
        #[cfg(not(unix))]
        let _ = (start, len);
    }

    pub(super) fn has(&self, address: Address) -> bool {
        address.0 >= self.base && address.0 - self.base < self.map.len() as u64
    }

    /// The span as a range of the map; it must lie in one segment.
    fn range(&self, op: &'static str, span: &Span) -> Result<(usize, usize), DeviceError> {
        let start = span.address.0.wrapping_sub(self.base);
        let segment = self.segments.range(..=start).next_back();
        let inside = segment.is_some_and(|(at, len)| {
            let offset = start - at;
            offset <= *len && span.bytes.0 <= len - offset
        });
        if !inside {
            return Err(DeviceError::IllegalAddress {
                op,
                address: span.address.0,
                bytes: span.bytes,
            });
        }
        Ok((start as usize, (start + span.bytes.0) as usize))
    }

    pub(super) fn bytes(
        &mut self,
        op: &'static str,
        at: Address,
        len: Bytes,
    ) -> Result<&mut [u8], DeviceError> {
        let span = Span {
            address: at,
            bytes: len,
            access: Access::Write,
        };
        let (start, end) = self.range(op, &span)?;
        Ok(&mut self.map[start..end])
    }

    pub(super) fn copy_within(
        &mut self,
        op: &'static str,
        to: Address,
        from: Address,
        len: Bytes,
    ) -> Result<(), DeviceError> {
        let range = |address| Span {
            address,
            bytes: len,
            access: Access::Read,
        };
        let (start, end) = self.range(op, &range(from))?;
        let (to, _) = self.range(op, &range(to))?;
        self.map.copy_within(start..end, to);
        Ok(())
    }

    /// The memory of each span: written ones disjoint from all others, read ones may overlap each other.
    pub(super) fn slices(
        &mut self,
        op: &'static str,
        spans: &[Span],
    ) -> Result<[HostSlice<'_>; MAX_SPANS], DeviceError> {
        let mut ranges = [(0usize, 0usize); MAX_SPANS];
        for (range, span) in ranges.iter_mut().zip(spans) {
            *range = self.range(op, span)?;
        }
        let mut written = [0usize; MAX_SPANS];
        let mut count = 0;
        for (i, span) in spans.iter().enumerate() {
            if span.access == Access::Write {
                written[count] = i;
                count += 1;
            }
        }
        let written = &mut written[..count];
        written.sort_unstable_by_key(|i| ranges[*i]);
        let mut slices: [HostSlice<'_>; MAX_SPANS] = std::array::from_fn(|_| HostSlice::Read(&[]));
        // Between the written ranges lie gaps; a range that is read must lie in one of them.
        let mut gaps: [(usize, &[u8]); MAX_SPANS + 1] = [(0, &[]); MAX_SPANS + 1];
        let mut rest: &mut [u8] = &mut self.map;
        let mut at = 0;
        for (gap, i) in gaps.iter_mut().zip(written.iter()) {
            let (start, end) = ranges[*i];
            if start < at {
                return Err(overlap(op, spans[*i]));
            }
            let (before, after) = rest.split_at_mut(start - at);
            let (slice, after) = after.split_at_mut(end - start);
            *gap = (at, before);
            slices[*i] = HostSlice::Write(Some(slice));
            rest = after;
            at = end;
        }
        gaps[count] = (at, rest);
        for (i, span) in spans.iter().enumerate() {
            if span.access == Access::Write {
                continue;
            }
            let (start, end) = ranges[i];
            let home = gaps[..=count]
                .iter()
                .find(|(at, gap)| *at <= start && end <= at + gap.len());
            let (at, gap) = home.ok_or_else(|| overlap(op, *span))?;
            slices[i] = HostSlice::Read(&gap[start - at..end - at]);
        }
        Ok(slices)
    }
}

fn overlap(op: &'static str, span: Span) -> DeviceError {
    DeviceError::Overlap {
        op,
        address: span.address.0,
    }
}
