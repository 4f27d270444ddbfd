//! A machine with a file, its sidecar and a flash device, and what all of them are at one moment.

use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::{ReadError, ReadFlash, Region, Tier};
use mezzanine_volume::{SidecarStore, Volume, VolumeConfig, VolumeError, VolumeFile};

use crate::common::{Backing, PAGE, formatted};

/// A machine at one moment, and what the file has then.
#[derive(Clone)]
pub struct Moment {
    pub flash: Vec<u8>,
    pub disk: Vec<u8>,
    pub sidecar: Option<Vec<u8>>,
    /// What was synced last.
    pub synced: Vec<u8>,
    /// The disk has everything by itself: the flash counts for nothing, and files that are current go
    /// without it.
    pub expendable: bool,
    /// Groups that the tier has.
    pub groups: u64,
    pub what: String,
}

impl Moment {
    /// Whether the two are of one opening, and the tier had become no longer when the sidecar was written.
    pub fn knows_no_more_than(&self, other: &Self) -> bool {
        let groups = self.field("groups").and_then(|groups| groups.parse().ok()).unwrap_or(0);
        self.field("epoch") == other.field("epoch") && groups <= other.groups
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(self.sidecar.as_deref()?).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }
}

/// What a guard never covers.
fn beyond_head(disk: &[u8]) -> &[u8] {
    disk.get(512..).unwrap_or_default()
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

fn groups_on(flash: &MemoryDevice) -> u64 {
    let mut flash = Flash(flash);
    let superblock = read_superblock(&mut flash).unwrap();
    let region = Region::heap(superblock.config.geometry().unwrap().region_bytes());
    Tier::recover(region, &superblock, 1, &mut flash).unwrap().superblock.epoch_sequence.number()
}

pub struct Machine {
    pub config: VolumeConfig,
    pub flash: Arc<MemoryDevice>,
    pub backing: Backing,
}

/// A file whose fingerprint is another one when it has other bytes: where the tier is provably clean, nothing
/// else tells a file from one that was changed since the tier was closed.
fn backing(guarded: bool) -> Backing {
    let backing = if guarded { Backing::guarded("a") } else { Backing::new("a") };
    *backing.sidecar.file.lock().unwrap() = Some(backing.disk.clone());
    backing
}

impl Machine {
    pub fn new(config: &VolumeConfig, guarded: bool) -> Self {
        Self { config: config.clone(), flash: formatted(config), backing: backing(guarded) }
    }

    pub fn of(config: &VolumeConfig, guarded: bool, flash: &[u8], files: &Moment) -> Self {
        let backing = backing(guarded);
        let device = Arc::new(MemoryDevice::new(0));
        device.load(flash);
        backing.disk.load(&files.disk);
        if let Some(sidecar) = &files.sidecar {
            backing.sidecar.replace(sidecar).unwrap();
        }
        Self { config: config.clone(), flash: device, backing }
    }

    pub fn open(&self) -> Result<(Volume, VolumeFile), VolumeError> {
        let volume = Volume::open(self.flash.clone(), self.config.clone())?;
        let file = self.backing.attach(&volume)?;
        Ok((volume, file))
    }

    pub fn moment(&self, what: &str, synced: Vec<u8>) -> Moment {
        let disk = self.backing.disk.image();
        // The file may be longer by zeros than its disk.
        let mut whole = disk.clone();
        whole.resize(synced.len(), 0);
        Moment {
            expendable: beyond_head(&whole) == beyond_head(&synced),
            groups: groups_on(&self.flash),
            flash: self.flash.image(),
            disk,
            sidecar: self.backing.sidecar.read().unwrap(),
            synced,
            what: what.to_owned(),
        }
    }

    /// What the file has, if it may be used: also what a change finds.
    pub fn contents(&self) -> Result<Vec<u8>, VolumeError> {
        let (_volume, file) = self.open()?;
        contents_of(&file)
    }
}

pub fn contents_of(file: &VolumeFile) -> Result<Vec<u8>, VolumeError> {
    let mut found = vec![0; file.len() as usize];
    file.read_at(&mut found, 0)?;
    // What lies past the end must be zeros when the file grows.
    let len = file.len();
    file.set_len(len + 8 * PAGE as u64)?;
    let mut beyond = vec![1; 8 * PAGE];
    file.read_at(&mut beyond, len)?;
    assert!(beyond.iter().all(|&byte| byte == 0), "what was cut off is there again");
    file.set_len(len)?;
    Ok(found)
}
