//! Keeps the table of kinds in `traces/FORMAT.md` equal to the schema. `UPDATE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use vramscope::event::{Class, Event};

fn table() -> String {
    let mut out = String::new();
    for kind in Event::KINDS {
        let class = if kind.class == Class::Book {
            "book"
        } else {
            "detail"
        };
        let _ = write!(
            out,
            "\n### {} · `{}` · {class}\n{}\n\n",
            kind.tag,
            kind.name,
            kind.doc.trim()
        );
        for field in kind.fields {
            let _ = write!(
                out,
                "- `{}`: {}.{}",
                field.name,
                field.type_name,
                field.doc.trim_end()
            );
            if !field.words.is_empty() {
                let _ = write!(out, " One of {}.", field.words.join(", "));
            }
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_reference_is_what_the_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/FORMAT.md");
    let text = std::fs::read_to_string(&path).expect("the reference is there");
    let mark = "<!-- kinds -->\n";
    let (before, after) = text.split_once(mark).expect("the reference has the mark");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{mark}{}", table())).expect("the reference can be written");
    } else {
        assert_eq!(after, table(), "run UPDATE_DOCS=1 cargo test --test format_doc");
    }
}
