//! The trace container: what was recorded before a kill is readable after it.
//!
//! A file is a row of slots of [`SLOT`] bytes, each one block: a header, a committed length with checksum in
//! one atomic word, frames, zeros. A block is consistent at every instant, so `kill -9` costs at most
//! the event being written. No trailer block means *truncated*, never complete. `traces/FORMAT.md` has the layout.
//!
//! A file may be a ring of bounded size. Then its oldest events make room for new ones, but those that still say something
//! true are kept, with their own numbers: a reader says first how many are missing, then gives the kept ones, then
//! all from the [`Start`] on. A cut out of a trace is made the same way.

mod block;
mod carry;
mod codec;
mod copy;
mod cut;
mod draft;
mod follower;
mod format;
mod reader;
mod recorder;
mod ring;
mod slots;
mod source;
mod text;
mod writer;

pub use copy::{End, TraceWriter};
pub use cut::{CutError, CutReport, Range, cut};
pub use follower::{Followed, Follower};
pub use format::{
    Completeness, Header, RING_MIN, SCHEMA_VERSION, SLOT, Start, Summary, TraceError, WriteError,
};
pub use reader::TraceReader;
pub use recorder::{FileRecorder, Health};
pub use text::{TextError, TextTrace, assemble, line, parse_line, text_end, text_head};
