//! Work on streams: kernels, copies, replays, and what is in flight.
//!
//! Most of these events may be missing from a trace, so an end without its beginning is counted and is no anomaly.

use std::collections::BTreeMap;

use crate::base::{Bytes, GraphId, LaunchId, NameId, Nanos, StreamId};
use crate::event::{CopyIssued, Direction, GraphKernelTimed, GraphReplayed, KernelLaunched, QuantizeCounted};
use crate::ledger::digest::{Digest, Digester, digest};
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::table::Table;

/// How often, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How often it was put on a stream.
    pub count: u64,
    /// How often its time is known; at most `count`.
    pub timed: u64,
    /// The known times in sum, by the device's own timing. Not wall time: streams overlap.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
}
digest!(Timing { count, timed } untimed { total, longest });

impl Timing {
    pub(crate) fn add(&mut self, took: Nanos) {
        self.timed += 1;
        self.total += took;
        self.longest = self.longest.max(took);
    }
}

/// A quantizer's own counts in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantized {
    /// All blocks.
    pub blocks: u64,
    /// Blocks whose scale was clamped.
    pub saturated: u64,
    /// Blocks that became zero though they were not.
    pub flushed: u64,
    /// Blocks with a NaN.
    pub nan: u64,
}
digest!(Quantized {
    blocks,
    saturated,
    flushed,
    nan
});

/// One kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its launches. Nodes of replayed graphs are not among them.
    pub launches: Timing,
    /// Its runs as a node of replayed graphs, as far as the device times nodes. The longest is not known.
    pub in_graphs: Timing,
    /// What it counted, where it quantizes.
    pub quantized: Quantized,
}
digest!(Kernel {
    launches,
    in_graphs,
    quantized
});

/// Copies of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// How many and how long.
    pub issued: Timing,
    /// How much; saturates.
    pub bytes: Bytes,
}
digest!(Copies { issued, bytes });

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A kernel.
    Kernel(NameId),
    /// A copy.
    Copy(Direction),
    /// A replay.
    Graph(GraphId),
}

impl Digest for Work {
    fn digest(&self, into: &mut Digester) {
        match self {
            Work::Kernel(name) => (0u64, *name).digest(into),
            Work::Copy(direction) => (1u64, *direction).digest(into),
            Work::Graph(graph) => (2u64, *graph).digest(into),
        }
    }
}

/// A piece of work that was not seen to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its number.
    pub launch: LaunchId,
    /// What it is.
    pub work: Work,
    /// The stream; a replay does not say.
    pub stream: Option<StreamId>,
    /// When it was put there.
    pub mark: Mark,
}
digest!(InFlight {
    launch,
    work,
    stream,
    mark
});

/// All work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    kernels: Table<Kernel, { limits::KERNELS }>,
    other_kernels: Kernel,
    copies: [Copies; Direction::ALL.len()],
    in_flight: BTreeMap<LaunchId, InFlight>,
    unmatched: u64,
    fate_unknown: u64,
}
digest!(Launches {
    kernels,
    other_kernels,
    copies,
    in_flight,
    unmatched,
    fate_unknown
});

impl Launches {
    /// Kernels by the number of their name.
    pub fn kernels(&self) -> impl Iterator<Item = (NameId, &Kernel)> {
        self.kernels.iter().map(|(name, kernel)| (NameId(name), kernel))
    }

    /// The sums of the kernels beyond [`limits::KERNELS`].
    #[must_use]
    pub fn other_kernels(&self) -> &Kernel {
        &self.other_kernels
    }

    /// Copies of one direction.
    #[must_use]
    pub fn copies(&self, direction: Direction) -> &Copies {
        &self.copies[direction as usize]
    }

    /// Work that was put on a stream and not seen to be done, by number.
    #[must_use]
    pub fn in_flight(&self) -> &BTreeMap<LaunchId, InFlight> {
        &self.in_flight
    }

    /// Ends of work whose beginning is not in the trace.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Pieces of work that were given up on: events were lost, or too many were in flight.
    #[must_use]
    pub fn fate_unknown(&self) -> u64 {
        self.fate_unknown
    }

    fn kernel(&mut self, name: NameId) -> &mut Kernel {
        self.kernels.row(name.0).unwrap_or(&mut self.other_kernels)
    }

    fn begin(&mut self, mark: Mark, launch: LaunchId, work: Work, stream: Option<StreamId>) {
        if self.in_flight.len() >= limits::IN_FLIGHT {
            self.fate_unknown += 1;
            return;
        }
        let piece = InFlight {
            launch,
            work,
            stream,
            mark,
        };
        if self.in_flight.insert(launch, piece).is_some() {
            self.fate_unknown += 1;
        }
    }

    pub(crate) fn launched(&mut self, mark: Mark, e: &KernelLaunched) {
        self.kernel(e.kernel).launches.count += 1;
        self.begin(mark, e.launch, Work::Kernel(e.kernel), Some(e.stream));
    }

    pub(crate) fn ran_in_graph(&mut self, e: &GraphKernelTimed) {
        let runs = &mut self.kernel(e.kernel).in_graphs;
        runs.count = runs.count.saturating_add(e.launches);
        runs.timed = runs.timed.saturating_add(e.launches);
        runs.total += e.took;
    }

    pub(crate) fn copied(&mut self, mark: Mark, e: &CopyIssued) {
        let copies = &mut self.copies[e.direction as usize];
        copies.issued.count += 1;
        copies.bytes += e.bytes;
        self.begin(mark, e.launch, Work::Copy(e.direction), Some(e.stream));
    }

    pub(crate) fn replayed(&mut self, mark: Mark, e: &GraphReplayed) {
        self.begin(mark, e.launch, Work::Graph(e.graph), None);
    }

    /// Returns the graph whose replay this was.
    pub(crate) fn completed(&mut self, launch: LaunchId, took: Nanos) -> Option<GraphId> {
        let Some(piece) = self.in_flight.remove(&launch) else {
            self.unmatched += 1;
            return None;
        };
        match piece.work {
            Work::Kernel(name) => self.kernel(name).launches.add(took),
            Work::Copy(direction) => self.copies[direction as usize].issued.add(took),
            Work::Graph(graph) => return Some(graph),
        }
        None
    }

    pub(crate) fn quantized(&mut self, e: &QuantizeCounted) {
        let sums = &mut self.kernel(e.kernel).quantized;
        for (sum, more) in [
            (&mut sums.blocks, e.blocks),
            (&mut sums.saturated, e.saturated),
            (&mut sums.flushed, e.flushed),
            (&mut sums.nan, e.nan),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Events are missing, ends of work perhaps among them.
    pub(crate) fn gap(&mut self) {
        self.fate_unknown += self.in_flight.len() as u64;
        self.in_flight.clear();
    }
}
