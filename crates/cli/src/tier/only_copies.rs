//! The pages that only a tier at rest has, and whether it gives them back.

use std::path::Path;

use mezzanine_device::Device as _;
use mezzanine_engine::{DrainCursor, FlashPage, PageId, Tier};

use super::open::Flash;
use crate::failure::{Failure, chain};

/// Pages are looked up this many at a time.
const BATCH_PAGES: usize = 1024;

/// A page that is newer on flash than in its file.
pub(crate) struct OnlyCopy {
    pub(crate) id: PageId,
    /// Flash does not give it back.
    pub(crate) damaged: bool,
}

/// All such pages of the tier on this file or device. Changes nothing.
pub(crate) fn only_copies(flash: &Path) -> Result<Vec<OnlyCopy>, Failure> {
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
        copies.extend(batch.iter().map(|page| OnlyCopy {
            id: page.id,
            damaged: damage(&flash, &tier, &page.flash, &mut buffer).is_some(),
        }));
    }
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
