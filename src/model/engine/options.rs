//! How a model runs.

use std::fmt;
use std::str::FromStr;

use crate::model::LlamaConfig;
use crate::model::engine::EngineError;
use crate::ops::host::convrot::RotationGroup;

/// How linear layers compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 weights and activations.
    F32,
    /// bf16 weights and activations, f32 sums.
    Bf16,
    /// INT8 weights and activations by rows, i32 sums.
    Int8,
    /// NVFP4 weights and activations.
    Nvfp4,
}

impl Precision {
    /// Its word on every surface.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Nvfp4 => "nvfp4",
        }
    }

    pub(super) fn is_quantized(self) -> bool {
        matches!(self, Precision::Int8 | Precision::Nvfp4)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        let all = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Nvfp4];
        let found = all.into_iter().find(|precision| precision.word() == text);
        found.ok_or_else(|| format!("precision `{text}` is none of f32, bf16, int8, nvfp4"))
    }
}

/// How a model runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How linear layers compute.
    pub precision: Precision,
    /// The rotation of quantized layers.
    pub convrot: Option<RotationGroup>,
    /// Whether steps are captured and replayed.
    pub graphs: bool,
    /// Positions in the context; by default what the model was made for, at most 2,048.
    pub context: Option<usize>,
}

impl EngineOptions {
    pub(super) fn check(&self, config: &LlamaConfig) -> Result<(), EngineError> {
        let Some(group) = self.convrot else {
            return Ok(());
        };
        if !self.precision.is_quantized() {
            return Err(EngineError::RotationWithoutQuantization(self.precision.word()));
        }
        let dimensions = [
            ("hidden size", config.hidden_size),
            ("attention width", config.heads * config.head_dim),
            ("intermediate size", config.intermediate_size),
        ];
        for (what, size) in dimensions {
            if !size.is_multiple_of(group.size()) {
                return Err(EngineError::RotationGroup {
                    group: group.size(),
                    what,
                    size,
                });
            }
        }
        Ok(())
    }
}
