//! Arguments, wiring, hints and exit codes: 0 fine, 1 findings or incomplete, 2 error.

mod diagnose;
mod json;
mod load;
mod report;
mod run;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "vramscope", version, about = "VRAM profiler and purge diagnosis")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run prompts through a model, with a purge between them, and say what became of the memory
    Run(Box<run::Command>),
    /// Say what went wrong with memory, and by what chain of events
    Diagnose(diagnose::Command),
    /// Print the state that a trace ends in, in tables
    Report(report::Command),
    /// Tools on trace files
    #[command(subcommand)]
    Trace(trace::Command),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(command) => command.run(),
        Command::Diagnose(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Trace(command) => command.run(),
    };
    result.unwrap_or_else(|error| {
        load::say(&format!("error: {}\n", causes(&*error)));
        ExitCode::from(2)
    })
}

/// An error and all that led to it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
