//! How one field of an event is written and read, whatever the form: binary, text or JSON.

use crate::base::{
    BufferId, Bytes, DeviceId, EntryId, Generation, GraphId, IdSpace, LaunchId, NameId, Nanos, OwnerId,
    PoolId, PromptId, PurgeId, SegmentId, StreamId,
};

/// Takes the fields of one event in their declared order.
pub trait FieldSink {
    /// A count, a size in bytes, a duration in nanoseconds.
    fn number(&mut self, name: &'static str, value: u64);
    /// An identity.
    fn id(&mut self, name: &'static str, space: IdSpace, value: u64);
    /// An identity that may be absent.
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, value: Option<u64>);
    /// A short list of identities.
    fn ids(&mut self, name: &'static str, space: IdSpace, values: &[u32]);
    /// One word of a closed vocabulary.
    fn word(&mut self, name: &'static str, index: u8, vocabulary: &'static [&'static str]);
    /// Free text.
    fn text(&mut self, name: &'static str, value: &str);
}

/// Gives the fields of one event in their declared order.
pub trait FieldSource {
    /// Why a field can't be read.
    type Error;
    /// See [`FieldSink::number`].
    fn number(&mut self, name: &'static str) -> Result<u64, Self::Error>;
    /// See [`FieldSink::id`]. `max` is the largest value that the identity's type can hold.
    fn id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<u64, Self::Error>;
    /// See [`FieldSink::maybe_id`].
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<Option<u64>, Self::Error>;
    /// See [`FieldSink::ids`]. Fills `into`, returns how many; more than fit is an error.
    fn ids(&mut self, name: &'static str, space: IdSpace, into: &mut [u32]) -> Result<usize, Self::Error>;
    /// See [`FieldSink::word`]. Returns an index into `vocabulary`.
    fn word(&mut self, name: &'static str, vocabulary: &'static [&'static str]) -> Result<u8, Self::Error>;
    /// See [`FieldSink::text`].
    fn text(&mut self, name: &'static str) -> Result<Box<str>, Self::Error>;
}

/// A type that can be a field of an event.
pub trait Field: Sized {
    /// The type's name in `traces/FORMAT.md`.
    const TYPE: &'static str;
    /// The words of a closed vocabulary; empty for other types.
    const WORDS: &'static [&'static str] = &[];
    /// Writes the value.
    fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S);
    /// Reads a value.
    ///
    /// # Errors
    /// What the source says of a missing, malformed or oversized value.
    fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error>;
}

macro_rules! id_fields {
    ($($name:ident($repr:ty)),*) => {$(
        impl Field for $name {
            const TYPE: &'static str = stringify!($name);
            #[inline(always)]
            fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S) {
                sink.id(name, $name::SPACE, u64::from(self.0));
            }
            #[inline]
            fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
                // The source has checked the limit, so the narrowing is exact.
                source.id(name, $name::SPACE, u64::from(<$repr>::MAX)).map(|v| $name(v as $repr))
            }
        }

        impl Field for Option<$name> {
            const TYPE: &'static str = concat!(stringify!($name), "?");
            #[inline(always)]
            fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S) {
                sink.maybe_id(name, $name::SPACE, self.map(|id| u64::from(id.0)));
            }
            #[inline]
            fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
                let value = source.maybe_id(name, $name::SPACE, u64::from(<$repr>::MAX))?;
                Ok(value.map(|v| $name(v as $repr)))
            }
        }
    )*};
}

id_fields!(
    DeviceId(u32),
    SegmentId(u32),
    BufferId(u32),
    Generation(u32),
    StreamId(u32),
    OwnerId(u32),
    PoolId(u32),
    EntryId(u32),
    GraphId(u32),
    PurgeId(u32),
    PromptId(u32),
    NameId(u32),
    LaunchId(u64)
);

macro_rules! number_fields {
    ($($name:ty, $label:literal, $get:expr, $make:expr;)*) => {$(
        impl Field for $name {
            const TYPE: &'static str = $label;
            #[inline(always)]
            fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S) {
                sink.number(name, $get(self));
            }
            #[inline]
            fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
                source.number(name).map($make)
            }
        }
    )*};
}

number_fields! {
    Bytes, "bytes", |b: &Bytes| b.0, Bytes;
    Nanos, "ns", |n: &Nanos| n.0, Nanos;
    u64, "count", |n: &u64| *n, |n: u64| n;
}

impl Field for Box<str> {
    const TYPE: &'static str = "text";
    fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S) {
        sink.text(name, self);
    }
    fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
        source.text(name)
    }
}

/// The buffers that a launch touches, in argument order; at most [`Uses::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    len: u8,
    ids: [u32; Uses::MAX],
}

impl Uses {
    /// No kernel of this crate has more buffer arguments.
    pub const MAX: usize = 12;

    /// Takes the first [`Uses::MAX`] of `buffers`.
    #[must_use]
    pub fn new(buffers: impl IntoIterator<Item = BufferId>) -> Uses {
        let mut uses = Uses::default();
        for id in buffers.into_iter().take(Uses::MAX) {
            uses.ids[usize::from(uses.len)] = id.0;
            uses.len += 1;
        }
        uses
    }

    /// The buffers in argument order.
    pub fn iter(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.ids[..usize::from(self.len)].iter().map(|id| BufferId(*id))
    }
}

impl Field for Uses {
    const TYPE: &'static str = "[BufferId]";
    #[inline]
    fn put<S: FieldSink>(&self, name: &'static str, sink: &mut S) {
        sink.ids(name, IdSpace::Buffer, &self.ids[..usize::from(self.len)]);
    }
    #[inline]
    fn take<S: FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
        let mut uses = Uses::default();
        uses.len = source.ids(name, IdSpace::Buffer, &mut uses.ids)? as u8;
        Ok(uses)
    }
}
