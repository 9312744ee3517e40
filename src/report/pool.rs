//! Pools.

use crate::base::{Bytes, PoolId};
use crate::ledger::Ledger;
use crate::report::row::{Column, Row, display_as_line, size};
use crate::report::summary::owner_name;

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// Its number.
    pub pool: PoolId,
    /// Its owner's name.
    pub owner: String,
    /// Entries that can be used.
    pub live: u64,
    /// Entries without any storage left.
    pub dead: u64,
    /// Entries that lost part of their storage.
    pub torn: u64,
    /// Takes that found a live entry.
    pub hits: u64,
    /// Takes that found none.
    pub misses: u64,
    /// Takes that found a dead one and built it again.
    pub rebuilt: u64,
    /// Bytes of parts whose storage is there, rounding included.
    pub bytes: i128,
    /// Bytes of parts whose storage is gone.
    pub bytes_gone: i128,
    /// The largest sum of all parts, gone or not.
    pub bytes_peak: i128,
    /// It evicts above this; absent where its opening is not in the trace.
    pub limit: Option<Bytes>,
}

impl Row for PoolRow {
    const COLUMNS: &'static [Column] = &[
        Column::word("pool", 32),
        Column::figure("live", 5),
        Column::figure("dead", 5),
        Column::figure("torn", 5),
        Column::figure("hits", 8),
        Column::figure("misses", 8),
        Column::figure("rebuilt", 7),
        Column::figure("bytes", 11),
        Column::figure("gone", 11),
        Column::figure("peak", 11),
        Column::figure("limit", 11),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.owner.clone(),
            self.live.to_string(),
            self.dead.to_string(),
            self.torn.to_string(),
            self.hits.to_string(),
            self.misses.to_string(),
            self.rebuilt.to_string(),
            size(self.bytes),
            size(self.bytes_gone),
            size(self.bytes_peak),
            self.limit.map_or("-".to_owned(), |limit| limit.to_string()),
        ]
    }
}

display_as_line!(PoolRow);

pub(super) fn pools(ledger: &Ledger) -> Vec<PoolRow> {
    let census = ledger.census();
    let all = ledger.pools().pools().iter();
    all.map(|(id, pool)| {
        let entries = census.get(id).copied().unwrap_or_default();
        PoolRow {
            pool: *id,
            owner: pool
                .owner
                .map_or_else(|| format!("pool#{id}"), |owner| owner_name(ledger, owner)),
            live: entries.live,
            dead: entries.dead,
            torn: entries.torn,
            hits: pool.hits,
            misses: pool.misses,
            rebuilt: pool.rebuilt,
            bytes: entries.bytes_alive,
            bytes_gone: entries.bytes_gone,
            bytes_peak: pool.bytes_peak,
            limit: pool.owner.map(|_| pool.limit),
        }
    })
    .collect()
}
