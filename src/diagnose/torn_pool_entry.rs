//! TORN_POOL_ENTRY: a purge killed one part of an entry and spared another, since sizes decide.

use crate::diagnose::entries::{self, Subject};
use crate::diagnose::finding::{Answer, Code};
use crate::diagnose::view::View;
use crate::event::Refusal;
use crate::ledger::Vitality;

pub(crate) fn ask(view: &View<'_>) -> Answer {
    let subject = Subject {
        code: Code::TornPoolEntry,
        refusal: Refusal::TornEntry,
        vitality: Vitality::Torn,
        owns: |_| true,
    };
    entries::ask(view, &subject)
}
