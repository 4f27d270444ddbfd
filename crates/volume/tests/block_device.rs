//! A file of a volume as a block device.
//!
//! Invariants checked: a read brings what was written last, whatever the requests' offsets and lengths; after
//! a loss of power at any operation each sector holds what it had at the last flush or what was written to it
//! since, and a trimmed one anything; writers of one page at the same time lose nothing to one another.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::powered::Machine;
use common::{Backing, PAGE, config, formatted, open};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    Admission, AttachOptions, BlockDevice, Design, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError,
};

const SECTOR: usize = 512;
/// Longer than the tier has room for, and no whole number of pages.
const BYTES: usize = 200 * PAGE + 3 * SECTOR;
const MODES: [SyncMode; 2] = [SyncMode::Through, SyncMode::Durable];

fn configuration(mode: SyncMode, workers: usize) -> VolumeConfig {
    let small = config(Design::FaceGsc, Admission::Both, mode, workers);
    VolumeConfig { tier: BlockDevice::policy(&small.tier), ..small }
}

/// A device of which some bytes may be anything, as they were trimmed.
struct Model(Vec<Option<u8>>);

impl Model {
    fn check(&self, device: &BlockDevice, offset: usize, len: usize) {
        let mut found = vec![0xEE; len];
        device.read_at(&mut found, offset as u64).unwrap();
        for (at, (found, wanted)) in found.iter().zip(&self.0[offset..offset + len]).enumerate() {
            assert!(wanted.is_none_or(|wanted| wanted == *found), "byte {}", offset + at);
        }
    }

    /// Trims what a request for this range does.
    fn trim(&mut self, offset: usize, len: usize) {
        let end = offset + len;
        for page in 0..BYTES.div_ceil(PAGE) {
            let (first, last) = (page * PAGE, (page * PAGE + PAGE).min(BYTES));
            if offset <= first && last <= end {
                self.0[first..last].fill(None);
            }
        }
    }
}

/// A range of any length, mostly short, at any offset.
fn range(random: &mut Random) -> (usize, usize) {
    let len = 1 + random.magnitude(5 * PAGE as u64) as usize;
    (random.below((BYTES - len) as u64 + 1) as usize, len)
}

#[test]
fn requests_of_any_length_at_any_offset_read_what_was_written_last() {
    for mode in MODES {
        for (workers, resizable) in [(0, true), (1, false)] {
            let config = configuration(mode, workers);
            let (flash, mut random) = (formatted(&config), Random::new(31));
            let disk =
                if resizable { MemoryDevice::file(BYTES as u64) } else { MemoryDevice::new(BYTES as u64) };
            let backing = Backing { disk: Arc::new(disk), ..Backing::new("disk") };
            let mut model = Model(vec![Some(0); BYTES]);
            for life in 0..4 {
                let volume = open(&flash, &config);
                let device = BlockDevice::new(backing.attach(&volume).unwrap());
                assert_eq!((device.len(), device.capabilities().can_resize), (BYTES as u64, false));
                for step in 0..400 {
                    let (offset, len) = range(&mut random);
                    match random.below(20) {
                        0..=9 => {
                            let byte = random.below(256) as u8;
                            device.write_at(&vec![byte; len], offset as u64).unwrap();
                            model.0[offset..offset + len].fill(Some(byte));
                        }
                        10..=16 => model.check(&device, offset, len),
                        17 => device.flush().unwrap(),
                        18 => {
                            device.discard(offset as u64, len as u64).unwrap();
                            model.trim(offset, len);
                        }
                        _ => {
                            device.write_through(&vec![step as u8; len], offset as u64).unwrap();
                            model.0[offset..offset + len].fill(Some(step as u8));
                        }
                    }
                }
                model.check(&device, 0, BYTES);
                if workers == 0 {
                    volume.check();
                }
                match life {
                    0 | 2 => volume.close().unwrap(),
                    1 => volume.close_drained().unwrap(),
                    // The process dies behind a flush.
                    _ => device.flush().unwrap(),
                }
            }
            let volume = open(&flash, &config);
            model.check(&BlockDevice::new(backing.attach(&volume).unwrap()), 0, BYTES);
        }
    }
}

/// What each sector may hold, the oldest first; none is anything.
struct World {
    machine: Machine,
    config: VolumeConfig,
    sectors: Vec<Vec<Option<u64>>>,
    random: Random,
    next: u64,
    seed: u64,
}

impl World {
    fn new(seed: u64, mode: SyncMode) -> Self {
        let config = VolumeConfig { identity_seed: Some(seed), ..configuration(mode, 0) };
        Self {
            machine: Machine::new(&config, seed ^ 1, BYTES as u64, false),
            config,
            sectors: vec![vec![Some(0)]; BYTES / SECTOR],
            random: Random::new(seed),
            next: 1,
            seed,
        }
    }

    fn open(&self) -> Result<(Volume, BlockDevice), VolumeError> {
        let (volume, file) = self.machine.open(self.config.clone(), AttachOptions::default())?;
        Ok((volume, BlockDevice::new(file)))
    }

    /// What is there after a loss of power is what will be there after the next one.
    fn check(&mut self) {
        let (volume, device) = self.open().unwrap();
        volume.check();
        let mut found = vec![0; BYTES];
        device.read_at(&mut found, 0).unwrap();
        for (number, (sector, may_be)) in found.chunks_exact(SECTOR).zip(&mut self.sectors).enumerate() {
            let value = u64::from_le_bytes(sector[..8].try_into().unwrap());
            assert!(sector.chunks_exact(8).all(|word| word == &sector[..8]), "sector {number} is torn");
            let fits = may_be.iter().any(|one| one.is_none_or(|one| one == value));
            assert!(
                fits,
                "seed {}, {:?}: sector {number} holds {value}, none of {may_be:?}",
                self.seed, self.config.tier.sync_mode
            );
            // One that was trimmed may go on being anything until it is written again.
            *may_be = if may_be.contains(&None) { vec![None] } else { vec![Some(value)] };
        }
    }

    fn live(&mut self) -> Result<(), DeviceError> {
        let Ok((volume, device)) = self.open() else { return Ok(()) };
        for _ in 0..self.random.between(20, 150) {
            let count = 1 + self.random.below(20) as usize;
            let first = self.random.below((BYTES / SECTOR - count) as u64) as usize;
            let (offset, sectors) = ((first * SECTOR) as u64, first..first + count);
            match self.random.below(16) {
                0..=9 => {
                    let bytes: Vec<u8> = (0..count as u64)
                        .flat_map(|at| (self.next + at).to_le_bytes().repeat(SECTOR / 8))
                        .collect();
                    for (at, sector) in sectors.enumerate() {
                        self.sectors[sector].push(Some(self.next + at as u64));
                    }
                    self.next += count as u64;
                    device.write_at(&bytes, offset)?;
                }
                10 | 11 => {
                    device.flush()?;
                    for may_be in &mut self.sectors {
                        *may_be = vec![*may_be.last().unwrap()];
                    }
                }
                12 => {
                    let len = (count * SECTOR) as u64;
                    let pages = offset.div_ceil(PAGE as u64)..(offset + len) / PAGE as u64;
                    for page in pages {
                        let first = page as usize * (PAGE / SECTOR);
                        for may_be in &mut self.sectors[first..first + PAGE / SECTOR] {
                            may_be.push(None);
                        }
                    }
                    device.discard(offset, len)?;
                }
                13 => drop(volume.step()),
                _ => {
                    let mut found = vec![0; count * SECTOR];
                    device.read_at(&mut found, offset)?;
                    for (sector, found) in sectors.zip(found.chunks_exact(SECTOR)) {
                        let value = u64::from_le_bytes(found[..8].try_into().unwrap());
                        let last = *self.sectors[sector].last().unwrap();
                        assert!(last.is_none_or(|last| last == value), "sector {sector} before a cut");
                    }
                }
            }
        }
        Ok(())
    }
}

#[test]
fn a_loss_of_power_takes_nothing_that_was_flushed() {
    let (mut cut, mut trimmed) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed, MODES[seed as usize % 2]);
        for _ in 0..4 {
            let after = world.random.magnitude(500) + 1;
            world.machine.power.crash_after(after);
            if let Err(error) = world.live() {
                assert!(!world.machine.power.is_on(), "seed {seed}: {error}");
                cut += 1;
            }
            world.machine.restore(true, &mut world.random);
            world.check();
        }
        trimmed += world.sectors.iter().filter(|may_be| may_be.contains(&None)).count();
    }
    assert!(cut > 200 && trimmed > 1000, "{cut} cuts in the middle, {trimmed} trimmed sectors");
}

/// Four threads each have a quarter of every page for themselves.
#[test]
fn writers_of_parts_of_one_page_lose_nothing_to_one_another() {
    const PAGES: usize = 24;
    for mode in MODES {
        let config = configuration(mode, 1);
        let flash = formatted(&config);
        let backing =
            Backing { disk: Arc::new(MemoryDevice::new((PAGES * PAGE) as u64)), ..Backing::new("disk") };
        let volume = open(&flash, &config);
        let device = BlockDevice::new(backing.attach(&volume).unwrap());
        let quarter = PAGE / 4;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let device = &device;
                scope.spawn(move || {
                    let mut random = Random::new(thread as u64);
                    let mut written = [0_u8; PAGES];
                    for step in 0..600 {
                        let page = random.below(PAGES as u64) as usize;
                        let offset = (page * PAGE + thread * quarter) as u64;
                        let mut found = vec![0; quarter];
                        device.read_at(&mut found, offset).unwrap();
                        assert!(found.iter().all(|byte| *byte == written[page]), "page {page}, {thread}");
                        written[page] = step as u8;
                        device.write_at(&vec![step as u8; quarter], offset).unwrap();
                        if step % 50 == 0 {
                            device.flush().unwrap();
                        }
                    }
                });
            }
        });
        volume.close().unwrap();
    }
}

#[test]
fn what_is_trimmed_costs_no_write_of_the_disk() {
    let config = configuration(SyncMode::Durable, 0);
    let flash = formatted(&config);
    let backing = Backing { disk: Arc::new(MemoryDevice::new(BYTES as u64)), ..Backing::new("disk") };
    let volume = open(&flash, &config);
    let device = BlockDevice::new(backing.attach(&volume).unwrap());
    device.write_at(&[7; 20 * PAGE], 0).unwrap();
    device.flush().unwrap();
    // All but a half of its first and of its last page.
    device.discard(PAGE as u64 / 2, 19 * PAGE as u64).unwrap();
    volume.drain().unwrap();
    assert_eq!(volume.statistics().disk_pages_written, 2);
    let mut ends = [0; PAGE];
    for offset in [0, 19 * PAGE as u64] {
        device.read_at(&mut ends, offset).unwrap();
        assert!(ends == [7; PAGE], "page at {offset}");
    }
}

/// As whoever detaches a device does that has a limit of time.
#[test]
fn a_drain_ends_when_it_is_told_to_and_the_next_one_goes_on() {
    // More than are written at a time.
    const PAGES: usize = 300;
    let config = VolumeConfig { workers: 0, ..VolumeConfig::new(TierConfig::new(PAGE as u32, 4096)) };
    let flash = formatted(&config);
    let backing =
        Backing { disk: Arc::new(MemoryDevice::new((PAGES * PAGE) as u64)), ..Backing::new("disk") };
    let contents: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / PAGE) as u8 ^ 0x5A).collect();
    let check = |device: &BlockDevice| {
        let mut found = vec![0; PAGES * PAGE];
        device.read_at(&mut found, 0).unwrap();
        assert!(found == contents);
    };
    let volume = open(&flash, &config);
    let device = BlockDevice::new(backing.attach(&volume).unwrap());
    device.write_at(&contents, 0).unwrap();
    device.flush().unwrap();
    let mut told = Vec::new();
    let complete = volume.drain_while(|done, total| {
        told.push((done, total));
        false
    });
    assert!(!complete.unwrap() && told.len() == 1, "{told:?}");
    let (done, total) = told[0];
    assert!(done > 0 && done < total && total == PAGES as u64, "{done} of {total}");
    assert_eq!(volume.statistics().disk_pages_written, done);
    check(&device);
    // The process dies, and the next one does the rest.
    drop((device, volume));
    let volume = open(&flash, &config);
    let device = BlockDevice::new(backing.attach(&volume).unwrap());
    check(&device);
    assert!(volume.drain_while(|_, _| true).unwrap());
    assert!(volume.drain_while(|_, _| panic!("nothing is left")).unwrap());
    drop(device);
    volume.close_drained().unwrap();
    backing.disk.inspect(|disk| assert!(disk == contents));
}

#[test]
fn what_cannot_be_is_refused_by_its_kind() {
    let config = configuration(SyncMode::Durable, 0);
    let flash = formatted(&config);
    let backing = Backing { disk: Arc::new(MemoryDevice::file(BYTES as u64)), ..Backing::new("disk") };
    let volume = open(&flash, &config);
    let device = BlockDevice::new(backing.attach(&volume).unwrap());
    let end = BYTES as u64;
    let kind = |result: Result<(), DeviceError>| result.unwrap_err().kind();
    assert_eq!(kind(device.write_at(&[1; 2], end - 1)), DeviceErrorKind::OutOfRange);
    assert_eq!(kind(device.write_at(&[1; 2], u64::MAX)), DeviceErrorKind::OutOfRange);
    assert_eq!(kind(device.read_at(&mut [0; 2], end - 1)), DeviceErrorKind::UnexpectedEnd);
    assert_eq!(kind(device.discard(end, 1)), DeviceErrorKind::OutOfRange);
    assert_eq!(kind(device.set_len(end + 1)), DeviceErrorKind::Unsupported);
    assert_eq!(
        kind(device.run_one(Request::WriteThrough { offset: 0, buf: &[1] })),
        DeviceErrorKind::Unsupported
    );
    assert_eq!(backing.disk.len(), end);
    // Through a flush that fails, once.
    device.write_at(&[1; PAGE], 0).unwrap();
    flash.inject(Injection {
        operation: Operation::Flush,
        after: 0,
        count: 1,
        fault: Fault::Error(DeviceErrorKind::Io),
    });
    let failed = device.flush().unwrap_err();
    assert!(failed.to_string().contains("disk"), "{failed}");
    assert_eq!(kind(device.write_at(&[2; PAGE], 0)), DeviceErrorKind::FlushFailed);
    assert_eq!(kind(device.flush()), DeviceErrorKind::FlushFailed);
    device.read_at(&mut [0; PAGE], PAGE as u64).unwrap();
}
