//! How much longer a tokenizer's rewriting steps can make a text.
//!
//! A file of a few kilobytes can ask for replacements whose lengths multiply; the text then fills all memory, and
//! no error can be caught. So the factor is bounded before the first text is seen.

use serde_json::Value;

/// The largest factor by which a text may grow. Known tokenizers stay under 10: a space becomes a three-byte mark.
pub(super) const MAX_GROWTH: u64 = 64;

/// The factor of a normalizer or decoder as its file describes it; saturates.
pub(super) fn factor(step: &Value) -> u64 {
    let nested = ["normalizers", "decoders"]
        .iter()
        .filter_map(|list| step[*list].as_array());
    let inner = nested.flatten().map(factor).fold(1, u64::saturating_mul);
    inner.saturating_mul(own_factor(step))
}

fn own_factor(step: &Value) -> u64 {
    let text = |value: &Value| value.as_str().map_or(0, |text| text.len() as u64);
    match step["type"].as_str() {
        Some("Replace") => {
            let content = text(&step["content"]);
            match step["pattern"]["String"].as_str() {
                Some(pattern) if !pattern.is_empty() => content.div_ceil(pattern.len() as u64).max(1),
                // A regular expression may match the empty text, at every place.
                _ => content.saturating_add(1),
            }
        }
        // What is put in front once counts as if the text were this long.
        Some("Prepend") => text(&step["prepend"]).max(1),
        // Canonical decompositions grow a text up to 18 times in theory (Unicode Standard Annex 15), 3 in practice.
        Some("NFKD" | "NFKC" | "Nmt" | "NFD" | "NFC") => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::factor;

    #[test]
    fn factors_multiply_along_a_sequence() {
        let of = |text: &str| factor(&serde_json::from_str(text).unwrap());
        let llama = r#"{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
            {"type":"Replace","pattern":{"String":" "},"content":"▁"}]}"#;
        assert_eq!(of(llama), 9);
        assert_eq!(of("null"), 1);
        let step = r#"{"type":"Replace","pattern":{"String":"e"},"content":"eeeeeeeeee"}"#;
        assert_eq!(
            of(&format!(
                r#"{{"type":"Sequence","normalizers":[{step},{step},{step}]}}"#
            )),
            1000
        );
        assert_eq!(
            of(r#"{"type":"Replace","pattern":{"Regex":""},"content":"xx"}"#),
            3
        );
    }
}
