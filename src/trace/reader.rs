//! Reads a trace block by block: bounded memory, every length checked, never a panic.

use std::collections::VecDeque;
use std::io::Read;

use crate::base::{Nanos, Seq};
use crate::event::Stamped;
use crate::trace::codec::{Bases, decode, take_varint};
use crate::trace::format::{
    BlockHead, BlockKind, COMMITTED, Completeness, HEADER, Header, SCHEMA_VERSION, SLOT, Summary, TraceError,
    word,
};

/// Gives the events of a trace in order. Holds one block at a time.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    header: Header,
    offset: u64,
    ready: VecDeque<Stamped>,
    bases: Bases,
    next_seq: u64,
    summary: Summary,
    trailer: Option<(u64, u64)>,
    /// A block that a kill may have left half written: damage only if another block follows.
    unfinished: Option<(u64, &'static str)>,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// [`TraceError`]: unreadable, not a trace, too new.
    pub fn open(mut input: R) -> Result<TraceReader<R>, TraceError> {
        let slot = read_slot(&mut input, 0)?;
        let (head, payload) = BlockHead::open(&slot).map_err(|reason| TraceError::NotATrace { reason })?;
        if head.kind != BlockKind::Header {
            return Err(TraceError::NotATrace {
                reason: "the first block is not a header",
            });
        }
        let header = read_header(payload).ok_or(TraceError::NotATrace {
            reason: "header is malformed",
        })?;
        if header.schema > SCHEMA_VERSION {
            return Err(TraceError::TooNew { found: header.schema });
        }
        let mut reader = TraceReader {
            input,
            header,
            offset: SLOT as u64,
            ready: VecDeque::new(),
            bases: Bases::new(),
            next_seq: 0,
            summary: Summary {
                events: 0,
                unknown: 0,
                payload: 0,
                completeness: Completeness::Truncated,
            },
            trailer: None,
            unfinished: None,
            ended: false,
        };
        if padding(&slot, payload) {
            reader.damaged(0, "bytes after the block's end are not zero");
        }
        Ok(reader)
    }

    /// What the trace says of its run.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next event, or `None` at the end. A damaged block is skipped and counted.
    ///
    /// # Errors
    /// Only what the system says while reading.
    pub fn next_event(&mut self) -> Result<Option<Stamped>, TraceError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.summary.events += 1;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            self.block()?;
        }
    }

    /// What was found. Final after [`TraceReader::next_event`] has given `None`.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        if let (true, Completeness::Truncated, Some((count, digest))) =
            (self.ended, &summary.completeness, self.trailer)
        {
            let frames = summary.events + summary.unknown;
            summary.completeness = if count == frames && count == self.next_seq {
                Completeness::Complete { digest }
            } else {
                Completeness::Damaged {
                    offset: self.offset,
                    reason: "trailer counts other events",
                    blocks: 1,
                }
            };
        }
        summary
    }

    fn damaged(&mut self, at: u64, why: &'static str) {
        self.summary.completeness = match self.summary.completeness {
            Completeness::Damaged {
                offset,
                reason,
                blocks,
            } => Completeness::Damaged {
                offset,
                reason,
                blocks: blocks + 1,
            },
            _ => Completeness::Damaged {
                offset: at,
                reason: why,
                blocks: 1,
            },
        };
    }

    fn block(&mut self) -> Result<(), TraceError> {
        let at = self.offset;
        let slot = read_slot(&mut self.input, at)?;
        if slot.is_empty() || (slot.len() == SLOT && slot.iter().all(|byte| *byte == 0)) {
            // The file's end, or space that was allocated and never used.
            self.ended = slot.is_empty();
            if !self.ended && self.trailer.is_some() {
                self.damaged(at, "data after the trailer");
            }
            self.offset += slot.len() as u64;
            return Ok(());
        }
        self.offset += slot.len() as u64;
        if slot.len() < SLOT {
            // A file that was cut: what is left of the block can't be checked.
            self.ended = true;
            self.trailer = None;
            return Ok(());
        }
        if self.trailer.is_some() {
            self.damaged(at, "data after the trailer");
        }
        if let Some((offset, reason)) = self.unfinished.take() {
            self.damaged(offset, reason);
        }
        match BlockHead::open(&slot) {
            Ok((
                BlockHead {
                    kind: BlockKind::Trailer,
                    ..
                },
                payload,
            )) => {
                if payload.len() != 16 || padding(&slot, payload) {
                    self.damaged(at, "trailer is malformed");
                } else {
                    self.trailer = Some((word(payload, 0), word(payload, 8)));
                }
            }
            Ok((
                BlockHead {
                    kind: BlockKind::Header,
                    ..
                },
                _,
            )) => self.damaged(at, "second header"),
            Ok((head, payload)) => {
                if head.first_seq != self.next_seq {
                    self.damaged(at, "block does not follow the one before");
                }
                if head.first_seq >= self.next_seq {
                    self.events(at, head, payload);
                }
                if padding(&slot, payload) {
                    self.unfinished = Some((at, "bytes after the block's end are not zero"));
                }
            }
            Err(reason) if word(&slot, COMMITTED) == 0 => self.unfinished = Some((at, reason)),
            Err(reason) => self.damaged(at, reason),
        }
        Ok(())
    }

    fn events(&mut self, at: u64, head: BlockHead, payload: &[u8]) {
        let mut bytes = payload;
        self.bases.reset();
        let mut time = head.base_time;
        let mut seq = head.first_seq;
        self.summary.payload += payload.len() as u64;
        while !bytes.is_empty() {
            let Some(frame) = take_frame(&mut bytes) else {
                return self.damaged(at, "frame is longer than its block");
            };
            time = time.saturating_add(frame.time);
            match decode(frame.tag, &mut self.bases, frame.fields) {
                Some(Ok(event)) => self.ready.push_back(Stamped {
                    seq: Seq(seq),
                    at: Nanos(time),
                    event,
                }),
                Some(Err(_)) => return self.damaged(at, "frame is malformed"),
                None => self.summary.unknown += 1,
            }
            seq = seq.saturating_add(1);
            self.next_seq = seq;
        }
    }
}

struct Frame<'a> {
    tag: u8,
    time: u64,
    fields: &'a [u8],
}

fn take_frame<'a>(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    let length = usize::try_from(take_varint(bytes)?).ok()?;
    let (mut frame, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let (tag, after) = frame.split_first()?;
    frame = after;
    let time = take_varint(&mut frame)?;
    Some(Frame {
        tag: *tag,
        time,
        fields: frame,
    })
}

fn read_header(mut payload: &[u8]) -> Option<Header> {
    let bytes = &mut payload;
    let (schema, process) = (take_varint(bytes)?, take_varint(bytes)?);
    let unix_zero = Nanos(take_varint(bytes)?);
    let command = std::str::from_utf8(bytes).ok()?.to_owned();
    Some(Header {
        schema,
        process,
        unix_zero,
        command,
    })
}

fn padding(slot: &[u8], payload: &[u8]) -> bool {
    slot[HEADER + payload.len()..].iter().any(|byte| *byte != 0)
}

/// Up to one slot; shorter only at the end of the input.
fn read_slot(input: &mut impl Read, offset: u64) -> Result<Vec<u8>, TraceError> {
    let mut slot = Vec::with_capacity(SLOT);
    input
        .take(SLOT as u64)
        .read_to_end(&mut slot)
        .map_err(|source| TraceError::Io { offset, source })?;
    Ok(slot)
}
