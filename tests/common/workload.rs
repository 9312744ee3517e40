//! A well-formed run without end, from a seed, and a naive model of what holds after it.

use std::collections::{BTreeMap, BTreeSet};

use vramscope::base::random::Random;
use vramscope::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, NameId, Nanos, OwnerId, PoolId, PromptId,
    PurgeId, SegmentId, Seq, StreamId,
};
use vramscope::event::{
    BufferAllocated, BufferHeld, BufferKilled, CaptureBegan, CaptureEnded, ConfigNoted, DeviceKind,
    DeviceOpened, EntryAdded, EntryDropped, EntryPartSet, Event, GraphBaked, GraphDropped, MeterRead,
    ModelLoaded, ModelUnloaded, NameDefined, Outcome, OwnerCleared, OwnerKind, OwnerRegistered, PoolOpened,
    PromptBegan, PromptEnded, PurgeBegan, PurgeEnded, ReleaseCause, ReleaseCompleted, ReleaseRequested,
    ReloadSourceKept, ReturnCause, SegmentReserved, SegmentReturned, Stage, StageBegan, StageEnded, Stamped,
    StreamOpened,
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Storage {
    generation: u32,
    segment: u32,
    bytes: u64,
    state: u8,
}

/// What holds: folded in the plainest way from well-formed events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Naive {
    names: BTreeMap<u32, Box<str>>,
    segments: BTreeMap<u32, (u32, u64)>,
    buffers: BTreeMap<u32, Storage>,
    deaths: BTreeMap<u32, (u32, u32)>,
    entries: BTreeMap<u32, BTreeMap<u32, (u32, u32)>>,
    graphs: BTreeMap<u32, BTreeSet<(u32, u32)>>,
    models: BTreeMap<u32, u8>,
    sources: BTreeMap<(u32, u32), u32>,
    configs: BTreeMap<u32, u32>,
    readings: BTreeMap<(u32, u32), u64>,
    prompts: BTreeSet<u32>,
    purge: Option<(u32, u64)>,
    last_purge: Option<(u32, u64)>,
    fixed: u64,
}

impl Naive {
    #[allow(dead_code)] // not every test binary uses it
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Stamped>) -> Naive {
        let mut naive = Naive::default();
        for stamped in events {
            naive.fold(&stamped.event);
        }
        naive
    }

    pub(crate) fn fold(&mut self, event: &Event) {
        match event {
            Event::NameDefined(e) => drop(self.names.insert(e.name.0, e.text.clone())),
            Event::DeviceOpened(_) | Event::StreamOpened(_) | Event::OwnerRegistered(_) => self.fixed += 1,
            Event::PoolOpened(_) => self.fixed += 1,
            Event::SegmentReserved(e) => drop(self.segments.insert(e.segment.0, (e.device.0, e.bytes.0))),
            Event::SegmentReturned(e) => drop(self.segments.remove(&e.segment.0)),
            Event::BufferAllocated(e) => {
                let storage = Storage {
                    generation: e.generation.0,
                    segment: e.segment.0,
                    bytes: e.requested.0,
                    state: 0,
                };
                self.buffers.insert(e.buffer.0, storage);
            }
            Event::ReleaseRequested(e) => self.state(e.buffer, 1),
            Event::BufferHeld(e) => self.state(e.buffer, 2),
            Event::ReleaseCompleted(e) => drop(self.buffers.remove(&e.buffer.0)),
            Event::BufferKilled(e) => {
                self.buffers.remove(&e.buffer.0);
                self.deaths.insert(e.buffer.0, (e.generation.0, e.purge.0));
            }
            Event::EntryAdded(e) => drop(self.entries.insert(e.entry.0, BTreeMap::new())),
            Event::EntryPartSet(e) => {
                let parts = self.entries.entry(e.entry.0).or_default();
                parts.insert(e.part.0, (e.buffer.0, e.generation.0));
            }
            Event::EntryDropped(e) => drop(self.entries.remove(&e.entry.0)),
            Event::CaptureBegan(e) => drop(self.graphs.insert(e.graph.0, BTreeSet::new())),
            Event::GraphBaked(e) => {
                let baked = self.graphs.entry(e.graph.0).or_default();
                baked.insert((e.buffer.0, e.generation.0));
            }
            Event::GraphDropped(e) => drop(self.graphs.remove(&e.graph.0)),
            Event::ModelLoaded(e) => drop(self.models.insert(e.model.0, 1)),
            Event::ModelUnloaded(e) => drop(self.models.insert(e.model.0, 2)),
            Event::ReloadSourceKept(e) => drop(self.sources.insert((e.model.0, e.tensor.0), e.buffer.0)),
            Event::ConfigNoted(e) => drop(self.configs.insert(e.key.0, e.value.0)),
            Event::MeterRead(e) => drop(self.readings.insert((e.meter.0, e.device.0), e.used.0)),
            Event::PromptBegan(e) => drop(self.prompts.insert(e.prompt.0)),
            Event::PromptEnded(e) => drop(self.prompts.remove(&e.prompt.0)),
            Event::PurgeBegan(e) => self.purge = Some((e.purge.0, 1)),
            Event::StageBegan(_) | Event::OwnerCleared(_) | Event::StageEnded(_) => {
                if let Some((_, events)) = &mut self.purge {
                    *events += 1;
                }
            }
            Event::PurgeEnded(_) => self.last_purge = self.purge.take(),
            _ => {}
        }
    }

    fn state(&mut self, buffer: BufferId, state: u8) {
        if let Some(storage) = self.buffers.get_mut(&buffer.0) {
            storage.state = state;
        }
    }
}

/// Gives the events of a run.
pub(crate) struct Workload {
    random: Random,
    naive: Naive,
    queue: std::collections::VecDeque<Event>,
    generations: BTreeMap<u32, u32>,
    seq: u64,
    next: u32,
}

/// Slots of the buffer table.
const SLOTS: u64 = 300;

impl Workload {
    pub(crate) fn new(seed: u64) -> Workload {
        let mut queue: Vec<Event> = Vec::new();
        for name in 0..12 {
            let text = format!("name {name}").into();
            queue.push(
                NameDefined {
                    name: NameId(name),
                    text,
                }
                .into(),
            );
        }
        let name = NameId(0);
        for id in 0..2 {
            let (device, stream, owner, pool) = (DeviceId(id), StreamId(id), OwnerId(id), PoolId(id));
            let (total, context, limit) = (Bytes(1 << 40), Bytes(500), Bytes(1 << 20));
            let (kind, cleared_by) = (OwnerKind::Pool, Stage::OwnerCaches);
            queue.push(
                DeviceOpened {
                    device,
                    name,
                    kind: DeviceKind::Host,
                    total,
                    context,
                }
                .into(),
            );
            queue.push(StreamOpened { stream, device, name }.into());
            queue.push(
                OwnerRegistered {
                    owner,
                    name,
                    kind,
                    cleared_by,
                }
                .into(),
            );
            queue.push(
                PoolOpened {
                    pool,
                    owner,
                    stream,
                    limit,
                }
                .into(),
            );
        }
        Workload {
            random: Random::seeded(seed),
            naive: Naive::default(),
            queue: queue.into(),
            generations: BTreeMap::new(),
            seq: 0,
            next: 0,
        }
    }

    /// The first `count` events of a seed, 1 µs apart.
    pub(crate) fn events(seed: u64, count: u64) -> Vec<Stamped> {
        let mut workload = Workload::new(seed);
        (0..count).map(|_| workload.stamped()).collect()
    }

    pub(crate) fn stamped(&mut self) -> Stamped {
        let event = self.event();
        let seq = self.seq;
        self.seq += 1;
        Stamped {
            seq: Seq(seq),
            at: Nanos(seq * 1000),
            event,
        }
    }

    fn event(&mut self) -> Event {
        while self.queue.is_empty() {
            self.step();
        }
        let event = self.queue.pop_front().expect("just filled");
        self.naive.fold(&event);
        event
    }

    fn push(&mut self, event: impl Into<Event>) {
        self.queue.push_back(event.into());
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// A random key of one of the model's tables, from a random place on.
    fn pick<V: Clone>(&mut self, table: fn(&Naive) -> &BTreeMap<u32, V>) -> Option<(u32, V)> {
        let table = table(&self.naive);
        let nth = self.random.below(table.len() as u64) as usize;
        table.iter().nth(nth).map(|(key, value)| (*key, value.clone()))
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => self.reserve(),
            1 => self.give_back(),
            2..=13 => self.allocate(),
            14..=20 => self.release(),
            21..=27 => self.complete(),
            28..=29 => self.add_entry(),
            30 => self.reset_part(),
            31 => {
                if let Some((entry, _)) = self.pick(|naive| &naive.entries) {
                    let (entry, cause) = (EntryId(entry), ReleaseCause::Evicted);
                    self.push(EntryDropped { entry, cause });
                }
            }
            32 => self.capture(),
            33 => {
                if let Some((graph, _)) = self.pick(|naive| &naive.graphs) {
                    let (graph, cause) = (GraphId(graph), ReleaseCause::Cleared);
                    self.push(GraphDropped { graph, cause });
                }
            }
            34 if self.random.one_in(30) => self.purge(),
            35 => self.model(),
            36 => self.note(),
            37 => self.prompt(),
            38 => self.hold(),
            _ => {}
        }
    }

    fn reserve(&mut self) {
        if self.naive.segments.len() < 20 {
            let segment = SegmentId(self.fresh());
            let device = DeviceId(segment.0 % 2);
            let (stream, bytes) = (StreamId(device.0), Bytes(1 << 30));
            self.push(SegmentReserved {
                device,
                segment,
                stream,
                bytes,
            });
        }
    }

    fn give_back(&mut self) {
        if let Some((segment, _)) = self.pick(|naive| &naive.segments) {
            let free = self
                .naive
                .buffers
                .values()
                .all(|storage| storage.segment != segment);
            if free {
                let (segment, cause) = (SegmentId(segment), ReturnCause::Purge);
                self.push(SegmentReturned { segment, cause });
            }
        }
    }

    fn allocate(&mut self) {
        let slot = self.random.below(SLOTS) as u32;
        let Some((segment, (device, _))) = self.pick(|naive| &naive.segments) else {
            return;
        };
        if !self.naive.buffers.contains_key(&slot) {
            let generation = Generation(self.generations.get(&slot).copied().unwrap_or(0));
            let requested = Bytes(self.random.below(1 << 20));
            self.push(BufferAllocated {
                buffer: BufferId(slot),
                generation,
                segment: SegmentId(segment),
                offset: Bytes(0),
                requested,
                slack: Bytes(requested.0 / 7),
                stream: StreamId(device),
                owner: OwnerId(device),
                site: NameId(3),
            });
        }
    }

    fn release(&mut self) {
        if let Some((buffer, storage)) = self.pick(|naive| &naive.buffers)
            && storage.state == 0
        {
            self.push(ReleaseRequested {
                buffer: BufferId(buffer),
                generation: Generation(storage.generation),
                cause: ReleaseCause::Dropped,
            });
        }
    }

    fn hold(&mut self) {
        if let Some((buffer, storage)) = self.pick(|naive| &naive.buffers)
            && storage.state == 1
        {
            self.push(BufferHeld {
                buffer: BufferId(buffer),
                generation: Generation(storage.generation),
                graph: GraphId(0),
            });
        }
    }

    fn complete(&mut self) {
        if let Some((buffer, storage)) = self.pick(|naive| &naive.buffers)
            && storage.state > 0
        {
            let (buffer, generation) = (BufferId(buffer), Generation(storage.generation));
            self.push(ReleaseCompleted { buffer, generation });
        }
    }

    fn add_entry(&mut self) {
        if self.naive.entries.len() < 60 {
            let entry = EntryId(self.fresh());
            let (pool, key) = (PoolId(0), NameId(4));
            self.push(EntryAdded { pool, entry, key });
            for part in [5, 6] {
                self.part(entry.0, part);
            }
        }
    }

    fn part(&mut self, entry: u32, part: u32) {
        if let Some((buffer, storage)) = self.pick(|naive| &naive.buffers) {
            self.push(EntryPartSet {
                entry: EntryId(entry),
                part: NameId(part),
                buffer: BufferId(buffer),
                generation: Generation(storage.generation),
            });
        }
    }

    fn reset_part(&mut self) {
        if let Some((entry, _)) = self.pick(|naive| &naive.entries) {
            self.part(entry, 5);
        }
    }

    fn capture(&mut self) {
        if self.naive.graphs.len() < 20 {
            let graph = GraphId(self.fresh());
            let (stream, key, argument) = (StreamId(0), NameId(7), NameId(8));
            self.push(CaptureBegan { graph, stream, key });
            for node in 0..3 {
                if let Some((buffer, storage)) = self.pick(|naive| &naive.buffers) {
                    self.push(GraphBaked {
                        graph,
                        buffer: BufferId(buffer),
                        generation: Generation(storage.generation),
                        node,
                        argument,
                    });
                }
            }
            let outcome = Outcome::Complete;
            self.push(CaptureEnded {
                graph,
                nodes: 3,
                outcome,
            });
        }
    }

    fn purge(&mut self) {
        let (purge, stage) = (PurgeId(self.fresh()), Stage::StorageKill);
        let (profile, threshold) = (NameId(9), Bytes(1 << 19));
        self.push(PurgeBegan {
            purge,
            profile,
            threshold,
            in_flight: 0,
        });
        self.push(StageBegan { purge, stage });
        let naive = self.naive.clone();
        for (buffer, storage) in naive
            .buffers
            .iter()
            .filter(|(_, storage)| storage.bytes > threshold.0)
        {
            let generation = Generation(storage.generation);
            self.generations.insert(*buffer, storage.generation + 1);
            self.push(BufferKilled {
                buffer: BufferId(*buffer),
                generation,
                purge,
                stage,
            });
        }
        for device in [DeviceId(0), DeviceId(1)] {
            let (owner, bytes) = (OwnerId(device.0), Bytes(9));
            self.push(OwnerCleared {
                purge,
                stage,
                owner,
                device,
                entries: 1,
                bytes,
            });
            let (used, rest) = (Bytes(50), Bytes(41));
            self.push(StageEnded {
                purge,
                stage,
                device,
                claimed: bytes,
                allocator_before: used,
                allocator_after: rest,
                device_before: used,
                device_after: rest,
            });
        }
        let outcome = Outcome::Complete;
        self.push(PurgeEnded { purge, outcome });
    }

    fn model(&mut self) {
        let model = OwnerId(self.random.below(3) as u32);
        if self.naive.models.get(&model.0) == Some(&1) {
            self.push(ModelUnloaded { model });
        } else {
            self.push(ModelLoaded { model });
            let (tensor, buffer, generation) = (NameId(10), BufferId(self.fresh()), Generation(0));
            self.push(ReloadSourceKept {
                model,
                tensor,
                buffer,
                generation,
            });
        }
    }

    fn note(&mut self) {
        let (key, value) = (NameId(self.random.below(3) as u32), NameId(11));
        self.push(ConfigNoted { key, value });
        let (meter, device, used) = (NameId(2), DeviceId(1), Bytes(self.random.below(1 << 30)));
        self.push(MeterRead {
            meter,
            device,
            used,
            free: Bytes(7),
        });
    }

    fn prompt(&mut self) {
        match self.naive.prompts.first() {
            Some(prompt) if self.naive.prompts.len() > 2 => {
                let (prompt, outcome) = (PromptId(*prompt), Outcome::Complete);
                self.push(PromptEnded { prompt, outcome });
            }
            _ => {
                let prompt = PromptId(self.fresh());
                self.push(PromptBegan { prompt, tokens: 9 });
            }
        }
    }
}
