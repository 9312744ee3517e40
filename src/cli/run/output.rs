//! What a run prints: texts and figures to stdout, notes and errors to stderr.

use std::path::PathBuf;

use serde_json::json;

use crate::base::Bytes;
use crate::cli::load::{Failure, Loaded, print};
use crate::cli::run::logging::{tell, tell_error};
use crate::cli::run::session::{Answer, Work};
use crate::cli::run::{Command, LogForm};
use crate::cli::{causes, json};
use crate::diagnose::{Diagnosis, Severity, Thresholds, diagnose};
use crate::model::engine::Precision;
use crate::report::{Summary, Times, findings_text, summarise};
use crate::trace::Health;

/// What the settings mean, on stderr.
pub(super) fn begin(command: &Command, model: &str, bundled: bool, threshold: Bytes) {
    let emulated = if command.precision == Precision::Nvfp4 {
        " (product emulated on this device)"
    } else {
        ""
    };
    tell(
        command.log,
        &format!(
            "model {model}, precision {}{emulated}, device host:0 with {} of modelled memory\n",
            command.precision, command.vram
        ),
    );
    if bundled && command.kill_threshold.is_none() {
        tell(
            command.log,
            &format!(
                "kill threshold {threshold}: scaled from the usual 1 MiB, as the bundled model's activations are a \
             thousand times smaller than those of the models it is meant for\n"
            ),
        );
    }
}

/// One prompt and its continuation.
pub(super) fn answer(index: usize, answer: &Answer) {
    let (number, tokens) = (index + 1, answer.tokens);
    // A failure shows again when the summary is printed; the run and its record go on.
    let _ = print(&format!(
        "--- prompt {number} ({tokens} new tokens)\n{}{}\n\n",
        answer.prompt, answer.text
    ));
}

/// All that a run ends in.
pub(super) struct Report {
    work: Work,
    loaded: Loaded,
    path: PathBuf,
    health: Result<Health, String>,
    summary: Summary,
    diagnosis: Diagnosis,
}

impl Report {
    pub(super) fn new(work: Work, loaded: Loaded, path: PathBuf, health: Result<Health, String>) -> Report {
        Report {
            summary: summarise(&loaded.ledger),
            diagnosis: diagnose(&loaded.ledger, &Thresholds::default()),
            work,
            loaded,
            path,
            health,
        }
    }

    /// 0 fine, 1 findings, a refused use or a purge that gave back less than it claimed, 2 error.
    pub(super) fn exit_code(&self) -> u8 {
        let found = self
            .diagnosis
            .worst()
            .is_some_and(|worst| worst >= Severity::Warning);
        match &self.work.error {
            Some(_) if !self.work.refused => 2,
            Some(_) => 1,
            None => u8::from(found),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let healed = self.work.healed;
        if healed.entries + healed.graphs > 0 {
            notes.push(format!(
                "healed: {} dead pool entries and {} stale graphs were dropped and built again",
                healed.entries, healed.graphs
            ));
        }
        match &self.health {
            Err(why) => notes.push(why.clone()),
            Ok(health) if health.dropped > 0 => {
                notes.push(format!(
                    "the trace keeps the newest events; {} older ones were dropped",
                    health.dropped
                ));
            }
            Ok(_) => {}
        }
        notes
    }

    pub(super) fn print_text(&self, log: Option<LogForm>) -> Result<(), Failure> {
        let mut out = self.summary.to_text(Times::Shown);
        out += "\nFINDINGS\n";
        if self.diagnosis.findings.is_empty() {
            out += "none\n";
        }
        out += &findings_text(&self.diagnosis, Times::Shown);
        out.push('\n');
        for note in self.notes() {
            out += &format!("{note}\n");
        }
        out += &format!(
            "trace {} ({}, ledger digest {:016x})\n",
            self.path.display(),
            self.loaded.completeness_word(),
            self.loaded.ledger.digest()
        );
        print(&out)?;
        if let Some(error) = &self.work.error {
            tell_error(log, &causes(&**error));
        }
        Ok(())
    }

    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let answers: Vec<_> = self
            .work
            .answers
            .iter()
            .map(|answer| json!({ "prompt": answer.prompt, "text": answer.text, "tokens": answer.tokens }))
            .collect();
        let state: serde_json::Value =
            serde_json::from_str(&json::summary(&self.loaded, &self.summary, &self.diagnosis)?)?;
        let healed = self.work.healed;
        let value = json!({
            "schema_version": 1,
            "answers": answers,
            "error": self.work.error.as_ref().map(|error| causes(&**error)),
            "healed": { "entries": healed.entries, "graphs": healed.graphs },
            "notes": self.notes(),
            "trace": self.path.display().to_string(),
            "report": state,
        });
        print(&format!("{}\n", serde_json::to_string_pretty(&value)?))
    }
}
