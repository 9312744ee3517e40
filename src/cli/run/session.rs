//! The run itself: opens what it needs, runs the prompts, closes the trace, prints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use crate::base::Bytes;
use crate::base::clock::{Clock, unix_now};
use crate::cli::causes;
use crate::cli::load::{Failure, Loaded, load};
use crate::cli::run::logging::tell;
use crate::cli::run::output::{self, Report};
use crate::cli::run::{Command, Stale, default_path};
use crate::device::host::{HostConfig, HostDevice};
use crate::event::{Outcome, Record};
use crate::model::engine::{Engine, EngineError, EngineOptions};
use crate::model::{LlamaModel, bundled};
use crate::plan::purge::KILL_THRESHOLD;
use crate::runtime::{
    Busy, DeviceIndex, Healed, PurgeReport, PurgeRequest, Runtime, RuntimeConfig, RuntimeError, StalePolicy,
};
use crate::trace::{FileRecorder, Header, Health, SCHEMA_VERSION};

/// Stage 3's threshold with the bundled model, whose activations are a thousand times smaller than those the
/// tools' 1 MiB is made for.
const SCALED_THRESHOLD: Bytes = Bytes::kib(1);

/// Modelled pinned host memory.
const PINNED: Bytes = Bytes(8 << 30);

/// Between them 17 and 32 tokens long in the bundled model's vocabulary, so that a prompt has two paddings' rows.
const PROMPTS: [&str; 2] = [
    "What light through yonder window breaks? It is the east",
    "Now is the winter of our discontent made glorious summer",
];

/// How one prompt went.
pub(super) struct Answer {
    pub(super) prompt: String,
    pub(super) text: String,
    pub(super) tokens: usize,
}

/// A model and its name.
struct Model {
    name: String,
    bundled: bool,
    model: LlamaModel,
}

/// What the prompts gave, up to the first that failed.
#[derive(Default)]
pub(super) struct Work {
    pub(super) answers: Vec<Answer>,
    pub(super) purges: Vec<PurgeReport>,
    pub(super) error: Option<Failure>,
    /// Whether a use was refused: the incident that this program is for, and no misuse of it.
    pub(super) refused: bool,
    pub(super) healed: Healed,
}

pub(super) fn run(command: &Command) -> Result<ExitCode, Failure> {
    let model = open_model(command.model.as_deref())?;
    let threshold = command.kill_threshold.unwrap_or(if model.bundled {
        SCALED_THRESHOLD
    } else {
        KILL_THRESHOLD
    });
    for kept in &command.keep {
        if *kept != model.name {
            return Err(format!("--keep {kept}: the model of this run is {}", model.name).into());
        }
    }
    let clock = Clock::real();
    let config = HostConfig {
        index: 0,
        vram: command.vram,
        pinned: PINNED,
    };
    let device = HostDevice::open(config, clock.clone())?;
    let path = match &command.trace {
        Some(path) => path.clone(),
        None => default_path::trace_path()?,
    };
    let recorder = Arc::new(open_recorder(command, &path, &clock)?);
    let runtime = Runtime::new(
        RuntimeConfig {
            stale: match command.stale {
                Stale::Error => StalePolicy::Error,
                Stale::Rebuild => StalePolicy::Rebuild,
            },
            ..RuntimeConfig::default()
        },
        Arc::clone(&recorder) as Arc<dyn Record>,
    );
    let device = runtime.add_device(Box::new(device));
    note_settings(command, &runtime, &model.name, threshold);
    if !command.json {
        output::begin(command, &model.name, model.bundled, threshold);
    }
    let mut work = Work::default();
    let (engine, error) = match engine(command, &runtime, device, model) {
        Ok(engine) => {
            let result = answer_all(command, &runtime, &engine, threshold, &mut work);
            (Some(engine), result.err())
        }
        Err(error) => (None, Some(error)),
    };
    if let Some(error) = error {
        work.refused = matches!(
            &error,
            EngineError::Runtime(RuntimeError::Refused(_) | RuntimeError::PurgeRefused { .. })
        );
        work.error = Some(error.into());
    }
    work.healed = runtime.healed();
    let outcome = if work.error.is_some() {
        Outcome::Failed
    } else {
        Outcome::Complete
    };
    let ended = runtime.end(outcome);
    let health = close(&recorder, &path);
    // The record ends with what was on the device at the end; letting it go is not part of the run.
    drop(engine);
    if work.error.is_none() {
        ended?;
    }
    finish(command, work, &path, health)
}

fn open_model(folder: Option<&Path>) -> Result<Model, Failure> {
    let Some(folder) = folder else {
        return Ok(Model {
            name: "tiny-llama".to_owned(),
            bundled: true,
            model: bundled::load()?,
        });
    };
    let name = folder
        .file_name()
        .unwrap_or(folder.as_os_str())
        .to_string_lossy()
        .into_owned();
    let model = LlamaModel::open(folder)
        .map_err(|error| format!("failed to load {}: {}", folder.display(), causes(&error)))?;
    Ok(Model {
        name,
        bundled: false,
        model,
    })
}

fn open_recorder(command: &Command, path: &Path, clock: &Clock) -> Result<FileRecorder, Failure> {
    let header = Header {
        schema: SCHEMA_VERSION,
        process: u64::from(std::process::id()),
        unix_zero: unix_now(),
        // Prompts are on the command line, and a trace never holds them.
        command: "vramscope run".to_owned(),
    };
    let named = |error: &dyn std::fmt::Display| format!("failed to create {}: {error}", path.display());
    Ok(match command.trace_limit {
        Some(limit) => {
            FileRecorder::create_ring(path, &header, clock.clone(), limit).map_err(|e| named(&causes(&e)))?
        }
        None => FileRecorder::create(path, &header, clock.clone()).map_err(|e| named(&e))?,
    })
}

fn note_settings(command: &Command, runtime: &Runtime, model: &str, threshold: Bytes) {
    runtime.note_config("model", model);
    runtime.note_config("precision", command.precision.word());
    let group = command
        .convrot
        .map_or_else(|| "off".to_owned(), |group| group.size().to_string());
    runtime.note_config("convrot", &group);
    runtime.note_config("graphs", if command.no_graph { "off" } else { "on" });
    runtime.note_config("stale", command.stale.word());
    runtime.note_config("kill_threshold", &threshold.0.to_string());
}

/// The model, ready to run on a stream of its own.
fn engine(
    command: &Command,
    runtime: &Runtime,
    device: DeviceIndex,
    model: Model,
) -> Result<Engine, EngineError> {
    let stream = runtime.open_stream(device, "compute")?;
    let options = EngineOptions {
        precision: command.precision,
        convrot: command.convrot,
        graphs: !command.no_graph,
        context: command.context,
    };
    let engine = Engine::new(runtime, &stream, model.model, options)?;
    engine.flag_for_ejection(!command.keep.contains(&model.name));
    Ok(engine)
}

/// Runs the prompts, with a purge between them; what fails ends them.
fn answer_all(
    command: &Command,
    runtime: &Runtime,
    engine: &Engine,
    threshold: Bytes,
    work: &mut Work,
) -> Result<(), EngineError> {
    let bar = progress();
    engine.load(|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    runtime.read_meters();
    let ours = PROMPTS.map(str::to_owned);
    let prompts = if command.prompts.is_empty() {
        &ours[..]
    } else {
        &command.prompts
    };
    for (index, prompt) in prompts.iter().enumerate() {
        if let Some(profile) = command.purge.0.as_ref().filter(|_| index > 0) {
            let request = PurgeRequest {
                profile: profile.clone(),
                threshold,
                busy: Busy::Wait,
            };
            let report = runtime.purge(&request)?;
            tell(command.log, &report.to_string());
            runtime.read_meters();
            work.purges.push(report);
        }
        let tokenizer = engine.model().tokenizer();
        let ids = tokenizer.encode(prompt)?;
        let made = engine.generate(&ids, command.tokens)?;
        let answer = Answer {
            prompt: prompt.clone(),
            text: tokenizer.decode(&made.tokens)?,
            tokens: made.tokens.len(),
        };
        if !command.json {
            output::answer(index, &answer);
        }
        work.answers.push(answer);
        runtime.read_meters();
    }
    Ok(())
}

/// A bar on stderr, where that is a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("loading weights {bar:30} {pos}/{len}") {
        bar.set_style(style);
    }
    bar
}

/// Folds what was recorded and puts the digest into the trailer. A failure degrades the recording, not the run.
fn close(recorder: &FileRecorder, path: &Path) -> Result<Health, String> {
    let health = recorder.health();
    if let Some(failure) = health.failure {
        return Err(format!(
            "the recording is degraded: {failure} after {} events, {} lost",
            health.recorded, health.lost
        ));
    }
    let digest = load(path).map_err(|error| causes(&*error))?.ledger.digest();
    recorder
        .finish(digest)
        .map_err(|error| format!("the recording has no end: {error}"))
}

fn finish(
    command: &Command,
    work: Work,
    path: &Path,
    health: Result<Health, String>,
) -> Result<ExitCode, Failure> {
    let loaded: Loaded = load(path)?;
    let report = Report::new(work, loaded, PathBuf::from(path), health);
    if command.json {
        report.print_json()?;
    } else {
        report.print_text(command.log)?;
    }
    Ok(ExitCode::from(report.exit_code()))
}
