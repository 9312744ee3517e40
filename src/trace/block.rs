//! The frames of one block, and the fixed parts of the payloads that are not frames.

use crate::base::{Nanos, Seq};
use crate::event::Stamped;
use crate::trace::codec::{Bases, decode, encode, take_varint};
use crate::trace::draft::Draft;
use crate::trace::format::{BlockHead, BlockKind, HEADER, Header, SLOT, Start, TEXT_MAX, word};

/// Bytes before the frames of a kept block: its place, number of blocks, kept events, lost events.
const KEPT_HEAD: usize = 32;

/// One frame, as far as it can be read.
pub(super) enum Frame {
    /// An event.
    Event(Stamped),
    /// A kind that this version does not know.
    Unknown,
    /// Neither; the rest of the block can't be read.
    Bad(&'static str),
}

/// Gives the frames of one block. The caller keeps the bases, so that a block may be read on when it has grown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    kind: BlockKind,
    time: u64,
    /// Number of the next frame; in a kept block, of the last one.
    seq: u64,
}

impl Cursor {
    /// Before the first frame of a block; `bases` must be fresh.
    pub(super) fn new(head: BlockHead) -> Cursor {
        Cursor {
            kind: head.kind,
            time: head.base_time,
            seq: if head.kind == BlockKind::Kept {
                0
            } else {
                head.first_seq
            },
        }
    }

    /// The number that the next frame of an event block has.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The next frame, or `None` where `bytes` are used up.
    pub(super) fn next(&mut self, bytes: &mut &[u8], bases: &mut Bases) -> Option<Frame> {
        if bytes.is_empty() {
            return None;
        }
        Some(match self.split(bytes) {
            Some((seq, tag, fields)) => match decode(tag, bases, fields) {
                Some(Ok(event)) => Frame::Event(Stamped {
                    seq: Seq(seq),
                    at: Nanos(self.time),
                    event,
                }),
                Some(Err(_)) => Frame::Bad("frame is malformed"),
                None => Frame::Unknown,
            },
            None => Frame::Bad("frame is longer than its block"),
        })
    }

    fn split<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<(u64, u8, &'a [u8])> {
        let length = usize::try_from(take_varint(bytes)?).ok()?;
        let (mut frame, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        let kept = self.kind == BlockKind::Kept;
        if kept {
            self.seq = self.seq.checked_add(take_varint(&mut frame)?)?;
        }
        let (tag, mut fields) = frame.split_first().map(|(tag, rest)| (*tag, rest))?;
        self.time = self.time.saturating_add(take_varint(&mut fields)?);
        let seq = self.seq;
        if !kept {
            self.seq = self.seq.saturating_add(1);
        }
        Some((seq, tag, fields))
    }
}

/// Reads all events of a block that this process wrote.
pub(super) fn own_events(slot: &[u8], bases: &mut Bases, mut each: impl FnMut(Stamped)) {
    let Ok((head, mut payload)) = BlockHead::open(slot) else {
        return;
    };
    if head.kind == BlockKind::Kept {
        payload = payload.get(KEPT_HEAD..).unwrap_or(&[]);
    }
    bases.reset();
    let mut cursor = Cursor::new(head);
    while let Some(frame) = cursor.next(&mut payload, bases) {
        if let Frame::Event(stamped) = frame {
            each(stamped);
        }
    }
}

/// The fixed part of a kept block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptHead {
    pub(super) index: u64,
    pub(super) blocks: u64,
    pub(super) start: Start,
}

impl KeptHead {
    /// Reads it, and what follows it.
    pub(super) fn read(head: BlockHead, payload: &[u8]) -> Option<(KeptHead, &[u8])> {
        let (fixed, frames) = payload.split_at_checked(KEPT_HEAD)?;
        let kept = KeptHead {
            index: word(fixed, 0),
            blocks: word(fixed, 8),
            start: Start {
                from: Seq(head.first_seq),
                kept: word(fixed, 16),
                lost: word(fixed, 24),
            },
        };
        (kept.index < kept.blocks && kept.start.is_sound()).then_some((kept, frames))
    }
}

/// Writes kept events as blocks; at least one.
pub(super) fn kept_blocks<'a>(
    start: Start,
    events: impl Iterator<Item = &'a Stamped>,
) -> Vec<(BlockHead, Vec<u8>)> {
    let mut blocks: Vec<(BlockHead, Vec<u8>)> = Vec::new();
    let mut bases = Bases::new();
    let mut draft = Draft::new();
    let (mut seq, mut time) = (0, Nanos(0));
    let fresh = |at: Nanos| {
        let head = BlockHead {
            kind: BlockKind::Kept,
            first_seq: start.from.0,
            base_time: at.0,
        };
        (head, vec![0; KEPT_HEAD])
    };
    for stamped in events {
        loop {
            draft.clear();
            let mut out = draft.fill();
            out.varint(stamped.seq.0 - seq);
            out.done();
            encode(&stamped.event, stamped.at.since(time).0, &mut bases, &mut draft);
            let bytes = draft.sealed();
            match blocks.last_mut() {
                Some((_, payload)) if HEADER + payload.len() + bytes.len() <= SLOT => {
                    payload.extend_from_slice(bytes);
                    break;
                }
                // Encoded again, against the new block's own bases.
                _ => {
                    blocks.push(fresh(stamped.at));
                    bases.reset();
                    (seq, time) = (0, stamped.at);
                }
            }
        }
        (seq, time) = (stamped.seq.0, stamped.at);
    }
    if blocks.is_empty() {
        blocks.push(fresh(Nanos(0)));
    }
    let count = blocks.len() as u64;
    for (index, (_, payload)) in blocks.iter_mut().enumerate() {
        for (place, number) in [index as u64, count, start.kept, start.lost]
            .into_iter()
            .enumerate()
        {
            payload[place * 8..place * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
    }
    blocks
}

/// The payload of a header block.
pub(super) fn put_header(header: &Header) -> Vec<u8> {
    let mut payload = Draft::new();
    let mut out = payload.fill();
    for number in [header.schema, header.process, header.unix_zero.0] {
        out.varint(number);
    }
    let end = header
        .command
        .floor_char_boundary(header.command.len().min(TEXT_MAX));
    out.slice(&header.command.as_bytes()[..end]);
    out.done();
    payload.body().to_vec()
}

/// Reads what [`put_header`] wrote.
pub(super) fn take_header(mut payload: &[u8]) -> Option<Header> {
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

/// Whether a byte behind the committed payload is not zero.
pub(super) fn has_padding(slot: &[u8], payload: &[u8]) -> bool {
    slot[HEADER + payload.len()..].iter().any(|byte| *byte != 0)
}
