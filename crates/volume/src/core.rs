//! What one process has of a volume, and the small operations that everything else is made of.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use mezzanine_device::{Device, DeviceError};
use mezzanine_engine::format::{Nonce, Superblock, Writing};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{NoRoom, PageId, SyncMode, SyncState, SyncTicket, Tier};
use mezzanine_ground::interleave::rest;
use mezzanine_ground::interleave::sync::{Arc, Mutex, MutexGuard, RwLock, TryLockError};
pub(crate) use mezzanine_ground::interleave::{exclusive, lock, shared};

use crate::backing::FileInner;
use crate::error::{VolumeError, VolumeErrorKind};
use crate::health::{Health, Mode, Route, closed};
use crate::host_metadata::{Table, TableState};
use crate::pacing::Pacing;
use crate::record::Recording;
use crate::registry::{Registry, write_superblock};
use crate::shared::changes::Inside;
use crate::shared::plain::Held;
use crate::shared::tier::TierShared;
use crate::shared::{Placed, Shared};
use crate::signal::Signal;
use crate::statistics::Counters;

/// Writers of the same page exclude each other by one of these.
pub(crate) const STRIPES: usize = 64;

/// The stripe of a page: neighbouring blocks fall on neighbouring stripes, files apart from one another.
fn stripe(file: u64, block: u64) -> usize {
    ((block + file * 17) % STRIPES as u64) as usize
}

/// Looks for a job in vain before their lack is called a defect. What another thread has just finished shows
/// at the next look, but a thread that lost the processor in the middle of a copy needs some time.
pub(crate) const FRUITLESS_MAX: u32 = 2_000_000;

/// The lock, unless somebody has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The side of the process, behind all of its handles of one volume: what means nothing to another process
/// (devices, paths, threads), the locks with which threads sleep, and the memory in which the shared side
/// lies. The README of the crate states who may touch what, and the lock order.
pub(crate) struct Local {
    /// The tier, for those that have no file's layout lock in hand; locked only to look at it, or to replace
    /// it.
    host: RwLock<Option<Arc<TierHost>>>,
    pub(crate) health: Health,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) files: RwLock<BTreeMap<u32, Arc<FileInner>>>,
    /// Held shared by everything that changes a file, from its beginning to its end; exclusively while the
    /// way that changes take is changed, and while the volume is closed.
    pub(crate) changing: RwLock<()>,
    pub(crate) pacing: Pacing,
    stripes: [Mutex<()>; STRIPES],
    pub(crate) signal: Signal,
    /// What threads share of the volume.
    memory: Arc<Placed<Shared>>,
    pub(crate) recording: Recording,
}

/// A tier in use, as this process has it.
pub(crate) struct TierHost {
    pub(crate) tier: Tier,
    pub(crate) flash: Arc<dyn Device>,
    pub(crate) flash_name: String,
    pub(crate) database_uuid: [u8; 16],
    pub(crate) epoch: u32,
    /// Of that epoch.
    pub(crate) nonce: Nonce,
    pub(crate) takes_clean: bool,
    pub(crate) takes_writes: bool,
    pub(crate) workers: usize,
    /// The newest that is durable, or that of the opening which has not started. Held while the next one is
    /// written.
    pub(crate) superblock: Mutex<Superblock>,
    /// Held shared from the hand-out of a disk job to its end; exclusively by who truncates a file on
    /// disk or discards a part of it.
    pub(crate) disk_gate: RwLock<()>,
    /// Whose turn it is with the table of files: who shortens a file has it while the tier forgets the pages
    /// past its end, which takes as long as there are frames, and the others sleep meanwhile.
    table_turn: Mutex<()>,
    /// What the failed device said, for messages.
    pub(crate) cause: Mutex<Option<String>>,
    /// What threads share of it beside the engine's region.
    pub(crate) shared: Placed<TierShared>,
}

/// The table of files in hand: in this process its turn, and then the record. Given back in the other order.
pub(crate) struct TableHeld<'h> {
    state: Held<'h, TableState>,
    _turn: MutexGuard<'h, ()>,
}

impl Deref for TableHeld<'_> {
    type Target = TableState;

    fn deref(&self) -> &TableState {
        &self.state
    }
}

impl DerefMut for TableHeld<'_> {
    fn deref_mut(&mut self) -> &mut TableState {
        &mut self.state
    }
}

impl TierHost {
    pub(crate) fn new(parts: TierParts) -> Self {
        let config = parts.tier.geometry().config();
        let shared = Placed::<TierShared>::new();
        shared.service.begin();
        shared.table.set(TableState { told: parts.table.clone(), table: parts.table });
        Self {
            takes_clean: config.admission != mezzanine_engine::Admission::Dirty,
            takes_writes: config.admission != mezzanine_engine::Admission::Clean,
            flash_name: parts.flash.describe(),
            flash: parts.flash,
            database_uuid: parts.superblock.database_uuid,
            epoch: parts.superblock.epoch,
            nonce: parts.superblock.nonce_of(parts.superblock.epoch).unwrap_or_default(),
            superblock: Mutex::new(parts.superblock),
            workers: parts.workers,
            disk_gate: RwLock::new(()),
            table_turn: Mutex::new(()),
            cause: Mutex::new(None),
            tier: parts.tier,
            shared,
        }
    }

    /// Whether the epoch of this opening is durable (see `OpenedTier::begin_epoch`).
    pub(crate) fn has_begun(&self) -> bool {
        self.shared.service.has_begun()
    }

    /// Whether the tier can never hold the only copy of a page, as its superblock says: a crash empties it.
    pub(crate) fn provably_clean(&self) -> bool {
        self.tier.sync_mode() == SyncMode::Through || !self.takes_writes
    }

    /// Whether writes go to disk first. Changes only while nobody writes (`Local::changing`).
    pub(crate) fn disk_first(&self) -> bool {
        self.provably_clean() || !self.shared.service.admits()
    }

    /// Has the tier take pages again after the volume was quiesced, unless it was told not to.
    pub(crate) fn resume_admission(&self) {
        if self.shared.service.admits() {
            self.tier.resume_admission();
        }
    }

    pub(crate) fn page_size(&self) -> usize {
        self.tier.geometry().page_size()
    }

    /// Makes the superblock that `next` makes of the present one durable.
    pub(crate) fn put_superblock(
        &self,
        operation: &'static str,
        next: impl FnOnce(&Superblock) -> Superblock,
    ) -> Result<(), VolumeError> {
        let mut superblock = lock(&self.superblock);
        let next = next(&superblock);
        let failed = |error| VolumeError::from_device(operation, &self.flash_name, error);
        self.write_superblock(&next).map_err(failed)?;
        *superblock = next;
        Ok(())
    }

    /// Writes a superblock, with the lock of the last one in hand. Where that was written without a failure,
    /// copies that cannot be read any more are written anew.
    pub(crate) fn write_superblock(&self, next: &Superblock) -> Result<(), DeviceError> {
        self.write_superblock_as(next, Writing::Unknown)
    }

    /// Writes the superblock of an opening that starts. The next flush has its second copy made durable: that
    /// of the change which it starts for. Where disk has every page, no change needs one.
    pub(crate) fn write_first_superblock(&self) -> Result<(), DeviceError> {
        let alone = self.provably_clean() && !planted::is(Bug::CleanStartInPassing);
        let writing = if alone { Writing::Unknown } else { Writing::InPassing };
        self.write_superblock_as(&lock(&self.superblock), writing)
    }

    fn write_superblock_as(&self, next: &Superblock, unknown: Writing) -> Result<(), DeviceError> {
        let known = self.shared.service.superblock_begins();
        write_superblock(&*self.flash, next, if known { Writing::Known } else { unknown })?;
        self.shared.service.superblock_written();
        Ok(())
    }

    /// Something changed that the next sync must make durable. Called when the tier holds the change.
    pub(crate) fn changed(&self) {
        self.shared.unsynced.changed();
    }

    /// Carries out a write to the tier, which the next sync must make durable; and a sync that comes before
    /// its end, what of it others may have read by then.
    pub(crate) fn writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.shared.unsynced.writing(write)
    }

    /// Begins something that nobody may quiesce the volume in the middle of; `None` if it is not in order
    /// now.
    pub(crate) fn enter(&self, health: &Health) -> Option<Inside<'_>> {
        let inside = self.shared.entered.enter();
        (health.mode() == Mode::Normal).then_some(inside)
    }

    /// After the mode was changed: waits until everybody who entered before has left.
    pub(crate) fn wait_outside(&self) {
        if planted::is(Bug::OthersNotAwaited) {
            return;
        }
        while !self.shared.entered.is_empty() {
            rest();
        }
    }

    /// The table of files, as it goes into the tier's host metadata.
    pub(crate) fn table(&self) -> TableHeld<'_> {
        let turn = lock(&self.table_turn);
        TableHeld { state: self.shared.table.lock(), _turn: turn }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.shared.service.is_held()
    }

    /// Ends the use of the tier: another one has taken its place.
    pub(crate) fn retire(&self) {
        self.shared.service.retire();
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.shared.service.is_retired()
    }
}

/// What a [`TierHost`] is made of.
pub(crate) struct TierParts {
    pub(crate) tier: Tier,
    pub(crate) flash: Arc<dyn Device>,
    /// Of the epoch that begins when the opening starts.
    pub(crate) superblock: Superblock,
    pub(crate) workers: usize,
    pub(crate) table: Table,
}

impl Local {
    pub(crate) fn new(host: Option<TierHost>, mode: Mode, reason: &str, registry: Registry) -> Self {
        let memory = Arc::new(Placed::<Shared>::new());
        memory.condition.begin(mode, reason);
        memory.start.begin(registry.tier.is_some());
        Self {
            health: Health::new(Arc::clone(&memory)),
            registry: Mutex::new(registry),
            files: RwLock::new(BTreeMap::new()),
            changing: RwLock::new(()),
            pacing: Pacing::new(host.as_ref().map_or(0, |host| host.workers)),
            host: RwLock::new(host.map(Arc::new)),
            stripes: [const { Mutex::new(()) }; STRIPES],
            signal: Signal::new(Arc::clone(&memory)),
            recording: Recording::default(),
            memory,
        }
    }

    /// The volume's shared side.
    pub(crate) fn memory(&self) -> &Arc<Placed<Shared>> {
        &self.memory
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.memory.counters
    }

    /// The opening has not started, or not all of its files know: whoever changes something has it start
    /// first (see `start`).
    pub(crate) fn is_unstarted(&self) -> bool {
        !self.memory.start.is_over()
    }

    /// That is over, for good.
    pub(crate) fn has_started(&self) {
        self.memory.start.ends();
    }

    /// The tier, whether it may be believed or not.
    pub(crate) fn host(&self) -> Option<Arc<TierHost>> {
        shared(&self.host).clone()
    }

    /// The tier, if it may be believed now.
    pub(crate) fn tier_in_use(&self) -> Option<Arc<TierHost>> {
        if self.health.has_bypassed() { None } else { self.host() }
    }

    /// Puts another tier in the place of the present one, for those that look for it from now on.
    pub(crate) fn set_host(&self, host: Arc<TierHost>) {
        *exclusive(&self.host) = Some(host);
    }

    pub(crate) fn file(&self, number: u32) -> Option<Arc<FileInner>> {
        shared(&self.files).get(&number).cloned()
    }

    /// All files, in the order of their numbers.
    pub(crate) fn all_files(&self) -> Vec<Arc<FileInner>> {
        shared(&self.files).values().cloned().collect()
    }

    /// Excludes other writers of `pages` pages from `block` on: the stripes' locks, taken in ascending order.
    pub(crate) fn lock_pages(&self, file: &FileInner, block: u64, pages: u64) -> Vec<MutexGuard<'_, ()>> {
        const { assert!(STRIPES == 64, "the set of stripes is a 64-bit word") };
        let mut wanted = 0u64;
        for block in block..block + pages.min(STRIPES as u64) {
            wanted |= 1 << stripe(u64::from(file.number), block);
        }
        (0..STRIPES)
            .filter(|stripe| wanted >> stripe & 1 == 1)
            .map(|stripe| lock(&self.stripes[stripe]))
            .collect()
    }

    /// The lock of a page, unless somebody has it.
    pub(crate) fn try_lock_page(&self, id: &PageId) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.stripes[stripe(id.file(), id.block())])
    }

    /// Carries out a job, or waits until somebody else has. Returns at once when the volume is no longer in
    /// order; the caller looks at its health again.
    ///
    /// `seen` is the counter of progress as it was before the caller found that it cannot go on: what
    /// happened since may be all that it was waiting for.
    pub(crate) fn work_or_wait(&self, host: &TierHost, seen: u64) -> Result<(), VolumeError> {
        if self.run_counted(host) {
            return Ok(());
        }
        let _waiting = self.signal.announce();
        if self.run_counted(host) {
            return Ok(());
        }
        // While it is quiesced the caller waits by himself, or does not, if he has what that may need.
        if self.health.mode() != Mode::Normal {
            return Ok(());
        }
        if host.workers == 0 && !host.shared.jobs.are_running() {
            // Another thread may have made room since the caller looked; but if nobody ever finds a job,
            // waiting would never end. The tier promises that this cannot be.
            if host.shared.jobs.found_none() < FRUITLESS_MAX {
                rest();
                return Ok(());
            }
            let reason = "the tier wants room and has no job to offer; this is a defect of the software";
            return Err(VolumeError::new(VolumeErrorKind::Io, "use", &host.flash_name, reason));
        }
        self.signal.wait_for_progress(seen);
        Ok(())
    }

    fn run_counted(&self, host: &TierHost) -> bool {
        let found = self.run_job(host);
        if found {
            host.shared.jobs.found_one();
            crate::statistics::count(&self.counters().jobs_by_callers, 1);
        }
        found
    }

    /// Repeats an operation that needs room in the tier until it has some, or the tier is given up.
    pub(crate) fn with_room(
        &self,
        host: &TierHost,
        operation: impl Fn() -> Result<(), NoRoom>,
    ) -> Result<(), VolumeError> {
        loop {
            let seen = self.signal.progress();
            if self.health.route("change", &host.flash_name)? == Route::Disk {
                return Ok(());
            }
            let Some(inside) = host.enter(&self.health) else { continue };
            let done = operation().is_ok();
            drop(inside);
            if done {
                return Ok(());
            }
            self.work_or_wait(host, seen)?;
        }
    }

    /// Invalidates one page: the disk has a newer version.
    pub(crate) fn invalidate_page(&self, host: &TierHost, id: &PageId) -> Result<(), VolumeError> {
        self.with_room(host, || host.tier.invalidate(id))
    }

    /// Counts a page given to the tier, and wakes a worker once per group.
    pub(crate) fn count_staged(&self, host: &TierHost) {
        self.signal.page_given();
        let group = host.tier.geometry().group_pages() as u32;
        if host.shared.jobs.completes_group(group) {
            self.signal.offer_work();
        }
    }

    /// Tells the tier the files' present lengths if they differ from what it was told, and begins a sync.
    pub(crate) fn begin_sync(&self, host: &TierHost) -> Result<SyncTicket, NoRoom> {
        self.table_goes_along(host);
        host.tier.request_sync()
    }

    /// The group that is closed next carries what the table of files is by now.
    fn table_goes_along(&self, host: &TierHost) {
        let mut state = host.table();
        for file in self.all_files() {
            if let Some(entry) = state.table.get_mut(file.number) {
                entry.length = file.len();
            }
        }
        // Of a file that is not attached the table that is told would not keep the mark; and nothing changes
        // before all are.
        if !host.is_held() {
            self.tell_table(host, &mut state);
        }
    }

    /// Has the tier carry the table of files in all groups from here on.
    pub(crate) fn tell_table(&self, host: &TierHost, state: &mut TableState) {
        if state.told != state.table {
            host.tier.set_host_metadata(&state.table.encode());
            state.told = state.table.clone();
        }
    }

    /// Makes every change that the tier holds durable; no I/O if there is none (invariant 3). Returns whether
    /// there was anything to do.
    pub(crate) fn sync_tier(&self, host: &TierHost) -> Result<bool, VolumeError> {
        if !host.shared.unsynced.may_have_been_read() {
            return Ok(false);
        }
        let upto = host.shared.unsynced.made();
        let ticket = loop {
            let seen = self.signal.progress();
            if !self.is_tier_alive(host)? {
                return Ok(true);
            }
            let Some(inside) = host.enter(&self.health) else { continue };
            let ticket = self.begin_sync(host);
            drop(inside);
            match ticket {
                Ok(ticket) => break ticket,
                Err(NoRoom) => self.work_or_wait(host, seen)?,
            }
        };
        self.signal.offer_work();
        loop {
            let seen = self.signal.progress();
            match host.tier.sync_state(&ticket) {
                SyncState::Durable => break,
                SyncState::Failed => self.handle_failure(host),
                SyncState::Pending => {}
            }
            if !self.is_tier_alive(host)? {
                return Ok(true);
            }
            self.work_or_wait(host, seen)?;
        }
        host.shared.unsynced.covered(upto);
        Ok(true)
    }

    /// Has every change that the tier holds written to flash, and waits for no flush: the process may be
    /// killed then, the power may not fail.
    pub(crate) fn hand_over_tier(&self, host: &TierHost) -> Result<(), VolumeError> {
        let mut asked: Option<SyncTicket> = None;
        loop {
            let seen = self.signal.progress();
            if !self.is_tier_alive(host)? {
                // It was brought to disk.
                return Ok(());
            }
            if let Some(ticket) = asked.as_ref() {
                if host.tier.is_written(ticket) {
                    return Ok(());
                }
                if host.tier.sync_state(ticket) == SyncState::Failed {
                    self.handle_failure(host);
                }
            } else {
                let Some(inside) = host.enter(&self.health) else { continue };
                self.table_goes_along(host);
                asked = host.tier.request_write().ok();
                drop(inside);
                if asked.is_some() {
                    self.signal.offer_work();
                    continue;
                }
            }
            self.work_or_wait(host, seen)?;
        }
    }

    /// Whether a sync may go on waiting for the tier. If the tier was given up, everything is on disk and
    /// synced; if it could not be given up in order, the sync fails (invariant 11).
    fn is_tier_alive(&self, host: &TierHost) -> Result<bool, VolumeError> {
        if self.health.mode() == Mode::Quiescing {
            self.health.wait_quiesced();
        }
        match self.health.mode() {
            Mode::Bypass => Ok(false),
            Mode::ReadOnly => Err(self.health.read_only("sync", &host.flash_name)),
            Mode::Closed => Err(closed("sync", &host.flash_name)),
            Mode::Normal | Mode::Quiescing => Ok(true),
        }
    }
}
