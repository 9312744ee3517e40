//! What the benches share: the events of a busy allocator, and whether they measure.

use vramscope::base::random::Random;
use vramscope::base::{BufferId, Bytes, Generation, NameId, OwnerId, SegmentId, StreamId};
use vramscope::event::{BufferAllocated, Event, ReleaseCause, ReleaseCompleted, ReleaseRequested};

/// Whether this is a measurement. Otherwise it is a test: the same work, just enough of it.
pub(crate) fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Segments that the buffers are in.
pub(crate) const SEGMENTS: u64 = 12;

/// Buffers that are in use at a time.
const LIVE: u64 = 256;

/// Allocations and releases in turn, as a caching allocator states them: a third of the events each are
/// `BufferAllocated`, `ReleaseRequested` and `ReleaseCompleted`.
pub(crate) fn allocations(count: usize) -> Vec<Event> {
    let mut random = Random::seeded(42);
    let mut generations = [0; LIVE as usize];
    let mut events = Vec::with_capacity(count + 2);
    for turn in 0.. {
        if events.len() >= count {
            break;
        }
        let slot = if turn < LIVE { turn } else { random.below(LIVE) } as u32;
        let buffer = BufferId(slot);
        let generation = &mut generations[slot as usize];
        if turn >= LIVE {
            let (generation, cause) = (Generation(*generation), ReleaseCause::Dropped);
            events.push(
                ReleaseRequested {
                    buffer,
                    generation,
                    cause,
                }
                .into(),
            );
            events.push(ReleaseCompleted { buffer, generation }.into());
        }
        *generation += 1;
        events.push(allocated(&mut random, buffer, Generation(*generation)));
    }
    events.truncate(count);
    events
}

/// Sizes as in a model: rows, tiles and a few big ones, in blocks of 512 bytes.
fn allocated(random: &mut Random, buffer: BufferId, generation: Generation) -> Event {
    let requested = random.bits() >> (40 + random.below(16));
    let block = requested.max(1).next_multiple_of(512);
    BufferAllocated {
        buffer,
        generation,
        segment: SegmentId(random.below(SEGMENTS) as u32),
        offset: Bytes(random.below(1 << 15) * 512),
        requested: Bytes(requested),
        slack: Bytes(block - requested),
        stream: StreamId(random.below(2) as u32),
        owner: OwnerId(random.below(6) as u32),
        site: NameId(random.below(40) as u32),
    }
    .into()
}
