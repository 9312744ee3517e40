//! Text to token ids and back, by `tokenizer.json`.
//!
//! Truncation and padding that the file may ask for are switched off: a caller gets the ids of the whole
//! text and nothing else.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tokenizers::Tokenizer;

use crate::model::LlamaConfig;
use crate::model::LoadError;
use crate::model::error::clip;
use crate::model::files;
use crate::model::growth::{MAX_GROWTH, factor};

/// The longest `tokenizer.json` that is read. Those of 256,000 tokens have about 35 MB.
pub const MAX_TOKENIZER_BYTES: u64 = 64 << 20;

/// The longest text that is encoded at once.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// A tokenizer for one model.
pub struct TextTokenizer {
    file: String,
    inner: Tokenizer,
    largest_id: u32,
}

impl fmt::Debug for TextTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextTokenizer")
            .field("file", &self.file)
            .field("largest_id", &self.largest_id)
            .finish_non_exhaustive()
    }
}

impl TextTokenizer {
    /// Reads a `tokenizer.json` of at most [`MAX_TOKENIZER_BYTES`].
    ///
    /// # Errors
    /// The file can't be read, is too long, or describes no tokenizer.
    pub fn open(path: &Path) -> Result<TextTokenizer, LoadError> {
        let bytes = files::read(path, MAX_TOKENIZER_BYTES)?;
        TextTokenizer::from_bytes(&path.display().to_string(), &bytes)
    }

    /// Takes the bytes of a `tokenizer.json`; `file` is the name for messages.
    ///
    /// # Errors
    /// The bytes are too many, or describe no tokenizer.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<TextTokenizer, LoadError> {
        files::check_len(file, bytes, MAX_TOKENIZER_BYTES)?;
        let (inner, largest_id) = guard(file, || {
            let mut inner = Tokenizer::from_bytes(bytes)?;
            inner.with_truncation(None)?;
            inner.with_padding(None);
            let largest_id = inner.get_vocab(true).into_values().max();
            Ok((inner, largest_id))
        })?;
        let Some(largest_id) = largest_id else {
            return Err(failed(file, "it has no tokens"));
        };
        check_growth(file, &inner)?;
        Ok(TextTokenizer {
            file: file.to_owned(),
            inner,
            largest_id,
        })
    }

    /// The ids of `text`, with the special tokens that the file puts around a text.
    ///
    /// # Errors
    /// The text has more than [`MAX_TEXT_BYTES`], or holds what the tokenizer has no token for.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LoadError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(LoadError::TextTooLarge {
                bytes: text.len(),
                limit: MAX_TEXT_BYTES,
            });
        }
        guard(&self.file, || {
            Ok(self.inner.encode_fast(text, true)?.get_ids().to_vec())
        })
    }

    /// The text of `ids`, without special tokens. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// An id that the tokenizer does not know.
    pub fn decode(&self, ids: &[u32]) -> Result<String, LoadError> {
        if let Some(&id) = ids.iter().find(|&&id| self.inner.id_to_token(id).is_none()) {
            return Err(LoadError::UnknownToken {
                file: self.file.clone(),
                id,
            });
        }
        guard(&self.file, || self.inner.decode(ids, true))
    }

    /// The largest id that [`TextTokenizer::encode`] can give.
    #[must_use]
    pub fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// Checks that the model has an embedding for every token.
    ///
    /// # Errors
    /// [`LoadError::TokenOutsideModel`] where it has not.
    pub fn check_fits(&self, config: &LlamaConfig) -> Result<(), LoadError> {
        if self.largest_id as usize >= config.vocab_size {
            return Err(LoadError::TokenOutsideModel {
                file: self.file.clone(),
                id: self.largest_id,
                vocab_size: config.vocab_size,
            });
        }
        Ok(())
    }
}

/// Refuses rewriting steps that could make a text longer than memory.
fn check_growth(file: &str, inner: &Tokenizer) -> Result<(), LoadError> {
    let steps = [
        serde_json::to_value(inner.get_normalizer()),
        serde_json::to_value(inner.get_decoder()),
    ];
    for step in steps {
        let factor = factor(&step.unwrap_or_default());
        if factor > MAX_GROWTH {
            let reason = format!("it can make a text {factor} times longer, the limit is {MAX_GROWTH}");
            return Err(failed(file, &reason));
        }
    }
    Ok(())
}

fn failed(file: &str, reason: &str) -> LoadError {
    LoadError::Tokenizer {
        file: file.to_owned(),
        reason: clip(reason),
    }
}

/// Runs a step of the tokenizer library, which asserts on some odd files instead of returning an error.
/// Nothing it may have left half done is used after a panic: loading drops it, and the other steps only read.
fn guard<T>(file: &str, step: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, LoadError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(failed(file, &error.to_string())),
        Err(_) => Err(failed(file, "it breaks a rule of the format")),
    }
}
