//! Operating-system calls, each with a portable fallback. No platform's types show in the interface.

use std::fs::File;
use std::io;

/// Makes `file` at least `len` bytes long with its blocks allocated, so that a later write through a
/// memory map can't hit a full disk (on Unix that would be a SIGBUS, not an error).
///
/// # Errors
/// What the system says, among them a full disk.
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    write_zeros(file, offset, len)
}

fn write_zeros(mut file: &File, offset: u64, len: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    let zeros = [0u8; 4096];
    file.seek(SeekFrom::Start(offset))?;
    let mut left = len;
    while left > 0 {
        let part = left.min(zeros.len() as u64) as usize;
        file.write_all(&zeros[..part])?;
        left -= part as u64;
    }
    Ok(())
}
