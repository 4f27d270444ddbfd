//! A queue that grows and shrinks while the server runs, within the room that the tier was laid out for.
//!
//! The engine's `resize` says how: the new size takes effect when the rear comes to the place where the ring
//! is cut or extended, and needs one superblock to be written there. Whoever looks for a job then and finds
//! none does that.

use mezzanine_engine::Failure;
use mezzanine_engine::format::Superblock;

use crate::host::Host;
use crate::message::Refusal;
use crate::settings::shown;

impl Host {
    /// Bytes of flash that a queue of so many frames takes, metadata included.
    pub fn flash_bytes(&self, frames: u64) -> u64 {
        let unused = self.geometry.frames_max() - frames.min(self.geometry.frames_max());
        self.geometry.flash_bytes() - unused * self.geometry.page_size() as u64
    }

    /// The sizes of a tier that could not be made anew with those that are configured, and these, in a
    /// sentence; empty if they are the same.
    pub(crate) fn sizes_kept(&self, superblock: &Superblock) -> String {
        if self.settings.accepts_shape(&superblock.config) {
            return String::new();
        }
        let sizes = |bytes: u64, most: u64, group_pages: u32| {
            // A tier is a little smaller than the megabytes that it was made of.
            let whole = |bytes: u64| shown(bytes.next_multiple_of(1 << 20));
            let groups = match group_pages {
                0 => String::new(),
                pages => format!(" in groups of {pages} pages"),
            };
            format!("{}, at most {}{groups}", whole(bytes), whole(most.max(bytes)))
        };
        let config = &superblock.config;
        let has = sizes(self.flash_bytes(config.frames), self.geometry.flash_bytes(), config.group_pages);
        let settings = &self.settings;
        let wanted = sizes(settings.flash_bytes, settings.flash_bytes_max, settings.group_pages);
        format!("It has {has}; configured are {wanted}.")
    }

    /// Asks for a queue that takes `bytes` bytes of flash. It is not waited for: it takes effect when the
    /// queue has come round.
    ///
    /// # Errors
    /// If the tier has no room for so many, needs more than so few, or there is no space for them.
    pub fn resize(&self, bytes: u64) -> Result<(), Refusal> {
        let most = self.geometry.flash_bytes();
        if bytes > most {
            return Err(Refusal::new(format!("the flash tier cannot grow to {}", shown(bytes)))
                .detail(format!("It was laid out for at most {}.", shown(most)))
                .hint(format!("{} the server down with mezzanine.drain_on_shutdown turned on, and start it again: the tier is then made anew.", if bytes > self.settings.flash_bytes_max { "Raise mezzanine.flash_size_max, shut" } else { "Shut" })));
        }
        let frames = bytes.saturating_sub(self.flash_bytes(0)) / self.geometry.page_size() as u64;
        if frames > self.tier().frames() {
            self.reserve_space(frames)?;
        }
        let begun = {
            let _alone = self.lock_superblock();
            self.tier().begin_resize(frames)
        };
        begun.map_err(|error| {
            Refusal::new(format!("the flash tier cannot shrink to {}", shown(bytes)))
                .detail(error)
                .hint("Choose a larger size; a smaller tier has to be made anew.")
        })?;
        self.server.progressed();
        Ok(())
    }

    /// Cuts or extends the ring, if the engine waits for that. False if it does not.
    pub(crate) fn cut_ring(&self) -> bool {
        let tier = self.tier();
        if !tier.resize_waits() || tier.failure().is_some() {
            return false;
        }
        let _alone = self.lock_superblock();
        // Somebody else may have been faster.
        if !tier.resize_waits() {
            return true;
        }
        let before = tier.frames();
        let resized = tier.resized(&self.superblock());
        if self.put_superblock(&resized).is_err() {
            // Which of the two is durable is not known, and the rear stays where both find every frame.
            tier.report_failure(Failure::FlashWrite);
            return true;
        }
        tier.finish_resize();
        tier.publish(&resized);
        let (from, to) = (self.flash_bytes(tier.frames()), self.flash_bytes(before));
        if from < to {
            // The space is given back if the device can do that. Nothing depends on it.
            let _ = self.flash.discard(from, to - from);
        }
        true
    }
}
