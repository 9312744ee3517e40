//! A diagnosis as text.

use std::collections::BTreeMap;

use crate::diagnose::{Answer, Diagnosis, Finding, Step};
use crate::report::row::{Times, ascii, span};

/// All findings with their chains, then what the other rules say.
#[must_use]
pub fn findings_text(diagnosis: &Diagnosis, times: Times) -> String {
    let mut out = String::new();
    for finding in &diagnosis.findings {
        out += &finding_text(finding, times);
        out.push('\n');
    }
    if diagnosis.left_out > 0 {
        out += &format!("{} more findings left out\n", diagnosis.left_out);
    }
    let mut said = BTreeMap::<String, Vec<&str>>::new();
    for (code, answer) in &diagnosis.answers {
        let text = match answer {
            Answer::Found { .. } => continue,
            Answer::Clear => "clear".to_owned(),
            Answer::TooEarly(why) => format!("too early to tell, {why}"),
            Answer::CannotTell(why) => format!("cannot tell, {why}"),
        };
        said.entry(text).or_default().push(code.word());
    }
    for (text, codes) in &said {
        out += &format!("{}: {}\n", ascii(text), codes.join(", "));
    }
    out
}

fn finding_text(finding: &Finding, times: Times) -> String {
    let mut out = format!(
        "{} {} ({}, confidence {})\n  {}\n",
        finding.severity,
        finding.code,
        finding.bytes,
        finding.confidence,
        ascii(&finding.headline)
    );
    for step in &finding.chain {
        out += &step_text(step, times);
    }
    out + &format!("  next: {}\n", ascii(&finding.next_step))
}

fn step_text(step: &Step, times: Times) -> String {
    let (seq, text) = (format!("#{}", step.seq), ascii(&step.text));
    match times {
        Times::Shown => format!("  {seq:>8} {:>8}  {text}\n", span(step.at)),
        Times::Hidden => format!("  {seq:>8}  {text}\n"),
    }
}
