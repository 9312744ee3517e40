//! What instrumentation costs the program that is looked at.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tempfile::TempDir;
use tracing_subscriber::prelude::*;
use vramscope::base::clock::Clock;
use vramscope::base::{Bytes, Nanos, OwnerId, Seq};
use vramscope::device::Kernel;
use vramscope::device::host::{HostConfig, HostDevice};
use vramscope::event::{Event, OwnerKind, Record, Stage, Stamp};
use vramscope::runtime::{Runtime, RuntimeConfig, Stream};
use vramscope::trace::{FileRecorder, Header};

/// Takes facts and forgets them: what is left is the cost of stating them.
struct Forget;

impl Record for Forget {
    fn record(&self, event: &Event) -> Stamp {
        black_box(event);
        Stamp {
            seq: Seq(0),
            at: Nanos(0),
        }
    }
}

static EMPTY: Kernel = Kernel {
    name: "empty",
    host: |_| Ok(()),
};

/// Launches between two waits: fewer than a queue of the host device holds, so none waits for room.
const BATCH: u64 = 512;

/// A runtime with one host device.
struct World {
    runtime: Runtime,
    stream: Stream,
    owner: OwnerId,
}

impl World {
    fn new(sink: Arc<dyn Record>) -> World {
        let config = HostConfig {
            index: 0,
            vram: Bytes(1 << 30),
            pinned: Bytes(1 << 20),
        };
        let device = HostDevice::open(config, Clock::real()).expect("address space");
        let runtime = Runtime::new(RuntimeConfig::default(), sink);
        let index = runtime.add_device(Box::new(device));
        let stream = runtime
            .open_stream(index, "main")
            .expect("the device opens queues");
        let owner = runtime.own_passively("bench", OwnerKind::Other, Stage::OwnerCaches);
        World {
            runtime,
            stream,
            owner,
        }
    }

    fn allocate(&self) -> vramscope::runtime::Buffer {
        let buffer = self
            .runtime
            .allocate(&self.stream, self.owner, "bench", Bytes(4096));
        buffer.expect("a device with room")
    }

    /// How long `count` launches take to submit; the waiting in between is left out.
    fn submit(&self, count: u64) -> Duration {
        let (input, output) = (self.allocate(), self.allocate());
        let mut spent = Duration::ZERO;
        let mut left = count;
        while left > 0 {
            let batch = left.min(BATCH);
            let from = Instant::now();
            for _ in 0..batch {
                let call = self.stream.call(&EMPTY).read("x", &input, 4096);
                call.write("out", &output, 4096).submit().expect("a sound launch");
            }
            spent += from.elapsed();
            self.stream.synchronize().expect("a kernel that does nothing");
            left -= batch;
        }
        spent
    }
}

fn file_sink(folder: &TempDir, name: &str) -> Arc<dyn Record> {
    let path = folder.path().join(name);
    Arc::new(FileRecorder::create(&path, &Header::default(), Clock::real()).expect("a fresh path"))
}

fn lease(criterion: &mut Criterion) {
    let world = World::new(Arc::new(Forget));
    let buffer = world.allocate();
    criterion.bench_function("lease", |bencher| {
        bencher.iter(|| black_box(&buffer).lease().is_some())
    });
}

fn allocate(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("allocate and release");
    for (name, sink) in [
        ("no sink", Arc::new(Forget) as Arc<dyn Record>),
        ("file", file_sink(&folder, "allocate")),
    ] {
        let world = World::new(sink);
        // Keeps the segment, so that the driver is not asked each time.
        let _first = world.allocate();
        group.bench_function(name, |bencher| bencher.iter(|| drop(black_box(world.allocate()))));
    }
    group.finish();
}

fn submit(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("submit");
    for (name, sink) in [
        ("no sink", Arc::new(Forget) as Arc<dyn Record>),
        ("file", file_sink(&folder, "submit")),
    ] {
        let world = World::new(sink);
        group.bench_function(name, |bencher| bencher.iter_custom(|count| world.submit(count)));
    }
    // Last: `tracing` takes its short way only as long as nobody ever listened.
    let listening = tracing_subscriber::registry().with(tracing_subscriber::filter::LevelFilter::TRACE);
    tracing::subscriber::with_default(listening, || {
        let world = World::new(Arc::new(Forget));
        group.bench_function("no sink, spans on", |bencher| {
            bencher.iter_custom(|count| world.submit(count))
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = lease, allocate, submit
}
criterion_main!(benches);
