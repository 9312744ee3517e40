//! Any bytes as a model: refused or loaded, without a panic and in bounded memory.
//!
//! The input begins with two lengths of 4 bytes, little endian: those of `config.json` and of `tokenizer.json`, which follow.
//! The rest is the safetensors file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramscope::model::LlamaModel;

/// Takes a length and leaves what follows it.
fn length(data: &mut &[u8]) -> Option<usize> {
    let (length, rest) = data.split_first_chunk()?;
    *data = rest;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

/// The three files of an input.
fn split(mut data: &[u8]) -> Option<[&[u8]; 3]> {
    let (config, tokenizer) = (length(&mut data)?, length(&mut data)?);
    let (config, rest) = data.split_at_checked(config)?;
    let (tokenizer, weights) = rest.split_at_checked(tokenizer)?;
    Some([config, tokenizer, weights])
}

// The loader catches panics of the tokenizer library and makes them errors; the fuzzer's own hook would end the process
// before that. A panic that gets out of the loader is a find all the same.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |data: &[u8]| {
    let Some([config, tokenizer, weights]) = split(data) else {
        return;
    };
    if let Ok(model) = LlamaModel::from_bytes(config, tokenizer, weights.to_vec()) {
        std::hint::black_box(model.config());
    }
});
