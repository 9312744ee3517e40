//! The share of a decode step that instrumentation takes.
//!
//! The same steps with a sink that forgets, and with the trace file, in turn. The difference is the median of the
//! rounds' ratios.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vramscope::base::clock::Clock;
use vramscope::base::{Bytes, Nanos, Seq};
use vramscope::device::host::{HostConfig, HostDevice};
use vramscope::event::{Event, Record, Stamp};
use vramscope::model::bundled;
use vramscope::model::engine::{Engine, EngineOptions, Precision};
use vramscope::runtime::{Runtime, RuntimeConfig};
use vramscope::trace::{FileRecorder, Header};

const PROMPT: usize = 16;

/// Counts facts and forgets them.
#[derive(Default)]
struct Count(AtomicU64);

impl Record for Count {
    fn record(&self, event: &Event) -> Stamp {
        black_box(event);
        let seq = self.0.fetch_add(1, Ordering::Relaxed);
        Stamp {
            seq: Seq(seq),
            at: Nanos(0),
        }
    }
}

fn engine(sink: Arc<dyn Record>, precision: Precision, graphs: bool) -> Engine {
    let config = HostConfig {
        index: 0,
        vram: Bytes::mib(64),
        pinned: Bytes::mib(64),
    };
    let device = HostDevice::open(config, Clock::real()).expect("address space");
    let runtime = Runtime::new(RuntimeConfig::default(), sink);
    let index = runtime.add_device(Box::new(device));
    let stream = runtime.open_stream(index, "compute").expect("a queue");
    let options = EngineOptions {
        precision,
        convrot: None,
        graphs,
        context: None,
    };
    let model = bundled::load().expect("the bundled model");
    let engine = Engine::new(&runtime, &stream, model, options).expect("options that fit");
    engine.load(|_, _| {}).expect("room for the weights");
    engine
}

/// Decode time of a step: `steps` of them, with the prompt's own pass in front.
fn time(engine: &Engine, steps: usize) -> Duration {
    let prompt: Vec<u32> = (3..3 + PROMPT as u32).collect();
    let began = Instant::now();
    black_box(engine.generate(&prompt, steps).expect("it runs"));
    began.elapsed() / steps as u32
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let given = |word: &str| std::env::args().any(|argument| argument == word);
    if given("--list") {
        if !given("--ignored") {
            println!("decode: benchmark");
        }
        return;
    }
    let long = given("--bench");
    let (rounds, steps) = if long { (101, 50) } else { (1, 4) };
    println!(
        "| precision | graphs | step us, forgetting | step us, recording | difference | events a step |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for (precision, graphs) in [
        (Precision::Nvfp4, true),
        (Precision::Nvfp4, false),
        (Precision::F32, true),
        (Precision::F32, false),
    ] {
        let folder = TempDir::new().expect("a folder");
        let header = Header {
            schema: vramscope::trace::SCHEMA_VERSION,
            process: 0,
            unix_zero: Nanos(0),
            command: String::new(),
        };
        let path = folder.path().join("decode.vtrace");
        let file = FileRecorder::create(&path, &header, Clock::real()).expect("a new file");
        let count = Arc::new(Count::default());
        let forgetting = engine(Arc::clone(&count) as Arc<dyn Record>, precision, graphs);
        let recording = engine(Arc::new(file), precision, graphs);
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let before = count.0.load(Ordering::Relaxed);
        for _ in 0..rounds {
            without.push(time(&forgetting, steps));
            with.push(time(&recording, steps));
        }
        let events = (count.0.load(Ordering::Relaxed) - before) as f64 / (rounds * steps) as f64;
        let nanos = |times: &[Duration]| {
            times
                .iter()
                .map(|time| time.as_nanos() as f64)
                .collect::<Vec<_>>()
        };
        let (without, with) = (nanos(&without), nanos(&with));
        let ratios = with
            .iter()
            .zip(&without)
            .map(|(with, without)| with / without)
            .collect();
        let share = (median(ratios) - 1.0) * 100.0;
        let (without, with) = (median(without), median(with));
        println!(
            "| {precision} | {} | {:.1} | {:.1} | {share:+.1} % | {events:.0} |",
            if graphs { "on" } else { "off" },
            without / 1e3,
            with / 1e3
        );
    }
}
