//! A queue that is a ring of zones (invariant 13), on flash that takes writes at write pointers alone.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{
    Blank, Job, Lookup, PageId, ReadError, ReadFlash, StageIn, StageKind, SyncState, Tier, TierConfig,
    TierZones,
};
use mezzanine_ground::random::Random;

const PAGE: usize = 4096;
/// Frames of a zone, a few groups' worth.
const ZONE_FRAMES: u64 = 11;
/// Pages of the database.
const PAGES: u64 = 300;

/// Zones of so many frames. They have room for a bit more, and begin further on.
fn zones_of(frames: u64) -> TierZones {
    TierZones { zone_bytes: (frames + 3) * PAGE as u64, capacity_bytes: frames * PAGE as u64 + 512 }
}

fn config(zone_frames: u64) -> TierConfig {
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
struct Flash {
    zones: TierZones,
    bytes: Vec<u8>,
    /// Where the zones begin.
    begin: u64,
    /// Bytes written of each zone.
    written: Vec<u64>,
    /// Writes to zones since the last flush.
    unflushed: Vec<(u64, usize)>,
    resets: u64,
    /// Whether it tells how far a zone is written.
    tells: bool,
}

impl Flash {
    fn new(config: &TierConfig) -> Self {
        let geometry = config.geometry().unwrap();
        let (begin, len) = (geometry.conventional_bytes(), geometry.flash_bytes());
        let zones = config.zones.unwrap();
        assert!(begin % zones.zone_bytes == 0 && len % zones.zone_bytes == 0);
        let written = vec![0; ((len - begin) / zones.zone_bytes) as usize];
        let bytes = vec![0; len as usize];
        Self { zones, bytes, begin, written, unflushed: Vec::new(), resets: 0, tells: true }
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
        let offset = offset as usize;
        bytes.copy_from_slice(&self.bytes[offset..offset + bytes.len()]);
        Ok(())
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        let (zone, within) = self.zone(offset);
        self.tells.then(|| offset - within + self.written[zone])
    }
}

struct Host {
    tier: Tier,
    superblock: Superblock,
    flash: Flash,
    disk: HashMap<PageId, Vec<u8>>,
    /// What was written last, and what had been at the last sync.
    now: HashMap<PageId, u64>,
    synced: HashMap<PageId, u64>,
    random: Random,
}

fn page(version: u64) -> Vec<u8> {
    version.to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

impl Host {
    fn new(seed: u64, zone_frames: u64) -> Self {
        let config = config(zone_frames);
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        Self::open(superblock, Flash::new(&config), HashMap::new(), HashMap::new(), Random::new(seed))
    }

    fn open(
        superblock: Superblock,
        mut flash: Flash,
        disk: HashMap<PageId, Vec<u8>>,
        now: HashMap<PageId, u64>,
        random: Random,
    ) -> Self {
        let bytes = superblock.config.geometry().unwrap().region_bytes();
        let recovered = Tier::recover(Blank::heap(bytes), &superblock, 1, &mut flash).unwrap();
        recovered.writes.iter().for_each(|(offset, bytes)| flash.write(*offset, bytes));
        recovered.tier.check();
        let (tier, superblock) = (recovered.tier, recovered.superblock);
        Self { tier, superblock, flash, disk, synced: now.clone(), now, random }
    }

    fn step(&mut self, flash_alone: bool) -> bool {
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
    fn write(&mut self, version: u64, flash_alone: bool) -> bool {
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

    fn sync(&mut self) -> bool {
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
    fn check(&mut self) {
        assert_eq!(self.wrong(), None);
    }

    /// A page that is not, if there is one: what it is, and the versions that it may be.
    fn wrong(&mut self) -> Option<(Option<u64>, u64, u64)> {
        self.synced.clone().into_iter().find_map(|(id, version)| {
            let found = self.holds(id);
            let newest = self.now.get(&id).copied().unwrap_or(0);
            let right = found.is_some_and(|found| (version..=newest).contains(&found));
            (!right).then_some((found, version, newest))
        })
    }

    /// The power fails, and the tier is opened again. What was not synced may be there or not.
    fn crash(mut self) -> Self {
        self.flash.cut();
        let mut found = Self::open(self.superblock, self.flash, self.disk, self.synced.clone(), self.random);
        found.now = self.now;
        found.check();
        let ids: Vec<PageId> = found.now.keys().copied().collect();
        found.now = ids.into_iter().filter_map(|id| Some((id, found.holds(id)?))).collect();
        found.synced = found.now.clone();
        found
    }

    fn close(mut self) -> Self {
        self.tier.begin_drain();
        while self.step(false) {}
        assert!(self.sync());
        let superblock = self.tier.closed(&self.superblock);
        Self::open(superblock, self.flash, self.disk, self.now, self.random)
    }
}

#[test]
fn zones_are_written_in_order_and_reset_when_their_turn_comes_round() {
    let mut host = Host::new(1, ZONE_FRAMES);
    let zones = host.flash.written.len() as u64;
    let mut version = 0;
    while host.flash.resets < 5 * zones {
        version += 1;
        assert!(host.write(version, false), "a full tier has a job");
        if version % 50 == 0 {
            assert!(host.sync());
            host.check();
        }
    }
    host = host.close();
    host.check();
    assert!(host.write(version + 1, false) && host.sync());
    host.check();
}

#[test]
fn a_queue_goes_on_after_crashes_whether_or_not_the_device_tells_where() {
    for tells in [true, false] {
        let (mut host, mut version) = (Host::new(2, ZONE_FRAMES), 0);
        host.flash.tells = tells;
        for round in 0..120 {
            for _ in 0..20 + round % 17 {
                version += 1;
                assert!(host.write(version, false), "a full tier has a job");
                if version % 23 == 0 {
                    assert!(host.sync());
                }
            }
            host = if round % 5 == 4 { host.close() } else { host.crash() };
        }
        assert!(host.flash.resets > 3 * host.flash.written.len() as u64, "the queue came round");
    }
}

/// Writes until nothing is done any more but what writes to flash, again and again, with what makes room in
/// between, and looks at every page each time.
fn holds_what_it_has_not_left() -> bool {
    let (mut host, mut version) = (Host::new(4, 29), 0);
    for _ in 0..300 {
        for _ in 0..3 {
            host.step(false);
        }
        loop {
            version += 1;
            if !host.write(version, true) {
                break;
            }
        }
        host.synced = host.now.clone();
        if host.wrong().is_some() {
            return false;
        }
    }
    true
}

#[test]
fn a_zone_is_reset_when_all_of_it_has_left() {
    only_with(&[Bug::ZoneReusedInPart], holds_what_it_has_not_left);
}

/// Crashes whenever the queue is as full as it gets, and then uses the tier as if nothing had been.
fn survives_crashes_when_full() -> bool {
    // What is kept for other reasons does not fill a zone.
    let (mut host, mut version) = (Host::new(3, 29), 0);
    // So that each crash costs the rest of a zone.
    host.flash.tells = false;
    for _ in 0..6 {
        // Nobody carries out what would make room.
        loop {
            version += 1;
            if !host.write(version, true) {
                break;
            }
        }
        host = host.crash();
    }
    (0..400).all(|more| host.write(version + more, false)) && host.sync()
}

#[test]
fn crashes_of_a_full_queue_leave_a_zone_to_go_on_in() {
    only_with(&[Bug::LastZoneTaken], survives_crashes_when_full);
}

/// What a damaged superblock may say.
#[test]
fn zones_without_end_are_refused() {
    let zones = TierZones { zone_bytes: 1 << 40, ..zones_of(24) };
    let config = TierConfig { frames: 24 << 23, ..config(24) }.on_zones(zones);
    let error = config.geometry().unwrap_err().to_string();
    assert!(error.contains("more than 2^62"), "{error}");
    let config = TierConfig { frames: 24 << 26, ..config }.on_zones(zones);
    assert!(config.geometry().is_err());
}
