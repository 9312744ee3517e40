//! Segments and buffers.

use std::collections::BTreeMap;

use crate::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, NameId, OwnerId, SegmentId, Seq, StreamId,
};
use crate::event::{BufferAllocated, BufferKilled, ReleaseCause, SegmentReserved};
use crate::ledger::accounts::Account;
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::device::Devices;
use crate::ledger::digest::{as_word_of_enum, digest};
use crate::ledger::kill::Obituary;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::owner::Owners;
use crate::ledger::table::Table;

/// A range from the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where; device 0 where its reservation is missing.
    pub device: DeviceId,
    /// The stream that it was reserved on.
    pub stream: StreamId,
    /// Its size.
    pub bytes: Bytes,
    /// Bytes of the buffers in it, rounding included.
    pub used: i128,
    /// How many buffers are in it.
    pub buffers: u64,
    /// When it was reserved, or first seen.
    pub reserved: Mark,
    /// Its reservation is missing from the trace.
    pub implied: bool,
}
digest!(Segment {
    device,
    stream,
    bytes,
    used,
    buffers,
    reserved,
    implied
});

/// Where a buffer is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// In use.
    Live,
    /// Release requested.
    Pending,
    /// Held by a graph.
    Held,
}
as_word_of_enum!(State);

impl State {
    /// The account of a released buffer; a live one is in two.
    fn released(state: Option<State>) -> Account {
        match state {
            Some(State::Pending) => Account::Pending,
            Some(State::Held) => Account::Held,
            Some(State::Live) | None => Account::Cached,
        }
    }
}

/// Storage of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where.
    pub device: DeviceId,
    /// In which segment.
    pub segment: SegmentId,
    /// The reservation of that segment, since the number may be used again.
    pub reservation: Seq,
    /// Where in the segment.
    pub offset: Bytes,
    /// What was asked for.
    pub requested: Bytes,
    /// What rounding added.
    pub slack: Bytes,
    /// Who asked.
    pub owner: OwnerId,
    /// What for.
    pub site: NameId,
    /// The stream whose order the storage follows.
    pub stream: StreamId,
    /// When.
    pub allocated: Mark,
    /// Where it is in its life.
    pub state: State,
    /// Why and when its release was requested, where it was.
    pub release: Option<(ReleaseCause, Mark)>,
    /// The graph that holds it, where one does.
    pub held_by: Option<GraphId>,
}
digest!(Buffer {
    device,
    segment,
    reservation,
    offset,
    requested,
    slack,
    owner,
    site,
    stream,
    allocated,
    state,
    release,
    held_by
});

impl Buffer {
    /// What it takes from its segment.
    #[must_use]
    pub fn size(&self) -> i128 {
        i128::from(self.requested.0) + i128::from(self.slack.0)
    }
}

/// One slot of the buffer table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Its current generation.
    pub generation: Generation,
    /// Its storage, where it has any.
    pub buffer: Option<Buffer>,
    /// The last piece of work that was given this slot.
    pub last_used: Option<Mark>,
    /// The pool entry that took this generation as a part.
    pub entry: Option<EntryId>,
    /// How many times graphs baked its storage; 0 without storage.
    pub graphs: u32,
}
digest!(Slot {
    generation,
    buffer,
    last_used,
    entry,
    graphs
});

/// The books of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    devices: Devices,
    owners: Owners,
    segments: BTreeMap<SegmentId, Segment>,
    slots: Table<Slot, { limits::BUFFERS }>,
}
digest!(Memory {
    devices,
    owners,
    segments,
    slots
});

impl Memory {
    /// Devices and their balances.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Owners and their sums.
    #[must_use]
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Segments that are with us.
    #[must_use]
    pub fn segments(&self) -> &BTreeMap<SegmentId, Segment> {
        &self.segments
    }

    /// One slot; absent where it was never used.
    #[must_use]
    pub fn slot(&self, id: BufferId) -> Option<&Slot> {
        self.slots.get(id.0)
    }

    /// All slots ever used.
    pub fn slots(&self) -> impl Iterator<Item = (BufferId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (BufferId(id), slot))
    }

    /// All storage: slot, its generation, buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (BufferId, Generation, &Buffer)> {
        self.slots()
            .filter_map(|(id, slot)| slot.buffer.as_ref().map(|buffer| (id, slot.generation, buffer)))
    }

    /// The storage of this generation.
    #[must_use]
    pub fn storage(&self, id: BufferId, generation: Generation) -> Option<&Buffer> {
        let slot = self.slots.get(id.0)?;
        slot.buffer.as_ref().filter(|_| slot.generation == generation)
    }

    /// Whether a handle that was made at `made` still reaches its storage: the slot has this generation, and
    /// its storage is not a later one of the same generation.
    #[must_use]
    pub fn reaches(&self, id: BufferId, generation: Generation, made: Seq) -> bool {
        self.storage(id, generation)
            .is_some_and(|buffer| buffer.allocated.seq < made)
    }

    pub(crate) fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    pub(crate) fn owners_mut(&mut self) -> &mut Owners {
        &mut self.owners
    }

    pub(crate) fn slot_mut(&mut self, id: BufferId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0)
    }

    pub(crate) fn reserved(&mut self, mark: Mark, e: &SegmentReserved, odd: &mut Anomalies) {
        if self.segments.contains_key(&e.segment) {
            return odd.add(mark.seq, Why::DuplicateSegment);
        }
        self.add_segment(mark, (e.segment, e.device, e.stream, e.bytes), false, odd);
    }

    fn add_segment(
        &mut self,
        mark: Mark,
        (id, device, stream, bytes): (SegmentId, DeviceId, StreamId, Bytes),
        implied: bool,
        odd: &mut Anomalies,
    ) -> bool {
        if self.segments.len() >= limits::SEGMENTS {
            odd.add(mark.seq, Why::OverLimit);
            return false;
        }
        let segment = Segment {
            device,
            stream,
            bytes,
            used: 0,
            buffers: 0,
            reserved: mark,
            implied,
        };
        self.segments.insert(id, segment);
        let moves = [(Account::Driver, Account::Cached, i128::from(bytes.0))];
        self.devices.post(mark, device, &moves, odd);
        true
    }

    pub(crate) fn returned(&mut self, mark: Mark, id: SegmentId, odd: &mut Anomalies) {
        let Some(segment) = self.segments.remove(&id) else {
            return odd.add(mark.seq, Why::UnknownSegment);
        };
        if segment.buffers > 0 {
            odd.add(mark.seq, Why::ReturnedWithBuffers);
        }
        let free = (i128::from(segment.bytes.0) - segment.used).max(0);
        let moves = [(Account::Cached, Account::Driver, free)];
        self.devices.post(mark, segment.device, &moves, odd);
    }

    pub(crate) fn allocated(&mut self, mark: Mark, e: &BufferAllocated, odd: &mut Anomalies) {
        if let Some(slot) = self.slots.get(e.buffer.0) {
            if slot.buffer.is_some() {
                return odd.add(mark.seq, Why::AllocatedOverLive);
            }
            // Half the circle lies ahead, since generations wrap.
            if (e.generation.0.wrapping_sub(slot.generation.0) as i32) < 0 {
                return odd.add(mark.seq, Why::WrongGeneration);
            }
        }
        if !self.segments.contains_key(&e.segment) {
            odd.add(mark.seq, Why::UnknownSegment);
            let size = Bytes(e.requested.0.saturating_add(e.slack.0));
            if !self.add_segment(mark, (e.segment, DeviceId(0), e.stream, size), true, odd) {
                return;
            }
        }
        let Some(slot) = self.slots.row(e.buffer.0) else {
            return odd.add(mark.seq, Why::OverLimit);
        };
        let Some(segment) = self.segments.get_mut(&e.segment) else {
            return;
        };
        let buffer = Buffer {
            device: segment.device,
            segment: e.segment,
            reservation: segment.reserved.seq,
            offset: e.offset,
            requested: e.requested,
            slack: e.slack,
            owner: e.owner,
            site: e.site,
            stream: e.stream,
            allocated: mark,
            state: State::Live,
            release: None,
            held_by: None,
        };
        segment.used += buffer.size();
        segment.buffers += 1;
        slot.generation = e.generation;
        slot.buffer = Some(buffer);
        slot.entry = None;
        slot.graphs = 0;
        let owner = self.owners.row(e.owner);
        owner.live += i128::from(e.requested.0);
        owner.live_peak = owner.live_peak.max(owner.live);
        owner.buffers += 1;
        owner.allocations += 1;
        owner.allocated += e.requested;
        let moves = [
            (Account::Cached, Account::Live, i128::from(e.requested.0)),
            (Account::Cached, Account::Slack, i128::from(e.slack.0)),
        ];
        self.devices.post(mark, buffer.device, &moves, odd);
    }

    /// The storage, where slot, generation and state fit; an anomaly otherwise.
    fn find(
        &self,
        mark: Mark,
        (id, generation): (BufferId, Generation),
        states: &[State],
        odd: &mut Anomalies,
    ) -> Option<Buffer> {
        let slot = self.slots.get(id.0);
        let why = match slot.and_then(|s| s.buffer.as_ref().map(|b| (s.generation, b))) {
            None => Why::UnknownBuffer,
            Some((current, _)) if current != generation => Why::WrongGeneration,
            Some((_, buffer)) if states.contains(&buffer.state) => return Some(*buffer),
            Some(_) => Why::WrongState,
        };
        odd.add(mark.seq, why);
        None
    }

    /// Moves a buffer's bytes to where released buffers of state `to` are; `None` is back into its segment.
    fn take_out(&mut self, mark: Mark, buffer: &Buffer, to: Option<State>, odd: &mut Anomalies) {
        let (account, device) = (State::released(to), buffer.device);
        let (requested, size) = (i128::from(buffer.requested.0), buffer.size());
        let owner = self.owners.row(buffer.owner);
        if buffer.state == State::Live {
            owner.live -= requested;
            owner.retained += size;
            let slack = i128::from(buffer.slack.0);
            let moves = [
                (Account::Live, account, requested),
                (Account::Slack, account, slack),
            ];
            self.devices.post(mark, device, &moves, odd);
        } else {
            let moves = [(State::released(Some(buffer.state)), account, size)];
            self.devices.post(mark, device, &moves, odd);
        }
        if to.is_some() {
            return;
        }
        owner.retained -= size;
        owner.buffers = owner.buffers.saturating_sub(1);
        let segment = self.segments.get_mut(&buffer.segment);
        match segment.filter(|segment| segment.reserved.seq == buffer.reservation) {
            Some(segment) => {
                segment.used -= size;
                segment.buffers = segment.buffers.saturating_sub(1);
            }
            // A segment that went back early leaves nothing to cache.
            None => self
                .devices
                .post(mark, device, &[(account, Account::Driver, size)], odd),
        }
    }

    /// A step of a release. Returns what the buffer was, where it ended here.
    pub(crate) fn moved(&mut self, mark: Mark, step: &Step, odd: &mut Anomalies) -> Option<Buffer> {
        let place = (step.buffer, step.generation);
        let buffer = self.find(mark, place, step.from, odd)?;
        self.take_out(mark, &buffer, step.to, odd);
        let slot = self.slots.get_mut(step.buffer.0)?;
        slot.buffer = step.to.map(|state| Buffer {
            state,
            release: step.cause.map(|cause| (cause, mark)).or(buffer.release),
            held_by: step.graph,
            ..buffer
        });
        if slot.buffer.is_some() {
            return None;
        }
        slot.graphs = 0;
        Some(buffer)
    }

    /// Whether a death ended no storage that the record knows.
    pub(crate) fn is_death_alone(&mut self, e: &BufferKilled) -> bool {
        self.slots
            .get_mut(e.buffer.0)
            .is_none_or(|slot| slot.buffer.is_none())
    }

    pub(crate) fn killed(&mut self, mark: Mark, e: &BufferKilled, odd: &mut Anomalies) -> Option<Obituary> {
        let all = [State::Live, State::Pending, State::Held];
        let buffer = self.find(mark, (e.buffer, e.generation), &all, odd)?;
        self.take_out(mark, &buffer, None, odd);
        self.owners.row(buffer.owner).killed += 1;
        let slot = self.slots.get_mut(e.buffer.0)?;
        slot.buffer = None;
        slot.generation = e.generation.next();
        Some(Obituary {
            purge: e.purge,
            stage: e.stage,
            mark,
            buffer,
            entry: slot.entry.take(),
            graphs: std::mem::take(&mut slot.graphs),
        })
    }

    /// Work was given these slots.
    pub(crate) fn used(&mut self, mark: Mark, id: BufferId, odd: &mut Anomalies) {
        match self.slots.get_mut(id.0) {
            Some(slot) if slot.buffer.is_some() => slot.last_used = Some(mark),
            _ => odd.add(mark.seq, Why::UseWithoutStorage),
        }
    }
}

/// One step of a release: requested, held or completed.
pub(crate) struct Step {
    pub(crate) buffer: BufferId,
    pub(crate) generation: Generation,
    pub(crate) from: &'static [State],
    /// `None`: back into its segment.
    pub(crate) to: Option<State>,
    pub(crate) cause: Option<ReleaseCause>,
    pub(crate) graph: Option<GraphId>,
}
