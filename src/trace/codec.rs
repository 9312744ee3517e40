//! Varint and delta coding of events.

use crate::base::IdSpace;
use crate::event::{Event, FieldSink, FieldSource};
use crate::trace::draft::{Draft, Fill};
use crate::trace::format::TEXT_MAX;

/// Last value of each family of ids, for each kind of event: a reader that skips a kind it does not know still
/// decodes the others. One table per block, so that blocks decode alone.
#[derive(Clone, Debug)]
pub(super) struct Bases(Box<[[u64; IdSpace::COUNT]; 256]>);

impl Bases {
    pub(super) fn new() -> Bases {
        Bases(Box::new([[0; IdSpace::COUNT]; 256]))
    }

    pub(super) fn reset(&mut self) {
        self.0.fill([0; IdSpace::COUNT]);
    }

    fn of(&mut self, tag: u8) -> &mut [u64; IdSpace::COUNT] {
        &mut self.0[usize::from(tag)]
    }
}

/// Reads one varint and moves `bytes` past it. `None` where it is cut off or longer than 64 bits.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift == 63 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(delta: i64) -> u64 {
    ((delta << 1) ^ (delta >> 63)) as u64
}

fn unzigzag(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

/// Writes the body of one frame: tag, time since the frame before, fields.
pub(super) fn encode(event: &Event, since_last: u64, bases: &mut Bases, draft: &mut Draft) {
    let mut sink = Sink {
        bases: bases.of(event.tag()),
        out: draft.fill(),
    };
    sink.out.byte(event.tag());
    sink.out.varint(since_last);
    event.put(&mut sink);
    sink.out.done();
}

struct Sink<'a> {
    bases: &'a mut [u64; IdSpace::COUNT],
    out: Fill<'a>,
}

impl FieldSink for Sink<'_> {
    #[inline(always)]
    fn number(&mut self, _: &'static str, value: u64) {
        self.out.varint(value);
    }
    #[inline(always)]
    fn id(&mut self, _: &'static str, space: IdSpace, value: u64) {
        let base = &mut self.bases[space as usize];
        self.out.varint(zigzag(value.wrapping_sub(*base) as i64));
        *base = value;
    }
    #[inline(always)]
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, value: Option<u64>) {
        self.out.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.id(name, space, value);
        }
    }
    #[inline(always)]
    fn ids(&mut self, name: &'static str, space: IdSpace, values: &[u32]) {
        self.out.byte(values.len() as u8);
        for value in values {
            self.id(name, space, u64::from(*value));
        }
    }
    #[inline(always)]
    fn word(&mut self, _: &'static str, index: u8, _: &'static [&'static str]) {
        self.out.byte(index);
    }
    #[inline(always)]
    fn text(&mut self, _: &'static str, value: &str) {
        let end = value.floor_char_boundary(TEXT_MAX.min(value.len()));
        self.out.varint(end as u64);
        self.out.slice(&value.as_bytes()[..end]);
    }
}

/// A frame whose checksum is right but whose content is not: a writer's fault or a forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadFrame;

/// Reads the event of kind `tag`; `None` where this version knows no such kind.
pub(super) fn decode(tag: u8, bases: &mut Bases, bytes: &[u8]) -> Option<Result<Event, BadFrame>> {
    let mut source = Source {
        bases: bases.of(tag),
        bytes,
    };
    let event = Event::take(tag, &mut source)?;
    Some(if source.bytes.is_empty() {
        event
    } else {
        Err(BadFrame)
    })
}

struct Source<'a> {
    bases: &'a mut [u64; IdSpace::COUNT],
    bytes: &'a [u8],
}

impl Source<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, BadFrame> {
        let (byte, rest) = self.bytes.split_first().ok_or(BadFrame)?;
        self.bytes = rest;
        Ok(*byte)
    }
}

impl FieldSource for Source<'_> {
    type Error = BadFrame;

    #[inline]
    fn number(&mut self, _: &'static str) -> Result<u64, BadFrame> {
        take_varint(&mut self.bytes).ok_or(BadFrame)
    }
    #[inline]
    fn id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<u64, BadFrame> {
        let delta = unzigzag(self.number(name)?);
        let base = &mut self.bases[space as usize];
        *base = base.wrapping_add(delta as u64);
        if *base > max { Err(BadFrame) } else { Ok(*base) }
    }
    #[inline]
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<Option<u64>, BadFrame> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.id(name, space, max).map(Some),
            _ => Err(BadFrame),
        }
    }
    #[inline]
    fn ids(&mut self, name: &'static str, space: IdSpace, into: &mut [u32]) -> Result<usize, BadFrame> {
        let count = usize::from(self.byte()?);
        for value in into.get_mut(..count).ok_or(BadFrame)? {
            *value = self.id(name, space, u64::from(u32::MAX))? as u32;
        }
        Ok(count)
    }
    #[inline]
    fn word(&mut self, _: &'static str, vocabulary: &'static [&'static str]) -> Result<u8, BadFrame> {
        let index = self.byte()?;
        if usize::from(index) < vocabulary.len() {
            Ok(index)
        } else {
            Err(BadFrame)
        }
    }
    fn text(&mut self, name: &'static str) -> Result<Box<str>, BadFrame> {
        let length = usize::try_from(self.number(name)?).map_err(|_| BadFrame)?;
        if length > TEXT_MAX {
            return Err(BadFrame);
        }
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(BadFrame)?;
        self.bytes = rest;
        std::str::from_utf8(text).map(Box::from).map_err(|_| BadFrame)
    }
}
