//! A digest of the state without its times: the same on every machine.
//!
//! Numbers go in as little-endian words of 64 bits and texts behind their length, so neither byte order,
//! nor the width of a pointer, nor the standard library's hashing shows.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use crate::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, LaunchId, NameId, OwnerId, PoolId, PromptId,
    PurgeId, SegmentId, Seq, StreamId,
};
use crate::event::{
    DeviceKind, Direction, GapCause, Holder, Outcome, OwnerKind, Phase, Refusal, ReleaseCause, Stage,
};

/// Takes the words of a state.
pub(crate) struct Digester(Xxh3);

impl Digester {
    fn word(&mut self, value: u64) {
        self.0.update(&value.to_le_bytes());
    }
}

/// A state that can be digested.
pub(crate) trait Digest {
    /// Gives all that is not a time.
    fn digest(&self, into: &mut Digester);
}

/// The digest of `state`.
pub(crate) fn of(state: &impl Digest) -> u64 {
    let mut digester = Digester(Xxh3::new());
    state.digest(&mut digester);
    digester.0.digest()
}

/// Implements [`Digest`] field by field. A field that is in neither list does not compile.
macro_rules! digest {
    ($name:ident { $($field:ident),* $(,)? } $(untimed { $($skipped:ident),* $(,)? })?) => {
        impl $crate::ledger::digest::Digest for $name {
            fn digest(&self, into: &mut $crate::ledger::digest::Digester) {
                let $name { $($field,)* $($($skipped: _,)*)? } = self;
                $($crate::ledger::digest::Digest::digest($field, into);)*
            }
        }
    };
}
pub(crate) use digest;

macro_rules! as_word {
    ($($name:ty: |$value:ident| $word:expr;)*) => {$(
        impl Digest for $name {
            fn digest(&self, into: &mut Digester) {
                let $value = self;
                into.word($word);
            }
        }
    )*};
}

as_word! {
    u64: |v| *v;
    u32: |v| u64::from(*v);
    bool: |v| u64::from(*v);
    Bytes: |v| v.0;
    Seq: |v| v.0;
    LaunchId: |v| v.0;
}

macro_rules! ids_and_words {
    ($($id:ident),*; $($word:ident),*) => {
        $(as_word! { $id: |v| u64::from(v.0); })*
        $(as_word! { $word: |v| *v as u64; })*
    };
}

ids_and_words!(
    BufferId, DeviceId, EntryId, Generation, GraphId, NameId, OwnerId, PoolId, PromptId, PurgeId, SegmentId, StreamId;
    DeviceKind, Direction, GapCause, Holder, Outcome, OwnerKind, Phase, Refusal, ReleaseCause, Stage
);
/// Implements [`Digest`] for an enum without fields, by the place of its variant.
macro_rules! as_word_of_enum {
    ($name:ident) => {
        impl $crate::ledger::digest::Digest for $name {
            fn digest(&self, into: &mut $crate::ledger::digest::Digester) {
                $crate::ledger::digest::Digest::digest(&(*self as u64), into);
            }
        }
    };
}
pub(crate) use as_word_of_enum;

impl Digest for i128 {
    fn digest(&self, into: &mut Digester) {
        into.0.update(&self.to_le_bytes());
    }
}

impl Digest for str {
    fn digest(&self, into: &mut Digester) {
        into.word(self.len() as u64);
        into.0.update(self.as_bytes());
    }
}

impl<T: Digest + ?Sized> Digest for Box<T> {
    fn digest(&self, into: &mut Digester) {
        (**self).digest(into);
    }
}

impl<T: Digest> Digest for Option<T> {
    fn digest(&self, into: &mut Digester) {
        into.word(u64::from(self.is_some()));
        if let Some(value) = self {
            value.digest(into);
        }
    }
}

impl<T: Digest> Digest for [T] {
    fn digest(&self, into: &mut Digester) {
        into.word(self.len() as u64);
        self.iter().for_each(|item| item.digest(into));
    }
}

impl<T: Digest, const N: usize> Digest for [T; N] {
    fn digest(&self, into: &mut Digester) {
        self.as_slice().digest(into);
    }
}

impl<T: Digest> Digest for Vec<T> {
    fn digest(&self, into: &mut Digester) {
        self.as_slice().digest(into);
    }
}

impl<A: Digest, B: Digest> Digest for (A, B) {
    fn digest(&self, into: &mut Digester) {
        self.0.digest(into);
        self.1.digest(into);
    }
}

impl<K: Digest, V: Digest> Digest for BTreeMap<K, V> {
    fn digest(&self, into: &mut Digester) {
        into.word(self.len() as u64);
        for (key, value) in self {
            key.digest(into);
            value.digest(into);
        }
    }
}
