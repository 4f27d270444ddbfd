//! Ranges that are being invalidated, as they lie in the region (see `ranges`).

use mezzanine_ground::region::{Word, shared};

use crate::ids::{IdRange, PAGE_ID_BYTES, PageId};

/// Ranges that can be invalidated at the same time; whoever comes then waits.
pub(super) const RANGES_MAX: usize = 64;
/// Ranges of at most so many pages are looked up page by page.
pub(crate) const RANGE_LOOKUPS_MAX: u64 = 256;

/// A range that is being invalidated. Guarded by the control lock.
#[repr(C, align(64))]
pub(super) struct RangeInvalidation {
    /// 0 if there is none.
    pub(super) owner: Word,
    pub(super) range: [Word; 5],
}

/// The ranges that are being invalidated.
#[repr(C, align(64))]
pub(crate) struct RangeInvalidations {
    /// How many there are; mostly none, so that second chances need not look further.
    pub(super) active: Word,
    pub(super) ranges: [RangeInvalidation; RANGES_MAX],
}

shared!(RangeInvalidations);

impl RangeInvalidation {
    pub(super) fn set(&self, owner: u32, range: &IdRange) {
        for (word, bytes) in self.range.iter().zip(range.start.as_bytes().chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.set(u64::from_le_bytes(eight));
        }
        self.range[3].set(range.count);
        self.range[4].set(range.shift.into());
        self.owner.set(owner.into());
    }

    pub(super) fn range(&self) -> IdRange {
        let mut id = [0; PAGE_ID_BYTES];
        for (word, bytes) in self.range.iter().zip(id.chunks_mut(8)) {
            bytes.copy_from_slice(&word.get().to_le_bytes()[..bytes.len()]);
        }
        IdRange {
            start: PageId::from_bytes(id),
            count: self.range[3].get(),
            shift: self.range[4].get() as u8,
        }
    }
}
