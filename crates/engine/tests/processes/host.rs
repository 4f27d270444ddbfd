//! What every process of the test does: a host over files, with descriptors of its own, and random work on a
//! shared tier.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use mezzanine_engine::planted::outside;
use mezzanine_engine::{
    DrainScope, HOST_METADATA_BYTES, IdRange, Job, JobError, Lookup, PageId, StageIn, StageKind, SyncState,
    Tier, Token,
};
use mezzanine_ground::random::Random;

use crate::files::{Files, PAGE, page, version_of};
use crate::ledger::{BLOCKS, Field, PROCESSES};

/// Nothing takes so long unless somebody waits for what does not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

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
    pub(crate) numbers: Random,
    /// Numbers half of the next change.
    next: u64,
    /// The blocks of the change under way. A host keeps others away from them, so nothing of them is pulled:
    /// a page pulled between the number of a drop and the drop itself would go with it, although its own
    /// number is the higher one.
    changing: Range<u64>,
    /// It waits for others since then.
    idle_since: Option<Instant>,
    /// Reads of stage-out so far.
    reads: u64,
}

impl<'t> Worker<'t> {
    pub(crate) fn new(tier: &'t Tier, files: &'t Files, process: u64, owner: u32, seed: u64) -> Self {
        Self {
            tier,
            files,
            process,
            owner,
            numbers: Random::new(seed),
            next: files.ledger.last(process) / 2 + 1,
            changing: 0..0,
            idle_since: None,
            reads: 0,
        }
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.numbers.below(below)
    }

    /// A block, of the hot ones half of the time.
    pub(crate) fn block(&mut self) -> u64 {
        let among = if self.random(2) == 0 { BLOCKS / 8 } else { BLOCKS };
        self.random(among)
    }

    /// One thing that a process does.
    pub(crate) fn step(&mut self) {
        self.changing = 0..0;
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
            190 => self.invalidate_range(block),
            191..193 => self.tier.set_host_metadata(&[self.next as u8; HOST_METADATA_BYTES]),
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
        self.changing = blocks.clone();
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

    pub(crate) fn write_as(&mut self, block: u64, kind: StageKind) {
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

    pub(crate) fn fetch(&self, process: u64, block: u64) -> (Found, Option<Token>) {
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

    fn invalidate_range(&mut self, first: u64) {
        let one = self.random(3) == 0;
        let blocks = first..if one { first + 1 } else { (first + 2 + self.random(40)).min(BLOCKS) };
        let version = self.intend(blocks.clone(), Change::Drop);
        let range = match one {
            true => IdRange { start: self.id(first), count: 1, shift: 0 },
            false => IdRange::blocks(self.process, first, blocks.end - first),
        };
        let with_host_metadata = self.random(2) == 0;
        outside("host: about to invalidate a range");
        while match with_host_metadata {
            true => self.tier.truncate(&range, &[1; HOST_METADATA_BYTES]),
            false => self.tier.invalidate_range(&range),
        }
        .is_err()
        {
            self.job_or_wait();
        }
        outside("host: range invalidated");
        self.acknowledge(blocks, version);
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
    pub(crate) fn job(&mut self) -> bool {
        let Some(mut job) = self.tier.next_job(self.owner) else { return self.cut_ring() };
        let mut outcome = Ok(());
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
                let reads = job.reads();
                self.reads += 1;
                // Now and then a read fails, and goes well when it is repeated page by page.
                if self.reads % 3 == 2 && reads.iter().any(|(_, bytes)| bytes.len() > PAGE) {
                    outcome = Err(JobError);
                } else {
                    for (offset, bytes) in reads {
                        self.files.flash.read_exact_at(bytes, offset).unwrap();
                    }
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
                let changing = self.changing.clone();
                for _ in 0..job.pages() {
                    let block = self.block();
                    if changing.contains(&block) {
                        continue;
                    }
                    let version = self.intend(block..block + 1, Change::Write);
                    if !self.stage_in(block, version, StageKind::Dirty) {
                        break;
                    }
                }
                self.changing = changing;
                outside("host: PullPages done");
            }
            Job::FlushFlash(_) => outside("host: FlushFlash in hand"),
            Job::SyncDisk(_) => outside("host: SyncDisk in hand"),
        }
        self.tier.complete(job, outcome);
        outside("host: job completed");
        true
    }
}
