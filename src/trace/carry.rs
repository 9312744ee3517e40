//! Log compaction: of a row of events, those that still say something true at its end.
//!
//! For well-formed rows, folding what is kept gives the state that folding all gives: names, devices, segments, buffers,
//! pools, graphs, models, and what is open. What is kept is itself such a row, so it may be compacted again with what
//! came after it. Events are kept whole, with their own numbers and times: they stay citable as evidence.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::base::{
    BufferId, DeviceId, EntryId, Generation, GraphId, NameId, OwnerId, PromptId, PurgeId, SegmentId, Seq,
};
use crate::event::{BufferKilled, EntryPartSet, Event, Stamped};
use crate::trace::format::Start;

/// At most this many finished purges are kept.
const PURGES_MAX: usize = 64;

/// What an event is kept for. When the topic ends, its events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Topic {
    Segment(SegmentId),
    /// The storage of a slot: allocated, then release requested, then held.
    Buffer(BufferId),
    /// The last death of a slot.
    Obituary(BufferId),
    Entry(EntryId),
    Graph(GraphId),
    Model(OwnerId),
    Source(OwnerId, NameId),
    Config(NameId),
    Meter(NameId, DeviceId),
    Prompt(PromptId),
    Purge(PurgeId),
}

/// The events that are still true.
#[derive(Debug)]
pub(super) struct Carried {
    kept: BTreeMap<u64, Stamped>,
    topics: HashMap<Topic, Vec<u64>>,
    /// Finished purges, oldest first.
    purges: VecDeque<(PurgeId, Vec<u64>)>,
    /// Most events of finished purges.
    history_max: usize,
    /// Events that left-out gaps had counted as lost.
    forgotten: u64,
}

impl Carried {
    /// Nothing yet. `forgotten` is what gaps left out before had counted as lost; finished purges get at most
    /// `history_max` events.
    pub(super) fn new(forgotten: u64, history_max: usize) -> Carried {
        Carried {
            kept: BTreeMap::new(),
            topics: HashMap::new(),
            purges: VecDeque::new(),
            history_max,
            forgotten,
        }
    }

    /// What is kept, in order.
    pub(super) fn events(&self) -> impl Iterator<Item = &Stamped> {
        self.kept.values()
    }

    /// The start of a stretch that begins with event `from`, all events before it having been folded.
    pub(super) fn start(&self, from: u64) -> Start {
        let kept = self.kept.len() as u64;
        Start {
            from: Seq(from),
            kept,
            lost: from.saturating_sub(kept).saturating_add(self.forgotten),
        }
    }

    /// Folds one event: keeps it where it says something that holds from now on, and lets go of what it ends.
    pub(super) fn fold(&mut self, stamped: Stamped) {
        match &stamped.event {
            Event::NameDefined(_)
            | Event::DeviceOpened(_)
            | Event::StreamOpened(_)
            | Event::OwnerRegistered(_)
            | Event::PoolOpened(_)
            | Event::RunEnded(_) => self.insert(stamped),
            Event::ConfigNoted(e) => self.replace(Topic::Config(e.key), stamped),
            Event::MeterRead(e) => self.replace(Topic::Meter(e.meter, e.device), stamped),
            Event::ReloadSourceKept(e) => self.replace(Topic::Source(e.model, e.tensor), stamped),
            Event::ModelLoaded(e) => self.replace(Topic::Model(e.model), stamped),
            Event::ModelUnloaded(e) => self.follow(Topic::Model(e.model), 1..2, stamped),
            Event::PromptBegan(e) => self.replace(Topic::Prompt(e.prompt), stamped),
            Event::PhaseEnded(e) => self.follow(Topic::Prompt(e.prompt), 1..usize::MAX, stamped),
            Event::PromptEnded(e) => self.end(Topic::Prompt(e.prompt)),
            Event::CaptureBegan(e) => self.push(Topic::Graph(e.graph), stamped),
            Event::GraphBaked(e) => self.push(Topic::Graph(e.graph), stamped),
            Event::CaptureEnded(e) => self.push(Topic::Graph(e.graph), stamped),
            Event::GraphDropped(e) => self.end(Topic::Graph(e.graph)),
            Event::EntryAdded(e) => self.push(Topic::Entry(e.entry), stamped),
            Event::EntryPartSet(e) => {
                let e = e.clone();
                self.part(&e, stamped);
            }
            Event::EntryDropped(e) => self.end(Topic::Entry(e.entry)),
            Event::Gap(e) => self.forgotten = self.forgotten.saturating_add(e.lost),
            Event::PurgeBegan(_)
            | Event::PurgeRefused(_)
            | Event::StageBegan(_)
            | Event::OwnerCleared(_)
            | Event::StageEnded(_)
            | Event::PurgeSurvivor(_)
            | Event::PurgeEnded(_) => self.purge(stamped),
            _ => self.memory(stamped),
        }
    }

    fn memory(&mut self, stamped: Stamped) {
        match &stamped.event {
            Event::SegmentReserved(e) => self.follow(Topic::Segment(e.segment), 0..1, stamped),
            Event::SegmentReturned(e) => self.end(Topic::Segment(e.segment)),
            Event::BufferAllocated(e) => self.follow(Topic::Buffer(e.buffer), 0..1, stamped),
            Event::ReleaseRequested(e) if self.holds(e.buffer, e.generation) => {
                self.follow(Topic::Buffer(e.buffer), 1..2, stamped);
            }
            Event::BufferHeld(e) if self.holds(e.buffer, e.generation) => {
                self.follow(Topic::Buffer(e.buffer), 2..3, stamped);
            }
            Event::ReleaseCompleted(e)
                if self.holds(e.buffer, e.generation) && self.count(Topic::Buffer(e.buffer)) > 1 =>
            {
                self.end(Topic::Buffer(e.buffer));
            }
            Event::BufferKilled(e) => {
                let e = e.clone();
                self.killed(&e, stamped);
            }
            _ => {}
        }
    }

    /// A death ends the storage. Its event stays, also where the storage's own events are gone: what is kept may hold
    /// an obituary alone.
    fn killed(&mut self, e: &BufferKilled, stamped: Stamped) {
        let storage = Topic::Buffer(e.buffer);
        if self.count(storage) == 0 || self.holds(e.buffer, e.generation) {
            self.end(storage);
            self.replace(Topic::Obituary(e.buffer), stamped);
        }
    }

    fn purge(&mut self, stamped: Stamped) {
        let (id, ended) = match &stamped.event {
            Event::PurgeBegan(e) => return self.replace(Topic::Purge(e.purge), stamped),
            Event::PurgeRefused(e) => {
                let id = e.purge;
                let seq = stamped.seq.0;
                self.insert(stamped);
                return self.finished(id, vec![seq]);
            }
            Event::StageBegan(e) => (e.purge, false),
            Event::OwnerCleared(e) => (e.purge, false),
            Event::StageEnded(e) => (e.purge, false),
            Event::PurgeSurvivor(e) => (e.purge, false),
            Event::PurgeEnded(e) => (e.purge, true),
            _ => return,
        };
        let seq = stamped.seq.0;
        if self.count(Topic::Purge(id)) > 0 {
            self.push(Topic::Purge(id), stamped);
            if ended && let Some(seqs) = self.topics.remove(&Topic::Purge(id)) {
                self.finished(id, seqs);
            }
        } else if let Some((_, seqs)) = self.purges.iter_mut().find(|(known, _)| *known == id) {
            seqs.push(seq);
            self.insert(stamped);
            self.trim();
        }
    }

    fn finished(&mut self, id: PurgeId, seqs: Vec<u64>) {
        self.purges.push_back((id, seqs));
        self.trim();
    }

    /// Forgets the oldest finished purges, so many as are too many.
    fn trim(&mut self) {
        let mut events: usize = self.purges.iter().map(|(_, seqs)| seqs.len()).sum();
        while self.purges.len() > PURGES_MAX || events > self.history_max {
            let Some((_, seqs)) = self.purges.pop_front() else {
                return;
            };
            events -= seqs.len();
            self.forget(&seqs);
        }
    }

    fn part(&mut self, e: &EntryPartSet, stamped: Stamped) {
        let topic = Topic::Entry(e.entry);
        let seqs = self.topics.get(&topic).map_or(&[][..], Vec::as_slice);
        let old = seqs.iter().copied().find(|seq| {
            let kept = self.kept.get(seq).map(|kept| &kept.event);
            matches!(kept, Some(Event::EntryPartSet(known)) if known.part == e.part)
        });
        if let Some(old) = old {
            self.kept.remove(&old);
            if let Some(seqs) = self.topics.get_mut(&topic) {
                seqs.retain(|seq| *seq != old);
            }
        }
        self.push(topic, stamped);
    }

    /// Whether the slot has storage of this generation.
    fn holds(&self, buffer: BufferId, generation: Generation) -> bool {
        let first = self
            .topics
            .get(&Topic::Buffer(buffer))
            .and_then(|seqs| seqs.first());
        let first = first.and_then(|seq| self.kept.get(seq)).map(|kept| &kept.event);
        matches!(first, Some(Event::BufferAllocated(e)) if e.generation == generation)
    }

    fn count(&self, topic: Topic) -> usize {
        self.topics.get(&topic).map_or(0, Vec::len)
    }

    fn insert(&mut self, stamped: Stamped) {
        self.kept.insert(stamped.seq.0, stamped);
    }

    fn push(&mut self, topic: Topic, stamped: Stamped) {
        self.topics.entry(topic).or_default().push(stamped.seq.0);
        self.insert(stamped);
    }

    /// Keeps the event where its topic has a number of events in `when`.
    fn follow(&mut self, topic: Topic, when: std::ops::Range<usize>, stamped: Stamped) {
        if when.contains(&self.count(topic)) {
            self.push(topic, stamped);
        }
    }

    fn replace(&mut self, topic: Topic, stamped: Stamped) {
        self.end(topic);
        self.push(topic, stamped);
    }

    fn end(&mut self, topic: Topic) {
        if let Some(seqs) = self.topics.remove(&topic) {
            self.forget(&seqs);
        }
    }

    fn forget(&mut self, seqs: &[u64]) {
        for seq in seqs {
            self.kept.remove(seq);
        }
    }
}
