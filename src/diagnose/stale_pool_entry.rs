//! STALE_POOL_ENTRY: a pooled buffer was used, or waits to be used, whose storage a purge killed.
//!
//! Silent on a use after a plain release, on a wrong device and on a buffer that is too small: no purge did that.

use crate::diagnose::entries::{self, Subject};
use crate::diagnose::finding::{Answer, Code};
use crate::diagnose::view::View;
use crate::event::{OwnerKind, Refusal};
use crate::ledger::Vitality;

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let subject = Subject {
        code: Code::StalePoolEntry,
        refusal: Refusal::StaleBuffer,
        vitality: Vitality::Dead,
        owns: |kind| kind != Some(OwnerKind::Workspace),
    };
    entries::ask(view, &subject)
}
