//! What the threads do: the host's side of the tier's protocol, with points between its own steps as well.

use mezzanine_engine::{
    FlashPage, IdRange, Job, Lookup, PageId, StageIn, StageKind, SyncState, SyncTicket, Token,
};
use mezzanine_ground::interleave::point;

use shuttle::sync::RwLock;

use crate::world::{Known, OWNER, PAGE, World, page_of, version_of};

impl World {
    /// Reads a page, wherever it is, and checks that it is no older than whatever was known before.
    pub(crate) fn read(&self, id: &PageId) -> u64 {
        self.read_or_miss(id).0
    }

    /// Reads a page; if it came from disk, with the token of its miss.
    pub(crate) fn read_or_miss(&self, id: &PageId) -> (u64, Option<Token>) {
        let _locked = self.host_lock.read().unwrap();
        let before = self.known_of(id);
        let (version, token) = self.find(id);
        self.has_read(id, before, version);
        (version, token)
    }

    /// Reads pages that are looked up in one call.
    pub(crate) fn read_each(&self, ids: &[PageId]) {
        let _locked = self.host_lock.read().unwrap();
        let before: Vec<Known> = ids.iter().map(|id| self.known_of(id)).collect();
        let mut pages = vec![0; ids.len() * PAGE];
        let mut found = Vec::new();
        let memory = ids.iter().copied().zip(pages.chunks_exact_mut(PAGE));
        self.tier.lookup_each(memory, |lookup| found.push(lookup));
        for (((id, before), lookup), page) in
            ids.iter().zip(before).zip(found).zip(pages.chunks_exact_mut(PAGE))
        {
            let read = self.look(id, lookup, page).unwrap_or_else(|| self.find(id));
            self.has_read(id, before, read.0);
        }
    }

    fn known_of(&self, id: &PageId) -> Known {
        self.known.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    fn has_read(&self, id: &PageId, before: Known, version: u64) {
        let mut known = self.known.lock().unwrap();
        let known = known.entry(*id).or_default();
        assert!(version >= before.seen, "{id:?}: read version {version} after {}", before.seen);
        assert!(version <= known.issued, "{id:?}: read version {version}, which nobody wrote");
        assert!(version == 0 || version > before.gone, "{id:?}: read version {version}, which was dropped");
        known.seen = known.seen.max(version);
    }

    fn find(&self, id: &PageId) -> (u64, Option<Token>) {
        let mut out = vec![0; PAGE];
        loop {
            let lookup = self.tier.lookup(id, &mut out);
            if let Some(found) = self.look(id, lookup, &mut out) {
                return found;
            }
        }
    }

    /// Reads a page that was looked up, and the token if it was missed; `None` if it is to be looked up
    /// again.
    fn look(&self, id: &PageId, lookup: Lookup, out: &mut [u8]) -> Option<(u64, Option<Token>)> {
        match lookup {
            Lookup::Memory => Some((version_of(id, out), None)),
            Lookup::Flash(found) => {
                self.read_flash(&found, out);
                if !self.tier.confirm(&found) {
                    return None;
                }
                assert!(self.tier.verify(&found, out), "{id:?}: a confirmed read is damaged");
                Some((version_of(id, out), None))
            }
            Lookup::Miss(token) => {
                point();
                Some((self.disk.lock().unwrap().now.get(id).copied().unwrap_or(0), Some(token)))
            }
        }
    }

    /// A device may change while it is read.
    fn read_flash(&self, found: &FlashPage, out: &mut [u8]) {
        let offset = found.offset as usize;
        for (half, out) in out.chunks_mut(PAGE / 2).enumerate() {
            point();
            let from = offset + half * PAGE / 2;
            out.copy_from_slice(&self.flash.lock().unwrap().now[from..from + PAGE / 2]);
        }
    }

    /// Offers what was read from disk.
    pub(crate) fn offer(&self, id: &PageId, version: u64, token: Option<Token>) {
        self.tier.stage_in(id, &page_of(id, version), StageKind::Clean(token), 0);
    }

    /// A clean page leaves the host's pool: from now on others may have it.
    pub(crate) fn give_up(&self, id: &PageId) {
        let version = self.disk.lock().unwrap().now[id];
        let token = self.tier.token_unless_held(id).unwrap();
        *self.given_up.lock().unwrap() = Some((version, token));
    }

    /// Offers it.
    pub(crate) fn offer_given_up(&self, id: &PageId) {
        let given_up = self.given_up.lock().unwrap().take();
        let (version, token) = given_up.unwrap();
        self.offer(id, version, Some(token));
    }

    /// Writes the next version of a page to disk, past the tier, which is told before. Nobody else has the
    /// page.
    pub(crate) fn overwrite(&self, id: &PageId) {
        let version = self.issue(id);
        let only = IdRange { start: *id, count: 1, shift: 0 };
        if self.tier.changes_elsewhere(id).is_some() {
            while self.tier.invalidate_range(&only).is_err() {
                self.work_or_wait(OWNER);
            }
        }
        while self.tier.stage_out_touches(&only) {
            self.work_or_wait(OWNER);
        }
        self.write_disk(id, version);
        self.taken(id, version);
    }

    /// Begins the next version of a page. Only one thread writes a page.
    pub(crate) fn issue(&self, id: &PageId) -> u64 {
        let mut known = self.known.lock().unwrap();
        let known = known.entry(*id).or_default();
        known.issued += 1;
        known.issued
    }

    pub(crate) fn taken(&self, id: &PageId, version: u64) {
        let mut known = self.known.lock().unwrap();
        let known = known.entry(*id).or_default();
        known.seen = known.seen.max(version);
    }

    /// Stages the next version of a page in.
    pub(crate) fn write(&self, id: &PageId) {
        self.write_or_else(id, || self.work_or_wait(OWNER));
    }

    /// The same; `full` is called as long as there is no room.
    pub(crate) fn write_or_else(&self, id: &PageId, mut full: impl FnMut()) {
        let version = self.issue(id);
        let page = page_of(id, version);
        while self.tier.stage_in(id, &page, StageKind::Dirty, 0) == StageIn::Full {
            full();
        }
        self.taken(id, version);
    }

    /// Writes the next version of a page to disk, past the tier, as when admission refuses it. Readers are
    /// kept away, as by the host's lock for the page, but their later offers of what they read are not.
    pub(crate) fn write_past(&self, id: &PageId) {
        let locked = self.host_lock.write().unwrap();
        let version = self.issue(id);
        self.write_disk(id, version);
        while self.tier.invalidate(id).is_err() {
            self.work_or_wait(OWNER);
        }
        // Stage-out may have had the older version in its hands, and so write it over this one.
        while self.tier.stage_out_touches(&IdRange { start: *id, count: 1, shift: 0 }) {
            self.work_or_wait(OWNER);
        }
        self.write_disk(id, version);
        self.taken(id, version);
        drop(locked);
    }

    /// Drops pages that no other thread uses, in the tier and on disk.
    pub(crate) fn drop_pages(&self, range: &IdRange) {
        while self.tier.invalidate_range(range).is_err() {
            self.work_or_wait(OWNER);
        }
        while self.tier.stage_out_touches(range) {
            self.work_or_wait(OWNER);
        }
        let mut disk = self.disk.lock().unwrap();
        disk.now.retain(|id, _| !range.contains(id));
        disk.synced.retain(|id, _| !range.contains(id));
        for (_, known) in self.known.lock().unwrap().iter_mut().filter(|(id, _)| range.contains(id)) {
            (known.gone, known.seen) = (known.issued, 0);
        }
    }

    /// Synced at once.
    pub(crate) fn write_disk(&self, id: &PageId, version: u64) {
        point();
        let mut disk = self.disk.lock().unwrap();
        disk.now.insert(*id, version);
        disk.synced.insert(*id, version);
    }

    /// The host's lock for a page.
    pub(crate) fn page_lock(&self, id: &PageId) -> &RwLock<()> {
        &self.page_locks[(id.block() % self.page_locks.len() as u64) as usize]
    }

    /// Syncs the disk, whoever has written there, and tells the tier.
    pub(crate) fn sync_disk(&self) {
        let mark = self.tier.disk_mark();
        // Whoever was about to write a page when the mark was taken has done so when the lock can be had.
        drop(self.disk_lock.write().unwrap());
        {
            let disk = &mut *self.disk.lock().unwrap();
            disk.synced = disk.now.clone();
        }
        self.tier.disk_synced(mark);
    }

    /// Carries a job out for `owner`, or lets others run.
    pub(crate) fn work_or_wait(&self, owner: u32) {
        if !self.work(owner) {
            shuttle::thread::yield_now();
        }
    }

    pub(crate) fn work(&self, owner: u32) -> bool {
        let Some(mut job) = self.tier.next_job(owner) else { return false };
        self.carry_out(&mut job);
        self.tier.complete(job, Ok(()));
        true
    }

    pub(crate) fn carry_out(&self, job: &mut Job<'_>) {
        match job {
            Job::WriteGroup(job) => {
                let writes: Vec<_> = job.writes().map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
                for (offset, bytes) in writes {
                    self.write_flash(offset as usize, &bytes);
                }
            }
            Job::WriteSegment(job) => {
                let (offset, bytes) = job.write();
                self.write_flash(offset as usize, bytes);
            }
            Job::FlushFlash(_) => {
                point();
                let flash = &mut *self.flash.lock().unwrap();
                for (offset, bytes) in flash.unflushed.drain(..) {
                    flash.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            Job::ReadFront(job) => {
                for (offset, bytes) in job.reads() {
                    point();
                    let offset = offset as usize;
                    let flash = self.flash.lock().unwrap();
                    bytes.copy_from_slice(&flash.now[offset..offset + bytes.len()]);
                }
            }
            Job::WriteDisk(job) => {
                let pages: Vec<_> = job.pages().map(|(id, bytes)| (id, version_of(&id, bytes))).collect();
                for (id, version) in pages {
                    point();
                    self.disk.lock().unwrap().now.insert(id, version);
                }
            }
            Job::PullPages(_) => {}
            Job::SyncDisk(_) => {
                point();
                let disk = &mut *self.disk.lock().unwrap();
                disk.synced = disk.now.clone();
            }
        }
    }

    /// Page by page, as a device may.
    fn write_flash(&self, offset: usize, bytes: &[u8]) {
        for (index, bytes) in bytes.chunks(PAGE).enumerate() {
            point();
            let at = offset + index * PAGE;
            let mut flash = self.flash.lock().unwrap();
            flash.now[at..at + bytes.len()].copy_from_slice(bytes);
            flash.unflushed.push((at, bytes.to_vec()));
        }
    }

    pub(crate) fn sync_begin(&self) -> SyncTicket {
        loop {
            match self.tier.request_sync() {
                Ok(ticket) => return ticket,
                Err(_) => self.work_or_wait(OWNER),
            }
        }
    }

    pub(crate) fn sync_end(&self, ticket: &SyncTicket) {
        loop {
            match self.tier.sync_state(ticket) {
                SyncState::Durable => return,
                SyncState::Pending => self.work_or_wait(OWNER),
                SyncState::Failed => panic!("nothing fails here"),
            }
        }
    }

    /// Appends other pages until stage-out would take the group of `id` next.
    pub(crate) fn push_to_front(&self, id: &PageId) {
        let range = IdRange { start: *id, count: 1, shift: 0 };
        for block in 0.. {
            self.write(&PageId::volume(u64::MAX >> 32, block));
            while let Some(mut job) = self.tier.next_job(OWNER) {
                if matches!(job, Job::ReadFront(_)) && self.tier.stage_out_touches(&range) {
                    // Nobody has read anything yet: the job is put back.
                    drop(job);
                    self.tier.abandon(OWNER).unwrap();
                    return;
                }
                self.carry_out(&mut job);
                self.tier.complete(job, Ok(()));
            }
        }
    }
}
