//! A slow, obvious ledger: it goes through the whole list of events for every answer.

use std::collections::BTreeMap;

use vramscope::base::{BufferId, DeviceId, EntryId, Generation, GraphId, OwnerId, SegmentId, Seq};
use vramscope::event::{Event, Stamped};
use vramscope::ledger::Vitality;

/// Cached, live, slack, pending, held, context.
pub(crate) type Balances = [i128; 6];

/// One storage, from its allocation to its end.
#[derive(Clone, Debug)]
struct Life {
    buffer: BufferId,
    generation: Generation,
    segment: SegmentId,
    reservation: Seq,
    device: DeviceId,
    owner: OwnerId,
    requested: i128,
    slack: i128,
    born: Seq,
    /// 0 live, 1 pending, 2 held, 3 gone.
    stage: u8,
}

/// All that the reference says of a list of events.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    lives: Vec<Life>,
    generations: BTreeMap<BufferId, Generation>,
    /// Segment, device, bytes, reservation.
    segments: Vec<(SegmentId, DeviceId, i128, Seq)>,
    cached: BTreeMap<DeviceId, i128>,
    contexts: BTreeMap<DeviceId, i128>,
}

impl Reference {
    pub(crate) fn new(events: &[Stamped]) -> Reference {
        let mut reference = Reference::default();
        events.iter().for_each(|event| reference.step(event));
        reference
    }

    fn cash(&mut self, device: DeviceId) -> &mut i128 {
        self.cached.entry(device).or_default()
    }

    /// Takes from the cached bytes what is there; the rest is an implied opening.
    fn draw(&mut self, device: DeviceId, bytes: i128) {
        let cash = self.cash(device);
        *cash = (*cash - bytes).max(0);
    }

    fn step(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::DeviceOpened(e) => {
                self.contexts.entry(e.device).or_insert(i128::from(e.context.0));
            }
            Event::SegmentReserved(e) if !self.segments.iter().any(|s| s.0 == e.segment) => {
                let bytes = i128::from(e.bytes.0);
                self.segments.push((e.segment, e.device, bytes, stamped.seq));
                *self.cash(e.device) += bytes;
            }
            Event::SegmentReturned(e) => {
                let Some(place) = self.segments.iter().position(|s| s.0 == e.segment) else {
                    return;
                };
                let (id, device, bytes, reservation) = self.segments.remove(place);
                let inside = self
                    .lives
                    .iter()
                    .filter(|life| life.stage < 3 && life.segment == id && life.reservation == reservation);
                let used: i128 = inside.map(|life| life.requested + life.slack).sum();
                self.draw(device, (bytes - used).max(0));
            }
            Event::BufferAllocated(e) => self.allocate(stamped.seq, e),
            Event::ReleaseRequested(e) => self.advance(e.buffer, e.generation, &[0], 1),
            Event::BufferHeld(e) => self.advance(e.buffer, e.generation, &[1], 2),
            Event::ReleaseCompleted(e) => self.advance(e.buffer, e.generation, &[1, 2], 3),
            Event::BufferKilled(e) if self.find(e.buffer, e.generation).is_some() => {
                self.advance(e.buffer, e.generation, &[0, 1, 2], 3);
                self.generations.insert(e.buffer, e.generation.next());
            }
            _ => {}
        }
    }

    fn allocate(&mut self, seq: Seq, e: &vramscope::event::BufferAllocated) {
        let current = self.generations.get(&e.buffer);
        let behind = current.is_some_and(|g| (e.generation.0.wrapping_sub(g.0) as i32) < 0);
        if behind || self.lives.iter().any(|l| l.stage < 3 && l.buffer == e.buffer) {
            return;
        }
        let (requested, slack) = (i128::from(e.requested.0), i128::from(e.slack.0));
        if !self.segments.iter().any(|s| s.0 == e.segment) {
            let bytes = (requested + slack).min(i128::from(u64::MAX));
            self.segments.push((e.segment, DeviceId(0), bytes, seq));
            *self.cash(DeviceId(0)) += bytes;
        }
        let segment = self.segments.iter().find(|s| s.0 == e.segment);
        let (segment, device, _, reservation) = *segment.expect("it was just looked up");
        self.draw(device, requested);
        self.draw(device, slack);
        self.generations.insert(e.buffer, e.generation);
        self.lives.push(Life {
            buffer: e.buffer,
            generation: e.generation,
            segment,
            reservation,
            device,
            owner: e.owner,
            requested,
            slack,
            born: seq,
            stage: 0,
        });
    }

    fn find(&self, buffer: BufferId, generation: Generation) -> Option<usize> {
        self.lives
            .iter()
            .position(|life| life.stage < 3 && life.buffer == buffer && life.generation == generation)
    }

    fn advance(&mut self, buffer: BufferId, generation: Generation, from: &[u8], to: u8) {
        let Some(place) = self.find(buffer, generation) else {
            return;
        };
        if !from.contains(&self.lives[place].stage) {
            return;
        }
        self.lives[place].stage = to;
        let life = self.lives[place].clone();
        let there = |s: &(SegmentId, DeviceId, i128, Seq)| s.0 == life.segment && s.3 == life.reservation;
        if to == 3 && self.segments.iter().any(there) {
            *self.cash(life.device) += life.requested + life.slack;
        }
    }

    /// Balances by device.
    pub(crate) fn balances(&self) -> BTreeMap<DeviceId, Balances> {
        let mut all = BTreeMap::<DeviceId, Balances>::new();
        for (device, cached) in &self.cached {
            all.entry(*device).or_default()[0] = *cached;
        }
        for (device, context) in &self.contexts {
            all.entry(*device).or_default()[5] = *context;
        }
        for life in &self.lives {
            let of = all.entry(life.device).or_default();
            match life.stage {
                0 => {
                    of[1] += life.requested;
                    of[2] += life.slack;
                }
                1 => of[3] += life.requested + life.slack,
                2 => of[4] += life.requested + life.slack,
                _ => {}
            }
        }
        all
    }

    /// Requested bytes of live buffers by owner.
    pub(crate) fn live_by_owner(&self) -> BTreeMap<OwnerId, i128> {
        let mut all = BTreeMap::new();
        for life in self.lives.iter().filter(|life| life.stage == 0) {
            *all.entry(life.owner).or_default() += life.requested;
        }
        all.retain(|_, bytes| *bytes > 0);
        all
    }

    fn reaches(&self, buffer: BufferId, generation: Generation, made: Seq) -> bool {
        self.find(buffer, generation)
            .is_some_and(|place| self.lives[place].born < made)
    }

    /// Entries that pools have, and their vitality.
    pub(crate) fn entries(&self, events: &[Stamped]) -> BTreeMap<EntryId, Vitality> {
        let mut entries = BTreeMap::<EntryId, BTreeMap<_, (BufferId, Generation, Seq)>>::new();
        for stamped in events {
            match &stamped.event {
                Event::EntryAdded(e) => {
                    entries.entry(e.entry).or_default();
                }
                Event::EntryPartSet(e) => {
                    if let Some(parts) = entries.get_mut(&e.entry) {
                        parts.insert(e.part, (e.buffer, e.generation, stamped.seq));
                    }
                }
                Event::EntryDropped(e) => {
                    entries.remove(&e.entry);
                }
                _ => {}
            }
        }
        let judge = |parts: BTreeMap<_, (BufferId, Generation, Seq)>| {
            let alive: Vec<bool> = parts
                .values()
                .map(|(buffer, generation, set)| self.reaches(*buffer, *generation, *set))
                .collect();
            match (alive.contains(&true), alive.contains(&false)) {
                (_, false) => Vitality::Live,
                (false, true) => Vitality::Dead,
                (true, true) => Vitality::Torn,
            }
        };
        entries
            .into_iter()
            .map(|(id, parts)| (id, judge(parts)))
            .collect()
    }

    /// Graphs there are, and how many of the buffers that they baked have moved on.
    pub(crate) fn graphs(&self, events: &[Stamped]) -> BTreeMap<GraphId, usize> {
        let mut graphs = BTreeMap::<GraphId, Vec<(BufferId, Generation, Seq)>>::new();
        for stamped in events {
            match &stamped.event {
                Event::CaptureBegan(e) => {
                    graphs.entry(e.graph).or_default();
                }
                Event::GraphBaked(e) => {
                    if let Some(baked) = graphs.get_mut(&e.graph) {
                        baked.push((e.buffer, e.generation, stamped.seq));
                    }
                }
                Event::GraphDropped(e) => {
                    graphs.remove(&e.graph);
                }
                _ => {}
            }
        }
        let stale = |baked: &(BufferId, Generation, Seq)| !self.reaches(baked.0, baked.1, baked.2);
        graphs
            .into_iter()
            .map(|(id, baked)| (id, baked.iter().filter(|b| stale(b)).count()))
            .collect()
    }
}
