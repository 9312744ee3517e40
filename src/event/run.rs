//! Facts about the run itself: names, devices, owners, prompts.

use crate::base::{Bytes, DeviceId, NameId, OwnerId, PromptId, StreamId};
use crate::event::schema::facts;
use crate::event::{DeviceKind, GapCause, Outcome, OwnerKind, Phase, Stage};

facts! {
    /// A string got a number. Later events cite the number.
    Book NameDefined = 1 {
        /// Its number, from 0 without holes.
        name: NameId,
        /// The string; at most 4,096 bytes.
        text: Box<str>,
    }
    /// A memory space was opened.
    Book DeviceOpened = 2 {
        /// Its number.
        device: DeviceId,
        /// What it calls itself.
        name: NameId,
        /// Its kind.
        kind: DeviceKind,
        /// All its memory, or the budget.
        total: Bytes,
        /// What the driver took for itself when the device was opened.
        context: Bytes,
    }
    /// An ordered queue of work was opened.
    Book StreamOpened = 3 {
        /// Its number.
        stream: StreamId,
        /// Its device.
        device: DeviceId,
        /// Its name.
        name: NameId,
    }
    /// Someone who will ask for memory made itself known.
    Book OwnerRegistered = 4 {
        /// Its number.
        owner: OwnerId,
        /// Its name, such as `nvfp4_runtime.act_q_pool`.
        name: NameId,
        /// Its kind.
        kind: OwnerKind,
        /// The purge stage whose duty it is to clear it.
        cleared_by: Stage,
    }
    /// A setting of the run, such as the precision.
    Book ConfigNoted = 5 {
        /// Which setting.
        key: NameId,
        /// Its value. Never a prompt or an environment value.
        value: NameId,
    }
    /// A prompt was taken up.
    Book PromptBegan = 6 {
        /// Its number.
        prompt: PromptId,
        /// Its length in tokens.
        tokens: u64,
    }
    /// One phase of a prompt was done.
    Book PhaseEnded = 7 {
        /// The prompt.
        prompt: PromptId,
        /// Which phase.
        phase: Phase,
        /// How many tokens it processed or made.
        tokens: u64,
    }
    /// A prompt ended.
    Book PromptEnded = 8 {
        /// The prompt.
        prompt: PromptId,
        /// How it ended.
        outcome: Outcome,
    }
    /// The run ended by itself.
    Book RunEnded = 9 {
        /// How it ended.
        outcome: Outcome,
    }
    /// Events are missing here.
    Book Gap = 80 {
        /// How many were lost.
        lost: u64,
        /// Why.
        cause: GapCause,
    }
}
