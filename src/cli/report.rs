//! `vramscope report`: the state that a trace ends in, in tables.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::json;
use crate::cli::load::{Failure, load, print};
use crate::diagnose::{Thresholds, diagnose};
use crate::report::{Times, findings_text, summarise};

#[derive(Args)]
#[command(
    after_help = "Exit code: 0 the trace is complete, 1 truncated or damaged, 2 error.\n\n\
    Examples:\n  vramscope report run.vtrace\n  vramscope report --json run.vtrace"
)]
pub(super) struct Command {
    /// The trace: a .vtrace file or its text form
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Leave times out of the text, so that equal runs print equal text
    #[arg(long)]
    no_times: bool,
}

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let loaded = load(&self.file)?;
        let summary = summarise(&loaded.ledger);
        let diagnosis = diagnose(&loaded.ledger, &Thresholds::default());
        let incomplete = loaded.incomplete();
        if self.json {
            print(&json::summary(&loaded, &summary, &diagnosis)?)?;
        } else {
            let times = if self.no_times {
                Times::Hidden
            } else {
                Times::Shown
            };
            let note = incomplete
                .as_ref()
                .map_or_else(String::new, |why| format!("{why}\n\n"));
            let (tables, findings) = (summary.to_text(times), findings_text(&diagnosis, times));
            print(&format!("{note}{tables}\nFINDINGS\n{findings}"))?;
        }
        Ok(ExitCode::from(u8::from(incomplete.is_some())))
    }
}
