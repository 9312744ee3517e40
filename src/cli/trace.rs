//! `vramscope trace`: look at, make and check trace files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use crate::base::Nanos;
use crate::base::clock::Clock;
use crate::cli::causes;
use crate::event::Record;
use crate::trace::{Completeness, FileRecorder, TraceReader, assemble, line};

/// Largest text that `assemble` takes, in bytes.
const TEXT_MAX: u64 = 1 << 30;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Print a trace as text, one line an event
    Dump {
        /// The trace file
        file: PathBuf,
    },
    /// Make a trace file from text
    Assemble {
        /// The text
        text: PathBuf,
        /// The trace file to make; must not exist
        out: PathBuf,
    },
    /// Say whether a trace is whole: exit 0 complete, 1 truncated or lossy, 2 not a trace
    Verify {
        /// The trace file
        file: PathBuf,
    },
}

type Failure = Box<dyn std::error::Error>;

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Dump { file } => dump_file(&file),
            Command::Assemble { text, out } => assemble_file(&text, &out),
            Command::Verify { file } => verify_file(&file),
        }
    }
}

fn open(path: &Path) -> Result<TraceReader<File>, Failure> {
    let file = File::open(path).map_err(|error| format!("failed to open {}: {error}", path.display()))?;
    Ok(TraceReader::open(file)
        .map_err(|error| format!("failed to read {}: {}", path.display(), causes(&error)))?)
}

fn dump_file(path: &Path) -> Result<ExitCode, Failure> {
    let mut reader = open(path)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = print_events(&mut reader, &mut out).and_then(|()| Ok(out.flush()?));
    match written {
        // The one who reads has seen enough.
        Err(error) if is_broken_pipe(&*error) => return Ok(ExitCode::SUCCESS),
        other => other?,
    }
    Ok(verdict(&reader.summary().completeness))
}

fn print_events(reader: &mut TraceReader<File>, out: &mut impl Write) -> Result<(), Failure> {
    write!(out, "{}", crate::trace::dump(reader.header(), &[], None))?;
    while let Some(event) = reader.next_event()? {
        writeln!(out, "{}", line(&event))?;
    }
    let summary = reader.summary();
    if let Completeness::Complete { digest } = summary.completeness {
        writeln!(out, "end events={} digest={digest:016x}", summary.events)?;
    }
    Ok(())
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn assemble_file(text: &Path, out: &Path) -> Result<ExitCode, Failure> {
    let named = |error: &dyn std::fmt::Display| format!("failed to assemble {}: {error}", text.display());
    let mut content = String::new();
    let file = File::open(text).map_err(|error| named(&error))?;
    file.take(TEXT_MAX + 1)
        .read_to_string(&mut content)
        .map_err(|error| named(&error))?;
    if content.len() as u64 > TEXT_MAX {
        return Err(named(&format!("text is over {TEXT_MAX} bytes")).into());
    }
    let (header, events, digest) = assemble(&content).map_err(|error| named(&error))?;
    let clock = Clock::manual();
    let recorder = FileRecorder::create(out, &header, clock.clone())
        .map_err(|error| format!("failed to create {}: {error}", out.display()))?;
    let mut now = Nanos(0);
    for event in &events {
        clock.advance(event.at.since(now));
        now = now.max(event.at);
        recorder.record(&event.event);
    }
    let health = recorder.health();
    if let Some(failure) = health.failure {
        return Err(format!(
            "failed to write {}: {failure} after {} events",
            out.display(),
            health.recorded
        )
        .into());
    }
    if let Some(digest) = digest {
        recorder.finish(digest)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify_file(path: &Path) -> Result<ExitCode, Failure> {
    let mut reader = open(path)?;
    while reader.next_event()?.is_some() {}
    let summary = reader.summary();
    let state = match &summary.completeness {
        Completeness::Complete { digest } => format!("complete, ledger digest {digest:016x}"),
        Completeness::Truncated => "truncated: the run was cut off; all before is readable".to_owned(),
        Completeness::Damaged {
            offset,
            reason,
            blocks,
        } => {
            format!("damaged: {reason} at offset {offset}; {blocks} bad blocks, their events are missing")
        }
    };
    println!("{}: {state}", path.display());
    println!(
        "events {}, unknown kinds skipped {}",
        summary.events, summary.unknown
    );
    Ok(verdict(&summary.completeness))
}

fn verdict(completeness: &Completeness) -> ExitCode {
    ExitCode::from(u8::from(!matches!(completeness, Completeness::Complete { .. })))
}
