//! Log lines from the probe's spans, where someone asked for them.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::cli::load::say;
use crate::cli::run::LogForm;

/// Starts log lines on stderr where a form is chosen or a filter is set. Otherwise every callsite stays disabled.
///
/// # Errors
/// The filter can't be read.
pub(super) fn start(form: Option<LogForm>) -> Result<(), String> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let filter = set("VRAMSCOPE_LOG").or_else(|| set("RUST_LOG"));
    if form.is_none() && filter.is_none() {
        return Ok(());
    }
    let text = filter.unwrap_or_else(|| "vramscope=info".to_owned());
    let filter = EnvFilter::try_new(&text).map_err(|error| format!("log filter `{text}`: {error}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr);
    // A second start in one process keeps the first.
    let _ = match form {
        Some(LogForm::Json) => lines.json().try_init(),
        _ => lines.with_ansi(false).try_init(),
    };
    Ok(())
}

/// Says something on stderr, line by line where log lines are JSON, so that all of it can be read by a machine.
pub(super) fn tell(form: Option<LogForm>, text: &str) {
    if form == Some(LogForm::Json) {
        for line in text.lines() {
            tracing::info!("{line}");
        }
    } else {
        say(text);
    }
}

/// Says on stderr what ended the run: one JSON line where log lines are JSON, text otherwise.
pub(super) fn tell_error(form: Option<LogForm>, text: &str) {
    if form == Some(LogForm::Json) {
        tracing::error!("{text}");
    } else {
        say(&format!("error: {text}\n"));
    }
}
