//! The page engine that ships, over hollow devices: its directory, its queue, its jobs and what it writes
//! back are real, and data have no contents. Its host is as `mezzanine_volume` is, of which each request and
//! each job is named beside it.
//!
//! Two writes of one page in sync mode `through` do not exclude each other here, as they do there: a backing
//! device carries them out one after the other in any case.

use mezzanine_device::model::OperationKind;
use mezzanine_engine::{FlashPage, Geometry, Job, Lookup, PageId, StageIn, StageKind, Tier, Token};

use super::between::{Ask, Between, Device, Next, Request, Tally};
use super::rivals::merge;
use crate::hollow::Hollow;

/// Who carries out jobs.
pub(super) const OWNER: u32 = 1;
/// The number of the one file.
const FILE: u64 = 1;
/// Over how long it is measured how busy the backing device is, as `mezzanine_volume` does.
const WINDOW_NS: u64 = 250_000_000;

/// Where a page is read.
enum Source {
    Flash(FlashPage),
    Disk(Token),
}

/// How far a client's request is.
#[derive(Default)]
enum State {
    /// It has none, or needs nothing any more.
    #[default]
    None,
    /// Pages that are being read, by their blocks.
    Reading(Vec<(u64, Source)>),
    /// On its way to the backing device.
    Writing(Request),
    /// Pages from this block on are to be staged in, and there was no room.
    Staging { block: u64, end: u64 },
}

#[derive(Default)]
struct Client {
    state: State,
    /// Since when it waits for the backing device.
    disk_since: Option<u64>,
}

/// The page engine between clients and devices.
pub(super) struct Pages<'t> {
    tier: &'t Tier,
    is_through: bool,
    page_bytes: u64,
    contents: Hollow,
    /// A page of zeros, as all are, and where lookups copy pages to.
    zeros: Vec<u8>,
    page: Vec<u8>,
    clients: Vec<Client>,
    /// Clients that found no room, the first one first, and what [`Tier::progress`] was then.
    waiting: Vec<u32>,
    tried: u64,
    jobs: Vec<Option<Job<'t>>>,
    free: Vec<u32>,
    /// There is no job as long as [`Tier::work`] is this.
    no_job_at: Option<u64>,
    /// What clients have waited for the backing device, in ns, and when the window began with what it was.
    disk_wait: u64,
    window: (u64, u64),
    tally: Tally,
}

impl<'t> Pages<'t> {
    /// For so many clients.
    pub(super) fn new(tier: &'t Tier, is_through: bool, clients: u32) -> Self {
        let geometry: &Geometry = tier.geometry();
        let page_size = geometry.page_size();
        Self {
            tier,
            is_through,
            page_bytes: page_size as u64,
            contents: Hollow::new(geometry),
            zeros: vec![0; page_size],
            page: vec![0; page_size],
            clients: std::iter::repeat_with(Client::default).take(clients as usize).collect(),
            waiting: Vec::new(),
            tried: 0,
            jobs: Vec::new(),
            free: Vec::new(),
            no_job_at: None,
            disk_wait: 0,
            window: (0, 0),
            tally: Tally::default(),
        }
    }

    fn blocks(&self, request: Request) -> std::ops::Range<u64> {
        let end = (request.offset + request.bytes).div_ceil(self.page_bytes);
        request.offset / self.page_bytes..end
    }

    /// `read.rs` of the volume: each page comes from memory, from flash or from disk.
    fn look_up(&mut self, who: u32, blocks: impl Iterator<Item = u64>, now: u64, round: &mut Vec<Ask>) {
        let mut reading = Vec::new();
        for block in blocks {
            match self.tier.lookup(&PageId::volume(FILE, block), &mut self.page) {
                Lookup::Memory => {}
                Lookup::Flash(page) => {
                    merge(round, Ask::read(Device::Cache, page.offset, self.page_bytes));
                    reading.push((block, Source::Flash(page)));
                }
                Lookup::Miss(token) => {
                    merge(round, Ask::read(Device::Backing, block * self.page_bytes, self.page_bytes));
                    reading.push((block, Source::Disk(token)));
                    self.clients[who as usize].disk_since = Some(now);
                }
            }
        }
        self.clients[who as usize].state =
            if reading.is_empty() { State::None } else { State::Reading(reading) };
    }

    /// Whether a page that was read is right. One from disk is offered to the tier.
    fn has_read(&mut self, block: u64, source: &Source) -> bool {
        let id = PageId::volume(FILE, block);
        match source {
            Source::Flash(page) => self.tier.confirm(page),
            Source::Disk(token) => {
                let offered = self.tier.stage_in(&id, &self.zeros, StageKind::Clean(Some(*token)), 0);
                match offered {
                    StageIn::Staged { .. } | StageIn::FirstTouch => return true,
                    // Nobody else would make room where nothing is written.
                    _ => self.no_job_at = None,
                }
                match self.tier.lookup(&id, &mut self.page) {
                    Lookup::Memory => true,
                    Lookup::Miss(now) => now == *token,
                    Lookup::Flash(_) => false,
                }
            }
        }
    }

    /// `write.rs` of the volume: pages are staged in; false if there is no room for one.
    fn stage(&mut self, who: u32, mut block: u64, end: u64) -> bool {
        while block < end {
            match self.tier.stage_in(&PageId::volume(FILE, block), &self.zeros, StageKind::Dirty, 0) {
                StageIn::Staged { .. } => block += 1,
                StageIn::Full => {
                    self.clients[who as usize].state = State::Staging { block, end };
                    (self.tried, self.no_job_at) = (self.tier.progress(), None);
                    return false;
                }
                other => unreachable!("a tier that takes all pages answers {other:?}"),
            }
        }
        self.clients[who as usize].state = State::None;
        true
    }

    fn stage_or_wait(&mut self, who: u32, request: Request) {
        let blocks = self.blocks(request);
        if !self.stage(who, blocks.start, blocks.end) {
            self.waiting.push(who);
        }
    }

    /// `pacing.rs` of the volume.
    fn pace(&mut self, now: u64) {
        let (began, before) = self.window;
        if now - began < WINDOW_NS {
            return;
        }
        let permille = (self.disk_wait - before) * 1000 / (now - began);
        self.tier.set_disk_utilisation(permille.min(1000) as u32);
        self.window = (now, self.disk_wait);
        self.no_job_at = None;
    }

    /// `jobs.rs` of the volume: what a job asks of the devices. What it reads is read at once: nobody asks
    /// flash for a page whose job is not complete.
    fn operations_of(&mut self, job: &mut Job<'t>, round: &mut Vec<Ask>) {
        match job {
            Job::WriteGroup(group) => {
                for (offset, bytes) in group.writes() {
                    self.contents.write(offset, bytes);
                    round.push(Ask::write(Device::Cache, offset, bytes.len() as u64));
                }
            }
            Job::WriteSegment(segment) => {
                let (offset, bytes) = segment.write();
                round.push(Ask::write(Device::Cache, offset, bytes.len() as u64));
            }
            Job::ReadFront(front) => {
                for (offset, bytes) in front.reads() {
                    self.contents.read(offset, bytes);
                    round.push(Ask::read(Device::Cache, offset, bytes.len() as u64));
                }
            }
            Job::WriteDisk(write) => {
                for (id, page) in write.newest_pages() {
                    let bytes = page.len() as u64;
                    merge(round, Ask::write(Device::Backing, id.block() * bytes, bytes));
                }
            }
            Job::FlushFlash(_) => round.push(flush(Device::Cache)),
            Job::SyncDisk(_) => round.push(flush(Device::Backing)),
            Job::PullPages(_) => {}
        }
    }
}

fn flush(device: Device) -> Ask {
    Ask { device, kind: OperationKind::Flush, offset: 0, bytes: 0 }
}

impl Between for Pages<'_> {
    fn begin(&mut self, who: u32, request: Request, now: u64, round: &mut Vec<Ask>) {
        self.pace(now);
        match (request.is_write, self.is_through) {
            (false, _) => {
                let blocks = self.blocks(request);
                self.look_up(who, blocks, now, round);
                self.tally.reads += 1;
                let hit = self.clients[who as usize].disk_since.is_none();
                self.tally.reads_hit += u64::from(hit);
            }
            (true, true) => {
                round.push(Ask::write(Device::Backing, request.offset, request.bytes));
                let client = &mut self.clients[who as usize];
                (client.state, client.disk_since) = (State::Writing(request), Some(now));
            }
            (true, false) => self.stage_or_wait(who, request),
        }
    }

    fn go_on(&mut self, who: u32, now: u64, round: &mut Vec<Ask>) {
        let client = &mut self.clients[who as usize];
        if let Some(since) = client.disk_since.take() {
            self.disk_wait += now - since;
        }
        match std::mem::take(&mut client.state) {
            State::None => {}
            State::Reading(pages) => {
                let mut again = Vec::new();
                for (block, source) in &pages {
                    if !self.has_read(*block, source) {
                        again.push(*block);
                    }
                }
                self.look_up(who, again.into_iter(), now, round);
            }
            State::Writing(request) => self.stage_or_wait(who, request),
            State::Staging { .. } => unreachable!("client {who} waits, and has no round"),
        }
    }

    fn is_waiting(&self, who: u32) -> bool {
        matches!(self.clients[who as usize].state, State::Staging { .. })
    }

    fn released(&mut self, _now: u64, _round: &mut Vec<Ask>) -> Option<u32> {
        let who = *self.waiting.first()?;
        if self.tier.progress() == self.tried {
            return None;
        }
        let State::Staging { block, end } = self.clients[who as usize].state else {
            unreachable!("client {who} waits");
        };
        self.stage(who, block, end).then(|| self.waiting.remove(0))
    }

    fn may_have_job(&self, _now: u64) -> bool {
        self.no_job_at != Some(self.tier.work())
    }

    fn next_job(&mut self, now: u64, round: &mut Vec<Ask>) -> Next {
        self.pace(now);
        loop {
            let before = self.tier.progress();
            let Some(mut job) = self.tier.next_job(OWNER) else {
                self.no_job_at = Some(self.tier.work());
                // The search itself has made room.
                let released = !self.waiting.is_empty() && self.tier.progress() != before;
                return Next::NotBefore(if released { now + 1 } else { u64::MAX });
            };
            self.operations_of(&mut job, round);
            if round.is_empty() {
                self.tier.complete(job, Ok(()));
                continue;
            }
            let number = self.free.pop().unwrap_or_else(|| {
                self.jobs.push(None);
                self.jobs.len() as u32 - 1
            });
            self.jobs[number as usize] = Some(job);
            return Next::Job(number);
        }
    }

    fn job_goes_on(&mut self, job: u32, _now: u64, _round: &mut Vec<Ask>) {
        let done = self.jobs[job as usize].take().expect("invariant 2: the job is under way");
        self.free.push(job);
        self.tier.complete(done, Ok(()));
        self.no_job_at = None;
    }

    fn reasons(&self) -> Vec<(&'static str, u64)> {
        let tells = |name: &str| {
            name.starts_with("dropped_")
                || [
                    "stalls",
                    "second_chances",
                    "second_chances_refused",
                    "left_invalid",
                    "left_clean",
                    "disk_writes",
                ]
                .contains(&name)
        };
        let mut counted = self.tier.statistics().named();
        counted.retain(|&(name, count)| count > 0 && tells(name));
        counted
    }

    fn tally(&self) -> Tally {
        let counted = self.tier.statistics();
        let pages = |pages: u64| pages * self.page_bytes;
        let summaries = counted.group_bytes_written.saturating_sub(pages(counted.pages_written));
        Tally {
            populated_bytes: pages(counted.staged_clean),
            written_bytes: pages(counted.staged_dirty),
            // And pages that are appended again.
            index_bytes: summaries + counted.metadata_bytes_written + pages(counted.second_chances),
            ..self.tally
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.tier.geometry().region_bytes() as u64
    }

    fn check(&self) {
        self.tier.check();
    }
}
