//! A flash device under a tier whose pages are all the same page of zeros: it holds the group summaries,
//! which second chances are read from, and no pages.
//!
//! 1. What is read is what was written there last; where nothing was written, and where zeros were, it is
//!    zeros.

use mezzanine_device::prefer_huge_pages;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{Blank, Geometry, ReadError, ReadFlash, Tier};

/// A tier in memory of its own, over flash that holds nothing yet.
pub(crate) fn new_tier(geometry: &Geometry, owner: u32) -> Tier {
    let superblock = Superblock::new(geometry, [1; 16], [2; 16]);
    let memory = Blank::heap(geometry.region_bytes());
    prefer_huge_pages(memory.memory());
    let recovered = Tier::recover(memory, &superblock, owner, &mut Unwritten);
    recovered.expect("a blank device has nothing that could be damaged").tier
}

/// Flash that keeps frames unless they are zeros.
pub(crate) struct Hollow {
    page_size: usize,
    /// By the number of the frame on the device.
    kept: Vec<Option<Box<[u8]>>>,
}

impl Hollow {
    /// Of the size that a tier needs.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let page_size = geometry.page_size();
        let frames = geometry.flash_bytes().div_ceil(page_size as u64) as usize;
        Self { page_size, kept: std::iter::repeat_with(|| None).take(frames).collect() }
    }

    /// Bytes of memory that it takes when the queue is full.
    pub(crate) fn bytes(geometry: &Geometry) -> u64 {
        let summaries = geometry.frames() / geometry.group_frames() * geometry.summary_frames();
        let frames = geometry.flash_bytes().div_ceil(geometry.page_size() as u64);
        frames * size_of::<Option<Box<[u8]>>>() as u64
            + summaries * (geometry.page_size() as u64 + ALLOCATION_BYTES)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset as usize / self.page_size;
        for (kept, frame) in self.kept[first..].iter_mut().zip(bytes.chunks(self.page_size)) {
            if is_zeros(frame) {
                *kept = None;
                continue;
            }
            match kept {
                Some(kept) => kept.copy_from_slice(frame),
                None => *kept = Some(frame.into()),
            }
        }
    }

    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let first = offset as usize / self.page_size;
        for (kept, frame) in self.kept[first..].iter().zip(bytes.chunks_mut(self.page_size)) {
            match kept {
                Some(kept) => frame.copy_from_slice(&kept[..frame.len()]),
                None => frame.fill(0),
            }
        }
    }
}

/// Bytes that keeping a summary takes beside its own.
const ALLOCATION_BYTES: u64 = 16;

fn is_zeros(bytes: &[u8]) -> bool {
    // The library's comparison takes the widest words that the processor has.
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && *rest == bytes[..rest.len()],
    }
}

/// Flash on which nothing was ever written.
struct Unwritten;

impl ReadFlash for Unwritten {
    fn read(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_zeros;

    #[test]
    fn a_byte_anywhere_is_seen() {
        assert!(is_zeros(&[]) && is_zeros(&[0]) && is_zeros(&[0; 4096]));
        for at in 0..4096 {
            let mut page = [0; 4096];
            page[at] = 1;
            assert!(!is_zeros(&page), "byte {at}");
        }
        assert!(!is_zeros(&[1; 4096]) && !is_zeros(&[1]));
    }
}
