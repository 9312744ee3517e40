//! Slots of a file that is being read, and what is in which.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use crate::trace::block::{KeptHead, take_header};
use crate::trace::format::{
    BlockHead, BlockKind, COMMITTED, HEADER, Header, SCHEMA_VERSION, SLOT, Start, TraceError, word,
};

/// Reads slots of a file at any place.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    slot: Vec<u8>,
}

impl<R: Read + Seek> Source<R> {
    pub(super) fn new(input: R) -> Source<R> {
        Source {
            input,
            slot: Vec::with_capacity(SLOT),
        }
    }

    /// The bytes of a slot: fewer than a slot has at the end of the file, none beyond it.
    pub(super) fn slot(&mut self, index: usize) -> Result<&[u8], TraceError> {
        self.read(index, SLOT)?;
        Ok(&self.slot)
    }

    /// The first bytes of a slot; `None` where the file ends before them.
    pub(super) fn head(&mut self, index: usize) -> Result<Option<[u8; HEADER]>, TraceError> {
        self.read(index, HEADER)?;
        Ok(self.slot.first_chunk().copied())
    }

    fn read(&mut self, index: usize, length: usize) -> Result<(), TraceError> {
        let offset = index as u64 * SLOT as u64;
        let failed = |source| TraceError::Io { offset, source };
        self.slot.clear();
        self.input.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut part = (&mut self.input).take(length as u64);
        part.read_to_end(&mut self.slot).map_err(failed)?;
        Ok(())
    }

    fn length(&mut self) -> Result<u64, TraceError> {
        let end = self.input.seek(SeekFrom::End(0));
        end.map_err(|source| TraceError::Io { offset: 0, source })
    }

    /// Reads and checks the header block: what it says, its kind, and whether bytes after it are zero.
    pub(super) fn header(&mut self) -> Result<(Header, BlockKind, bool), TraceError> {
        let slot = self.slot(0)?;
        let (head, payload) = BlockHead::open(slot).map_err(|reason| TraceError::NotATrace { reason })?;
        if !matches!(head.kind, BlockKind::Header | BlockKind::RingHeader) {
            return Err(TraceError::NotATrace {
                reason: "the first block is not a header",
            });
        }
        let header = take_header(payload).ok_or(TraceError::NotATrace {
            reason: "header is malformed",
        })?;
        if header.schema > SCHEMA_VERSION {
            return Err(TraceError::TooNew { found: header.schema });
        }
        let clean = slot[HEADER + payload.len()..].iter().all(|byte| *byte == 0);
        Ok((header, head.kind, clean))
    }

    /// Looks at every slot of a ring file.
    pub(super) fn index(&mut self) -> Result<Index, TraceError> {
        let mut index = Index::default();
        let mut kept: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut events = Vec::new();
        let slots = self.length()? / SLOT as u64;
        for slot in 1..usize::try_from(slots).unwrap_or(usize::MAX) {
            let Some(bytes) = self.head(slot)? else { break };
            match BlockHead::parse(&bytes) {
                _ if word(&bytes, COMMITTED) == 0 => index.rest.push(slot),
                Err(reason) => index.bad.push((slot, reason)),
                Ok(head) => match head.kind {
                    BlockKind::Events => events.push((head.first_seq, slot)),
                    BlockKind::Kept => kept.entry(head.first_seq).or_default().push(slot),
                    BlockKind::Trailer | BlockKind::CutEnd if index.end.is_none() => index.end = Some(slot),
                    _ => index.bad.push((slot, "second header or trailer")),
                },
            }
        }
        index.partial = !self.length()?.is_multiple_of(SLOT as u64);
        for slots in kept.into_values().rev() {
            match self.complete(&slots)? {
                Some((start, in_order)) if index.start.is_none() => {
                    index.start = Some(start);
                    index.kept = in_order;
                }
                _ => index.rest.extend(slots),
            }
        }
        let from = index.start.map_or(0, |start| start.from.0);
        for (first, slot) in events {
            if first >= from {
                index.events.push((first, slot));
            } else {
                index.rest.push(slot);
            }
        }
        index.events.sort_unstable();
        Ok(index)
    }

    /// The start that a set of kept blocks states, and the blocks in order, where all of them are there.
    fn complete(&mut self, slots: &[usize]) -> Result<Option<(Start, Vec<usize>)>, TraceError> {
        let mut places = BTreeMap::new();
        let mut first: Option<KeptHead> = None;
        for slot in slots {
            let Ok((head, payload)) = BlockHead::open(self.slot(*slot)?) else {
                continue;
            };
            let Some((kept, _)) = KeptHead::read(head, payload) else {
                continue;
            };
            let known = *first.get_or_insert(kept);
            if (known.blocks, known.start) == (kept.blocks, kept.start) {
                places.insert(kept.index, *slot);
            }
        }
        let whole = first.filter(|known| known.blocks == slots.len() as u64 && slots.len() == places.len());
        Ok(whole.map(|known| (known.start, places.into_values().collect())))
    }
}

/// What is in which slot of a ring file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) start: Option<Start>,
    /// The newest complete set of kept blocks, in order.
    pub(super) kept: Vec<usize>,
    /// Event blocks from the start on, with their first number, in order.
    pub(super) events: Vec<(u64, usize)>,
    /// The trailer, or the end of a cut.
    pub(super) end: Option<usize>,
    /// Free slots, and blocks that newer ones replace: all zeros once the file is finished.
    pub(super) rest: Vec<usize>,
    /// Blocks that are none.
    pub(super) bad: Vec<(usize, &'static str)>,
    /// Whether the file ends inside a slot.
    pub(super) partial: bool,
}
