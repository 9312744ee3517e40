//! What a rule may answer.

use std::fmt;

use crate::base::{Bytes, Nanos, Seq};
use crate::ledger::Mark;

/// Which failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A pooled buffer's storage was killed, and the pool still has it.
    StalePoolEntry,
    /// Part of a pool entry is alive, part is dead.
    TornPoolEntry,
    /// A graph baked a buffer that has moved on.
    StaleGraph,
    /// A GEMM workspace was killed and is still in use.
    StaleWorkspace,
    /// A purge claims more than came back.
    PurgeIneffective,
    /// A purge ran while work was in flight.
    PurgeDuringExecution,
    /// Segments stayed after a purge that returns them.
    CachedNotReturned,
    /// Bytes of a model outlive its unload.
    RetainedAfterUnload,
    /// A host copy that the next load reads is gone.
    ReloadSourceDestroyed,
}

impl Code {
    /// All codes, in the order in which rules run.
    pub const ALL: &'static [Code] = &[
        Code::StalePoolEntry,
        Code::TornPoolEntry,
        Code::StaleGraph,
        Code::StaleWorkspace,
        Code::PurgeIneffective,
        Code::PurgeDuringExecution,
        Code::CachedNotReturned,
        Code::RetainedAfterUnload,
        Code::ReloadSourceDestroyed,
    ];

    /// The stable name that scripts and search engines know.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Code::StalePoolEntry => "STALE_POOL_ENTRY",
            Code::TornPoolEntry => "TORN_POOL_ENTRY",
            Code::StaleGraph => "STALE_GRAPH",
            Code::StaleWorkspace => "STALE_WORKSPACE",
            Code::PurgeIneffective => "PURGE_INEFFECTIVE",
            Code::PurgeDuringExecution => "PURGE_DURING_EXECUTION",
            Code::CachedNotReturned => "CACHED_NOT_RETURNED",
            Code::RetainedAfterUnload => "RETAINED_AFTER_UNLOAD",
            Code::ReloadSourceDestroyed => "RELOAD_SOURCE_DESTROYED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing failed.
    Info,
    /// Will fail or waste memory if nothing changes.
    Warning,
    /// Something failed.
    Error,
}

impl Severity {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How sure the rule is of the cause. That the thing happened is in the record either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Parts of the chain are not in the record.
    Low,
    /// The chain is there, but events are missing from the record.
    Medium,
    /// The whole chain is there.
    High,
}

impl Confidence {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One step of a chain of causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub seq: Seq,
    /// When, since the start of the trace.
    pub at: Nanos,
    /// What happened there.
    pub text: String,
}

impl Step {
    pub(crate) fn new(mark: Mark, text: String) -> Step {
        Step {
            seq: mark.seq,
            at: mark.at,
            text,
        }
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which failure.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// One sentence, without a full stop.
    pub headline: String,
    /// How it came about, in the order of the trace.
    pub chain: Vec<Step>,
    /// The events that prove it, in the order of the trace. The chain's are among them.
    pub evidence: Vec<Seq>,
    /// The bytes that it is about: lost, stuck or claimed. Findings may be about the same bytes, so do not sum them.
    pub bytes: Bytes,
    /// What to do next.
    pub next_step: String,
}

impl Finding {
    /// Puts the chain in order and makes its events evidence.
    pub(crate) fn with_chain(mut self, mut chain: Vec<Step>) -> Finding {
        chain.sort_by_key(|step| step.seq);
        chain.dedup();
        self.evidence.extend(chain.iter().map(|step| step.seq));
        self.evidence.sort_unstable();
        self.evidence.dedup();
        self.chain = chain;
        self
    }
}

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did not happen.
    Clear,
    /// It happened, as these findings tell.
    Found {
        /// The gravest first, at most [`Thresholds::findings_per_rule`](crate::diagnose::Thresholds).
        findings: Vec<Finding>,
        /// How many more there are.
        left_out: usize,
    },
    /// What would show it is still going on.
    TooEarly(String),
    /// The record does not have what would show it.
    CannotTell(String),
}
