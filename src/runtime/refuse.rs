//! Refusals: what is remembered of a buffer becomes the words of an error and an event.

use crate::base::Bytes;
use crate::base::Generation;
use crate::base::OwnerId;
use crate::event::{AccessRefused, OwnerKind, Refusal, Stage};
use crate::runtime::error::{Killer, Part, RefusedUse};
use crate::runtime::state::{Baked, State};
use crate::runtime::{Buffer, RuntimeError};

/// A use that is refused.
pub(super) struct Use<'a> {
    pub(super) refusal: Refusal,
    pub(super) op: &'static str,
    pub(super) argument: &'static str,
    pub(super) buffer: &'a Buffer,
    pub(super) bytes: Bytes,
    /// The launch's device.
    pub(super) device: usize,
}

impl State {
    /// States a refused use of a handle.
    pub(super) fn refuse(&mut self, refused: Use<'_>) -> RuntimeError {
        let buffer = refused.buffer;
        let device = self.spaces[refused.device * 2].name.clone();
        let handle = (buffer.slot, buffer.generation);
        let mut report = self.report(handle, refused.op, refused.argument, None);
        report.refusal = refused.refusal;
        report.bytes_needed = refused.bytes;
        report.device_needed = device;
        if report.refusal == Refusal::StaleBuffer && report.is_torn() {
            report.refusal = Refusal::TornEntry;
        }
        self.state_refusal(report)
    }

    /// States a refused replay. Whose duty it was is the cache of graphs', not the buffer's owner.
    pub(super) fn refuse_replay(&mut self, graph: u32, key: &str, baked: &Baked) -> RuntimeError {
        let duty = self.owners.iter().find(|owner| owner.kind == OwnerKind::Graphs);
        let duty = duty.map(|owner| owner.cleared_by);
        let mut report = self.report((baked.slot, baked.generation), key, &baked.argument, duty);
        report.refusal = Refusal::StaleGraph;
        report.graph = Some((graph, baked.node));
        self.state_refusal(report)
    }

    fn report(
        &self,
        (slot, expected): (u32, Generation),
        op: &str,
        argument: &str,
        duty: Option<Stage>,
    ) -> RefusedUse {
        let entry = &self.slots[slot as usize];
        let device = self.spaces[entry.space].name.clone();
        let alive = entry.generation() == expected;
        let obituary = entry
            .obituary
            .as_ref()
            .filter(|obituary| obituary.generation == expected);
        let storage = obituary.map_or_else(|| entry.storage(), |obituary| obituary.life.clone());
        let owner_duty = self
            .owners
            .get(storage.owner.0 as usize)
            .map(|owner| owner.cleared_by);
        let cleared_by = duty.or(owner_duty).unwrap_or(Stage::OwnerCaches);
        let killer = obituary.and_then(|obituary| {
            let purge = self.purges.get((obituary.purge.0 as usize).checked_sub(1)?)?;
            let cleared = purge.cleared.get(&cleared_by);
            let names = |owners: &Vec<OwnerId>| owners.iter().map(|owner| self.owner_name(*owner)).collect();
            Some(Killer {
                purge: obituary.purge,
                stage: obituary.stage,
                threshold: purge.threshold,
                at: obituary.at,
                cleared_instead: cleared.map(names),
            })
        });
        RefusedUse {
            refusal: Refusal::StaleBuffer,
            op: op.to_owned(),
            argument: argument.to_owned(),
            graph: None,
            buffer: State::buffer_id(slot),
            expected,
            found: entry.generation(),
            bytes_needed: storage.requested,
            bytes_found: if alive { storage.requested } else { Bytes::ZERO },
            device_needed: device.clone(),
            device_found: device,
            owner: self.owner_name(storage.owner),
            owner_id: storage.owner,
            site: storage.site,
            allocated_at: storage.allocated_at,
            cleared_by,
            entry: self.entry_of(slot, expected),
            killer,
        }
    }

    fn entry_of(&self, slot: u32, generation: Generation) -> Option<(String, Vec<Part>)> {
        let id = self.slots[slot as usize].entry?;
        let entry = self.entries.get(&id)?;
        let ours = |(_, part, of, _): &(&str, u32, Generation, Bytes)| *part == slot && *of == generation;
        if !entry.parts.iter().any(ours) {
            return None;
        }
        let parts = entry.parts.iter().map(|(name, slot, generation, bytes)| Part {
            name,
            bytes: *bytes,
            alive: self.slots[*slot as usize].generation() == *generation,
        });
        Some((entry.key.clone(), parts.collect()))
    }

    fn state_refusal(&mut self, report: RefusedUse) -> RuntimeError {
        let op = self.probe.name(&report.op);
        let argument = self.probe.name(&report.argument);
        self.probe.record(AccessRefused {
            refusal: report.refusal,
            op,
            argument,
            buffer: report.buffer,
            expected: report.expected,
            found: report.found,
            owner: report.owner_id,
            graph: report.graph.map(|(graph, _)| crate::base::GraphId(graph)),
            purge: report.killer.as_ref().map(|killer| killer.purge),
        });
        RuntimeError::Refused(Box::new(report))
    }
}

impl RefusedUse {
    /// Whether some parts of its pool entry are alive, and some dead.
    fn is_torn(&self) -> bool {
        let parts = self
            .entry
            .as_ref()
            .map(|(_, parts)| parts.as_slice())
            .unwrap_or_default();
        parts.iter().any(|part| part.alive) && parts.iter().any(|part| !part.alive)
    }
}
