//! A diagnosis as text.

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
    let mut clear = Vec::new();
    for (code, answer) in &diagnosis.answers {
        match answer {
            Answer::Found { .. } => {}
            Answer::Clear => clear.push(code.word()),
            Answer::TooEarly(why) => out += &format!("{code}: too early to tell, {}\n", ascii(why)),
            Answer::CannotTell(why) => out += &format!("{code}: cannot tell, {}\n", ascii(why)),
        }
    }
    if !clear.is_empty() {
        out += &format!("clear: {}\n", clear.join(", "));
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
