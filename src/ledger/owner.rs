//! Owners: who asked for memory, and how much of it they have.

use crate::base::{Bytes, NameId, OwnerId};
use crate::event::{OwnerKind, OwnerRegistered, Stage};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::table::Table;

/// What an owner said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: NameId,
    /// Its kind.
    pub kind: OwnerKind,
    /// The stage of a purge that should clear it.
    pub cleared_by: Stage,
    /// When it did.
    pub mark: Mark,
}
digest!(Registration {
    name,
    kind,
    cleared_by,
    mark
});

/// One owner, with sums over all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// What it said of itself; absent where memory has an owner that never registered.
    pub registered: Option<Registration>,
    /// Requested bytes of its live buffers. Rounding is not included.
    pub live: i128,
    /// The largest [`Owner::live`].
    pub live_peak: i128,
    /// Bytes of its released buffers that are not back yet: pending or held. Rounding is included.
    pub retained: i128,
    /// Its buffers with storage, live or retained.
    pub buffers: u64,
    /// Allocations ever.
    pub allocations: u64,
    /// Requested bytes ever; saturates.
    pub allocated: Bytes,
    /// Buffers whose storage a purge killed.
    pub killed: u64,
}
digest!(Owner {
    registered,
    live,
    live_peak,
    retained,
    buffers,
    allocations,
    allocated,
    killed
});

/// All owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    table: Table<Owner, { limits::OWNERS }>,
    others: Owner,
}
digest!(Owners { table, others });

impl Owners {
    /// One owner.
    #[must_use]
    pub fn get(&self, id: OwnerId) -> Option<&Owner> {
        self.table.get(id.0)
    }

    /// All owners in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.table.iter().map(|(id, owner)| (OwnerId(id), owner))
    }

    /// The sums of the owners beyond [`limits::OWNERS`].
    #[must_use]
    pub fn others(&self) -> &Owner {
        &self.others
    }

    pub(crate) fn row(&mut self, id: OwnerId) -> &mut Owner {
        self.table.row(id.0).unwrap_or(&mut self.others)
    }

    pub(crate) fn registered(&mut self, mark: Mark, e: &OwnerRegistered, odd: &mut Anomalies) {
        let Some(owner) = self.table.row(e.owner.0) else {
            return odd.add(mark.seq, Why::OverLimit);
        };
        if owner.registered.is_some() {
            return odd.add(mark.seq, Why::Redefined);
        }
        owner.registered = Some(Registration {
            name: e.name,
            kind: e.kind,
            cleared_by: e.cleared_by,
            mark,
        });
    }
}
