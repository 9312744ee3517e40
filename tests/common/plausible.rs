//! Runs as a correct runtime would record them: every event fits the ones before.

use vramscope::base::random::Random;
use vramscope::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, LaunchId, NameId, Nanos, OwnerId, PoolId,
    PurgeId, SegmentId, Seq, StreamId,
};
use vramscope::event::{
    BufferAllocated, BufferHeld, BufferKilled, CaptureBegan, CaptureEnded, DeviceKind, DeviceOpened,
    EntryAdded, EntryDropped, EntryPartSet, Event, GraphBaked, GraphDropped, GraphReplayed, KernelLaunched,
    NameDefined, Outcome, OwnerKind, OwnerRegistered, PoolOpened, PoolTaken, PurgeBegan, PurgeEnded,
    ReleaseCause, ReleaseCompleted, ReleaseRequested, ReturnCause, SegmentReserved, SegmentReturned, Stage,
    StageBegan, StageEnded, Stamped, TakeOutcome, Uses, WorkCompleted,
};

const SEGMENT: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Live,
    Pending,
    Held,
}

struct Block {
    buffer: BufferId,
    generation: Generation,
    segment: SegmentId,
    bytes: u64,
    phase: Phase,
}

struct Maker {
    random: Random,
    events: Vec<Stamped>,
    now: u64,
    blocks: Vec<Block>,
    generations: Vec<u32>,
    segments: Vec<(SegmentId, u64)>,
    entries: Vec<EntryId>,
    graphs: Vec<GraphId>,
    counters: [u32; 5],
}

/// About `count` events.
pub(crate) fn run(seed: u64, count: usize) -> Vec<Stamped> {
    let mut maker = Maker {
        random: Random::seeded(seed),
        events: Vec::new(),
        now: 0,
        blocks: Vec::new(),
        generations: vec![0; 24],
        segments: Vec::new(),
        entries: Vec::new(),
        graphs: Vec::new(),
        counters: [0; 5],
    };
    maker.open();
    while maker.events.len() < count {
        match maker.random.below(20) {
            0..7 => maker.allocate(),
            7..10 => maker.request(),
            10..13 => maker.settle(),
            13 => maker.return_segment(),
            14..16 => maker.entry(),
            16 => maker.graph(),
            17 => maker.purge(),
            _ => maker.launch(),
        }
    }
    maker.events
}

impl Maker {
    fn put(&mut self, event: impl Into<Event>) {
        self.now += self.random.below(5000);
        self.events.push(Stamped {
            seq: Seq(self.events.len() as u64),
            at: Nanos(self.now),
            event: event.into(),
        });
    }

    fn next(&mut self, which: usize) -> u32 {
        self.counters[which] += 1;
        self.counters[which] - 1
    }

    fn open(&mut self) {
        for (number, text) in ["host:0", "pool", "qx", "scales", "key"].into_iter().enumerate() {
            self.put(NameDefined {
                name: NameId(number as u32),
                text: text.into(),
            });
        }
        self.put(DeviceOpened {
            device: DeviceId(0),
            name: NameId(0),
            kind: DeviceKind::Host,
            total: Bytes(1 << 30),
            context: Bytes(4096),
        });
        for owner in 0..3 {
            self.put(OwnerRegistered {
                owner: OwnerId(owner),
                name: NameId(1),
                kind: OwnerKind::Pool,
                cleared_by: Stage::OwnerCaches,
            });
        }
        self.put(PoolOpened {
            pool: PoolId(0),
            owner: OwnerId(0),
            stream: StreamId(0),
            limit: Bytes(1 << 20),
        });
    }

    fn allocate(&mut self) {
        let free = |maker: &Maker, n: u32| !maker.blocks.iter().any(|b| b.buffer.0 == n);
        let Some(slot) = (0..self.generations.len() as u32).find(|n| free(self, *n)) else {
            return;
        };
        let requested = self.random.below(100_000);
        let slack = requested % 512;
        let place = self
            .segments
            .iter()
            .position(|(_, used)| used + requested + slack <= SEGMENT);
        let place = place.unwrap_or_else(|| {
            let segment = SegmentId(self.next(0));
            self.put(SegmentReserved {
                device: DeviceId(0),
                segment,
                stream: StreamId(0),
                bytes: Bytes(SEGMENT),
            });
            self.segments.push((segment, 0));
            self.segments.len() - 1
        });
        let segment = self.segments[place].0;
        let offset = self.segments[place].1;
        self.segments[place].1 += requested + slack;
        let generation = Generation(self.generations[slot as usize]);
        let owner = OwnerId(self.random.below(3) as u32);
        self.put(BufferAllocated {
            buffer: BufferId(slot),
            generation,
            segment,
            offset: Bytes(offset),
            requested: Bytes(requested),
            slack: Bytes(slack),
            stream: StreamId(0),
            owner,
            site: NameId(2),
        });
        self.blocks.push(Block {
            buffer: BufferId(slot),
            generation,
            segment,
            bytes: requested + slack,
            phase: Phase::Live,
        });
    }

    fn pick(&mut self, phases: &[Phase]) -> Option<usize> {
        let fit = self.blocks.iter().enumerate();
        let fit: Vec<usize> = fit
            .filter(|(_, b)| phases.contains(&b.phase))
            .map(|(n, _)| n)
            .collect();
        (!fit.is_empty()).then(|| fit[self.random.below(fit.len() as u64) as usize])
    }

    fn request(&mut self) {
        if let Some(n) = self.pick(&[Phase::Live]) {
            let (buffer, generation) = (self.blocks[n].buffer, self.blocks[n].generation);
            self.put(ReleaseRequested {
                buffer,
                generation,
                cause: ReleaseCause::Dropped,
            });
            self.blocks[n].phase = Phase::Pending;
        }
    }

    fn settle(&mut self) {
        let Some(n) = self.pick(&[Phase::Pending, Phase::Held]) else {
            return;
        };
        let (buffer, generation) = (self.blocks[n].buffer, self.blocks[n].generation);
        if self.blocks[n].phase == Phase::Pending && self.random.one_in(4) {
            self.put(BufferHeld {
                buffer,
                generation,
                graph: GraphId(0),
            });
            self.blocks[n].phase = Phase::Held;
            return;
        }
        self.put(ReleaseCompleted { buffer, generation });
        // What comes next in this slot is another buffer.
        self.generations[buffer.0 as usize] += 1;
        self.forget(n);
    }

    fn forget(&mut self, n: usize) {
        let block = self.blocks.remove(n);
        if let Some((_, used)) = self.segments.iter_mut().find(|(id, _)| *id == block.segment) {
            *used -= block.bytes;
        }
    }

    fn return_segment(&mut self) {
        if let Some(n) = self.segments.iter().position(|(_, used)| *used == 0)
            && !self.blocks.iter().any(|b| b.segment == self.segments[n].0)
        {
            let segment = self.segments.remove(n).0;
            self.put(SegmentReturned {
                segment,
                cause: ReturnCause::Purge,
            });
        }
    }

    fn entry(&mut self) {
        if self.entries.len() > 6 {
            let entry = self.entries.remove(0);
            return self.put(EntryDropped {
                entry,
                cause: ReleaseCause::Evicted,
            });
        }
        let entry = EntryId(self.next(1));
        let (pool, key) = (PoolId(0), NameId(4));
        let outcome = TakeOutcome::Miss;
        self.put(PoolTaken { pool, entry, outcome });
        self.put(EntryAdded { pool, entry, key });
        for part in [NameId(2), NameId(3)] {
            if let Some(n) = self.pick(&[Phase::Live]) {
                let (buffer, generation) = (self.blocks[n].buffer, self.blocks[n].generation);
                self.put(EntryPartSet {
                    entry,
                    part,
                    buffer,
                    generation,
                });
            }
        }
        self.entries.push(entry);
    }

    fn graph(&mut self) {
        if self.graphs.len() > 3 {
            let graph = self.graphs.remove(0);
            return self.put(GraphDropped {
                graph,
                cause: ReleaseCause::Evicted,
            });
        }
        let graph = GraphId(self.next(2));
        let (stream, key) = (StreamId(0), NameId(4));
        self.put(CaptureBegan { graph, stream, key });
        for node in 0..self.random.below(4) {
            if let Some(n) = self.pick(&[Phase::Live]) {
                let (buffer, generation) = (self.blocks[n].buffer, self.blocks[n].generation);
                let argument = NameId(2);
                self.put(GraphBaked {
                    graph,
                    buffer,
                    generation,
                    node,
                    argument,
                });
            }
        }
        let outcome = Outcome::Complete;
        self.put(CaptureEnded {
            graph,
            nodes: 4,
            outcome,
        });
        self.graphs.push(graph);
    }

    fn launch(&mut self) {
        let launch = LaunchId(u64::from(self.next(3)));
        if let Some(graph) = self.graphs.first().copied()
            && self.random.one_in(3)
        {
            self.put(GraphReplayed { graph, launch });
        } else {
            let used: Vec<BufferId> = self.blocks.iter().take(3).map(|b| b.buffer).collect();
            self.put(KernelLaunched {
                launch,
                kernel: NameId(1),
                stream: StreamId(0),
                uses: Uses::new(used),
            });
        }
        if !self.random.one_in(5) {
            let took = Nanos(self.random.below(9000));
            self.put(WorkCompleted { launch, took });
        }
    }

    fn purge(&mut self) {
        let purge = PurgeId(self.next(4) + 1);
        let stage = Stage::StorageKill;
        self.put(PurgeBegan {
            purge,
            profile: NameId(4),
            threshold: Bytes(50_000),
            in_flight: 0,
        });
        self.put(StageBegan { purge, stage });
        while let Some(n) = self.blocks.iter().position(|b| b.bytes > 50_000) {
            let (buffer, generation) = (self.blocks[n].buffer, self.blocks[n].generation);
            self.put(BufferKilled {
                buffer,
                generation,
                purge,
                stage,
            });
            self.generations[buffer.0 as usize] += 1;
            self.forget(n);
        }
        self.put(StageEnded {
            purge,
            stage,
            device: DeviceId(0),
            claimed: Bytes(0),
            allocator_before: Bytes(0),
            allocator_after: Bytes(0),
            device_before: Bytes(0),
            device_after: Bytes(0),
        });
        let outcome = Outcome::Complete;
        self.put(PurgeEnded { purge, outcome });
    }
}
