//! Allocation and release: the allocator's policy, the driver's segments, the events.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::base::{Bytes, Generation, GraphId, LaunchId, Nanos, OwnerId, PurgeId, StreamId};
use crate::device::DeviceError;
use crate::event::{
    AllocFailed, AllocRetried, BufferAllocated, BufferHeld, BufferKilled, ReleaseCause, ReleaseCompleted,
    ReleaseRequested, ReturnCause, SegmentReserved, SegmentReturned, Stage,
};
use crate::runtime::allocator::Placement;
use crate::runtime::error::OutOfMemory;
use crate::runtime::probe::spans;
use crate::runtime::state::{Life, Obituary, Slot, State};
use crate::runtime::{Buffer, RuntimeError, Shared};

/// What an allocation is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) space: usize,
    pub(super) stream: StreamId,
    pub(super) owner: OwnerId,
    pub(super) site: &'a str,
    pub(super) bytes: Bytes,
}

impl Shared {
    pub(super) fn allocate(self: &Arc<Self>, request: Request<'_>) -> Result<Buffer, RuntimeError> {
        let mut state = self.lock();
        let owner = state.owner_name(request.owner);
        if request.bytes == Bytes::ZERO {
            return Err(RuntimeError::ZeroBytes {
                owner,
                site: request.site.to_owned(),
            });
        }
        let span = spans::allocate(&owner, request.bytes);
        let placement = match state.find_place(request) {
            Ok(placement) => placement,
            Err(error) => {
                span.record("error.type", "out_of_memory");
                return Err(error);
            }
        };
        let slot = state.take_slot();
        let site = state.probe.name(request.site);
        let entry = &mut state.slots[slot as usize];
        entry.life = Life::Live;
        entry.space = request.space;
        entry.stream = request.stream;
        entry.placement = Some(placement);
        entry.requested = request.bytes;
        entry.owner = request.owner;
        request.site.clone_into(&mut entry.site);
        let (generation, cell) = (entry.generation(), Arc::clone(&entry.cell));
        let stamp = state.probe.record_in(
            &span,
            BufferAllocated {
                buffer: State::buffer_id(slot),
                generation,
                segment: placement.segment,
                offset: placement.offset,
                requested: request.bytes,
                slack: placement.block.saturating_sub(request.bytes),
                stream: request.stream,
                owner: request.owner,
                site,
            },
        );
        if !span.is_disabled() {
            span.record("vramscope.buffer", slot);
            span.record("vramscope.generation", generation.0);
        }
        state.slots[slot as usize].allocated_at = stamp.at;
        Ok(Buffer {
            shared: Arc::clone(self),
            cell,
            slot,
            generation,
            address: placement.address,
            bytes: request.bytes,
            space: request.space,
            device: state.spaces[request.space].id,
            cause: ReleaseCause::Dropped,
        })
    }

    /// The handle of a buffer is gone.
    pub(super) fn release(&self, slot: u32, generation: Generation, cause: ReleaseCause) {
        let mut state = self.lock();
        if state.slots[slot as usize].generation() != generation {
            // A purge was faster; there is no storage, and now no handle either.
            state.retire(slot);
            return;
        }
        state.probe.record(ReleaseRequested {
            buffer: State::buffer_id(slot),
            generation,
            cause,
        });
        state.slots[slot as usize].life = Life::Pending;
        if state.slots[slot as usize].bakes > 0 {
            state.hold(slot, generation);
        } else {
            state.pending.push(slot);
            state.complete_releases();
        }
    }
}

impl State {
    fn take_slot(&mut self) -> u32 {
        if let Some(slot) = self.free_slots.pop() {
            return slot;
        }
        self.slots.push(Slot {
            cell: Arc::new(AtomicU32::new(0)),
            life: Life::Free,
            space: 0,
            stream: StreamId(0),
            placement: None,
            requested: Bytes::ZERO,
            owner: OwnerId(0),
            site: String::new(),
            allocated_at: Nanos(0),
            entry: None,
            reload_source: false,
            bakes: 0,
            foreign_uses: Vec::new(),
            obituary: None,
        });
        self.slots.len() as u32 - 1
    }

    /// A slot without storage and without a handle can be used again.
    fn retire(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.life = Life::Free;
        entry.entry = None;
        entry.reload_source = false;
        entry.foreign_uses.clear();
        self.free_slots.push(slot);
    }

    fn hold(&mut self, slot: u32, generation: Generation) {
        self.slots[slot as usize].life = Life::Held;
        let baked =
            |graph: &crate::runtime::state::Baked| graph.slot == slot && graph.generation == generation;
        let finished = self
            .graphs
            .iter()
            .find(|(_, graph)| graph.baked.iter().any(baked));
        let graph = finished.map(|(id, _)| *id).or_else(|| {
            let open = self.streams.iter().filter_map(|stream| stream.capture.as_ref());
            open.filter(|capture| capture.baked.iter().any(baked))
                .map(|capture| capture.graph)
                .next()
        });
        let open = self
            .streams
            .iter_mut()
            .filter_map(|stream| stream.capture.as_mut());
        for baked in open.flat_map(|capture| &mut capture.baked) {
            baked.internal |= baked.slot == slot && baked.generation == generation;
        }
        self.probe.record(BufferHeld {
            buffer: State::buffer_id(slot),
            generation,
            graph: graph.unwrap_or(GraphId(u32::MAX)),
        });
    }

    /// One graph less has the slot's address.
    pub(super) fn unbake(&mut self, slot: u32, generation: Generation) {
        let entry = &mut self.slots[slot as usize];
        if entry.generation() != generation {
            return;
        }
        entry.bakes = entry.bakes.saturating_sub(1);
        if entry.bakes == 0 && entry.life == Life::Held {
            entry.life = Life::Pending;
            self.pending.push(slot);
            self.complete_releases();
        }
    }

    /// Completes those releases whose last use on other streams is done.
    pub(super) fn complete_releases(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for slot in pending {
            let entry = &self.slots[slot as usize];
            if entry.life != Life::Pending {
                continue;
            }
            let done = |(stream, launch): &(StreamId, LaunchId)| self.is_done(*stream, *launch);
            if entry.foreign_uses.iter().all(done) {
                self.complete(slot);
            } else {
                self.pending.push(slot);
            }
        }
    }

    fn complete(&mut self, slot: u32) {
        let generation = self.slots[slot as usize].generation();
        self.probe.record(ReleaseCompleted {
            buffer: State::buffer_id(slot),
            generation,
        });
        self.free_storage(slot);
        self.retire(slot);
    }

    /// Gives the slot's block back to its segment, and moves the slot to its next generation.
    fn free_storage(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.advance();
        let space = entry.space;
        if let Some(placement) = entry.placement.take() {
            self.spaces[space]
                .allocator
                .free(placement.segment, placement.offset);
        }
    }

    /// Empties the storage of a slot, whoever holds it.
    pub(super) fn kill(&mut self, slot: u32, purge: PurgeId, stage: Stage) -> Bytes {
        let entry = &self.slots[slot as usize];
        let (generation, bytes, phase) = (entry.generation(), entry.requested, entry.life);
        let stamp = self.probe.record(BufferKilled {
            buffer: State::buffer_id(slot),
            generation,
            purge,
            stage,
        });
        self.free_storage(slot);
        let entry = &mut self.slots[slot as usize];
        let life = entry.storage();
        entry.obituary = Some(Obituary {
            generation,
            purge,
            stage,
            at: stamp.at,
            life,
        });
        if phase == Life::Live {
            entry.life = Life::Dead;
        } else {
            self.retire(slot);
        }
        bytes
    }

    fn find_place(&mut self, request: Request<'_>) -> Result<Placement, RuntimeError> {
        if !self.pending.is_empty() {
            self.settle(self.spaces[request.space].device);
        }
        if let Some(placement) = self.spaces[request.space]
            .allocator
            .place(request.stream, request.bytes)
        {
            return Ok(placement);
        }
        if self.grow(request)? {
            return self.placed(request);
        }
        // The one retry: wait for what is in flight, return cached segments, ask once more.
        self.synchronize_all()?;
        let returned = self.return_cached(request.space, ReturnCause::Retry)?;
        self.probe.record(AllocRetried {
            device: self.spaces[request.space].id,
            returned,
        });
        if let Some(placement) = self.spaces[request.space]
            .allocator
            .place(request.stream, request.bytes)
        {
            return Ok(placement);
        }
        if self.grow(request)? {
            return self.placed(request);
        }
        Err(self.out_of_memory(request, returned))
    }

    fn placed(&mut self, request: Request<'_>) -> Result<Placement, RuntimeError> {
        let space = &mut self.spaces[request.space];
        let placement = space.allocator.place(request.stream, request.bytes);
        placement.ok_or_else(|| self.out_of_memory(request, Bytes::ZERO))
    }

    /// Gets a segment from the driver; false where there is no room.
    fn grow(&mut self, request: Request<'_>) -> Result<bool, RuntimeError> {
        let space = &self.spaces[request.space];
        let (device, kind, id) = (space.device, space.space, space.id);
        for bytes in space.allocator.segment_sizes(request.bytes) {
            match self.devices[device].reserve(kind, bytes) {
                Ok(address) => {
                    let span = spans::grow(&self.spaces[request.space].name, bytes);
                    let segment = self.next.segment();
                    self.probe.record_in(
                        &span,
                        SegmentReserved {
                            device: id,
                            segment,
                            stream: request.stream,
                            bytes,
                        },
                    );
                    let space = &mut self.spaces[request.space];
                    let got = (address, bytes);
                    space
                        .allocator
                        .add_segment(segment, request.stream, request.bytes, got);
                    return Ok(true);
                }
                Err(DeviceError::OutOfMemory { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(false)
    }

    fn out_of_memory(&mut self, request: Request<'_>, returned: Bytes) -> RuntimeError {
        let space = &self.spaces[request.space];
        let info = self.devices[space.device].memory(space.space);
        let report = OutOfMemory {
            owner: self.owner_name(request.owner),
            site: request.site.to_owned(),
            device: space.name.clone(),
            need: request.bytes,
            free: info.free,
            total: info.total,
            cached: space.allocator.cached(),
            largest: space.allocator.largest_free(),
            returned,
        };
        let device = space.id;
        let site = self.probe.name(request.site);
        self.probe.record(AllocFailed {
            device,
            stream: request.stream,
            owner: request.owner,
            site,
            requested: report.need,
            free: report.free,
            cached: report.cached,
            largest: report.largest,
        });
        RuntimeError::OutOfMemory(Box::new(report))
    }

    /// Gives segments back in which nothing is in use. Work in flight must be done.
    pub(super) fn return_cached(&mut self, space: usize, cause: ReturnCause) -> Result<Bytes, RuntimeError> {
        let mut returned = Bytes::ZERO;
        for segment in self.spaces[space].allocator.free_segments() {
            let Some((address, bytes)) = self.spaces[space].allocator.remove_segment(segment) else {
                continue;
            };
            self.probe.record(SegmentReturned { segment, cause });
            let (device, kind) = (self.spaces[space].device, self.spaces[space].space);
            self.devices[device].give_back(kind, address)?;
            returned += bytes;
        }
        Ok(returned)
    }
}
