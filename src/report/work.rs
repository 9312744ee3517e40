//! Kernels, copies and graphs.

use crate::base::{Bytes, Nanos};
use crate::event::{Direction, Outcome, ReleaseCause};
use crate::ledger::Kernel;
use crate::ledger::Ledger;
use crate::report::row::{Column, Row, display_as_line, span};

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRow {
    /// Its name.
    pub kernel: String,
    /// Its launches. Nodes of replayed graphs are not among them.
    pub count: u64,
    /// Its runs as a node of replayed graphs, as far as the device times nodes.
    pub in_graphs: u64,
    /// Launches and runs whose time is known.
    pub timed: u64,
    /// The known times in sum, by the device's own timing. Not wall time.
    pub total: Nanos,
    /// The mean of the known times.
    pub mean: Nanos,
    /// The longest launch, where one is timed by itself; of runs in graphs only sums are known.
    pub longest: Option<Nanos>,
    /// Its thousandths of the known times of all kernels.
    pub share_permille: u64,
}

impl Row for KernelRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("kernel", 32),
        Column::figure("launches", 9),
        Column::figure("in graphs", 9),
        Column::figure("timed", 9),
        Column::time("total", 8),
        Column::time("mean", 8),
        Column::time("longest", 8),
        Column::time("share", 6),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.kernel.clone(),
            self.count.to_string(),
            self.in_graphs.to_string(),
            self.timed.to_string(),
            span(self.total),
            span(self.mean),
            self.longest.map_or_else(|| "-".to_owned(), span),
            format!("{}.{}%", self.share_permille / 10, self.share_permille % 10),
        ]
    }
}

/// Copies of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRow {
    /// Which way.
    pub direction: Direction,
    /// How many.
    pub count: u64,
    /// How much; saturates.
    pub bytes: Bytes,
    /// The known times in sum.
    pub total: Nanos,
}

impl Row for CopyRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("copies", 32),
        Column::figure("count", 9),
        Column::figure("bytes", 11),
        Column::time("total", 8),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.direction.word().to_owned(),
            self.count.to_string(),
            self.bytes.to_string(),
            span(self.total),
        ]
    }
}

/// All graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphsView {
    /// Captures that worked.
    pub captured: u64,
    /// Captures that did not.
    pub failed: u64,
    /// Graphs there are.
    pub present: u64,
    /// Those of them that baked a buffer which has moved on.
    pub stale: u64,
    /// Replays ever.
    pub replays: u64,
    /// Graphs that were destroyed.
    pub dropped: u64,
}

impl Row for GraphsView {
    const COLUMNS: &'static [Column] = &[
        Column::figure("captured", 8),
        Column::figure("failed", 8),
        Column::figure("present", 8),
        Column::figure("stale", 8),
        Column::figure("replays", 9),
        Column::figure("dropped", 8),
    ];

    fn cells(&self) -> Vec<String> {
        let all = [
            self.captured,
            self.failed,
            self.present,
            self.stale,
            self.replays,
            self.dropped,
        ];
        all.iter().map(u64::to_string).collect()
    }
}

display_as_line!(KernelRow, CopyRow, GraphsView);

/// Those that took the most time first, then those that ran most often.
pub(super) fn kernels(ledger: &Ledger) -> Vec<KernelRow> {
    let known = ledger.launches().kernels().map(|(name, kernel)| {
        let text = ledger.name(name);
        (text.map_or_else(|| format!("name#{name}"), str::to_owned), kernel)
    });
    let mut all: Vec<(String, &Kernel)> = known.collect();
    let others = ledger.launches().other_kernels();
    if others.launches.count > 0 || others.in_graphs.count > 0 {
        all.push(("_other".to_owned(), others));
    }
    all.retain(|(_, kernel)| kernel.launches.count > 0 || kernel.in_graphs.count > 0);
    let total = |kernel: &Kernel| kernel.launches.total + kernel.in_graphs.total;
    let sum: u128 = all.iter().map(|(_, kernel)| u128::from(total(kernel).0)).sum();
    let mut rows: Vec<KernelRow> = all
        .into_iter()
        .map(|(name, kernel)| {
            let (total, alone) = (total(kernel), kernel.launches);
            let timed = alone.timed.saturating_add(kernel.in_graphs.timed);
            KernelRow {
                kernel: name,
                count: alone.count,
                in_graphs: kernel.in_graphs.count,
                timed,
                total,
                mean: Nanos(total.0.checked_div(timed).unwrap_or(0)),
                longest: (alone.timed > 0).then_some(alone.longest),
                // At most 1000, so the narrowing is exact.
                share_permille: (u128::from(total.0) * 1000).checked_div(sum).unwrap_or(0) as u64,
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.total, b.count)
            .cmp(&(a.total, a.count))
            .then_with(|| a.kernel.cmp(&b.kernel))
    });
    rows
}

pub(super) fn copies(ledger: &Ledger) -> Vec<CopyRow> {
    let all = Direction::ALL.iter().map(|direction| {
        let copies = ledger.launches().copies(*direction);
        CopyRow {
            direction: *direction,
            count: copies.issued.count,
            bytes: copies.bytes,
            total: copies.issued.total,
        }
    });
    all.filter(|row| row.count > 0).collect()
}

pub(super) fn graphs(ledger: &Ledger) -> GraphsView {
    let graphs = ledger.graphs();
    let captures: u64 = Outcome::ALL.iter().map(|outcome| graphs.captures(*outcome)).sum();
    let captured = graphs.captures(Outcome::Complete);
    let present = graphs.graphs().values();
    GraphsView {
        captured,
        failed: captures - captured,
        present: present.len() as u64,
        stale: present.filter(|graph| graph.is_stale(ledger.memory())).count() as u64,
        replays: graphs.replays(),
        dropped: ReleaseCause::ALL.iter().map(|cause| graphs.dropped(*cause)).sum(),
    }
}
