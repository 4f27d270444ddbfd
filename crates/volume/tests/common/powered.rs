//! A sidecar that loses power with the devices.

use std::io;
use std::sync::Mutex;

use mezzanine_device::memory::{Power, Spent};
use mezzanine_ground::random::Random;
use mezzanine_volume::SidecarStore;

/// A sidecar on the same power as the devices: a cut in the middle of a replacement leaves the old or the new
/// one.
pub struct PoweredSidecar {
    power: Power,
    state: Mutex<(Option<Vec<u8>>, Random)>,
}

impl PoweredSidecar {
    /// One that does not exist yet; `seed` decides what a cut leaves.
    pub fn new(power: &Power, seed: u64) -> Self {
        Self { power: power.clone(), state: Mutex::new((None, Random::new(seed))) }
    }

    /// Makes it what `other` is, on its own power.
    pub fn copy_from(&self, other: &Self) {
        *self.state.lock().unwrap() = other.state.lock().unwrap().clone();
    }

    fn put(&self, bytes: Option<Vec<u8>>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        match self.power.spend() {
            Spent::On => {
                state.0 = bytes;
                Ok(())
            }
            Spent::Cut => {
                if state.1.chance(1, 2) {
                    state.0 = bytes;
                }
                Err(io::Error::other("power"))
            }
            Spent::Off => Err(io::Error::other("no power")),
        }
    }
}

impl SidecarStore for PoweredSidecar {
    fn describe(&self) -> String {
        "sidecar".to_owned()
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state.lock().unwrap().0.clone())
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(Some(bytes.to_vec()))
    }
    fn remove(&self) -> io::Result<()> {
        self.put(None)
    }
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(vec![1]))
    }
}
