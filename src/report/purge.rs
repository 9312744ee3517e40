//! Purges: claims beside what was measured, and what survived.

use std::collections::BTreeMap;

use crate::base::{Bytes, DeviceId, Nanos, OwnerId, PurgeId};
use crate::event::{Holder, Outcome, Stage};
use crate::ledger::{Ledger, Purge, StageRun};
use crate::report::row::{Column, Row, Times, ascii, display_as_line, size, span, table};
use crate::report::summary::{device_name, owner_name};

/// One stage on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRow {
    /// The stage.
    pub stage: Stage,
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub device_name: String,
    /// What owners say they freed. Not measured, and not added to what was.
    pub claimed: Bytes,
    /// What the allocator's books lost; negative where they grew.
    pub allocator: i128,
    /// What the device got back by its own count; negative where it lost more. Other processes are in it.
    pub returned: i128,
    /// Buffers whose storage the stage killed, on all devices.
    pub killed: u64,
    /// Since the stage began.
    pub took: Nanos,
}

impl Row for StageRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("stage", 6),
        Column::word("device", 14),
        Column::figure("claimed", 11),
        Column::figure("allocator", 11),
        Column::figure("device", 11),
        Column::figure("killed", 6),
        Column::time("took", 8),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.stage.word().to_owned(),
            self.device_name.clone(),
            self.claimed.to_string(),
            size(self.allocator),
            size(self.returned),
            self.killed.to_string(),
            span(self.took),
        ]
    }
}

/// What survived a purge, by owner and holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivorRow {
    /// The owner's name.
    pub owner: String,
    /// Who keeps it.
    pub holder: Holder,
    /// Buffers.
    pub buffers: u64,
    /// Their bytes, rounding included; those that our books lack count nothing.
    pub bytes: i128,
}

impl Row for SurvivorRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("survivors of", 32),
        Column::word("kept by", 14),
        Column::figure("buffers", 7),
        Column::figure("bytes", 11),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.owner.clone(),
            self.holder.word().to_owned(),
            self.buffers.to_string(),
            size(self.bytes),
        ]
    }
}

display_as_line!(StageRow, SurvivorRow);

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeView {
    /// Its number.
    pub purge: PurgeId,
    /// Its profile's name; absent where its beginning is not in the trace.
    pub profile: Option<String>,
    /// How it ended; absent where it did not, or was refused.
    pub outcome: Option<Outcome>,
    /// Whether it was refused.
    pub refused: bool,
    /// Pieces of work in flight when it began.
    pub in_flight: u64,
    /// Buffers whose storage it killed.
    pub killed: u64,
    /// Their bytes, rounding included.
    pub killed_bytes: i128,
    /// From beginning to end.
    pub took: Option<Nanos>,
    /// Its stages, one a device.
    pub stages: Vec<StageRow>,
    /// What survived it.
    pub survivors: Vec<SurvivorRow>,
    /// Stages, claims, measurements and survivors that were too many to keep.
    pub left_out: u64,
}

impl PurgeView {
    /// The purge as text: a head and its tables.
    #[must_use]
    pub fn text(&self, times: Times) -> String {
        let state = match (self.outcome, self.refused) {
            (Some(outcome), _) => outcome.word(),
            (None, true) => "refused",
            (None, false) => "not ended",
        };
        let profile = self.profile.as_deref().map_or_else(|| "-".to_owned(), ascii);
        let mut head = format!(
            "purge#{} profile {profile}: {state}, buffers killed {} ({}), work in flight {}",
            self.purge,
            self.killed,
            size(self.killed_bytes),
            self.in_flight
        );
        if let (Some(took), Times::Shown) = (self.took, times) {
            head += &format!(", took {}", span(took));
        }
        if self.left_out > 0 {
            head += &format!(", details left out {}", self.left_out);
        }
        let stages = table(&head, &self.stages, times);
        let stages = if stages.is_empty() {
            format!("{head}\n\n")
        } else {
            stages
        };
        let survivors = table("", &self.survivors, times);
        format!("{stages}{}", survivors.trim_start())
    }
}

impl std::fmt::Display for PurgeView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Times::Shown))
    }
}

pub(super) fn purges(ledger: &Ledger) -> Vec<PurgeView> {
    let all = ledger.purges().purges().iter();
    all.map(|(id, purge)| view(ledger, *id, purge)).collect()
}

fn view(ledger: &Ledger, id: PurgeId, purge: &Purge) -> PurgeView {
    let (killed, killed_bytes) = purge.killed();
    PurgeView {
        purge: id,
        profile: purge.profile.map(|name| {
            ledger
                .name(name)
                .map_or_else(|| format!("name#{name}"), str::to_owned)
        }),
        outcome: purge.ended.map(|(outcome, _)| outcome),
        refused: purge.refused.is_some(),
        in_flight: purge.in_flight,
        killed,
        killed_bytes,
        took: purge.ended.map(|(_, mark)| mark.at.since(purge.began.at)),
        stages: purge
            .stages
            .iter()
            .flat_map(|run| stage_rows(ledger, run))
            .collect(),
        survivors: survivors(ledger, purge),
        left_out: purge.left_out,
    }
}

fn stage_rows<'a>(ledger: &'a Ledger, run: &'a StageRun) -> impl Iterator<Item = StageRow> + 'a {
    run.layers.iter().map(|layers| StageRow {
        stage: run.stage,
        device: layers.device,
        device_name: device_name(ledger, layers.device),
        claimed: layers.claimed,
        allocator: layers.allocator_freed(),
        returned: layers.device_freed(),
        killed: run.killed,
        took: layers.mark.at.since(run.began.at),
    })
}

fn survivors(ledger: &Ledger, purge: &Purge) -> Vec<SurvivorRow> {
    let mut sums = BTreeMap::<(OwnerId, Holder), (u64, i128)>::new();
    for survivor in &purge.survivors {
        let (buffers, bytes) = sums.entry((survivor.owner, survivor.holder)).or_default();
        *buffers += 1;
        *bytes += survivor.storage.map_or(0, |storage| storage.size());
    }
    let rows = sums
        .into_iter()
        .map(|((owner, holder), (buffers, bytes))| SurvivorRow {
            owner: owner_name(ledger, owner),
            holder,
            buffers,
            bytes,
        });
    rows.collect()
}
