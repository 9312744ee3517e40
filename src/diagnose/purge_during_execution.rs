//! PURGE_DURING_EXECUTION: a purge began while work was in flight.
//!
//! An error where it went on and killed storage, a warning where it went on, information where it was refused.

use crate::base::{Bytes, PurgeId};
use crate::diagnose::finding::{Answer, Code, Finding, Severity, Step};
use crate::diagnose::view::{View, count};
use crate::ledger::Purge;

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let purges = view.ledger.purges().purges();
    let busy = purges.iter().filter(|(_, purge)| purge.in_flight > 0);
    let findings = busy.map(|(id, purge)| judge(view, *id, purge)).collect();
    let headless = purges
        .iter()
        .find(|(_, purge)| purge.profile.is_none() && purge.refused.is_none());
    let cannot_tell = headless.map(|(id, _)| format!("the beginning of purge#{id} is not in the record"));
    let too_early =
        purges.is_empty() && view.ledger.run().ended().is_none() && view.ledger.run().events() > 0;
    let too_early = too_early.then(|| "no purge has begun".to_owned());
    match view.answer_or(findings, cannot_tell, too_early) {
        // Whether work was in flight is stated at the beginning; the rest of the purge does not matter.
        Answer::TooEarly(_) if !purges.is_empty() => Answer::Clear,
        answer => answer,
    }
}

fn judge(view: &View<'_>, id: PurgeId, purge: &Purge) -> Finding {
    let (killed, bytes) = purge.killed();
    let work = purge.in_flight;
    let pieces = match work {
        1 => "1 piece of work was in flight".to_owned(),
        _ => format!("{work} pieces of work were in flight"),
    };
    let mut chain: Vec<Step> = purge
        .work
        .iter()
        .map(|piece| Step::new(piece.mark, format!("{} began", view.work(piece))))
        .collect();
    let (severity, headline) = match purge.refused {
        Some(mark) => {
            chain.push(Step::new(
                mark,
                format!("purge#{id} was refused with {work} in flight"),
            ));
            let text = format!("purge#{id} was refused, since {pieces}");
            (Severity::Info, text)
        }
        None => {
            chain.push(Step::new(
                purge.began,
                format!("purge#{id} began with {work} in flight"),
            ));
            let text = format!("purge#{id} ran while {pieces}");
            if killed > 0 {
                (
                    Severity::Error,
                    format!("{text}, and killed {}", count(killed, "buffer")),
                )
            } else {
                (Severity::Warning, text)
            }
        }
    };
    for run in purge.stages.iter().filter(|run| run.killed > 0) {
        let text = format!("stage {} killed {}", run.stage, count(run.killed, "buffer"));
        chain.push(Step::new(run.began, text));
    }
    Finding {
        code: Code::PurgeDuringExecution,
        severity,
        confidence: view.confidence(),
        headline,
        chain: Vec::new(),
        evidence: Vec::new(),
        bytes: Bytes::clamped(bytes),
        next_step: "purge between prompts, after all streams are idle; do not force it".to_owned(),
    }
    .with_chain(chain)
}
