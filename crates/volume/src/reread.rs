//! What flash did not give back whole is read again, before anybody draws a conclusion.
//!
//! The engine does so for what leaves the queue, and this is its rule for readers and drains. An error may
//! pass by, and a device may answer nothing for a while: a controller that is reset, a path that changes. So
//! the page is read again by itself, in two rounds. Behind a read that fails other places are
//! read, the *probes*: whether the device answers at all.
//!
//! ```text
//!   read --> whole ---------------------------------------------------> its reader has it
//!    |                                                                    ^
//!    +--> alone --> probe --> alone --> probe --> unread, and ... -------+ (whole, at any of them)
//!                     |                   |
//!                     +- nothing answers -+--> silent: nothing is said of the page
//! ```
//!
//! Only a page that is unread while the device answers may be called lost: what its owner does then, giving
//! it up by name or going back to a backup, is for good.

use mezzanine_device::{AlignedBuf, DeviceError};
use mezzanine_engine::FlashPage;
use mezzanine_engine::format::SUPERBLOCK_BYTES;
use mezzanine_engine::planted::{self, Bug};

use crate::backing::FileInner;
use crate::core::{Local, TierHost};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::statistics::count;

/// How often a page that was not read whole is read again by itself.
const ROUNDS: u32 = 2;

/// What became of a page that was read from flash.
pub(crate) enum Reread {
    Whole,
    /// The frame was given to another page meanwhile.
    Gone,
    Unread(Unread),
}

/// A page that flash did not give back.
#[derive(Default)]
pub(crate) struct Unread {
    /// What the last read failed with; nothing if what it brought is not the page.
    pub(crate) cause: Option<DeviceError>,
    /// The device answered nothing else either.
    pub(crate) silent: bool,
}

/// What a page that was read is, unless it has to be read again.
#[inline]
fn look(host: &TierHost, page: &FlashPage, bytes: &[u8], read: &Result<(), DeviceError>) -> Option<Reread> {
    let whole = read.is_ok() && host.tier.verify(page, bytes);
    match () {
        () if !host.tier.confirm(page) => Some(Reread::Gone),
        () if whole => Some(Reread::Whole),
        () => None,
    }
}

impl Local {
    /// Judges a page that was `read` from flash into `bytes`, alone or with others; reads it again while it
    /// is not whole.
    #[inline]
    pub(crate) fn reread(
        &self,
        host: &TierHost,
        page: &FlashPage,
        bytes: &mut [u8],
        read: Result<(), DeviceError>,
    ) -> Reread {
        look(host, page, bytes, &read).unwrap_or_else(|| self.read_again(host, page, bytes, read))
    }

    #[cold]
    fn read_again(
        &self,
        host: &TierHost,
        page: &FlashPage,
        bytes: &mut [u8],
        mut read: Result<(), DeviceError>,
    ) -> Reread {
        let mut round = 0;
        loop {
            let at_once = planted::is(Bug::UnreadableAtOnce) || planted::is(Bug::RunFailsItsPages);
            let silent = read.is_err() && round > 0 && !self.answers(host);
            if silent || round == ROUNDS || at_once {
                return Reread::Unread(Unread { cause: read.err(), silent });
            }
            round += 1;
            count(&self.counters().flash_reads, 1);
            read = host.flash.read_at(bytes, page.offset);
            if let Some(known) = look(host, page, bytes, &read) {
                return known;
            }
        }
    }

    /// Whether the device answers at all.
    fn answers(&self, host: &TierHost) -> bool {
        let mut bytes = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
        host.tier.geometry().answers(|offset| {
            count(&self.counters().flash_reads, 1);
            host.flash.read_at(&mut bytes, offset).is_ok()
        })
    }

    /// The error of a page whose only copy was not read.
    pub(crate) fn unread_page(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        page: &FlashPage,
        unread: Unread,
    ) -> VolumeError {
        let (place, flash) = (page.offset, &host.flash_name);
        let error = if unread.silent {
            let reason = format!(
                "the newest version of this page is at byte {place} of {flash}, and the flash device answers no read \
                 just now"
            );
            VolumeError::new(VolumeErrorKind::Io, "read", &file.name, reason)
                .advise("see to the device and try again; nothing is known to be lost")
                .silence()
        } else {
            let what = if unread.cause.is_some() { "cannot be read" } else { "is damaged" };
            let reason = format!("the newest version of this page is at byte {place} of {flash} and {what}");
            VolumeError::new(VolumeErrorKind::LostPage, "read", &file.name, reason).advise(
                "restore the file from a backup, write this page anew if its contents are known, or give it up by name \
                 (mezz tier give-up)",
            )
        };
        let error = error.at(block.saturating_mul(file.page_size));
        match unread.cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}
