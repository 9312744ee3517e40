//! Holds the module table of ARCHITECTURE.md against every `crate::` path in the sources.

use std::path::{Path, PathBuf};

/// Module, and what it may use besides itself.
const TABLE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("event", &["base"]),
    ("ledger", &["base", "event"]),
    ("plan", &["base", "event"]),
    ("diagnose", &["base", "event", "ledger", "plan"]),
    ("report", &["base", "event", "ledger", "diagnose", "plan"]),
    ("trace", &["base", "event"]),
    ("device", &["base"]),
    ("runtime", &["base", "event", "plan", "device"]),
    ("ops", &["base", "event", "device", "runtime"]),
    ("model", &["base", "event", "plan", "device", "runtime", "ops"]),
    (
        "cli",
        &[
            "base", "event", "ledger", "plan", "diagnose", "report", "trace", "device", "runtime", "ops",
            "model",
        ],
    ),
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the source folder is there") {
        let path = entry.expect("the source folder can be listed").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let inside = path.strip_prefix(&root).expect("listed below the root");
        let module = inside
            .iter()
            .next()
            .and_then(|part| part.to_str())
            .unwrap_or("")
            .trim_end_matches(".rs");
        if matches!(module, "lib" | "main") {
            continue;
        }
        let row = TABLE.iter().find(|(name, _)| *name == module);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{module} is not in the table"));
        let text = std::fs::read_to_string(&path).expect("a source file is text");
        for (number, line) in text.lines().enumerate() {
            for used in line.split("crate::").skip(1) {
                let used: String = used
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                if used != module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{}:{} uses {used}", inside.display(), number + 1));
                }
            }
            if module != "base" && (line.contains("Instant::now") || line.contains("SystemTime")) {
                wrong.push(format!(
                    "{}:{} reads the clock outside base",
                    inside.display(),
                    number + 1
                ));
            }
        }
        let lines = text.lines().count();
        if lines > 600 {
            wrong.push(format!(
                "{} has {lines} lines, the limit is 600",
                inside.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
