//! Runs a Llama model through the runtime: every allocation, pool take, copy, launch, capture and replay
//! goes through it, and there are no hidden buffers.
//!
//! Prefill and decode are the same forward pass over a padded number of rows; how many rows are real and where
//! they stand is on the device. So one captured graph serves all steps of a padding.

mod cache;
mod error;
mod forward;
mod options;
mod pools;
mod sources;
mod weights;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::event::Outcome;
use crate::model::LlamaModel;
use crate::ops::llama::Batch;
use crate::runtime::{Buffer, GraphCache, Phase, Prompt, Runtime, Stream};

pub use error::EngineError;
pub use options::{EngineOptions, Precision};

use cache::KvCache;
use pools::{Pools, part};
use weights::Weights;

/// Rows are padded to a multiple of this.
const ROW_PADDING: usize = 16;

/// The longest context, where neither the model nor the options say less.
const CONTEXT_MAX: usize = 2048;

/// A model, ready to run on one stream.
pub struct Engine {
    runtime: Runtime,
    stream: Stream,
    model: LlamaModel,
    options: EngineOptions,
    pools: Pools,
    graphs: Arc<GraphCache>,
    weights: Arc<Weights>,
    cache: Arc<KvCache>,
    context: usize,
    flagged: Arc<AtomicBool>,
}

/// What a prompt gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// The logits from which the first new token was taken, `[vocab]`.
    pub first_logits: Vec<f32>,
}

impl Engine {
    /// Registers the owners of a model. Nothing is on the device yet.
    ///
    /// # Errors
    /// The options do not fit the model.
    pub fn new(
        runtime: &Runtime,
        stream: &Stream,
        model: LlamaModel,
        options: EngineOptions,
    ) -> Result<Engine, EngineError> {
        options.check(model.config())?;
        let limit = model.config().max_position_embeddings;
        if let Some(asked) = options.context.filter(|asked| !(1..=limit).contains(asked)) {
            return Err(EngineError::Context { asked, limit });
        }
        let most = model.config().max_position_embeddings.min(CONTEXT_MAX);
        let context = options
            .context
            .unwrap_or(most)
            .min(model.config().max_position_embeddings);
        let flagged = Arc::new(AtomicBool::new(false));
        Ok(Engine {
            pools: Pools::open(runtime, stream, &options),
            graphs: GraphCache::open(runtime, "nvfp4_runtime.graph_cache"),
            weights: Weights::open(runtime, stream, Arc::clone(&flagged)),
            cache: KvCache::open(runtime, stream, Arc::clone(&flagged)),
            flagged,
            runtime: runtime.clone(),
            stream: stream.clone(),
            model,
            options,
            context,
        })
    }

    /// The model's files.
    #[must_use]
    pub fn model(&self) -> &LlamaModel {
        &self.model
    }

    /// Flags the model for ejection by a selective purge, or keeps it.
    pub fn flag_for_ejection(&self, eject: bool) {
        self.flagged.store(eject, Ordering::Relaxed);
    }

    /// Puts the weights on the device, unless they are there. Tells `progress` of each tensor: how many are
    /// done, of how many.
    ///
    /// # Errors
    /// No room, or the device fails.
    pub fn load(&self, progress: impl FnMut(usize, usize)) -> Result<(), EngineError> {
        self.weights
            .load(&self.model, &self.options, &self.pools, progress)?;
        Ok(())
    }

    /// Greedily continues `ids` by up to `tokens` tokens; stops early after an end token. Loads the model
    /// first where it is not on the device.
    ///
    /// # Errors
    /// An empty or too long prompt, a refused use, no room, or the device fails.
    pub fn generate(&self, ids: &[u32], tokens: usize) -> Result<Generation, EngineError> {
        self.check_prompt(ids, tokens)?;
        let prompt = self.runtime.begin_prompt(ids.len());
        let result = self.run(&prompt, ids, tokens);
        let outcome = if result.is_ok() {
            Outcome::Complete
        } else {
            Outcome::Failed
        };
        prompt.end(outcome);
        result
    }

    fn check_prompt(&self, ids: &[u32], tokens: usize) -> Result<(), EngineError> {
        if ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if ids.len().saturating_add(tokens) > self.context {
            return Err(EngineError::TooLong {
                prompt: ids.len(),
                tokens,
                context: self.context,
            });
        }
        let vocab = self.model.config().vocab_size;
        match ids.iter().find(|id| **id as usize >= vocab) {
            Some(id) => Err(EngineError::UnknownToken { id: *id, vocab }),
            None => Ok(()),
        }
    }

    fn run(&self, prompt: &Prompt, ids: &[u32], tokens: usize) -> Result<Generation, EngineError> {
        self.load(|_, _| {})?;
        let counters = self.pools.counters()?;
        self.stream.upload(counters.part(0), &[0; 32])?;
        let mut generation = Generation {
            tokens: Vec::with_capacity(tokens),
            first_logits: vec![0.0; self.model.config().vocab_size],
        };
        let logits = &mut generation.first_logits;
        let mut next = prompt.phase(Phase::Prefill, || {
            Ok::<_, EngineError>((self.step(0, ids, Some(logits))?, ids.len()))
        })?;
        let ends = &self.model.config().eos_token_ids;
        prompt.phase(Phase::Decode, || {
            for made in 0..tokens {
                generation.tokens.push(next);
                if ends.contains(&next) || made + 1 == tokens {
                    break;
                }
                next = self.step(ids.len() + made, &[next], None)?;
            }
            Ok::<_, EngineError>(((), generation.tokens.len().saturating_sub(1)))
        })?;
        self.count_blocks(counters.part(0))?;
        Ok(generation)
    }

    /// One forward pass over `ids` at `first`: the next token, and the logits where they are wanted.
    fn step(&self, first: usize, ids: &[u32], logits: Option<&mut Vec<f32>>) -> Result<u32, EngineError> {
        let config = self.model.config();
        let padded = ids.len().next_multiple_of(ROW_PADDING);
        let scratch = self.pools.scratch(config, padded, self.context)?;
        let cursor: Vec<u8> = [first as u32, ids.len() as u32]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        let id_bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.stream.upload(scratch.part(part::CURSOR), &cursor)?;
        self.stream.upload(scratch.part(part::IDS), &id_bytes)?;
        let resident = self.weights.resident().ok_or(EngineError::NotLoaded)?;
        let caches = self.cache.take(config, self.context)?;
        let batch = Batch {
            cursor: scratch.part(part::CURSOR),
            padded,
        };
        let pass = forward::Pass {
            stream: &self.stream,
            config,
            options: &self.options,
            pools: &self.pools,
            resident: &resident,
            caches: &caches,
            scratch: &scratch,
            batch,
        };
        if self.options.graphs {
            let key = format!("forward rows_pad={padded}");
            self.graphs.run(&self.stream, &key, || pass.run())?;
        } else {
            pass.run()?;
        }
        let mut next = [0; 4];
        self.stream.download(scratch.part(part::NEXT), &mut next)?;
        if let Some(logits) = logits {
            let mut bytes = vec![0; logits.len() * 4];
            self.stream.download(scratch.part(part::LOGITS), &mut bytes)?;
            for (logit, bytes) in logits.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *logit = f32::from_le_bytes(*bytes);
            }
        }
        Ok(u32::from_le_bytes(next))
    }

    /// Brings the quantizer's counts into the trace.
    fn count_blocks(&self, counters: &Buffer) -> Result<(), EngineError> {
        if self.options.precision != Precision::Nvfp4 {
            return Ok(());
        }
        let mut bytes = [0; 32];
        self.stream.download(counters, &mut bytes)?;
        let mut counts = [0; 4];
        for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *count = u64::from_le_bytes(*bytes);
        }
        self.stream
            .note_quantized(crate::ops::nvfp4::QUANTIZE_NAME, counts);
        Ok(())
    }
}
