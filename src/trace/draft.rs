//! One frame in the making: its length, then its body.

use crate::trace::format::TEXT_MAX;

/// Bytes of the largest frame, and more: a text or a list of ids, and a dozen numbers of 10 bytes.
pub(super) const ROOM: usize = TEXT_MAX + 1024;

/// Where the body begins. Behind a length of one byte, so that a short frame begins at a whole word: its checksum is then
/// faster.
const BODY: usize = 9;

/// Holds a frame.
#[derive(Debug)]
#[repr(C, align(8))]
pub(super) struct Draft {
    bytes: [u8; ROOM],
    end: usize,
}

impl Draft {
    pub(super) fn new() -> Draft {
        Draft {
            bytes: [0; ROOM],
            end: BODY,
        }
    }

    /// Begins a new frame.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.end = BODY;
    }

    /// Adds to the body; counts once [`Fill::done`] says so.
    #[inline(always)]
    pub(super) fn fill(&mut self) -> Fill<'_> {
        Fill {
            end: self.end,
            bytes: &mut self.bytes,
            done: &mut self.end,
        }
    }

    /// The frame, its length before its body.
    #[inline]
    pub(super) fn sealed(&mut self) -> &[u8] {
        let length = self.end - BODY;
        if length < 0x80 {
            self.bytes[BODY - 1] = length as u8;
            return &self.bytes[BODY - 1..self.end];
        }
        // Two bytes hold any length that there is room for.
        self.bytes[BODY - 2..BODY].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]);
        &self.bytes[BODY - 2..self.end]
    }

    /// The body alone.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[BODY..self.end]
    }
}

/// The end of a body. Everything is inlined into one function for all events, so that `end` stays in a register.
pub(super) struct Fill<'a> {
    bytes: &'a mut [u8; ROOM],
    end: usize,
    done: &'a mut usize,
}

impl Fill<'_> {
    #[inline(always)]
    pub(super) fn done(self) {
        *self.done = self.end;
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, value: u8) {
        self.bytes[self.end] = value;
        self.end += 1;
    }

    /// Most fields take one byte, which is easy to predict. How long another is can't be: so it writes a whole word and
    /// moves on by a part of it, without a branch for each byte.
    #[inline(always)]
    pub(super) fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.byte(value as u8);
        } else if value >> 56 == 0 {
            let length = (70 - (value | 1).leading_zeros()) as usize / 7;
            let more = 0x8080_8080_8080_8080 & ((1 << (8 * (length - 1))) - 1);
            self.bytes[self.end..self.end + 8].copy_from_slice(&(spread(value) | more).to_le_bytes());
            self.end += length;
        } else {
            self.end = put_long(self.bytes, self.end, value);
        }
    }

    #[inline(always)]
    pub(super) fn slice(&mut self, slice: &[u8]) {
        self.bytes[self.end..self.end + slice.len()].copy_from_slice(slice);
        self.end += slice.len();
    }
}

/// Moves groups of 7 bits, of which there are 8, to bytes of their own.
#[inline(always)]
fn spread(value: u64) -> u64 {
    let halves = (value & 0x0FFF_FFFF) | (value & 0x00FF_FFFF_F000_0000) << 4;
    let quarters = (halves & 0x0000_3FFF_0000_3FFF) | (halves & 0x0FFF_C000_0FFF_C000) << 2;
    (quarters & 0x007F_007F_007F_007F) | (quarters & 0x3F80_3F80_3F80_3F80) << 1
}

/// A varint of more than 8 bytes; returns where it ends.
#[cold]
#[inline(never)]
fn put_long(bytes: &mut [u8; ROOM], mut end: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[end] = value as u8 | 0x80;
        value >>= 7;
        end += 1;
    }
    bytes[end] = value as u8;
    end + 1
}

#[cfg(test)]
mod tests {
    use super::Draft;
    use crate::trace::codec::take_varint;

    #[test]
    fn a_varint_of_any_length_reads_as_it_was_written() {
        for shift in 0..64 {
            for value in [
                1 << shift,
                (1 << shift) - 1,
                u64::MAX >> shift,
                0x5555_5555_5555_5555 >> shift,
            ] {
                let mut draft = Draft::new();
                let mut fill = draft.fill();
                fill.varint(value);
                fill.done();
                let bits = 64 - u64::from((value | 1).leading_zeros());
                assert_eq!(draft.body().len() as u64, bits.div_ceil(7));
                let mut body = draft.body();
                assert_eq!(take_varint(&mut body), Some(value));
                assert!(body.is_empty());
            }
        }
    }

    #[test]
    fn a_long_frame_has_a_length_of_two_bytes() {
        for size in [0, 1, 127, 128, 4000] {
            let mut draft = Draft::new();
            let mut fill = draft.fill();
            fill.slice(&vec![7; size]);
            fill.done();
            assert_eq!(draft.sealed().to_vec(), draft.sealed());
            let mut sealed = draft.sealed();
            assert_eq!(take_varint(&mut sealed), Some(size as u64));
            assert_eq!(sealed, vec![7; size]);
        }
    }
}
