//! A volume with one file, which is written and read page by page.

use std::sync::Arc;

use mezzanine_device::memory::MemoryDevice;
use mezzanine_volume::{
    Admission, Design, SyncMode, Volume, VolumeConfig, VolumeErrorKind, VolumeFile, VolumeState,
};

use super::{Backing, PAGE, config, formatted, open, page};

/// Designs of durable tiers that take a page that is written for the first time.
pub const WRITE_BACK: [Design; 4] = [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc];

/// Pages that [`in_use`] writes, in version 1.
pub const PAGES: u64 = 12;

pub fn durable(design: Design) -> VolumeConfig {
    config(design, Admission::Both, SyncMode::Durable, 0)
}

/// The volume and its file, and the devices that outlive them.
pub struct InUse {
    pub flash: Arc<MemoryDevice>,
    pub backing: Backing,
    pub volume: Volume,
    pub file: VolumeFile,
}

/// A volume whose file is empty.
pub fn begin(config: &VolumeConfig) -> InUse {
    let (flash, backing) = (formatted(config), Backing::new("a"));
    let volume = open(&flash, config);
    let file = backing.attach(&volume).unwrap();
    InUse { flash, backing, volume, file }
}

/// A volume whose file has [`PAGES`] pages, synced. Nothing has brought them to disk if it is durable.
pub fn in_use(config: &VolumeConfig) -> InUse {
    let begun = begin(config);
    (0..PAGES).for_each(|block| write(&begun.file, block, 1));
    begun.file.sync().unwrap();
    begun
}

/// A volume whose pages are on flash alone, and not in memory.
pub fn on_flash_alone(design: Design) -> InUse {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    while volume.step() {}
    drop((file, volume));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    // So that the file is ready for changes.
    write(&file, 20, 1);
    file.sync().unwrap();
    InUse { flash, backing, volume, file }
}

pub fn write(file: &VolumeFile, block: u64, version: u64) {
    file.write_at(&page(block, version), block * PAGE as u64).unwrap();
}

pub fn read(file: &VolumeFile, block: u64) -> Result<Vec<u8>, VolumeErrorKind> {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).map(|()| found).map_err(|error| error.kind())
}

/// Writes pages far behind those of [`in_use`] and syncs, so many times over. With eight the queue has gone
/// round.
pub fn go_round(file: &VolumeFile, volume: &Volume, rounds: u64) -> Result<(), String> {
    for version in 100..100 + rounds {
        for block in 200..330 {
            file.write_at(&page(block, version), block * PAGE as u64).map_err(|error| error.to_string())?;
        }
        file.sync().map_err(|error| error.to_string())?;
        if volume.state() != VolumeState::Ok {
            return Err(format!("{:?}", volume.state()));
        }
    }
    Ok(())
}
