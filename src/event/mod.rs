//! What happened to device memory, as plain facts by domain.
//!
//! Everything else hangs on this module: the runtime states facts through [`Record`], the trace file keeps
//! them, the ledger folds them. An event is declared once, with its wire tag and documentation; the binary
//! codec, the text form and the reference in `traces/FORMAT.md` follow from that declaration.
//!
//! Bytes are exact. Sizes asked for and sizes taken are separate. Failures are facts too.

mod field;
mod launch;
mod memory;
mod pool;
mod purge;
mod record;
mod run;
mod schema;
mod words;

use crate::base::{Nanos, Seq};

pub use field::{Field, FieldSink, FieldSource, Uses};
pub use launch::{
    CaptureBegan, CaptureEnded, CopyIssued, GraphBaked, GraphDropped, GraphKernelTimed, GraphReplayed,
    KernelLaunched, QuantizeCounted, WorkCompleted,
};
pub use memory::{
    AccessRefused, AllocFailed, AllocRetried, BufferAllocated, BufferHeld, BufferKilled, ReleaseCompleted,
    ReleaseRequested, SegmentReserved, SegmentReturned,
};
pub use pool::{EntryAdded, EntryDropped, EntryPartSet, PoolOpened, PoolTaken};
pub use purge::{
    MeterRead, ModelLoaded, ModelUnloaded, OwnerCleared, PurgeBegan, PurgeEnded, PurgeRefused, PurgeSurvivor,
    ReloadSourceKept, StageBegan, StageEnded,
};
pub use record::{MemoryLog, NameTable, Record, Stamp};
pub use run::{
    ConfigNoted, DeviceOpened, Gap, NameDefined, OwnerRegistered, PhaseEnded, PromptBegan, PromptEnded,
    RunEnded, StreamOpened,
};
pub use schema::{Class, FieldInfo, KindInfo};
pub use words::{
    DeviceKind, Direction, GapCause, Holder, Outcome, OwnerKind, Phase, Refusal, ReleaseCause, ReturnCause,
    Stage, TakeOutcome,
};

schema::event_kinds!(
    NameDefined,
    DeviceOpened,
    StreamOpened,
    OwnerRegistered,
    ConfigNoted,
    PromptBegan,
    PhaseEnded,
    PromptEnded,
    RunEnded,
    SegmentReserved,
    SegmentReturned,
    BufferAllocated,
    AllocFailed,
    AllocRetried,
    ReleaseRequested,
    BufferHeld,
    ReleaseCompleted,
    BufferKilled,
    AccessRefused,
    PoolOpened,
    EntryAdded,
    EntryPartSet,
    PoolTaken,
    EntryDropped,
    KernelLaunched,
    CopyIssued,
    WorkCompleted,
    QuantizeCounted,
    GraphKernelTimed,
    CaptureBegan,
    GraphBaked,
    CaptureEnded,
    GraphReplayed,
    GraphDropped,
    PurgeBegan,
    PurgeRefused,
    StageBegan,
    OwnerCleared,
    StageEnded,
    PurgeSurvivor,
    PurgeEnded,
    ModelLoaded,
    ModelUnloaded,
    ReloadSourceKept,
    MeterRead,
    Gap,
);

/// An event with its place and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Place in the trace.
    pub seq: Seq,
    /// Time since the start of the trace.
    pub at: Nanos,
    /// What happened.
    pub event: Event,
}

#[cfg(test)]
mod tests {
    use super::{Event, MemoryLog, NameDefined, NameTable, Record};
    use crate::base::clock::Clock;
    use crate::base::{NameId, Nanos, Seq};

    #[test]
    fn tags_are_unique_and_every_item_is_documented() {
        let mut seen = std::collections::BTreeMap::new();
        for kind in Event::KINDS {
            assert_eq!(
                seen.insert(kind.tag, kind.name),
                None,
                "tag {} is used twice",
                kind.tag
            );
            assert!(!kind.doc.trim().is_empty(), "{} has no doc", kind.name);
            for field in kind.fields {
                assert!(
                    !field.doc.trim().is_empty(),
                    "{}.{} has no doc",
                    kind.name,
                    field.name
                );
            }
        }
    }

    #[test]
    fn a_log_numbers_events_without_holes() {
        let clock = Clock::manual();
        let log = MemoryLog::new(clock.clone());
        let mut names = NameTable::default();
        for text in ["a", "b", "a"] {
            let (name, new) = names.intern(text);
            if new {
                log.record(
                    &NameDefined {
                        name,
                        text: text.into(),
                    }
                    .into(),
                );
            }
            clock.advance(Nanos(5));
        }
        let events = log.events();
        assert_eq!(events.len(), 2);
        assert_eq!((events[1].seq, events[1].at), (Seq(1), Nanos(5)));
        assert_eq!(
            events[1].event,
            NameDefined {
                name: NameId(1),
                text: "b".into()
            }
            .into()
        );
    }
}
