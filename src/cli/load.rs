//! Reads a trace of either form into its state.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::cli::causes;
use crate::ledger::Ledger;
use crate::trace::{Completeness, End, Start, TraceReader, assemble};

/// Largest text form that is read, in bytes.
const TEXT_MAX: u64 = 1 << 30;
/// How the text form begins.
const TEXT_MAGIC: &[u8] = b"vtrace ";

pub(super) type Failure = Box<dyn std::error::Error>;

/// A trace, folded.
pub(super) struct Loaded {
    /// Its state.
    pub(super) ledger: Ledger,
    /// Whether the file holds the whole run.
    pub(super) completeness: Completeness,
    /// Events of kinds that this version does not know.
    pub(super) unknown: u64,
}

impl Loaded {
    /// Why the file is not the whole run, in words; absent where it is.
    pub(super) fn incomplete(&self) -> Option<String> {
        match &self.completeness {
            Completeness::Complete { .. } => None,
            Completeness::Truncated => Some("truncated: the run was cut off or goes on".to_owned()),
            Completeness::Cut => Some("cut: this is a part of a longer trace".to_owned()),
            Completeness::Damaged {
                offset,
                reason,
                blocks,
            } => Some(format!(
                "damaged: {reason} at offset {offset}; {blocks} bad blocks, their events are missing"
            )),
        }
    }

    /// One word for scripts.
    pub(super) fn completeness_word(&self) -> &'static str {
        match &self.completeness {
            Completeness::Complete { .. } => "complete",
            Completeness::Truncated => "truncated",
            Completeness::Cut => "cut",
            Completeness::Damaged { .. } => "damaged",
        }
    }
}

/// Opens a file that has a length: a pipe or a device would be waited for without end.
pub(super) fn open_regular(path: &Path) -> Result<File, String> {
    let named = |error: &dyn std::fmt::Display| format!("failed to open {}: {error}", path.display());
    let about = std::fs::metadata(path).map_err(|error| named(&error))?;
    if !about.is_file() {
        return Err(named(&"it is not a regular file"));
    }
    File::open(path).map_err(|error| named(&error))
}

/// Folds a `.vtrace` file or its text form, told apart by how it begins.
pub(super) fn load(path: &Path) -> Result<Loaded, Failure> {
    let mut file = open_regular(path)?;
    let named = |error: &dyn std::fmt::Display| format!("failed to read {}: {error}", path.display());
    let mut start = Vec::new();
    let length = TEXT_MAGIC.len() as u64;
    Read::by_ref(&mut file)
        .take(length)
        .read_to_end(&mut start)
        .map_err(|error| named(&error))?;
    file.seek(SeekFrom::Start(0)).map_err(|error| named(&error))?;
    if start == TEXT_MAGIC {
        load_text(file).map_err(|error| named(&error).into())
    } else {
        load_blocks(file).map_err(|error| named(&causes(&*error)).into())
    }
}

fn load_text(file: File) -> Result<Loaded, Failure> {
    let mut text = String::new();
    file.take(TEXT_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_MAX {
        return Err(format!("text is over {TEXT_MAX} bytes").into());
    }
    let trace = assemble(&text)?;
    let mut ledger = Ledger::default();
    let gap = trace.start.as_ref().and_then(Start::gap);
    gap.iter()
        .chain(&trace.events)
        .for_each(|event| ledger.apply(event));
    let completeness = match trace.end {
        End::Truncated => Completeness::Truncated,
        End::Complete { digest } => Completeness::Complete { digest },
        End::Cut => Completeness::Cut,
    };
    Ok(Loaded {
        ledger,
        completeness,
        unknown: 0,
    })
}

fn load_blocks(file: File) -> Result<Loaded, Failure> {
    let mut reader = TraceReader::open(file)?;
    let mut ledger = Ledger::default();
    while let Some(event) = reader.next_event()? {
        ledger.apply(&event);
    }
    let summary = reader.summary();
    Ok(Loaded {
        ledger,
        completeness: summary.completeness,
        unknown: summary.unknown,
    })
}

/// Says something on standard error. Nobody hears it where that is closed or full.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints to standard output. That the one who reads has seen enough is no error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
