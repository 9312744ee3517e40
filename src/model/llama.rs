//! A model as a whole: configuration, tokenizer and weights that fit each other.

use std::borrow::Cow;
use std::path::Path;

use crate::model::LlamaConfig;
use crate::model::LlamaWeights;
use crate::model::LoadError;
use crate::model::TextTokenizer;

/// A Llama-family model whose parts were checked against each other.
#[derive(Debug)]
pub struct LlamaModel {
    config: LlamaConfig,
    tokenizer: TextTokenizer,
    weights: LlamaWeights,
}

impl LlamaModel {
    /// Opens a folder that holds `config.json`, `tokenizer.json`, and either `model.safetensors` or
    /// `model.safetensors.index.json` with its shards.
    ///
    /// # Errors
    /// A file is missing, too long or damaged, or the parts do not fit each other.
    pub fn open(folder: &Path) -> Result<LlamaModel, LoadError> {
        let config = LlamaConfig::open(&folder.join("config.json"))?;
        let tokenizer = TextTokenizer::open(&folder.join("tokenizer.json"))?;
        tokenizer.check_fits(&config)?;
        let weights = LlamaWeights::open(&config, folder)?;
        Ok(LlamaModel {
            config,
            tokenizer,
            weights,
        })
    }

    /// Takes the three files as bytes.
    ///
    /// # Errors
    /// A file is too long or damaged, or the parts do not fit each other.
    pub fn from_bytes(
        config: &[u8],
        tokenizer: &[u8],
        weights: impl Into<Cow<'static, [u8]>>,
    ) -> Result<LlamaModel, LoadError> {
        let config = LlamaConfig::from_bytes("config.json", config)?;
        let tokenizer = TextTokenizer::from_bytes("tokenizer.json", tokenizer)?;
        tokenizer.check_fits(&config)?;
        let weights = LlamaWeights::from_bytes(&config, "model.safetensors", weights)?;
        Ok(LlamaModel {
            config,
            tokenizer,
            weights,
        })
    }

    /// Sizes and constants.
    #[must_use]
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// Text to token ids and back.
    #[must_use]
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The tensors.
    #[must_use]
    pub fn weights(&self) -> &LlamaWeights {
        &self.weights
    }
}
