//! Owners: whoever asks for memory is known by name, and can be told to clear.

use std::sync::{Arc, PoisonError, Weak};

use crate::base::{Bytes, DeviceId, OwnerId};
use crate::event::{OwnerKind, OwnerRegistered, Stage};
use crate::runtime::Runtime;
use crate::runtime::state::OwnerState;

/// What an owner says it freed on one device. A claim: a purge holds it against the books and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where.
    pub device: DeviceId,
    /// How many entries it let go.
    pub entries: u64,
    /// How many bytes of storage that freed; not what others still hold.
    pub bytes: Bytes,
}

/// Someone who holds device memory and can be told to let it go.
pub trait Owner: Send + Sync {
    /// Lets everything go; what others still hold is not claimed.
    fn clear(&self) -> Vec<Claim>;

    /// Lets go of what depends on memory of these owners. Only caches of graphs do.
    fn drop_dependents(&self, of: &[OwnerId]) -> Vec<Claim> {
        let _ = of;
        Vec::new()
    }

    /// Resets "already applied" flags whose layer is gone; how many.
    fn rearm(&self) -> u64 {
        0
    }

    /// Whether a selective purge should eject it. Only models are.
    fn is_flagged(&self) -> bool {
        false
    }
}

/// An owner as the runtime knows it.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) id: OwnerId,
    pub(super) name: String,
    pub(super) kind: OwnerKind,
    pub(super) cleared_by: Stage,
    pub(super) owner: Weak<dyn Owner>,
}

/// An owner that has nothing to let go by itself: its bytes go with their handles.
struct Passive;

impl Owner for Passive {
    fn clear(&self) -> Vec<Claim> {
        Vec::new()
    }
}

impl Runtime {
    /// Makes an owner, and registers it under `name`.
    pub fn own<T: Owner + 'static>(
        &self,
        name: &str,
        kind: OwnerKind,
        cleared_by: Stage,
        make: impl FnOnce(OwnerId) -> T,
    ) -> Arc<T> {
        let id = self.register(name, kind, cleared_by);
        let owner = Arc::new(make(id));
        let shared: Arc<dyn Owner> = owner.clone();
        self.enlist(Registered {
            id,
            name: name.to_owned(),
            kind,
            cleared_by,
            owner: Arc::downgrade(&shared),
        });
        owner
    }

    /// Registers an owner whose buffers someone else lets go, such as the weights of a model.
    #[must_use]
    pub fn own_passively(&self, name: &str, kind: OwnerKind, cleared_by: Stage) -> OwnerId {
        let id = self.register(name, kind, cleared_by);
        self.enlist(Registered {
            id,
            name: name.to_owned(),
            kind,
            cleared_by,
            owner: Weak::<Passive>::new(),
        });
        id
    }

    fn enlist(&self, registered: Registered) {
        let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.push(registered);
    }

    fn register(&self, name: &str, kind: OwnerKind, cleared_by: Stage) -> OwnerId {
        let mut state = self.shared.lock();
        let id = OwnerId(state.owners.len() as u32);
        state.owners.push(OwnerState {
            name: name.to_owned(),
            kind,
            cleared_by,
        });
        let text = state.probe.name(name);
        state.probe.record(OwnerRegistered {
            owner: id,
            name: text,
            kind,
            cleared_by,
        });
        id
    }
}
