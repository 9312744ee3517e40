//! Which event goes to which part of the state.

use crate::event::{BufferHeld, BufferKilled, Event, ReleaseCompleted, ReleaseRequested, Stamped};
use crate::ledger::anomaly::Anomalies;
use crate::ledger::digest::{self, digest};
use crate::ledger::graph::Graphs;
use crate::ledger::kill::Kills;
use crate::ledger::launch::Launches;
use crate::ledger::mark::Mark;
use crate::ledger::memory::{Memory, State, Step};
use crate::ledger::meter::Meters;
use crate::ledger::model::{Loss, Models};
use crate::ledger::pool::Pools;
use crate::ledger::purge::Purges;
use crate::ledger::refusal::Refusals;
use crate::ledger::run::Run;

/// The state that a trace folds into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    run: Run,
    memory: Memory,
    kills: Kills,
    pools: Pools,
    graphs: Graphs,
    launches: Launches,
    purges: Purges,
    refusals: Refusals,
    models: Models,
    meters: Meters,
    anomalies: Anomalies,
}
digest!(Ledger {
    run,
    memory,
    kills,
    pools,
    graphs,
    launches,
    purges,
    refusals,
    models,
    meters,
    anomalies
});

impl Ledger {
    /// Folds one event.
    pub fn apply(&mut self, stamped: &Stamped) {
        let mark = Mark {
            seq: stamped.seq,
            at: stamped.at,
        };
        let odd = &mut self.anomalies;
        if !matches!(stamped.event, Event::Gap(_)) {
            self.run.stamped(mark, odd);
        }
        match &stamped.event {
            Event::NameDefined(e) => self.run.named(mark, e, odd),
            Event::DeviceOpened(e) => self.memory.devices_mut().opened(mark, e, odd),
            Event::StreamOpened(e) => self.run.stream_opened(mark, e, odd),
            Event::OwnerRegistered(e) => self.memory.owners_mut().registered(mark, e, odd),
            Event::ConfigNoted(e) => self.run.noted(mark, e, odd),
            Event::PromptBegan(e) => self.run.prompt_began(mark, e, odd),
            Event::PhaseEnded(e) => self.run.phase_ended(mark, e, odd),
            Event::PromptEnded(e) => self.run.prompt_ended(mark, e.prompt, e.outcome, odd),
            Event::RunEnded(e) => self.run.run_ended(mark, e.outcome, odd),
            Event::Gap(e) => {
                self.run.gap(mark, e, odd);
                self.launches.gap();
            }
            Event::SegmentReserved(e) => self.memory.reserved(mark, e, odd),
            Event::SegmentReturned(e) => self.memory.returned(mark, e.segment, odd),
            Event::BufferAllocated(e) => self.memory.allocated(mark, e, odd),
            Event::ReleaseRequested(e) => self.step(mark, &requested(e)),
            Event::BufferHeld(e) => self.step(mark, &held(e)),
            Event::ReleaseCompleted(e) => self.step(mark, &completed(e)),
            Event::BufferKilled(e) => self.kill(mark, e),
            Event::AllocFailed(e) => self.refusals.failed(mark, e),
            Event::AllocRetried(e) => self.refusals.retried(e),
            Event::AccessRefused(e) => {
                let books = (&self.memory, &self.kills, &self.pools, &self.graphs);
                self.refusals.refused(mark, e, books);
            }
            other => self.apply_rest(mark, other),
        }
    }

    fn apply_rest(&mut self, mark: Mark, event: &Event) {
        let (memory, odd) = (&mut self.memory, &mut self.anomalies);
        match event {
            Event::PoolOpened(e) => self.pools.opened(mark, e, odd),
            Event::EntryAdded(e) => self.pools.added(mark, e, odd),
            Event::EntryPartSet(e) => self.pools.part_set(mark, e, memory, odd),
            Event::PoolTaken(e) => self.pools.taken(mark, e, odd),
            Event::EntryDropped(e) => self.pools.dropped(mark, (e.entry, e.cause), memory, odd),
            Event::KernelLaunched(e) => {
                e.uses.iter().for_each(|id| memory.used(mark, id, odd));
                self.launches.launched(mark, e);
            }
            Event::CopyIssued(e) => {
                e.uses.iter().for_each(|id| memory.used(mark, id, odd));
                self.launches.copied(mark, e);
            }
            Event::WorkCompleted(e) => {
                if let Some(graph) = self.launches.completed(e.launch, e.took) {
                    self.graphs.timed(graph, e.took);
                }
            }
            Event::QuantizeCounted(e) => self.launches.quantized(e),
            Event::GraphKernelTimed(e) => self.launches.ran_in_graph(e),
            Event::CaptureBegan(e) => self.graphs.began(mark, e, odd),
            Event::GraphBaked(e) => self.graphs.baked(mark, e, memory, odd),
            Event::CaptureEnded(e) => self.graphs.captured(mark, e, odd),
            Event::GraphReplayed(e) => {
                self.graphs.replayed(mark, e.graph, odd);
                self.launches.replayed(mark, e);
            }
            Event::GraphDropped(e) => self.graphs.dropped_one(mark, e, memory, odd),
            Event::PurgeBegan(e) => self.purges.began(mark, e, &self.launches, odd),
            Event::PurgeRefused(e) => self.purges.refused_one(mark, e, &self.launches),
            Event::StageBegan(e) => self.purges.stage_began(mark, e.purge, e.stage, odd),
            Event::OwnerCleared(e) => self.purges.cleared(mark, e, odd),
            Event::StageEnded(e) => self.purges.stage_ended(mark, e, odd),
            Event::PurgeSurvivor(e) => self.purges.survived(mark, e, memory, odd),
            Event::PurgeEnded(e) => self.purges.ended(mark, e, memory, odd),
            Event::ModelLoaded(e) => self.models.loaded(mark, e.model, odd),
            Event::ModelUnloaded(e) => self.models.unloaded(mark, e.model, odd),
            Event::ReloadSourceKept(e) => self.models.source_kept(mark, e, odd),
            Event::MeterRead(e) => {
                let books = memory.devices().get(e.device).map(|device| &device.accounts);
                self.meters.read(mark, e, books, odd);
            }
            _ => {}
        }
    }

    fn step(&mut self, mark: Mark, step: &Step) {
        let Some(buffer) = self.memory.moved(mark, step, &mut self.anomalies) else {
            return;
        };
        let loss = Loss {
            mark,
            bytes: buffer.requested,
            cause: buffer.release.map(|(cause, _)| cause),
            kill: None,
        };
        self.models.gone((step.buffer, step.generation), loss);
    }

    fn kill(&mut self, mark: Mark, e: &BufferKilled) {
        // Of what a ring wrote over, it keeps a death without the life before it.
        if self.run.is_in_kept_part() && self.memory.is_death_alone(e) {
            return;
        }
        let Some(obituary) = self.memory.killed(mark, e, &mut self.anomalies) else {
            return;
        };
        let place = (e.buffer, e.generation);
        let loss = Loss {
            mark,
            bytes: obituary.buffer.requested,
            cause: None,
            kill: Some((e.purge, e.stage)),
        };
        self.models.gone(place, loss);
        self.purges.killed(e.purge, e.stage, obituary.buffer.size());
        self.kills.add(place, obituary);
    }

    /// The run itself.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Devices, owners, segments and buffers.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whose storage purges took away.
    #[must_use]
    pub fn kills(&self) -> &Kills {
        &self.kills
    }

    /// Pools and entries.
    #[must_use]
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Captured graphs.
    #[must_use]
    pub fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Work on streams.
    #[must_use]
    pub fn launches(&self) -> &Launches {
        &self.launches
    }

    /// Purges.
    #[must_use]
    pub fn purges(&self) -> &Purges {
        &self.purges
    }

    /// Refused uses and failed allocations.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Models and their host copies.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Readings.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// What did not fit.
    #[must_use]
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// A digest of the state without its times: equal on every machine.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest::of(self)
    }
}

fn requested(e: &ReleaseRequested) -> Step {
    Step {
        buffer: e.buffer,
        generation: e.generation,
        from: &[State::Live],
        to: Some(State::Pending),
        cause: Some(e.cause),
        graph: None,
    }
}

fn held(e: &BufferHeld) -> Step {
    Step {
        buffer: e.buffer,
        generation: e.generation,
        from: &[State::Pending],
        to: Some(State::Held),
        cause: None,
        graph: Some(e.graph),
    }
}

fn completed(e: &ReleaseCompleted) -> Step {
    Step {
        buffer: e.buffer,
        generation: e.generation,
        from: &[State::Pending, State::Held],
        to: None,
        cause: None,
        graph: None,
    }
}
