//! What can go wrong while a model is loaded.

/// Why a model could not be loaded or used. Each message names the file, the value and the limit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system could not read a file.
    #[error("read {file}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The path is a folder, a pipe or a device.
    #[error("{file} is not a regular file")]
    NotAFile {
        /// The path.
        file: String,
    },
    /// A file is longer than this program reads.
    #[error("{file} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The file.
        file: String,
        /// Its length, or at least so many bytes.
        bytes: u64,
        /// The most bytes read of such a file.
        limit: u64,
    },
    /// There was no memory for a file.
    #[error("no memory for {bytes} bytes of {file}")]
    NoMemory {
        /// The file.
        file: String,
        /// The bytes asked for.
        bytes: u64,
    },
    /// A file is not JSON, or a value in it has the wrong type.
    #[error("{file} is not the json expected")]
    Json {
        /// The file.
        file: String,
        /// Where and what.
        source: serde_json::Error,
    },
    /// The configuration lacks a value that has no default.
    #[error("{file} has no {field}")]
    MissingField {
        /// The file.
        file: String,
        /// The key.
        field: &'static str,
    },
    /// A number is outside its limits.
    #[error("{file}: {field} is {value}, the limits are {low} to {high}")]
    OutOfRange {
        /// The file.
        file: String,
        /// The key.
        field: &'static str,
        /// The number found.
        value: f64,
        /// The least allowed.
        low: f64,
        /// The most allowed.
        high: f64,
    },
    /// Two numbers of the configuration contradict each other.
    #[error("{file}: {field} is {value}, not a multiple of {by}, which is {divisor}")]
    NotMultiple {
        /// The file.
        file: String,
        /// The key.
        field: &'static str,
        /// Its value.
        value: usize,
        /// What should divide it.
        by: &'static str,
        /// The value of that.
        divisor: usize,
    },
    /// The configuration asks for something this program does not do.
    #[error("{file}: {field} {value:?} is not supported, only {supported}")]
    Unsupported {
        /// The file.
        file: String,
        /// The key.
        field: &'static str,
        /// The value found.
        value: String,
        /// What is supported.
        supported: &'static str,
    },
    /// A safetensors file ends before its header does.
    #[error("{file} has {bytes} bytes, its header needs {needed}")]
    ShortHeader {
        /// The file.
        file: String,
        /// The length of the file.
        bytes: u64,
        /// The bytes that the header and its length need.
        needed: u64,
    },
    /// A safetensors file claims a longer header than this program reads.
    #[error("{file} claims a header of {bytes} bytes, the limit is {limit}")]
    HeaderTooLarge {
        /// The file.
        file: String,
        /// The length claimed.
        bytes: u64,
        /// The most allowed.
        limit: u64,
    },
    /// The header of a safetensors file is damaged or does not match the length of the file.
    #[error("{file} has no valid safetensors header for its {bytes} bytes")]
    Header {
        /// The file.
        file: String,
        /// The length of the file.
        bytes: u64,
        /// What is wrong.
        source: safetensors::SafeTensorError,
    },
    /// A tensor overlaps its neighbour, or leaves a hole before it.
    #[error("{file}: offsets of tensor {tensor:?} do not follow those of the tensor before it")]
    Offsets {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// The architecture needs a tensor that is not there.
    #[error("{file} has no tensor {tensor:?}")]
    MissingTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// A tensor has an element type that can't be widened to `f32`.
    #[error("{file}: tensor {tensor:?} has dtype {dtype}, only F32, F16 and BF16 are supported")]
    TensorDtype {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The element type found.
        dtype: String,
    },
    /// A tensor does not have the shape that the configuration gives it.
    #[error("{file}: tensor {tensor:?} has shape {shape}, the configuration needs {needed:?}")]
    TensorShape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The shape found, cut short where it is long.
        shape: String,
        /// The shape needed.
        needed: Vec<usize>,
    },
    /// The caller's slice does not have one place for each element of the tensor.
    #[error("tensor {tensor:?} has {elements} elements, the slice has {slice}")]
    SliceLength {
        /// The tensor.
        tensor: String,
        /// The elements of the tensor.
        elements: usize,
        /// The length of the slice.
        slice: usize,
    },
    /// A shard index names a file outside its own folder, or one that is not a safetensors file.
    #[error("{file} puts tensor {tensor:?} in {shard:?}, which is not a plain .safetensors file name")]
    ShardName {
        /// The index.
        file: String,
        /// The tensor.
        tensor: String,
        /// The name found.
        shard: String,
    },
    /// A shard index names too many files.
    #[error("{file} names {shards} shards, the limit is {limit}")]
    TooManyShards {
        /// The index.
        file: String,
        /// The shards named, or at least so many.
        shards: usize,
        /// The most allowed.
        limit: usize,
    },
    /// The tokenizer file is damaged, or the tokenizer failed on a text.
    #[error("{file} gives no working tokenizer: {reason}")]
    Tokenizer {
        /// The file.
        file: String,
        /// What the tokenizer says.
        reason: String,
    },
    /// The tokenizer can produce ids for which the model has no embedding.
    #[error("{file} has token id {id}, the vocab_size of the model is {vocab_size}")]
    TokenOutsideModel {
        /// The file.
        file: String,
        /// The largest id of the tokenizer.
        id: u32,
        /// The number of ids the model knows.
        vocab_size: usize,
    },
    /// A token id that the tokenizer does not know was to be decoded.
    #[error("{file} has no token with id {id}")]
    UnknownToken {
        /// The file.
        file: String,
        /// The id.
        id: u32,
    },
    /// A text is longer than this program encodes at once.
    #[error("text has {bytes} bytes, the limit is {limit}")]
    TextTooLarge {
        /// The length of the text.
        bytes: usize,
        /// The most allowed.
        limit: usize,
    },
}

/// `text`, cut to a length that fits in a message.
pub(super) fn clip(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
