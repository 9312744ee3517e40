//! STALE_GRAPH: a graph baked the address of a buffer that has moved on.
//!
//! A refused replay is an error whatever moved the buffer. A graph that waits is a warning only where a purge
//! killed what it baked: a graph may hold released buffers for as long as it lives.

use std::collections::BTreeMap;

use crate::base::{Bytes, GraphId};
use crate::diagnose::chain;
use crate::diagnose::finding::{Answer, Code, Confidence, Finding, Severity, Step};
use crate::diagnose::view::{View, buffer, stage};
use crate::event::{Outcome, Refusal};
use crate::ledger::{Baked, Graph, Mark, Obituary, Refused};

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let mut groups = BTreeMap::<Option<GraphId>, Vec<&Refused>>::new();
    for refused in view.ledger.refusals().kept() {
        if refused.refusal == Refusal::StaleGraph {
            groups.entry(refused.graph).or_default().push(refused);
        }
    }
    let mut findings: Vec<Finding> = groups.values().map(|group| replayed(view, group)).collect();
    for (id, graph) in view.ledger.graphs().graphs() {
        if !groups.contains_key(&Some(*id)) {
            findings.extend(waiting(view, *id, graph));
        }
    }
    view.answer(findings)
}

fn captured(view: &View<'_>, graph: &str, began: Mark, baked: Option<&Baked>) -> Vec<Step> {
    let mut steps = vec![Step::new(began, format!("capture of {graph} began"))];
    if let Some(baked) = baked {
        let what = buffer(baked.buffer, baked.generation);
        let argument = view.name(baked.argument);
        let text = format!("node {} baked the address of {what} as `{argument}`", baked.node);
        steps.push(Step::new(baked.mark, text));
    }
    steps
}

fn replayed(view: &View<'_>, group: &[&Refused]) -> Finding {
    let first = group[0];
    let graph = match (first.graph_then, first.graph) {
        (Some(then), _) => format!("graph {} `{}`", then.id, view.name(then.key)),
        (None, Some(id)) => format!("graph {id}"),
        (None, None) => format!("graph `{}`", view.name(first.op)),
    };
    let then = first.graph_then;
    let mut chain = Vec::new();
    if let Some(then) = &then {
        chain.extend(captured(view, &graph, then.began, then.baked.as_ref()));
    }
    let mut by = "which has moved on".to_owned();
    if let Some(obituary) = &first.obituary {
        let place = (first.buffer, first.expected);
        chain.extend(chain::killed(view, place, obituary));
        chain.extend(chain::not_cleared(view, obituary.buffer.owner, obituary));
        by = format!("which {} had killed", stage(obituary.purge, obituary.stage));
    } else if let Some(purge) = first.purge {
        by = format!("which purge#{purge} had killed");
    }
    chain.push(chain::used(view, first));
    let node = then
        .and_then(|then| then.baked)
        .map_or_else(String::new, |b| format!("node {} of ", b.node));
    let what = buffer(first.buffer, first.expected);
    let known = then.is_some_and(|then| then.baked.is_some()) && first.obituary.is_some();
    Finding {
        code: Code::StaleGraph,
        severity: Severity::Error,
        confidence: if known { view.confidence() } else { Confidence::Low },
        headline: format!(
            "replay refused: {node}{graph} baked {what}, {by}; the slot has generation {}",
            first.found
        ),
        chain: Vec::new(),
        evidence: group.iter().map(|refused| refused.mark.seq).collect(),
        bytes: Bytes::clamped(first.obituary.map_or(0, |o| o.buffer.size())),
        next_step:
            "drop graphs before their buffers: the order is graphs, pools, workspaces (profile `full`), \
                    or capture again with `--stale rebuild`"
                .to_owned(),
    }
    .with_chain(chain)
}

/// A graph that no one has replayed since a purge killed what it baked.
fn waiting(view: &View<'_>, id: GraphId, graph: &Graph) -> Option<Finding> {
    if graph.outcome != Some(Outcome::Complete) {
        return None;
    }
    let dead: Vec<(&Baked, &Obituary)> = graph
        .stale(view.ledger.memory())
        .filter_map(|baked| {
            let obituary = view.ledger.obituary(baked.buffer, baked.generation)?;
            let over = view.purge(obituary.purge)?.ended.is_some();
            over.then_some((baked, obituary))
        })
        .collect();
    let (baked, obituary) = *dead.first()?;
    let name = format!("graph {id} `{}`", view.name(graph.key));
    let mut chain = captured(view, &name, graph.began, Some(baked));
    chain.extend(chain::killed(view, (baked.buffer, baked.generation), obituary));
    chain.extend(chain::not_cleared(view, obituary.buffer.owner, obituary));
    let by = stage(obituary.purge, obituary.stage);
    Some(
        Finding {
            code: Code::StaleGraph,
            severity: Severity::Warning,
            confidence: view.confidence(),
            headline: format!(
                "{name} outlived {by}, which killed {} of its buffers; its next replay will be refused",
                dead.len()
            ),
            chain: Vec::new(),
            evidence: dead.iter().map(|(_, obituary)| obituary.mark.seq).collect(),
            bytes: Bytes::clamped(dead.iter().map(|(_, obituary)| obituary.buffer.size()).sum()),
            next_step: "drop graphs before their buffers: the order is graphs, pools, workspaces".to_owned(),
        }
        .with_chain(chain),
    )
}
