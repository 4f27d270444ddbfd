//! Memory that is gone to all over: in huge pages, where the kernel has them.

use std::ptr::NonNull;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Asks the kernel to use huge pages for this memory from the next touch on: lookups in a large directory
/// would else also miss the processor's table of translations. Where it has none, and of little memory, small
/// pages do. Only pages that lie in it as a whole are asked for.
pub fn prefer_huge_pages(memory: NonNull<[u8]>) {
    if memory.len() < 2 * HUGE_PAGE {
        return;
    }
    let bytes = memory.cast::<u8>().as_ptr();
    let skipped = bytes.align_offset(PAGE);
    let start = bytes.wrapping_add(skipped).cast();
    // SAFETY: the advice changes nothing of what memory holds, whosever it is; what is not mapped is refused.
    let _ = unsafe { libc::madvise(start, memory.len() - skipped, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_holds_stays() {
        let mut buffer = crate::AlignedBuf::zeroed(8 << 20);
        buffer[5 << 20] = 7;
        prefer_huge_pages(NonNull::from(&mut buffer[..]));
        // Nothing says that memory begins at a page.
        prefer_huge_pages(NonNull::from(&mut buffer[100..]));
        assert!(buffer.iter().enumerate().all(|(at, byte)| *byte == if at == 5 << 20 { 7 } else { 0 }));
    }
}
