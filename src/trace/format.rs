//! The layout of a block, and what a reader may say of a file.

use crate::base::{Bytes, Nanos, Seq};
use crate::event::{Event, Gap, GapCause, Stamped};

/// Size of a slot in bytes. Each block fills one.
pub const SLOT: usize = 16 << 10;
/// Smallest limit of a ring file.
pub const RING_MIN: Bytes = Bytes(8 * SLOT as u64);
/// Version of the event schema. An older reader skips and counts what it does not know.
pub const SCHEMA_VERSION: u64 = 1;

/// `magic[4] kind[1] version[1] zero[2] first_seq[8] base_time[8] committed[8]`, little endian.
pub(super) const HEADER: usize = 32;
/// Where the committed word stands: payload length in its low half, CRC-32C in its high half.
pub(super) const COMMITTED: usize = 24;
pub(super) const MAGIC: [u8; 4] = *b"VTB1";
const LAYOUT_VERSION: u8 = 1;
/// Longest text of a name, in bytes.
pub(super) const TEXT_MAX: usize = 4096;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BlockKind {
    /// The run's header, where blocks stand in the order of their events; first in the file.
    Header = 0,
    /// Events.
    Events = 1,
    /// Count and digest; last in a complete file.
    Trailer = 2,
    /// The run's header, where blocks stand in any order or events were left out; first in the file.
    RingHeader = 3,
    /// Events from before the first whole stretch that are still true.
    Kept = 4,
    /// Count; last in a file that was cut on purpose.
    CutEnd = 5,
}

/// The fixed part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) kind: BlockKind,
    pub(super) first_seq: u64,
    pub(super) base_time: u64,
}

impl BlockHead {
    /// The first [`COMMITTED`] bytes of the block.
    pub(super) fn bytes(self) -> [u8; COMMITTED] {
        let mut out = [0u8; COMMITTED];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = self.kind as u8;
        out[5] = LAYOUT_VERSION;
        out[8..16].copy_from_slice(&self.first_seq.to_le_bytes());
        out[16..24].copy_from_slice(&self.base_time.to_le_bytes());
        out
    }

    /// Reads a head without its checksum.
    pub(super) fn parse(bytes: &[u8; HEADER]) -> Result<BlockHead, &'static str> {
        if bytes[..4] != MAGIC {
            return Err("block has no magic number");
        }
        let kind = match bytes[4] {
            0 => BlockKind::Header,
            1 => BlockKind::Events,
            2 => BlockKind::Trailer,
            3 => BlockKind::RingHeader,
            4 => BlockKind::Kept,
            5 => BlockKind::CutEnd,
            _ => return Err("block is of an unknown kind"),
        };
        let head = BlockHead {
            kind,
            first_seq: word(bytes, 8),
            base_time: word(bytes, 16),
        };
        if bytes[..COMMITTED] != head.bytes() {
            return Err("block header has unknown layout version or flags");
        }
        Ok(head)
    }

    /// Checks a whole slot and returns its head and its committed payload.
    pub(super) fn open(slot: &[u8]) -> Result<(BlockHead, &[u8]), &'static str> {
        let short = "block is shorter than its slot";
        if slot.len() != SLOT {
            return Err(short);
        }
        let head = BlockHead::parse(slot.first_chunk().ok_or(short)?)?;
        let committed = word(slot, COMMITTED);
        let length = (committed & 0xFFFF_FFFF) as usize;
        let payload = slot
            .get(HEADER..HEADER + length)
            .ok_or("block length is over its slot")?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..COMMITTED]), payload);
        if u64::from(crc) != committed >> 32 {
            return Err("block checksum does not match");
        }
        Ok((head, payload))
    }
}

/// A little-endian word at `at`; the caller has checked the bounds.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0u8; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

/// What a trace says of its run before the first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version of the event schema that it was written with.
    pub schema: u64,
    /// Process id; 0 where scrubbed.
    pub process: u64,
    /// Nanoseconds since 1970 (UTC) at the trace's time 0.
    pub unix_zero: Nanos,
    /// The command line; empty where scrubbed.
    pub command: String,
}

/// Where the whole stretch of a ring file or of a cut begins, and what became of the events before it.
///
/// The reader gives the kept events first, in their order, with their own numbers and times. So numbers have holes
/// up to `from`, and none after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The first event from which on nothing was left out.
    pub from: Seq,
    /// Events before it that are in the file, since what they say still holds at `from`.
    pub kept: u64,
    /// Events before it that are not, and the events that left-out gaps had counted as lost.
    pub lost: u64,
}

impl Start {
    /// What the reader gives before any other event: that `lost` events are missing, with number 0 and time 0, which
    /// are not its own. `None` where nothing is missing.
    #[must_use]
    pub fn gap(&self) -> Option<Stamped> {
        let gap = Gap {
            lost: self.lost,
            cause: GapCause::RingOverwritten,
        };
        (self.lost > 0).then_some(Stamped {
            seq: Seq(0),
            at: Nanos(0),
            event: Event::Gap(gap),
        })
    }

    /// Events of this trace that were left out.
    pub(super) fn dropped(&self) -> u64 {
        self.from.0.saturating_sub(self.kept)
    }

    /// Whether the three numbers can be true together, and leave numbers for the events that follow.
    pub(super) fn is_sound(&self) -> bool {
        self.from.0 <= u64::MAX / 2 && self.kept <= self.from.0 && self.lost >= self.dropped()
    }
}

/// Whether a file holds the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The trailer is there, the count matches and every byte was checked. A ring may have dropped old events all the
    /// same: [`Summary::dropped`] says how many.
    Complete {
        /// The ledger's digest that the writer noted, over the whole run. The events of a ring that dropped some don't
        /// fold into it.
        digest: u64,
    },
    /// The rest was cut off on purpose; every byte was checked.
    Cut,
    /// The run was cut off; all before is readable.
    Truncated,
    /// Bytes are wrong: events are missing.
    Damaged {
        /// Offset of the first bad block.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
        /// How many blocks are bad.
        blocks: u64,
    },
}

/// What a reader found, after its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Events of the run that were given out; the gap that [`Start`] stands for is not one.
    pub events: u64,
    /// Events of the run that a ring or a cut dropped before its [`Start`].
    pub dropped: u64,
    /// Frames of kinds that this version does not know.
    pub unknown: u64,
    /// Payload bytes of event blocks.
    pub payload: u64,
    /// Whether that is the whole run.
    pub completeness: Completeness,
}

/// Why a file can't be opened as a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system said no.
    #[error("read trace at offset {offset}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The file does not begin with a trace header.
    #[error("not a trace: {reason} at offset 0 (expected {SLOT} bytes that begin with `VTB1`)")]
    NotATrace {
        /// What is wrong.
        reason: &'static str,
    },
    /// A file that is being followed holds wrong bytes.
    #[error("{reason} at offset {offset}")]
    Damaged {
        /// Offset of the block.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A newer version wrote it in a layout that this one can't read.
    #[error("trace has schema version {found}, this build reads up to {SCHEMA_VERSION}")]
    TooNew {
        /// Its version.
        found: u64,
    },
}

/// Why a trace can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system said no.
    #[error("write trace")]
    Io(#[from] std::io::Error),
    /// The ring would be too small to work.
    #[error("trace limit is {} bytes, the least is {} bytes", limit.0, RING_MIN.0)]
    LimitTooSmall {
        /// What was asked for.
        limit: Bytes,
    },
    /// What is still true leaves a ring too little room for new events.
    #[error("what is still true fills {} of {} blocks of the trace's ring", kept, blocks)]
    StateTooLarge {
        /// Blocks that it fills.
        kept: usize,
        /// All blocks of the ring.
        blocks: usize,
    },
    /// An event does not follow the one before.
    #[error("event has number {found}, expected {expected}")]
    OutOfOrder {
        /// Its number.
        found: u64,
        /// The number that it must have.
        expected: u64,
    },
}

impl From<WriteError> for std::io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(source) => source,
            other => std::io::Error::other(other),
        }
    }
}
