//! The whole state in tables.

use crate::base::{DeviceId, OwnerId};
use crate::ledger::Ledger;
use crate::report::device::{self, DeviceRow, OwnerRow, SpaceRow};
use crate::report::pool::{self, PoolRow};
use crate::report::purge::{self, PurgeView};
use crate::report::row::{ROWS_SHOWN, Times, table};
use crate::report::run::{self, PhaseRow, RecordView};
use crate::report::work::{self, CopyRow, GraphsView, KernelRow};

/// All tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Devices, in the order of their numbers.
    pub devices: Vec<DeviceRow>,
    /// Owners that ever had memory, those with the highest peak first.
    pub owners: Vec<OwnerRow>,
    /// Pools, in the order of their numbers.
    pub pools: Vec<PoolRow>,
    /// Purges, in the order of their numbers.
    pub purges: Vec<PurgeView>,
    /// Kernels, those that took the most time first.
    pub kernels: Vec<KernelRow>,
    /// Copies by direction, where there were any.
    pub copies: Vec<CopyRow>,
    /// Graphs.
    pub graphs: GraphsView,
    /// Phases of prompts, in order.
    pub phases: Vec<PhaseRow>,
    /// How whole the record is.
    pub record: RecordView,
}

/// The state in tables.
#[must_use]
pub fn summarise(ledger: &Ledger) -> Summary {
    Summary {
        devices: device::devices(ledger),
        owners: device::owners(ledger),
        pools: pool::pools(ledger),
        purges: purge::purges(ledger),
        kernels: work::kernels(ledger),
        copies: work::copies(ledger),
        graphs: work::graphs(ledger),
        phases: run::phases(ledger),
        record: run::record(ledger),
    }
}

impl Summary {
    /// The order must not tell times that are not shown.
    fn kernels_for(&self, times: Times) -> Vec<KernelRow> {
        let mut rows = self.kernels.clone();
        if times == Times::Hidden {
            rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kernel.cmp(&b.kernel)));
        }
        rows
    }

    /// All tables as text; empty ones are left out.
    #[must_use]
    pub fn to_text(&self, times: Times) -> String {
        let mut out = table("DEVICES", &self.devices, times);
        let space: Vec<SpaceRow<'_>> = self.devices.iter().map(SpaceRow).collect();
        out += &table("SEGMENTS", &space, times);
        out += &table("OWNERS", &self.owners, times);
        out += &table("POOLS", &self.pools, times);
        if !self.purges.is_empty() {
            out += "PURGES\n";
        }
        let earlier = self.purges.len().saturating_sub(ROWS_SHOWN);
        if earlier > 0 {
            out += &format!("{earlier} earlier purges are not shown\n\n");
        }
        for purge in &self.purges[earlier..] {
            out += &purge.text(times);
        }
        out += &table("KERNELS", &self.kernels_for(times), times);
        out += &table("COPIES", &self.copies, times);
        if self.graphs != GraphsView::default() {
            out += &table("GRAPHS", std::slice::from_ref(&self.graphs), times);
        }
        out += &table("PROMPTS", &self.phases, times);
        out += &self.record.to_string();
        out.push('\n');
        out
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_text(Times::Shown))
    }
}

pub(super) fn device_name(ledger: &Ledger, id: DeviceId) -> String {
    let opened = ledger.memory().devices().get(id).and_then(|device| device.opened);
    let name = opened.and_then(|opened| ledger.name(opened.name));
    name.map_or_else(|| format!("device#{id}"), str::to_owned)
}

pub(super) fn owner_name(ledger: &Ledger, id: OwnerId) -> String {
    let name = ledger.owner_name(id);
    name.map_or_else(|| format!("owner#{id}"), str::to_owned)
}
