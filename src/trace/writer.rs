//! Encodes events into blocks, whoever gives them their number and time.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::base::{Nanos, Seq};
use crate::event::{Event, Stamp, Stamped};
use crate::trace::block::{kept_blocks, put_header};
use crate::trace::codec::{Bases, encode};
use crate::trace::draft::Draft;
use crate::trace::format::{BlockHead, BlockKind, HEADER, Header, SLOT, Start, WriteError};
use crate::trace::recorder::Health;
use crate::trace::ring::Ring;
use crate::trace::slots::Slots;

/// How blocks are laid out in a new file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// One after the other, without bound.
    Row,
    /// The same, after kept events.
    RowAfterKept,
    /// In a ring of this many slots, the header's included.
    Ring(usize),
}

/// The file and the block that is being filled.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) slots: Slots,
    ring: Option<Ring>,
    /// The slot being filled.
    slot: usize,
    /// Committed payload bytes of the slot.
    length: usize,
    crc: u32,
    bases: Bases,
    /// Time of the last event.
    pub(super) last: Nanos,
    draft: Draft,
    /// Number of the next event.
    pub(super) next: u64,
    health: Health,
}

impl Writer {
    /// Creates `path`, which must not exist, and writes its header. Before the first event comes
    /// [`Writer::begin_events`].
    pub(super) fn create(path: &Path, header: &Header, layout: Layout) -> Result<Writer, WriteError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Writer::new(file, header, layout).inspect_err(|_| {
            // Best effort: the file is ours, and in the way of the next try.
            let _ = std::fs::remove_file(path);
        })
    }

    fn new(file: File, header: &Header, layout: Layout) -> Result<Writer, WriteError> {
        let (mut slots, ring) = match layout {
            Layout::Ring(count) => (Slots::fixed(file, count)?, Some(Ring::new(count))),
            Layout::Row | Layout::RowAfterKept => (Slots::growing(file), None),
        };
        slots.reach(0)?;
        let kind = match layout {
            Layout::Row => BlockKind::Header,
            Layout::RowAfterKept | Layout::Ring(_) => BlockKind::RingHeader,
        };
        let head = BlockHead {
            kind,
            first_seq: 0,
            base_time: 0,
        };
        slots.seal(0, head, &put_header(header));
        Ok(Writer {
            slots,
            ring,
            slot: 0,
            length: 0,
            crc: 0,
            bases: Bases::new(),
            last: Nanos(0),
            draft: Draft::new(),
            next: 0,
            health: Health::default(),
        })
    }

    /// Writes kept events behind the header. Events then go on at the start's `from`.
    pub(super) fn keep<'a>(
        &mut self,
        start: Start,
        events: impl Iterator<Item = &'a Stamped>,
    ) -> Result<(), WriteError> {
        for (head, payload) in kept_blocks(start, events) {
            self.slot += 1;
            self.slots.reach(self.slot)?;
            self.slots.seal(self.slot, head, &payload);
        }
        self.next = start.from.0;
        Ok(())
    }

    /// Begins a block of events that starts at time `at`.
    pub(super) fn begin_events(&mut self, at: Nanos) -> Result<(), WriteError> {
        let slot = match &mut self.ring {
            Some(ring) => ring.take(&mut self.slots, self.next)?,
            None => self.slot + 1,
        };
        self.slots.reach(slot)?;
        let head = BlockHead {
            kind: BlockKind::Events,
            first_seq: self.next,
            base_time: at.0,
        };
        let head = head.bytes();
        self.slot = slot;
        self.length = 0;
        self.bases.reset();
        self.last = at;
        self.crc = crc32c::crc32c(&head);
        self.slots.write(slot, 0, &head);
        self.slots.commit(slot, 0, self.crc);
        Ok(())
    }

    /// Writes an event, or counts it as lost.
    pub(super) fn push(&mut self, event: &Event, at: Nanos) {
        if self.health.lost > 0 {
            // The recording ended where the file could not grow. A smaller event might still fit into the last
            // block, but would follow a hole that no reader could see.
            self.health.lost += 1;
            return;
        }
        self.encode(event, at);
        if HEADER + self.length + self.draft.sealed().len() > SLOT {
            if let Err(error) = self.begin_events(at) {
                self.health.lost += 1;
                self.health.failure.get_or_insert_with(|| reason(&error));
                return;
            }
            self.encode(event, at);
        }
        self.last = at;
        self.next += 1;
        self.health.recorded += 1;
        let frame = self.draft.sealed();
        self.slots.write(self.slot, HEADER + self.length, frame);
        self.length += frame.len();
        self.crc = crc32c::crc32c_append(self.crc, frame);
        self.slots.commit(self.slot, self.length, self.crc);
    }

    /// Fills `draft`. One that then goes to another block is encoded again, since ids are coded against the block's own
    /// bases.
    #[inline]
    fn encode(&mut self, event: &Event, at: Nanos) {
        self.draft.clear();
        encode(event, at.since(self.last).0, &mut self.bases, &mut self.draft);
    }

    /// How the recording fares so far.
    pub(super) fn health(&self) -> Health {
        Health {
            dropped: self.ring.as_ref().map_or(0, Ring::dropped),
            ..self.health.clone()
        }
    }

    /// Closes the file, with a last block of this kind and content where the recording lost nothing.
    /// The stamp of the last event.
    pub(super) fn last_stamp(&self) -> Stamp {
        Stamp {
            seq: Seq(self.next.saturating_sub(1)),
            at: self.last,
        }
    }

    pub(super) fn close(mut self, end: Option<(BlockKind, &[u8])>) -> Result<Health, WriteError> {
        if let Some((kind, payload)) = end.filter(|_| self.health.lost == 0) {
            let slot = match &mut self.ring {
                Some(ring) => ring.spare()?,
                None => self.slot + 1,
            };
            self.slots.reach(slot)?;
            let head = BlockHead {
                kind,
                first_seq: self.next,
                base_time: self.last.0,
            };
            self.slots.seal(slot, head, payload);
            self.slot = slot;
        }
        let last = self.ring.as_ref().map_or(0, Ring::last_used).max(self.slot);
        self.slots.close(last + 1)?;
        Ok(self.health())
    }
}

/// An error and its cause, in one line.
fn reason(error: &WriteError) -> String {
    match error {
        WriteError::Io(source) => source.to_string(),
        other => other.to_string(),
    }
}
