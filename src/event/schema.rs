//! The macros that declare events once: type, wire tag, class, field order and documentation.

/// Whether a fact may be dropped when recording can't keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Never dropped: losing the end of a pair makes data wrong, not thin.
    Book,
    /// May be dropped; a [`Gap`](crate::event::Gap) then says how many were.
    Detail,
}

/// One field of a kind of event, for documentation and for the schema hash.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Name in the text form.
    pub name: &'static str,
    /// Type as in `traces/FORMAT.md`.
    pub type_name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The words of a closed vocabulary; empty for other types.
    pub words: &'static [&'static str],
}

/// One kind of event.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// Number on the wire; never reused.
    pub tag: u8,
    /// Name in the text form.
    pub name: &'static str,
    /// Whether it may be dropped.
    pub class: Class,
    /// What it says.
    pub doc: &'static str,
    /// Its fields in wire order.
    pub fields: &'static [FieldInfo],
}

/// Declares event structs. Each gets public fields, and reading and writing through
/// [`FieldSink`](crate::event::FieldSink) and [`FieldSource`](crate::event::FieldSource).
macro_rules! facts {
    ($(
        $(#[doc = $doc:literal])+
        $class:ident $name:ident = $tag:literal {
            $($(#[doc = $fdoc:literal])+ $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $fdoc])+ pub $field: $type,)* }

        impl $name {
            /// What the schema says of this kind.
            pub const INFO: $crate::event::KindInfo = $crate::event::KindInfo {
                tag: $tag,
                name: stringify!($name),
                class: $crate::event::Class::$class,
                doc: concat!($($doc),+),
                fields: &[$($crate::event::FieldInfo {
                    name: stringify!($field),
                    type_name: <$type as $crate::event::Field>::TYPE,
                    doc: concat!($($fdoc),+),
                    words: <$type as $crate::event::Field>::WORDS,
                }),*],
            };

            #[inline(always)]
            pub(super) fn put<S: $crate::event::FieldSink>(&self, sink: &mut S) {
                $($crate::event::Field::put(&self.$field, stringify!($field), sink);)*
                let _ = sink;
            }

            #[inline]
            pub(super) fn take<S: $crate::event::FieldSource>(source: &mut S) -> Result<Self, S::Error> {
                $(let $field = $crate::event::Field::take(stringify!($field), source)?;)*
                let _ = source;
                Ok($name { $($field),* })
            }
        }

        impl From<$name> for $crate::event::Event {
            #[inline]
            fn from(fact: $name) -> Self {
                $crate::event::Event::$name(fact)
            }
        }
    )*};
}

/// Declares a closed vocabulary: an enum whose words appear in the text form.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $word:literal,)+ }
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)+ }

        impl $name {
            /// All members in wire order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word in the text form.
            #[must_use]
            pub fn word(self) -> &'static str {
                <$name as $crate::event::Field>::WORDS[self as usize]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl $crate::event::Field for $name {
            const TYPE: &'static str = stringify!($name);
            const WORDS: &'static [&'static str] = &[$($word),+];
            #[inline(always)]
            fn put<S: $crate::event::FieldSink>(&self, name: &'static str, sink: &mut S) {
                sink.word(name, *self as u8, Self::WORDS);
            }
            #[inline]
            fn take<S: $crate::event::FieldSource>(name: &'static str, source: &mut S) -> Result<Self, S::Error> {
                // The source returns an index inside the vocabulary.
                source.word(name, Self::WORDS).map(|index| $name::ALL[usize::from(index)])
            }
        }
    )*};
}

/// Declares [`Event`](crate::event::Event) over all kinds.
macro_rules! event_kinds {
    ($($name:ident),* $(,)?) => {
        /// One fact, in the past tense.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // each variant is documented at its struct
        pub enum Event { $($name($name)),* }

        impl Event {
            /// Every kind, in the order of the source.
            pub const KINDS: &'static [KindInfo] = &[$($name::INFO),*];

            /// What the schema says of this event's kind.
            #[must_use]
            pub fn info(&self) -> &'static KindInfo {
                match self { $(Event::$name(_) => const { &$name::INFO },)* }
            }

            /// The kind's number on the wire.
            #[inline]
            #[must_use]
            pub fn tag(&self) -> u8 {
                match self { $(Event::$name(_) => $name::INFO.tag,)* }
            }

            /// Writes the fields in their declared order.
            #[inline(always)]
            pub fn put<S: FieldSink>(&self, sink: &mut S) {
                match self { $(Event::$name(fact) => fact.put(sink),)* }
            }

            /// Reads the fields of the kind with number `tag`; `None` where this version knows no such kind.
            ///
            /// # Errors
            /// What the source says of a field.
            #[inline]
            pub fn take<S: FieldSource>(tag: u8, source: &mut S) -> Option<Result<Event, S::Error>> {
                $(if tag == $name::INFO.tag { return Some($name::take(source).map(Event::$name)); })*
                None
            }
        }
    };
}

pub(crate) use {event_kinds, facts, words};
