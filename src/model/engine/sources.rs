//! Pinned host copies of the weights: what a model is loaded from again after a purge.

use crate::base::{Bytes, OwnerId};
use crate::event::{OwnerKind, Stage};
use crate::model::engine::EngineError;
use crate::model::{LlamaWeights, StoredDtype};
use crate::ops::llama::Dense;
use crate::runtime::{Buffer, Runtime, Stream};

/// A pinned copy of one tensor.
pub(super) struct Source {
    pub(super) copy: Buffer,
    pub(super) dense: Dense,
    pub(super) elements: usize,
}

/// The owner of all pinned copies. No purge destroys them.
pub(super) fn own(runtime: &Runtime) -> OwnerId {
    runtime.own_passively("model.reload_source", OwnerKind::Pins, Stage::UnregisterPins)
}

/// Copies a tensor to pinned memory as `wanted`; bf16 tensors stay as they are and are widened on the device.
pub(super) fn pin(
    (runtime, stream): (&Runtime, &Stream),
    (model, owner): (OwnerId, OwnerId),
    weights: &LlamaWeights,
    name: &str,
    wanted: Dense,
) -> Result<Source, EngineError> {
    let view = weights.tensor(name)?;
    let elements = view.elements();
    let (dense, bytes) = if view.dtype == StoredDtype::Bf16 {
        (Dense::Bf16, view.bytes.to_vec())
    } else {
        let mut wide = vec![0f32; elements];
        weights.widen(name, &mut wide)?;
        let bytes = match wanted {
            Dense::F32 => wide.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Dense::Bf16 => {
                let bits = wide.iter().map(|value| half::bf16::from_f32(*value));
                bits.flat_map(half::bf16::to_le_bytes).collect()
            }
        };
        (wanted, bytes)
    };
    let copy = runtime.allocate_pinned(stream, owner, name, Bytes(bytes.len() as u64))?;
    stream.upload(&copy, &bytes)?;
    runtime.keep_reload_source(model, name, &copy);
    Ok(Source {
        copy,
        dense,
        elements,
    })
}
