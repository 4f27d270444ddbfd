//! Memory that processes share: the one place of this crate that maps any.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// A readable and writable shared mapping at an address of the kernel's choice.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; this type gives out its address and nothing
// else.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file that is at least as long, or anonymous memory shared with the
    /// children that this process forks from now on. The mapping outlives the descriptor.
    pub(crate) fn new(file: Option<&File>, bytes: usize) -> io::Result<Self> {
        let (fd, flags) = match file {
            Some(file) => (file.as_raw_fd(), libc::MAP_SHARED),
            None => (-1, libc::MAP_SHARED | libc::MAP_ANONYMOUS),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(start.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, bytes })
    }

    /// The first byte, aligned to a page of the machine; valid as long as `self`.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Advises the kernel about the whole mapping.
    pub(crate) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is this mapping; the kinds of advice used here change no contents.
        let result = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and whoever has its address has a borrow of
        // it or owns it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
