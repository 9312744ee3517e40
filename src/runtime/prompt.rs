//! Prompts and their two phases, as events and spans.

use std::sync::Arc;

use tracing::Span;

use crate::base::PromptId;
use crate::event::{Outcome, PhaseEnded, PromptBegan, PromptEnded};
use crate::runtime::probe::spans;
use crate::runtime::{Runtime, Shared};

pub use crate::event::Phase;

/// A prompt under way. Its text is never stated.
pub struct Prompt {
    shared: Arc<Shared>,
    id: PromptId,
    span: Span,
}

impl Runtime {
    /// Takes up a prompt of `tokens` tokens.
    #[must_use]
    pub fn begin_prompt(&self, tokens: usize) -> Prompt {
        let mut state = self.shared.lock();
        let id = state.next.prompt();
        let span = spans::prompt(id.0);
        let event = PromptBegan {
            prompt: id,
            tokens: tokens as u64,
        };
        state.probe.record_in(&span, event);
        Prompt {
            shared: Arc::clone(&self.shared),
            id,
            span,
        }
    }
}

/// The span of a layer's launches. Enter it around them.
#[must_use]
pub fn layer_span(index: usize) -> Span {
    spans::layer(index)
}

impl Prompt {
    /// Runs one phase inside its span, and states how many tokens it processed or made.
    ///
    /// # Errors
    /// What `work` says; then the phase has no end.
    pub fn phase<T, E>(&self, phase: Phase, work: impl FnOnce() -> Result<(T, usize), E>) -> Result<T, E> {
        let _prompt = self.span.enter();
        let span = spans::phase(phase);
        let _entered = span.enter();
        let (value, tokens) = work()?;
        let state = self.shared.lock();
        let event = PhaseEnded {
            prompt: self.id,
            phase,
            tokens: tokens as u64,
        };
        state.probe.record_in(&span, event);
        Ok(value)
    }

    /// Ends the prompt.
    pub fn end(self, outcome: Outcome) {
        let mut state = self.shared.lock();
        state.state_all_timings();
        let prompt = self.id;
        state.probe.record(PromptEnded { prompt, outcome });
    }
}
