//! Reads a trace block by block: bounded memory, every length checked, never a panic.

use std::collections::VecDeque;
use std::io::{Read, Seek};

use crate::event::Stamped;
use crate::trace::block::{Cursor, Frame, KeptHead, has_padding};
use crate::trace::codec::Bases;
use crate::trace::format::{
    BlockHead, BlockKind, COMMITTED, Completeness, Header, SLOT, Start, Summary, TraceError, word,
};
use crate::trace::source::Source;

/// Gives the events of a trace in order. Holds one block at a time.
///
/// Where events were left out before a [`Start`], the first event is a [`Gap`](crate::event::Gap) that says so; then
/// come the kept events, whose numbers have holes, and then all events from the start's `from` on. A ring file that is
/// still being written to is for [`Follower`](crate::trace::Follower): here it may look damaged.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: Source<R>,
    header: Header,
    order: Order,
    start: Option<Start>,
    /// A gap or an event to give out next.
    ready: VecDeque<Stamped>,
    bases: Bases,
    next_seq: u64,
    /// The least number that the next kept event may have.
    next_kept: u64,
    /// Whether the gap is still to come.
    gap: bool,
    summary: Summary,
    /// Offset and count of the last block, and what it makes of the file.
    end: Option<(u64, u64, Completeness)>,
    /// A block that a kill may have left half written: damage only if another block follows.
    unfinished: Option<(u64, &'static str)>,
    /// Empty slots since the last block.
    empty: usize,
    ended: bool,
}

/// Empty slots in a row that are read before the file is called damaged: 64 MiB, where a recorder allocates one ahead.
const EMPTY_MAX: usize = 4096;

/// Where the blocks stand.
#[derive(Debug)]
enum Order {
    /// One after the other: the next slot.
    Row(usize),
    /// These slots are next; then the rest must be zeros.
    Ring(VecDeque<usize>, Vec<usize>),
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads and checks the header, and in a ring file what is in which slot.
    ///
    /// # Errors
    /// [`TraceError`]: unreadable, not a trace, too new.
    pub fn open(input: R) -> Result<TraceReader<R>, TraceError> {
        let mut source = Source::new(input);
        let (header, kind, clean) = source.header()?;
        let mut reader = TraceReader {
            source,
            header,
            order: Order::Row(1),
            start: None,
            ready: VecDeque::new(),
            bases: Bases::new(),
            next_seq: 0,
            next_kept: 0,
            gap: false,
            summary: Summary {
                events: 0,
                dropped: 0,
                unknown: 0,
                payload: 0,
                completeness: Completeness::Truncated,
            },
            end: None,
            unfinished: None,
            empty: 0,
            ended: false,
        };
        if !clean {
            reader.damaged(0, "bytes after the block's end are not zero");
        }
        if kind == BlockKind::RingHeader {
            reader.arrange()?;
        }
        Ok(reader)
    }

    fn arrange(&mut self) -> Result<(), TraceError> {
        let index = self.source.index()?;
        for (slot, reason) in index.bad {
            self.damaged(offset(slot), reason);
        }
        self.start = index.start;
        self.next_seq = index.start.map_or(0, |start| start.from.0);
        self.summary.dropped = index.start.map_or(0, |start| start.dropped());
        let gap = index.start.and_then(|start| start.gap());
        self.gap = gap.is_some();
        self.ready.extend(gap);
        let events = index.events.into_iter().map(|(_, slot)| slot);
        // A file that was cut: its trailer counts blocks that are not there.
        let end = index.end.filter(|_| !index.partial);
        let slots = index.kept.into_iter().chain(events).chain(end).collect();
        self.order = Order::Ring(slots, index.rest);
        Ok(())
    }

    /// What the trace says of its run.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where events were left out at the beginning, what became of them.
    #[must_use]
    pub fn start(&self) -> Option<Start> {
        self.start
    }

    /// The next event, or `None` at the end. A damaged block is skipped and counted.
    ///
    /// # Errors
    /// Only what the system says while reading.
    pub fn next_event(&mut self) -> Result<Option<Stamped>, TraceError> {
        self.fill()?;
        let event = self.ready.pop_front();
        if event.is_some() {
            self.summary.events += u64::from(!std::mem::take(&mut self.gap));
        }
        Ok(event)
    }

    /// What [`TraceReader::next_event`] will give.
    pub(super) fn peek(&mut self) -> Result<Option<&Stamped>, TraceError> {
        self.fill()?;
        Ok(self.ready.front())
    }

    /// Reads blocks until there is an event to give, or none is left.
    fn fill(&mut self) -> Result<(), TraceError> {
        while self.ready.is_empty() && !self.ended {
            match &mut self.order {
                Order::Row(slot) => {
                    let slot = std::mem::replace(slot, *slot + 1);
                    self.in_row(slot)?;
                }
                Order::Ring(slots, _) => match slots.pop_front() {
                    Some(slot) => self.slot(slot)?,
                    None => self.rest()?,
                },
            }
        }
        Ok(())
    }

    /// What was found. Final after [`TraceReader::next_event`] has given `None`.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        if let (true, Completeness::Truncated, Some((offset, count, end))) =
            (self.ended, &summary.completeness, &self.end)
        {
            // The number of dropped events is the file's word.
            let frames = (summary.events + summary.unknown).saturating_add(summary.dropped);
            summary.completeness = if *count == frames && *count == self.next_seq {
                end.clone()
            } else {
                Completeness::Damaged {
                    offset: *offset,
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

    /// One slot of a file whose blocks follow each other.
    fn in_row(&mut self, slot: usize) -> Result<(), TraceError> {
        let bytes = self.source.slot(slot)?;
        let (length, zero) = (bytes.len(), bytes.iter().all(|byte| *byte == 0));
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        if length == SLOT && !zero {
            self.empty = 0;
            return self.slot(slot);
        }
        self.empty += 1;
        if length < SLOT {
            // A file that was cut: what is left of the block can't be checked.
            self.ended = true;
            self.end = None;
        } else if self.end.is_some() {
            // Otherwise it is space that was allocated and never used.
            self.damaged(offset(slot), "data after the trailer");
            self.ended = true;
        } else if self.empty > EMPTY_MAX {
            // A file may claim any length for the price of nothing.
            self.damaged(offset(slot), "more empty space than a recorder allocates ahead");
            self.ended = true;
        }
        Ok(())
    }

    /// What a ring file has besides its blocks.
    fn rest(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        let Order::Ring(_, rest) = &mut self.order else {
            return Ok(());
        };
        if self.end.is_none() {
            return Ok(());
        }
        for slot in std::mem::take(rest) {
            if self.source.slot(slot)?.iter().any(|byte| *byte != 0) {
                self.damaged(offset(slot), "bytes of a free slot are not zero");
            }
        }
        Ok(())
    }

    /// One block.
    fn slot(&mut self, slot: usize) -> Result<(), TraceError> {
        let at = offset(slot);
        if self.end.is_some() {
            self.damaged(at, "data after the trailer");
        }
        if let Some((offset, reason)) = self.unfinished.take() {
            self.damaged(offset, reason);
        }
        let bytes = self.source.slot(slot)?.to_vec();
        match BlockHead::open(&bytes) {
            Ok((head, payload)) => {
                let clean = !has_padding(&bytes, payload);
                match head.kind {
                    BlockKind::Events => self.events(at, head, payload, clean),
                    BlockKind::Kept => self.kept(at, head, payload, clean),
                    BlockKind::Trailer | BlockKind::CutEnd => self.end(at, head, payload, clean),
                    BlockKind::Header | BlockKind::RingHeader => self.damaged(at, "second header"),
                }
            }
            Err(reason) if bytes.len() == SLOT && word(&bytes, COMMITTED) == 0 => {
                self.unfinished = Some((at, reason));
            }
            Err(reason) => self.damaged(at, reason),
        }
        Ok(())
    }

    fn end(&mut self, at: u64, head: BlockHead, payload: &[u8], clean: bool) {
        let length = if head.kind == BlockKind::Trailer { 16 } else { 8 };
        if payload.len() != length || word(payload, 0) != head.first_seq || !clean {
            return self.damaged(at, "trailer is malformed");
        }
        let end = match head.kind {
            BlockKind::Trailer => Completeness::Complete {
                digest: word(payload, 8),
            },
            _ => Completeness::Cut,
        };
        self.end = Some((at, word(payload, 0), end));
    }

    fn kept(&mut self, at: u64, head: BlockHead, payload: &[u8], clean: bool) {
        let known = KeptHead::read(head, payload).filter(|(kept, _)| Some(kept.start) == self.start);
        match known {
            Some((_, frames)) if clean => self.frames(at, head, frames),
            _ => self.damaged(at, "kept block is malformed"),
        }
    }

    fn events(&mut self, at: u64, head: BlockHead, payload: &[u8], clean: bool) {
        if head.first_seq != self.next_seq {
            self.damaged(at, "block does not follow the one before");
        }
        if head.first_seq >= self.next_seq {
            self.frames(at, head, payload);
        }
        if !clean {
            self.unfinished = Some((at, "bytes after the block's end are not zero"));
        }
    }

    fn frames(&mut self, at: u64, head: BlockHead, mut bytes: &[u8]) {
        self.summary.payload += bytes.len() as u64;
        self.bases.reset();
        let mut cursor = Cursor::new(head);
        let kept = head.kind == BlockKind::Kept;
        while let Some(frame) = cursor.next(&mut bytes, &mut self.bases) {
            match frame {
                Frame::Event(stamped) => {
                    let seq = stamped.seq.0;
                    if kept && (seq < self.next_kept || seq >= head.first_seq) {
                        return self.damaged(at, "kept event is out of order");
                    }
                    if kept {
                        self.next_kept = seq + 1;
                    }
                    self.ready.push_back(stamped);
                }
                Frame::Unknown => self.summary.unknown += 1,
                Frame::Bad(reason) => return self.damaged(at, reason),
            }
            if !kept {
                self.next_seq = cursor.seq();
            }
        }
    }
}

fn offset(slot: usize) -> u64 {
    slot as u64 * SLOT as u64
}
