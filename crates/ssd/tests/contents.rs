//! A drive with bytes, beside a model of what each unit may be.
//!
//! Invariants checked: until the power fails a read gives what was written last, byte by byte, also in parts
//! of units. After a power cut a unit is as it was written some time: with a durable cache nothing older than
//! what was acknowledged, otherwise nothing older than what was flushed or written through. Nothing that
//! has not come back is older than what was read. Bytes are forgotten: what is kept is bounded by flash and
//! the buffer.
#![allow(clippy::unwrap_used, dead_code)]

use std::time::{Duration, Instant};

use drives::{Ranges, SMALL, drawn};
use mezzanine_device::memory::Spent;
use mezzanine_device::{Device, DeviceErrorKind, PoweredDrive, Request};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Anomaly, CacheKind, DumpConfig, PowerLossConfig, Ssd, SsdDevice};

mod drives;

/// A drive and, of each sector, what it may be: the oldest first, the last as it is without a power cut.
struct World {
    drive: SsdDevice,
    random: Random,
    sectors: Vec<Vec<u8>>,
    kind: CacheKind,
}

const SECTOR: usize = 512;

/// Small drives that map units of this size.
fn of_unit(unit_bytes: u32) -> Ranges {
    let dump = DumpConfig { hold_up_ms: 100.0, ..SMALL.dump };
    Ranges { unit_bytes, dump, dirty_entries_max: 8192, ..SMALL }
}

impl World {
    fn new(seed: u64, kind: CacheKind, power_loss: Option<PowerLossConfig>) -> Self {
        let mut random = Random::new(seed);
        // Units of one sector, and of eight, which are written in parts.
        let unit_bytes = *random.pick(&[512, 4096]);
        let mut config = drawn(&mut random, &of_unit(unit_bytes), kind);
        config.power_loss = power_loss;
        let drive = SsdDevice::new(Ssd::new(config).unwrap());
        let sectors = vec![vec![0]; drive.len() as usize / SECTOR];
        Self { drive, random, sectors, kind }
    }

    /// A range of sectors, small or large.
    fn range(&mut self) -> (usize, usize) {
        let first = self.random.below(self.sectors.len() as u64) as usize;
        let most = (self.sectors.len() - first).min(40) as u64;
        (first, 1 + self.random.below(most) as usize)
    }

    fn operate(&mut self) {
        let (first, count) = self.range();
        let offset = (first * SECTOR) as u64;
        match self.random.below(20) {
            0..=7 => {
                let through = self.random.chance(1, 6);
                let byte = 1 + self.random.below(255) as u8;
                let bytes = vec![byte; count * SECTOR];
                if through {
                    self.drive.write_through(&bytes, offset).unwrap();
                } else {
                    self.drive.write_at(&bytes, offset).unwrap();
                }
                let durable = through || self.kind == CacheKind::Durable;
                for sector in &mut self.sectors[first..first + count] {
                    sector.push(byte);
                    if durable {
                        sector.drain(..sector.len() - 1);
                    }
                }
            }
            8 => {
                // Units that lie in it as a whole are given up.
                self.drive.discard(offset, (count * SECTOR) as u64).unwrap();
                let per_unit = self.drive.ssd().config().geometry.unit_bytes as usize / SECTOR;
                let (from, to) = (first.next_multiple_of(per_unit), (first + count) / per_unit * per_unit);
                for sector in self.sectors.get_mut(from..to).into_iter().flatten() {
                    sector.push(0);
                    if self.kind == CacheKind::Durable {
                        sector.drain(..sector.len() - 1);
                    }
                }
            }
            9 => {
                self.drive.flush().unwrap();
                self.sectors.iter_mut().for_each(|sector| drop(sector.drain(..sector.len() - 1)));
            }
            _ => {
                let mut found = vec![0; count * SECTOR];
                self.drive.read_at(&mut found, offset).unwrap();
                for (index, found) in found.chunks_exact(SECTOR).enumerate() {
                    let expected = *self.sectors[first + index].last().unwrap();
                    assert!(found.iter().all(|&byte| byte == expected), "sector {}", first + index);
                }
            }
        }
    }

    /// The power fails between two requests; what is found is what there is from then on. Returns how many
    /// sectors are older than they were.
    fn cut(&mut self) -> u64 {
        let loss = self.drive.lose_power(&mut self.random, 1.0);
        assert_eq!((loss.damaged, loss.dump_bytes_missing, loss.dead), (0, 0, None));
        let mut older = 0;
        let mut found = [0; SECTOR];
        for (index, sector) in self.sectors.iter_mut().enumerate() {
            self.drive.read_at(&mut found, (index * SECTOR) as u64).unwrap();
            assert!(found.iter().all(|&byte| byte == found[0]), "sector {index} is whole");
            let known = sector.contains(&found[0]);
            assert!(known, "sector {index} is {}, and may be one of {sector:?}", found[0]);
            older += u64::from(found[0] != *sector.last().unwrap());
            *sector = vec![found[0]];
        }
        assert_eq!(older > 0, loss.older > 0, "the drive counts units that are older: {}", loss.older);
        older
    }

    fn live(&mut self, cuts: u64) -> u64 {
        let mut older = 0;
        for _ in 0..cuts {
            for _ in 0..self.random.magnitude(200) {
                self.operate();
            }
            let geometry = self.drive.ssd().config().geometry;
            let most = u64::from(geometry.units()) + self.drive.ssd().config().cache.buffer_bytes;
            assert!((self.drive.versions_kept() as u64) < 2 * most + 8192, "bytes are forgotten");
            older += self.cut();
        }
        older
    }
}

#[test]
fn a_durable_cache_keeps_every_byte() {
    for seed in 0..60 {
        assert_eq!(World::new(seed, CacheKind::Durable, None).live(5), 0, "seed {seed}");
    }
}

#[test]
fn a_volatile_cache_keeps_what_was_flushed() {
    let mut older = 0;
    for seed in 0..60 {
        let in_order = PowerLossConfig { anomalies: Vec::new() };
        let power_loss = if seed % 2 == 0 { None } else { Some(in_order) };
        older += World::new(seed, CacheKind::Volatile, power_loss).live(5);
    }
    assert!(older > 100, "only {older} sectors have lost a write that was not flushed");
}

#[test]
fn what_was_written_over_is_forgotten() {
    let world = World::new(7, CacheKind::Volatile, None);
    let unit = world.drive.ssd().config().geometry.unit_bytes as usize;
    let flash = u64::from(world.drive.ssd().config().geometry.units());
    for round in 0..30_000u64 {
        let at = round % (world.drive.len() / unit as u64) * unit as u64;
        world.drive.write_at(&vec![round as u8; unit], at).unwrap();
    }
    let kept = world.drive.versions_kept() as u64;
    assert!(kept < flash * 9 / 8 + 2 * 4096, "{kept} versions are kept of a flash of {flash} units");
}

#[test]
fn damage_is_read_as_it_is_and_dead_drives_say_so() {
    let (mut damaged, mut dead) = (0, 0);
    for seed in 0..120 {
        let anomalies = vec![[Anomaly::Shorn, Anomaly::BitCorruption, Anomaly::Dead][seed as usize % 3]];
        let mut world = World::new(seed, CacheKind::Volatile, Some(PowerLossConfig { anomalies }));
        (0..150).for_each(|_| world.operate());
        let cut = world.drive.run_on(&mut [Request::Flush], || Spent::Cut);
        assert_eq!(cut[0].as_ref().unwrap_err().kind(), DeviceErrorKind::PoweredOff);
        let loss = world.drive.lose_power(&mut world.random, 1.0);
        damaged += loss.damaged;
        let read = world.drive.read_at(&mut [0; SECTOR], 0);
        if let Some(what) = loss.dead {
            dead += 1;
            let error = read.unwrap_err();
            assert_eq!(error.kind(), DeviceErrorKind::Io);
            assert!(error.to_string().contains(&what), "{error}");
        }
    }
    assert!(damaged > 0 && dead > 0, "{damaged} units damaged, {dead} drives dead");
}

/// The instant of the switch is the one at which it fails, and nobody is told of what comes after it.
#[test]
fn in_real_time_requests_take_their_time_and_a_switch_ends_them() {
    let mut random = Random::new(3);
    let mut config = drawn(&mut random, &of_unit(4096), CacheKind::Volatile);
    config.timings.program_us = 300_000.0;
    let drive = SsdDevice::new(Ssd::new(config).unwrap()).in_real_time(1.0);
    let drive = PoweredDrive::of(drive, "the drive under test".to_owned());
    drive.write_at(&[1; 4096], 0).unwrap();
    let begun = Instant::now();
    drive.flush().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300), "a flush programs what was written");
    drive.write_at(&[2; 4096], 0).unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| drive.flush());
        std::thread::sleep(Duration::from_millis(5));
        drive.cut();
        assert_eq!(flush.join().unwrap().unwrap_err().kind(), DeviceErrorKind::PoweredOff);
    });
    let loss = drive.lose(1);
    assert_eq!(loss.older, 1, "its program was cut off: {loss:?}");
    drive.restore();
    let mut found = [0; 4096];
    drive.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 4096]);
}

#[test]
fn shipped_drives_can_be_made_smaller() {
    for name in ["durassd", "ssd-a", "ssd-b"] {
        let model = mezzanine_device::model::find(name).unwrap();
        let whole = Ssd::of_model(&model).unwrap().unwrap();
        for capacity in [512 << 20, 2_000_000_000 / 4096 * 4096, 40_u64 << 30] {
            let smaller = whole.config().with_capacity(capacity).unwrap();
            assert_eq!(smaller.capacity_bytes, capacity);
            assert_eq!(smaller.geometry.planes(), whole.config().geometry.planes(), "{name} is as fast");
            let flash = smaller.geometry.bytes() as f64 / capacity as f64;
            assert!(flash < 4.0, "{name} of {capacity} bytes has {flash:.2} times as much flash");
        }
        let error = whole.config().with_capacity(1 << 20).unwrap_err();
        assert!(error.to_string().contains("give more"), "{error}");
    }
}

/// A word of the map names fewer than 2^31 units, and 32 bits no more than 2^32: neither may wrap around.
#[test]
fn drives_of_many_terabytes_work_or_are_refused_by_name() {
    for name in ["durassd", "ssd-a", "ssd-b"] {
        let model = mezzanine_device::model::find(name).unwrap();
        let whole = Ssd::of_model(&model).unwrap().unwrap();
        let large = whole.config().with_capacity(4 << 40).unwrap();
        assert!(u64::from(large.geometry.units()) > (4 << 40) / 4096, "{name}");
        for capacity in [8_u64 << 40, 16 << 40, 32 << 40, 1 << 62, u64::MAX / 4096 * 4096] {
            let error = whole.config().with_capacity(capacity).unwrap_err();
            assert_eq!(error.key(), "capacity_bytes", "{name} of {capacity} bytes: {error}");
            assert!(error.to_string().contains("2^31"), "{error}");
        }
        let mut coarse = whole.config().clone();
        coarse.geometry.unit_bytes *= 2;
        coarse.geometry.page_bytes *= 2;
        coarse.capacity_bytes *= 2;
        coarse.check().unwrap();
        assert_eq!(coarse.with_capacity(8 << 40).unwrap().capacity_bytes, 8 << 40, "{name}");
    }
}
