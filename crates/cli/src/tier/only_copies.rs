//! The pages of a server's tier at rest that its files have not, and whether flash gives them back.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mezzanine_engine::{DrainCursor, FlashPage, PageId, Tier};

use super::open::Flash;
use super::postgres::{SEGMENT_BLOCKS, file_of};
use crate::failure::{Failure, chain};

/// Pages are looked up this many at a time.
const BATCH_PAGES: usize = 1024;

/// A page that its file has not got as flash has it.
pub(crate) struct OnlyCopy {
    pub(crate) id: PageId,
    /// Flash does not give it back.
    pub(crate) damaged: bool,
}

/// All such pages of the tier on this file or device, with the files of this data directory. Of many a tier
/// that was closed undrained does not know that they were written to disk: so each is compared with its file,
/// by its checksum. Changes nothing.
pub(crate) fn only_copies(flash: &Path, data: &Path) -> Result<Vec<OnlyCopy>, Failure> {
    let mut flash = Flash::open(flash)?;
    let superblock = flash.superblock()?;
    let geometry = flash.geometry(&superblock)?;
    let tier = flash.recover(&superblock, &geometry)?.tier;
    let mut cursor = DrainCursor::default();
    let mut buffer = vec![0; geometry.page_size()];
    let mut copies = Vec::new();
    loop {
        let batch = tier.drain_batch(&mut cursor, BATCH_PAGES);
        if batch.is_empty() {
            return Ok(copies);
        }
        for page in &batch {
            if on_disk(&page.id, data, &mut buffer) && tier.verify(&page.flash, &buffer) {
                continue;
            }
            let damaged = damage(&flash, &tier, &page.flash, &mut buffer).is_some();
            copies.push(OnlyCopy { id: page.id, damaged });
        }
    }
}

/// Reads a page as its file has it; false if that does not reach so far.
fn on_disk(id: &PageId, data: &Path, buffer: &mut [u8]) -> bool {
    let [.., block] = id.relation_parts();
    let offset = u64::from(block % SEGMENT_BLOCKS) * buffer.len() as u64;
    File::open(data.join(file_of(id))).is_ok_and(|file| file.read_exact_at(buffer, offset).is_ok())
}

/// Why flash does not give a page back; `None` if it does.
pub(super) fn damage(flash: &Flash, tier: &Tier, at: &FlashPage, buffer: &mut [u8]) -> Option<String> {
    let mut look = || match flash.device.read_at(buffer, at.offset) {
        Ok(()) if tier.verify(at, buffer) => None,
        Ok(()) => Some("its checksum does not fit".to_owned()),
        Err(error) => Some(chain(&error)),
    };
    // Once more, before a good page is called damaged: a bit may flip on its way.
    look().and_then(|_| look())
}
