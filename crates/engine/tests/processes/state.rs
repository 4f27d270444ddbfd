//! What a process does to the tier as a whole: drains, checkpoints, other sizes, other sync modes.

use std::os::unix::fs::FileExt;

use mezzanine_engine::planted::outside;
use mezzanine_engine::{DrainCursor, DrainScope, DrainState, IdRange, Lookup, PageId, StageKind, SyncMode};

use crate::files::{FRAMES_MAX, FRAMES_MIN, PAGE, page, version_of};
use crate::host::{Worker, is_drop};
use crate::ledger::{BLOCKS, Field};

impl Worker<'_> {
    pub(crate) fn pause_stage_out(&mut self) {
        self.tier.begin_drain();
        outside("host: stage-out paused");
        for _ in 0..3 {
            self.job();
        }
        self.tier.end_drain();
        outside("host: stage-out goes on");
    }

    /// As if the flash copy of a page had turned out to be damaged, where disk has it too.
    pub(crate) fn forget(&mut self, block: u64) {
        if let Lookup::Flash(found) = self.tier.lookup(&self.id(block), &mut [0; PAGE]) {
            if !found.dirty {
                self.tier.invalidate_clean(&self.id(block), &found);
            }
        }
        outside("host: clean copy invalidated");
    }

    /// Writes some of its dirty pages to disk by itself, while stage-out rests.
    pub(crate) fn drain_some(&mut self) {
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

    pub(crate) fn publish_again(&self) {
        let _alone = self.files.superblock_alone();
        let superblock = self.tier.published().unwrap();
        self.tier.publish(&superblock);
    }

    /// Asks for another size of the queue, or for none any more.
    pub(crate) fn resize(&mut self) {
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
    pub(crate) fn cut_ring(&self) -> bool {
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
    pub(crate) fn switch_mode(&mut self) {
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
    pub(crate) fn resume_after_death(&self) {
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
    pub(crate) fn checkpoint(&mut self) {
        self.tier.set_disk_utilisation(self.random(1000) as u32);
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
        // Every page has an id in it.
        let all = IdRange { start: PageId::volume(0, 0), count: 1, shift: 159 };
        let range = (self.random(2) == 0).then_some(all);
        let scope = DrainScope { before: (self.random(2) == 0).then_some(mark), range };
        let Ok(ticket) = self.tier.request_drain(&scope) else { return };
        ledger.set(self.process, 0, Field::Draining, u64::from(scope.before.is_none()));
        outside("host: drain requested");
        loop {
            match self.tier.drain_state(&ticket) {
                DrainState::Done => break,
                DrainState::Pending => self.job_or_wait(),
                DrainState::Failed | DrainState::Lost | DrainState::Refused => {
                    panic!("nothing fails here: {:?}", self.tier.failure())
                }
            }
        }
        outside("host: drained");
        self.is_drained();
    }

    /// If this process, or the dead one whose place this is, has asked for everything to be drained and that
    /// is done: it is on disk.
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
}
