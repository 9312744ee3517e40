//! STALE_WORKSPACE: a GEMM workspace was used after a purge killed its storage.

use crate::diagnose::entries::{self, Subject};
use crate::diagnose::finding::{Answer, Code};
use crate::diagnose::view::View;
use crate::event::{OwnerKind, Refusal};
use crate::ledger::Vitality;

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let subject = Subject {
        code: Code::StaleWorkspace,
        refusal: Refusal::StaleBuffer,
        vitality: Vitality::Dead,
        owns: |kind| kind == Some(OwnerKind::Workspace),
    };
    entries::ask(view, &subject)
}
