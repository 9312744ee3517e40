//! What readers ask of the state. Answers that no event needs are computed here, on demand.

use std::collections::BTreeMap;

use crate::base::{BufferId, DeviceId, Generation, GraphId, NameId, OwnerId, PoolId, SegmentId};
use crate::event::OwnerKind;
use crate::ledger::accounts::Accounts;
use crate::ledger::fold::Ledger;
use crate::ledger::graph::Baked;
use crate::ledger::kill::Obituary;
use crate::ledger::memory::{Buffer, Segment};
use crate::ledger::owner::Registration;
use crate::ledger::pool::Vitality;

/// Entries of one pool by vitality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Entries that can be used.
    pub live: u64,
    /// Entries without any storage left.
    pub dead: u64,
    /// Entries that lost part of their storage.
    pub torn: u64,
    /// Bytes of parts whose storage is there, rounding included.
    pub bytes_alive: i128,
    /// Bytes of parts whose storage is gone, as they were when they were set.
    pub bytes_gone: i128,
}

/// Free space inside the segments of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Segments.
    pub segments: u64,
    /// Segments without any buffer.
    pub empty: u64,
    /// Bytes of those.
    pub empty_bytes: i128,
    /// Bytes in no buffer, in sum.
    pub free: i128,
    /// Free bytes in segments that a buffer pins.
    pub pinned: i128,
    /// The largest free block.
    pub largest: i128,
}

impl Ledger {
    /// The balances of a device; all zero where it is not known.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Accounts {
        let known = self.memory().devices().get(device);
        known.map(|known| known.accounts.clone()).unwrap_or_default()
    }

    /// The text of a name.
    #[must_use]
    pub fn name(&self, name: NameId) -> Option<&str> {
        self.run().name(name)
    }

    /// What an owner said of itself.
    #[must_use]
    pub fn owner(&self, owner: OwnerId) -> Option<&Registration> {
        self.memory().owners().get(owner)?.registered.as_ref()
    }

    /// The name of an owner.
    #[must_use]
    pub fn owner_name(&self, owner: OwnerId) -> Option<&str> {
        self.name(self.owner(owner)?.name)
    }

    /// The kind of an owner.
    #[must_use]
    pub fn owner_kind(&self, owner: OwnerId) -> Option<OwnerKind> {
        self.owner(owner).map(|registration| registration.kind)
    }

    /// Requested bytes of live buffers by owner; owners without any are left out.
    #[must_use]
    pub fn live_by_owner(&self) -> BTreeMap<OwnerId, i128> {
        let owners = self.memory().owners().iter();
        owners
            .filter(|(_, owner)| owner.live > 0)
            .map(|(id, owner)| (id, owner.live))
            .collect()
    }

    /// How the storage of this generation died: by whom, and who held it then.
    #[must_use]
    pub fn obituary(&self, buffer: BufferId, generation: Generation) -> Option<&Obituary> {
        self.kills().get(buffer, generation)
    }

    /// Graphs that baked this generation.
    #[must_use]
    pub fn graphs_of(&self, buffer: BufferId, generation: Generation) -> Vec<GraphId> {
        let bakes = |b: &Baked| b.buffer == buffer && b.generation == generation;
        let graphs = self.graphs().graphs().iter();
        graphs
            .filter(|(_, graph)| graph.baked.iter().any(bakes))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Entries by pool and vitality. Pools without entries are left out.
    #[must_use]
    pub fn census(&self) -> BTreeMap<PoolId, Census> {
        let mut by_pool = BTreeMap::<PoolId, Census>::new();
        for entry in self.pools().entries().values() {
            let census = by_pool.entry(entry.pool).or_default();
            match entry.vitality(self.memory()) {
                Vitality::Live => census.live += 1,
                Vitality::Dead => census.dead += 1,
                Vitality::Torn => census.torn += 1,
            }
            for part in &entry.parts {
                if part.alive(self.memory()) {
                    census.bytes_alive += part.bytes;
                } else {
                    census.bytes_gone += part.bytes;
                }
            }
        }
        by_pool
    }

    /// Buffers by segment, in the order of their place. Segments without any are left out.
    #[must_use]
    pub fn buffers_by_segment(&self) -> BTreeMap<SegmentId, Vec<(BufferId, Buffer)>> {
        let mut by_segment = BTreeMap::<SegmentId, Vec<(BufferId, Buffer)>>::new();
        for (id, _, buffer) in self.memory().buffers() {
            let segment = self.memory().segments().get(&buffer.segment);
            if segment.is_some_and(|segment| segment.reserved.seq == buffer.reservation) {
                by_segment.entry(buffer.segment).or_default().push((id, *buffer));
            }
        }
        for buffers in by_segment.values_mut() {
            buffers.sort_by_key(|(id, buffer)| (buffer.offset, *id));
        }
        by_segment
    }

    /// Free space by device.
    #[must_use]
    pub fn free_space(&self) -> BTreeMap<DeviceId, FreeSpace> {
        let mut by_device = BTreeMap::<DeviceId, FreeSpace>::new();
        let inside = self.buffers_by_segment();
        for (id, segment) in self.memory().segments() {
            let space = by_device.entry(segment.device).or_default();
            let buffers = inside.get(id).map_or(&[][..], Vec::as_slice);
            space.segments += 1;
            let free = (i128::from(segment.bytes.0) - segment.used).max(0);
            space.free += free;
            if buffers.is_empty() {
                space.empty += 1;
                space.empty_bytes += free;
            } else {
                space.pinned += free;
            }
            space.largest = space.largest.max(largest(segment, buffers));
        }
        by_device
    }
}

/// The largest hole between buffers that are in the order of their place.
fn largest(segment: &Segment, buffers: &[(BufferId, Buffer)]) -> i128 {
    let (mut end, mut largest) = (0, 0);
    for (_, buffer) in buffers {
        let start = i128::from(buffer.offset.0);
        largest = largest.max(start - end);
        end = end.max(start + buffer.size());
    }
    largest.max(i128::from(segment.bytes.0) - end)
}
