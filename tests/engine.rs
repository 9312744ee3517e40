//! The bundled model through the runtime: the reference's numbers, and nothing that the record doesn't know.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use vramscope::base::clock::Clock;
use vramscope::base::{Bytes, DeviceId, LaunchId, Nanos, Seq};
use vramscope::device::host::{HostConfig, HostDevice};
use vramscope::device::{
    Address, Completion, Description, Device, DeviceError, GraphHandle, Launch, Mark, MemoryInfo, NodeTiming,
    Queue, Space,
};
use vramscope::event::{Event, Outcome, Record, Stamp, Stamped};
use vramscope::ledger::Ledger;
use vramscope::model::bundled;
use vramscope::model::engine::{Engine, EngineOptions, Precision};
use vramscope::ops::host::convrot::RotationGroup;
use vramscope::plan::purge::Profile;
use vramscope::runtime::{Busy, PurgeRequest, Runtime, RuntimeConfig};

/// What a device was really asked for.
#[derive(Default)]
struct Truth {
    used: [AtomicU64; 2],
    launches: AtomicU64,
    copies: AtomicU64,
    replays: AtomicU64,
}

/// A host device that counts what it is asked for.
struct Counted {
    device: HostDevice,
    truth: Arc<Truth>,
    captured: Vec<Queue>,
}

impl Counted {
    fn count(&self, queue: Queue, counter: &AtomicU64) {
        if !self.captured.contains(&queue) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) {
        for space in [Space::Device, Space::Pinned] {
            self.truth.used[space as usize].store(self.device.memory(space).used().0, Ordering::Relaxed);
        }
    }
}

impl Device for Counted {
    fn describe(&self) -> Description {
        self.device.describe()
    }
    fn memory(&self, space: Space) -> MemoryInfo {
        self.device.memory(space)
    }
    fn reserve(&mut self, space: Space, bytes: Bytes) -> Result<Address, DeviceError> {
        let result = self.device.reserve(space, bytes);
        self.read();
        result
    }
    fn give_back(&mut self, space: Space, address: Address) -> Result<(), DeviceError> {
        let result = self.device.give_back(space, address);
        self.read();
        result
    }
    fn open_queue(&mut self) -> Result<Queue, DeviceError> {
        self.device.open_queue()
    }
    fn launch(&mut self, queue: Queue, id: LaunchId, launch: &Launch) -> Result<(), DeviceError> {
        self.count(queue, &self.truth.launches);
        self.device.launch(queue, id, launch)
    }
    fn copy(
        &mut self,
        queue: Queue,
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    ) -> Result<(), DeviceError> {
        self.count(queue, &self.truth.copies);
        self.device.copy(queue, id, to, from, bytes)
    }
    fn upload(&mut self, queue: Queue, id: LaunchId, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.count(queue, &self.truth.copies);
        self.device.upload(queue, id, to, bytes)
    }
    fn download(
        &mut self,
        queue: Queue,
        id: LaunchId,
        from: Address,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.count(queue, &self.truth.copies);
        self.device.download(queue, id, from, into)
    }
    fn mark(&mut self, queue: Queue) -> Result<Mark, DeviceError> {
        self.device.mark(queue)
    }
    fn reached(&mut self, mark: Mark) -> Result<bool, DeviceError> {
        self.device.reached(mark)
    }
    fn wait(&mut self, queue: Queue, mark: Mark) -> Result<(), DeviceError> {
        self.device.wait(queue, mark)
    }
    fn synchronize(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.device.synchronize(queue)
    }
    fn begin_capture(&mut self, queue: Queue) -> Result<(), DeviceError> {
        self.captured.push(queue);
        self.device.begin_capture(queue)
    }
    fn end_capture(&mut self, queue: Queue) -> Result<GraphHandle, DeviceError> {
        self.captured.retain(|open| *open != queue);
        self.device.end_capture(queue)
    }
    fn replay(&mut self, queue: Queue, id: LaunchId, graph: GraphHandle) -> Result<(), DeviceError> {
        self.count(queue, &self.truth.replays);
        self.device.replay(queue, id, graph)
    }
    fn drop_graph(&mut self, graph: GraphHandle) -> Result<(), DeviceError> {
        self.device.drop_graph(graph)
    }
    fn node_timings(&mut self, graph: GraphHandle) -> Vec<NodeTiming> {
        self.device.node_timings(graph)
    }
    fn completions(&mut self, into: &mut Vec<Completion>) {
        self.device.completions(into);
    }
}

/// Folds each event at once, and compares the books with the device's own count.
struct Checker {
    truth: Arc<Truth>,
    state: Mutex<(Ledger, u64, Vec<String>)>,
}

impl Checker {
    fn compare(&self, ledger: &Ledger, seq: u64, event: &Event) -> Option<String> {
        // A return is stated before the driver gets the segment back.
        if matches!(event, Event::SegmentReturned(_)) {
            return None;
        }
        (0..2).find_map(|device| {
            let books = ledger.device(DeviceId(device));
            let used = self.truth.used[device as usize].load(Ordering::Relaxed);
            (books.reserved() != i128::from(used) || books.sum() != 0)
                .then(|| format!("event {seq} {event:?}: books {} device {used}", books.reserved()))
        })
    }
}

impl Record for Checker {
    fn record(&self, event: &Event) -> Stamp {
        let mut state = self.state.lock().expect("no test panics while recording");
        let (ledger, next, wrong) = &mut *state;
        let stamp = Stamp {
            seq: Seq(*next),
            at: Nanos(*next),
        };
        ledger.apply(&Stamped {
            seq: stamp.seq,
            at: stamp.at,
            event: event.clone(),
        });
        wrong.extend(self.compare(ledger, *next, event));
        *next += 1;
        stamp
    }
}

struct Bench {
    runtime: Runtime,
    engine: Engine,
    checker: Arc<Checker>,
    truth: Arc<Truth>,
}

fn bench(precision: Precision, convrot: Option<usize>, graphs: bool) -> Bench {
    let truth = Arc::new(Truth::default());
    let checker = Arc::new(Checker {
        truth: Arc::clone(&truth),
        state: Mutex::default(),
    });
    let runtime = Runtime::new(RuntimeConfig::default(), Arc::clone(&checker) as Arc<dyn Record>);
    let config = HostConfig {
        index: 0,
        vram: Bytes::mib(64),
        pinned: Bytes::mib(64),
    };
    let device = Counted {
        device: HostDevice::open(config, Clock::manual()).expect("address space"),
        truth: Arc::clone(&truth),
        captured: Vec::new(),
    };
    let device = runtime.add_device(Box::new(device));
    let stream = runtime.open_stream(device, "compute").expect("a queue");
    let options = EngineOptions {
        precision,
        convrot: convrot.and_then(RotationGroup::new),
        graphs,
        context: None,
    };
    let model = bundled::load().expect("the bundled model");
    let engine = Engine::new(&runtime, &stream, model, options).expect("options that fit");
    Bench {
        runtime,
        engine,
        checker,
        truth,
    }
}

fn golden() -> Value {
    serde_json::from_str(include_str!("data/golden/tiny-llama.json")).expect("JSON")
}

#[test]
fn f32_gives_the_reference_tokens_and_logits() {
    let golden = golden();
    let prompts = golden["prompts"].as_array().expect("prompts");
    for graphs in [true, false] {
        let bench = bench(Precision::F32, None, graphs);
        for prompt in prompts {
            let ids = |value: &Value| -> Vec<u32> { serde_json::from_value(value.clone()).expect("ids") };
            let base = &prompt["base"];
            let wanted = ids(&base["greedy_ids"]);
            let made = bench
                .engine
                .generate(&ids(&prompt["token_ids"]), wanted.len())
                .expect("it runs");
            assert_eq!(made.tokens, wanted);
            let logits = base["first_step"]["logits_0_to_15"].as_array().expect("logits");
            for (found, wanted) in made.first_logits.iter().zip(logits) {
                let wanted = wanted.as_f64().expect("a number");
                assert!((f64::from(*found) - wanted).abs() < 1e-4, "{found} {wanted}");
            }
        }
    }
}

#[test]
fn the_record_knows_every_byte_and_every_piece_of_work() {
    for (precision, convrot, graphs) in [
        (Precision::F32, None, false),
        (Precision::Nvfp4, None, true),
        (Precision::Int8, Some(64), true),
        (Precision::Bf16, None, true),
    ] {
        let bench = bench(precision, convrot, graphs);
        let prompt: Vec<u32> = (0..20).collect();
        for profile in [Profile::Full, Profile::Soft] {
            bench.engine.generate(&prompt, 6).expect("it runs");
            let request = PurgeRequest {
                profile,
                threshold: Bytes::kib(1),
                busy: Busy::Wait,
            };
            bench.runtime.purge(&request).expect("a purge");
        }
        bench.engine.generate(&prompt, 6).expect("it runs");
        bench.runtime.end(Outcome::Complete).expect("no work failed");
        drop(bench.engine);
        let state = bench.checker.state.lock().expect("not poisoned");
        let (ledger, _, wrong) = &*state;
        assert!(wrong.is_empty(), "{precision}: {wrong:#?}");
        let odd: Vec<_> = ledger
            .anomalies()
            .iter()
            .filter(|odd| odd.why != vramscope::ledger::Why::AfterEnd)
            .collect();
        assert!(odd.is_empty(), "{precision}: {odd:?}");
        let launched: u64 = ledger
            .launches()
            .kernels()
            .map(|(_, kernel)| kernel.launches.count)
            .sum();
        let copied: u64 = vramscope::event::Direction::ALL
            .iter()
            .map(|direction| ledger.launches().copies(*direction).issued.count)
            .sum();
        let truth = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(launched, truth(&bench.truth.launches));
        assert_eq!(copied, truth(&bench.truth.copies));
        assert_eq!(ledger.graphs().replays(), truth(&bench.truth.replays));
        assert_eq!(graphs, ledger.graphs().replays() > 0);
    }
}
