//! What is done to a machine in one life, drawn from a seed, and its moments.

use mezzanine_ground::random::Random;
use mezzanine_volume::VolumeFile;

use crate::common::{PAGE, page};
use crate::machine::{Machine, Moment};

/// Life of a machine, and its moments.
struct Life<'m> {
    machine: &'m Machine,
    random: Random,
    model: Vec<u8>,
    version: u64,
    moments: Vec<Moment>,
    pages: u64,
}

impl Life<'_> {
    fn note(&mut self, what: &str) {
        let synced = self.model.clone();
        self.moments.push(self.machine.moment(what, synced));
    }

    fn write(&mut self, file: &VolumeFile, count: u64) {
        for _ in 0..count {
            self.version += 1;
            let block = self.random.below(self.pages);
            let bytes = page(block, self.version);
            file.write_at(&bytes, block * PAGE as u64).unwrap();
            let (from, to) = (block as usize * PAGE, (block as usize + 1) * PAGE);
            self.model.resize(self.model.len().max(to), 0);
            self.model[from..to].copy_from_slice(&bytes);
        }
        file.sync().unwrap();
    }

    fn set_len(&mut self, file: &VolumeFile, pages: u64) {
        let len = pages * PAGE as u64;
        file.set_len(len).unwrap();
        self.model.resize(len as usize, 0);
        file.sync().unwrap();
    }

    fn session(&mut self, steps: usize) {
        let (volume, file) = self.machine.open().unwrap();
        self.note("attached");
        for _ in 0..steps {
            match self.random.below(9) {
                0..=2 => {
                    let count = self.random.between(1, 12);
                    self.write(&file, count);
                    self.note("a few pages written");
                }
                3 => {
                    self.write(&file, 130);
                    self.note("many pages written");
                }
                4 => {
                    let pages = self.random.below(self.pages);
                    self.set_len(&file, pages);
                    self.note("cut or stretched");
                }
                5 => {
                    let pages = self.model.len() as u64 / PAGE as u64 + 9;
                    self.set_len(&file, pages);
                    self.note("stretched");
                }
                6 => {
                    let (first, count) = (self.random.below(self.pages), self.random.between(1, 20));
                    file.discard(first * PAGE as u64, count * PAGE as u64).unwrap();
                    file.sync().unwrap();
                    let end = (((first + count) as usize) * PAGE).min(self.model.len());
                    if first as usize * PAGE < end {
                        self.model[first as usize * PAGE..end].fill(0);
                    }
                    self.note("discarded");
                }
                7 => {
                    volume.drain().unwrap();
                    self.note("drained");
                }
                _ => {
                    volume.stop_admission().unwrap();
                    self.note("admission stopped");
                    self.write(&file, 5);
                    self.note("written to disk first");
                    volume.resume_admission().unwrap();
                    self.note("admission resumed");
                }
            }
        }
        if self.random.chance(1, 2) {
            volume.close().unwrap();
            self.note("closed");
        }
    }
}

pub fn life(machine: &Machine, seed: u64, sessions: usize) -> Vec<Moment> {
    continued(machine, seed, sessions, Vec::new(), seed << 32)
}

pub fn continued(machine: &Machine, seed: u64, sessions: usize, model: Vec<u8>, version: u64) -> Vec<Moment> {
    let mut life =
        Life { machine, random: Random::new(seed), model, version, moments: Vec::new(), pages: 70 };
    for _ in 0..sessions {
        life.session(5);
    }
    life.moments
}
