//! A file of bounded size: when it is full, its oldest events make room, and what they still say is carried over.
//!
//! An eviction compacts the kept events and the oldest blocks into new kept blocks, writes them into free slots,
//! and frees the old slots only then. The store that commits the last new block is the switch: readers take the complete
//! set of kept blocks with the highest `from`, and event blocks from there on. So a kill at any instant leaves either
//! the old state or the new one.

use std::collections::VecDeque;

use crate::trace::block::{kept_blocks, own_events};
use crate::trace::carry::Carried;
use crate::trace::codec::Bases;
use crate::trace::format::{SLOT, Start, WriteError};
use crate::trace::slots::Slots;

/// Blocks that an eviction makes free at least, in a ring that is not small: 128 KiB, some 10,000 events. It takes twice as
/// many, so that what is kept of them has room. More would stop the run for longer, fewer would rewrite the kept part
/// more often.
const STEP: usize = 8;
/// Events of finished purges that are kept, for each slot of the ring: about one sixteenth of the ring.
const HISTORY: usize = SLOT / 16 / 16;

/// Who uses which slot.
#[derive(Debug)]
pub(super) struct Ring {
    free: Vec<usize>,
    /// Event blocks, oldest first.
    live: VecDeque<Live>,
    /// The newest kept blocks.
    kept: Vec<usize>,
    start: Option<Start>,
    blocks: usize,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    slot: usize,
    first_seq: u64,
}

impl Ring {
    /// A ring in all slots of a file of `slots` but the first.
    pub(super) fn new(slots: usize) -> Ring {
        Ring {
            free: (1..slots).rev().collect(),
            live: VecDeque::with_capacity(slots),
            kept: Vec::new(),
            start: None,
            blocks: slots - 1,
        }
    }

    /// A slot of zeros for the block whose first event is `first_seq`. Most calls only take one that is free.
    pub(super) fn take(&mut self, slots: &mut Slots, first_seq: u64) -> Result<usize, WriteError> {
        if self.free.len() <= self.reserve() {
            self.evict(slots)?;
        }
        let slot = self.spare()?;
        self.live.push_back(Live { slot, first_seq });
        Ok(slot)
    }

    /// A slot from the reserve, for a trailer.
    pub(super) fn spare(&mut self) -> Result<usize, WriteError> {
        self.free.pop().ok_or(self.too_large())
    }

    /// Events that are in the file no more.
    pub(super) fn dropped(&self) -> u64 {
        self.start.map_or(0, |start| start.dropped())
    }

    /// The last slot that holds events.
    pub(super) fn last_used(&self) -> usize {
        let live = self.live.iter().map(|live| live.slot);
        live.chain(self.kept.iter().copied()).max().unwrap_or(0)
    }

    fn too_large(&self) -> WriteError {
        WriteError::StateTooLarge {
            kept: self.kept.len(),
            blocks: self.blocks,
        }
    }

    /// Slots that stay free so that the next kept part fits beside this one.
    fn reserve(&self) -> usize {
        self.kept.len() + (self.blocks / 8).clamp(2, STEP)
    }

    /// Makes room for a step's worth of blocks, so that the cost of rewriting the kept part is spread over them.
    fn evict(&mut self, slots: &mut Slots) -> Result<(), WriteError> {
        let step = self.kept.len().max(STEP).min(self.blocks / 8).max(1);
        let mut count = (2 * step).min(self.blocks / 4).max(1);
        while self.free.len() < self.reserve() + step {
            // The block before the one that asks for room stays: the stretch that is whole is never empty.
            count = count.min(self.live.len().saturating_sub(1));
            if count == 0 {
                return Err(self.too_large());
            }
            if !self.compact(slots, count) {
                count /= 2;
            }
        }
        Ok(())
    }

    /// Evicts the oldest `count` blocks, or does nothing where the free slots don't hold what would be kept.
    fn compact(&mut self, slots: &mut Slots, count: usize) -> bool {
        let Some(from) = self.live.get(count).map(|live| live.first_seq) else {
            return false;
        };
        let forgotten = self
            .start
            .map_or(0, |start| start.lost.saturating_sub(start.dropped()));
        let mut carried = Carried::new(forgotten, self.blocks * HISTORY);
        let mut bases = Bases::new();
        let oldest = self.live.iter().take(count).map(|live| live.slot);
        for slot in self.kept.iter().copied().chain(oldest) {
            own_events(slots.bytes(slot), &mut bases, |stamped| carried.fold(stamped));
        }
        let start = carried.start(from);
        let blocks = kept_blocks(start, carried.events());
        if blocks.len() > self.free.len() {
            return false;
        }
        let old = std::mem::take(&mut self.kept);
        for (head, payload) in blocks {
            if let Some(slot) = self.free.pop() {
                slots.seal(slot, head, &payload);
                self.kept.push(slot);
            }
        }
        self.start = Some(start);
        let oldest = self.live.drain(..count).map(|live| live.slot);
        for slot in old.into_iter().chain(oldest) {
            slots.clear(slot);
            self.free.push(slot);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Cursor;

    use crate::base::{Bytes, DeviceId, Nanos, SegmentId, StreamId};
    use crate::event::{Event, ReturnCause, SegmentReserved, SegmentReturned};
    use crate::trace::format::{Completeness, Header};
    use crate::trace::reader::TraceReader;
    use crate::trace::writer::{Layout, Writer};

    /// Segments come, and the one before the last goes, but each hundredth stays.
    fn event(seq: u64) -> Event {
        let (device, stream, bytes) = (DeviceId(0), StreamId(0), Bytes(u64::MAX));
        let (segment, cause) = (SegmentId((seq / 2) as u32), ReturnCause::Retry);
        if seq % 2 == 1 && segment.0 % 100 != 0 {
            SegmentReturned { segment, cause }.into()
        } else {
            let segment = SegmentId(segment.0 + u32::from(seq % 2 == 1) * 1_000_000);
            SegmentReserved {
                device,
                segment,
                stream,
                bytes,
            }
            .into()
        }
    }

    fn fold(segments: &mut BTreeSet<SegmentId>, event: &Event) {
        match event {
            Event::SegmentReserved(e) => segments.insert(e.segment),
            Event::SegmentReturned(e) => segments.remove(&e.segment),
            _ => false,
        };
    }

    #[test]
    fn after_every_store_of_an_eviction_the_file_says_what_is_true() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, layout) = (folder.path().join("t.vtrace"), Layout::Ring(9));
        let mut writer = Writer::create(&path, &Header::default(), layout).expect("a fresh path");
        writer.begin_events(Nanos(0)).expect("a fresh ring");
        let mut truth = BTreeSet::new();
        let (mut evictions, mut looked) = (0, 0);
        for seq in 0..60_000 {
            let event = event(seq);
            writer.slots.images = Some(Vec::new());
            writer.push(&event, Nanos(seq));
            let images = writer.slots.images.take().unwrap_or_default();
            // A store before and after: an event; twice: a new block; more: an eviction.
            if images.len() > 4 {
                evictions += 1;
                let last = images.len() - 1;
                for image in &images[..last] {
                    let mut reader = TraceReader::open(Cursor::new(image)).expect("the header is there");
                    let mut segments = BTreeSet::new();
                    while let Some(stamped) = reader.next_event().expect("memory is readable") {
                        fold(&mut segments, &stamped.event);
                    }
                    let summary = reader.summary();
                    assert_eq!(summary.completeness, Completeness::Truncated, "event {seq}");
                    assert_eq!(summary.events + summary.dropped, seq);
                    assert_eq!(segments, truth, "event {seq}");
                    looked += 1;
                }
            }
            fold(&mut truth, &event);
        }
        assert_eq!(writer.health().failure, None);
        assert!(evictions > 10 && looked > 10 * evictions, "{evictions}, {looked}");
    }
}
