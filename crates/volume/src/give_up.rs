//! A lost page is given up by name.
//!
//! Nobody but its owner can say that a page is dispensable, so nothing here does it for several at once, and
//! nothing does it by itself. What takes its place is a version like any other, newer than the lost one: so
//! it goes the way of all pages, to flash, over crashes, and to disk.

use mezzanine_engine::given_up_page;
use mezzanine_engine::planted::{self, Bug};

use crate::backing::FileInner;
use crate::core::{Local, TierHost, shared};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::health::Route;
use crate::statistics::count;

const OPERATION: &str = "give up a page of";

fn not_lost(file: &FileInner, offset: u64, reason: &str) -> VolumeError {
    VolumeError::new(VolumeErrorKind::NotLost, OPERATION, &file.name, reason).at(offset)
}

impl Local {
    /// See [`crate::VolumeFile::give_up`].
    pub(crate) fn give_up(&self, file: &FileInner, offset: u64) -> Result<(), VolumeError> {
        let size = file.page_size;
        if offset % size != 0 {
            let reason = format!("no page begins there: pages have {size} bytes");
            return Err(not_lost(file, offset, &reason));
        }
        // As for a write.
        self.ensure_started()?;
        {
            let _changing = shared(&self.changing);
            self.prepare(file, OPERATION)?;
            let layout = shared(&file.layout);
            if offset >= file.len() {
                let reason = format!("the file ends at byte {}", file.len());
                return Err(not_lost(file, offset, &reason));
            }
            match (self.health.route(OPERATION, &file.name)?, layout.as_deref()) {
                (Route::Tier, Some(host)) => self.give_up_page(host, file, offset / size)?,
                _ => return Err(not_lost(file, offset, "there is no tier in use, and disk has every page")),
            }
        }
        count(&self.counters().pages_given_up, 1);
        if planted::is(Bug::GivenUpUnsynced) {
            return Ok(());
        }
        self.sync_file(file).map(|_| ())
    }

    fn give_up_page(&self, host: &TierHost, file: &FileInner, block: u64) -> Result<(), VolumeError> {
        let start = block * file.page_size;
        let mut page = vec![0; host.page_size()];
        let mut look = || match self.read_page(host, file, block, &mut page) {
            Ok(()) => Err(not_lost(file, start, "a read brings the page")),
            Err(error) if error.kind() == VolumeErrorKind::LostPage => Ok(()),
            Err(error) => Err(error),
        };
        let early = planted::is(Bug::GivenUpThoughWritten).then(&mut look);
        planted::outside("give up: page not locked");
        // Somebody may be writing it anew just now.
        let _page = self.lock_pages(file, block, 1);
        early.unwrap_or_else(&mut look)?;
        page.fill(0);
        if !planted::is(Bug::GivenUpAsZeros) {
            // Behind the end of a file there are zeros, here as in every last page.
            let kept = (file.len() - start).min(file.page_size) as usize;
            given_up_page(&mut page[..kept]);
        }
        host.writing(|| self.stage_page(host, file, block, &page))
    }
}
