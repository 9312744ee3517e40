//! Handles of buffers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::{BufferId, Bytes, DeviceId, Generation};
use crate::device::Address;
use crate::event::ReleaseCause;
use crate::runtime::Shared;

/// Storage of one generation of a slot. Dropping it requests the release.
///
/// A purge may take the storage away under a live handle; [`Buffer::is_alive`] then says no, and every
/// launch that uses it is refused.
pub struct Buffer {
    pub(super) shared: Arc<Shared>,
    pub(super) cell: Arc<AtomicU32>,
    pub(super) slot: u32,
    pub(super) generation: Generation,
    pub(super) address: Address,
    pub(super) bytes: Bytes,
    pub(super) space: usize,
    pub(super) device: DeviceId,
    pub(super) cause: ReleaseCause,
}

impl Buffer {
    /// Its slot.
    #[must_use]
    pub fn id(&self) -> BufferId {
        BufferId(self.slot)
    }

    /// Its generation; with the slot, its identity.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What was asked for, without rounding.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The memory space.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Whether its storage is still there: one atomic load.
    #[inline]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.cell.load(Ordering::Acquire) == self.generation.0
    }

    /// A proof, good for one launch, that the storage is there; `None` where it is not.
    #[inline]
    #[must_use]
    pub fn lease(&self) -> Option<Lease<'_>> {
        self.is_alive().then_some(Lease { buffer: self })
    }

    /// Lets go with a cause other than a dropped handle.
    pub fn release(mut self, cause: ReleaseCause) {
        self.cause = cause;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.shared.release(self.slot, self.generation, self.cause);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("id", &self.slot)
            .field("generation", &self.generation)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A checked buffer. The address in it does not leave the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Lease<'a> {
    buffer: &'a Buffer,
}

impl Lease<'_> {
    pub(super) fn address(&self) -> Address {
        self.buffer.address
    }
}
