//! The one place of instrumentation: an event goes to the sink, and where a subscriber listens, a span
//! carries its number.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;

use crate::base::{Bytes, GraphId, NameId, PurgeId};
use crate::event::{Event, NameDefined, NameTable, Phase, Record, Stage, Stamp};

/// Takes facts from the runtime. Lives under the runtime's lock, so an event's number is taken under the
/// lock that made it true.
pub(crate) struct Probe {
    sink: Arc<dyn Record>,
    names: NameTable,
    /// Names that are part of the program, by address: no hashing of text on the launch path.
    fixed: HashMap<(usize, usize), NameId, FixedHash>,
}

type FixedHash = std::hash::BuildHasherDefault<xxhash_rust::xxh3::Xxh3Default>;

impl Probe {
    pub(crate) fn new(sink: Arc<dyn Record>) -> Probe {
        Probe {
            sink,
            names: NameTable::default(),
            fixed: HashMap::default(),
        }
    }

    pub(crate) fn record(&self, event: impl Into<Event>) -> Stamp {
        self.sink.record(&event.into())
    }

    /// Records the event and writes its number into the span.
    pub(crate) fn record_in(&self, span: &Span, event: impl Into<Event>) -> Stamp {
        let stamp = self.record(event);
        if !span.is_disabled() {
            span.record("vramscope.seq", stamp.seq.0);
        }
        stamp
    }

    pub(crate) fn name(&mut self, text: &str) -> NameId {
        let (name, new) = self.names.intern(text);
        if new {
            self.record(NameDefined {
                name,
                text: text.into(),
            });
        }
        name
    }

    pub(crate) fn fixed_name(&mut self, text: &'static str) -> NameId {
        let address = (text.as_ptr() as usize, text.len());
        if let Some(name) = self.fixed.get(&address) {
            return *name;
        }
        let name = self.name(text);
        self.fixed.insert(address, name);
        name
    }
}

/// Spans by their names and fields on every surface. Each closes when it is dropped.
pub(crate) mod spans {
    use super::*;

    pub(crate) fn allocate(owner: &str, bytes: Bytes) -> Span {
        tracing::trace_span!(
            "buffer.allocate",
            vramscope.pool = owner,
            vramscope.bytes = bytes.0,
            vramscope.buffer = Empty,
            vramscope.generation = Empty,
            vramscope.seq = Empty,
            error.type = Empty
        )
    }

    pub(crate) fn grow(device: &str, bytes: Bytes) -> Span {
        tracing::trace_span!(
            "pool.grow",
            hw.id = device,
            vramscope.bytes = bytes.0,
            vramscope.seq = Empty
        )
    }

    pub(crate) fn take(pool: &str) -> Span {
        tracing::trace_span!("pool.take", vramscope.pool = pool, vramscope.seq = Empty)
    }

    pub(crate) fn launch(kernel: &'static str, stream: u32) -> Span {
        tracing::trace_span!(
            "kernel.launch",
            kernel.name = kernel,
            stream,
            vramscope.seq = Empty,
            error.type = Empty
        )
    }

    pub(crate) fn copy(bytes: Bytes, stream: u32) -> Span {
        tracing::trace_span!("memcpy", vramscope.bytes = bytes.0, stream, vramscope.seq = Empty)
    }

    pub(crate) fn capture(graph: GraphId, key: &str) -> Span {
        tracing::debug_span!("graph.capture", graph = graph.0, key, vramscope.seq = Empty, error.type = Empty)
    }

    pub(crate) fn replay(graph: GraphId) -> Span {
        tracing::trace_span!("graph.replay", graph = graph.0, vramscope.seq = Empty, error.type = Empty)
    }

    pub(crate) fn purge(purge: PurgeId, profile: &str) -> Span {
        tracing::info_span!(
            "purge",
            vramscope.purge = purge.0,
            profile,
            vramscope.seq = Empty,
            error.type = Empty
        )
    }

    pub(crate) fn stage(purge: PurgeId, stage: Stage) -> Span {
        tracing::info_span!(
            "purge.stage",
            vramscope.purge = purge.0,
            stage = stage.word(),
            vramscope.bytes = Empty,
            vramscope.seq = Empty
        )
    }

    pub(crate) fn prompt(prompt: u32) -> Span {
        tracing::info_span!("inference.prompt", prompt, vramscope.seq = Empty, error.type = Empty)
    }

    pub(crate) fn layer(index: usize) -> Span {
        tracing::debug_span!("model.layer", layer = index)
    }

    pub(crate) fn phase(phase: Phase) -> Span {
        match phase {
            Phase::Prefill => tracing::info_span!("inference.prefill", vramscope.seq = Empty),
            Phase::Decode => tracing::info_span!("inference.decode", vramscope.seq = Empty),
        }
    }
}
