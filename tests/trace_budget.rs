// Unsafe here: an allocator that counts, and hands on to the system's.
#![allow(unsafe_code)]
//! What recording costs on the thread that records.

#[path = "common/workload.rs"]
mod workload;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use vramscope::base::Bytes;
use vramscope::base::clock::Clock;
use vramscope::event::{Record, Stamped};
use vramscope::trace::{FileRecorder, Header};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on unchanged to the system's allocator, which keeps the contract; counting touches only
// a thread-local cell without a destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System`, by way of `alloc` above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Records all and returns how many calls allocated, and how many evicted.
fn costs(recorder: &FileRecorder, events: &[Stamped]) -> (u64, u64) {
    let (mut allocating, mut evicting, mut dropped) = (0, 0, 0);
    for stamped in events {
        let before = ALLOCATIONS.get();
        recorder.record(&stamped.event);
        allocating += u64::from(ALLOCATIONS.get() > before);
        let now = recorder.health().dropped;
        evicting += u64::from(now != dropped);
        dropped = now;
    }
    (allocating, evicting)
}

#[test]
fn recording_allocates_only_where_a_ring_evicts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events = workload::Workload::events(5, 100_000);
    let (header, clock) = (Header::default(), Clock::manual());
    let row = FileRecorder::create(&folder.path().join("row"), &header, clock.clone()).expect("a fresh path");
    let (allocating, _) = costs(&row, &events);
    // Mapping the next window of the file is the system's matter.
    assert_eq!(allocating, 0);
    let limit = Bytes(256 << 10);
    let ring = FileRecorder::create_ring(&folder.path().join("ring"), &header, clock, limit);
    let (allocating, evicting) = costs(&ring.expect("a fresh path"), &events);
    assert!(evicting > 5, "{evicting} evictions");
    assert_eq!(allocating, evicting);
}
