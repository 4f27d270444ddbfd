//! A host of a tier on zones, with flash that has some.

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, Job, Lookup, PageId, ReadError, ReadFlash, RecoveryError, StageIn, StageKind, SyncState, Tier,
    TierConfig, TierZones,
};
use mezzanine_ground::random::Random;

pub(crate) const PAGE: usize = 4096;
/// Frames of a zone, a few groups' worth.
pub(crate) const ZONE_FRAMES: u64 = 11;
/// Pages of the database.
const PAGES: u64 = 300;

/// Zones of so many frames. They have room for a bit more, and begin further on.
pub(crate) fn zones_of(frames: u64) -> TierZones {
    TierZones { zone_bytes: (frames + 3) * PAGE as u64, capacity_bytes: frames * PAGE as u64 + 512 }
}

pub(crate) fn config(zone_frames: u64) -> TierConfig {
    let config = TierConfig {
        group_pages: 3,
        staging_groups: 3,
        segment_frames: 16,
        band_frames: 6,
        ahead_frames: 0,
        survivors_max: 1,
        ..TierConfig::new(PAGE as u32, 256)
    };
    let mut config = TierConfig { frames: 1, ..config }.on_zones(zones_of(zone_frames));
    while config.geometry().is_err() {
        config = TierConfig { frames: config.frames + zone_frames, ..config }.on_zones(zones_of(zone_frames));
    }
    config
}

/// Flash with zones behind its conventional beginning.
#[derive(Clone)]
pub(crate) struct Flash {
    zones: TierZones,
    pub(crate) bytes: Vec<u8>,
    /// Where the zones begin.
    pub(crate) begin: u64,
    /// Bytes written of each zone.
    pub(crate) written: Vec<u64>,
    /// Writes to zones since the last flush.
    pub(crate) unflushed: Vec<(u64, usize)>,
    pub(crate) resets: u64,
    /// Offsets of pages that cannot be read.
    pub(crate) unreadable: Vec<u64>,
    /// Whether it tells how far a zone is written.
    pub(crate) tells: bool,
}

impl Flash {
    fn new(config: &TierConfig) -> Self {
        let geometry = config.geometry().unwrap();
        let (begin, len) = (geometry.conventional_bytes(), geometry.flash_bytes());
        let zones = config.zones.unwrap();
        assert!(begin % zones.zone_bytes == 0 && len % zones.zone_bytes == 0);
        let written = vec![0; ((len - begin) / zones.zone_bytes) as usize];
        let bytes = vec![0; len as usize];
        Self {
            zones,
            bytes,
            begin,
            written,
            unflushed: Vec::new(),
            resets: 0,
            unreadable: Vec::new(),
            tells: true,
        }
    }

    fn zone(&self, offset: u64) -> (usize, u64) {
        let within = offset - self.begin;
        ((within / self.zones.zone_bytes) as usize, within % self.zones.zone_bytes)
    }

    fn reset(&mut self, offset: u64) {
        let (zone, within) = self.zone(offset);
        assert_eq!(within, 0, "a zone begins where it is reset");
        self.written[zone] = 0;
        self.bytes[offset as usize..(offset + self.zones.zone_bytes) as usize].fill(0);
        let zone_range = offset..offset + self.zones.zone_bytes;
        self.unflushed.retain(|(at, _)| !zone_range.contains(at));
        self.resets += 1;
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset >= self.begin {
            let (zone, within) = self.zone(offset);
            assert_eq!(self.written[zone], within, "a write at the write pointer of zone {zone}");
            self.written[zone] += bytes.len() as u64;
            assert!(self.written[zone] <= self.zones.capacity_bytes, "zone {zone} has room for it");
            self.unflushed.push((offset, bytes.len()));
        }
        self.bytes[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// The power fails: of the first write since the last flush half is there, of the others nothing.
    fn cut(&mut self) {
        let mut keep = true;
        for (offset, len) in std::mem::take(&mut self.unflushed) {
            let kept = if std::mem::take(&mut keep) { len / 2 } else { 0 };
            let (zone, within) = self.zone(offset);
            self.bytes[offset as usize + kept..offset as usize + len].fill(0);
            self.written[zone] = self.written[zone].min(within + kept as u64);
        }
    }
}

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let range = offset..offset + bytes.len() as u64;
        if self.unreadable.iter().any(|bad| range.contains(bad)) {
            return Err(ReadError(format!("a bad place from {offset} on")));
        }
        bytes.copy_from_slice(&self.bytes[offset as usize..range.end as usize]);
        Ok(())
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        let (zone, within) = self.zone(offset);
        self.tells.then(|| offset - within + self.written[zone])
    }
}

pub(crate) struct Host {
    tier: Tier,
    pub(crate) superblock: Superblock,
    pub(crate) flash: Flash,
    disk: HashMap<PageId, Vec<u8>>,
    /// What was written last, and what had been at the last sync.
    pub(crate) now: HashMap<PageId, u64>,
    pub(crate) synced: HashMap<PageId, u64>,
    pub(crate) random: Random,
}

fn page(version: u64) -> Vec<u8> {
    version.to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

impl Host {
    pub(crate) fn new(seed: u64, zone_frames: u64) -> Self {
        let config = config(zone_frames);
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        Self::open(superblock, Flash::new(&config), HashMap::new(), HashMap::new(), Random::new(seed))
    }

    fn open(
        superblock: Superblock,
        flash: Flash,
        disk: HashMap<PageId, Vec<u8>>,
        now: HashMap<PageId, u64>,
        random: Random,
    ) -> Self {
        Self::try_open(superblock, flash, disk, now, random).unwrap()
    }

    fn try_open(
        superblock: Superblock,
        mut flash: Flash,
        disk: HashMap<PageId, Vec<u8>>,
        now: HashMap<PageId, u64>,
        random: Random,
    ) -> Result<Self, RecoveryError> {
        let bytes = superblock.config.geometry().unwrap().region_bytes();
        let recovered = Tier::recover(Blank::heap(bytes), &superblock, 1, &mut flash)?;
        recovered.writes.iter().for_each(|(offset, bytes)| flash.write(*offset, bytes));
        recovered.tier.check();
        let (tier, superblock) = (recovered.tier, recovered.superblock);
        Ok(Self { tier, superblock, flash, disk, synced: now.clone(), now, random })
    }

    pub(crate) fn step(&mut self, flash_alone: bool) -> bool {
        let job = if flash_alone { self.tier.next_flash_write(1) } else { self.tier.next_job(1) };
        let Some(mut job) = job else { return false };
        match &mut job {
            Job::WriteGroup(job) => {
                job.resets().for_each(|zone| self.flash.reset(zone));
                job.writes().for_each(|(offset, bytes)| self.flash.write(offset, bytes));
            }
            Job::WriteSegment(job) => {
                let (offset, bytes) = job.write();
                self.flash.write(offset, bytes);
            }
            Job::ReadFront(job) => {
                for (offset, bytes) in job.reads() {
                    self.flash.read(offset, bytes).unwrap();
                }
            }
            Job::WriteDisk(job) => self.disk.extend(job.pages().map(|(id, bytes)| (id, bytes.to_vec()))),
            Job::FlushFlash(_) => self.flash.unflushed.clear(),
            Job::SyncDisk(_) | Job::PullPages(_) => {}
        }
        self.tier.complete(job, Ok(()));
        true
    }

    /// Writes one page. False if there is no room, and nothing makes any.
    pub(crate) fn write(&mut self, version: u64, flash_alone: bool) -> bool {
        let id = PageId::volume(1, self.random.below(PAGES));
        loop {
            match self.tier.stage_in(&id, &page(version), StageKind::Dirty, 0) {
                StageIn::Staged { also_disk: false } => break,
                StageIn::Full if self.step(flash_alone) => {}
                StageIn::Full => return false,
                other => panic!("a dirty page was {other:?}"),
            }
        }
        self.now.insert(id, version);
        true
    }

    /// Writes pages until a group of them is on flash, a part of it in the next zone, which was not flushed,
    /// and no other. Returns the last version.
    pub(crate) fn write_across_zones(&mut self, mut version: u64) -> u64 {
        for _ in 0..10_000 {
            version += 1;
            let id = PageId::volume(1, self.random.below(PAGES));
            while self.tier.stage_in(&id, &page(version), StageKind::Dirty, 0) == StageIn::Full {
                assert!(self.step(false), "a full tier has a job");
                if self.flash.unflushed.len() == 2
                    && self.flash.unflushed[1].0 % self.flash.zones.zone_bytes == 0
                {
                    return version;
                }
            }
            self.now.insert(id, version);
        }
        panic!("no such group was written");
    }

    pub(crate) fn sync(&mut self) -> bool {
        let Ok(ticket) = self.tier.request_sync() else { return false };
        while self.tier.sync_state(&ticket) != SyncState::Durable {
            if !self.step(false) {
                return false;
            }
        }
        self.synced = self.now.clone();
        true
    }

    fn holds(&mut self, id: PageId) -> Option<u64> {
        let mut bytes = page(0);
        match self.tier.lookup(&id, &mut bytes) {
            Lookup::Memory => {}
            Lookup::Flash(found) => {
                self.flash.read(found.offset, &mut bytes).unwrap();
                if !self.tier.verify(&found, &bytes) || !self.tier.confirm(&found) {
                    return None;
                }
            }
            Lookup::Miss(_) => bytes = self.disk.get(&id)?.clone(),
        }
        Some(u64::from_le_bytes(bytes[..8].try_into().unwrap()))
    }

    /// Every page is what it was when it was synced last, or newer.
    pub(crate) fn check(&mut self) {
        assert_eq!(self.wrong(), None);
    }

    /// A page that is not, if there is one: what it is, and the versions that it may be.
    pub(crate) fn wrong(&mut self) -> Option<(Option<u64>, u64, u64)> {
        self.synced.clone().into_iter().find_map(|(id, version)| {
            let found = self.holds(id);
            let newest = self.now.get(&id).copied().unwrap_or(0);
            let right = found.is_some_and(|found| (version..=newest).contains(&found));
            (!right).then_some((found, version, newest))
        })
    }

    /// Opens the tier on a flash device that was changed so, beside this one. `None` if that is refused.
    /// Else whether a page that was synced is an older one there, without a word.
    pub(crate) fn lies_on(&self, change: impl FnOnce(&mut Flash)) -> Option<bool> {
        let mut flash = self.flash.clone();
        change(&mut flash);
        let (disk, now) = (self.disk.clone(), self.synced.clone());
        let mut found =
            Self::try_open(self.superblock.clone(), flash, disk, now, self.random.clone()).ok()?;
        let mut lies = |(id, version): (&PageId, &u64)| {
            let told = matches!(found.tier.lookup(id, &mut page(0)), Lookup::Flash(at) if {
                let mut bytes = page(0);
                found.flash.read(at.offset, &mut bytes).is_err() || !found.tier.verify(&at, &bytes)
            });
            !told && found.holds(*id).unwrap_or(0) < *version
        };
        Some(self.synced.iter().any(&mut lies))
    }

    /// Leaves the tier in order, with the only copies of pages in it, and opens it again.
    pub(crate) fn leave(mut self) -> Self {
        assert!(self.sync());
        let superblock = self.tier.closed(&self.superblock);
        Self { superblock, ..self }
    }

    /// The power fails, and the tier is opened again. What was not synced may be there or not.
    pub(crate) fn crash(mut self) -> Self {
        self.flash.cut();
        let mut found = Self::open(self.superblock, self.flash, self.disk, self.synced.clone(), self.random);
        found.now = self.now;
        found.check();
        let ids: Vec<PageId> = found.now.keys().copied().collect();
        found.now = ids.into_iter().filter_map(|id| Some((id, found.holds(id)?))).collect();
        found.synced = found.now.clone();
        found
    }

    pub(crate) fn close(mut self) -> Self {
        self.tier.begin_drain();
        while self.step(false) {}
        assert!(self.sync());
        let superblock = self.tier.closed(&self.superblock);
        Self::open(superblock, self.flash, self.disk, self.now, self.random)
    }
}
