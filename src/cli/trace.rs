//! `vramscope trace`: look at, make and check trace files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::base::{PurgeId, Seq};
use crate::cli::causes;
use crate::cli::load::{open_regular, print};
use crate::ledger::Ledger;
use crate::trace::{
    Completeness, CutReport, End, Range, SCHEMA_VERSION, Summary, TextTrace, TraceReader, TraceWriter,
    assemble, cut, line, text_end, text_head,
};

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
    /// Say whether a trace is whole: exit 0 complete, 1 truncated, cut or damaged, 2 not a trace
    ///
    /// A ring that ran to its end is complete, though it may have dropped old events: the output says how many.
    /// Where the file holds the whole run, its events are folded again, and must give the ledger digest that the
    /// trailer states; a file that contradicts itself exits with 1.
    Verify {
        /// The trace file
        file: PathBuf,
    },
    /// Make a small trace out of a part of another one
    ///
    /// The new trace begins with what was true before the part: names, memory in use, pool entries, graphs, open purges. So
    /// balances are right from its first event on. Events keep their numbers and times.
    #[command(after_help = CUT_EXAMPLES)]
    Cut(CutArguments),
}

const CUT_EXAMPLES: &str = "\
Examples:
  vramscope trace cut run.vtrace part.vtrace --from 12000 --to 15000
  vramscope trace cut run.vtrace tail.vtrace --from 12000
  vramscope trace cut run.vtrace purge.vtrace --purge 3

Exit codes: 0 the cut was made, 1 it was made of a truncated trace and ends where that one does, 2 it was not made";

#[derive(Args)]
pub(super) struct CutArguments {
    /// The trace file
    file: PathBuf,
    /// The trace file to make; must not exist
    out: PathBuf,
    /// Number of the first event; the first one by default
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Number of the last event; the last one by default
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
    /// From the beginning of this purge to its end
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to"])]
    purge: Option<u32>,
}

type Failure = Box<dyn std::error::Error>;

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Dump { file } => dump_file(&file),
            Command::Assemble { text, out } => assemble_file(&text, &out),
            Command::Verify { file } => verify_file(&file),
            Command::Cut(arguments) => cut_file(&arguments),
        }
    }
}

fn open(path: &Path) -> Result<TraceReader<File>, Failure> {
    let file = open_regular(path)?;
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
    let start = reader.start();
    write!(out, "{}", text_head(reader.header(), start))?;
    if start.is_some_and(|start| start.gap().is_some()) {
        // The line about the start stands for it.
        reader.next_event()?;
    }
    while let Some(event) = reader.next_event()? {
        writeln!(out, "{}", line(&event))?;
    }
    let summary = reader.summary();
    let end = match summary.completeness {
        Completeness::Complete { digest } => End::Complete { digest },
        Completeness::Cut => End::Cut,
        Completeness::Truncated | Completeness::Damaged { .. } => End::Truncated,
    };
    write!(out, "{}", text_end(summary.events + summary.dropped, &end))?;
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
    let file = open_regular(text)?;
    file.take(TEXT_MAX + 1)
        .read_to_string(&mut content)
        .map_err(|error| named(&error))?;
    if content.len() as u64 > TEXT_MAX {
        return Err(named(&format!("text is over {TEXT_MAX} bytes")).into());
    }
    let trace = assemble(&content).map_err(|error| named(&error))?;
    write_trace(&trace, out)
        .map_err(|error| format!("failed to write {}: {}", out.display(), causes(&*error)))?;
    Ok(ExitCode::SUCCESS)
}

fn write_trace(trace: &TextTrace, out: &Path) -> Result<(), Failure> {
    let kept = trace.start.map_or(0, |start| start.kept);
    let (kept, events) = trace.events.split_at(usize::try_from(kept)?);
    let mut writer = TraceWriter::create(out, &trace.header, trace.start, kept)?;
    for event in events {
        writer.push(event)?;
    }
    Ok(writer.finish(trace.end)?)
}

fn cut_file(arguments: &CutArguments) -> Result<ExitCode, Failure> {
    let (path, out) = (&arguments.file, &arguments.out);
    let range = match arguments.purge {
        Some(id) => Range::Purge(PurgeId(id)),
        None => Range::Events {
            from: arguments.from.map(Seq),
            to: arguments.to.map(Seq),
        },
    };
    let file = open_regular(path)?;
    let report = cut(file, out, range)
        .map_err(|error| format!("failed to cut {}: {}", path.display(), causes(&error)))?;
    print(&format!("{}: {}\n", out.display(), describe(&report)))?;
    Ok(ExitCode::from(u8::from(report.end == End::Truncated)))
}

fn describe(report: &CutReport) -> String {
    let before = match report.start {
        Some(start) => format!("{} kept from before, {} dropped", start.kept, start.lost),
        None => "all from before".to_owned(),
    };
    let end = match report.end {
        End::Complete { .. } => "the run's end",
        End::Cut => "cut there",
        End::Truncated => "where the trace is truncated",
    };
    format!("events {} to {} ({end}), {before}", report.from, report.to)
}

fn verify_file(path: &Path) -> Result<ExitCode, Failure> {
    let mut reader = open(path)?;
    let mut ledger = Ledger::default();
    while let Some(event) = reader.next_event()? {
        ledger.apply(&event);
    }
    let summary = reader.summary();
    let refold = Refold::of(&reader, &summary, &ledger);
    let state = match &summary.completeness {
        Completeness::Complete { digest } => format!("complete, ledger digest {digest:016x}{refold}"),
        Completeness::Cut => "cut: the rest of the run was left out on purpose".to_owned(),
        Completeness::Truncated => "truncated: the run was cut off; all before is readable".to_owned(),
        Completeness::Damaged {
            offset,
            reason,
            blocks,
        } => {
            format!("damaged: {reason} at offset {offset}; {blocks} bad blocks, their events are missing")
        }
    };
    let mut text = format!("{}: {state}\n", path.display());
    text += &format!(
        "events {}, unknown kinds skipped {}\n",
        summary.events, summary.unknown
    );
    if let Some(dropped) = dropped(&reader, &summary) {
        text += &format!("{dropped}\n");
    }
    print(&text)?;
    if matches!(refold, Refold::Contradicts(_)) {
        return Ok(ExitCode::from(1));
    }
    Ok(verdict(&summary.completeness))
}

/// What folding a complete file's events again says of the digest in its trailer.
enum Refold {
    /// The same digest.
    Agrees,
    /// Another digest, which this is.
    Contradicts(u64),
    /// It can't be compared, and why.
    NotComparable(&'static str),
}

impl Refold {
    fn of(reader: &TraceReader<File>, summary: &Summary, ledger: &Ledger) -> Refold {
        let Completeness::Complete { digest } = summary.completeness else {
            return Refold::NotComparable("the file states none");
        };
        if reader.header().schema != SCHEMA_VERSION {
            return Refold::NotComparable("another version wrote it");
        }
        if summary.dropped > 0 || summary.unknown > 0 {
            return Refold::NotComparable("events of the run are missing here");
        }
        match ledger.digest() {
            same if same == digest => Refold::Agrees,
            other => Refold::Contradicts(other),
        }
    }
}

impl std::fmt::Display for Refold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refold::Agrees => write!(f, " (checked)"),
            Refold::Contradicts(other) => write!(f, ", but its events give {other:016x}"),
            Refold::NotComparable(why) => write!(f, " (not checked: {why})"),
        }
    }
}

fn dropped(reader: &TraceReader<File>, summary: &Summary) -> Option<String> {
    let start = reader.start().filter(|_| summary.dropped > 0)?;
    Some(format!(
        "dropped {} events of the first {}; kept {} that still held then",
        summary.dropped, start.from, start.kept
    ))
}

fn verdict(completeness: &Completeness) -> ExitCode {
    ExitCode::from(u8::from(!matches!(completeness, Completeness::Complete { .. })))
}
