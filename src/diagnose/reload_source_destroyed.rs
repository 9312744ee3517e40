//! RELOAD_SOURCE_DESTROYED: a host copy that the next load of a model reads is gone.
//!
//! An error where a purge killed or cleared it and the model was not loaded since. A copy that its owner let go
//! matters only where the run went on to another prompt; at the end of a run all copies go.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Bytes, OwnerId};
use crate::diagnose::finding::{Answer, Code, Finding, Severity, Step};
use crate::diagnose::view::{View, count, size, stage};
use crate::event::ReleaseCause;
use crate::ledger::{Loss, Source};

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let models = view.ledger.models();
    let mut lost = BTreeMap::<OwnerId, Vec<(&Source, Loss, Severity)>>::new();
    for source in models.sources().values() {
        let Some(loss) = source.lost else {
            continue;
        };
        let loaded = models.models().get(&source.model).and_then(|model| model.loaded);
        let reloaded = loaded.is_some_and(|mark| mark.seq > loss.mark.seq);
        if let Some(severity) = severity(view, &loss).filter(|_| !reloaded) {
            lost.entry(source.model)
                .or_default()
                .push((source, loss, severity));
        }
    }
    let findings = lost
        .iter()
        .map(|(model, some)| judge(view, *model, some))
        .collect();
    let named: BTreeSet<OwnerId> = models.sources().values().map(|source| source.model).collect();
    let mut unloaded = models.models().iter().filter(|(_, model)| model.unloads > 0);
    let unnamed = unloaded.find(|(id, _)| !named.contains(id));
    let cannot_tell = unnamed.map(|(id, _)| {
        let name = view.owner(*id);
        format!("no host copy of {name} is named in the record")
    });
    view.answer_or(findings, cannot_tell, None)
}

fn severity(view: &View<'_>, loss: &Loss) -> Option<Severity> {
    match loss.cause {
        None | Some(ReleaseCause::Cleared | ReleaseCause::Evicted) => Some(Severity::Error),
        Some(ReleaseCause::Shutdown) => None,
        Some(ReleaseCause::Dropped | ReleaseCause::Unloaded | ReleaseCause::Stale) => {
            let mut prompts = view.ledger.run().prompts().values();
            let went_on = prompts.any(|prompt| prompt.began.seq > loss.mark.seq);
            went_on.then_some(Severity::Warning)
        }
    }
}

fn judge(view: &View<'_>, model: OwnerId, lost: &[(&Source, Loss, Severity)]) -> Finding {
    let name = view.owner(model);
    let tensors = lost.iter().map(|(source, _, _)| view.name(source.tensor));
    let bytes = lost.iter().map(|(_, loss, _)| i128::from(loss.bytes.0)).sum();
    let mut chain = Vec::new();
    for (source, loss, _) in lost.iter().take(view.limits.names_per_list) {
        let tensor = view.name(source.tensor);
        let kept = format!("a host copy of `{tensor}` became what the next load of {name} reads");
        chain.push(Step::new(source.kept, kept));
        let how = match (loss.kill, loss.cause) {
            (Some((purge, by)), _) => format!("{} killed it", stage(purge, by)),
            (None, Some(cause)) => format!("it was released ({cause})"),
            (None, None) => "it was released".to_owned(),
        };
        chain.push(Step::new(loss.mark, format!("`{tensor}`: {how}, {}", loss.bytes)));
    }
    Finding {
        code: Code::ReloadSourceDestroyed,
        severity: lost
            .iter()
            .map(|(_, _, severity)| *severity)
            .max()
            .unwrap_or(Severity::Warning),
        confidence: view.confidence(),
        headline: format!(
            "gone: {} ({}) that the next load of {name} reads: {}",
            count(lost.len() as u64, "host copy"),
            size(bytes),
            view.list(tensors)
        ),
        chain: Vec::new(),
        evidence: lost.iter().map(|(_, loss, _)| loss.mark.seq).collect(),
        bytes: Bytes::clamped(bytes),
        next_step: format!("exempt the reload sources of {name} from the purge, or load it from its file"),
    }
    .with_chain(chain)
}
