//! Pages that leave the server's pool, are read back, or are gone for good.

use mezzanine_device::AlignedBuf;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    Failure, FlashPage, IdRange, Lookup, Mark, PageId, StageIn, StageKind, SyncMode, Token, given_up_page,
};

use crate::host::{DiskRead, Host};
use crate::message::Refusal;
use crate::reread::Reread;

/// What became of a dirty page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The tier has it: the server is done.
    Taken,
    /// The tier has it, and the server writes it to disk as well.
    AlsoDisk,
    /// The server writes it to disk, syncs that if the tier can hold only copies, and then calls
    /// [`Host::forget`].
    Refused,
}

/// Where a page was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was copied to the buffer given.
    Here,
    /// The disk has it.
    OnDisk,
    /// Its only copy is damaged or cannot be read: the disk's is old and must not be used.
    Lost,
    /// Its only copy is on a flash device that answers no read just now.
    Silent,
    /// Flash does not give it back, and a read of the disk fails: it may be lost or on disk.
    Unknown,
}

/// Whether disk has this very version of a page that flash does not give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskHas {
    Newest,
    /// Another version, or nothing.
    Other,
    /// It cannot be read just now.
    Unknown,
}

/// How often disk is read before it counts as having another version of a page than the newest. One read may
/// fail, or bring another bit, and what takes the place of a lost page destroys what is there.
const DISK_READS: u32 = 2;

/// How often a page that keeps moving is looked up before that is taken for a mistake.
const LOOKUPS_MAX: u32 = 10_000;

impl Host {
    /// Takes a dirty page whose log is forced. `since` is `None` if it carries changes from before the redo
    /// pointer of the checkpoint under way, else the mark that was read before that was looked up.
    ///
    /// # Errors
    /// If a device has failed so that there will never be room, or stage-out makes none because disk does not
    /// take pages.
    pub fn write(&self, id: &PageId, page: &[u8], lsn: u64, since: Option<Mark>) -> Result<Written, Refusal> {
        let kind = since.map_or(StageKind::DirtyBeforeMark, StageKind::DirtySince);
        let tier = self.tier();
        let mut attempts = 0;
        loop {
            let seen = tier.progress();
            match tier.stage_in(id, page, kind, lsn) {
                StageIn::Staged { also_disk: false } => return Ok(Written::Taken),
                StageIn::Staged { also_disk: true } => return Ok(Written::AlsoDisk),
                StageIn::Refused | StageIn::Dropped | StageIn::FirstTouch => return Ok(Written::Refused),
                StageIn::Full => {}
            }
            if let Some(failure) = tier.failure() {
                if tier.sync_mode() == SyncMode::Through {
                    return Ok(Written::Refused);
                }
                return Err(self.failed(failure));
            }
            if self.help() {
                continue;
            }
            let asked = attempts;
            self.ask_disk(seen, &mut attempts)?;
            // What was asked for is there for this process to do.
            if attempts == asked && tier.progress() == seen {
                self.server.wait(seen);
            }
        }
    }

    /// A clean page is about to leave the pool, and nobody else can have it yet: what [`Self::offer`] needs
    /// when it has; `None` if the tier has the page.
    pub fn token_unless_held(&self, id: &PageId) -> Option<Token> {
        self.tier().token_unless_held(id)
    }

    /// Offers a clean page that has left the pool. The tier takes it if nothing newer of it was written, to
    /// the tier or past it, and it was not dropped, since the token. Never waits, does no I/O.
    pub fn offer(&self, id: &PageId, page: &[u8], lsn: u64, token: Token) -> bool {
        matches!(self.tier().stage_in(id, page, StageKind::Clean(Some(token)), lsn), StageIn::Staged { .. })
    }

    /// Reads a page if the tier has it.
    pub fn read(&self, id: &PageId, page: &mut [u8]) -> Found {
        let (found, flash) = self.find(id, page);
        if let (Found::Lost, Some(flash)) = (found, &flash) {
            self.lose_page(flash);
        }
        found
    }

    /// The same, with no consequences for a page that is lost; and where on flash it was looked for.
    fn find(&self, id: &PageId, page: &mut [u8]) -> (Found, Option<FlashPage>) {
        let tier = self.tier();
        for _ in 0..LOOKUPS_MAX {
            let found = tier.lookup(id, page);
            self.outdate_ahead(id, &found);
            match found {
                Lookup::Memory => return (Found::Here, None),
                Lookup::Miss(_) => return (Found::OnDisk, None),
                Lookup::Flash(flash) if self.take_ahead(id, &flash, page) => {
                    return (Found::Here, Some(flash));
                }
                Lookup::Flash(flash) => {
                    if let Some(found) = self.read_flash(id, &flash, page) {
                        return (found, Some(flash));
                    }
                }
            }
        }
        panic!("page {id:?} moved {LOOKUPS_MAX} times while it was read");
    }

    /// Reads a page that was found on flash; `None` if it left its frame meanwhile.
    fn read_flash(&self, id: &PageId, flash: &FlashPage, page: &mut [u8]) -> Option<Found> {
        let tier = self.tier();
        let unread = match self.read_frame(flash, page) {
            Reread::Gone => return None,
            Reread::Whole => return Some(Found::Here),
            Reread::Unread(unread) => unread,
        };
        if flash.dirty && !tier.on_disk(id, flash) {
            let disk = self.disk_has(id, flash, page);
            // A newer version may have come since the lookup; then this one does not matter.
            let newest = matches!(tier.lookup(id, page), Lookup::Flash(now) if now == *flash);
            let found = match disk {
                DiskHas::Newest => Found::OnDisk,
                _ if unread.silent => Found::Silent,
                DiskHas::Unknown => Found::Unknown,
                DiskHas::Other => Found::Lost,
            };
            return newest.then_some(found);
        }
        // The frame is as good as ever if the device just answers nothing.
        if !unread.silent {
            self.bury_clean(id, flash);
        }
        tier.invalidate_clean(id, flash);
        Some(Found::OnDisk)
    }

    /// Whether disk has this very version of a page that flash does not give back: then it is in `out`, and
    /// durable with the next sync of the disk. See [`mezzanine_engine::Tier::disk_has`].
    pub(crate) fn disk_has(&self, id: &PageId, page: &FlashPage, out: &mut [u8]) -> DiskHas {
        let mut has = DiskHas::Other;
        for _ in 0..if planted::is(Bug::DiskReadOnce) { 1 } else { DISK_READS } {
            match self.server.read_page(id, out) {
                DiskRead::There if self.tier().disk_has(page, out) => return DiskHas::Newest,
                DiskRead::There | DiskRead::Nothing => {}
                DiskRead::Failed if planted::is(Bug::DiskErrorIsNo) => {}
                DiskRead::Failed => has = DiskHas::Unknown,
            }
        }
        has
    }

    /// What needs to know whether disk has pages that flash does not give back.
    pub(crate) fn disk_unknown(&self) -> Refusal {
        Refusal::new(format!(
            "the flash tier on \"{}\" does not give back pages that disk may have, and disk cannot be read just now",
            self.flash_path().display()
        ))
        .hint("See the messages before this one and to the disk, and try again; nothing is known to be lost.")
        // Nothing else has to end for it.
        .of_lost_pages()
    }

    /// The only copy of a page cannot be read. Where the log has it, the server restarts from that, without
    /// this tier: the next start would come to the same page, in its redo at the latest, and end there,
    /// and so would every one after it.
    fn lose_page(&self, flash: &FlashPage) {
        let tier = self.tier();
        let log_has_it = tier.sync_mode() == SyncMode::Drained && !planted::is(Bug::UnreadableKeepsTier);
        if !log_has_it || tier.failure().is_some() {
            return;
        }
        // Before anything else can end this process. If it cannot be written, the next start comes here
        // again.
        let _ = self.forsake(&self.superblock().tier_uuid);
        tier.report_failure(Failure::FlashRead { position: flash.position });
        self.server.progressed();
    }

    /// Before disk answers for a clean page that flash does not give back: makes it durable that the tier has
    /// it no more. Its record may say that it is dirty, and a crash would find a page that can be had
    /// from nowhere.
    fn bury_clean(&self, id: &PageId, flash: &FlashPage) {
        let tier = self.tier();
        let mut buried = None;
        let appended = self.work_until(|| {
            buried = tier.bury_clean(id, flash).ok();
            // At rest nothing makes room. Disk has the page all the same: that costs something only if a
            // crash follows.
            buried.is_some() || tier.rests_for_disk() && !planted::is(Bug::ReaderAwaitsRoom)
        });
        // A device that fails now is given up, and then nothing is found on it.
        if appended.is_ok() && buried == Some(true) {
            let _ = self.sync();
        }
    }

    /// Whether the tier has the page now.
    pub fn holds(&self, id: &PageId) -> bool {
        self.tier().holds(id).is_some()
    }

    /// Whether the tier has a version of the page that is newer than the disk's.
    pub fn holds_dirty(&self, id: &PageId) -> bool {
        self.tier().holds(id) == Some(true)
    }

    /// Waits until no stage-out is under way that could still write pages of `range` to disk.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn await_stage_out(&self, range: &IdRange) -> Result<(), Refusal> {
        self.work_until(|| !self.tier().stage_out_touches(range))
    }

    /// Forgets a page that was [refused](Written::Refused) and is on disk. False if stage-out may have
    /// written an older version over it meanwhile: wait for it, write the page again, and call again.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn forget(&self, id: &PageId) -> Result<bool, Refusal> {
        let tier = self.tier();
        self.drops_by_log();
        self.drop_until(|| tier.invalidate(id).is_ok())?;
        Ok(!tier.stage_out_touches(&IdRange { start: *id, count: 1, shift: 0 }))
    }

    /// Pages are dropped, or overwritten past the tier, by what the log says up to here: a log that does not
    /// reach so far knows nothing of it, and its files may lack what the tier has given up.
    fn drops_by_log(&self) {
        if !planted::is(Bug::DropsOutrunLog) {
            self.tier().log_reached(self.server.log_position());
        }
    }

    /// Forgets every page of a range that is dropped, and waits until none of them can come back by a write
    /// under way.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn drop_range(&self, range: &IdRange) -> Result<(), Refusal> {
        let tier = self.tier();
        self.drops_by_log();
        self.drop_until(|| tier.invalidate_range(range).is_ok())?;
        self.await_stage_out(range)
    }

    /// Forgets what the tier has of a page that the server is about to write past it. A version that is newer
    /// than the disk's goes there first: until the server's own write is durable, a crash must find one
    /// of the two.
    ///
    /// Of a lost page there is nothing to save, and the server's write heals it; but a crash before that is
    /// durable must not find the version on disk, which is older. So disk gets a page first that no
    /// server accepts.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn overwrite(&self, id: &PageId) -> Result<(), Refusal> {
        let only = IdRange { start: *id, count: 1, shift: 0 };
        // Before the server writes: a page that left its pool before that, and is offered later, is stale.
        match self.tier().changes_elsewhere(id) {
            None => return Ok(()),
            Some(false) => {}
            Some(true) => match self.flush_range(&only) {
                Err(refusal) if refusal.lost_pages && !planted::is(Bug::LostEndsServer) => {
                    // One from before it was lost may be on its way.
                    self.await_stage_out(&only)?;
                    self.save_or_give_up(id)?;
                }
                flushed => flushed?,
            },
        }
        self.drop_range(&only)
    }

    /// Has disk hold a page that a drain has missed; or what nobody takes for a page, if it is lost.
    fn save_or_give_up(&self, id: &PageId) -> Result<(), Refusal> {
        let mut page = AlignedBuf::zeroed(self.geometry.page_size());
        let found = match planted::is(Bug::ReadAgainUnused) {
            true => Found::Lost,
            false => self.find(id, &mut page).0,
        };
        match found {
            // A drain has found it there, or somebody else has brought it there: that is durable.
            Found::OnDisk => Ok(()),
            // What a read brings after all is there to be saved.
            Found::Here => self.put_on_disk(&[(*id, &*page)]),
            Found::Silent => Err(self.silent()),
            Found::Unknown => Err(self.disk_unknown()),
            Found::Lost => self.give_up_lost(&[*id]),
        }
    }

    /// Gives up a page that is lost, because its owner says so: disk holds durably what no server accepts
    /// before the tier forgets the page, and after this no crash finds it again. Nobody else writes the
    /// page, or has it, meanwhile.
    ///
    /// # Errors
    /// If it is not lost, or it is not known whether it is: then nothing was changed. If a device has failed.
    pub fn give_up_page(&self, id: &PageId) -> Result<(), Refusal> {
        if self.tier().sync_mode() != SyncMode::Durable {
            return Err(Refusal::new(
                "only a flash tier in sync mode \"durable\" has pages that can be lost",
            )
            .hint("Read the page: the files have it, or the log of the server."));
        }
        let only = IdRange { start: *id, count: 1, shift: 0 };
        // An older version may be on its way to disk, or this very one, which is then found there.
        self.await_stage_out(&only)?;
        self.find_lost(id)?;
        self.give_up_lost(&[*id])?;
        self.drop_range(&only)?;
        if planted::is(Bug::GivenUpUnsynced) {
            return Ok(());
        }
        self.sync()
    }

    /// Refuses a page that is not lost, by the reason.
    fn find_lost(&self, id: &PageId) -> Result<(), Refusal> {
        if planted::is(Bug::GivenUpUnasked) {
            return Ok(());
        }
        let mut page = AlignedBuf::zeroed(self.geometry.page_size());
        let why = match self.find(id, &mut page).0 {
            Found::Lost => return Ok(()),
            Found::Silent => return Err(self.silent()),
            Found::Unknown => return Err(self.disk_unknown()),
            Found::Here => "a read brings it from the flash tier",
            Found::OnDisk if self.holds(id) => "disk has this very version",
            Found::OnDisk => "the flash tier does not have it, and disk answers for it",
        };
        Err(Refusal::new(format!("it is not lost: {why}")).hint(
            "Read it. pg_mezzanine_frames names pages that are lost (islost), and so does a read of one.",
        ))
    }

    /// Has disk hold, in the places of pages that are lost, what nobody takes for a page; durably.
    ///
    /// # Errors
    /// If the disk cannot be written. Nothing else was changed.
    pub(crate) fn give_up_lost(&self, lost: &[PageId]) -> Result<(), Refusal> {
        if lost.is_empty() || planted::is(Bug::LostForgotten) {
            return Ok(());
        }
        let mut nothing = AlignedBuf::zeroed(self.geometry.page_size());
        given_up_page(&mut nothing);
        let pages: Vec<(PageId, &[u8])> = lost.iter().map(|id| (*id, &*nothing)).collect();
        self.put_on_disk(&pages)
    }

    fn put_on_disk(&self, pages: &[(PageId, &[u8])]) -> Result<(), Refusal> {
        let refused = |why: &str| {
            Refusal::new(format!(
                "the place of a page that flash did not give back cannot be overwritten: {why}"
            ))
            .hint("See the messages before this one.")
        };
        if !self.server.write_pages(pages).is_empty() {
            return Err(refused("a page could not be written to disk").of_lost_pages());
        }
        if !self.sync_disk() {
            // What the failed sync was to cover may be pages of the tier.
            self.tier().report_failure(Failure::DiskSync);
            return Err(refused("a sync of the disk failed"));
        }
        Ok(())
    }
}
