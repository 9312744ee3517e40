//! Devices and owners.

use crate::base::{Bytes, DeviceId, OwnerId};
use crate::event::{DeviceKind, OwnerKind};
use crate::ledger::{Account, Device, Ledger};
use crate::report::row::{Column, Row, display_as_line, size};
use crate::report::summary::{device_name, owner_name};

/// The balances of one device. All sizes are exact sums of what the trace states; nothing is read from a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRow {
    /// Its number.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// Its kind; absent where its opening is not in the trace.
    pub kind: Option<DeviceKind>,
    /// All its memory, or the budget; absent as above.
    pub total: Option<Bytes>,
    /// What the driver took for itself.
    pub context: i128,
    /// Bytes in segments, in use or not. The context is not included.
    pub reserved: i128,
    /// The largest `reserved`.
    pub reserved_peak: i128,
    /// Requested bytes of live buffers. Rounding is not included.
    pub live: i128,
    /// The largest `live`.
    pub live_peak: i128,
    /// Rounding of live buffers.
    pub slack: i128,
    /// Bytes in segments that are in no buffer.
    pub cached: i128,
    /// Release requested, not completed.
    pub pending: i128,
    /// Released, but held by a graph.
    pub held: i128,
    /// Segments.
    pub segments: u64,
    /// The largest free block inside a segment.
    pub largest: i128,
}

/// Prints sizes against capacity; what segments hold is in the fields and in the summary's next table.
impl Row for DeviceRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("device", 14),
        Column::word("kind", 7),
        Column::figure("total", 11),
        Column::figure("context", 11),
        Column::figure("reserved", 11),
        Column::figure("peak", 11),
        Column::figure("live", 11),
        Column::figure("live peak", 11),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.kind.map_or("-", DeviceKind::word).to_owned(),
            self.total.map_or("-".to_owned(), |total| total.to_string()),
            size(self.context),
            size(self.reserved),
            size(self.reserved_peak),
            size(self.live),
            size(self.live_peak),
        ]
    }
}

/// The same device: what its segments hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpaceRow<'a>(pub(super) &'a DeviceRow);

impl Row for SpaceRow<'_> {
    const COLUMNS: &'static [Column] = &[
        Column::word("device", 14),
        Column::figure("segments", 8),
        Column::figure("live", 11),
        Column::figure("slack", 11),
        Column::figure("cached", 11),
        Column::figure("pending", 11),
        Column::figure("held", 11),
        Column::figure("largest free", 12),
    ];

    fn cells(&self) -> Vec<String> {
        let row = self.0;
        vec![
            row.name.clone(),
            row.segments.to_string(),
            size(row.live),
            size(row.slack),
            size(row.cached),
            size(row.pending),
            size(row.held),
            size(row.largest),
        ]
    }
}

/// The memory of one owner, over all devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRow {
    /// Its number.
    pub owner: OwnerId,
    /// Its name.
    pub name: String,
    /// Its kind; absent where it never registered.
    pub kind: Option<OwnerKind>,
    /// Requested bytes of live buffers. Rounding is not included.
    pub live: i128,
    /// The largest `live`.
    pub live_peak: i128,
    /// Bytes of released buffers that are not back yet, rounding included.
    pub retained: i128,
    /// Buffers with storage.
    pub buffers: u64,
    /// Allocations ever.
    pub allocations: u64,
    /// Buffers whose storage a purge killed.
    pub killed: u64,
}

impl Row for OwnerRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("owner", 32),
        Column::word("kind", 9),
        Column::figure("live", 11),
        Column::figure("live peak", 11),
        Column::figure("retained", 11),
        Column::figure("buffers", 7),
        Column::figure("allocations", 11),
        Column::figure("killed", 6),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.kind.map_or("-", OwnerKind::word).to_owned(),
            size(self.live),
            size(self.live_peak),
            size(self.retained),
            self.buffers.to_string(),
            self.allocations.to_string(),
            self.killed.to_string(),
        ]
    }
}

display_as_line!(DeviceRow, OwnerRow);

pub(super) fn devices(ledger: &Ledger) -> Vec<DeviceRow> {
    let space = ledger.free_space();
    let row = |id: DeviceId, device: &Device| {
        let free = space.get(&id).copied().unwrap_or_default();
        let accounts = &device.accounts;
        DeviceRow {
            device: id,
            name: device_name(ledger, id),
            kind: device.opened.map(|opened| opened.kind),
            total: device.opened.map(|opened| opened.total),
            context: accounts.get(Account::Context),
            reserved: accounts.reserved(),
            reserved_peak: device.reserved_peak,
            live: accounts.get(Account::Live),
            live_peak: device.live_peak,
            slack: accounts.get(Account::Slack),
            cached: accounts.get(Account::Cached),
            pending: accounts.get(Account::Pending),
            held: accounts.get(Account::Held),
            segments: free.segments,
            largest: free.largest,
        }
    };
    let all = ledger.memory().devices().iter();
    all.map(|(id, device)| row(id, device)).collect()
}

/// Owners that ever had memory, those with the highest peak first.
pub(super) fn owners(ledger: &Ledger) -> Vec<OwnerRow> {
    let all = ledger.memory().owners().iter();
    let used = all.filter(|(_, owner)| owner.allocations > 0);
    let mut rows: Vec<OwnerRow> = used
        .map(|(id, owner)| OwnerRow {
            owner: id,
            name: owner_name(ledger, id),
            kind: ledger.owner_kind(id),
            live: owner.live,
            live_peak: owner.live_peak,
            retained: owner.retained,
            buffers: owner.buffers,
            allocations: owner.allocations,
            killed: owner.killed,
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.live_peak), row.owner));
    rows
}
