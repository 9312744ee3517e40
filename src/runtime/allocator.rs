//! The caching allocator of one memory space: policy only, no driver and no events.
//!
//! Segments come from the driver in a few sizes, blocks are split from them by best fit, and a freed block
//! joins its free neighbours. A segment belongs to the stream it was reserved on: its blocks are reused in
//! that stream's order without waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Bytes, SegmentId, StreamId};
use crate::device::Address;

/// Sizes that the allocator works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorConfig {
    /// Requests are rounded up to a multiple of this; a power of two.
    pub rounding: Bytes,
    /// Requests up to this are small.
    pub small_limit: Bytes,
    /// Segments for small requests.
    pub small_segment: Bytes,
    /// Large requests below half of this share segments of this size; others get their own.
    pub large_segment: Bytes,
    /// Segments of their own are multiples of this.
    pub granularity: Bytes,
}

impl Default for AllocatorConfig {
    /// The sizes of the allocator in PyTorch: 512 B, 1 MiB, 2 MiB, 20 MiB, 2 MiB.
    fn default() -> AllocatorConfig {
        AllocatorConfig {
            rounding: Bytes(512),
            small_limit: Bytes::mib(1),
            small_segment: Bytes::mib(2),
            large_segment: Bytes::mib(20),
            granularity: Bytes::mib(2),
        }
    }
}

/// The size class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Small,
    Large,
}

#[derive(Debug)]
struct Segment {
    address: Address,
    bytes: u64,
    stream: StreamId,
    class: Class,
    /// By offset: length, and whether it is free.
    blocks: BTreeMap<u64, (u64, bool)>,
}

impl Segment {
    fn is_free(&self) -> bool {
        self.blocks.len() == 1 && self.blocks.values().all(|(_, free)| *free)
    }
}

/// Where a request got its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) segment: SegmentId,
    pub(super) offset: Bytes,
    pub(super) address: Address,
    /// The block, rounding and unsplit rest included.
    pub(super) block: Bytes,
}

/// Free blocks of one stream and class by length, segment and offset: the first that fits is the smallest.
type FreeBlocks = BTreeSet<(u64, SegmentId, u64)>;

#[derive(Debug, Default)]
pub(super) struct Allocator {
    config: AllocatorConfig,
    segments: BTreeMap<SegmentId, Segment>,
    free: BTreeMap<(StreamId, Class), FreeBlocks>,
    cached: u64,
    in_use: u64,
}

impl Allocator {
    pub(super) fn new(config: AllocatorConfig) -> Allocator {
        Allocator {
            config,
            ..Allocator::default()
        }
    }

    fn rounded(&self, requested: Bytes) -> u64 {
        requested.round_up(self.config.rounding.0).0
    }

    fn class(&self, rounded: u64) -> Class {
        if rounded <= self.config.small_limit.0 {
            Class::Small
        } else {
            Class::Large
        }
    }

    /// Takes the smallest free block of the stream that fits, and splits it where the rest is worth it.
    pub(super) fn place(&mut self, stream: StreamId, requested: Bytes) -> Option<Placement> {
        let need = self.rounded(requested);
        let class = self.class(need);
        let free = self.free.get_mut(&(stream, class))?;
        let found = *free.range((need, SegmentId(0), 0)..).next()?;
        free.remove(&found);
        let (len, segment, offset) = found;
        let rest = len - need;
        let split = match class {
            Class::Small => rest >= self.config.rounding.0,
            Class::Large => rest > self.config.small_limit.0,
        };
        let home = self.segments.get_mut(&segment)?;
        let block = if split { need } else { len };
        home.blocks.insert(offset, (block, false));
        if split {
            home.blocks.insert(offset + need, (rest, true));
            free.insert((rest, segment, offset + need));
        }
        self.cached -= block;
        self.in_use += block;
        Some(Placement {
            segment,
            offset: Bytes(offset),
            address: Address(home.address.0 + offset),
            block: Bytes(block),
        })
    }

    /// The sizes of segment to try for a request that found no block: the shared size, then what is needed.
    pub(super) fn segment_sizes(&self, requested: Bytes) -> [Bytes; 2] {
        let need = self.rounded(requested);
        let own = Bytes(need).round_up(self.config.granularity.0);
        let shared = match self.class(need) {
            Class::Small => self.config.small_segment,
            Class::Large if need < self.config.large_segment.0 / 2 => self.config.large_segment,
            Class::Large => own,
        };
        [shared.max(Bytes(need)), Bytes(need)]
    }

    pub(super) fn add_segment(
        &mut self,
        id: SegmentId,
        stream: StreamId,
        requested: Bytes,
        (address, bytes): (Address, Bytes),
    ) {
        let class = self.class(self.rounded(requested));
        self.segments.insert(
            id,
            Segment {
                address,
                bytes: bytes.0,
                stream,
                class,
                blocks: BTreeMap::from([(0, (bytes.0, true))]),
            },
        );
        self.free
            .entry((stream, class))
            .or_default()
            .insert((bytes.0, id, 0));
        self.cached += bytes.0;
    }

    /// Frees the block at `offset`, and joins it with free neighbours. An unknown block is left alone.
    pub(super) fn free(&mut self, segment: SegmentId, offset: Bytes) {
        let Some(home) = self.segments.get_mut(&segment) else {
            return;
        };
        let Some((len, false)) = home.blocks.get(&offset.0).copied() else {
            return;
        };
        let free = self.free.entry((home.stream, home.class)).or_default();
        self.in_use -= len;
        self.cached += len;
        let (mut start, mut end) = (offset.0, offset.0 + len);
        let before = home.blocks.range(..start).next_back().map(|(at, b)| (*at, *b));
        if let Some((at, (len, true))) = before {
            free.remove(&(len, segment, at));
            start = at;
        }
        if let Some((len, true)) = home.blocks.get(&end).copied() {
            free.remove(&(len, segment, end));
            home.blocks.remove(&end);
            end += len;
        }
        home.blocks.remove(&offset.0);
        home.blocks.insert(start, (end - start, true));
        free.insert((end - start, segment, start));
    }

    /// Segments in which nothing is in use.
    pub(super) fn free_segments(&self) -> Vec<SegmentId> {
        let free = self.segments.iter().filter(|(_, segment)| segment.is_free());
        free.map(|(id, _)| *id).collect()
    }

    /// Forgets a free segment, and says where it was.
    pub(super) fn remove_segment(&mut self, id: SegmentId) -> Option<(Address, Bytes)> {
        if !self.segments.get(&id)?.is_free() {
            return None;
        }
        let segment = self.segments.remove(&id)?;
        if let Some(free) = self.free.get_mut(&(segment.stream, segment.class)) {
            free.remove(&(segment.bytes, id, 0));
        }
        self.cached -= segment.bytes;
        Some((segment.address, Bytes(segment.bytes)))
    }

    /// Bytes in blocks that are in use, slack included.
    pub(super) fn in_use(&self) -> Bytes {
        Bytes(self.in_use)
    }

    /// Bytes in free blocks.
    pub(super) fn cached(&self) -> Bytes {
        Bytes(self.cached)
    }

    /// Bytes from the driver.
    pub(super) fn reserved(&self) -> Bytes {
        Bytes(self.cached + self.in_use)
    }

    /// The largest free block, of any stream.
    pub(super) fn largest_free(&self) -> Bytes {
        let largest = self.free.values().filter_map(|free| free.last());
        Bytes(largest.map(|(len, _, _)| *len).max().unwrap_or(0))
    }

    /// Offsets and lengths of a segment's blocks tile it, books agree with blocks, neighbours are joined.
    #[cfg(test)]
    fn check(&self) {
        let (mut cached, mut in_use) = (0, 0);
        for (id, segment) in &self.segments {
            let mut at = 0;
            let mut before_free = false;
            for (offset, (len, free)) in &segment.blocks {
                assert_eq!(*offset, at, "segment {id} has a hole");
                assert!(!(before_free && *free), "segment {id} has unjoined neighbours");
                let listed = self.free.get(&(segment.stream, segment.class));
                let listed = listed.is_some_and(|set| set.contains(&(*len, *id, *offset)));
                assert_eq!(listed, *free);
                at += len;
                before_free = *free;
                *(if *free { &mut cached } else { &mut in_use }) += len;
            }
            assert_eq!(at, segment.bytes);
        }
        assert_eq!((cached, in_use), (self.cached, self.in_use));
        let listed: usize = self.free.values().map(BTreeSet::len).sum();
        let free: usize = self
            .segments
            .values()
            .map(|s| s.blocks.values().filter(|b| b.1).count())
            .sum();
        assert_eq!(listed, free);
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocator, AllocatorConfig};
    use crate::base::random::Random;
    use crate::base::{Bytes, SegmentId, StreamId};
    use crate::device::Address;

    fn allocator() -> Allocator {
        let mut allocator = Allocator::new(AllocatorConfig::default());
        let segment = (Address(1 << 20), Bytes::mib(2));
        allocator.add_segment(SegmentId(0), StreamId(0), Bytes(512), segment);
        allocator
    }

    #[test]
    fn a_block_is_split_reused_and_joined() {
        let mut allocator = allocator();
        let a = allocator.place(StreamId(0), Bytes(1)).unwrap();
        let b = allocator.place(StreamId(0), Bytes(513)).unwrap();
        assert_eq!(
            (a.block, b.block, b.offset),
            (Bytes(512), Bytes(1024), Bytes(512))
        );
        assert_eq!(
            allocator.place(StreamId(1), Bytes(1)),
            None,
            "another stream's order"
        );
        allocator.free(a.segment, a.offset);
        assert_eq!(allocator.place(StreamId(0), Bytes(100)).unwrap().offset, Bytes(0));
        allocator.free(a.segment, Bytes(0));
        allocator.free(b.segment, b.offset);
        assert_eq!(allocator.free_segments(), [SegmentId(0)]);
        assert_eq!(allocator.largest_free(), Bytes::mib(2));
        allocator.check();
    }

    #[test]
    fn books_agree_after_any_sequence() {
        let mut random = Random::seeded(7);
        let mut allocator = Allocator::new(AllocatorConfig::default());
        let mut held = Vec::new();
        for step in 0..4000u32 {
            if random.one_in(2) || held.is_empty() {
                let size = Bytes(1 + random.below(3 << 20));
                let stream = StreamId(random.below(2) as u32);
                let placed = allocator.place(stream, size).unwrap_or_else(|| {
                    let bytes = allocator.segment_sizes(size)[0];
                    let at = Address((u64::from(step) + 1) << 32);
                    allocator.add_segment(SegmentId(step), stream, size, (at, bytes));
                    allocator.place(stream, size).expect("a new segment fits")
                });
                held.push(placed);
            } else {
                let placed = held.swap_remove(random.below(held.len() as u64) as usize);
                allocator.free(placed.segment, placed.offset);
            }
            if random.one_in(50) {
                for id in allocator.free_segments() {
                    assert!(allocator.remove_segment(id).is_some());
                }
            }
            allocator.check();
        }
    }
}
