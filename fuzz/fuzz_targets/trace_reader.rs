//! Any bytes as a trace: read, followed and cut, without a panic and without end.
//!
//! The first byte says what the rest is. 0: the file as it is. Otherwise: a recipe, whose checksums are put right here, since
//! random bytes never have the right ones. It is a row of blocks, each `kind[1] first_seq[2] base_time[2]
//! length[2]` in little endian, and then that many bytes of payload.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use vramscope::base::Seq;
use vramscope::trace::{Completeness, Followed, Follower, Range, SLOT, TraceError, TraceReader, cut};

/// Bytes of a block before its payload, and those that its checksum covers.
const HEADER: usize = 32;
const COMMITTED: usize = 24;
/// Bytes of a block of a recipe before its payload.
const RECIPE_HEAD: usize = 7;
/// Blocks of a recipe.
const BLOCKS_MAX: usize = 16;

fn from_recipe(mut recipe: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for _ in 0..BLOCKS_MAX {
        let Some((head, rest)) = recipe.split_first_chunk::<RECIPE_HEAD>() else {
            break;
        };
        let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let length = usize::from(number(5)).min(rest.len()).min(SLOT - HEADER);
        let (payload, rest) = rest.split_at(length);
        recipe = rest;
        let mut slot = vec![0; SLOT];
        slot[..6].copy_from_slice(&[b'V', b'T', b'B', b'1', head[0], 1]);
        slot[8..16].copy_from_slice(&u64::from(number(1)).to_le_bytes());
        slot[16..24].copy_from_slice(&u64::from(number(3)).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..COMMITTED]), payload);
        let committed = u64::from(crc) << 32 | length as u64;
        slot[COMMITTED..HEADER].copy_from_slice(&committed.to_le_bytes());
        slot[HEADER..HEADER + length].copy_from_slice(payload);
        file.extend_from_slice(&slot);
    }
    file
}

/// How many events the reader gives, and whether the file is whole.
fn read(file: &[u8]) -> Result<(u64, bool), TraceError> {
    let mut reader = TraceReader::open(Cursor::new(file))?;
    let mut given = 0;
    while reader.next_event()?.is_some() {
        given += 1;
    }
    let completeness = reader.summary().completeness;
    let whole = matches!(completeness, Completeness::Complete { .. } | Completeness::Cut);
    Ok((given, whole))
}

/// How many events the follower gives, and whether it saw the end.
fn follow(file: &[u8]) -> Result<(u64, bool), TraceError> {
    let mut follower = Follower::open(Cursor::new(file))?;
    let mut given = 0;
    loop {
        match follower.poll()? {
            Followed::Event(_) => given += 1,
            Followed::Restarted => given = 0,
            Followed::Nothing => return Ok((given, false)),
            Followed::Ended => return Ok((given, true)),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = if *kind == 0 {
        rest.to_vec()
    } else {
        from_recipe(rest)
    };
    let (whole, followed) = (read(&file), follow(&file));
    if let Ok((events, true)) = whole {
        // The follower gives up on what no writer leaves, such as a hole between blocks; where it sees the end, it saw all.
        if let Ok((given, true)) = followed {
            assert_eq!(given, events, "reader and follower disagree");
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (Some(Seq(events / 2)), None);
        let out = folder.path().join("cut");
        if cut(Cursor::new(&file), &out, Range::Events { from, to }).is_ok() {
            let bytes = std::fs::read(&out).expect("the file just written");
            let (_, whole) = read(&bytes).expect("what was just cut");
            assert!(whole, "a cut is not whole");
        }
    }
});
