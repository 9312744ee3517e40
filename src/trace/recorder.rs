//! Gives events their number and time, and writes them, so that recorded events outlive the process.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::base::clock::Clock;
use crate::base::{Bytes, Nanos, Seq};
use crate::event::{Event, Record, Stamp};
use crate::trace::format::{BlockKind, Header, RING_MIN, SLOT, WriteError};
use crate::trace::writer::{Layout, Writer};

/// How the recording itself fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Events written.
    pub recorded: u64,
    /// Events lost since the file could not grow.
    pub lost: u64,
    /// Of the events written, those that a ring has dropped since.
    pub dropped: u64,
    /// What the system said when the file could not grow.
    pub failure: Option<String>,
}

/// Records events into a `.vtrace` file. See [`crate::trace`].
#[derive(Debug)]
pub struct FileRecorder {
    clock: Clock,
    file: Mutex<Recording>,
}

/// A file that is written, or was.
#[derive(Debug)]
enum Recording {
    Open(Box<Writer>),
    Ended(Health, Stamp),
}

impl FileRecorder {
    /// Creates `path`, which must not exist, and writes its header. The file grows without bound.
    ///
    /// # Errors
    /// What the system says: the path exists or is not writable, the disk is full.
    pub fn create(path: &Path, header: &Header, clock: Clock) -> io::Result<FileRecorder> {
        FileRecorder::start(path, header, clock, Layout::Row).map_err(io::Error::from)
    }

    /// Creates a file that never grows beyond `limit`, all of which it takes on disk at once. When it is full, the oldest
    /// events make room; what they say that is still true stays in the file.
    ///
    /// An event costs what it costs in a file without bound, except one in some 20,000 (in a small ring, one in a quarter of
    /// it): it waits for milliseconds while the oldest 256 KiB are compacted, for longer where much memory is in use,
    /// and only then is memory allocated, for as long. What is true may fill three eighths of the ring; beyond that
    /// the recording ends, as on a full disk.
    ///
    /// # Errors
    /// [`WriteError`]: the limit is below [`RING_MIN`], or what the system says.
    pub fn create_ring(
        path: &Path,
        header: &Header,
        clock: Clock,
        limit: Bytes,
    ) -> Result<FileRecorder, WriteError> {
        if limit < RING_MIN {
            return Err(WriteError::LimitTooSmall { limit });
        }
        let slots = usize::try_from(limit.0 / SLOT as u64).unwrap_or(usize::MAX / SLOT);
        FileRecorder::start(path, header, clock, Layout::Ring(slots))
    }

    fn start(path: &Path, header: &Header, clock: Clock, layout: Layout) -> Result<FileRecorder, WriteError> {
        let mut writer = Writer::create(path, header, layout)?;
        writer.begin_events(Nanos(0))?;
        Ok(FileRecorder {
            clock,
            file: Mutex::new(Recording::Open(Box::new(writer))),
        })
    }

    /// How the recording fares so far.
    #[must_use]
    pub fn health(&self) -> Health {
        match &*self.lock() {
            Recording::Open(writer) => writer.health(),
            Recording::Ended(health, _) => health.clone(),
        }
    }

    /// Ends the file with a trailer that holds the count and the ledger's `digest`. A recording that lost events gets
    /// no trailer and stays *truncated*. Facts that are stated later, such as those of an orderly shutdown, are not
    /// kept. Ending twice does nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(&self, digest: u64) -> io::Result<Health> {
        let mut file = self.lock();
        let (health, stamp) = match &*file {
            Recording::Open(writer) => (writer.health(), writer.last_stamp()),
            Recording::Ended(health, _) => return Ok(health.clone()),
        };
        let Recording::Open(writer) = std::mem::replace(&mut *file, Recording::Ended(health, stamp)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let payload = [writer.next.to_le_bytes(), digest.to_le_bytes()].concat();
        let closed = writer.close(Some((BlockKind::Trailer, &payload)));
        closed.map_err(io::Error::from)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recording> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for FileRecorder {
    fn record(&self, event: &Event) -> Stamp {
        match &mut *self.lock() {
            Recording::Open(writer) => {
                let stamp = Stamp {
                    seq: Seq(writer.next),
                    at: self.clock.now().max(writer.last),
                };
                writer.push(event, stamp.at);
                stamp
            }
            Recording::Ended(_, last) => *last,
        }
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
        if let super::Recording::Open(writer) = &mut *recorder.lock() {
            writer.slots.file = File::open(&path).expect("the file just made");
        }
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
