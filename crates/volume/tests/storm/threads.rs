//! Who makes the storm: writers, readers, and an operator.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    Design, ReplaceOptions, SyncMode, Volume, VolumeError, VolumeErrorKind, VolumeFile, VolumeState,
};

use crate::common::PAGE;
use crate::model::{Model, SECTOR, SECTORS, fill};
use crate::scene::Scene;

/// What the threads of one life share.
pub struct Life<'s> {
    pub scene: &'s Scene,
    pub model: &'s Model,
    pub volume: &'s Volume,
    pub files: &'s [VolumeFile],
    pub context: &'s str,
    pub stop: &'s AtomicBool,
    /// What the operator has brought about.
    pub outcome: Mutex<Outcome>,
}

/// What of a life must be known after it.
#[derive(Default)]
pub struct Outcome {
    /// The device in use, and before it those that may be after a crash.
    pub flashes: Vec<std::sync::Arc<MemoryDevice>>,
    pub given_up: bool,
}

/// What the operator does, for the story of a failure.
const CHOICES: [&str; 16] = [
    "truncate",
    "truncate",
    "truncate",
    "discard",
    "discard",
    "discard",
    "drain",
    "stop admission",
    "resume admission",
    "resume admission",
    "switch",
    "switch",
    "resize",
    "idle",
    "replace",
    "fail",
];

impl Life<'_> {
    /// False if the power has failed; any other error is one too many.
    fn went(&self, done: Result<(), VolumeError>) -> bool {
        match done {
            Ok(()) => true,
            Err(_) if !self.scene.power.is_on() => false,
            Err(error) => panic!("{}: {error}", self.context),
        }
    }

    /// Some sectors of a file, often the same ones.
    fn range(&self, random: &mut Random) -> (usize, u64, u64) {
        let file = random.below(self.files.len() as u64) as usize;
        let first = if random.chance(1, 2) { random.below(SECTORS) } else { random.below(SECTORS / 6) };
        let len = match random.below(8) {
            0 => random.between(1, 8),
            1 => random.between(8, 320),
            // Whole pages.
            _ => return (file, first / 8 * 8, (first / 8 * 8 + 8 * random.between(1, 3)).min(SECTORS)),
        };
        (file, first, (first + len).min(SECTORS))
    }

    pub fn write(&self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        for _ in 0..steps {
            let (file, first, end) = self.range(&mut random);
            let change = self.model.call(file, first, end, false);
            let bytes: Vec<u8> =
                (first..end).flat_map(|sector| fill(file as u64, sector, change.version)).collect();
            if !self.went(self.files[file].write_at(&bytes, first * SECTOR as u64)) {
                return;
            }
            self.model.returned(file, &change);
            if random.chance(1, 12) && !self.model.sync(file, || self.went(self.files[file].sync())) {
                return;
            }
        }
    }

    pub fn read(&self, reader: usize, seed: u64) {
        let mut random = Random::new(seed);
        let mut reads = 0;
        while !self.stop.load(Ordering::Relaxed) || reads < 20 {
            let (file, first, end) = self.range(&mut random);
            let handle = (file, &self.files[file]);
            if !self.went(self.model.read(reader, handle, (first, end), self.context)) {
                return;
            }
            reads += 1;
        }
    }

    /// Truncates, discards, and changes the tier under everybody's feet.
    pub fn operate(&self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        for _ in 0..steps {
            let choice = random.below(16);
            self.model.note(&format!("{} begins", CHOICES[choice as usize]));
            let went = match choice {
                0..=2 => self.truncate(&mut random),
                3..=5 => self.discard(&mut random),
                6 => self.went(self.volume.drain()),
                7 => self.unless_given_up(self.volume.stop_admission()),
                8 | 9 => self.unless_given_up(self.volume.resume_admission()),
                10 | 11 => self.switch(&mut random),
                12 => self.resize(&mut random),
                13 => {
                    self.volume.set_disk_utilisation(if random.chance(1, 2) { 0 } else { 1000 });
                    true
                }
                14 => self.replace(&mut random),
                _ => self.fail(&mut random),
            };
            self.model.note("ends");
            if !went || !self.scene.power.is_on() {
                return;
            }
            if random.chance(1, 2) {
                std::thread::yield_now();
            }
        }
    }

    fn truncate(&self, random: &mut Random) -> bool {
        let file = random.below(self.files.len() as u64) as usize;
        if !self.scene.files[file].is_resizable() {
            return true;
        }
        let first = if random.chance(1, 4) { 0 } else { random.below(SECTORS + 1) };
        let change = self.model.call(file, first, SECTORS, true);
        let went = self.went(self.files[file].set_len(first * SECTOR as u64));
        if went {
            self.model.returned(file, &change);
        }
        went
    }

    fn discard(&self, random: &mut Random) -> bool {
        let (file, first, end) = self.range(random);
        // What lies past the end of the file is zero and stays so.
        let change = self.model.call(file, first, end, true);
        let went = self.went(self.files[file].discard(first * SECTOR as u64, (end - first) * SECTOR as u64));
        if went {
            self.model.returned(file, &change);
        }
        went
    }

    /// There is no tier to be changed after it was given up.
    fn unless_given_up(&self, done: Result<(), VolumeError>) -> bool {
        let given_up = self.outcome.lock().unwrap().given_up;
        match done {
            Err(error) if given_up && error.kind() == VolumeErrorKind::NoTier => true,
            done => self.went(done),
        }
    }

    fn switch(&self, random: &mut Random) -> bool {
        if self.scene.config.tier.design == Design::Tac {
            return true;
        }
        let mode = if random.chance(1, 2) { SyncMode::Through } else { SyncMode::Durable };
        self.unless_given_up(self.volume.set_sync_mode(mode))
    }

    fn resize(&self, random: &mut Random) -> bool {
        let Some(now) = self.volume.resize_progress() else { return true };
        if self.scene.config.tier.design.writes_in_place() {
            return true;
        }
        if random.chance(1, 4) {
            self.volume.cancel_resize();
            return true;
        }
        self.unless_given_up(self.volume.resize(now.bytes_max - random.below(116) * PAGE as u64).map(|_| ()))
    }

    fn replace(&self, random: &mut Random) -> bool {
        let flash = self.scene.another_flash();
        let mut tier = self.scene.config.tier.clone();
        if tier.design != Design::Tac && random.chance(1, 2) {
            tier.sync_mode = if random.chance(1, 2) { SyncMode::Through } else { SyncMode::Durable };
        }
        self.outcome.lock().unwrap().flashes.push(flash.clone());
        if !self.went(self.volume.replace_flash(flash.clone(), &ReplaceOptions::new(tier))) {
            return false;
        }
        let mut outcome = self.outcome.lock().unwrap();
        (outcome.flashes, outcome.given_up) = (vec![flash], false);
        let state = self.volume.state();
        assert!(state == VolumeState::Ok || !self.scene.power.is_on(), "{}: {state:?}", self.context);
        true
    }

    /// The flash device can no longer be written, until it is replaced.
    fn fail(&self, random: &mut Random) -> bool {
        let flash = {
            let mut outcome = self.outcome.lock().unwrap();
            outcome.given_up = true;
            outcome.flashes.last().cloned()
        };
        let fault = Fault::Error(DeviceErrorKind::Io);
        let after = random.below(20);
        if let Some(flash) = flash {
            flash.inject(Injection { operation: Operation::Write, after, count: u64::MAX, fault });
        }
        if random.chance(1, 2) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        self.replace(random)
    }
}
