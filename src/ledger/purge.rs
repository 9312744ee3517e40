//! Purges, stage by stage: claims, what the allocator's books say, what the device says. They are never added up.

use std::collections::BTreeMap;

use crate::base::{BufferId, Bytes, DeviceId, Generation, NameId, OwnerId, PurgeId};
use crate::event::{
    Holder, Outcome, OwnerCleared, PurgeBegan, PurgeEnded, PurgeRefused, PurgeSurvivor, Stage, StageEnded,
};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::launch::{InFlight, Launches};
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::memory::{Buffer, Memory};

/// What an owner says that it cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The owner.
    pub owner: OwnerId,
    /// Where.
    pub device: DeviceId,
    /// How many entries.
    pub entries: u64,
    /// How many bytes it says it freed. Not measured.
    pub bytes: Bytes,
    /// When.
    pub mark: Mark,
}
digest!(Claim {
    owner,
    device,
    entries,
    bytes,
    mark
});

/// The three layers of one stage on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// The device.
    pub device: DeviceId,
    /// The sum of its owners' claims, as the runtime states it.
    pub claimed: Bytes,
    /// Live bytes in the allocator's books before.
    pub allocator_before: Bytes,
    /// The same after.
    pub allocator_after: Bytes,
    /// Used bytes by the device's own count before; other processes are in it.
    pub device_before: Bytes,
    /// The same after.
    pub device_after: Bytes,
    /// When.
    pub mark: Mark,
}
digest!(Layers {
    device,
    claimed,
    allocator_before,
    allocator_after,
    device_before,
    device_after,
    mark
});

impl Layers {
    /// What the allocator's books lost; negative where they grew.
    #[must_use]
    pub fn allocator_freed(&self) -> i128 {
        i128::from(self.allocator_before.0) - i128::from(self.allocator_after.0)
    }

    /// What the device got back; negative where it lost more.
    #[must_use]
    pub fn device_freed(&self) -> i128 {
        i128::from(self.device_before.0) - i128::from(self.device_after.0)
    }
}

/// One run of one stage. Some stages run twice in a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRun {
    /// The stage.
    pub stage: Stage,
    /// When it began.
    pub began: Mark,
    /// What its owners claim.
    pub claims: Vec<Claim>,
    /// Measured, one a device; empty while the stage is not over.
    pub layers: Vec<Layers>,
    /// Buffers whose storage it killed.
    pub killed: u64,
    /// Their bytes, rounding included.
    pub killed_bytes: i128,
}
digest!(StageRun {
    stage,
    began,
    claims,
    layers,
    killed,
    killed_bytes
});

/// A buffer that outlived a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The slot.
    pub buffer: BufferId,
    /// Its generation.
    pub generation: Generation,
    /// Its owner.
    pub owner: OwnerId,
    /// Who keeps it.
    pub holder: Holder,
    /// Its storage at that time, where our books have it.
    pub storage: Option<Buffer>,
    /// When it was listed.
    pub mark: Mark,
}
digest!(Survivor {
    buffer,
    generation,
    owner,
    holder,
    storage,
    mark
});

/// What a device's books said when a purge ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Bytes in segments.
    pub reserved: i128,
    /// Segments without any buffer that stayed.
    pub empty_segments: u64,
    /// Their bytes.
    pub empty_bytes: i128,
    /// Segments that a buffer pins and that have free bytes.
    pub pinned_segments: u64,
    /// Those free bytes.
    pub pinned_bytes: i128,
}
digest!(Rest {
    reserved,
    empty_segments,
    empty_bytes,
    pinned_segments,
    pinned_bytes
});

/// One purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Its profile; absent where its beginning is missing.
    pub profile: Option<NameId>,
    /// The storage kill takes buffers of at least this size.
    pub threshold: Bytes,
    /// Pieces of work that were in flight when it began, or when it was refused.
    pub in_flight: u64,
    /// Those of them that our books know; at most [`limits::PURGE_WORK`].
    pub work: Vec<InFlight>,
    /// When it began, or was first seen.
    pub began: Mark,
    /// When it was refused, where it was.
    pub refused: Option<Mark>,
    /// How and when it ended, where it did.
    pub ended: Option<(Outcome, Mark)>,
    /// The books by device when it ended.
    pub rest: BTreeMap<DeviceId, Rest>,
    /// Its stages in their order.
    pub stages: Vec<StageRun>,
    /// What outlived it.
    pub survivors: Vec<Survivor>,
    /// Stages, claims, measurements and survivors that were not kept.
    pub left_out: u64,
}
digest!(Purge {
    profile,
    threshold,
    in_flight,
    work,
    began,
    refused,
    ended,
    rest,
    stages,
    survivors,
    left_out
});

impl Purge {
    /// Buffers whose storage it killed, and their bytes.
    #[must_use]
    pub fn killed(&self) -> (u64, i128) {
        let each = self.stages.iter().map(|run| (run.killed, run.killed_bytes));
        each.fold((0, 0), |(n, bytes), (more, size)| (n + more, bytes + size))
    }

    /// Whether it ran this stage.
    #[must_use]
    pub fn ran(&self, stage: Stage) -> bool {
        self.stages.iter().any(|run| run.stage == stage)
    }
}

/// All purges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purges {
    purges: BTreeMap<PurgeId, Purge>,
    details: u64,
    outcomes: [u64; Outcome::ALL.len()],
    refused: u64,
    forgotten: u64,
}
digest!(Purges {
    purges,
    details,
    outcomes,
    refused,
    forgotten
});

impl Purges {
    /// Purges by number.
    #[must_use]
    pub fn purges(&self) -> &BTreeMap<PurgeId, Purge> {
        &self.purges
    }

    /// How many purges ended so, kept or not.
    #[must_use]
    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// How many purges were refused, kept or not.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused
    }

    /// Purges that were too many to keep: the earliest.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The purge, made where it is new.
    fn row(&mut self, mark: Mark, id: PurgeId) -> &mut Purge {
        if self.purges.len() >= limits::PURGES && !self.purges.contains_key(&id) {
            self.forget(id);
        }
        let fresh = || Purge {
            began: mark,
            ..Purge::default()
        };
        self.purges.entry(id).or_insert_with(fresh)
    }

    /// Forgets the earliest purge but this one. Says whether there was one.
    fn forget(&mut self, keep: PurgeId) -> bool {
        let first = self.purges.keys().copied().find(|id| *id != keep);
        let Some(purge) = first.and_then(|id| self.purges.remove(&id)) else {
            return false;
        };
        self.details = self.details.saturating_sub(purge.details());
        self.forgotten += 1;
        true
    }

    pub(crate) fn began(&mut self, mark: Mark, e: &PurgeBegan, launches: &Launches, odd: &mut Anomalies) {
        if self.purges.get(&e.purge).is_some_and(|p| p.profile.is_some()) {
            return odd.add(mark.seq, Why::DuplicatePurge);
        }
        let purge = self.row(mark, e.purge);
        purge.profile = Some(e.profile);
        (purge.threshold, purge.in_flight) = (e.threshold, e.in_flight);
        let work = launches.in_flight().values().take(limits::PURGE_WORK);
        purge.work = work.copied().collect();
    }

    pub(crate) fn refused_one(&mut self, mark: Mark, e: &PurgeRefused, launches: &Launches) {
        self.refused += 1;
        let purge = self.row(mark, e.purge);
        (purge.refused, purge.in_flight) = (Some(mark), e.in_flight);
        let work = launches.in_flight().values().take(limits::PURGE_WORK);
        purge.work = work.copied().collect();
    }

    /// The purge, where one more detail may be kept. Made, with an anomaly, where it is not known.
    fn detail(&mut self, mark: Mark, id: PurgeId, odd: &mut Anomalies) -> Option<&mut Purge> {
        if !self.purges.contains_key(&id) {
            odd.add(mark.seq, Why::UnknownPurge);
        }
        self.row(mark, id);
        let full = |purges: &Purges| purges.details >= limits::PURGE_DETAILS as u64;
        while full(self) && self.forget(id) {}
        let room = !full(self);
        self.details += u64::from(room);
        let purge = self.purges.get_mut(&id)?;
        purge.left_out += u64::from(!room);
        room.then_some(purge)
    }

    pub(crate) fn stage_began(&mut self, mark: Mark, id: PurgeId, stage: Stage, odd: &mut Anomalies) {
        match self.purges.get_mut(&id) {
            Some(purge) if purge.stages.len() >= limits::STAGES => purge.left_out += 1,
            _ => {
                if let Some(purge) = self.detail(mark, id, odd) {
                    purge.stages.push(StageRun::new(mark, stage));
                }
            }
        }
    }

    pub(crate) fn cleared(&mut self, mark: Mark, e: &OwnerCleared, odd: &mut Anomalies) {
        if let Some(purge) = self.detail(mark, e.purge, odd) {
            purge.run(mark, e.stage, odd).claims.push(Claim {
                owner: e.owner,
                device: e.device,
                entries: e.entries,
                bytes: e.bytes,
                mark,
            });
        }
    }

    pub(crate) fn stage_ended(&mut self, mark: Mark, e: &StageEnded, odd: &mut Anomalies) {
        if let Some(purge) = self.detail(mark, e.purge, odd) {
            purge.run(mark, e.stage, odd).layers.push(Layers {
                device: e.device,
                claimed: e.claimed,
                allocator_before: e.allocator_before,
                allocator_after: e.allocator_after,
                device_before: e.device_before,
                device_after: e.device_after,
                mark,
            });
        }
    }

    pub(crate) fn survived(&mut self, mark: Mark, e: &PurgeSurvivor, memory: &Memory, odd: &mut Anomalies) {
        let storage = memory.storage(e.buffer, e.generation).copied();
        if storage.is_none() {
            odd.add(mark.seq, Why::UnknownBuffer);
        }
        if let Some(purge) = self.detail(mark, e.purge, odd) {
            purge.survivors.push(Survivor {
                buffer: e.buffer,
                generation: e.generation,
                owner: e.owner,
                holder: e.holder,
                storage,
                mark,
            });
        }
    }

    /// A stage killed a buffer. The kill stands without its purge, which may be lost.
    pub(crate) fn killed(&mut self, id: PurgeId, stage: Stage, bytes: i128) {
        let purge = self.purges.get_mut(&id);
        let run = purge.and_then(|p| p.stages.iter_mut().rev().find(|run| run.stage == stage));
        if let Some(run) = run {
            run.killed += 1;
            run.killed_bytes += bytes;
        }
    }

    pub(crate) fn ended(&mut self, mark: Mark, e: &PurgeEnded, memory: &Memory, odd: &mut Anomalies) {
        match self.purges.get_mut(&e.purge) {
            None => odd.add(mark.seq, Why::UnknownPurge),
            Some(purge) if purge.ended.is_some() => odd.add(mark.seq, Why::WrongState),
            Some(purge) => {
                self.outcomes[e.outcome as usize] += 1;
                purge.ended = Some((e.outcome, mark));
                purge.rest = rest(memory);
            }
        }
    }
}

fn rest(memory: &Memory) -> BTreeMap<DeviceId, Rest> {
    let mut by_device = BTreeMap::<DeviceId, Rest>::new();
    for (id, device) in memory.devices().iter() {
        by_device.entry(id).or_default().reserved = device.accounts.reserved();
    }
    for segment in memory.segments().values() {
        // Devices beyond the limit are not told apart.
        let Some(rest) = by_device.get_mut(&segment.device) else {
            continue;
        };
        let free = i128::from(segment.bytes.0) - segment.used;
        if segment.buffers == 0 {
            rest.empty_segments += 1;
            rest.empty_bytes += free;
        } else if free > 0 {
            rest.pinned_segments += 1;
            rest.pinned_bytes += free;
        }
    }
    by_device
}

impl StageRun {
    fn new(began: Mark, stage: Stage) -> StageRun {
        StageRun {
            stage,
            began,
            claims: Vec::new(),
            layers: Vec::new(),
            killed: 0,
            killed_bytes: 0,
        }
    }
}

impl Purge {
    /// How many stages, claims, measurements and survivors it has.
    fn details(&self) -> u64 {
        let inside = self
            .stages
            .iter()
            .map(|run| 1 + run.claims.len() + run.layers.len());
        (inside.sum::<usize>() + self.survivors.len()) as u64
    }

    /// The last run of a stage; made, with an anomaly, where its beginning is missing. There are fewer stages than
    /// [`limits::STAGES`], so the list stays short.
    fn run(&mut self, mark: Mark, stage: Stage, odd: &mut Anomalies) -> &mut StageRun {
        let found = self.stages.iter().rposition(|run| run.stage == stage);
        let index = found.unwrap_or_else(|| {
            odd.add(mark.seq, Why::UnknownPurge);
            self.stages.push(StageRun::new(mark, stage));
            self.stages.len() - 1
        });
        &mut self.stages[index]
    }
}
