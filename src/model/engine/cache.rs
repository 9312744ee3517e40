//! Keys and values of the sequence so far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Bytes, OwnerId};
use crate::event::{OwnerKind, ReleaseCause, Stage};
use crate::model::LlamaConfig;
use crate::runtime::{Buffer, Claim, Owner, Runtime, RuntimeError, Stream};

/// Keys and values of each layer, `[context, kv_heads * head_dim]` f32.
pub(super) type Layers = Vec<(Buffer, Buffer)>;

/// The cache of one sequence. An owner that goes with the models.
pub(super) struct KvCache {
    runtime: Runtime,
    stream: Stream,
    owner: OwnerId,
    /// Shared with the model: they are ejected together.
    flagged: Arc<AtomicBool>,
    layers: Mutex<Option<Arc<Layers>>>,
}

impl KvCache {
    pub(super) fn open(runtime: &Runtime, stream: &Stream, flagged: Arc<AtomicBool>) -> Arc<KvCache> {
        runtime.own("model.kv_cache", OwnerKind::Cache, Stage::UnloadModels, |owner| {
            KvCache {
                runtime: runtime.clone(),
                stream: stream.clone(),
                owner,
                flagged,
                layers: Mutex::new(None),
            }
        })
    }

    /// The cache, allocated where it is not there.
    pub(super) fn take(&self, config: &LlamaConfig, context: usize) -> Result<Arc<Layers>, RuntimeError> {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layers) = layers.as_ref() {
            return Ok(Arc::clone(layers));
        }
        let bytes = Bytes((context * config.kv_heads * config.head_dim) as u64 * 4);
        let mut made = Vec::with_capacity(config.layers);
        for layer in 0..config.layers {
            let make = |what: &str| {
                let site = format!("layer {layer} {what}");
                self.runtime.allocate(&self.stream, self.owner, &site, bytes)
            };
            made.push((make("keys")?, make("values")?));
        }
        let made = Arc::new(made);
        *layers = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Owner for KvCache {
    fn clear(&self) -> Vec<Claim> {
        let taken = self.layers.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(layers) = taken.and_then(Arc::into_inner) else {
            return Vec::new();
        };
        let entries = layers.len() as u64;
        let buffers = layers.into_iter().flat_map(|(keys, values)| [keys, values]);
        vec![release_all(&self.runtime, &self.stream, entries, buffers)]
    }

    fn is_flagged(&self) -> bool {
        self.flagged.load(Ordering::Relaxed)
    }
}

/// Lets buffers go because their model is unloaded, and claims those that nobody else holds.
pub(super) fn release_all(
    runtime: &Runtime,
    stream: &Stream,
    entries: u64,
    buffers: impl Iterator<Item = Buffer>,
) -> Claim {
    let mut bytes = Bytes::ZERO;
    for buffer in buffers {
        if runtime.would_free(&buffer) {
            bytes += buffer.bytes();
        }
        buffer.release(ReleaseCause::Unloaded);
    }
    Claim {
        device: runtime.device_of(stream),
        entries,
        bytes,
    }
}
