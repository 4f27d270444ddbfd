//! Memory that is gone to all over: in huge pages, where the kernel has them.

use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// Asks the kernel to use huge pages for this memory from the next touch on: lookups in a large directory
/// would else also miss the processor's table of translations. Where it has none, and of little memory, small
/// pages do.
///
/// # Panics
/// If the memory does not begin at a page.
pub fn prefer_huge_pages(memory: NonNull<[u8]>) {
    if memory.len() < 2 * HUGE_PAGE {
        return;
    }
    let start = memory.cast::<libc::c_void>();
    assert_eq!(start.as_ptr() as usize % 4096, 0, "memory begins at a page");
    // SAFETY: the advice changes nothing of what memory holds, whosever it is; what is not mapped is refused.
    let _ = unsafe { libc::madvise(start.as_ptr(), memory.len(), libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_holds_stays() {
        let mut buffer = crate::AlignedBuf::zeroed(8 << 20);
        buffer[5 << 20] = 7;
        prefer_huge_pages(NonNull::from(&mut buffer[..]));
        assert!(buffer.iter().enumerate().all(|(at, byte)| *byte == if at == 5 << 20 { 7 } else { 0 }));
    }
}
