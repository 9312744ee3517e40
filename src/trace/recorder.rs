// Unsafe here: one shared, writable memory map of the trace file, and one atomic view of a word in it.
#![allow(unsafe_code)]
//! Writes a trace through a memory map, so that recorded events outlive the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memmap2::{MmapMut, MmapOptions};

use crate::base::clock::Clock;
use crate::base::{Nanos, Seq, os};
use crate::event::{Event, Record, Stamp};
use crate::trace::codec::{Bases, encode, put_varint};
use crate::trace::format::{BlockHead, BlockKind, COMMITTED, HEADER, Header, SLOT};

/// Slots mapped, and blocks of disk allocated, at a time.
const WINDOW: usize = 64;

/// How the recording itself fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Events written.
    pub recorded: u64,
    /// Events lost since the file could not grow.
    pub lost: u64,
    /// What the system said then.
    pub failure: Option<String>,
}

/// Records events into a `.vtrace` file. See [`crate::trace`].
#[derive(Debug)]
pub struct FileRecorder {
    clock: Clock,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    file: File,
    map: Option<MmapMut>,
    /// First slot of the map.
    window: usize,
    /// The slot being filled.
    slot: usize,
    /// Committed payload bytes of the slot.
    length: usize,
    crc: u32,
    bases: Bases,
    last: Nanos,
    scratch: Vec<u8>,
    frame: Vec<u8>,
    next: u64,
    health: Health,
}

impl FileRecorder {
    /// Creates `path`, which must not exist, and writes its header.
    ///
    /// # Errors
    /// What the system says: the path exists or is not writable, the disk is full.
    pub fn create(path: &Path, header: &Header, clock: Clock) -> io::Result<FileRecorder> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        let mut writer = Writer {
            file,
            map: None,
            window: 0,
            slot: 0,
            length: 0,
            crc: 0,
            bases: Bases::new(),
            last: Nanos(0),
            scratch: Vec::with_capacity(SLOT),
            frame: Vec::with_capacity(SLOT),
            next: 0,
            health: Health::default(),
        };
        writer.begin(0, BlockKind::Header, Nanos(0))?;
        let mut payload = Vec::new();
        for number in [header.schema, header.process, header.unix_zero.0] {
            put_varint(&mut payload, number);
        }
        let end = header.command.floor_char_boundary(header.command.len().min(4096));
        payload.extend_from_slice(&header.command.as_bytes()[..end]);
        writer.append(&payload);
        writer.begin(1, BlockKind::Events, Nanos(0))?;
        Ok(FileRecorder {
            clock,
            writer: Mutex::new(writer),
        })
    }

    /// How the recording fares so far.
    #[must_use]
    pub fn health(&self) -> Health {
        self.lock().health.clone()
    }

    /// Ends the file with a trailer that holds the count and the ledger's `digest`. A recording that lost events gets
    /// no trailer and stays *truncated*.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self, digest: u64) -> io::Result<Health> {
        let mut writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        if writer.health.lost == 0 {
            let last = writer.last;
            writer.begin(writer.slot + 1, BlockKind::Trailer, last)?;
            let mut payload = writer.next.to_le_bytes().to_vec();
            payload.extend_from_slice(&digest.to_le_bytes());
            writer.append(&payload);
        }
        if let Some(map) = writer.map.take() {
            map.flush()?;
        }
        writer.file.set_len(((writer.slot + 1) * SLOT) as u64)?;
        writer.file.sync_all()?;
        Ok(writer.health)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for FileRecorder {
    fn record(&self, event: &Event) -> Stamp {
        let mut writer = self.lock();
        let stamp = Stamp {
            seq: Seq(writer.next),
            at: self.clock.now().max(writer.last),
        };
        writer.push(event, stamp.at);
        stamp
    }
}

impl Writer {
    /// Makes `slot` the current one, growing and mapping the file as needed.
    fn begin(&mut self, slot: usize, kind: BlockKind, base: Nanos) -> io::Result<()> {
        if self.map.is_none() || slot >= self.window + WINDOW {
            let offset = (slot * SLOT) as u64;
            os::allocate(&self.file, offset, (WINDOW * SLOT) as u64)?;
            // SAFETY: the map stays valid while the file is not shortened. This process shortens it only in
            // `finish`, after dropping the map; the blocks behind the range are allocated, so a store can't
            // meet a full disk. Another process that truncates the file breaks its own recording.
            let map = unsafe {
                MmapOptions::new()
                    .offset(offset)
                    .len(WINDOW * SLOT)
                    .map_mut(&self.file)?
            };
            self.map = Some(map);
            self.window = slot;
        }
        self.slot = slot;
        let head = BlockHead {
            kind,
            first_seq: self.next,
            base_time: base.0,
        }
        .bytes();
        self.length = 0;
        self.bases.reset();
        self.last = base;
        self.crc = crc32c::crc32c(&head);
        let at = (slot - self.window) * SLOT;
        if let Some(map) = &mut self.map {
            map[at..at + COMMITTED].copy_from_slice(&head);
        }
        self.commit();
        Ok(())
    }

    fn push(&mut self, event: &Event, at: Nanos) {
        if self.health.lost > 0 {
            // The recording ended where the file could not grow. A smaller event might still fit into the last
            // block, but would follow a hole that no reader could see.
            self.health.lost += 1;
            return;
        }
        self.encode(event, at);
        if HEADER + self.length + self.frame.len() > SLOT {
            if let Err(error) = self.begin(self.slot + 1, BlockKind::Events, at) {
                self.health.lost += 1;
                self.health.failure.get_or_insert_with(|| error.to_string());
                return;
            }
            self.encode(event, at);
        }
        self.last = at;
        self.next += 1;
        self.health.recorded += 1;
        let frame = std::mem::take(&mut self.frame);
        self.append(&frame);
        self.frame = frame;
    }

    /// Fills `frame` with length and body. A frame that then goes to another block is encoded again,
    /// since ids are coded against the block's own bases.
    fn encode(&mut self, event: &Event, at: Nanos) {
        self.scratch.clear();
        self.frame.clear();
        encode(event, at.since(self.last).0, &mut self.bases, &mut self.scratch);
        put_varint(&mut self.frame, self.scratch.len() as u64);
        self.frame.extend_from_slice(&self.scratch);
    }

    fn append(&mut self, bytes: &[u8]) {
        let at = (self.slot - self.window) * SLOT + HEADER + self.length;
        if let Some(map) = &mut self.map {
            map[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.length += bytes.len();
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.commit();
    }

    /// Publishes the slot's length and checksum in one store: a kill leaves either the old pair or the new one.
    fn commit(&mut self) {
        let at = (self.slot - self.window) * SLOT + COMMITTED;
        let Some(map) = &mut self.map else { return };
        let value = (u64::from(self.crc) << 32 | self.length as u64).to_le();
        let word: *mut u64 = map[at..at + 8].as_mut_ptr().cast();
        // SAFETY: the pointer is in bounds of the map for 8 bytes (sliced above), is 8-aligned (the map begins at a
        // page, SLOT and COMMITTED are multiples of 8), lives as long as `map`, and nothing in this process
        // reads or writes the word other than through this line.
        unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::FileRecorder;
    use crate::base::clock::Clock;
    use crate::base::{BufferId, Generation, NameId};
    use crate::event::{Event, NameDefined, Record, ReleaseCompleted};
    use crate::trace::{Completeness, Header, TraceReader};

    /// Long and short events in turn, so that a short one fits where a long one does not.
    fn event(index: u32) -> Event {
        if index.is_multiple_of(2) {
            let text = "x".repeat(3000).into();
            NameDefined {
                name: NameId(index),
                text,
            }
            .into()
        } else {
            let (buffer, generation) = (BufferId(index), Generation(index));
            ReleaseCompleted { buffer, generation }.into()
        }
    }

    #[test]
    fn a_file_that_cannot_grow_ends_as_an_exact_prefix() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("t.vtrace");
        let recorder =
            FileRecorder::create(&path, &Header::default(), Clock::manual()).expect("a fresh path");
        // Growing a file that is open for reading only is refused, as on a full disk.
        recorder.lock().file = File::open(&path).expect("the file just made");
        let count = 2000;
        for index in 0..count {
            recorder.record(&event(index));
        }
        let health = recorder.health();
        assert!(
            health.recorded > 0 && health.lost > 0 && health.failure.is_some(),
            "{health:?}"
        );
        assert_eq!(health.recorded + health.lost, u64::from(count));

        let mut reader = TraceReader::open(File::open(&path).expect("the file just made")).expect("a header");
        let mut read = 0;
        while let Some(stamped) = reader.next_event().expect("a readable file") {
            assert_eq!(stamped.event, event(read));
            read += 1;
        }
        assert_eq!(u64::from(read), health.recorded);
        assert_eq!(reader.summary().completeness, Completeness::Truncated);
    }
}
