//! Facts about purges and models.

use crate::base::{BufferId, Bytes, DeviceId, Generation, NameId, OwnerId, PurgeId};
use crate::event::schema::facts;
use crate::event::{Holder, Outcome, Stage};

facts! {
    /// A purge began.
    Book PurgeBegan = 50 {
        /// Its number.
        purge: PurgeId,
        /// Its profile.
        profile: NameId,
        /// The storage kill takes buffers of at least this size.
        threshold: Bytes,
        /// Pieces of work that were in flight.
        in_flight: u64,
    }
    /// A purge was refused, since work was in flight.
    Book PurgeRefused = 51 {
        /// Its number.
        purge: PurgeId,
        /// Pieces of work in flight.
        in_flight: u64,
    }
    /// A stage of a purge began.
    Book StageBegan = 52 {
        /// The purge.
        purge: PurgeId,
        /// The stage.
        stage: Stage,
    }
    /// An owner cleared itself, and claims this.
    Book OwnerCleared = 53 {
        /// The purge.
        purge: PurgeId,
        /// The stage.
        stage: Stage,
        /// The owner.
        owner: OwnerId,
        /// Where; an owner with memory on two devices states this twice.
        device: DeviceId,
        /// How many entries it says it cleared.
        entries: u64,
        /// How many bytes it says it freed.
        bytes: Bytes,
    }
    /// A stage of a purge ended on one device; claims and readings side by side. Once for each device.
    Book StageEnded = 54 {
        /// The purge.
        purge: PurgeId,
        /// The stage.
        stage: Stage,
        /// The device.
        device: DeviceId,
        /// The sum of its owners' claims.
        claimed: Bytes,
        /// Live bytes in the allocator's books before.
        allocator_before: Bytes,
        /// The same after.
        allocator_after: Bytes,
        /// Used bytes by the device's own count before.
        device_before: Bytes,
        /// The same after.
        device_after: Bytes,
    }
    /// A buffer outlived a purge.
    Book PurgeSurvivor = 55 {
        /// The purge.
        purge: PurgeId,
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
        /// Its owner.
        owner: OwnerId,
        /// Who keeps it.
        holder: Holder,
    }
    /// A purge ended.
    Book PurgeEnded = 56 {
        /// The purge.
        purge: PurgeId,
        /// How it ended.
        outcome: Outcome,
    }
    /// A model's weights are on the device.
    Book ModelLoaded = 60 {
        /// The model, as owner of its weights.
        model: OwnerId,
    }
    /// A model says that its weights are gone from the device.
    Book ModelUnloaded = 61 {
        /// The model.
        model: OwnerId,
    }
    /// A host copy is what the next load of a model will read.
    Book ReloadSourceKept = 62 {
        /// The model.
        model: OwnerId,
        /// The tensor.
        tensor: NameId,
        /// The slot of the host copy.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
    }
    /// A meter was read. Readings are never added to claims.
    Book MeterRead = 70 {
        /// Which meter.
        meter: NameId,
        /// Of which device.
        device: DeviceId,
        /// Used bytes.
        used: Bytes,
        /// Free bytes.
        free: Bytes,
    }
}
