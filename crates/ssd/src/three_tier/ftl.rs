//! The translation layer under BL and LPD: page mapping, out-of-place updates, collection in batches between
//! two watermarks (sections 1.1, 3.1 and 4).
//!
//! It is not the one of a drive (`crate::ftl`). That one spreads collection evenly over what is programmed,
//! moves what is valid to blocks of its own and holds back blocks besides; here a batch goes on until the
//! high watermark is reached, and moved pages share the write pointer. Both follow from the paper's sizes:
//! the slots of the cache take all flash but the reserve, so with all slots in use the high watermark is out
//! of reach as long as one block is open, and a batch ends when no block has an invalid page left.
//!
//! Invariant *L1*: a flash page is valid if and only if the map names it.

use crate::ConfigError;

use super::flash::{Collects, Flash, FlashConfig};

#[derive(Debug)]
pub(super) struct Ftl {
    pub(super) flash: Flash,
    /// Of each logical page, its flash page (m_FTL); + 1, 0 = none.
    map: Box<[u32]>,
}

impl Ftl {
    pub(super) fn new(config: FlashConfig) -> Result<Self, ConfigError> {
        let flash = Flash::new(config)?;
        Ok(Self { flash, map: vec![0; config.logical_pages() as usize].into() })
    }

    /// # Panics
    /// If the logical page has no version.
    pub(super) fn read(&mut self, logical: u32) -> u64 {
        let at = self.map[logical as usize].checked_sub(1).expect("only what was written is read");
        self.flash.read(at)
    }

    pub(super) fn write(&mut self, logical: u32, content: u64) {
        self.make_room();
        let at = self.flash.program(logical, content);
        // The version before is valid until this one is programmed; collection may have moved it meanwhile.
        let before = std::mem::replace(&mut self.map[logical as usize], at + 1);
        if let Some(before) = before.checked_sub(1) {
            self.flash.invalidate(before);
        }
    }

    /// The extension of the interface (section 3.1): nobody needs the version any more.
    pub(super) fn delete(&mut self, logical: u32) {
        if let Some(before) = std::mem::take(&mut self.map[logical as usize]).checked_sub(1) {
            self.flash.invalidate(before);
        }
    }

    /// N1 to N3, F1 and L1.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let Self { flash, map } = self;
        flash.check(|at, logical| map[logical as usize] == at + 1)?;
        for (logical, at) in map.iter().enumerate() {
            let Some(at) = at.checked_sub(1) else { continue };
            if flash.owner(at) != Some(logical as u32) {
                return Err(format!("L1: logical page {logical} is in flash page {at}, which is another's"));
            }
        }
        Ok(())
    }
}

impl Collects for Ftl {
    fn flash(&mut self) -> &mut Flash {
        &mut self.flash
    }

    /// Collects the block with the fewest valid pages (section 1.2). False if that would free nothing.
    fn collect(&mut self) -> bool {
        let Some((block, valid)) = self.flash.fewest_valid() else { return false };
        if valid == self.flash.config().pages_per_block {
            return false;
        }
        self.flash.take(block);
        for at in self.flash.pages_of(block) {
            let Some(logical) = self.flash.owner(at) else { continue };
            if self.map[logical as usize] == at + 1 {
                let content = self.flash.read(at);
                self.map[logical as usize] = self.flash.program(logical, content) + 1;
                self.flash.invalidate(at);
            }
        }
        self.flash.erase();
        true
    }
}
