//! `vramscope run`: prompts through a model, instrumented, with a purge between them.

mod default_path;
mod logging;
mod output;
mod session;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::base::Bytes;
use crate::cli::load::Failure;
use crate::model::engine::Precision;
use crate::ops::host::convrot::RotationGroup;
use crate::plan::purge::Profile;

/// What happens when a pool or a graph cache meets something dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stale {
    /// Refuse the launch, and name the culprit
    Error,
    /// Drop it, build it again, count it
    Rebuild,
}

impl Stale {
    fn word(self) -> &'static str {
        match self {
            Stale::Error => "error",
            Stale::Rebuild => "rebuild",
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Args)]
#[command(after_help = "Exit code: 0 fine, 1 findings or a refused use, 2 error.\n\n\
    Examples:\n  vramscope run\n  vramscope run --purge kitchen-only\n  \
    vramscope run --precision int8 --convrot 64 --purge soft --prompt \"To be\" --prompt \"or not\"\n  \
    vramscope run --model ./my-llama --vram 8gb --purge selective --keep my-llama\n\n\
    Purges: full, kitchen-only, no-owner-caches, soft, selective, none, or stages such as 0s,1,3,2c,return.\n\
    VRAMSCOPE_LOG or RUST_LOG filters log lines, such as vramscope=trace.")]
pub(super) struct Command {
    /// Folder with config.json, tokenizer.json and safetensors; by default the bundled model
    #[arg(long)]
    model: Option<PathBuf>,
    /// A prompt; give it again for more. By default two of our own
    #[arg(long = "prompt")]
    prompts: Vec<String>,
    /// New tokens for each prompt
    #[arg(long, default_value_t = 48)]
    tokens: usize,
    /// Where to run: host
    #[arg(long, default_value = "host", value_parser = device)]
    device: String,
    /// Modelled device memory of the host device
    #[arg(long, default_value = "256mb")]
    vram: Bytes,
    /// How linear layers compute: f32, bf16, int8, nvfp4
    #[arg(long, default_value = "nvfp4")]
    precision: Precision,
    /// Rotate quantized layers in groups of 4, 16, 64 or 256
    #[arg(long, value_parser = group)]
    convrot: Option<RotationGroup>,
    /// The purge between prompts
    #[arg(long, default_value = "full", value_parser = purge)]
    purge: PurgeChoice,
    /// Purge stage 3 kills buffers from this size on; 1 KiB with the bundled model, 1 MiB with others
    #[arg(long)]
    kill_threshold: Option<Bytes>,
    /// Models that a selective purge keeps, by name
    #[arg(long)]
    keep: Vec<String>,
    /// What to do about dead pool entries and graphs
    #[arg(long, value_enum, default_value = "error")]
    stale: Stale,
    /// Launch each step by itself, without capture and replay
    #[arg(long)]
    no_graph: bool,
    /// Positions of the context
    #[arg(long)]
    context: Option<usize>,
    /// The trace file to write; must not exist
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Keep only the newest part of the trace, up to this size
    #[arg(long)]
    trace_limit: Option<Bytes>,
    /// Log lines on stderr in this form
    #[arg(long, value_enum)]
    log: Option<LogForm>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A purge, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PurgeChoice(Option<Profile>);

fn purge(text: &str) -> Result<PurgeChoice, String> {
    if text == "none" {
        return Ok(PurgeChoice(None));
    }
    text.parse()
        .map(|profile| PurgeChoice(Some(profile)))
        .map_err(|error: crate::plan::purge::ParseProfileError| error.to_string())
}

fn group(text: &str) -> Result<RotationGroup, String> {
    let size = text.parse().ok().and_then(RotationGroup::new);
    size.ok_or_else(|| format!("`{text}` is not 4, 16, 64 or 256"))
}

fn device(text: &str) -> Result<String, String> {
    if text == "host" || text == "host:0" {
        return Ok("host".to_owned());
    }
    if text.starts_with("cuda") {
        return Err(format!(
            "`{text}` is not there: this version drives the host device only"
        ));
    }
    Err(format!("`{text}` is no device: use host"))
}

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        logging::start(self.log)?;
        session::run(&self)
    }
}
