//! `vramscope diagnose`: what went wrong with memory, and by what chain of events.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::cli::json;
use crate::cli::load::{Failure, load, print};
use crate::diagnose::{Severity, Thresholds, diagnose};
use crate::report::{Times, findings_text};

/// Which findings make the exit code 1.
#[derive(Clone, Copy, ValueEnum)]
enum FailOn {
    Info,
    Warning,
    Error,
}

#[derive(Args)]
#[command(
    after_help = "Exit code: 0 no finding at or above the level, 1 findings, 2 error.\n\n\
    Examples:\n  vramscope diagnose run.vtrace\n  vramscope diagnose --json --fail-on error run.vtrace"
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
    /// The lowest severity that makes the exit code 1
    #[arg(long, value_enum, default_value = "warning")]
    fail_on: FailOn,
}

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let loaded = load(&self.file)?;
        let diagnosis = diagnose(&loaded.ledger, &Thresholds::default());
        if self.json {
            print(&json::diagnosis(&loaded, &diagnosis)?)?;
        } else {
            let times = if self.no_times {
                Times::Hidden
            } else {
                Times::Shown
            };
            let note = loaded
                .incomplete()
                .map_or_else(String::new, |why| format!("{why}\n\n"));
            print(&format!("{note}{}", findings_text(&diagnosis, times)))?;
        }
        let level = match self.fail_on {
            FailOn::Info => Severity::Info,
            FailOn::Warning => Severity::Warning,
            FailOn::Error => Severity::Error,
        };
        let failed = diagnosis.worst().is_some_and(|worst| worst >= level);
        Ok(ExitCode::from(u8::from(failed)))
    }
}
