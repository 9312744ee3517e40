//! One forward pass, launch by launch.

use crate::model::LlamaConfig;
use crate::model::engine::EngineOptions;
use crate::model::engine::cache::Layers;
use crate::model::engine::pools::{Pools, part};
use crate::model::engine::weights::{Layer, Linear, Resident};
use crate::ops::host::shape::HeadShape;
use crate::ops::llama::{self, Batch, Rows};
use crate::ops::{int8, linear, nvfp4, rotate};
use crate::runtime::{Entry, RuntimeError, Stream, layer_span};

/// What a forward pass works on.
pub(super) struct Pass<'a> {
    pub(super) stream: &'a Stream,
    pub(super) config: &'a LlamaConfig,
    pub(super) options: &'a EngineOptions,
    pub(super) pools: &'a Pools,
    pub(super) resident: &'a Resident,
    pub(super) caches: &'a Layers,
    pub(super) scratch: &'a Entry,
    pub(super) batch: Batch<'a>,
}

impl<'a> Pass<'a> {
    /// From token ids in scratch to the next token in scratch.
    pub(super) fn run(&self) -> Result<(), RuntimeError> {
        let (stream, config, resident) = (self.stream, self.config, self.resident);
        let x = self.rows(part::X, config.hidden_size);
        let ids = self.scratch.part(part::IDS);
        llama::embed(stream, self.batch, (&resident.embedding, resident.dense), ids, x)?;
        for (index, layer) in resident.layers.iter().enumerate() {
            let span = layer_span(index);
            let _entered = span.enter();
            self.attend(index, layer, x)?;
            self.mix(layer, x)?;
        }
        let last = self.rows(part::LAST, config.hidden_size);
        let norm = (&resident.norm, config.rms_norm_eps);
        llama::rms_norm_last(stream, self.batch, x, norm, last)?;
        let logits = self.rows(part::LOGITS, config.vocab_size);
        let head = resident.head.as_ref().unwrap_or(&resident.embedding);
        let one = Batch {
            padded: 1,
            ..self.batch
        };
        linear::dense(stream, one, last, (head, resident.dense), logits)?;
        llama::argmax(stream, logits, self.scratch.part(part::NEXT))
    }

    fn rows(&self, part: usize, width: usize) -> Rows<'a> {
        Rows {
            buffer: self.scratch.part(part),
            width,
        }
    }

    /// `x += attention(norm(x))`.
    fn attend(&self, index: usize, layer: &Layer, x: Rows<'_>) -> Result<(), RuntimeError> {
        let (stream, batch, config) = (self.stream, self.batch, self.config);
        let shape = HeadShape {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
        };
        let normed = self.rows(part::NORMED, config.hidden_size);
        let q = self.rows(part::Q, shape.query_width());
        let k = self.rows(part::K, shape.kv_width());
        let v = self.rows(part::V, shape.kv_width());
        let attended = self.rows(part::ATTENDED, shape.query_width());
        let delta = self.rows(part::DELTA, config.hidden_size);
        llama::rms_norm(stream, batch, x, (&layer.input_norm, config.rms_norm_eps), normed)?;
        self.linears(normed, &[(&layer.q, q), (&layer.k, k), (&layer.v, v)])?;
        llama::rope(stream, batch, (q.buffer, k.buffer), shape, config.rope_theta)?;
        let caches = (&self.caches[index].0, &self.caches[index].1);
        llama::append_kv(stream, batch, (k, v), caches)?;
        let scores = self.scratch.part(part::SCORES);
        llama::attention(stream, batch, q.buffer, caches, shape, (scores, attended.buffer))?;
        self.linears(attended, &[(&layer.o, delta)])?;
        llama::add(stream, batch, x, delta)
    }

    /// `x += down(silu(gate(norm(x))) * up(norm(x)))`.
    fn mix(&self, layer: &Layer, x: Rows<'_>) -> Result<(), RuntimeError> {
        let (stream, batch, config) = (self.stream, self.batch, self.config);
        let normed = self.rows(part::NORMED, config.hidden_size);
        let gate = self.rows(part::GATE, config.intermediate_size);
        let up = self.rows(part::UP, config.intermediate_size);
        let delta = self.rows(part::DELTA, config.hidden_size);
        llama::rms_norm(stream, batch, x, (&layer.post_norm, config.rms_norm_eps), normed)?;
        self.linears(normed, &[(&layer.gate, gate), (&layer.up, up)])?;
        let mixed = self.rows(part::MIXED, config.intermediate_size);
        llama::silu_mul(stream, batch, (gate, up), mixed)?;
        self.linears(mixed, &[(&layer.down, delta)])?;
        llama::add(stream, batch, x, delta)
    }

    /// Products of one input with several weights; the input is rotated and quantized once.
    fn linears(&self, x: Rows<'_>, products: &[(&Linear, Rows<'_>)]) -> Result<(), RuntimeError> {
        let (stream, batch) = (self.stream, self.batch);
        if let Some((Linear::Dense(..), _)) = products.first() {
            for (weight, out) in products {
                if let Linear::Dense(weight, dense) = weight {
                    linear::dense(stream, batch, x, (weight, *dense), *out)?;
                }
            }
            return Ok(());
        }
        let rotated = match self.options.convrot {
            Some(group) => {
                let entry = self.pools.rotated(batch.padded, x.width)?;
                rotate::rotate(stream, batch, x, group, entry.part(0))?;
                Some(entry)
            }
            None => None,
        };
        let input = Rows {
            buffer: rotated.as_ref().map_or(x.buffer, |entry| entry.part(0)),
            width: x.width,
        };
        self.quantized(input, products)
    }

    fn quantized(&self, x: Rows<'_>, products: &[(&Linear, Rows<'_>)]) -> Result<(), RuntimeError> {
        let (stream, batch) = (self.stream, self.batch);
        let entry = self.pools.quantized(batch.padded, x.width)?;
        let (workspace, no_bias) = (self.pools.workspace()?, self.pools.no_bias()?);
        let scratch = nvfp4::Scratch {
            no_bias: no_bias.part(0),
            workspace: workspace.part(0),
        };
        let as_int8 = int8::Quantized {
            codes: entry.part(0),
            scales: entry.part(1),
        };
        let as_nvfp4 = nvfp4::Quantized {
            codes: entry.part(0),
            scales: entry.part(1),
            tensor_scale: self.scratch.part(part::TENSOR_SCALE),
        };
        match products.first() {
            Some((Linear::Nvfp4 { .. }, _)) => {
                let counters = self.pools.counters()?;
                nvfp4::quantize(stream, batch, x, as_nvfp4, counters.part(0))?;
            }
            _ => int8::quantize(stream, batch, x, as_int8)?,
        }
        for (weight, out) in products {
            match weight {
                Linear::Int8 { codes, scales } => {
                    let weight = int8::Quantized { codes, scales };
                    int8::gemm(stream, batch, (as_int8, x.width), weight, scratch, *out)?;
                }
                Linear::Nvfp4 {
                    codes,
                    scales,
                    tensor_scale,
                } => {
                    let weight = nvfp4::Quantized {
                        codes,
                        scales,
                        tensor_scale,
                    };
                    nvfp4::gemm(stream, batch, (as_nvfp4, x.width), weight, scratch, *out)?;
                }
                // All products of one input have one format.
                Linear::Dense(weight, dense) => linear::dense(stream, batch, x, (weight, *dense), *out)?,
            }
        }
        Ok(())
    }
}
