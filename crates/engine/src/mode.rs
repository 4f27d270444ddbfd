//! Whether pages are taken, and in which sync mode: both change while the tier is in use.

use crate::config::SyncMode;
use crate::core::Tier;
use crate::planted::{self, Bug};

impl Tier {
    /// Stops taking pages: dirty ones are refused from now on, clean ones dropped. What was on its way is in
    /// the tier when this returns. It stays so if the process that asked for it dies.
    pub fn stop_admission(&self) {
        self.control().stopped.set(1);
        planted::outside("admission: stopped, pages on their way");
        if !planted::is(Bug::AdmissionStopsAtOnce) {
            self.directory().pass_locks(self.owner);
        }
    }

    /// Takes pages again, unless the flash device has failed.
    pub fn resume_admission(&self) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if !self.failure().is_some_and(crate::Failure::ends_writing) {
            control.stopped.set(0);
            planted::inside("admission: resumed");
        }
    }

    /// The sync mode now. The configuration says what it was when the tier was opened.
    pub fn sync_mode(&self) -> SyncMode {
        let code = self.control().sync_mode.get() as u8;
        SyncMode::from_code(code).unwrap_or_else(|| panic!("the region holds the unknown sync mode {code}"))
    }

    /// Goes on in another sync mode. Readers notice nothing; writers' pages go to disk for the moment:
    ///
    /// 1. [`Self::stop_admission`]: no page is on its way in one mode while it counts in another.
    /// 2. [`Self::request_sync`], wait; sync the disk, too.
    /// 3. To `through`, [`Self::request_drain`] of everything, wait: such a tier is emptied after a crash, so
    ///    nothing in it may be the only copy.
    /// 4. [`Superblock::with_sync_mode`](crate::format::Superblock::with_sync_mode), durable.
    /// 5. This, and [`Self::resume_admission`].
    ///
    /// One process at a time. If it dies on the way, another one makes a superblock with [`Self::sync_mode`]
    /// durable, generation after that of the one on flash, before it resumes admission: the mode on flash
    /// may be the new one already.
    ///
    /// # Panics
    /// If admission has not stopped, or the tier would hold only copies in mode `through`, or the design goes
    /// with no other mode than that ([`Design::has_slots`](crate::Design::has_slots)).
    pub fn set_sync_mode(&self, mode: SyncMode) {
        assert!(self.control().stopped.get() != 0, "the sync mode changes only while admission has stopped");
        let allowed = mode == SyncMode::Through || !self.geometry.config().design.has_slots();
        assert!(allowed, "a design with a slot directory keeps disk as new as flash");
        let clean = mode != SyncMode::Through || self.valid_and_dirty().1 == 0;
        assert!(clean, "a tier in mode through holds no only copies");
        let _guard = self.control().lock.lock(self.owner);
        self.control().sync_mode.set(mode.code().into());
        planted::inside("sync mode: set");
    }
}
