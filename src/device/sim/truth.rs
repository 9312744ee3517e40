//! What really is so on a simulated device. Checkers hold the books of others against it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::Bytes;
use crate::device::{Address, DeviceError, MemoryInfo, Space, Span};

/// Device addresses start here, pinned ones at [`PINNED_BASE`]: a null pointer is never ours.
const DEVICE_BASE: u64 = 1 << 44;
const PINNED_BASE: u64 = 1 << 45;

/// Segments start at multiples of this, with at least as much room between them: an access past the end of
/// one is in none.
const GUARD: u64 = 64 << 10;

/// An access to memory outside every segment, or to memory that someone else uses at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kernel, copy, or what was done to the memory.
    pub op: &'static str,
    /// Where.
    pub address: u64,
    /// How much.
    pub bytes: Bytes,
}

/// The true state of a simulated device's memory. Clones share it, so a checker keeps one while the runtime
/// has the device.
#[derive(Clone, Debug)]
pub struct Truth(Arc<Mutex<Facts>>);

#[derive(Debug)]
struct Facts {
    device: Region,
    pinned: Region,
    accesses: u64,
    violations: Vec<Violation>,
    races: Vec<Violation>,
}

#[derive(Debug)]
struct Region {
    base: u64,
    total: u64,
    /// What the driver took for itself.
    context: u64,
    /// Length by first address.
    segments: BTreeMap<u64, u64>,
}

impl Region {
    fn new(base: u64, total: Bytes, context: Bytes) -> Region {
        Region {
            base,
            total: total.0,
            context: context.0,
            segments: BTreeMap::new(),
        }
    }

    fn reserved(&self) -> u64 {
        self.segments.values().sum()
    }

    fn info(&self) -> MemoryInfo {
        MemoryInfo {
            total: Bytes(self.total),
            free: Bytes(self.total.saturating_sub(self.context + self.reserved())),
        }
    }

    /// First fit, so that addresses are soon used again: nobody may take one for an identity.
    fn place(&mut self, bytes: u64) -> u64 {
        let mut start = self.base;
        for (at, len) in &self.segments {
            if at - start >= Bytes(bytes).round_up(GUARD).0 + GUARD {
                break;
            }
            start = Bytes(at + len).round_up(GUARD).0 + GUARD;
        }
        self.segments.insert(start, bytes);
        start
    }

    fn covers(&self, span: &Span) -> bool {
        let segment = self.segments.range(..=span.address.0).next_back();
        segment.is_some_and(|(at, len)| {
            let offset = span.address.0 - at;
            offset <= *len && span.bytes.0 <= len - offset
        })
    }
}

impl Truth {
    pub(super) fn new(vram: Bytes, context: Bytes, pinned: Bytes) -> Truth {
        Truth(Arc::new(Mutex::new(Facts {
            device: Region::new(DEVICE_BASE, vram, context),
            pinned: Region::new(PINNED_BASE, pinned, Bytes::ZERO),
            accesses: 0,
            violations: Vec::new(),
            races: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's own count of a space, what the driver took for itself included.
    #[must_use]
    pub fn memory(&self, space: Space) -> MemoryInfo {
        self.lock().region(space).info()
    }

    /// Bytes in segments of a space.
    #[must_use]
    pub fn reserved(&self, space: Space) -> Bytes {
        Bytes(self.lock().region(space).reserved())
    }

    /// How many segments of a space are reserved.
    #[must_use]
    pub fn segments(&self, space: Space) -> usize {
        self.lock().region(space).segments.len()
    }

    /// How many ranges of memory were touched so far.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.lock().accesses
    }

    /// Accesses to memory outside every segment: at once, or since a segment went back under work in flight.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Memory that two queues touched at the same time, one of them writing.
    #[must_use]
    pub fn races(&self) -> Vec<Violation> {
        self.lock().races.clone()
    }

    pub(super) fn reserve(&self, space: Space, bytes: Bytes) -> Result<Address, DeviceError> {
        let mut facts = self.lock();
        let region = facts.region(space);
        let info = region.info();
        if bytes == Bytes::ZERO || bytes > info.free {
            return Err(DeviceError::OutOfMemory {
                asked: bytes,
                free: info.free,
                total: info.total,
            });
        }
        Ok(Address(region.place(bytes.0)))
    }

    pub(super) fn give_back(&self, space: Space, address: Address) -> Result<Bytes, DeviceError> {
        let removed = self.lock().region(space).segments.remove(&address.0);
        removed.map(Bytes).ok_or(DeviceError::Unknown {
            what: "segment",
            value: address.0,
        })
    }

    /// Whether the whole span lies in one segment. An access that doesn't is kept as a violation.
    pub(super) fn touch(&self, op: &'static str, span: &Span) -> bool {
        let mut facts = self.lock();
        facts.accesses += 1;
        let inside = facts.device.covers(span) || facts.pinned.covers(span);
        if !inside {
            facts.violations.push(violation(op, span));
        }
        inside
    }

    pub(super) fn note_violation(&self, op: &'static str, span: &Span) {
        self.lock().violations.push(violation(op, span));
    }

    pub(super) fn note_race(&self, op: &'static str, span: &Span) {
        self.lock().races.push(violation(op, span));
    }
}

fn violation(op: &'static str, span: &Span) -> Violation {
    Violation {
        op,
        address: span.address.0,
        bytes: span.bytes,
    }
}

impl Facts {
    fn region(&mut self, space: Space) -> &mut Region {
        match space {
            Space::Device => &mut self.device,
            Space::Pinned => &mut self.pinned,
        }
    }
}
