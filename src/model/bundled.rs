//! The model that is part of the program: one million parameters, trained on Shakespeare's plays.
//!
//! It is for demos and tests, not for quality. `models/tiny-llama/README.md` says how it was made. The weights
//! are used where the program image holds them; loading copies nothing.

use crate::model::LlamaModel;
use crate::model::LoadError;

/// `config.json` of the bundled model.
pub const CONFIG: &[u8] = include_bytes!("../../models/tiny-llama/config.json");

/// `tokenizer.json` of the bundled model.
pub const TOKENIZER: &[u8] = include_bytes!("../../models/tiny-llama/tokenizer.json");

/// `model.safetensors` of the bundled model.
pub const WEIGHTS: &[u8] = include_bytes!("../../models/tiny-llama/model.safetensors");

/// The bundled model, checked like any other.
///
/// # Errors
/// None that a correct build can meet.
pub fn load() -> Result<LlamaModel, LoadError> {
    LlamaModel::from_bytes(CONFIG, TOKENIZER, WEIGHTS)
}
