//! Makes a small trace out of a part of another one.

use std::io::{Read, Seek};
use std::path::Path;

use crate::base::{PurgeId, Seq};
use crate::event::{Event, Stamped};
use crate::trace::carry::Carried;
use crate::trace::copy::{End, TraceWriter};
use crate::trace::format::{Completeness, Start, TraceError, WriteError};
use crate::trace::reader::TraceReader;

/// Events of finished purges that a cut takes over from before it.
const HISTORY_MAX: usize = 1 << 16;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From one event to another, both included; from the start and to the end where there is none.
    Events {
        /// The first event.
        from: Option<Seq>,
        /// The last event.
        to: Option<Seq>,
    },
    /// From the beginning of a purge to its end.
    Purge(PurgeId),
}

/// Why a cut can't be made.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The trace can't be read.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// The new trace can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What is missing can't be carried over.
    #[error("trace is damaged: {reason} at offset {offset}")]
    Damaged {
        /// Offset of the first bad block.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A newer version wrote it.
    #[error("trace has {count} events of kinds that this build does not know")]
    Unknown {
        /// How many.
        count: u64,
    },
    /// There is nothing to take.
    #[error("trace has no events")]
    Empty,
    /// The range ends before it begins.
    #[error("range is from event {from} to event {to}, which is before it")]
    Backward {
        /// Its first event.
        from: Seq,
        /// Its last event.
        to: Seq,
    },
    /// The range goes beyond the end.
    #[error("event {asked} is not in the trace, its last event is {last}")]
    BeyondEnd {
        /// The event asked for.
        asked: Seq,
        /// The last event.
        last: Seq,
    },
    /// Of the beginning of the range, events are missing.
    #[error("events before {start} were dropped from the trace, range is from event {asked}")]
    Dropped {
        /// The event asked for.
        asked: Seq,
        /// The first event from which on all are there.
        start: Seq,
    },
    /// The purge is not in the trace.
    #[error("purge {purge} did not begin in the trace")]
    NoPurge {
        /// The purge asked for.
        purge: PurgeId,
    },
}

/// What a cut holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// Its first event, from which on all events are there.
    pub from: Seq,
    /// Its last event.
    pub to: Seq,
    /// What became of the events before it; `None` where all are there.
    pub start: Option<Start>,
    /// How it ends.
    pub end: End,
}

/// What a first pass finds.
struct Survey {
    last: Seq,
    purge: Option<(Seq, Option<Seq>)>,
    completeness: Completeness,
}

/// Writes the part `range` of a trace to `out`, which must not exist. What the events before it say that still holds at
/// its beginning is kept; numbers and times stay. Events left out at the end make it *cut*, neither complete nor truncated.
///
/// Reads the input twice; holds what is kept in memory.
///
/// # Errors
/// [`CutError`]: the trace is not whole or not readable, the range is not in it, or `out` can't be written.
pub fn cut<R: Read + Seek>(mut input: R, out: &Path, range: Range) -> Result<CutReport, CutError> {
    let wanted = match range {
        Range::Purge(id) => Some(id),
        Range::Events { .. } => None,
    };
    let mut reader = TraceReader::open(&mut input)?;
    let start = reader.start();
    let survey = survey(&mut reader, wanted)?;
    let (from, to) = bounds(range, &survey, start)?;
    let end = match survey.completeness {
        _ if to < survey.last => End::Cut,
        Completeness::Complete { digest } => End::Complete { digest },
        Completeness::Cut => End::Cut,
        _ => End::Truncated,
    };
    let mut reader = TraceReader::open(input)?;
    let (start, kept) = before(&mut reader, from)?;
    // Without a start, what is kept is all that came before.
    let (kept, before) = kept.split_at(if start.is_some() { kept.len() } else { 0 });
    let writer = TraceWriter::create(out, reader.header(), start, kept)?;
    if let Err(error) = copy(&mut reader, before, to, writer, end) {
        // Best effort: the file is ours, and half of a cut is of no use.
        let _ = std::fs::remove_file(out);
        return Err(error);
    }
    Ok(CutReport { from, to, start, end })
}

fn copy<R: Read + Seek>(
    reader: &mut TraceReader<R>,
    before: &[Stamped],
    to: Seq,
    mut writer: TraceWriter,
    end: End,
) -> Result<(), CutError> {
    for stamped in before {
        writer.push(stamped)?;
    }
    while let Some(stamped) = reader.next_event()?.filter(|stamped| stamped.seq <= to) {
        writer.push(&stamped)?;
    }
    Ok(writer.finish(end)?)
}

fn survey<R: Read + Seek>(reader: &mut TraceReader<R>, wanted: Option<PurgeId>) -> Result<Survey, CutError> {
    let (mut last, mut purge) = (None, None);
    while let Some(stamped) = reader.next_event()? {
        match &stamped.event {
            Event::PurgeBegan(e) if Some(e.purge) == wanted => purge = Some((stamped.seq, None)),
            Event::PurgeEnded(e) if Some(e.purge) == wanted => {
                purge = purge.map(|(from, _)| (from, Some(stamped.seq)));
            }
            _ => {}
        }
        last = Some(stamped.seq);
    }
    let summary = reader.summary();
    if let Completeness::Damaged { offset, reason, .. } = summary.completeness {
        return Err(CutError::Damaged { offset, reason });
    }
    if summary.unknown > 0 {
        let count = summary.unknown;
        return Err(CutError::Unknown { count });
    }
    Ok(Survey {
        last: last.ok_or(CutError::Empty)?,
        purge,
        completeness: summary.completeness,
    })
}

fn bounds(range: Range, survey: &Survey, start: Option<Start>) -> Result<(Seq, Seq), CutError> {
    let whole = start.map_or(Seq(0), |start| start.from);
    let last = survey.last;
    let (from, to) = match range {
        Range::Events { from, to } => (from.unwrap_or(whole), to.unwrap_or(last)),
        Range::Purge(purge) => {
            let (from, to) = survey.purge.ok_or(CutError::NoPurge { purge })?;
            (from, to.unwrap_or(last))
        }
    };
    if to < from {
        return Err(CutError::Backward { from, to });
    }
    if from < whole {
        return Err(CutError::Dropped {
            asked: from,
            start: whole,
        });
    }
    if to > last {
        return Err(CutError::BeyondEnd { asked: to, last });
    }
    Ok((from, to))
}

/// Reads up to event `from`: what is kept of it, and the start where that is not all.
fn before<R: Read + Seek>(
    reader: &mut TraceReader<R>,
    from: Seq,
) -> Result<(Option<Start>, Vec<Stamped>), CutError> {
    let old = reader.start();
    let forgotten = old.map_or(0, |start| start.lost.saturating_sub(start.dropped()));
    let mut carried = Carried::new(forgotten, HISTORY_MAX);
    let mut skip = old.is_some_and(|start| start.gap().is_some());
    while let Some(stamped) = reader.peek()?.filter(|stamped| skip || stamped.seq < from) {
        let stamped = stamped.clone();
        reader.next_event()?;
        if !std::mem::take(&mut skip) {
            carried.fold(stamped);
        }
    }
    let start = carried.start(from.0);
    let kept = carried.events().cloned().collect();
    Ok(((start.lost > 0).then_some(start), kept))
}
