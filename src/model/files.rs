//! Bounded reading of whole files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::model::LoadError;

/// An open regular file and its length, not above the limit.
pub(super) struct Bounded {
    name: String,
    file: File,
    len: u64,
}

impl Bounded {
    /// Opens `path` and checks its kind and its length. Reads nothing yet.
    pub(super) fn open(path: &Path, limit: u64) -> Result<Bounded, LoadError> {
        let name = path.display().to_string();
        let read = |source| LoadError::Read {
            file: name.clone(),
            source,
        };
        // Looked at before it is opened: to open a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(read)?.is_file() {
            return Err(LoadError::NotAFile { file: name });
        }
        let file = File::open(path).map_err(read)?;
        let len = file.metadata().map_err(read)?.len();
        if len > limit {
            return Err(LoadError::TooLarge {
                file: name,
                bytes: len,
                limit,
            });
        }
        Ok(Bounded { name, file, len })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Up to `N` bytes from the beginning; leaves the file after them.
    pub(super) fn peek<const N: usize>(&mut self) -> Result<Vec<u8>, LoadError> {
        let mut head = Vec::new();
        let read = (&mut self.file).take(N as u64).read_to_end(&mut head);
        read.map_err(|source| LoadError::Read {
            file: self.name.clone(),
            source,
        })?;
        Ok(head)
    }

    /// `head` (what [`Bounded::peek`] gave) and the rest. A file that grows meanwhile is cut at the length
    /// it had when it was opened.
    pub(super) fn read_after(mut self, head: &[u8]) -> Result<Vec<u8>, LoadError> {
        let no_memory = || LoadError::NoMemory {
            file: self.name.clone(),
            bytes: self.len,
        };
        let capacity = usize::try_from(self.len).map_err(|_| no_memory())?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(capacity.max(head.len()))
            .map_err(|_| no_memory())?;
        bytes.extend_from_slice(head);
        let left = self.len.saturating_sub(head.len() as u64);
        match (&mut self.file).take(left).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(LoadError::Read {
                file: self.name,
                source,
            }),
        }
    }
}

/// The whole of a file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    Bounded::open(path, limit)?.read_after(&[])
}

/// Refuses bytes that are longer than a file of their kind may be.
pub(super) fn check_len(file: &str, bytes: &[u8], limit: u64) -> Result<(), LoadError> {
    let len = bytes.len() as u64;
    if len > limit {
        return Err(LoadError::TooLarge {
            file: file.to_owned(),
            bytes: len,
            limit,
        });
    }
    Ok(())
}
