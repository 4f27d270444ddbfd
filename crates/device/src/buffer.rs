//! Memory that direct I/O accepts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every [`AlignedBuf`] in bytes: a memory page, which satisfies the direct I/O of every device
/// we know.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// A zeroed heap buffer of fixed length whose first byte lies at a multiple of [`BUFFER_ALIGNMENT`].
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its memory alone and hands it out under the borrow rules of `self`, as a `Vec<u8>`
// does.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared references give only shared access to the bytes.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    /// When `len` is so large that no allocation could hold it; running out of memory aborts, as with `Vec`.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self { start: NonNull::dangling(), len };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout has a length above zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, len }
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, BUFFER_ALIGNMENT).expect("buffer length exceeds the address space")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed once, here.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) };
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at `len` initialised bytes (dangling only when `len` is 0) that live as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for len in [0, 1, 511, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuf::zeroed(len);
            assert_eq!(buffer.len(), len);
            assert!(len == 0 || buffer.as_ptr() as usize % BUFFER_ALIGNMENT == 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert_eq!(&*buffer.clone(), &vec![7; len][..]);
        }
    }
}
