//! Work in simulated time: when a piece of work is put on a queue, its begin and end are drawn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::{LaunchId, Nanos};
use crate::device::{Access, Span};

/// A piece of work between its begin and its end.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: LaunchId,
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    pub(super) spans: Arc<[Span]>,
}

/// Work in order; a later piece begins when the one before it has ended.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    pub(super) free_at: Nanos,
    pub(super) tasks: VecDeque<Task>,
    pub(super) capture: Option<Graph>,
}

/// Captured work with its addresses baked in.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Replays since the timings were last asked for.
    pub(super) replays: u64,
}

/// One captured launch or copy.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: &'static str,
    pub(super) spans: Vec<Span>,
}

/// Whether two spans share a byte.
pub(super) fn overlap(a: &Span, b: &Span) -> bool {
    a.address.0 < b.address.0 + b.bytes.0 && b.address.0 < a.address.0 + a.bytes.0
}

impl Task {
    /// The first of `spans` that this piece of work and another one from `begin` to `end` may not both touch.
    pub(super) fn conflict<'s>(&self, begin: Nanos, end: Nanos, spans: &'s [Span]) -> Option<&'s Span> {
        if self.end <= begin || end <= self.begin {
            return None;
        }
        spans.iter().find(|span| {
            let clashes = |own: &Span| {
                overlap(own, span) && (own.access == Access::Write || span.access == Access::Write)
            };
            self.spans.iter().any(clashes)
        })
    }
}
