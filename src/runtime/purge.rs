//! Purges: the stages, their claims, and what the books and the device say of them.

use std::collections::BTreeMap;
use std::fmt;

use crate::base::{BufferId, Bytes, DeviceId, Generation, OwnerId, PurgeId};
use crate::device::Space;
use crate::event::{
    Holder, Outcome, OwnerCleared, OwnerKind, PurgeBegan, PurgeEnded, PurgeRefused, PurgeSurvivor,
    ReturnCause, Stage, StageBegan, StageEnded,
};
use crate::plan::purge::{EXECUTOR_KILL_THRESHOLD, Profile, Scope, Step};
use crate::runtime::owner::Registered;
use crate::runtime::probe::spans;
use crate::runtime::state::{Life, PurgeState, State};
use crate::runtime::{Claim, Runtime, RuntimeError};

/// What a purge does about work in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Waits for it.
    Wait,
    /// Refuses to purge.
    Refuse,
    /// Purges under it.
    Force,
}

/// A purge to run.
#[derive(Clone, Debug)]
pub struct PurgeRequest {
    /// Which stages.
    pub profile: Profile,
    /// Stage 3 kills from this size on.
    pub threshold: Bytes,
    /// What to do about work in flight.
    pub busy: Busy,
}

/// One stage on one device: the claim, and two readings of what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// The device.
    pub device: String,
    /// What owners say they freed, and what the stage itself killed or returned.
    pub claimed: Bytes,
    /// By how much the allocator's books of bytes in use went down; negative where they went up.
    pub allocator: i128,
    /// By how much the device's own count of used bytes went down.
    pub device_delta: i128,
}

/// What outlived a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The slot.
    pub buffer: BufferId,
    /// Its size.
    pub bytes: Bytes,
    /// Its owner.
    pub owner: String,
    /// Who keeps it.
    pub holder: Holder,
}

/// What a purge did.
#[derive(Clone, Debug)]
pub struct PurgeReport {
    /// Its number.
    pub purge: PurgeId,
    /// How it ended. `Partial`: more was claimed than the device got back.
    pub outcome: Outcome,
    /// Stage by stage and device by device; devices on which nothing was claimed or moved are left out.
    pub stages: Vec<StageReport>,
    /// What outlived it.
    pub survivors: Vec<Survivor>,
    /// One line an owner, with a stable prefix.
    pub log: Vec<String>,
}

impl fmt::Display for PurgeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Books of one space at one instant.
#[derive(Clone, Copy)]
struct Reading {
    in_use: Bytes,
    used: Bytes,
}

/// A purge under way.
struct Running<'r> {
    runtime: &'r Runtime,
    id: PurgeId,
    threshold: Bytes,
    /// Whether graphs go before what they baked, in every stage.
    graphs_first: bool,
    report: PurgeReport,
}

impl Runtime {
    /// Runs a purge: quiesces, then stage by stage tells owners to clear, kills, returns, and reconciles.
    ///
    /// # Errors
    /// Work is in flight and the request says to refuse, or the device fails.
    pub fn purge(&self, request: &PurgeRequest) -> Result<PurgeReport, RuntimeError> {
        let flagged = self
            .owners()
            .iter()
            .any(|o| o.owner.upgrade().is_some_and(|owner| owner.is_flagged()));
        let steps = request.profile.steps(flagged);
        let profile = request.profile.to_string();
        let id = {
            let mut state = self.shared.lock();
            state.purges.push(PurgeState {
                threshold: request.threshold,
                cleared: BTreeMap::new(),
            });
            PurgeId(state.purges.len() as u32)
        };
        let span = spans::purge(id, &profile);
        let _entered = span.enter();
        let busy = if steps.is_empty() {
            None
        } else {
            Some(request.busy)
        };
        self.quiesce(id, (request.threshold, busy), &profile, &span)?;
        let mut running = Running {
            runtime: self,
            id,
            threshold: request.threshold,
            graphs_first: request.profile.keeps_order(),
            report: PurgeReport {
                purge: id,
                outcome: Outcome::Noop,
                stages: Vec::new(),
                survivors: Vec::new(),
                log: vec![format!(
                    "purge#{id} begin profile={profile} threshold={}",
                    request.threshold.0
                )],
            },
        };
        for step in &steps {
            if let Err(error) = running.stage(*step) {
                self.fail_purge(id);
                return Err(error);
            }
        }
        running.end(!steps.is_empty())
    }

    /// States that the purge stopped half way.
    fn fail_purge(&self, purge: PurgeId) {
        let outcome = Outcome::Failed;
        let state = self.shared.lock();
        state.probe.record(PurgeEnded { purge, outcome });
    }

    /// Sees to work in flight and states the beginning. A purge with nothing to do leaves work alone.
    fn quiesce(
        &self,
        purge: PurgeId,
        (threshold, busy): (Bytes, Option<Busy>),
        profile: &str,
        span: &tracing::Span,
    ) -> Result<(), RuntimeError> {
        let mut state = self.shared.lock();
        if busy.is_some() {
            state.settle_all();
        }
        let in_flight = state.in_flight();
        if in_flight > 0 && busy == Some(Busy::Refuse) {
            span.record("error.type", "in_flight");
            state.probe.record_in(span, PurgeRefused { purge, in_flight });
            return Err(RuntimeError::PurgeRefused { purge, in_flight });
        }
        let waited = match busy {
            Some(Busy::Wait) => state.synchronize_all(),
            _ => Ok(()),
        };
        let in_flight = state.in_flight();
        let profile = state.probe.name(profile);
        state.probe.record_in(
            span,
            PurgeBegan {
                purge,
                profile,
                threshold,
                in_flight,
            },
        );
        drop(state);
        if waited.is_err() {
            self.fail_purge(purge);
        }
        waited
    }
}

impl Running<'_> {
    fn readings(&self) -> Vec<Reading> {
        let state = self.runtime.shared.lock();
        let spaces = state.spaces.iter();
        spaces
            .map(|space| Reading {
                in_use: space.allocator.in_use(),
                used: state.devices[space.device].memory(space.space).used(),
            })
            .collect()
    }

    fn stage(&mut self, step: Step) -> Result<(), RuntimeError> {
        let stage = step.stage;
        let span = spans::stage(self.id, stage);
        let _entered = span.enter();
        {
            let state = self.runtime.shared.lock();
            state.probe.record_in(
                &span,
                StageBegan {
                    purge: self.id,
                    stage,
                },
            );
        }
        let before = self.readings();
        let mut claims: BTreeMap<DeviceId, Bytes> = BTreeMap::new();
        match stage {
            Stage::StorageKill => {
                let threshold = self.threshold;
                let killed = self.kill(stage, &mut claims, |_, bytes| bytes >= threshold);
                self.log_kill(stage, killed);
            }
            Stage::ReturnCached => self.return_cached(&mut claims)?,
            Stage::Rearm => self.rearm(),
            _ => self.clear_owners(step, &mut claims),
        }
        self.reconcile(stage, &before, &claims);
        if !span.is_disabled() {
            span.record(
                "vramscope.bytes",
                claims.values().map(|bytes| bytes.0).sum::<u64>(),
            );
        }
        Ok(())
    }

    /// Graphs before pools before workspaces: what bakes memory goes before the memory.
    fn clear_owners(&mut self, step: Step, claims: &mut BTreeMap<DeviceId, Bytes>) {
        let stage = step.stage;
        let owners = self.runtime.owners();
        let mut targets: Vec<&Registered> = owners.iter().filter(|owner| is_target(owner, step)).collect();
        targets.sort_by_key(|owner| (clearing_rank(owner.kind), owner.id));
        let ids: Vec<OwnerId> = targets.iter().map(|owner| owner.id).collect();
        // Graphs that bake what goes now would be left with dangling addresses.
        let dependents = self.graphs_first || step.scope == Scope::Workspaces;
        for graphs in owners
            .iter()
            .filter(|owner| dependents && owner.kind == OwnerKind::Graphs)
        {
            if let Some(owner) = graphs.owner.upgrade().filter(|_| !ids.contains(&graphs.id)) {
                let dropped = owner.drop_dependents(&self.with_weights(&ids, step.scope));
                self.claimed(stage, graphs, dropped, claims);
            }
        }
        // What is owned passively goes with its handles: there is nobody to tell.
        let mut told = Vec::new();
        for target in targets {
            if let Some(owner) = target.owner.upgrade() {
                self.claimed(stage, target, owner.clear(), claims);
                told.push(target.id);
            }
        }
        let mut state = self.runtime.shared.lock();
        let index = self.id.0 as usize - 1;
        state.purges[index].cleared.entry(stage).or_default().extend(told);
        drop(state);
        if stage == Stage::ExecutorCaches {
            let killed = self.kill(stage, claims, |cleared_by, bytes| {
                cleared_by == Stage::ExecutorCaches && bytes >= EXECUTOR_KILL_THRESHOLD
            });
            if killed.0 > 0 {
                self.log_kill(stage, killed);
            }
        }
    }

    /// A model's graphs bake its weights and caches too, which may be owners of their own. Where some models
    /// stay, so do the graphs that bake nothing but theirs.
    fn with_weights(&self, ids: &[OwnerId], scope: Scope) -> Vec<OwnerId> {
        let owners = self.runtime.owners();
        let stays = |owner: &Registered| scope == Scope::Flagged && owner.owner.upgrade().is_some();
        let models = owners
            .iter()
            .filter(|owner| owner.cleared_by == Stage::UnloadModels && !stays(owner));
        let is_model = owners
            .iter()
            .any(|o| ids.contains(&o.id) && o.kind == OwnerKind::Model);
        let mut all = ids.to_vec();
        if is_model {
            all.extend(models.map(|owner| owner.id));
        }
        all
    }

    fn claimed(
        &mut self,
        stage: Stage,
        owner: &Registered,
        made: Vec<Claim>,
        claims: &mut BTreeMap<DeviceId, Bytes>,
    ) {
        let (mut entries, mut bytes) = (0, Bytes::ZERO);
        let again = stage == Stage::UnregisterPinsAgain && owner.cleared_by == Stage::UnregisterPins;
        let asked = again || owner.cleared_by == stage;
        let state = self.runtime.shared.lock();
        for claim in made {
            if !asked && claim.entries == 0 {
                continue;
            }
            state.probe.record(OwnerCleared {
                purge: self.id,
                stage,
                owner: owner.id,
                device: claim.device,
                entries: claim.entries,
                bytes: claim.bytes,
            });
            entries = entries.max(claim.entries);
            bytes += claim.bytes;
            *claims.entry(claim.device).or_default() += claim.bytes;
        }
        if !asked && entries == 0 {
            return;
        }
        let (id, name) = (self.id, &owner.name);
        self.report.log.push(format!(
            "purge#{id} {stage} cleared {name} entries={entries} bytes={}",
            bytes.0
        ));
    }

    /// Kills device storage that `condition` (duty stage of the owner, size) picks, whoever holds it.
    fn kill(
        &mut self,
        stage: Stage,
        claims: &mut BTreeMap<DeviceId, Bytes>,
        condition: impl Fn(Stage, Bytes) -> bool,
    ) -> (u64, Bytes) {
        let mut state = self.runtime.shared.lock();
        let (mut count, mut sum) = (0, Bytes::ZERO);
        for slot in 0..state.slots.len() {
            let entry = &state.slots[slot];
            let cleared_by = state.owners[entry.owner.0 as usize].cleared_by;
            let on_device = state.spaces[entry.space].space == Space::Device;
            if !on_device || !entry.has_storage() || !condition(cleared_by, entry.requested) {
                continue;
            }
            let device = state.spaces[entry.space].id;
            let bytes = state.kill(slot as u32, self.id, stage);
            *claims.entry(device).or_default() += bytes;
            sum += bytes;
            count += 1;
        }
        (count, sum)
    }

    fn log_kill(&mut self, stage: Stage, (count, bytes): (u64, Bytes)) {
        let (id, bytes) = (self.id, bytes.0);
        self.report
            .log
            .push(format!("purge#{id} {stage} killed entries={count} bytes={bytes}"));
    }

    fn return_cached(&mut self, claims: &mut BTreeMap<DeviceId, Bytes>) -> Result<(), RuntimeError> {
        let mut state = self.runtime.shared.lock();
        state.synchronize_all()?;
        for space in 0..state.spaces.len() {
            let returned = state.return_cached(space, ReturnCause::Purge)?;
            let (id, purge) = (state.spaces[space].id, self.id);
            // Claimed already by who freed it: returning is how the device gets it, not more of it.
            claims.entry(id).or_default();
            let name = &state.spaces[space].name;
            self.report.log.push(format!(
                "purge#{purge} return returned {name} bytes={}",
                returned.0
            ));
        }
        Ok(())
    }

    fn rearm(&mut self) {
        for registered in self.runtime.owners() {
            let Some(owner) = registered.owner.upgrade() else {
                continue;
            };
            let reset = owner.rearm();
            if reset > 0 {
                let (id, name) = (self.id, &registered.name);
                self.report
                    .log
                    .push(format!("purge#{id} 2d rearmed {name} flags={reset}"));
            }
        }
    }

    fn reconcile(&mut self, stage: Stage, before: &[Reading], claims: &BTreeMap<DeviceId, Bytes>) {
        let after = self.readings();
        let state = self.runtime.shared.lock();
        for (space, (before, after)) in state.spaces.iter().zip(before.iter().zip(&after)) {
            let claimed = claims.get(&space.id).copied();
            let moved = before.in_use != after.in_use || before.used != after.used;
            if claimed.unwrap_or_default() == Bytes::ZERO && !moved && space.space == Space::Pinned {
                continue;
            }
            let claimed = claimed.unwrap_or_default();
            state.probe.record(StageEnded {
                purge: self.id,
                stage,
                device: space.id,
                claimed,
                allocator_before: before.in_use,
                allocator_after: after.in_use,
                device_before: before.used,
                device_after: after.used,
            });
            let delta = |before: Bytes, after: Bytes| i128::from(before.0) - i128::from(after.0);
            self.report.stages.push(StageReport {
                stage,
                device: space.name.clone(),
                claimed,
                allocator: delta(before.in_use, after.in_use),
                device_delta: delta(before.used, after.used),
            });
        }
    }

    fn end(mut self, did: bool) -> Result<PurgeReport, RuntimeError> {
        let state = self.runtime.shared.lock();
        let mut survivors = Vec::new();
        if did {
            for slot in 0..state.slots.len() as u32 {
                if let Some((holder, generation)) = state.holder(slot) {
                    let entry = &state.slots[slot as usize];
                    let owner = entry.owner;
                    survivors.push(Survivor {
                        buffer: State::buffer_id(slot),
                        bytes: entry.requested,
                        owner: state.owner_name(owner),
                        holder,
                    });
                    state.probe.record(PurgeSurvivor {
                        purge: self.id,
                        buffer: State::buffer_id(slot),
                        generation,
                        owner,
                        holder,
                    });
                }
            }
        }
        let claimed: i128 = self
            .report
            .stages
            .iter()
            .map(|stage| i128::from(stage.claimed.0))
            .sum();
        let measured: i128 = self.report.stages.iter().map(|stage| stage.device_delta).sum();
        let outcome = match (did, claimed > measured) {
            (false, _) => Outcome::Noop,
            (true, true) => Outcome::Partial,
            (true, false) => Outcome::Complete,
        };
        state.probe.record(PurgeEnded {
            purge: self.id,
            outcome,
        });
        drop(state);
        let id = self.id;
        self.report.log.extend(survivor_lines(id, &survivors));
        self.report.log.push(format!(
            "purge#{id} end outcome={outcome} claimed={claimed} device={measured} survivors={}",
            survivors.len()
        ));
        self.report.survivors = survivors;
        self.report.outcome = outcome;
        Ok(self.report)
    }
}

/// One line for each owner and holder.
fn survivor_lines(id: PurgeId, survivors: &[Survivor]) -> Vec<String> {
    let mut sums: BTreeMap<(&str, Holder), (u64, Bytes)> = BTreeMap::new();
    for survivor in survivors {
        let sum = sums.entry((&survivor.owner, survivor.holder)).or_default();
        sum.0 += 1;
        sum.1 += survivor.bytes;
    }
    let line = |((owner, holder), (count, bytes)): ((&str, Holder), (u64, Bytes))| {
        format!(
            "purge#{id} survivor {owner} holder={holder} buffers={count} bytes={}",
            bytes.0
        )
    };
    sums.into_iter().map(line).collect()
}

fn is_target(owner: &Registered, step: Step) -> bool {
    if owner.cleared_by != step.stage
        && !(step.stage == Stage::UnregisterPinsAgain && owner.cleared_by == Stage::UnregisterPins)
    {
        return false;
    }
    match step.scope {
        Scope::Every => true,
        Scope::Workspaces => owner.kind == OwnerKind::Workspace,
        Scope::Flagged => owner.owner.upgrade().is_some_and(|owner| owner.is_flagged()),
    }
}

fn clearing_rank(kind: OwnerKind) -> u8 {
    match kind {
        OwnerKind::Graphs => 0,
        OwnerKind::Pool => 1,
        OwnerKind::Cache => 2,
        OwnerKind::Workspace => 3,
        OwnerKind::Model => 4,
        OwnerKind::Pins => 5,
        OwnerKind::Other => 6,
    }
}

impl State {
    /// Who keeps a slot's storage; `None` where it has none.
    fn holder(&self, slot: u32) -> Option<(Holder, Generation)> {
        let entry = &self.slots[slot as usize];
        if !entry.has_storage() {
            return None;
        }
        let kind = self.owners[entry.owner.0 as usize].kind;
        let holder = match entry.life {
            Life::Pending => Holder::Stream,
            Life::Held => Holder::Graph,
            _ if entry.entry.is_some() => Holder::Pool,
            _ if entry.reload_source || kind == OwnerKind::Model => Holder::Model,
            _ => Holder::Handle,
        };
        Some((holder, entry.generation()))
    }
}
