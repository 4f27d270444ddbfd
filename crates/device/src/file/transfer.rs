//! One read or write on its way to the kernel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Memory of a transfer.
pub(super) enum Memory<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

/// A read or write of `memory` at `offset`, of which the first `done` bytes are complete.
pub(super) struct Transfer<'a> {
    /// Where the transfer goes; opened for direct I/O where the device is.
    pub(super) file: &'a File,
    /// The same file through the page cache, for what a direct transfer leaves over or refuses: a transfer
    /// that meets the end of a file or a limit need not end aligned, and the kernel then answers
    /// "invalid argument" in place of the true reason.
    pub(super) buffered: &'a File,
    pub(super) memory: Memory<'a>,
    pub(super) offset: u64,
    pub(super) done: usize,
}

impl Transfer<'_> {
    /// Length in bytes.
    pub(super) fn len(&self) -> usize {
        match &self.memory {
            Memory::Read(buf) => buf.len(),
            Memory::Write(buf) => buf.len(),
        }
    }

    /// Carries out what is not done yet, on this thread.
    pub(super) fn carry_out(&mut self) -> io::Result<()> {
        let mut refused = false;
        while self.done < self.len() {
            let direct = self.done == 0 && !refused;
            let file = if direct { self.file } else { self.buffered };
            let position = self.offset + self.done as u64;
            let moved = match &mut self.memory {
                Memory::Read(buf) => file.read_at(&mut buf[self.done..], position),
                Memory::Write(buf) => file.write_at(&buf[self.done..], position),
            };
            match moved {
                Ok(0) => return Err(self.nothing_moved()),
                Ok(count) => self.done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => refused = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The error for a call that succeeded and moved no byte.
    pub(super) fn nothing_moved(&self) -> io::Error {
        match self.memory {
            Memory::Read(_) => io::ErrorKind::UnexpectedEof.into(),
            Memory::Write(_) => io::ErrorKind::WriteZero.into(),
        }
    }
}
