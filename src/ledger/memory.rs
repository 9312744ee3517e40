//! Segments and buffers.

use std::collections::BTreeMap;

use crate::base::{BufferId, Bytes, DeviceId, Generation, Nanos, OwnerId, PurgeId, SegmentId, Seq};
use crate::event::{BufferAllocated, BufferKilled, SegmentReserved, Stage};
use crate::ledger::accounts::{Account, Accounts};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::Untimed;

/// A range from the driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Where; device 0 where its reservation is missing.
    pub device: DeviceId,
    /// Its size.
    pub bytes: Bytes,
}

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

/// Storage of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Where.
    pub device: DeviceId,
    /// In which segment.
    pub segment: SegmentId,
    /// What was asked for.
    pub requested: Bytes,
    /// What rounding added.
    pub slack: Bytes,
    /// Who asked.
    pub owner: OwnerId,
    /// Where it is in its life.
    pub state: State,
}

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

impl Buffer {
    fn size(&self) -> i128 {
        i128::from(self.requested.0) + i128::from(self.slack.0)
    }
}

/// How the storage of a slot was killed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Obituary {
    /// The generation that died.
    pub generation: Generation,
    /// The purge.
    pub purge: PurgeId,
    /// Its stage.
    pub stage: Stage,
    /// The event.
    pub seq: Seq,
    /// When.
    pub at: Untimed<Nanos>,
}

/// One slot of the buffer table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its current generation.
    pub generation: Generation,
    /// Its storage, where it has any.
    pub buffer: Option<Buffer>,
    /// Its last death, where it had one.
    pub obituary: Option<Obituary>,
}

/// The books of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Balances by device.
    pub accounts: BTreeMap<DeviceId, Accounts>,
    /// Segments that are with us.
    pub segments: BTreeMap<SegmentId, Segment>,
    /// Slots ever used.
    pub slots: BTreeMap<BufferId, Slot>,
    /// What did not fit.
    pub anomalies: Anomalies,
}

impl Memory {
    pub(crate) fn post(&mut self, seq: Seq, device: DeviceId, from: Account, to: Account, bytes: i128) {
        if self.accounts.entry(device).or_default().post(from, to, bytes) > 0 {
            self.anomalies.add(seq, Why::ImpliedOpening);
        }
    }

    pub(crate) fn reserved(&mut self, seq: Seq, e: &SegmentReserved) {
        if self.segments.contains_key(&e.segment) {
            return self.anomalies.add(seq, Why::DuplicateSegment);
        }
        self.segments.insert(
            e.segment,
            Segment {
                device: e.device,
                bytes: e.bytes,
            },
        );
        self.post(
            seq,
            e.device,
            Account::Driver,
            Account::Cached,
            i128::from(e.bytes.0),
        );
    }

    pub(crate) fn returned(&mut self, seq: Seq, id: SegmentId) {
        let Some(segment) = self.segments.remove(&id) else {
            return self.anomalies.add(seq, Why::UnknownSegment);
        };
        let inside = self
            .slots
            .values()
            .filter_map(|s| s.buffer.as_ref())
            .filter(|b| b.segment == id);
        let (count, used) = inside.fold((0, 0), |(n, sum), b| (n + 1, sum + b.size()));
        if count > 0 {
            self.anomalies.add(seq, Why::ReturnedWithBuffers);
        }
        let free = (i128::from(segment.bytes.0) - used).max(0);
        self.post(seq, segment.device, Account::Cached, Account::Driver, free);
    }

    pub(crate) fn allocated(&mut self, seq: Seq, e: &BufferAllocated) {
        let slot = self.slots.entry(e.buffer).or_default();
        if slot.buffer.is_some() {
            return self.anomalies.add(seq, Why::AllocatedOverLive);
        }
        if (e.generation.0.wrapping_sub(slot.generation.0) as i32) < 0 {
            return self.anomalies.add(seq, Why::WrongGeneration);
        }
        let size = Bytes(e.requested.0.saturating_add(e.slack.0));
        let known = self.segments.get(&e.segment).map(|s| s.device);
        let device = known.unwrap_or_default();
        slot.generation = e.generation;
        slot.buffer = Some(Buffer {
            device,
            segment: e.segment,
            requested: e.requested,
            slack: e.slack,
            owner: e.owner,
            state: State::Live,
        });
        if known.is_none() {
            self.anomalies.add(seq, Why::UnknownSegment);
            self.segments.insert(e.segment, Segment { device, bytes: size });
            self.post(seq, device, Account::Driver, Account::Cached, i128::from(size.0));
        }
        self.post(
            seq,
            device,
            Account::Cached,
            Account::Live,
            i128::from(e.requested.0),
        );
        self.post(
            seq,
            device,
            Account::Cached,
            Account::Slack,
            i128::from(e.slack.0),
        );
    }

    /// The storage, where slot, generation and state fit; an anomaly otherwise.
    fn find(&mut self, seq: Seq, id: BufferId, generation: Generation, states: &[State]) -> Option<Buffer> {
        let slot = self.slots.get(&id);
        let why = match slot.and_then(|s| s.buffer.as_ref().map(|b| (s.generation, b))) {
            None => Why::UnknownBuffer,
            Some((current, _)) if current != generation => Why::WrongGeneration,
            Some((_, buffer)) if states.contains(&buffer.state) => return Some(buffer.clone()),
            Some(_) => Why::WrongState,
        };
        self.anomalies.add(seq, why);
        None
    }

    /// Moves a buffer's bytes to where released buffers of state `to` are; `None` is back into its segment.
    fn take_out(&mut self, seq: Seq, buffer: &Buffer, to: Option<State>) {
        let account = State::released(to);
        let device = buffer.device;
        if buffer.state == State::Live {
            self.post(
                seq,
                device,
                Account::Live,
                account,
                i128::from(buffer.requested.0),
            );
            self.post(seq, device, Account::Slack, account, i128::from(buffer.slack.0));
        } else {
            self.post(
                seq,
                device,
                State::released(Some(buffer.state)),
                account,
                buffer.size(),
            );
        }
        // A segment that went back early leaves nothing to cache.
        if to.is_none() && !self.segments.contains_key(&buffer.segment) {
            self.post(seq, device, account, Account::Driver, buffer.size());
        }
    }

    pub(crate) fn moved(
        &mut self,
        seq: Seq,
        id: BufferId,
        generation: Generation,
        from: &[State],
        to: Option<State>,
    ) {
        let Some(buffer) = self.find(seq, id, generation, from) else {
            return;
        };
        self.take_out(seq, &buffer, to);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.buffer = to.map(|state| Buffer { state, ..buffer });
        }
    }

    pub(crate) fn killed(&mut self, seq: Seq, at: Nanos, e: &BufferKilled) {
        let all = [State::Live, State::Pending, State::Held];
        let Some(buffer) = self.find(seq, e.buffer, e.generation, &all) else {
            return;
        };
        self.take_out(seq, &buffer, None);
        if let Some(slot) = self.slots.get_mut(&e.buffer) {
            slot.buffer = None;
            slot.generation = e.generation.next();
            slot.obituary = Some(Obituary {
                generation: e.generation,
                purge: e.purge,
                stage: e.stage,
                seq,
                at: Untimed(at),
            });
        }
    }

    /// Whether a slot has storage of this generation.
    #[must_use]
    pub fn holds(&self, id: BufferId, generation: Generation) -> bool {
        self.slots
            .get(&id)
            .is_some_and(|s| s.buffer.is_some() && s.generation == generation)
    }
}
