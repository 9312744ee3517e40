//! A model loads, and no damaged or hostile file makes loading panic.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like a test")]

use std::fs;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};
use vramscope::base::random::Random;
use vramscope::model::{
    LlamaConfig, LlamaModel, LlamaWeights, LoadError, MAX_CONFIG_BYTES, MAX_HEADER_BYTES, MAX_TEXT_BYTES,
    MAX_TOKENIZER_BYTES, StoredDtype, TextTokenizer, bundled,
};

fn golden() -> Value {
    serde_json::from_str(include_str!("data/golden/tiny-llama.json")).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn bundled_config() -> LlamaConfig {
    LlamaConfig::from_bytes("config.json", bundled::CONFIG).unwrap()
}

fn config_with(changes: &Value) -> Result<LlamaConfig, LoadError> {
    let mut config: Map<String, Value> = serde_json::from_slice(bundled::CONFIG).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        config.insert(key.clone(), value.clone());
    }
    LlamaConfig::from_bytes("config.json", &serde_json::to_vec(&config).unwrap())
}

/// The error and its causes, as a user would see them.
fn message<T>(result: Result<T, LoadError>) -> String {
    let error = result.err().expect("this input is to be refused");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}

#[track_caller]
fn refused<T>(result: Result<T, LoadError>, parts: &[&str]) {
    let text = message(result);
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert!(!text.ends_with('.'), "{text:?}");
}

fn weights(bytes: &[u8]) -> Result<LlamaWeights, LoadError> {
    LlamaWeights::from_bytes(&bundled_config(), "model.safetensors", bytes.to_vec())
}

fn header_end(file: &[u8]) -> usize {
    8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize
}

fn header(file: &[u8]) -> Value {
    serde_json::from_slice(&file[8..header_end(file)]).unwrap()
}

fn assemble(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    file
}

/// The bundled weights with another header.
fn weights_with(change: impl FnOnce(&mut Value)) -> Result<LlamaWeights, LoadError> {
    let mut changed = header(bundled::WEIGHTS);
    change(&mut changed);
    weights(&assemble(
        &changed,
        &bundled::WEIGHTS[header_end(bundled::WEIGHTS)..],
    ))
}

// What should work.

#[test]
fn bundled_model_loads() {
    let model = bundled::load().unwrap();
    let config = model.config();
    assert_eq!(
        (config.hidden_size, config.intermediate_size, config.layers),
        (128, 384, 5)
    );
    assert_eq!((config.heads, config.kv_heads, config.head_dim), (8, 4, 16));
    assert_eq!((config.vocab_size, config.max_position_embeddings), (512, 512));
    assert_eq!((config.rms_norm_eps, config.rope_theta), (1e-5, 10_000.0));
    assert!(config.tie_word_embeddings);
    assert_eq!(
        (config.bos_token_id, config.eos_token_ids.as_slice()),
        (Some(0), &[1][..])
    );

    let weights = model.weights();
    assert_eq!((weights.len(), weights.ignored()), (47, 0));
    let elements: usize = weights
        .names()
        .map(|name| weights.tensor(name).unwrap().elements())
        .sum();
    assert_eq!(elements, 1_049_984);
    assert!(
        weights
            .names()
            .all(|name| weights.tensor(name).unwrap().dtype == StoredDtype::Bf16)
    );
    assert_eq!(model.tokenizer().largest_id(), 511);
}

#[test]
fn folder_loads_like_the_bundled_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny-llama");
    let (read, bundled) = (LlamaModel::open(&folder).unwrap(), bundled::load().unwrap());
    assert_eq!(read.config(), bundled.config());
    for name in bundled.weights().names() {
        let (a, b) = (
            read.weights().tensor(name).unwrap(),
            bundled.weights().tensor(name).unwrap(),
        );
        assert_eq!((a.shape, a.bytes), (b.shape, b.bytes), "{name}");
    }
}

#[test]
fn tokenizer_gives_the_reference_ids() {
    let (golden, model) = (golden(), bundled::load().unwrap());
    let tokenizer = model.tokenizer();
    let prompts = golden["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 3);
    for text in prompts.iter().chain([&golden["passage"]]) {
        assert_eq!(
            tokenizer.encode(text["text"].as_str().unwrap()).unwrap(),
            ids(&text["token_ids"])
        );
        assert_eq!(
            tokenizer.decode(&ids(&text["token_ids"])).unwrap(),
            text["text"].as_str().unwrap()
        );
    }
}

#[test]
fn tokenizer_gives_the_reference_text() {
    let (golden, model) = (golden(), bundled::load().unwrap());
    for prompt in golden["prompts"].as_array().unwrap() {
        for run in ["base", "lora"] {
            let text = model
                .tokenizer()
                .decode(&ids(&prompt[run]["greedy_ids"]))
                .unwrap();
            assert_eq!(text, prompt[run]["greedy_text"].as_str().unwrap());
        }
    }
}

#[test]
fn any_text_survives_the_round_trip() {
    let model = bundled::load().unwrap();
    for text in [
        "",
        " ",
        "naïve — 日本語 🙂\0\r\n",
        "e\u{301}",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let ids = model.tokenizer().encode(text).unwrap();
        assert_eq!(ids[0], 0);
        assert_eq!(model.tokenizer().decode(&ids).unwrap(), text);
    }
}

#[test]
fn tensors_widen_exactly_from_each_dtype() {
    type Encoder = fn(f32) -> Vec<u8>;
    let values = [0.0f32, -0.0, 1.0, -2.5, 0.15625, 448.0];
    let one = json!({
        "hidden_size": 2, "intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
        "head_dim": 2, "num_hidden_layers": 1, "vocab_size": 3,
    });
    let config = config_with(&one).unwrap();
    let encoders: [(&str, StoredDtype, Encoder); 3] = [
        ("F32", StoredDtype::F32, |x| x.to_le_bytes().to_vec()),
        ("F16", StoredDtype::F16, |x| {
            half::f16::from_f32(x).to_le_bytes().to_vec()
        }),
        ("BF16", StoredDtype::Bf16, |x| {
            half::bf16::from_f32(x).to_le_bytes().to_vec()
        }),
    ];
    for (dtype, stored, encode) in encoders {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, shape) in config.required_tensors() {
            let start = data.len();
            let elements: usize = shape.iter().product();
            data.extend(values[..elements].iter().flat_map(|&x| encode(x)));
            let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
            header.insert(name, tensor);
        }
        let file = assemble(&Value::Object(header), &data);
        let weights = LlamaWeights::from_bytes(&config, "small", file).unwrap();
        let mut out = [f32::NAN; 6];
        weights.widen("model.embed_tokens.weight", &mut out).unwrap();
        assert_eq!(out.map(f32::to_bits), values.map(f32::to_bits), "{dtype}");
        assert_eq!(weights.tensor("model.norm.weight").unwrap().dtype, stored);
    }
}

#[test]
fn widen_checks_name_and_length() {
    let model = bundled::load().unwrap();
    let mut out = vec![0.0; 127];
    refused(
        model.weights().widen("model.norm.weight", &mut out),
        &["model.norm.weight", "128", "127"],
    );
    refused(
        model.weights().widen("lm_head.weight", &mut out),
        &["lm_head.weight"],
    );
    assert!(out.iter().all(|&x| x == 0.0));
}

// Shards.

/// Writes the bundled weights as two shards and an index, changed by `change`.
fn sharded(folder: &Path, change: impl FnOnce(&mut Value)) {
    let all = header(bundled::WEIGHTS);
    let data = &bundled::WEIGHTS[header_end(bundled::WEIGHTS)..];
    let (mut map, mut files) = (Map::new(), [(Map::new(), Vec::new()), (Map::new(), Vec::new())]);
    for (name, info) in all.as_object().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let number = usize::from(name.contains("mlp"));
        let range: Range<usize> = serde_json::from_value::<[usize; 2]>(info["data_offsets"].clone())
            .map(|[start, end]| start..end)
            .unwrap();
        let (header, bytes) = &mut files[number];
        let start = bytes.len();
        bytes.extend_from_slice(&data[range]);
        let mut info = info.clone();
        info["data_offsets"] = json!([start, bytes.len()]);
        header.insert(name.clone(), info);
        map.insert(name.clone(), json!(format!("part-{number}.safetensors")));
    }
    for (number, (header, bytes)) in files.into_iter().enumerate() {
        let path = folder.join(format!("part-{number}.safetensors"));
        fs::write(path, assemble(&Value::Object(header), &bytes)).unwrap();
    }
    let mut index = json!({"metadata": {"total_size": data.len()}, "weight_map": map});
    change(&mut index);
    fs::write(
        folder.join("model.safetensors.index.json"),
        serde_json::to_vec(&index).unwrap(),
    )
    .unwrap();
}

fn load_sharded(change: impl FnOnce(&mut Value)) -> Result<LlamaWeights, LoadError> {
    let folder = tempfile::tempdir().unwrap();
    sharded(folder.path(), change);
    LlamaWeights::open(&bundled_config(), folder.path())
}

#[test]
fn shards_hold_the_same_tensors() {
    let (shards, whole) = (load_sharded(|_| ()).unwrap(), bundled::load().unwrap());
    assert_eq!(shards.len(), 47);
    for name in shards.names() {
        assert_eq!(
            shards.tensor(name).unwrap().bytes,
            whole.weights().tensor(name).unwrap().bytes,
            "{name}"
        );
    }
}

#[test]
fn odd_indexes_are_refused() {
    const NORM: &str = "model.norm.weight";
    for name in [
        "../part-0.safetensors",
        "/etc/passwd",
        "..",
        "",
        "a\\b.safetensors",
        "part-0.bin",
    ] {
        refused(
            load_sharded(|index| index["weight_map"][NORM] = json!(name)),
            &[NORM, ".safetensors"],
        );
    }
    refused(
        load_sharded(|index| index["weight_map"][NORM] = json!("part-1.safetensors")),
        &["part-1.safetensors", NORM],
    );
    refused(
        load_sharded(|index| index["weight_map"][NORM] = json!("gone.safetensors")),
        &["gone.safetensors"],
    );
    refused(
        load_sharded(|index| drop(index["weight_map"].as_object_mut().unwrap().remove(NORM))),
        &[NORM],
    );
    refused(
        load_sharded(|index| index["weight_map"] = json!([])),
        &["index.json"],
    );
    refused(load_sharded(|index| *index = json!(1)), &["index.json"]);
}

// Hostile weights.

#[test]
fn empty_file_is_refused() {
    refused(weights(b""), &["model.safetensors", "0 bytes", "8"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, b"").unwrap();
    refused(
        LlamaWeights::open(&bundled_config(), folder.path()),
        &["model.safetensors", "0 bytes"],
    );
    refused(
        LlamaWeights::open(&bundled_config(), &folder.path().join("gone")),
        &["gone"],
    );
}

#[test]
fn claimed_header_lengths_are_bounded() {
    for claimed in [1u64 << 63, u64::MAX, 100_000_000, MAX_HEADER_BYTES + 1] {
        let mut file = claimed.to_le_bytes().to_vec();
        file.resize(20, b' ');
        refused(
            weights(&file),
            &[
                "model.safetensors",
                &claimed.to_string(),
                &MAX_HEADER_BYTES.to_string(),
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.safetensors");
        fs::write(&path, &file).unwrap();
        refused(
            LlamaWeights::open(&bundled_config(), &path),
            &["big.safetensors", &claimed.to_string()],
        );
    }
    let mut file = MAX_HEADER_BYTES.to_le_bytes().to_vec();
    file.resize(20, b' ');
    refused(weights(&file), &["20 bytes", &(MAX_HEADER_BYTES + 8).to_string()]);
}

#[test]
fn truncated_and_extended_data_is_refused() {
    let file = bundled::WEIGHTS;
    refused(
        weights(&file[..file.len() - 1]),
        &["model.safetensors", "2104983"],
    );
    let mut longer = file.to_vec();
    longer.push(0);
    refused(weights(&longer), &["model.safetensors", "2104985"]);
}

#[test]
fn wrong_dtype_is_refused() {
    refused(
        weights_with(|header| header["model.norm.weight"]["dtype"] = json!("I16")),
        &["model.norm.weight", "I16", "BF16"],
    );
    refused(
        weights_with(|header| header["model.norm.weight"]["dtype"] = json!("F32")),
        &["header"],
    );
    refused(
        weights_with(|header| header["model.norm.weight"]["dtype"] = json!("X9")),
        &["X9"],
    );
}

#[test]
fn wrong_shape_is_refused() {
    const Q: &str = "model.layers.0.self_attn.q_proj.weight";
    refused(
        weights_with(|header| header[Q]["shape"] = json!([64, 256])),
        &[Q, "[64, 256]", "[128, 128]"],
    );
    refused(
        weights_with(|header| header[Q]["shape"] = json!([16384])),
        &[Q, "[16384]"],
    );
    refused(
        weights_with(|header| header[Q]["shape"] = json!([u64::MAX, 2])),
        &["header"],
    );
    refused(
        weights_with(|header| header[Q]["shape"] = json!([-1])),
        &["header"],
    );
    let long = message(weights_with(|header| {
        let mut shape = vec![1; 10_000];
        shape.extend([128, 128]);
        header[Q]["shape"] = json!(shape);
    }));
    assert!(long.contains("9994 more") && long.len() < 300, "{long}");
}

#[test]
fn missing_tensor_is_named() {
    for (name, _) in bundled_config().required_tensors() {
        let result = weights_with(|header| {
            let info = header.as_object_mut().unwrap().remove(&name).unwrap();
            header["other"] = info;
        });
        refused(result, &["model.safetensors", &name]);
    }
    let untied = config_with(&json!({"tie_word_embeddings": false})).unwrap();
    refused(
        LlamaWeights::from_bytes(&untied, "w", bundled::WEIGHTS),
        &["w has no", "lm_head.weight"],
    );
}

#[test]
fn overlapping_and_holed_offsets_are_refused() {
    const NORM: &str = "model.norm.weight";
    for offsets in [
        json!([2099710, 2099966]),
        json!([2099714, 2099970]),
        json!([2099968, 2099712]),
    ] {
        refused(
            weights_with(|header| header[NORM]["data_offsets"] = offsets),
            &["model.safetensors"],
        );
    }
    refused(
        weights_with(|header| header[NORM]["data_offsets"] = json!([0, 256])),
        &["offsets of tensor"],
    );
    refused(
        weights_with(|header| header[NORM]["data_offsets"] = json!([0, u64::MAX])),
        &[],
    );
    refused(
        weights_with(|header| header[NORM]["data_offsets"] = json!([-1, 1])),
        &[],
    );
}

#[test]
fn odd_headers_are_refused() {
    for header in [&b"{}"[..], b"", b"null", b"[]", b"{\"a\":", b"\xff\xfe"] {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header);
        refused(weights(&file), &["model.safetensors"]);
    }
    let deep = "{\"a\":".repeat(100_000);
    let mut file = (deep.len() as u64).to_le_bytes().to_vec();
    file.extend(deep.as_bytes());
    refused(weights(&file), &["model.safetensors"]);
}

#[test]
fn truncation_anywhere_is_refused() {
    let (config, file) = (bundled_config(), bundled::WEIGHTS);
    for end in (0..file.len()).step_by(997).chain(0..64) {
        assert!(
            LlamaWeights::from_bytes(&config, "cut", &file[..end]).is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn flipped_header_bytes_never_panic() {
    let config = bundled_config();
    let mut random = Random::seeded(7);
    let end = header_end(bundled::WEIGHTS) as u64;
    let mut file = bundled::WEIGHTS.to_vec();
    let mut refusals = 0;
    for _ in 0..400 {
        let flips: Vec<(usize, u8)> = (0..1 + random.below(3))
            .map(|_| (random.below(end) as usize, 1 << random.below(8)))
            .collect();
        flips.iter().for_each(|&(at, bit)| file[at] ^= bit);
        match LlamaWeights::from_bytes(&config, "flipped", file.clone()) {
            Ok(weights) => {
                for name in weights.names() {
                    let mut out = vec![0.0; weights.tensor(name).unwrap().elements()];
                    weights.widen(name, &mut out).unwrap();
                }
            }
            Err(_) => refusals += 1,
        }
        flips.iter().for_each(|&(at, bit)| file[at] ^= bit);
    }
    assert!(refusals > 300, "{refusals}");
    assert_eq!(file, bundled::WEIGHTS);
}

// Hostile configurations.

#[test]
fn unknown_architectures_are_refused_by_name() {
    refused(
        config_with(&json!({"architectures": ["MixtralForCausalLM"]})),
        &["architectures", "MixtralForCausalLM", "LlamaForCausalLM"],
    );
    refused(config_with(&json!({"architectures": []})), &["architectures"]);
    refused(config_with(&json!({"architectures": null})), &["architectures"]);
    refused(
        config_with(&json!({"model_type": "qwen2"})),
        &["model_type", "qwen2"],
    );
}

#[test]
fn arithmetic_we_lack_is_refused_by_name() {
    for (changes, name) in [
        (
            json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
            "yarn",
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 4.0}}),
            "linear",
        ),
        (json!({"rope_scaling": 3}), "rope_scaling"),
        (json!({"rope_parameters": {"rope_type": "llama3"}}), "llama3"),
        (json!({"rope_parameters": "yarn"}), "rope_parameters"),
        (
            json!({"rope_parameters": {"rope_type": "default", "rope_theta": "x"}}),
            "rope_theta",
        ),
        (json!({"partial_rotary_factor": 0.5}), "0.5"),
        (json!({"hidden_act": "gelu"}), "gelu"),
        (json!({"attention_bias": true}), "attention_bias"),
        (json!({"mlp_bias": true}), "mlp_bias"),
        (json!({"quantization_config": {"quant_method": "gptq"}}), "gptq"),
    ] {
        refused(config_with(&changes), &["config.json", name]);
    }
    let nested =
        json!({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}});
    assert_eq!(config_with(&nested).unwrap().rope_theta, 500.0);
}

#[test]
fn zero_and_huge_values_are_refused() {
    let fields = [
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "num_hidden_layers",
        "vocab_size",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_theta",
    ];
    for field in fields {
        for value in [json!(0), json!(u64::MAX), json!(-1), json!("128"), json!([1])] {
            let mut changes = Map::new();
            changes.insert(field.to_owned(), value);
            refused(config_with(&Value::Object(changes)), &["config.json"]);
        }
    }
    refused(
        config_with(&json!({"num_attention_heads": 0})),
        &["num_attention_heads is 0", "1 to 1024"],
    );
    refused(
        config_with(&json!({"hidden_size": null})),
        &["config.json has no hidden_size"],
    );
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    refused(
        config_with(&json!({"hidden_size": 130})),
        &["hidden_size is 130", "num_attention_heads", "8"],
    );
    refused(
        config_with(&json!({"num_key_value_heads": 3})),
        &["num_key_value_heads", "3", "8"],
    );
    refused(
        config_with(&json!({"num_key_value_heads": 16})),
        &["num_key_value_heads", "16"],
    );
    refused(config_with(&json!({"head_dim": 15})), &["head_dim is 15"]);
    refused(
        config_with(&json!({"bos_token_id": 512})),
        &["bos_token_id is 512", "0 to 511"],
    );
    refused(
        config_with(&json!({"eos_token_id": [1, 512]})),
        &["eos_token_id is 512"],
    );
    refused(
        config_with(&json!({"eos_token_id": vec![1; 17]})),
        &["eos_token_id", "17", "16"],
    );
}

#[test]
fn optional_values_have_defaults() {
    let changes = json!({
        "head_dim": null, "num_key_value_heads": null, "rope_theta": null, "tie_word_embeddings": null,
        "bos_token_id": null, "eos_token_id": null,
    });
    let config = config_with(&changes).unwrap();
    assert_eq!(
        (config.head_dim, config.kv_heads, config.rope_theta),
        (16, 8, 10_000.0)
    );
    assert_eq!((config.tie_word_embeddings, config.bos_token_id), (false, None));
    assert!(config.eos_token_ids.is_empty());
    assert_eq!(
        config_with(&json!({"eos_token_id": [1, 2]}))
            .unwrap()
            .eos_token_ids,
        [1, 2]
    );
}

#[test]
fn config_that_is_no_json_is_refused() {
    let deep_value = format!("{{\"rope_scaling\":{}", "[".repeat(100_000));
    let deep_ignored = format!("{{\"other\":{}", "{\"a\":".repeat(100_000));
    for bytes in [&b""[..], b"\0", b"hello", b"[]", b"3", b"{", &[0xff; 64]] {
        refused(
            LlamaConfig::from_bytes("config.json", bytes),
            &["config.json is not the json expected"],
        );
    }
    for deep in ["[".repeat(100_000), deep_value, deep_ignored] {
        refused(
            LlamaConfig::from_bytes("config.json", deep.as_bytes()),
            &["config.json"],
        );
    }
    let long = vec![b' '; MAX_CONFIG_BYTES as usize + 1];
    refused(
        LlamaConfig::from_bytes("config.json", &long),
        &["1048577", "1048576"],
    );
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    refused(LlamaConfig::open(folder.path()), &["not a regular file"]);
    refused(LlamaModel::open(folder.path()), &["config.json"]);
    #[cfg(unix)]
    refused(
        LlamaConfig::open(Path::new("/dev/zero")),
        &["/dev/zero is not a regular file"],
    );
}

// Hostile tokenizers.

#[test]
fn odd_tokenizers_are_refused() {
    let deep = "[".repeat(100_000);
    for bytes in [&b""[..], b"{}", b"null", b"hello", &[0xff; 64], deep.as_bytes()] {
        refused(
            TextTokenizer::from_bytes("tokenizer.json", bytes),
            &["tokenizer.json"],
        );
    }
    let long = vec![b' '; MAX_TOKENIZER_BYTES as usize + 1];
    refused(
        TextTokenizer::from_bytes("t", &long),
        &[&MAX_TOKENIZER_BYTES.to_string()],
    );
}

#[test]
fn tokenizer_limits_hold() {
    let model = bundled::load().unwrap();
    refused(model.tokenizer().decode(&[0, 512]), &["tokenizer.json", "512"]);
    refused(model.tokenizer().decode(&[u32::MAX]), &["4294967295"]);
    let long = "a".repeat(MAX_TEXT_BYTES + 1);
    refused(model.tokenizer().encode(&long), &[&MAX_TEXT_BYTES.to_string()]);
    let small = config_with(&json!({"vocab_size": 511})).unwrap();
    refused(
        model.tokenizer().check_fits(&small),
        &["tokenizer.json", "id 511", "511"],
    );
}

#[test]
fn truncation_and_padding_of_the_file_are_off() {
    let mut file: Value = serde_json::from_slice(bundled::TOKENIZER).unwrap();
    file["truncation"] =
        json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 1,
        "pad_type_id": 0, "pad_token": "</s>",
    });
    let tokenizer = TextTokenizer::from_bytes("t", &serde_json::to_vec(&file).unwrap()).unwrap();
    assert_eq!(tokenizer.encode("To be, or not to be").unwrap().len(), 9);
    // So short a limit leaves no place for special tokens.
    file["truncation"]["max_length"] = json!(0);
    let _ = TextTokenizer::from_bytes("t", &serde_json::to_vec(&file).unwrap());
}

#[test]
fn damaged_tokenizers_never_panic() {
    let mut random = Random::seeded(11);
    for end in (0..bundled::TOKENIZER.len()).step_by(997) {
        assert!(
            TextTokenizer::from_bytes("cut", &bundled::TOKENIZER[..end]).is_err(),
            "cut at {end}"
        );
    }
    for _ in 0..200 {
        let mut file = bundled::TOKENIZER.to_vec();
        let at = random.below(file.len() as u64) as usize;
        file[at] ^= 1 << random.below(8);
        if let Ok(tokenizer) = TextTokenizer::from_bytes("flipped", &file)
            && let Ok(ids) = tokenizer.encode("First Citizen:\nTo be, or not to be")
        {
            let _ = tokenizer.decode(&ids);
        }
    }
}

#[test]
fn a_tokenizer_that_multiplies_texts_is_refused() {
    let mut file: serde_json::Value = serde_json::from_slice(bundled::TOKENIZER).expect("JSON");
    let step =
        serde_json::json!({ "type": "Replace", "pattern": { "String": "e" }, "content": "e".repeat(50) });
    file["normalizer"] = serde_json::json!({ "type": "Sequence", "normalizers": [step, step, step, step] });
    let bytes = serde_json::to_vec(&file).expect("JSON");
    let error = TextTokenizer::from_bytes("tokenizer.json", &bytes).expect_err("it is refused");
    let text = error.to_string();
    assert!(text.contains("6250000 times longer, the limit is 64"), "{text}");
}
