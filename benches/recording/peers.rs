//! Recorders that are given the same facts, each in its own fastest way that keeps all fields.

use perfetto_recorder::{ThreadTraceData, TraceBuilder};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing::dispatcher::DefaultGuard;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::prelude::*;
use tracy_client::{Client, SpanLocation, span_location};
use vramscope::base::clock::Clock;
use vramscope::event::{Event, Record};
use vramscope::trace::{FileRecorder, Header};

/// A recorder for one round.
pub(crate) trait Subject {
    /// Makes it ready. Not measured.
    fn start() -> Self;
    /// Records one of the three kinds of event that the bench has. Measured.
    fn record(&mut self, event: &Event);
    /// Ends the round, and gives the length of its file. Not measured.
    fn finish(self) -> Option<u64>;
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn length(folder: &TempDir) -> u64 {
    std::fs::metadata(folder.path().join("trace"))
        .expect("a trace file")
        .len()
}

/// A `.vtrace` file, by way of the trait object that the runtime holds.
pub(crate) struct Ours {
    recorder: FileRecorder,
    folder: TempDir,
}

impl Subject for Ours {
    fn start() -> Ours {
        let folder = folder();
        let path = folder.path().join("trace");
        let recorder = FileRecorder::create(&path, &Header::default(), Clock::real());
        Ours {
            recorder: recorder.expect("a fresh path"),
            folder,
        }
    }

    #[inline]
    fn record(&mut self, event: &Event) {
        let sink: &dyn Record = &self.recorder;
        std::hint::black_box(sink).record(event);
    }

    fn finish(self) -> Option<u64> {
        self.recorder.finish(0).expect("a disk with room");
        Some(length(&self.folder))
    }
}

/// A span with arguments, kept in the thread's memory; the file is made at the end.
pub(crate) struct Perfetto;

impl Subject for Perfetto {
    fn start() -> Perfetto {
        perfetto_recorder::start().expect("built with recording");
        drop(ThreadTraceData::take_current_thread());
        Perfetto
    }

    #[inline]
    fn record(&mut self, event: &Event) {
        match event {
            Event::BufferAllocated(e) => {
                perfetto_recorder::scope!(
                    "BufferAllocated",
                    buffer = e.buffer.0,
                    generation = e.generation.0,
                    segment = e.segment.0,
                    offset = e.offset.0,
                    requested = e.requested.0,
                    slack = e.slack.0,
                    stream = e.stream.0,
                    owner = e.owner.0,
                    site = e.site.0
                );
            }
            Event::ReleaseRequested(e) => {
                perfetto_recorder::scope!(
                    "ReleaseRequested",
                    buffer = e.buffer.0,
                    generation = e.generation.0,
                    cause = e.cause as u8
                );
            }
            Event::ReleaseCompleted(e) => {
                perfetto_recorder::scope!(
                    "ReleaseCompleted",
                    buffer = e.buffer.0,
                    generation = e.generation.0
                );
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<u64> {
        let mut trace = TraceBuilder::new().expect("recording is on");
        trace.process_thread_data(&ThreadTraceData::take_current_thread());
        let folder = folder();
        let written = trace.write_to_file(folder.path().join("trace"));
        written.expect("a disk with room");
        Some(length(&folder))
    }
}

/// A zone with one value a field. Without a viewer, the client keeps all in memory and has no file.
pub(crate) struct Tracy(Client);

impl Tracy {
    #[inline]
    fn zone(&self, location: &'static SpanLocation, values: &[u64]) {
        let zone = self.0.clone().span(location, 0);
        for value in values {
            zone.emit_value(*value);
        }
    }
}

impl Subject for Tracy {
    fn start() -> Tracy {
        Tracy(Client::start())
    }

    #[inline]
    fn record(&mut self, event: &Event) {
        match event {
            Event::BufferAllocated(e) => self.zone(
                span_location!("BufferAllocated"),
                &[
                    e.buffer.0.into(),
                    e.generation.0.into(),
                    e.segment.0.into(),
                    e.offset.0,
                    e.requested.0,
                    e.slack.0,
                    e.stream.0.into(),
                    e.owner.0.into(),
                    e.site.0.into(),
                ],
            ),
            Event::ReleaseRequested(e) => self.zone(
                span_location!("ReleaseRequested"),
                &[e.buffer.0.into(), e.generation.0.into(), e.cause as u64],
            ),
            Event::ReleaseCompleted(e) => self.zone(
                span_location!("ReleaseCompleted"),
                &[e.buffer.0.into(), e.generation.0.into()],
            ),
            _ => {}
        }
    }

    fn finish(self) -> Option<u64> {
        None
    }
}

/// A `tracing` event, sent to the thread that writes JSON.
pub(crate) struct Chrome {
    subscriber: DefaultGuard,
    writer: FlushGuard,
    folder: TempDir,
}

impl Subject for Chrome {
    fn start() -> Chrome {
        let folder = folder();
        let layer = ChromeLayerBuilder::new()
            .file(folder.path().join("trace"))
            .include_args(true)
            .include_locations(false);
        let (layer, writer) = layer.build();
        let subscriber = tracing_subscriber::registry().with(layer);
        Chrome {
            subscriber: tracing::dispatcher::set_default(&Dispatch::new(subscriber)),
            writer,
            folder,
        }
    }

    #[inline]
    fn record(&mut self, event: &Event) {
        match event {
            Event::BufferAllocated(e) => tracing::info!(
                name: "BufferAllocated",
                buffer = e.buffer.0,
                generation = e.generation.0,
                segment = e.segment.0,
                offset = e.offset.0,
                requested = e.requested.0,
                slack = e.slack.0,
                stream = e.stream.0,
                owner = e.owner.0,
                site = e.site.0
            ),
            Event::ReleaseRequested(e) => tracing::info!(
                name: "ReleaseRequested",
                buffer = e.buffer.0,
                generation = e.generation.0,
                cause = e.cause as u8
            ),
            Event::ReleaseCompleted(e) => tracing::info!(
                name: "ReleaseCompleted",
                buffer = e.buffer.0,
                generation = e.generation.0
            ),
            _ => {}
        }
    }

    fn finish(self) -> Option<u64> {
        drop(self.subscriber);
        drop(self.writer);
        Some(length(&self.folder))
    }
}
