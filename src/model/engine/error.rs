//! What an engine can't do.

use crate::model::LoadError;
use crate::runtime::RuntimeError;

/// Why an engine did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The model's files.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The runtime refused, found no room, or the device failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A prompt without tokens.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// A prompt and its continuation are longer than the context.
    #[error("{prompt} prompt tokens and {tokens} new ones are more than the context of {context}")]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// New tokens asked for.
        tokens: usize,
        /// Positions in the context.
        context: usize,
    },
    /// A context of no positions, or of more than the model was made for.
    #[error("context of {asked} is not within 1 and the model's {limit} positions")]
    Context {
        /// Positions asked for.
        asked: usize,
        /// The most that the model was made for.
        limit: usize,
    },
    /// A token that the model has no embedding for.
    #[error("token {id} is not below the vocabulary of {vocab}")]
    UnknownToken {
        /// The token.
        id: u32,
        /// The size of the vocabulary.
        vocab: usize,
    },
    /// A rotation without quantization.
    #[error("a rotation needs precision int8 or nvfp4, not {0}")]
    RotationWithoutQuantization(&'static str),
    /// A rotation group that does not divide a dimension.
    #[error("rotation group {group} does not divide {what} {size}")]
    RotationGroup {
        /// The group.
        group: usize,
        /// The dimension.
        what: &'static str,
        /// Its size.
        size: usize,
    },
    /// The weights went between the load and the step.
    #[error("the model is not on the device")]
    NotLoaded,
}
