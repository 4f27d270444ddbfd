//! What flash did not give back whole is read again, before anybody draws a conclusion.
//!
//! The rule is that of the engine for what leaves the queue, and of volumes for their readers: an error may
//! pass by, and a device may answer nothing for a while. Behind a read that fails other places are read, to
//! see whether the device answers at all. Only a page that is unread while it does may be called lost: what
//! its owner does then is for good.

use mezzanine_device::AlignedBuf;
use mezzanine_engine::FlashPage;
use mezzanine_engine::format::SUPERBLOCK_BYTES;
use mezzanine_engine::planted::{self, Bug};

use crate::host::{FlashIo, Host};
use crate::message::Refusal;

/// How often a page is read before it counts as unreadable.
const READS: u32 = 2;

/// What became of a page that was read from flash.
pub(crate) enum Reread {
    Whole,
    /// The frame was given to another page meanwhile.
    Gone,
    Unread(Unread),
}

/// A page that flash did not give back.
pub(crate) struct Unread {
    pub(crate) why: String,
    /// The device answered nothing else either: nothing is said of the page.
    pub(crate) silent: bool,
}

impl Host {
    /// Reads a page of the tier.
    pub(crate) fn read_frame(&self, page: &FlashPage, bytes: &mut [u8]) -> Reread {
        let tier = self.tier();
        let mut unread = Unread { why: String::new(), silent: false };
        // What goes well when it is repeated costs nothing, here least of all.
        for _ in 0..if planted::is(Bug::SavedAtOnce) { 1 } else { READS } {
            let read = self.timed_read(page.offset, bytes);
            if !tier.confirm(page) {
                return Reread::Gone;
            }
            unread = match read {
                Ok(()) if tier.verify(page, bytes) => return Reread::Whole,
                Ok(()) => Unread { why: "is damaged".to_owned(), silent: false },
                Err(error) => Unread { why: format!("cannot be read: {error}"), silent: !self.answers() },
            };
            // Whatever it answers later: a page counts only if the device answered behind each read of it.
            if unread.silent && !planted::is(Bug::LastProbeCounts) {
                break;
            }
        }
        Reread::Unread(unread)
    }

    fn timed_read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), mezzanine_device::DeviceError> {
        self.server.flash_begins(FlashIo::Read);
        let read = self.flash.read_at(bytes, offset);
        self.server.flash_ended(FlashIo::Read);
        read
    }

    /// Whether the device answers at all.
    fn answers(&self) -> bool {
        let mut bytes = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
        self.geometry.answers(|offset| self.timed_read(offset, &mut bytes).is_ok())
    }

    /// What needs pages that only flash has, and cannot have them now.
    pub(crate) fn silent(&self) -> Refusal {
        Refusal::new(format!(
            "the flash tier on \"{}\" has pages that disk has not, and answers no read just now",
            self.flash_path().display()
        ))
        .hint("See to the flash device and try again; nothing is known to be lost.")
        // Nothing else has to end for it.
        .of_lost_pages()
    }
}
