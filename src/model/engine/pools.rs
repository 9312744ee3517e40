//! The pools of a run, under the names of the tools they stand for.

use std::fmt;
use std::sync::Arc;

use crate::base::Bytes;
use crate::event::{OwnerKind, Stage};
use crate::model::LlamaConfig;
use crate::model::engine::{EngineOptions, Precision};
use crate::ops;
use crate::ops::host::convrot::RotationGroup;
use crate::runtime::{Entry, Pool, PoolConfig, Runtime, RuntimeError, Stream};

/// Bytes of a GEMM workspace, one a device and stream. cuBLAS takes 4 to 32 MiB; the host needs room for sums.
const WORKSPACE: Bytes = Bytes::kib(256);

/// Bytes of the tensor that stands for "no bias".
const EMPTY: Bytes = Bytes(16);

/// Parts of a scratch entry, by place.
pub(super) mod part {
    pub(crate) const IDS: usize = 0;
    pub(crate) const CURSOR: usize = 1;
    pub(crate) const NEXT: usize = 2;
    pub(crate) const X: usize = 3;
    pub(crate) const NORMED: usize = 4;
    pub(crate) const Q: usize = 5;
    pub(crate) const K: usize = 6;
    pub(crate) const V: usize = 7;
    pub(crate) const ATTENDED: usize = 8;
    pub(crate) const GATE: usize = 9;
    pub(crate) const UP: usize = 10;
    pub(crate) const DELTA: usize = 11;
    pub(crate) const SCORES: usize = 12;
    pub(crate) const LAST: usize = 13;
    pub(crate) const LOGITS: usize = 14;
    pub(crate) const TENSOR_SCALE: usize = 15;
    pub(crate) const MIXED: usize = 16;
}

/// What a pooled buffer is for: its shape, device and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    rows_pad: usize,
    cols_pad: usize,
    device: u32,
    stream: u32,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows_pad > 0 {
            write!(f, "rows_pad={} ", self.rows_pad)?;
        }
        if self.cols_pad > 0 {
            write!(f, "cols_pad={} ", self.cols_pad)?;
        }
        write!(f, "device={} stream={}", self.device, self.stream)
    }
}

/// The pools of a run.
pub(super) struct Pools {
    device: u32,
    stream: u32,
    precision: Precision,
    scratch: Arc<Pool<Key>>,
    quantized: Arc<Pool<Key>>,
    rotated: Arc<Pool<Key>>,
    hadamard: Arc<Pool<Key>>,
    workspaces: Arc<Pool<Key>>,
    empty: Arc<Pool<Key>>,
    counters: Arc<Pool<Key>>,
}

impl Pools {
    pub(super) fn open(runtime: &Runtime, stream: &Stream, options: &EngineOptions) -> Pools {
        let open = |name, kind, cleared_by, limit| {
            let config = PoolConfig {
                name,
                kind,
                cleared_by,
                limit,
            };
            Pool::open(runtime, stream, config)
        };
        let owned = Stage::OwnerCaches;
        let quantized = if options.precision == Precision::Int8 {
            "int8_runtime.act_q_pool"
        } else {
            "nvfp4_runtime.act_q_pool"
        };
        Pools {
            device: runtime.device_of(stream).0,
            stream: stream.id().0,
            precision: options.precision,
            scratch: open(
                "executor.output_cache",
                OwnerKind::Cache,
                Stage::ExecutorCaches,
                Bytes::mib(1024),
            ),
            quantized: open(quantized, OwnerKind::Pool, owned, Bytes::mib(256)),
            rotated: open(
                "nvfp4_runtime.rot_out_pool",
                OwnerKind::Pool,
                owned,
                Bytes::mib(256),
            ),
            hadamard: open("rotation.hadamard_cache", OwnerKind::Cache, owned, Bytes::mib(4)),
            workspaces: open(
                "gemm.cublas_workspaces",
                OwnerKind::Workspace,
                owned,
                Bytes::mib(64),
            ),
            empty: open("gemm.empty_tensors", OwnerKind::Cache, owned, Bytes::mib(1)),
            counters: open("nvfp4_runtime.counters", OwnerKind::Other, owned, Bytes::mib(1)),
        }
    }

    fn key(&self, rows_pad: usize, cols_pad: usize) -> Key {
        Key {
            rows_pad,
            cols_pad,
            device: self.device,
            stream: self.stream,
        }
    }

    /// Activations of one forward pass over `rows` padded rows; see [`part`].
    pub(super) fn scratch(
        &self,
        config: &LlamaConfig,
        rows: usize,
        context: usize,
    ) -> Result<Arc<Entry>, RuntimeError> {
        let f32s = |elements: usize| Bytes(elements as u64 * 4);
        let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let (hidden, mlp) = (config.hidden_size, config.intermediate_size);
        let parts = [
            ("ids", f32s(rows)),
            ("cursor", Bytes(ops::CURSOR_BYTES)),
            ("next", Bytes(4)),
            ("x", f32s(rows * hidden)),
            ("normed", f32s(rows * hidden)),
            ("q", f32s(rows * query)),
            ("k", f32s(rows * kv)),
            ("v", f32s(rows * kv)),
            ("attended", f32s(rows * query)),
            ("gate", f32s(rows * mlp)),
            ("up", f32s(rows * mlp)),
            ("delta", f32s(rows * hidden)),
            ("scores", f32s(context)),
            ("last", f32s(hidden)),
            ("logits", f32s(config.vocab_size)),
            ("tensor_scale", Bytes(4)),
            ("mixed", f32s(rows * mlp)),
        ];
        self.scratch.take(&self.key(rows, 0), &parts)
    }

    /// Codes and scales of quantized activations.
    pub(super) fn quantized(&self, rows: usize, cols: usize) -> Result<Arc<Entry>, RuntimeError> {
        let (codes, scales) = if self.precision == Precision::Int8 {
            ops::int8::sizes(rows, cols)
        } else {
            ops::nvfp4::sizes(rows, cols)
        };
        let key = self.key(rows, cols.next_multiple_of(16));
        self.quantized.take(&key, &[("qx", codes), ("scales", scales)])
    }

    /// Rotated activations.
    pub(super) fn rotated(&self, rows: usize, cols: usize) -> Result<Arc<Entry>, RuntimeError> {
        let bytes = Bytes((rows * cols) as u64 * 4);
        self.rotated.take(&self.key(rows, cols), &[("rotated", bytes)])
    }

    /// The Hadamard matrix of a group; filled by whoever took it.
    pub(super) fn hadamard(&self, group: RotationGroup) -> Result<Arc<Entry>, RuntimeError> {
        let bytes = Bytes((group.size() * group.size()) as u64 * 4);
        self.hadamard
            .take(&self.key(0, group.size()), &[("matrix", bytes)])
    }

    /// The GEMM workspace of the stream.
    pub(super) fn workspace(&self) -> Result<Arc<Entry>, RuntimeError> {
        self.workspaces.take(&self.key(0, 0), &[("workspace", WORKSPACE)])
    }

    /// The tensor that stands for "no bias".
    pub(super) fn no_bias(&self) -> Result<Arc<Entry>, RuntimeError> {
        self.empty.take(&self.key(0, 0), &[("empty", EMPTY)])
    }

    /// The quantizer's counters.
    pub(super) fn counters(&self) -> Result<Arc<Entry>, RuntimeError> {
        self.counters
            .take(&self.key(0, 0), &[("counters", Bytes(ops::nvfp4::COUNTER_BYTES))])
    }
}
