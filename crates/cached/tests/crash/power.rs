//! A host in this process, whose devices and voucher it loses at one instant.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, io, thread};

use mezzanine_cached::{Opening, Settings, Survival, Voucher};
use mezzanine_device::drive::LosesPower;
use mezzanine_device::memory::CutReport;
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, PoweredDrive, Request};
use mezzanine_ground::random::Random;

use crate::life::{self, Devices, FRAGMENT, FRAGMENTS, Model, VOLUMES};

struct Memory(MemoryDevice);

impl Device for Memory {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.0.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.0.set_len(len)
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.0.data_from(offset)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl LosesPower for Memory {
    type Report = CutReport;

    fn power_cut(&self, seed: u64) -> CutReport {
        self.0.power_cut(seed)
    }
}

type Powered = PoweredDrive<Memory>;

fn powered(bytes: u64, name: &str) -> Arc<Powered> {
    Arc::new(Powered::of(Memory(MemoryDevice::new(bytes)), name.to_owned()))
}

/// Where vouchers are, with a power of its own.
#[derive(Clone, Default)]
struct Folder(Arc<Mutex<(Option<Opening>, bool)>>);

struct Paper {
    folder: Folder,
    opening: Opening,
}

impl Folder {
    fn issue(&self, opening: Opening) -> Box<dyn Voucher> {
        *self.0.lock().unwrap() = (Some(opening), true);
        Box::new(Paper { folder: self.clone(), opening })
    }

    fn is_on(&self, on: bool) {
        self.0.lock().unwrap().1 = on;
    }
}

impl Voucher for Paper {
    fn revoke(&self) -> io::Result<()> {
        let mut found = self.folder.0.lock().unwrap();
        if !found.1 {
            return Err(io::Error::other("the folder has no power"));
        }
        assert!(found.0.is_none_or(|opening| opening == self.opening));
        found.0 = None;
        Ok(())
    }
}

/// What becomes of a life before everything ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The cache device loses its power, and the host gives its map up.
    Lost,
    /// The same, and the voucher cannot be revoked: writes that need a mark wait until the end.
    LostAndRefused,
}

/// What was seen in all lives.
#[derive(Debug, Default)]
struct Seen {
    warm: u64,
    unstable: u64,
    waited: u64,
    writes: u64,
    began_empty: u64,
    survived_loss: u64,
    stuck: u64,
    /// Fragments that have left because the cache had shrunk, and those that a crash has left behind its end.
    shrunk: u64,
    behind_limit: u64,
}

#[test]
fn a_host_that_is_killed_at_any_instant_leaves_a_warm_cache() {
    let lives = env::var("MEZZANINE_LIVES").map_or(60, |lives| lives.parse().unwrap());
    let seed: u64 = env::var("MEZZANINE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let flash = powered(life::cache_bytes(), "flash");
    let disks: Vec<_> = (0..VOLUMES).map(|_| powered(FRAGMENTS * FRAGMENT, "disk")).collect();
    let devices = Devices {
        flash: Arc::clone(&flash) as _,
        disks: disks.iter().map(|disk| Arc::clone(disk) as _).collect(),
        settings: Settings::default(),
    };
    life::make(&*flash);
    let (folder, model, mut seen) = (Folder::default(), Model::new(), Seen::default());
    let mut random = Random::new(seed);
    let mut is_kept = true;
    // What is rare on this machine comes in time, also as lives become longer; what never comes ends it.
    let enough = |seen: &Seen| {
        let is_warm = seen.warm > lives && seen.unstable > 0 && seen.waited > 0;
        // What a crash leaves behind the end needs a stable fragment there at that instant: how often that is
        // hangs on the machine, and the map's own crash test (`crates/fragment/tests/crash`) has it always.
        is_warm && seen.shrunk > 0 && seen.began_empty > 0 && seen.survived_loss > 0 && seen.stuck > 0
    };
    let mut number = 0;
    while number < lives || !enough(&seen) && number < 20 * lives {
        number += 1;
        let vouches = |opening| folder.0.lock().unwrap().0 == Some(opening);
        let opened = life::open(&devices, number, vouches, |opening| folder.issue(opening));
        let what = format!("seed {seed}, life {number}");
        assert!(opened.was_vouched || opened.found.fragments == 0, "{what}");
        opened.check(&devices, Some((&model, is_kept)), &what);
        seen.warm += opened.found.fragments;
        seen.unstable += opened.found.unstable;
        seen.behind_limit += opened.found.behind_limit;
        seen.began_empty += u64::from(!opened.was_vouched);
        assert_eq!(opened.found.lost, 0, "{what}");
        let before = match random.below(6) {
            0 => Before::Lost,
            1 => Before::LostAndRefused,
            _ => Before::Nothing,
        };
        let (stop, seeds) = (AtomicBool::new(false), AtomicU64::new(number << 8));
        // On a slow machine little happens in a life of these lengths.
        let longer = 1 + (number - 1) / lives;
        let life_us = random.between(5_000, 90_000) * longer;
        let mut survival = None;
        thread::scope(|scope| {
            let stopped = || stop.load(SeqCst);
            let next = || seeds.fetch_add(1, SeqCst);
            for writer in 0..2 {
                let (opened, model) = (&opened, &model);
                let seed = next();
                scope.spawn(move || opened.write(writer, 2, seed, model, stopped));
            }
            let (opened, model, seed) = (&opened, &model, next());
            scope.spawn(move || opened.read(seed, model, stopped));
            let (devices, seed) = (&devices, next());
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !stopped() {
                    thread::sleep(Duration::from_millis(random.between(1, 20)));
                    let slots = random.between(life::SLOTS / 4, life::SLOTS);
                    // Until a device has no power.
                    if opened.resize(devices, slots, Duration::from_millis(20 * longer)).is_err() {
                        break;
                    }
                }
            });
            thread::sleep(Duration::from_micros(life_us));
            if before != Before::Nothing {
                folder.is_on(before == Before::Lost);
                flash.cut();
                thread::sleep(Duration::from_millis(20 * longer));
                // Looked at when the threads have ended: what is wrong must not leave them at work.
                survival = Some(opened.cache.statistics().survival);
                let stuck = before == Before::LostAndRefused && opened.cache.statistics().writes_waiting > 0;
                seen.stuck += u64::from(stuck);
            }
            // The end, at one instant for everything that could do something about it.
            folder.is_on(false);
            disks.iter().for_each(|disk| disk.cut());
            flash.cut();
            // Who waits for a mark waits for ever, which a thread of this process cannot.
            stop.store(true, SeqCst);
            let vouched = folder.0.lock().unwrap().0;
            folder.is_on(true);
            while opened.cache.statistics().writes_waiting > 0 {
                thread::sleep(Duration::from_micros(100));
            }
            folder.0.lock().unwrap().0 = vouched;
        });
        match (before, survival) {
            // No write has needed a mark meanwhile, or it has just begun.
            (_, None | Some(Survival::Crash)) => {}
            (Before::Lost, Some(found)) => {
                assert!(matches!(found, Survival::Nothing(_)), "{what}: {found:?}")
            }
            (_, Some(found)) => {
                let text = format!("{found:?}");
                assert!(text.contains("no power") || text.contains("is lost"), "{what}: {text}");
            }
        }
        let found = opened.cache.statistics();
        seen.waited += found.engine.writes_waited;
        seen.shrunk += found.engine.fragments_shrunk;
        seen.writes += found.engine.writes;
        drop(opened);
        let vouched = folder.0.lock().unwrap().0.is_some();
        seen.survived_loss += u64::from(vouched && before != Before::Nothing);
        // The process alone; or with the power of the cache device, of the others, or of all.
        let [flash_loses, disks_lose] = [random.chance(1, 2), random.chance(1, 3)];
        if flash_loses {
            flash.lose(random.next_u64());
        }
        if disks_lose {
            for disk in &disks {
                disk.lose(random.next_u64());
            }
        }
        is_kept = !disks_lose;
        flash.restore();
        disks.iter().for_each(|disk| disk.restore());
    }
    println!("{number} lives of a cache of {} slots: {seen:?}", life::SLOTS);
    assert!(enough(&seen), "{seen:?}");
}
