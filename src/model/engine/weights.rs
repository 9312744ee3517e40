//! Weights on the device: loaded from pinned copies, rotated and quantized there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Bytes, OwnerId};
use crate::event::{OwnerKind, Stage};
use crate::model::engine::cache::release_all;
use crate::model::engine::pools::Pools;
use crate::model::engine::sources::{self, Source};
use crate::model::engine::{EngineError, EngineOptions, Precision};
use crate::model::{LlamaConfig, LlamaModel};
use crate::ops::host::convrot::RotationGroup;
use crate::ops::llama::Dense;
use crate::ops::{int8, llama, nvfp4, rotate};
use crate::runtime::{Buffer, Claim, Entry, Owner, Runtime, Stream};

/// A linear layer's weight.
pub(super) enum Linear {
    Dense(Buffer, Dense),
    Int8 {
        codes: Buffer,
        scales: Buffer,
    },
    Nvfp4 {
        codes: Buffer,
        scales: Buffer,
        tensor_scale: Buffer,
    },
}

impl Linear {
    fn into_buffers(self) -> Vec<Buffer> {
        match self {
            Linear::Dense(weight, _) => vec![weight],
            Linear::Int8 { codes, scales } => vec![codes, scales],
            Linear::Nvfp4 {
                codes,
                scales,
                tensor_scale,
            } => vec![codes, scales, tensor_scale],
        }
    }
}

/// A decoder layer's weights.
pub(super) struct Layer {
    pub(super) input_norm: Buffer,
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) o: Linear,
    pub(super) post_norm: Buffer,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// All weights of a model on the device.
pub(super) struct Resident {
    pub(super) embedding: Buffer,
    pub(super) head: Option<Buffer>,
    /// How the embedding and the output matrix are stored.
    pub(super) dense: Dense,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Buffer,
}

impl Resident {
    fn into_buffers(self) -> Vec<Buffer> {
        let mut all = vec![self.embedding, self.norm];
        all.extend(self.head);
        for layer in self.layers {
            all.extend([layer.input_norm, layer.post_norm]);
            let linears = [
                layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down,
            ];
            all.extend(linears.into_iter().flat_map(Linear::into_buffers));
        }
        all
    }
}

/// The owner of a model's weights.
pub(super) struct Weights {
    runtime: Runtime,
    stream: Stream,
    owner: OwnerId,
    source_owner: OwnerId,
    resident: Mutex<Option<Arc<Resident>>>,
    sources: Mutex<BTreeMap<String, Source>>,
    flagged: Arc<AtomicBool>,
    /// Layers that were rotated or quantized on this device and are marked as done.
    applied: AtomicU64,
}

impl Weights {
    pub(super) fn open(runtime: &Runtime, stream: &Stream, flagged: Arc<AtomicBool>) -> Arc<Weights> {
        let source_owner = sources::own(runtime);
        runtime.own("model.weights", OwnerKind::Model, Stage::UnloadModels, |owner| {
            Weights {
                runtime: runtime.clone(),
                stream: stream.clone(),
                owner,
                source_owner,
                resident: Mutex::new(None),
                sources: Mutex::new(BTreeMap::new()),
                flagged,
                applied: AtomicU64::new(0),
            }
        })
    }

    pub(super) fn resident(&self) -> Option<Arc<Resident>> {
        self.resident
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn load(
        &self,
        model: &LlamaModel,
        options: &EngineOptions,
        pools: &Pools,
        progress: impl FnMut(usize, usize),
    ) -> Result<(), EngineError> {
        if self.resident().is_some() {
            return Ok(());
        }
        let rotation = match options.convrot {
            Some(group) => Some((group, self.hadamard(pools, group)?)),
            None => None,
        };
        let mut loader = Loader {
            weights: self,
            model,
            options,
            rotation,
            done: 0,
            total: model.config().required_tensors().len(),
            progress,
        };
        let resident = loader.all(model.config())?;
        // Staging memory is reused in stream order; the load is over when the stream is.
        self.stream.synchronize()?;
        *self.resident.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(resident));
        self.runtime.note_loaded(self.owner);
        Ok(())
    }

    /// The matrix of a group, from its cache, filled for this load.
    fn hadamard(&self, pools: &Pools, group: RotationGroup) -> Result<Arc<Entry>, EngineError> {
        let matrix = pools.hadamard(group)?;
        let bytes: Vec<u8> = rotate::hadamard(group)
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        self.stream.upload(matrix.part(0), &bytes)?;
        Ok(matrix)
    }
}

impl Owner for Weights {
    fn clear(&self) -> Vec<Claim> {
        let taken = self
            .resident
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(resident) = taken.and_then(Arc::into_inner) else {
            return Vec::new();
        };
        let buffers = resident.into_buffers();
        let entries = buffers.len() as u64;
        let claim = release_all(&self.runtime, &self.stream, entries, buffers.into_iter());
        self.runtime.note_unloaded(self.owner);
        vec![claim]
    }

    fn rearm(&self) -> u64 {
        if self.resident().is_some() {
            return 0;
        }
        self.applied.swap(0, Ordering::Relaxed)
    }

    fn is_flagged(&self) -> bool {
        self.flagged.load(Ordering::Relaxed)
    }
}

struct Loader<'a, P> {
    weights: &'a Weights,
    model: &'a LlamaModel,
    options: &'a EngineOptions,
    /// The rotation, and the matrix of its group on the device.
    rotation: Option<(RotationGroup, Arc<Entry>)>,
    done: usize,
    total: usize,
    progress: P,
}

impl<P: FnMut(usize, usize)> Loader<'_, P> {
    fn all(&mut self, config: &LlamaConfig) -> Result<Resident, EngineError> {
        let dense = if self.options.precision == Precision::F32 {
            Dense::F32
        } else {
            Dense::Bf16
        };
        let (hidden, mlp) = (config.hidden_size, config.intermediate_size);
        let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let embedding = self.dense("model.embed_tokens.weight", dense)?;
        let mut layers = Vec::with_capacity(config.layers);
        for layer in 0..config.layers {
            let name = |what: &str| format!("model.layers.{layer}.{what}.weight");
            layers.push(Layer {
                input_norm: self.dense(&name("input_layernorm"), Dense::F32)?,
                q: self.linear(&name("self_attn.q_proj"), (query, hidden))?,
                k: self.linear(&name("self_attn.k_proj"), (kv, hidden))?,
                v: self.linear(&name("self_attn.v_proj"), (kv, hidden))?,
                o: self.linear(&name("self_attn.o_proj"), (hidden, query))?,
                post_norm: self.dense(&name("post_attention_layernorm"), Dense::F32)?,
                gate: self.linear(&name("mlp.gate_proj"), (mlp, hidden))?,
                up: self.linear(&name("mlp.up_proj"), (mlp, hidden))?,
                down: self.linear(&name("mlp.down_proj"), (hidden, mlp))?,
            });
        }
        let norm = self.dense("model.norm.weight", Dense::F32)?;
        let head = if config.tie_word_embeddings {
            None
        } else {
            Some(self.dense("lm_head.weight", dense)?)
        };
        Ok(Resident {
            embedding,
            head,
            dense,
            layers,
            norm,
        })
    }

    fn step(&mut self) {
        self.done += 1;
        (self.progress)(self.done, self.total);
    }

    fn buffer(&self, site: &str, bytes: Bytes) -> Result<Buffer, EngineError> {
        let weights = self.weights;
        Ok(weights
            .runtime
            .allocate(&weights.stream, weights.owner, site, bytes)?)
    }

    /// Runs `work` on the pinned copy, which is made first where it is not there.
    fn with_source<T>(
        &self,
        name: &str,
        wanted: Dense,
        work: impl FnOnce(&Source) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let weights = self.weights;
        let mut sources = weights.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = sources.get(name) {
            return work(source);
        }
        let source = sources::pin(
            (&weights.runtime, &weights.stream),
            (weights.owner, weights.source_owner),
            self.model.weights(),
            name,
            wanted,
        )?;
        work(sources.entry(name.to_owned()).or_insert(source))
    }

    /// A tensor as `wanted` on the device.
    fn dense(&mut self, name: &str, wanted: Dense) -> Result<Buffer, EngineError> {
        let stream = &self.weights.stream;
        let loaded = self.with_source(name, wanted, |source| {
            let target = self.buffer(name, Bytes(wanted.bytes(source.elements)))?;
            if source.dense == wanted {
                stream.copy(&target, &source.copy, source.copy.bytes())?;
            } else {
                let staging = self.buffer("staging", source.copy.bytes())?;
                stream.copy(&staging, &source.copy, source.copy.bytes())?;
                llama::widen_bf16(stream, &staging, &target, source.elements)?;
            }
            Ok(target)
        })?;
        self.step();
        Ok(loaded)
    }

    fn linear(&mut self, name: &str, (outputs, inputs): (usize, usize)) -> Result<Linear, EngineError> {
        let dense = match self.options.precision {
            Precision::F32 => return Ok(Linear::Dense(self.dense(name, Dense::F32)?, Dense::F32)),
            Precision::Bf16 => return Ok(Linear::Dense(self.dense(name, Dense::Bf16)?, Dense::Bf16)),
            Precision::Int8 | Precision::Nvfp4 => self.dense(name, Dense::F32)?,
        };
        let wide = self.rotated(dense, outputs * inputs)?;
        let stream = &self.weights.stream;
        let shape = (outputs, inputs);
        let part = |what: &str, bytes| self.buffer(&format!("{name} {what}"), bytes);
        let linear = if self.options.precision == Precision::Int8 {
            let (codes, scales) = int8::sizes(outputs, inputs);
            let (codes, scales) = (part("codes", codes)?, part("scales", scales)?);
            let target = int8::Quantized {
                codes: &codes,
                scales: &scales,
            };
            int8::quantize_weight(stream, &wide, shape, target)?;
            Linear::Int8 { codes, scales }
        } else {
            let (codes, scales) = nvfp4::sizes(outputs, inputs);
            let (codes, scales) = (part("codes", codes)?, part("scales", scales)?);
            let tensor_scale = part("tensor_scale", Bytes(4))?;
            let target = nvfp4::Quantized {
                codes: &codes,
                scales: &scales,
                tensor_scale: &tensor_scale,
            };
            nvfp4::quantize_weight(stream, &wide, shape, target)?;
            Linear::Nvfp4 {
                codes,
                scales,
                tensor_scale,
            }
        };
        self.weights.applied.fetch_add(1, Ordering::Relaxed);
        Ok(linear)
    }

    /// The weight, rotated where the options say so.
    fn rotated(&self, weight: Buffer, elements: usize) -> Result<Buffer, EngineError> {
        let Some((group, matrix)) = &self.rotation else {
            return Ok(weight);
        };
        let stream = &self.weights.stream;
        let rotated = self.buffer("rotated", weight.bytes())?;
        rotate::rotate_weight(stream, (&weight, elements), (matrix.part(0), *group), &rotated)?;
        Ok(rotated)
    }
}
