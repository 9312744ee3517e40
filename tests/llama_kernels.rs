//! The bundled model, run with the host kernels alone, gives the reference's logits and tokens.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like a test")]

use serde_json::Value;
use vramscope::model::{LlamaConfig, bundled};
use vramscope::ops::host::attention::{append_kv, attention};
use vramscope::ops::host::elementwise::{add_in_place, silu_mul};
use vramscope::ops::host::embedding::embed_f32;
use vramscope::ops::host::formats::bf16_narrow;
use vramscope::ops::host::int8;
use vramscope::ops::host::linear::{linear_bf16, linear_f32};
use vramscope::ops::host::logits::argmax;
use vramscope::ops::host::norm::rms_norm;
use vramscope::ops::host::nvfp4::{self, Layout, Operand, TensorScale};
use vramscope::ops::host::rope::rope;
use vramscope::ops::host::shape::{HeadShape, LinearShape, Positions};

fn golden() -> Value {
    serde_json::from_str(include_str!("data/golden/tiny-llama.json")).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// How the weights of the linear layers are held. Embedding, norms and the output matrix stay f32.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    F32,
    Bf16,
    Int8,
    Nvfp4,
}

/// A linear layer `[outputs, inputs]`.
struct Linear {
    inputs: usize,
    outputs: usize,
    weight: Weight,
}

enum Weight {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    Int8 { codes: Vec<i8>, scales: Vec<f32> },
    Nvfp4(Nvfp4),
}

/// Buffers of an NVFP4 matrix.
struct Nvfp4 {
    layout: Layout,
    codes: Vec<u8>,
    scales: Vec<u8>,
    tensor_scale: [f32; 1],
}

impl Nvfp4 {
    fn new(x: &[f32], cols: usize) -> Nvfp4 {
        let layout = Layout::exact(x.len() / cols, cols);
        let mut codes = vec![0; layout.codes_bytes()];
        let mut scales = vec![0; layout.scales_bytes()];
        let (mut cell, from) = ([f32::NAN], TensorScale::Measured);
        nvfp4::quantize(x, layout, from, &mut codes, &mut scales, &mut cell).unwrap();
        Nvfp4 {
            layout,
            codes,
            scales,
            tensor_scale: cell,
        }
    }

    fn operand(&self) -> Operand<'_> {
        Operand::new(self.layout, &self.codes, &self.scales, self.tensor_scale[0]).unwrap()
    }
}

impl Linear {
    fn new(weight: Vec<f32>, inputs: usize, format: Format) -> Linear {
        let outputs = weight.len() / inputs;
        let weight = match format {
            Format::F32 => Weight::F32(weight),
            Format::Bf16 => Weight::Bf16(weight.iter().map(|v| bf16_narrow(*v)).collect()),
            Format::Int8 => {
                let (mut codes, mut scales) = (vec![0; weight.len()], vec![0.0; outputs]);
                int8::quantize_rowwise(&weight, inputs, &mut codes, &mut scales).unwrap();
                Weight::Int8 { codes, scales }
            }
            Format::Nvfp4 => Weight::Nvfp4(Nvfp4::new(&weight, inputs)),
        };
        Linear {
            inputs,
            outputs,
            weight,
        }
    }

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let shape = LinearShape {
            rows: x.len() / self.inputs,
            inputs: self.inputs,
            outputs: self.outputs,
        };
        let mut out = vec![f32::NAN; shape.rows * shape.outputs];
        match &self.weight {
            Weight::F32(w) => linear_f32(x, w, shape, &mut out).unwrap(),
            Weight::Bf16(w) => linear_bf16(x, w, shape, &mut out).unwrap(),
            Weight::Int8 { codes, scales } => {
                let mut row = vec![0; self.inputs];
                int8::linear(x, codes, scales, None, shape, &mut row, &mut out).unwrap();
            }
            Weight::Nvfp4(w) => {
                let x = Nvfp4::new(x, self.inputs);
                nvfp4::gemm(&x.operand(), &w.operand(), None, &mut out).unwrap();
            }
        }
        out
    }
}

struct Layer {
    norms: [Vec<f32>; 2],
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    gate: Linear,
    up: Linear,
    down: Linear,
    k_cache: Vec<f32>,
    v_cache: Vec<f32>,
}

/// A decoder and the keys and values of one sequence.
struct Decoder {
    config: LlamaConfig,
    embedding: Linear,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    seen: usize,
}

impl Decoder {
    fn new(format: Format) -> Decoder {
        let model = bundled::load().unwrap();
        let config = model.config().clone();
        let tensor = |name: &str| {
            let name = format!("{name}.weight");
            let mut values = vec![0.0; model.weights().tensor(&name).unwrap().elements()];
            model.weights().widen(&name, &mut values).unwrap();
            values
        };
        let heads = heads(&config);
        let layer = |i: usize| {
            let get = |name: &str| tensor(&format!("model.layers.{i}.{name}"));
            let linear = |name: &str, inputs: usize| Linear::new(get(name), inputs, format);
            let cache = vec![f32::NAN; config.max_position_embeddings * heads.kv_width()];
            Layer {
                norms: ["input_layernorm", "post_attention_layernorm"].map(get),
                q: linear("self_attn.q_proj", config.hidden_size),
                k: linear("self_attn.k_proj", config.hidden_size),
                v: linear("self_attn.v_proj", config.hidden_size),
                o: linear("self_attn.o_proj", heads.query_width()),
                gate: linear("mlp.gate_proj", config.hidden_size),
                up: linear("mlp.up_proj", config.hidden_size),
                down: linear("mlp.down_proj", config.intermediate_size),
                k_cache: cache.clone(),
                v_cache: cache,
            }
        };
        Decoder {
            embedding: Linear::new(tensor("model.embed_tokens"), config.hidden_size, Format::F32),
            layers: (0..config.layers).map(layer).collect(),
            norm: tensor("model.norm"),
            seen: 0,
            config,
        }
    }

    /// Logits `[ids, vocab]` of the tokens that follow those seen before.
    fn forward(&mut self, ids: &[u32]) -> Vec<f32> {
        let Weight::F32(table) = &self.embedding.weight else {
            unreachable!("the embedding is f32")
        };
        let (config, heads) = (&self.config, heads(&self.config));
        let positions = Positions {
            first: self.seen,
            count: ids.len(),
        };
        let mut x = vec![0.0; ids.len() * config.hidden_size];
        let mut normed = x.clone();
        let mut scratch = vec![0.0; positions.end()];
        embed_f32(table, config.hidden_size, ids, &mut x).unwrap();
        for layer in &mut self.layers {
            rms_norm(&x, &layer.norms[0], config.rms_norm_eps, &mut normed).unwrap();
            let (mut q, mut k, v) = (
                layer.q.apply(&normed),
                layer.k.apply(&normed),
                layer.v.apply(&normed),
            );
            rope(&mut q, &mut k, heads, positions, config.rope_theta).unwrap();
            let (k_cache, v_cache) = (&mut layer.k_cache, &mut layer.v_cache);
            append_kv(&k, &v, heads.kv_width(), positions, k_cache, v_cache).unwrap();
            let mut mixed = vec![f32::NAN; q.len()];
            attention(&q, k_cache, v_cache, heads, positions, &mut scratch, &mut mixed).unwrap();
            add_in_place(&mut x, &layer.o.apply(&mixed)).unwrap();

            rms_norm(&x, &layer.norms[1], config.rms_norm_eps, &mut normed).unwrap();
            let (gate, up) = (layer.gate.apply(&normed), layer.up.apply(&normed));
            let mut gated = vec![f32::NAN; gate.len()];
            silu_mul(&gate, &up, &mut gated).unwrap();
            add_in_place(&mut x, &layer.down.apply(&gated)).unwrap();
        }
        rms_norm(&x, &self.norm, config.rms_norm_eps, &mut normed).unwrap();
        self.seen = positions.end();
        self.embedding.apply(&normed)
    }

    fn choose(&self, logits: &[f32]) -> u32 {
        let mut token = [0];
        argmax(logits, self.config.vocab_size, &mut token).unwrap();
        token[0]
    }
}

fn heads(config: &LlamaConfig) -> HeadShape {
    HeadShape {
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
    }
}

/// Mean cross-entropy in nats of each token given those before it; `logits [tokens, vocab]`.
fn mean_nll(logits: &[f32], tokens: &[u32], vocab: usize) -> f64 {
    let nll = logits.chunks(vocab).zip(&tokens[1..]).map(|(row, next)| {
        let largest = row.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
        let sum: f64 = row.iter().map(|v| f64::from(v - largest).exp()).sum();
        sum.ln() - f64::from(row[*next as usize] - largest)
    });
    nll.sum::<f64>() / (tokens.len() - 1) as f64
}

fn passage_nll(format: Format) -> f64 {
    let tokens = ids(&golden()["passage"]["token_ids"]);
    let mut decoder = Decoder::new(format);
    let logits = decoder.forward(&tokens);
    mean_nll(&logits, &tokens, decoder.config.vocab_size)
}

#[track_caller]
fn near(found: f64, expected: &Value, tolerance: f64) {
    let expected = expected.as_f64().unwrap();
    assert!(
        (found - expected).abs() <= tolerance,
        "{found}, not {expected} +- {tolerance}"
    );
}

#[test]
fn first_logits_are_the_references() {
    for prompt in golden()["prompts"].as_array().unwrap() {
        let mut decoder = Decoder::new(Format::F32);
        let logits = decoder.forward(&ids(&prompt["token_ids"]));
        let last = &logits[logits.len() - decoder.config.vocab_size..];
        let expected = &prompt["base"]["first_step"];
        for (found, expected) in last.iter().zip(expected["logits_0_to_15"].as_array().unwrap()) {
            near(f64::from(*found), expected, 1e-4);
        }
        for (id, expected) in ids(&expected["top5_ids"])
            .iter()
            .zip(expected["top5_logits"].as_array().unwrap())
        {
            near(f64::from(last[*id as usize]), expected, 1e-4);
        }
        let sum: f64 = last.iter().map(|v| f64::from(*v)).sum();
        near(sum, &expected["logits_sum"], 0.05);
        let sum: f64 = last.iter().map(|v| f64::from(v.abs())).sum();
        near(sum / last.len() as f64, &expected["logits_mean_abs"], 1e-4);
        assert_eq!(
            u64::from(decoder.choose(&logits)),
            expected["argmax"].as_u64().unwrap()
        );
    }
}

#[test]
fn greedy_tokens_are_the_references() {
    for prompt in golden()["prompts"].as_array().unwrap() {
        let mut decoder = Decoder::new(Format::F32);
        let expected = ids(&prompt["base"]["greedy_ids"]);
        let mut logits = decoder.forward(&ids(&prompt["token_ids"]));
        let mut found = vec![decoder.choose(&logits)];
        while found.len() < expected.len() {
            logits = decoder.forward(&found[found.len() - 1..]);
            found.push(decoder.choose(&logits));
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn prefill_and_decode_give_the_same_bits() {
    let tokens = ids(&golden()["prompts"][0]["token_ids"]);
    let whole = Decoder::new(Format::F32).forward(&tokens);
    let mut decoder = Decoder::new(Format::F32);
    let mut parts = decoder.forward(&tokens[..4]);
    for token in &tokens[4..] {
        parts.extend(decoder.forward(&[*token]));
    }
    let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&whole), bits(&parts));
}

#[test]
fn passage_is_as_likely_as_in_the_reference() {
    let golden = golden();
    let expected = &golden["passage"]["base_mean_nll_nats"];
    near(passage_nll(Format::F32), expected, 1e-4);
}

#[test]
fn narrow_formats_cost_little_likelihood() {
    let golden = golden();
    let reference = golden["passage"]["base_mean_nll_nats"].as_f64().unwrap();
    // Measured: bf16 -0.0001 (the weights are bf16 already, only activations are rounded), int8 -0.0011,
    // nvfp4 +0.0454 nats.
    for (format, band) in [
        (Format::Bf16, -0.001..0.001),
        (Format::Int8, -0.005..0.005),
        (Format::Nvfp4, 0.02..0.07),
    ] {
        let cost = passage_nll(format) - reference;
        assert!(band.contains(&cost), "{format:?} costs {cost} nats");
    }
}

#[test]
fn narrow_formats_decode_with_a_cache() {
    let tokens = &ids(&golden()["passage"]["token_ids"])[..48];
    for format in [Format::Bf16, Format::Int8, Format::Nvfp4] {
        let (mut whole, mut steps) = (Decoder::new(format), Decoder::new(format));
        let vocab = whole.config.vocab_size;
        let expected = whole.forward(tokens);
        let found: Vec<f32> = tokens.iter().flat_map(|t| steps.forward(&[*t])).collect();
        let [a, b] = [&expected, &found].map(|logits| mean_nll(logits, tokens, vocab));
        // Rows of bf16 and int8 do not depend on each other. NVFP4 activations share one tensor scale a call.
        let exact = format != Format::Nvfp4;
        assert!(
            if exact { a == b } else { (a - b).abs() < 0.1 },
            "{format:?} {a} {b}"
        );
    }
}
