//! Tensors from safetensors files, checked against the configuration.
//!
//! Files are read into memory, not mapped: a mapped file that another program cuts short ends this one, and
//! reading needs no `unsafe`. All shards of a model together are bounded by [`MAX_WEIGHTS_BYTES`]. The length
//! that a file claims for its header is checked against [`MAX_HEADER_BYTES`] and against the length of the
//! file before memory for either is asked for.
//!
//! Tensors that the architecture does not need are counted and otherwise left alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use safetensors::Dtype;
use safetensors::SafeTensorError;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;

use crate::model::LlamaConfig;
use crate::model::LoadError;
use crate::model::error::clip;
use crate::model::files;
use crate::model::files::Bounded;

/// The longest safetensors header that is read. That of a model of 1,000 layers has about 1 MB.
pub const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The most bytes of weights that are read, all shards together.
pub const MAX_WEIGHTS_BYTES: u64 = 64 << 30;

/// The longest `model.safetensors.index.json` that is read.
pub const MAX_INDEX_BYTES: u64 = 16 << 20;

/// The most shards that an index may name.
pub const MAX_SHARDS: usize = 1024;

/// The bytes in front of the header, which hold its length.
const PREFIX: usize = 8;
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoredDtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
}

/// One tensor as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// How its elements are stored.
    pub dtype: StoredDtype,
    /// Rows first.
    pub shape: &'a [usize],
    /// Little-endian elements, row after row. May start at any address.
    pub bytes: &'a [u8],
}

/// The tensors of a Llama-family model: all that the architecture needs, each with the right shape.
pub struct LlamaWeights {
    shards: Vec<Cow<'static, [u8]>>,
    tensors: BTreeMap<String, Stored>,
    ignored: usize,
}

struct Stored {
    shard: usize,
    dtype: StoredDtype,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// A file whose header was read and whose offsets were checked.
struct Shard {
    file: String,
    bytes: Cow<'static, [u8]>,
    metadata: Metadata,
    data_start: usize,
}

#[derive(Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
}

impl fmt::Debug for LlamaWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaWeights")
            .field("shards", &self.shards.len())
            .field("tensors", &self.tensors.len())
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}

impl LlamaWeights {
    /// Reads a `.safetensors` file, an index `.json` with the shards beside it, or a folder that holds
    /// `model.safetensors` or `model.safetensors.index.json` (the single file is preferred).
    ///
    /// # Errors
    /// A file can't be read, is too long or damaged, or a tensor that `config` needs is missing or odd.
    pub fn open(config: &LlamaConfig, path: &Path) -> Result<LlamaWeights, LoadError> {
        if path.is_dir() {
            let index = path.join(INDEX);
            let single = path.join(SINGLE);
            let sharded = !single.exists() && index.exists();
            return LlamaWeights::open(config, if sharded { &index } else { &single });
        }
        if path.extension().is_some_and(|extension| extension == "json") {
            return open_sharded(config, path);
        }
        let shard = Shard::open(path, MAX_WEIGHTS_BYTES)?;
        LlamaWeights::from_shards(config, vec![shard], None)
    }

    /// Takes the bytes of one safetensors file; `file` is the name for messages. Static bytes are not copied.
    ///
    /// # Errors
    /// The bytes are damaged, or a tensor that `config` needs is missing or odd.
    pub fn from_bytes(
        config: &LlamaConfig,
        file: &str,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<LlamaWeights, LoadError> {
        let bytes = bytes.into();
        files::check_len(file, &bytes, MAX_WEIGHTS_BYTES)?;
        let shard = Shard::parse(file.to_owned(), bytes)?;
        LlamaWeights::from_shards(config, vec![shard], None)
    }

    fn from_shards(
        config: &LlamaConfig,
        shards: Vec<Shard>,
        places: Option<&BTreeMap<String, usize>>,
    ) -> Result<LlamaWeights, LoadError> {
        let mut tensors = BTreeMap::new();
        for (name, shape) in config.required_tensors() {
            let place = places
                .map_or(Some(0), |places| places.get(&name).copied())
                .unwrap_or(0);
            let stored = shards[place].find(place, &name, &shape)?;
            tensors.insert(name, stored);
        }
        let found: usize = shards.iter().map(|shard| shard.metadata.tensors().len()).sum();
        Ok(LlamaWeights {
            ignored: found.saturating_sub(tensors.len()),
            shards: shards.into_iter().map(|shard| shard.bytes).collect(),
            tensors,
        })
    }

    /// The number of tensors; does not include ignored ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Never: every model has an embedding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The number of tensors in the opened files that the architecture does not need.
    #[must_use]
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor as it is stored.
    ///
    /// # Errors
    /// [`LoadError::MissingTensor`] where the architecture has no tensor of that name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, LoadError> {
        let stored = self.tensors.get(name).ok_or_else(|| LoadError::MissingTensor {
            file: "the model".to_owned(),
            tensor: clip(name),
        })?;
        Ok(TensorView {
            dtype: stored.dtype,
            shape: &stored.shape,
            bytes: &self.shards[stored.shard][stored.range.clone()],
        })
    }

    /// Writes a tensor, widened to `f32`, to `out`, which must have one place for each element.
    /// Widening is exact.
    ///
    /// # Errors
    /// No tensor of that name, or `out` has another length; `out` is untouched then.
    pub fn widen(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError> {
        let view = self.tensor(name)?;
        let elements = view.elements();
        if out.len() != elements {
            return Err(LoadError::SliceLength {
                tensor: clip(name),
                elements,
                slice: out.len(),
            });
        }
        view.widen(out);
        Ok(())
    }
}

impl TensorView<'_> {
    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.bytes()
    }

    /// Both have the same number of elements.
    fn widen(&self, out: &mut [f32]) {
        match self.dtype {
            StoredDtype::F32 => fill(out, self.bytes, f32::from_le_bytes),
            StoredDtype::F16 => fill(out, self.bytes, |raw| half::f16::from_le_bytes(raw).to_f32()),
            StoredDtype::Bf16 => fill(out, self.bytes, |raw| half::bf16::from_le_bytes(raw).to_f32()),
        }
    }
}

fn fill<const N: usize>(out: &mut [f32], bytes: &[u8], widen: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    for (place, &raw) in out.iter_mut().zip(elements) {
        *place = widen(raw);
    }
}

impl StoredDtype {
    /// The bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            StoredDtype::F32 => 4,
            StoredDtype::F16 | StoredDtype::Bf16 => 2,
        }
    }

    fn from_file(dtype: Dtype) -> Option<StoredDtype> {
        match dtype {
            Dtype::F32 => Some(StoredDtype::F32),
            Dtype::F16 => Some(StoredDtype::F16),
            Dtype::BF16 => Some(StoredDtype::Bf16),
            _ => None,
        }
    }
}

impl Shard {
    fn open(path: &Path, limit: u64) -> Result<Shard, LoadError> {
        let mut opened = Bounded::open(path, limit)?;
        let head = opened.peek::<PREFIX>()?;
        check_prefix(opened.name(), &head, opened.len())?;
        let file = opened.name().to_owned();
        let bytes = opened.read_after(&head)?;
        Shard::parse(file, bytes.into())
    }

    fn parse(file: String, bytes: Cow<'static, [u8]>) -> Result<Shard, LoadError> {
        let len = bytes.len() as u64;
        check_prefix(&file, &bytes, len)?;
        match SafeTensors::read_metadata(&bytes) {
            Ok((header, metadata)) => Ok(Shard {
                file,
                bytes,
                metadata,
                data_start: PREFIX + header,
            }),
            Err(SafeTensorError::InvalidOffset(tensor)) => Err(LoadError::Offsets {
                file,
                tensor: clip(&tensor),
            }),
            Err(source) => Err(LoadError::Header {
                file,
                bytes: len,
                source,
            }),
        }
    }

    fn find(&self, shard: usize, name: &str, needed: &[usize]) -> Result<Stored, LoadError> {
        let file = || self.file.clone();
        let tensor = || name.to_owned();
        let info = self.metadata.info(name);
        let info = info.ok_or_else(|| LoadError::MissingTensor {
            file: file(),
            tensor: tensor(),
        })?;
        let dtype = StoredDtype::from_file(info.dtype).ok_or_else(|| LoadError::TensorDtype {
            file: file(),
            tensor: tensor(),
            dtype: info.dtype.to_string(),
        })?;
        if info.shape != needed {
            let shape = describe(&info.shape);
            return Err(LoadError::TensorShape {
                file: file(),
                tensor: tensor(),
                shape,
                needed: needed.to_vec(),
            });
        }
        // The offsets were checked when the header was read: they lie in the file and fit shape and dtype.
        let range = self.range(info);
        Ok(Stored {
            shard,
            dtype,
            shape: needed.to_vec(),
            range,
        })
    }

    fn range(&self, info: &TensorInfo) -> Range<usize> {
        let (start, end) = info.data_offsets;
        let range = self.data_start + start..self.data_start + end;
        assert!(range.end <= self.bytes.len());
        range
    }
}

/// Checks the length that a file claims for its header against the limit and the length of the file.
/// `head` is the beginning of the file, `len` the length of all of it.
fn check_prefix(file: &str, head: &[u8], len: u64) -> Result<(), LoadError> {
    let short = |needed| LoadError::ShortHeader {
        file: file.to_owned(),
        bytes: len,
        needed,
    };
    let prefix = head.first_chunk::<PREFIX>().ok_or_else(|| short(PREFIX as u64))?;
    let claimed = u64::from_le_bytes(*prefix);
    if claimed > MAX_HEADER_BYTES {
        return Err(LoadError::HeaderTooLarge {
            file: file.to_owned(),
            bytes: claimed,
            limit: MAX_HEADER_BYTES,
        });
    }
    let needed = claimed + PREFIX as u64;
    if needed > len {
        return Err(short(needed));
    }
    Ok(())
}

fn describe(shape: &[usize]) -> String {
    const MAX_DIMS: usize = 8;
    if shape.len() <= MAX_DIMS {
        return format!("{shape:?}");
    }
    format!("{:?} and {} more", &shape[..MAX_DIMS], shape.len() - MAX_DIMS)
}

/// Opens the shards that hold tensors which `config` needs, and no others.
fn open_sharded(config: &LlamaConfig, path: &Path) -> Result<LlamaWeights, LoadError> {
    let file = path.display().to_string();
    let raw = files::read(path, MAX_INDEX_BYTES)?;
    let index: RawIndex = serde_json::from_slice(&raw).map_err(|source| LoadError::Json {
        file: file.clone(),
        source,
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));

    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (name, _) in config.required_tensors() {
        let Some(shard) = index.weight_map.get(&name) else {
            return Err(LoadError::MissingTensor { file, tensor: name });
        };
        if !is_plain_shard_name(shard) {
            return Err(LoadError::ShardName {
                file,
                tensor: name,
                shard: clip(shard),
            });
        }
        let next = numbers.len();
        let number = *numbers.entry(shard).or_insert(next);
        if number >= MAX_SHARDS {
            return Err(LoadError::TooManyShards {
                file,
                shards: number + 1,
                limit: MAX_SHARDS,
            });
        }
        places.insert(name, number);
    }

    let mut names: Vec<(&str, usize)> = numbers.into_iter().collect();
    names.sort_by_key(|&(_, number)| number);
    let mut shards = Vec::with_capacity(names.len());
    let mut left = MAX_WEIGHTS_BYTES;
    for (name, _) in names {
        let shard = Shard::open(&folder.join(name), left)?;
        left -= shard.bytes.len() as u64;
        shards.push(shard);
    }
    LlamaWeights::from_shards(config, shards, Some(&places))
}

/// A name without a folder, so that an index can't reach files elsewhere.
fn is_plain_shard_name(name: &str) -> bool {
    name.ends_with(".safetensors") && !name.contains(['/', '\\', ':', '\0'])
}
