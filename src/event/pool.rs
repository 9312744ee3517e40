//! Facts about pools of reusable entries.

use crate::base::{BufferId, Bytes, EntryId, Generation, NameId, OwnerId, PoolId, StreamId};
use crate::event::schema::facts;
use crate::event::{ReleaseCause, TakeOutcome};

facts! {
    /// A pool was opened.
    Book PoolOpened = 20 {
        /// Its number.
        pool: PoolId,
        /// Its owner.
        owner: OwnerId,
        /// The stream in its key.
        stream: StreamId,
        /// It evicts above this.
        limit: Bytes,
    }
    /// A pool got an entry. Its parts follow.
    Book EntryAdded = 21 {
        /// The pool.
        pool: PoolId,
        /// The entry.
        entry: EntryId,
        /// Its key, in words.
        key: NameId,
    }
    /// An entry got one of its buffers.
    Book EntryPartSet = 22 {
        /// The entry.
        entry: EntryId,
        /// The part, such as `qx` or `scales`.
        part: NameId,
        /// The slot.
        buffer: BufferId,
        /// Its generation.
        generation: Generation,
    }
    /// Someone took from a pool.
    Book PoolTaken = 23 {
        /// The pool.
        pool: PoolId,
        /// The entry.
        entry: EntryId,
        /// What it gave.
        outcome: TakeOutcome,
    }
    /// A pool let an entry go.
    Book EntryDropped = 24 {
        /// The entry.
        entry: EntryId,
        /// Why.
        cause: ReleaseCause,
    }
}
