//! How fast events fold into the ledger.

mod support;
#[path = "../tests/common/workload.rs"]
mod workload;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vramscope::base::{Bytes, DeviceId, Nanos, SegmentId, Seq, StreamId};
use vramscope::event::{Event, SegmentReserved, Stamped};
use vramscope::ledger::Ledger;

use support::{SEGMENTS, allocations, is_measuring};

fn fold(events: &[Stamped]) -> Ledger {
    let mut ledger = Ledger::default();
    for stamped in events {
        ledger.apply(stamped);
    }
    ledger
}

/// The segments, and then the allocator's events in them.
fn allocator(count: usize) -> Vec<Stamped> {
    let segment = |id| -> Event {
        SegmentReserved {
            device: DeviceId(0),
            segment: SegmentId(id as u32),
            stream: StreamId(0),
            bytes: Bytes(16 << 30),
        }
        .into()
    };
    let events = (0..SEGMENTS).map(segment).chain(allocations(count)).take(count);
    let stamp = |(place, event)| Stamped {
        seq: Seq(place),
        at: Nanos(place * 1000),
        event,
    };
    (0..).zip(events).map(stamp).collect()
}

fn ledger(criterion: &mut Criterion) {
    let count = if is_measuring() { 200_000 } else { 2_000 };
    let streams = [
        ("run", workload::Workload::events(7, count)),
        ("allocator", allocator(count as usize)),
    ];
    let mut group = criterion.benchmark_group("ledger");
    group.throughput(Throughput::Elements(count));
    for (name, events) in &streams {
        group.bench_function(*name, |bencher| {
            bencher.iter_with_large_drop(|| fold(std::hint::black_box(events)));
        });
    }
    group.finish();
}

criterion_group!(benches, ledger);
criterion_main!(benches);
