//! The trace container: what was recorded before a kill is readable after it.
//!
//! A file is a row of slots of [`SLOT`] bytes, each one block: a header, a committed length with checksum in
//! one atomic word, frames, zeros. A block is consistent at every instant, so `kill -9` costs at most
//! the event being written. No trailer block means *truncated*, never complete. `traces/FORMAT.md` has the layout.

mod codec;
mod format;
mod reader;
mod recorder;
mod text;

pub use format::{Completeness, Header, SCHEMA_VERSION, SLOT, Summary, TraceError};
pub use reader::TraceReader;
pub use recorder::{FileRecorder, Health};
pub use text::{TextError, assemble, dump, line, parse_line};
