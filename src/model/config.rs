//! `config.json` of a Llama-family model.
//!
//! Only what this program computes is accepted: what would change the arithmetic (scaled rotary positions,
//! biases, another activation, quantized weights) is refused by name and never ignored.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::model::LoadError;
use crate::model::error::clip;
use crate::model::files;

/// The longest `config.json` that is read.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

const MAX_EOS_IDS: usize = 16;

/// Sizes and constants of a Llama-family model.
///
/// Loading gives values within these limits: sizes are at least 1; `hidden_size` up to 65,536,
/// `intermediate_size` and `vocab_size` up to 2^20, `layers`, `heads` and `head_dim` up to 1,024,
/// `max_position_embeddings` up to 2^24.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LlamaConfig {
    /// Width of the residual stream; a multiple of `heads`.
    pub hidden_size: usize,
    /// Width inside the gated MLP.
    pub intermediate_size: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Values of a head; even. Not always `hidden_size / heads`.
    pub head_dim: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Added to the mean square in each norm; above 0, at most 1.
    pub rms_norm_eps: f32,
    /// Base of the rotary positions; 1 to 10^12.
    pub rope_theta: f64,
    /// The output matrix is the embedding.
    pub tie_word_embeddings: bool,
    /// The most positions that the model was made for.
    pub max_position_embeddings: usize,
    /// The token that begins a text, where there is one; below `vocab_size`.
    pub bos_token_id: Option<u32>,
    /// The tokens that end a text, at most 16, each below `vocab_size`. May be empty.
    pub eos_token_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Raw {
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    num_hidden_layers: Option<u64>,
    vocab_size: Option<u64>,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f64>,
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
    partial_rotary_factor: Option<f64>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: Option<u64>,
    bos_token_id: Option<u64>,
    eos_token_id: Option<OneOrMany>,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    quantization_config: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u64),
    Many(Vec<u64>),
}

impl LlamaConfig {
    /// Reads a `config.json` of at most [`MAX_CONFIG_BYTES`].
    ///
    /// # Errors
    /// The file can't be read or is too long, or see [`LlamaConfig::from_bytes`].
    pub fn open(path: &Path) -> Result<LlamaConfig, LoadError> {
        let bytes = files::read(path, MAX_CONFIG_BYTES)?;
        LlamaConfig::from_bytes(&path.display().to_string(), &bytes)
    }

    /// Takes the bytes of a `config.json`; `file` is the name for messages.
    ///
    /// # Errors
    /// The bytes are not JSON, describe another architecture, or hold a value outside its limits.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<LlamaConfig, LoadError> {
        files::check_len(file, bytes, MAX_CONFIG_BYTES)?;
        let raw: Raw = serde_json::from_slice(bytes).map_err(|source| LoadError::Json {
            file: file.to_owned(),
            source,
        })?;
        let check = Check { file };
        check.architecture(&raw)?;
        check.arithmetic(&raw)?;
        let config = check.sizes(&raw)?;
        check.relations(&config)?;
        Ok(config)
    }

    /// Name and shape of each tensor that the architecture needs, in the order of the computation.
    #[must_use]
    pub fn required_tensors(&self) -> Vec<(String, Vec<usize>)> {
        let hidden = self.hidden_size;
        let query = self.heads.saturating_mul(self.head_dim);
        let key = self.kv_heads.saturating_mul(self.head_dim);
        let mlp = self.intermediate_size;
        let mut tensors = vec![(
            "model.embed_tokens.weight".to_owned(),
            vec![self.vocab_size, hidden],
        )];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                tensors.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
            };
            add("input_layernorm", &[hidden]);
            add("self_attn.q_proj", &[query, hidden]);
            add("self_attn.k_proj", &[key, hidden]);
            add("self_attn.v_proj", &[key, hidden]);
            add("self_attn.o_proj", &[hidden, query]);
            add("post_attention_layernorm", &[hidden]);
            add("mlp.gate_proj", &[mlp, hidden]);
            add("mlp.up_proj", &[mlp, hidden]);
            add("mlp.down_proj", &[hidden, mlp]);
        }
        tensors.push(("model.norm.weight".to_owned(), vec![hidden]));
        if !self.tie_word_embeddings {
            tensors.push(("lm_head.weight".to_owned(), vec![self.vocab_size, hidden]));
        }
        tensors
    }
}

struct Check<'a> {
    file: &'a str,
}

impl Check<'_> {
    fn architecture(&self, raw: &Raw) -> Result<(), LoadError> {
        let architectures = self.present("architectures", raw.architectures.as_deref())?;
        if architectures != ["LlamaForCausalLM"] {
            let found = architectures.join(", ");
            return Err(self.unsupported("architectures", &found, "LlamaForCausalLM"));
        }
        let model_type = self.present("model_type", raw.model_type.as_deref())?;
        if model_type != "llama" {
            return Err(self.unsupported("model_type", model_type, "llama"));
        }
        Ok(())
    }

    fn arithmetic(&self, raw: &Raw) -> Result<(), LoadError> {
        if let Some(scaling) = &raw.rope_scaling {
            let kind = rope_type(scaling).unwrap_or("of unknown type");
            return Err(self.unsupported("rope_scaling", kind, "null"));
        }
        if let Some(rope) = &raw.rope_parameters {
            let kind = rope_type(rope).unwrap_or("of unknown type");
            let theta_is_number = rope.get("rope_theta").is_none_or(Value::is_number);
            if kind != "default" || !theta_is_number {
                return Err(self.unsupported(
                    "rope_parameters",
                    kind,
                    "the type default with a numeric rope_theta",
                ));
            }
        }
        if let Some(factor) = raw.partial_rotary_factor.filter(|&factor| factor != 1.0) {
            return Err(self.unsupported("partial_rotary_factor", &factor.to_string(), "1"));
        }
        if let Some(act) = raw.hidden_act.as_deref().filter(|&act| act != "silu") {
            return Err(self.unsupported("hidden_act", act, "silu"));
        }
        if raw.attention_bias == Some(true) {
            return Err(self.unsupported("attention_bias", "true", "false"));
        }
        if raw.mlp_bias == Some(true) {
            return Err(self.unsupported("mlp_bias", "true", "false"));
        }
        if let Some(quantization) = &raw.quantization_config {
            let method = quantization.get("quant_method").and_then(Value::as_str);
            let method = method.unwrap_or("of unknown method");
            return Err(self.unsupported("quantization_config", method, "null"));
        }
        Ok(())
    }

    fn sizes(&self, raw: &Raw) -> Result<LlamaConfig, LoadError> {
        let hidden_size = self.size("hidden_size", raw.hidden_size, 1 << 16)?;
        let heads = self.size("num_attention_heads", raw.num_attention_heads, 1 << 10)?;
        self.multiple(("hidden_size", hidden_size), ("num_attention_heads", heads))?;
        let vocab_size = self.size("vocab_size", raw.vocab_size, 1 << 20)?;
        let head_dim = raw.head_dim.unwrap_or((hidden_size / heads) as u64);
        let kv_heads = raw.num_key_value_heads.unwrap_or(heads as u64);
        let rms_norm_eps = self.present("rms_norm_eps", raw.rms_norm_eps)?;
        let nested = raw
            .rope_parameters
            .as_ref()
            .and_then(|rope| rope.get("rope_theta"));
        let rope_theta = raw
            .rope_theta
            .or(nested.and_then(Value::as_f64))
            .unwrap_or(10_000.0);
        let eos = match &raw.eos_token_id {
            None => &[],
            Some(OneOrMany::One(id)) => std::slice::from_ref(id),
            Some(OneOrMany::Many(ids)) => ids.as_slice(),
        };
        self.range(
            "number of eos_token_id",
            eos.len() as f64,
            0.0,
            MAX_EOS_IDS as f64,
        )?;
        let token = |field, id| self.token(field, id, vocab_size);
        Ok(LlamaConfig {
            hidden_size,
            intermediate_size: self.size("intermediate_size", raw.intermediate_size, 1 << 20)?,
            heads,
            kv_heads: self.size("num_key_value_heads", Some(kv_heads), 1 << 10)?,
            head_dim: self.size("head_dim", Some(head_dim), 1 << 10)?,
            layers: self.size("num_hidden_layers", raw.num_hidden_layers, 1 << 10)?,
            vocab_size,
            rms_norm_eps: self.range("rms_norm_eps", rms_norm_eps, 1e-12, 1.0)? as f32,
            rope_theta: self.range("rope_theta", rope_theta, 1.0, 1e12)?,
            tie_word_embeddings: raw.tie_word_embeddings.unwrap_or(false),
            max_position_embeddings: self.size(
                "max_position_embeddings",
                raw.max_position_embeddings,
                1 << 24,
            )?,
            bos_token_id: raw.bos_token_id.map(|id| token("bos_token_id", id)).transpose()?,
            eos_token_ids: eos
                .iter()
                .map(|&id| token("eos_token_id", id))
                .collect::<Result<_, _>>()?,
        })
    }

    fn relations(&self, config: &LlamaConfig) -> Result<(), LoadError> {
        let heads = ("num_attention_heads", config.heads);
        self.multiple(heads, ("num_key_value_heads", config.kv_heads))?;
        self.multiple(("head_dim", config.head_dim), ("the pair of rotary positions", 2))
    }

    fn present<T>(&self, field: &'static str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| LoadError::MissingField {
            file: self.file.to_owned(),
            field,
        })
    }

    fn size(&self, field: &'static str, value: Option<u64>, high: u32) -> Result<usize, LoadError> {
        let value = self.present(field, value)?;
        self.range(field, value as f64, 1.0, f64::from(high))?;
        Ok(value as usize)
    }

    fn token(&self, field: &'static str, id: u64, vocab_size: usize) -> Result<u32, LoadError> {
        self.range(field, id as f64, 0.0, (vocab_size - 1) as f64)?;
        Ok(id as u32)
    }

    fn range(&self, field: &'static str, value: f64, low: f64, high: f64) -> Result<f64, LoadError> {
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(LoadError::OutOfRange {
            file: self.file.to_owned(),
            field,
            value,
            low,
            high,
        })
    }

    fn multiple(
        &self,
        (field, value): (&'static str, usize),
        (by, divisor): (&'static str, usize),
    ) -> Result<(), LoadError> {
        if value.is_multiple_of(divisor) {
            return Ok(());
        }
        Err(LoadError::NotMultiple {
            file: self.file.to_owned(),
            field,
            value,
            by,
            divisor,
        })
    }

    fn unsupported(&self, field: &'static str, value: &str, supported: &'static str) -> LoadError {
        LoadError::Unsupported {
            file: self.file.to_owned(),
            field,
            value: clip(value),
            supported,
        }
    }
}

/// Older files say `type`, newer ones `rope_type`.
fn rope_type(rope: &Value) -> Option<&str> {
    rope.get("rope_type")
        .or_else(|| rope.get("type"))
        .and_then(Value::as_str)
}
