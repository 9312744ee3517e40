//! Writes events that have their number and time already: a trace made from text, or from another trace.

use std::path::Path;

use crate::base::{Nanos, Seq};
use crate::event::Stamped;
use crate::trace::format::{BlockKind, Header, Start, WriteError};
use crate::trace::writer::{Layout, Writer};

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Without a last block: the run was cut off.
    Truncated,
    /// With the digest of what it holds.
    Complete {
        /// The ledger's digest.
        digest: u64,
    },
    /// Cut on purpose.
    Cut,
}

/// Writes a trace of given events. See [`FileRecorder`](crate::trace::FileRecorder) for one that stamps them.
#[derive(Debug)]
pub struct TraceWriter {
    writer: Writer,
    begun: bool,
}

impl TraceWriter {
    /// Creates `path`, which must not exist. Where there is a `start`, `kept` are its kept events; events then go
    /// on at its `from`, and otherwise at 0.
    ///
    /// # Errors
    /// [`WriteError`]: the system says no, or a kept event is not where it must be.
    pub fn create(
        path: &Path,
        header: &Header,
        start: Option<Start>,
        kept: &[Stamped],
    ) -> Result<TraceWriter, WriteError> {
        let layout = if start.is_some() {
            Layout::RowAfterKept
        } else {
            Layout::Row
        };
        let mut next = 0;
        for stamped in kept {
            if stamped.seq.0 < next || start.is_none_or(|start| stamped.seq >= start.from) {
                return Err(WriteError::OutOfOrder {
                    found: stamped.seq.0,
                    expected: next,
                });
            }
            next = stamped.seq.0 + 1;
        }
        let mut writer = Writer::create(path, header, layout)?;
        if let Some(start) = start {
            writer.keep(start, kept.iter())?;
        }
        Ok(TraceWriter { writer, begun: false })
    }

    /// Writes the next event. Its time must not be before that of the event before; where it is, it is moved up to it.
    ///
    /// # Errors
    /// [`WriteError`]: the system says no, or the event does not follow the one before.
    pub fn push(&mut self, stamped: &Stamped) -> Result<(), WriteError> {
        if stamped.seq != Seq(self.writer.next) {
            return Err(WriteError::OutOfOrder {
                found: stamped.seq.0,
                expected: self.writer.next,
            });
        }
        let at = stamped.at.max(self.writer.last);
        self.begin(at)?;
        self.writer.push(&stamped.event, at);
        match self.writer.health().failure {
            Some(failure) => Err(WriteError::Io(std::io::Error::other(failure))),
            None => Ok(()),
        }
    }

    fn begin(&mut self, at: Nanos) -> Result<(), WriteError> {
        if !self.begun {
            self.begun = true;
            self.writer.begin_events(at)?;
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self, end: End) -> Result<(), WriteError> {
        let count = self.writer.next.to_le_bytes();
        match end {
            End::Truncated => self.writer.close(None)?,
            End::Complete { digest } => {
                let payload = [count, digest.to_le_bytes()].concat();
                self.writer.close(Some((BlockKind::Trailer, &payload)))?
            }
            End::Cut => self.writer.close(Some((BlockKind::CutEnd, &count)))?,
        };
        Ok(())
    }
}
