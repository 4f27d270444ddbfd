//! Checkpoints of the server, drains, and leaving the tier in order.
//!
//! A checkpoint with redo pointer R, in the server's order:
//! 0. The server has chosen R and marked the pages in its pool that are dirty: [`Host::checkpoint_marked`].
//!    With sync mode `drained`, what the tier has of before the mark begins to go to disk, while the server
//!    does step 1 at its own pace.
//! 1. It writes these. [`Host::checkpoint_written`] makes durable on flash whatever the tier took of them
//!    (invariants 3 and 4), with the tombstones; with sync mode `drained` it has the newest version of
//!    everything that is dirty since before the mark written to disk and synced.
//! 2. The server syncs its files. [`Host::checkpoint_synced`] makes R the pending redo pointer of the
//!    superblock.
//! 3. The server's control file names R. [`Host::checkpoint_done`] makes it the confirmed one. A crash
//!    between 2 and 3, or within either, leaves a control file whose redo pointer is one of the two
//!    (invariant 10).
//!
//! The mark is made after R was chosen, so what was evicted in between counts as older than it is: more is
//! drained than is needed, never less. From the mark on the server tells of each page whether it carries a
//! change from before R.

use std::collections::BTreeMap;

use mezzanine_device::AlignedBuf;
use mezzanine_engine::format::{Superblock, TierState};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    DirtyPage, DrainCursor, DrainScope, DrainState, DrainTicket, Failure, IdRange, LogPosition, Mark, PageId,
    RedoPoint, SyncMode, SyncState,
};

use crate::failure::BATCH;
use crate::host::Host;
use crate::marker::Marker;
use crate::message::Refusal;
use crate::pages::DiskHas;
use crate::sync_mark::mark_of;

/// How the tier was left.
#[derive(Debug)]
pub struct Closed {
    /// Whether the disk is current, and everybody is told so.
    pub current: bool,
    /// Why it is not, although it was to be: pages are lost, or disk does not take them.
    pub lost: Option<Refusal>,
}

/// What disk has of the pages that a drain has missed.
enum OnDisk {
    /// The newest version of one at least.
    Found,
    /// Of none, of so many; of some it is not known whether they are missing, if the device is `silent` or
    /// disk `unknown`.
    None { missed: usize, silent: bool, unknown: bool },
}

/// How often a drain is made that has missed pages which a read brings after all.
const DRAINS_MAX: u32 = 3;

impl Host {
    pub(crate) fn superblock(&self) -> Superblock {
        self.tier().published().expect("a tier in use was published")
    }

    /// The marker of a tier that is in use.
    pub(crate) fn marker_of(&self, superblock: &Superblock, only_copies: bool) -> Marker {
        Marker::new(&superblock.tier_uuid, self.flash_path(), only_copies)
            .of_session(&superblock.sessions.confirmed, superblock.epoch)
            .marked(mark_of(self.tier()))
    }

    /// Makes the superblock that `next` makes of the one in force durable, and tells the server's other
    /// processes.
    fn replace_superblock(
        &self,
        next: impl FnOnce(&Superblock) -> Superblock,
    ) -> Result<Superblock, Refusal> {
        let _alone = self.lock_superblock();
        let superblock = next(&self.superblock());
        self.put_superblock(&superblock)?;
        self.tier().publish(&superblock);
        Ok(superblock)
    }

    /// Makes everything durable that was staged in or forgotten so far.
    ///
    /// # Errors
    /// If the flash device has failed.
    pub fn sync(&self) -> Result<(), Refusal> {
        let tier = self.tier();
        let mut ticket = None;
        self.work_until(|| {
            ticket = tier.request_sync().ok();
            ticket.is_some()
        })?;
        let Some(ticket) = ticket else { return Ok(()) };
        self.work_until(|| tier.sync_state(&ticket) == SyncState::Durable)
    }

    fn drain(&self, scope: &DrainScope) -> Result<(), Refusal> {
        let tier = self.tier();
        for drains in 1.. {
            let mut ticket = None;
            self.work_until(|| {
                ticket = tier.request_drain(scope).ok();
                ticket.is_some()
            })?;
            let Some(ticket) = ticket else { return Ok(()) };
            self.work_until(|| {
                !matches!(tier.drain_state(&ticket), DrainState::Pending | DrainState::Failed)
            })?;
            if self.lost_none(&ticket, scope, drains)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether a drain of this scope that is over, one of so many so far, has met no pages that are lost.
    /// False if it has met some and disk has one of them, which is lost no more, or each of them can be
    /// read after all: then it is worth repeating.
    ///
    /// # Errors
    /// If it has met some and disk has none, or disk did not take others: it is not current.
    pub(crate) fn lost_none(
        &self,
        ticket: &DrainTicket,
        scope: &DrainScope,
        drains: u32,
    ) -> Result<bool, Refusal> {
        match self.tier().drain_state(ticket) {
            DrainState::Lost => {}
            DrainState::Refused => {
                return Err(self.disk_refuses("the files are not current", self.server.error_ends_server()));
            }
            _ => return Ok(true),
        }
        let missed = match self.find_on_disk(scope)? {
            OnDisk::Found => return Ok(false),
            OnDisk::None { silent: true, .. } => return Err(self.silent()),
            OnDisk::None { unknown: true, .. } => return Err(self.disk_unknown()),
            OnDisk::None { missed: 0, .. } if drains < DRAINS_MAX && !planted::is(Bug::ReadAgainUnused) => {
                return Ok(false);
            }
            OnDisk::None { missed: 0, .. } => "pages".to_owned(),
            OnDisk::None { missed, .. } => format!("{missed} pages"),
        };
        Err(Refusal::new(format!(
            "{missed} that only the flash tier on \"{}\" has cannot be read",
            self.flash_path().display()
        ))
        .detail("Everything else was written to disk.")
        .hint("A read of them names them, and so does pg_mezzanine_frames once their frames were needed (islost). Restore these relations from a backup, drop or rewrite them, or go on without single blocks by mezzanine_give_up(relation, block); then repeat this.")
        .of_lost_pages())
    }

    /// Notes of the pages that a drain has missed those that disk has, in this very version: they count as
    /// clean when a sync has covered them. They are not written once more, for a newer version may be on its
    /// way there.
    fn find_on_disk(&self, scope: &DrainScope) -> Result<OnDisk, Refusal> {
        let tier = self.tier();
        let mut bytes = AlignedBuf::zeroed(self.geometry.page_size());
        let (mut found, mut missed, mut silent, mut unknown) = (Vec::new(), 0, false, false);
        let mut cursor = DrainCursor::default();
        // A drain gives no page up, so those that it has missed are not known by name. Of a scope without an
        // age they are the dirty ones that are left, beside what was written since.
        let lost = if scope.before.is_some() { Some(tier.lost()) } else { None };
        loop {
            let batch = tier.drain_batch(&mut cursor, BATCH);
            if batch.is_empty() {
                break;
            }
            let in_scope = |page: &DirtyPage| match &lost {
                Some(lost) => lost.contains(&page.id),
                None => scope.range.is_none_or(|range| range.contains(&page.id)),
            };
            for page in batch.into_iter().filter(in_scope) {
                let Err(unread) = self.read_only_copy(&page, &mut bytes) else { continue };
                match self.disk_has(&page.id, &page.flash, &mut bytes) {
                    DiskHas::Newest => {
                        found.push(page);
                        continue;
                    }
                    DiskHas::Other => {}
                    DiskHas::Unknown => unknown = true,
                }
                missed += 1;
                silent |= unread.silent;
            }
        }
        if found.is_empty() {
            return Ok(OnDisk::None { missed, silent, unknown });
        }
        if !self.sync_disk() {
            // What the failed sync was to cover may be other pages of the tier.
            tier.report_failure(Failure::DiskSync);
            return Err(self.failed(Failure::DiskSync));
        }
        tier.mark_clean(&found);
        Ok(OnDisk::Found)
    }

    /// Has the newest version of every page of `range` written to disk and synced.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn flush_range(&self, range: &IdRange) -> Result<(), Refusal> {
        if self.is_provably_clean() {
            return Ok(());
        }
        self.sync()?;
        self.drain(&DrainScope { before: None, range: Some(*range) })
    }

    /// Has every page that is newer than its disk copy written to disk and synced.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn drain_all(&self) -> Result<(), Refusal> {
        if self.is_provably_clean() {
            return Ok(());
        }
        self.sync()?;
        self.drain(&DrainScope::default())
    }

    /// The last page of every fork that is newer in the tier than on disk, in the order of their names: so
    /// far the files have to reach. A pass over the directory.
    pub fn last_dirty_pages(&self) -> Vec<PageId> {
        let mut last: BTreeMap<[u32; 4], PageId> = BTreeMap::new();
        let mut cursor = DrainCursor::default();
        loop {
            let batch = self.tier().drain_batch(&mut cursor, BATCH);
            if batch.is_empty() {
                return last.into_values().collect();
            }
            for page in batch {
                let [database, tablespace, relation, fork, _] = page.id.relation_parts();
                let end = last.entry([database, tablespace, relation, fork]).or_insert(page.id);
                *end = page.id.max(*end);
            }
        }
    }

    /// Step 0 of a checkpoint.
    pub fn checkpoint_marked(&self) -> Mark {
        let tier = self.tier();
        let mark = tier.begin_checkpoint();
        // Step 1 drains what is left, and everything if another drain is under way now: so nobody waits for
        // this one.
        let begun = tier.sync_mode() == SyncMode::Drained
            && !self.is_provably_clean()
            && tier.request_drain(&DrainScope { before: Some(mark), range: None }).is_ok();
        if begun {
            self.server.progressed();
        }
        mark
    }

    /// Step 1 of a checkpoint. With `all`, everything that is newer than its disk copy is drained, in any
    /// sync mode.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn checkpoint_written(&self, all: bool) -> Result<(), Refusal> {
        self.sync()?;
        if self.is_provably_clean() {
            return Ok(());
        }
        if all {
            self.drain(&DrainScope::default())
        } else if self.tier().sync_mode() == SyncMode::Drained {
            self.drain(&DrainScope { before: Some(self.tier().mark()), range: None })
        } else {
            Ok(())
        }
    }

    /// Step 2 of a checkpoint with this redo pointer.
    ///
    /// # Errors
    /// If the superblock cannot be written.
    pub fn checkpoint_synced(&self, redo: RedoPoint) -> Result<(), Refusal> {
        self.replace_superblock(|superblock| self.tier().promised(superblock, redo)).map(drop)
    }

    /// The server is on this timeline from now on: pages that come in are of its log.
    pub fn follows_timeline(&self, timeline: u32) {
        self.tier().log_reached(LogPosition { timeline, lsn: 0 });
    }

    /// The server's log is durable up to here. Told before a page comes in: see
    /// [`mezzanine_engine::Tier::log_flushed`].
    pub fn log_flushed(&self, lsn: u64) {
        if !planted::is(Bug::HintsOutrunLog) {
            self.tier().log_flushed(lsn);
        }
    }

    /// Step 3 of a checkpoint with this redo pointer.
    ///
    /// # Errors
    /// If the superblock cannot be written.
    ///
    /// # Panics
    /// If step 2 was left out.
    pub fn checkpoint_done(&self, redo: RedoPoint) -> Result<(), Refusal> {
        // Not before the control file names it: a start that ends a recovery may be cut off, and the next one
        // knows nothing of the timeline that it was about to begin.
        self.follows_timeline(redo.timeline);
        self.replace_superblock(|superblock| {
            assert_eq!(
                superblock.pending, redo,
                "invariant 10: a checkpoint completes that was never pending"
            );
            self.tier().redone(&superblock.with_confirmed())
        })
        .map(drop)
    }

    /// Ends stage-out, with the last sync mark in a group: the superblock that closes the tier may say that
    /// every page in it is on disk, and has no mark of its own. Where it cannot say so, because disk refuses
    /// some, and these leave no room for a group, the marker alone has the last mark, as after a crash.
    fn settle(&self) -> Result<(), Refusal> {
        let tier = self.tier();
        let mut asked = false;
        loop {
            tier.begin_drain();
            while self.work() {}
            self.work_until(|| tier.stage_out_idle())?;
            let no_room = asked && tier.rests_for_disk() && tier.valid_and_dirty().1 > 0;
            if tier.host_metadata_is_carried() || no_room {
                return Ok(());
            }
            // The group finds room only where stage-out may make some.
            tier.end_drain();
            if asked {
                tier.retry_disk();
            }
            self.sync()?;
            asked = true;
        }
    }

    /// Leaves the tier in order after the last checkpoint: nothing is taken any more. With `drain` the disk
    /// is made current first; the pages stay in the tier for the next start. If the disk is current, the
    /// marker and the control file say so too. Nothing changes files of relations after this.
    ///
    /// Pages that are lost, or that disk does not take, keep it from being current, and nothing else: the
    /// tier is left with them as one that was not drained. A marker that cannot be written stays as it is.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn close(&self, drain: bool) -> Result<Closed, Refusal> {
        let tier = self.tier();
        tier.stop_admission();
        let drained = match drain || tier.sync_mode() == SyncMode::Drained {
            true => self.drain_all(),
            false => Ok(()),
        };
        let lost = match drained {
            Err(refusal)
                if refusal.disk_refuses || refusal.lost_pages && !planted::is(Bug::LostEndsServer) =>
            {
                Some(refusal)
            }
            other => other.map(|()| None)?,
        };
        self.settle()?;
        self.sync()?;
        while self.work() {}
        let superblock = self.replace_superblock(|superblock| tier.closed(superblock))?;
        let current = superblock.state == TierState::Drained;
        let noted = self.note_files();
        let only_copies = !current && tier.sync_mode() == SyncMode::Durable && !self.is_provably_clean();
        let alone = self.lock_superblock();
        let marker = self.marker_of(&superblock, only_copies);
        let marked = marker.resting(&noted, current).write(&*self.marker);
        drop(alone);
        let told = marked.is_ok();
        match marked {
            Ok(()) if current => self.server.mark_control_file(false)?,
            Ok(()) => {}
            // The marker of before, and the control file with it, say what they say while the server runs: a
            // crash here would leave the same.
            Err(refusal) => self.server.flash_failed(&refusal.detail("The flash tier is left as after a crash, and nothing is lost: the next start needs it, if the sync mode is durable, and looks at no files.").to_string()),
        }
        let lost = lost.filter(|_| !current).map(|refusal| {
            refusal.detail("Everything else was written to disk. The tier is left in order, as a part of the database: start the server with it.")
        });
        Ok(Closed { current: current && told, lost })
    }
}
