//! Loading of Llama-family models: configuration, weights and tokenizer, each checked before use.
//!
//! Every file is taken to be hostile. Sizes are bounded before memory is asked for, every value of the
//! configuration has limits, and every tensor the architecture needs is checked for presence, element type
//! and shape, so that inference can rely on them. What does not fit is a [`LoadError`], never a panic.
//! This module does not know of the network: it reads local files and bytes only.
//!
//! ```
//! let model = vramscope::model::bundled::load()?;
//! assert_eq!(model.config().layers, 5);
//! assert_eq!(model.tokenizer().encode("To be")?, [0, 398, 306]);
//!
//! let mut norm = vec![0.0; model.config().hidden_size];
//! model.weights().widen("model.norm.weight", &mut norm)?;
//! # Ok::<(), vramscope::model::LoadError>(())
//! ```

pub mod bundled;
mod config;
pub mod engine;
mod error;
mod files;
mod growth;
mod llama;
mod tokenizer;
mod weights;

pub use config::{LlamaConfig, MAX_CONFIG_BYTES};
pub use error::LoadError;
pub use llama::LlamaModel;
pub use tokenizer::{MAX_TEXT_BYTES, MAX_TOKENIZER_BYTES, TextTokenizer};
pub use weights::{
    LlamaWeights, MAX_HEADER_BYTES, MAX_INDEX_BYTES, MAX_SHARDS, MAX_WEIGHTS_BYTES, StoredDtype, TensorView,
};
