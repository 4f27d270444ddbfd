//! What every process of the test does: a host over files, with descriptors of its own, and random work on a shared tier.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use mezzanine_engine::format::{Superblock, read_superblock, write_superblock};
use mezzanine_engine::planted::outside;
use mezzanine_engine::{
    Design, DrainCursor, DrainScope, DrainState, IdRange, Job, Lookup, NOTE_BYTES, PageId, ReadError,
    ReadFlash, StageIn, StageKind, SyncMode, SyncState, Tier, TierConfig, Token, WriteFlash,
};

use rustix::fs::{FlockOperation, flock};

use crate::ledger::{BLOCKS, Field, Ledger, PROCESSES};

pub(crate) const PAGE: usize = 4096;
/// Nothing takes so long unless somebody waits for what does not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// So small that the queue wraps all the time. The folder says of which design.
pub(crate) fn config(directory: &Path) -> TierConfig {
    let design = std::fs::read_to_string(directory.join(DESIGN)).unwrap().parse::<Design>().unwrap();
    let frames_max = if design.writes_in_place() { 0 } else { FRAMES_MAX };
    TierConfig { frames_max, ..TierConfig::of(design, PAGE as u32, 256) }
}

/// The file with the design's name.
pub(crate) const DESIGN: &str = "design";

/// As far as the queue is made to grow and shrink.
const FRAMES_MAX: u64 = 320;
const FRAMES_MIN: u64 = 200;

/// The files of the test.
pub(crate) struct Files {
    pub(crate) flash: File,
    disks: Vec<File>,
    /// Locked by whoever writes a superblock; and by whoever switches the sync mode, as long as admission has stopped. The system
    /// frees them when their process dies.
    superblock: File,
    switch: File,
    pub(crate) ledger: Ledger,
}

/// A lock between processes that is held.
struct Alone<'f>(&'f File);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        flock(self.0, FlockOperation::Unlock).unwrap();
    }
}

impl Files {
    pub(crate) fn open(directory: &Path) -> Self {
        let open = |name: &str| {
            let path = directory.join(name);
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
        };
        let flash = open("flash");
        flash.set_len(config(directory).geometry().unwrap().flash_bytes()).unwrap();
        let disks: Vec<File> = (0..PROCESSES).map(|process| open(&format!("disk-{process}"))).collect();
        for disk in &disks {
            disk.set_len(BLOCKS * PAGE as u64).unwrap();
        }
        let (superblock, switch) = (open("superblock.lock"), open("switch.lock"));
        Self { flash, disks, superblock, switch, ledger: Ledger::open(&directory.join("ledger")) }
    }

    /// Waits until nobody else writes a superblock.
    fn superblock_alone(&self) -> Alone<'_> {
        flock(&self.superblock, FlockOperation::LockExclusive).unwrap();
        Alone(&self.superblock)
    }

    /// `None` while somebody else switches the sync mode.
    fn switch_alone(&self) -> Option<Alone<'_>> {
        let locked = flock(&self.switch, FlockOperation::NonBlockingLockExclusive);
        locked.is_ok().then(|| Alone(&self.switch))
    }

    /// The newest superblock on flash: it may be that of a process that died before anybody else learnt of it.
    fn newest_superblock(&self) -> Superblock {
        read_superblock(&mut &*self).unwrap()
    }

    fn put_superblock(&self, superblock: &Superblock) {
        write_superblock(&mut &*self, superblock).unwrap();
    }

    pub(crate) fn disk(&self, id: &PageId) -> (&File, u64) {
        (&self.disks[id.file() as usize], id.block() * PAGE as u64)
    }
}

impl ReadFlash for &Files {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.flash.read_exact_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

impl WriteFlash for &Files {
    type Error = std::io::Error;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.flash.write_all_at(bytes, offset)
    }

    /// No device is flushed: the kernel outlives every process here.
    fn flush(&mut self) -> std::io::Result<()> {
        outside("host: one copy of a superblock written");
        Ok(())
    }
}

/// The page of a process with one of its changes in it.
pub(crate) fn page(process: u64, block: u64, version: u64) -> Vec<u8> {
    let words = [process, block].into_iter().chain(std::iter::repeat(version));
    words.take(PAGE / 8).flat_map(u64::to_le_bytes).collect()
}

/// The change in a page; none if it is torn or another page's.
pub(crate) fn version_of(bytes: &[u8], process: u64, block: u64) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let never = version == 0 && bytes.iter().all(|&byte| byte == 0);
    (never || bytes == page(process, block, version)).then_some(version)
}

/// The last bit of a change's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Write = 0,
    Drop = 1,
}

/// Whether a change dropped its page.
pub(crate) fn is_drop(version: u64) -> bool {
    version % 2 == Change::Drop as u64
}

/// What a read came back with.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) version: u64,
    /// It came from disk.
    pub(crate) missed: bool,
}

/// One process at work.
pub(crate) struct Worker<'t> {
    pub(crate) tier: &'t Tier,
    pub(crate) files: &'t Files,
    pub(crate) process: u64,
    pub(crate) owner: u32,
    pub(crate) seed: u64,
    /// Numbers half of the next change.
    next: u64,
    /// It waits for others since then.
    idle_since: Option<Instant>,
}

impl<'t> Worker<'t> {
    pub(crate) fn new(tier: &'t Tier, files: &'t Files, process: u64, owner: u32, seed: u64) -> Self {
        Self { tier, files, process, owner, seed, next: files.ledger.last(process) / 2 + 1, idle_since: None }
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    /// A block, of the hot ones half of the time.
    fn block(&mut self) -> u64 {
        let among = if self.random(2) == 0 { BLOCKS / 8 } else { BLOCKS };
        self.random(among)
    }

    /// One thing that a process does.
    pub(crate) fn step(&mut self) {
        let block = self.block();
        match self.random(203) {
            0..90 => self.write(block),
            90..160 => {
                let process = self.random(PROCESSES);
                let (found, token) = self.read(process, block);
                // A host keeps others away from a page while it drops it; here nobody else offers it.
                if let Some(token) = token.filter(|_| process == self.process) {
                    self.offer(block, found.version, token);
                }
            }
            160..185 => {
                self.job();
            }
            185..190 => self.drop_page(block),
            190 => self.drop_range(block),
            191..193 => self.tier.set_note(&[self.next as u8; NOTE_BYTES]),
            193..195 => self.pause_stage_out(),
            195 => self.forget(block),
            196 => self.drain_some(),
            197 => self.publish_again(),
            198 => self.checkpoint(),
            199 => self.sync(),
            200 | 201 => self.resize(),
            // There is one mode alone where there are slots.
            _ if self.has_slots() => self.sync_disk(),
            _ => self.switch_mode(),
        }
    }

    pub(crate) fn id(&self, block: u64) -> PageId {
        PageId::volume(self.process, block)
    }

    /// A new number for a change of these blocks.
    pub(crate) fn intend(&mut self, blocks: Range<u64>, change: Change) -> u64 {
        let version = 2 * self.next + change as u64;
        self.next += 1;
        for block in blocks {
            self.files.ledger.set(self.process, block, Field::Intended, version);
            if change == Change::Drop {
                self.files.ledger.set(self.process, block, Field::Dropped, version);
            }
        }
        version
    }

    pub(crate) fn acknowledge(&self, blocks: Range<u64>, version: u64) {
        for block in blocks {
            self.files.ledger.set(self.process, block, Field::Acknowledged, version);
        }
    }

    fn write(&mut self, block: u64) {
        self.write_as(block, StageKind::Dirty);
    }

    fn write_as(&mut self, block: u64, kind: StageKind) {
        let version = self.intend(block..block + 1, Change::Write);
        outside("host: about to stage in");
        if self.has_slots() {
            self.write_both(block, version, kind);
            self.acknowledge(block..block + 1, version);
            return;
        }
        while !self.stage_in(block, version, kind) {
            self.job_or_wait();
        }
    }

    /// False if the tier is full, or takes nothing now.
    fn stage_in(&mut self, block: u64, version: u64, kind: StageKind) -> bool {
        let page = page(self.process, block, version);
        match self.tier.stage_in(&self.id(block), &page, kind, version) {
            StageIn::Staged { also_disk: false } => {}
            StageIn::Staged { also_disk: true } => {
                outside("host: staged in, not on disk");
                let (disk, offset) = self.files.disk(&self.id(block));
                disk.write_all_at(&page, offset).unwrap();
            }
            StageIn::Full => return false,
            // Somebody switches the sync mode.
            StageIn::Refused => {
                self.resume_after_death();
                return false;
            }
            other => panic!("{other:?} of a dirty page"),
        }
        outside("host: staged in");
        self.acknowledge(block..block + 1, version);
        true
    }

    /// Reads a page of any process and checks that it is as new as it must be.
    /// With the page there is a token if it may be offered.
    pub(crate) fn read(&self, process: u64, block: u64) -> (Found, Option<Token>) {
        let ledger = &self.files.ledger;
        let low = ledger.get(process, block, Field::Acknowledged);
        let (found, token) = self.fetch(process, block);
        let high = ledger.get(process, block, Field::Intended);
        let dropped = ledger.get(process, block, Field::Dropped);
        let right = (low..=high).contains(&found.version) || (found.missed && dropped >= low);
        assert!(right, "page {block} of {process}: {found:?}, not {low} to {high}, dropped at {dropped}");
        // What disk holds of a page that was dropped is nothing to offer.
        let token = token.filter(|_| found.version >= low);
        (found, token)
    }

    fn offer(&self, block: u64, version: u64, token: Token) {
        let page = page(self.process, block, version);
        outside("host: about to offer");
        self.tier.stage_in(&self.id(block), &page, StageKind::Clean(Some(token)), 0);
        outside("host: offered");
    }

    fn fetch(&self, process: u64, block: u64) -> (Found, Option<Token>) {
        let id = PageId::volume(process, block);
        let mut out = vec![0; PAGE];
        let mut damaged = 0;
        loop {
            outside("host: about to look up");
            let looked = self.tier.lookup(&id, &mut out);
            outside("host: looked up");
            let (missed, token) = match looked {
                Lookup::Memory => (false, None),
                Lookup::Flash(found) => {
                    self.files.flash.read_exact_at(&mut out, found.offset).unwrap();
                    outside("host: page read from flash");
                    let whole = self.tier.verify(&found, &out);
                    if !self.tier.confirm(&found) {
                        continue;
                    }
                    outside("host: read confirmed");
                    assert!(whole, "a page that is confirmed is what was staged in");
                    (false, None)
                }
                Lookup::Miss(token) => {
                    let (disk, offset) = self.files.disk(&id);
                    disk.read_exact_at(&mut out, offset).unwrap();
                    (true, Some(token))
                }
            };
            match version_of(&out, process, block) {
                Some(version) => return (Found { version, missed }, token),
                // Another process was writing it to disk.
                None if missed && damaged < 100 => damaged += 1,
                None => panic!("page {block} of {process} is torn (missed: {missed})"),
            }
        }
    }

    fn drop_page(&mut self, block: u64) {
        let version = self.intend(block..block + 1, Change::Drop);
        outside("host: about to invalidate");
        while self.tier.invalidate(&self.id(block)).is_err() {
            self.job_or_wait();
        }
        outside("host: invalidated");
        self.acknowledge(block..block + 1, version);
    }

    fn drop_range(&mut self, first: u64) {
        let one = self.random(3) == 0;
        let blocks = first..if one { first + 1 } else { (first + 2 + self.random(40)).min(BLOCKS) };
        let version = self.intend(blocks.clone(), Change::Drop);
        let range = match one {
            true => IdRange { start: self.id(first), count: 1, shift: 0 },
            false => IdRange::blocks(self.process, first, blocks.end - first),
        };
        let with_note = self.random(2) == 0;
        outside("host: about to invalidate a range");
        while match with_note {
            true => self.tier.truncate(&range, &[1; NOTE_BYTES]),
            false => self.tier.invalidate_range(&range),
        }
        .is_err()
        {
            self.job_or_wait();
        }
        outside("host: range invalidated");
        self.acknowledge(blocks, version);
    }

    fn pause_stage_out(&mut self) {
        self.tier.begin_drain();
        outside("host: stage-out paused");
        for _ in 0..3 {
            self.job();
        }
        self.tier.end_drain();
        outside("host: stage-out goes on");
    }

    /// As if the flash copy of a page had turned out to be damaged, where disk has it too.
    fn forget(&mut self, block: u64) {
        if let Lookup::Flash(found) = self.tier.lookup(&self.id(block), &mut [0; PAGE]) {
            if !found.dirty {
                self.tier.forget_clean(&self.id(block), &found);
            }
        }
        outside("host: forgotten");
    }

    /// Writes some of its dirty pages to disk by itself, while stage-out rests.
    fn drain_some(&mut self) {
        self.tier.begin_drain();
        while !self.tier.stage_out_idle() {
            self.job_or_wait();
        }
        let mut pages = self.tier.drain_batch(&mut DrainCursor::default(), 20);
        pages.retain(|page| page.id.file() == self.process);
        for page in &pages {
            let (found, _) = self.fetch(self.process, page.id.block());
            let (disk, offset) = self.files.disk(&page.id);
            disk.write_all_at(&self::page(self.process, page.id.block(), found.version), offset).unwrap();
        }
        outside("host: pages drained");
        self.tier.mark_clean(&pages);
        self.tier.end_drain();
    }

    fn publish_again(&self) {
        let _alone = self.files.superblock_alone();
        let superblock = self.tier.published().unwrap();
        self.tier.publish(&superblock);
    }

    /// Asks for another size of the queue, or for none any more.
    fn resize(&mut self) {
        let (frames, ask) = (FRAMES_MIN + self.random(FRAMES_MAX - FRAMES_MIN + 1), self.random(4) > 0);
        let alone = self.files.superblock_alone();
        match ask {
            // While another one is just taking effect it is refused.
            true => drop(self.tier.begin_resize(frames)),
            false => self.tier.cancel_resize(),
        }
        drop(alone);
        outside("host: resize asked for, or not any more");
    }

    /// Carries out a resize that waits, whoever asked for it; false if none does.
    fn cut_ring(&self) -> bool {
        if !self.tier.resize_waits() {
            return false;
        }
        let _alone = self.files.superblock_alone();
        // Somebody else may have been faster.
        if self.tier.resize_waits() {
            let resized = self.tier.resized(&self.files.newest_superblock());
            outside("host: resize stated, not on flash");
            self.files.put_superblock(&resized);
            outside("host: resize on flash, not finished");
            self.tier.finish_resize();
            outside("host: resized, not published");
            self.tier.publish(&resized);
        }
        true
    }

    /// Goes on in another sync mode, unless somebody else is at that.
    fn switch_mode(&mut self) {
        let mode = if self.random(3) == 0 { SyncMode::Through } else { SyncMode::Durable };
        let files = self.files;
        let Some(_switching) = files.switch_alone() else { return };
        self.tier.stop_admission();
        outside("host: admission stopped");
        self.sync();
        if mode == SyncMode::Through {
            let everything = DrainScope { before: None, range: None };
            let ticket = loop {
                match self.tier.request_drain(&everything) {
                    Ok(ticket) => break ticket,
                    Err(_) => self.job_or_wait(),
                }
            };
            while self.tier.drain_state(&ticket) != DrainState::Done {
                self.job_or_wait();
            }
        }
        self.state_mode(mode, || self.tier.set_sync_mode(mode));
        outside("host: sync mode switched, admission stopped");
        self.tier.resume_admission();
        outside("host: admission resumed");
    }

    fn state_mode(&self, mode: SyncMode, switch: impl FnOnce()) {
        let _alone = self.files.superblock_alone();
        let superblock = self.files.newest_superblock().with_sync_mode(mode);
        self.files.put_superblock(&superblock);
        outside("host: sync mode on flash, not in memory");
        switch();
        self.tier.publish(&superblock);
    }

    /// Takes pages again if who stopped admission has died: nobody holds the lock any more.
    fn resume_after_death(&self) {
        let Some(_alone) = self.files.switch_alone() else { return };
        if !self.tier.admits() {
            // Flash may state the new mode already.
            self.state_mode(self.tier.sync_mode(), || {});
            self.tier.resume_admission();
        }
    }

    /// Writes to disk what the dead process may have staged in as clean, and not written there.
    pub(crate) fn settle_through(&self) {
        for block in 0..BLOCKS {
            let id = self.id(block);
            if self.tier.holds(&id) == Some(false) {
                let (found, _) = self.fetch(self.process, block);
                let (disk, offset) = self.files.disk(&id);
                disk.write_all_at(&page(self.process, block, found.version), offset).unwrap();
            }
        }
        self.is_writing(false);
    }

    /// As a database's checkpoint: what is dirty is synced in flash, then drained.
    fn checkpoint(&mut self) {
        self.tier.set_disk_utilisation(self.seed as u32 % 1000);
        let mark = self.tier.begin_checkpoint();
        outside("host: checkpoint begun");
        for _ in 0..5 {
            let block = self.block();
            self.write_as(block, StageKind::DirtyBeforeMark);
        }
        self.sync();
        let ledger = &self.files.ledger;
        for block in 0..BLOCKS {
            let version = ledger.get(self.process, block, Field::Acknowledged);
            ledger.set(self.process, block, Field::ToDrain, version);
        }
        let scope = DrainScope { before: (self.random(2) == 0).then_some(mark), range: None };
        let Ok(ticket) = self.tier.request_drain(&scope) else { return };
        ledger.set(self.process, 0, Field::Draining, u64::from(scope.before.is_none()));
        outside("host: drain requested");
        loop {
            match self.tier.drain_state(&ticket) {
                DrainState::Done => break,
                DrainState::Pending => self.job_or_wait(),
                DrainState::Failed => panic!("nothing fails here: {:?}", self.tier.failure()),
            }
        }
        outside("host: drained");
        self.is_drained();
    }

    /// If this process, or the dead one whose place this is, has asked for everything to be drained and that is done:
    /// it is on disk.
    pub(crate) fn is_drained(&self) {
        let ledger = &self.files.ledger;
        if ledger.get(self.process, 0, Field::Draining) == 1 {
            for block in 0..BLOCKS {
                let version = ledger.get(self.process, block, Field::ToDrain);
                let found = self.on_disk(block);
                assert!(
                    is_drop(version) || found >= Some(version),
                    "page {block}: disk has {found:?}, not {version}"
                );
            }
        }
        ledger.set(self.process, 0, Field::Draining, 0);
    }

    /// What disk has of a page of its own, whole; a version pulled since may be on its way there.
    fn on_disk(&self, block: u64) -> Option<u64> {
        let (disk, offset) = self.files.disk(&self.id(block));
        let mut page = vec![0; PAGE];
        (0..100).find_map(|_| {
            disk.read_exact_at(&mut page, offset).unwrap();
            version_of(&page, self.process, block)
        })
    }

    /// Waits until no drain is under way that somebody dead may have asked for.
    pub(crate) fn drains_end(&mut self) {
        let nothing = DrainScope { before: None, range: Some(IdRange::blocks(u64::MAX, 0, 1)) };
        while self.tier.request_drain(&nothing).is_err() {
            self.job_or_wait();
        }
    }

    /// Makes everything that this process has had acknowledged durable.
    pub(crate) fn sync(&mut self) {
        let (ledger, process) = (&self.files.ledger, self.process);
        let acknowledged: Vec<u64> =
            (0..BLOCKS).map(|block| ledger.get(process, block, Field::Acknowledged)).collect();
        let ticket = loop {
            match self.tier.request_sync() {
                Ok(ticket) => break ticket,
                Err(_) => self.job_or_wait(),
            }
        };
        outside("host: sync requested");
        loop {
            match self.tier.sync_state(&ticket) {
                SyncState::Durable => break,
                SyncState::Pending => self.job_or_wait(),
                SyncState::Failed => panic!("nothing fails here: {:?}", self.tier.failure()),
            }
        }
        outside("host: synced");
        if self.has_slots() {
            self.sync_disk();
        }
        for (block, version) in (0..).zip(acknowledged) {
            ledger.set(process, block, Field::Synced, version);
        }
    }

    pub(crate) fn job_or_wait(&mut self) {
        if self.job() {
            self.idle_since = None;
            return;
        }
        let idle = self.idle_since.get_or_insert_with(Instant::now).elapsed();
        assert!(idle < PATIENCE, "process {} waits, and there is nothing to do", self.process);
        std::thread::yield_now();
    }

    /// Carries out a job. No device is flushed: the kernel outlives every process here.
    fn job(&mut self) -> bool {
        let Some(mut job) = self.tier.next_job(self.owner) else { return self.cut_ring() };
        match &mut job {
            Job::WriteGroup(job) => {
                outside("host: WriteGroup in hand");
                for (offset, bytes) in job.writes() {
                    if self.is_slots(offset) {
                        outside("slots: blocks in hand");
                    }
                    let (first, second) = bytes.split_at(bytes.len() / 2 / PAGE * PAGE);
                    self.files.flash.write_all_at(first, offset).unwrap();
                    outside("host: WriteGroup half done");
                    self.files.flash.write_all_at(second, offset + first.len() as u64).unwrap();
                }
                outside("host: WriteGroup done");
            }
            Job::WriteSegment(job) => {
                outside("host: WriteSegment in hand");
                let (offset, bytes) = job.write();
                self.files.flash.write_all_at(bytes, offset).unwrap();
                outside("host: WriteSegment done");
            }
            Job::ReadFront(job) => {
                outside("host: ReadFront in hand");
                for (offset, bytes) in job.reads() {
                    self.files.flash.read_exact_at(bytes, offset).unwrap();
                }
                outside("host: ReadFront done");
            }
            Job::WriteDisk(job) => {
                outside("host: WriteDisk in hand");
                for (id, bytes) in job.pages() {
                    let (disk, offset) = self.files.disk(&id);
                    disk.write_all_at(bytes, offset).unwrap();
                    outside("host: WriteDisk, one page done");
                }
            }
            Job::PullPages(job) => {
                outside("host: PullPages in hand");
                // A pull never waits: what it would wait for may wait for this process.
                for _ in 0..job.pages() {
                    let block = self.block();
                    let version = self.intend(block..block + 1, Change::Write);
                    if !self.stage_in(block, version, StageKind::Dirty) {
                        break;
                    }
                }
                outside("host: PullPages done");
            }
            Job::FlushFlash(_) => outside("host: FlushFlash in hand"),
            Job::SyncDisk(_) => outside("host: SyncDisk in hand"),
        }
        self.tier.complete(job, Ok(()));
        outside("host: job completed");
        true
    }
}
