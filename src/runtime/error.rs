//! What the runtime refuses, in words that name the culprit.

use std::fmt;

use crate::base::{BufferId, Bytes, Generation, Nanos, OwnerId, PurgeId};
use crate::device::DeviceError;
use crate::event::{Refusal, Stage};

/// Why the runtime did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// An argument was refused before the driver was called.
    #[error("{0}")]
    Refused(Box<RefusedUse>),
    /// No room, also after cached segments went back to the driver.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
    /// A request for 0 bytes. It is always a mistake further up.
    #[error("{owner} asked for 0 bytes for {site}")]
    ZeroBytes {
        /// Who asked.
        owner: String,
        /// What for.
        site: String,
    },
    /// A purge met work in flight and was told not to wait.
    #[error(
        "purge#{purge} was refused: {in_flight} pieces of work are in flight; wait for them, or force it"
    )]
    PurgeRefused {
        /// Its number.
        purge: PurgeId,
        /// How much work.
        in_flight: u64,
    },
    /// The driver failed.
    #[error("the device failed")]
    Device(#[from] DeviceError),
}

/// No room for an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Who asked.
    pub owner: String,
    /// What for.
    pub site: String,
    /// The device.
    pub device: String,
    /// What was asked for.
    pub need: Bytes,
    /// What the device counts as free.
    pub free: Bytes,
    /// All that the device has, or the budget.
    pub total: Bytes,
    /// Free bytes in segments that something else pins, in sum.
    pub cached: Bytes,
    /// The largest free block in a segment.
    pub largest: Bytes,
    /// What the one retry gave back to the driver before.
    pub returned: Bytes,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory on {}: {} needs {} for {}; the device has {} of {} free, segments hold {} of free \
             blocks, the largest has {}; returning cached segments gave back {}",
            self.device,
            self.owner,
            self.need,
            self.site,
            self.free,
            self.total,
            self.cached,
            self.largest,
            self.returned
        )
    }
}

/// One part of the pool entry that a refused buffer belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: Bytes,
    /// Whether its storage is there.
    pub alive: bool,
}

/// The purge that took a buffer's storage away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killer {
    /// The purge.
    pub purge: PurgeId,
    /// Its stage.
    pub stage: Stage,
    /// From this size on it killed.
    pub threshold: Bytes,
    /// When, since the start of the trace.
    pub at: Nanos,
    /// The owners that the stage which should have cleared it did clear; `None` where it did not run.
    pub cleared_instead: Option<Vec<String>>,
}

/// A use that was refused before the driver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedUse {
    /// Why.
    pub refusal: Refusal,
    /// The kernel, or the graph's key.
    pub op: String,
    /// The argument; in a graph as `kernel.argument`.
    pub argument: String,
    /// The graph's number, and the node.
    pub graph: Option<(u32, u64)>,
    /// The slot.
    pub buffer: BufferId,
    /// The generation that the handle or the graph has.
    pub expected: Generation,
    /// The generation that the slot has.
    pub found: Generation,
    /// Bytes that the launch needs.
    pub bytes_needed: Bytes,
    /// Bytes that are there.
    pub bytes_found: Bytes,
    /// The device that the launch runs on.
    pub device_needed: String,
    /// The device that the buffer is on.
    pub device_found: String,
    /// Who allocated it.
    pub owner: String,
    /// Its number.
    pub owner_id: OwnerId,
    /// What for.
    pub site: String,
    /// When.
    pub allocated_at: Nanos,
    /// The stage whose duty it is to clear the owner; where a graph is stale, to drop graphs.
    pub cleared_by: Stage,
    /// The pool entry's key and parts, where it is in a pool.
    pub entry: Option<(String, Vec<Part>)>,
    /// The purge that killed it, where one did.
    pub killer: Option<Killer>,
}

impl RefusedUse {
    fn headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, argument) = (&self.op, &self.argument);
        write!(f, "{}: ", self.refusal)?;
        match (self.refusal, self.graph) {
            (Refusal::StaleGraph, Some((graph, node))) => write!(
                f,
                "graph#{graph} `{op}` has the address of a buffer that moved on (node {node}, {argument})"
            ),
            (Refusal::TornEntry, _) => {
                write!(f, "{op} argument `{argument}` is the dead half of a pool entry")
            }
            (Refusal::WrongDevice, _) => write!(
                f,
                "{op} argument `{argument}` is on {}, the launch on {}",
                self.device_found, self.device_needed
            ),
            (Refusal::TooSmall, _) => write!(
                f,
                "{op} argument `{argument}` has {} B, the launch needs {} B",
                self.bytes_found.0, self.bytes_needed.0
            ),
            _ => write!(f, "{op} argument `{argument}` lost its storage"),
        }?;
        write!(f, "; nothing was launched")
    }

    fn next_step(&self) -> String {
        match self.refusal {
            Refusal::WrongDevice => "copy the buffer to the launch's device first".to_owned(),
            Refusal::TooSmall => "allocate for the launch's shape; no purge is to blame".to_owned(),
            _ => format!(
                "let stage {} of the purge clear every owner (profile full), or heal with --stale rebuild",
                self.cleared_by
            ),
        }
    }
}

impl fmt::Display for RefusedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headline(f)?;
        let mut line = |label: &str, text: String| write!(f, "\n  {label:<13}{text}");
        line(
            "buffer",
            format!(
                "#{} generation {}, now {}; {} B needed on {}, {} B found on {}",
                self.buffer,
                self.expected,
                self.found,
                self.bytes_needed.0,
                self.device_needed,
                self.bytes_found.0,
                self.device_found
            ),
        )?;
        if let Some((key, parts)) = &self.entry {
            line("pool", format!("{} key {key}", self.owner))?;
            let parts: Vec<String> = parts
                .iter()
                .map(|part| {
                    let state = if part.alive { "alive" } else { "dead" };
                    format!("{} {} B {state}", part.name, part.bytes.0)
                })
                .collect();
            line("entry", parts.join(", "))?;
        }
        if let Some(killer) = &self.killer {
            line(
                "killed by",
                format!(
                    "purge#{} stage {} (everything from {} B) at {}",
                    killer.purge, killer.stage, killer.threshold.0, killer.at
                ),
            )?;
            let what = if self.graph.is_some() {
                "the graph dropped"
            } else {
                "cleared"
            };
            let instead = match &killer.cleared_instead {
                None => "which did not run".to_owned(),
                Some(owners) if owners.is_empty() => "which cleared nothing".to_owned(),
                Some(owners) => format!("which cleared only {}", owners.join(", ")),
            };
            line(
                "should be",
                format!("{what} by stage {} of that purge, {instead}", self.cleared_by),
            )?;
        }
        line(
            "allocated by",
            format!("{} for {} at {}", self.owner, self.site, self.allocated_at),
        )?;
        line("next step", self.next_step())
    }
}
