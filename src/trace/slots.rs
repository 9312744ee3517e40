// Unsafe here: one shared, writable memory map of the trace file, and one atomic view of a word in it.
#![allow(unsafe_code)]
//! The slots of a file that is being written, seen through a memory map, so that what is stored outlives the process.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions};

use crate::base::os;
use crate::trace::format::{BlockHead, COMMITTED, HEADER, SLOT};

/// Slots mapped, and blocks of disk allocated, at a time where the file grows.
const WINDOW: usize = 64;

/// A mapped part of the file: all of a ring, a window of a file that grows.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) file: File,
    map: Option<MmapMut>,
    /// First slot of the map.
    window: usize,
    /// Slots in the map.
    span: usize,
    /// What a kill would have left before and after each store of a committed word, where a test asks for it.
    #[cfg(test)]
    pub(super) images: Option<Vec<Vec<u8>>>,
}

impl Slots {
    /// A file that grows as [`Slots::reach`] asks.
    pub(super) fn growing(file: File) -> Slots {
        Slots {
            file,
            map: None,
            window: 0,
            span: WINDOW,
            #[cfg(test)]
            images: None,
        }
    }

    /// A file of `count` slots, whose disk space is taken now.
    pub(super) fn fixed(file: File, count: usize) -> io::Result<Slots> {
        let mut slots = Slots {
            file,
            map: None,
            window: 0,
            span: count,
            #[cfg(test)]
            images: None,
        };
        slots.reach(0)?;
        Ok(slots)
    }

    /// Makes `slot` and those before it in the same window usable, growing and mapping the file as needed.
    pub(super) fn reach(&mut self, slot: usize) -> io::Result<()> {
        if self.map.is_some() && slot < self.window + self.span {
            return Ok(());
        }
        let (offset, length) = ((slot * SLOT) as u64, self.span * SLOT);
        os::allocate(&self.file, offset, length as u64)?;
        // SAFETY: the map stays valid while the file is not shortened. This process shortens it only in
        // `close`, after dropping the map; the blocks behind the range are allocated, so a store can't
        // meet a full disk. Another process that truncates the file breaks its own recording.
        let map = unsafe {
            MmapOptions::new()
                .offset(offset)
                .len(length)
                .map_mut(&self.file)?
        };
        self.map = Some(map);
        self.window = slot;
        Ok(())
    }

    /// All bytes of a slot that was reached.
    pub(super) fn bytes(&self, slot: usize) -> &[u8] {
        let at = (slot - self.window) * SLOT;
        self.map.as_ref().map_or(&[], |map| &map[at..at + SLOT])
    }

    /// Writes at `at` inside a slot. Not visible to a reader before [`Slots::commit`].
    #[inline]
    pub(super) fn write(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        let at = (slot - self.window) * SLOT + at;
        if let Some(map) = &mut self.map {
            map[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Publishes the slot's length and checksum in one store: a kill leaves either the old pair or the new one.
    #[inline]
    pub(super) fn commit(&mut self, slot: usize, length: usize, crc: u32) {
        self.publish(slot, u64::from(crc) << 32 | length as u64);
    }

    /// Writes a whole block into a slot of zeros.
    pub(super) fn seal(&mut self, slot: usize, head: BlockHead, payload: &[u8]) {
        let head = head.bytes();
        self.write(slot, 0, &head);
        self.write(slot, HEADER, payload);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head), payload);
        self.commit(slot, payload.len(), crc);
    }

    /// Makes a slot free: first for readers, then in its bytes.
    pub(super) fn clear(&mut self, slot: usize) {
        self.publish(slot, 0);
        let at = (slot - self.window) * SLOT;
        if let Some(map) = &mut self.map {
            map[at..at + COMMITTED].fill(0);
            map[at + HEADER..at + SLOT].fill(0);
        }
    }

    #[inline]
    fn publish(&mut self, slot: usize, value: u64) {
        #[cfg(test)]
        self.take_image();
        let at = (slot - self.window) * SLOT + COMMITTED;
        let Some(map) = &mut self.map else { return };
        let word: *mut u64 = map[at..at + 8].as_mut_ptr().cast();
        // SAFETY: the pointer is in bounds of the map for 8 bytes (sliced above), is 8-aligned (the map begins at a
        // page, SLOT and COMMITTED are multiples of 8), lives as long as `map`, and `&mut self` keeps every other
        // reader and writer of this process away.
        unsafe { AtomicU64::from_ptr(word) }.store(value.to_le(), Ordering::Release);
        #[cfg(test)]
        self.take_image();
    }

    #[cfg(test)]
    fn take_image(&mut self) {
        if let (Some(images), Some(map)) = (&mut self.images, &self.map) {
            images.push(map.to_vec());
        }
    }

    /// Writes all back and leaves the file `count` slots long.
    pub(super) fn close(&mut self, count: usize) -> io::Result<()> {
        if let Some(map) = self.map.take() {
            map.flush()?;
        }
        self.file.set_len((count * SLOT) as u64)?;
        self.file.sync_all()
    }
}
