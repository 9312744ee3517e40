//! The layout of a block, and what a reader may say of a file.

use crate::base::Nanos;

/// Size of a slot in bytes. Each block fills one.
pub const SLOT: usize = 16 << 10;
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
    /// The run's header; first in the file.
    Header = 0,
    /// Events.
    Events = 1,
    /// Count and digest; last in a complete file.
    Trailer = 2,
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

    /// Checks a whole slot and returns its head and its committed payload.
    pub(super) fn open(slot: &[u8]) -> Result<(BlockHead, &[u8]), &'static str> {
        if slot.len() != SLOT {
            return Err("block is shorter than its slot");
        }
        if slot[..4] != MAGIC {
            return Err("block has no magic number");
        }
        let kind = match slot[4] {
            0 => BlockKind::Header,
            1 => BlockKind::Events,
            2 => BlockKind::Trailer,
            _ => return Err("block is of an unknown kind"),
        };
        let head = BlockHead {
            kind,
            first_seq: word(slot, 8),
            base_time: word(slot, 16),
        };
        if slot[..COMMITTED] != head.bytes() {
            return Err("block header has unknown layout version or flags");
        }
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

/// Whether a file holds the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The trailer is there, the count matches and every byte was checked.
    Complete {
        /// The ledger's digest that the writer noted.
        digest: u64,
    },
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
    /// Events given out.
    pub events: u64,
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
    /// A newer version wrote it in a layout that this one can't read.
    #[error("trace has schema version {found}, this build reads up to {SCHEMA_VERSION}")]
    TooNew {
        /// Its version.
        found: u64,
    },
}
