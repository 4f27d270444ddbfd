//! What the tests of this crate share: devices in memory, small tiers, and a file as a plain array of bytes.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

pub mod bad_places;
pub mod flipping;
pub mod images;
pub mod one_file;
pub mod powered;
pub mod slow;
pub mod traffic;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    Admission, AttachOptions, Design, HeaderGuard, MemorySidecar, PolicyParameters, SidecarStore, SyncMode,
    TierConfig, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
};

pub const PAGE: usize = 4096;

/// A small tier that wraps often: groups of 4 pages, 104 frames.
pub fn small_tier(design: Design, admission: Admission, sync_mode: SyncMode) -> TierConfig {
    TierConfig {
        group_pages: 4,
        staging_groups: 3,
        segment_frames: 12,
        shards: 4,
        survivors_max: 2,
        band_frames: 8,
        design,
        admission,
        sync_mode,
        policy: PolicyParameters { write_back: design == Design::Exadata, ..PolicyParameters::default() },
        ..TierConfig::new(PAGE as u32, 104)
    }
}

pub fn durable() -> VolumeConfig {
    config(Design::FaceGsc, Admission::Both, SyncMode::Durable, 0)
}

pub fn through() -> VolumeConfig {
    config(Design::FaceGsc, Admission::Both, SyncMode::Through, 0)
}

pub fn config(design: Design, admission: Admission, sync_mode: SyncMode, workers: usize) -> VolumeConfig {
    VolumeConfig {
        workers,
        identity_seed: Some(7),
        ..VolumeConfig::new(small_tier(design, admission, sync_mode))
    }
}

/// Every combination of design, admission and sync mode that there can be.
pub fn every_configuration() -> Vec<(Design, Admission, SyncMode)> {
    let mut all = Vec::new();
    for &design in Design::ALL {
        for &admission in Admission::ALL {
            for &sync_mode in &[SyncMode::Through, SyncMode::Durable] {
                if design.has_slots() && sync_mode != SyncMode::Through {
                    continue;
                }
                all.push((design, admission, sync_mode));
            }
        }
    }
    all
}

/// A sidecar in memory whose file can be changed behind the tier's back.
#[derive(Default)]
pub struct TestSidecar {
    inner: MemorySidecar,
    pub fingerprint: Mutex<Option<Vec<u8>>>,
    /// The file whose bytes make up the fingerprint, instead.
    pub file: Mutex<Option<Arc<MemoryDevice>>>,
    /// Replacements report a failure, and are in place all the same.
    pub fails: Mutex<bool>,
    /// Replacements report a failure, and what was there stays.
    pub refuses: Mutex<bool>,
    /// The same after so many more.
    pub refuses_after: Mutex<Option<u32>>,
    /// So many reads bring one bit that is another.
    pub flips: Mutex<u32>,
}

impl TestSidecar {
    /// As if somebody had deleted it.
    pub fn inner_remove(&self) {
        self.inner.remove().unwrap();
    }
}

impl SidecarStore for TestSidecar {
    fn describe(&self) -> String {
        "test.mezzanine".to_owned()
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let mut found = self.inner.read()?;
        let mut flips = self.flips.lock().unwrap();
        if let (Some(bytes), 1..) = (&mut found, *flips) {
            bytes[10] ^= 1;
            *flips -= 1;
        }
        Ok(found)
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut left = self.refuses_after.lock().unwrap();
        if *self.refuses.lock().unwrap() || *left == Some(0) {
            return Err(io::Error::other("there is no room"));
        }
        *left = left.map(|left| left - 1);
        self.inner.replace(bytes)?;
        if *self.fails.lock().unwrap() { Err(io::Error::other("it failed")) } else { Ok(()) }
    }
    fn remove(&self) -> io::Result<()> {
        self.inner.remove()
    }
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        if let Some(file) = &*self.file.lock().unwrap() {
            return Ok(Some(crc32c::crc32c(&file.image()).to_le_bytes().to_vec()));
        }
        Ok(self.fingerprint.lock().unwrap().clone())
    }
}

/// One backing file and its sidecar.
#[derive(Clone)]
pub struct Backing {
    pub path: PathBuf,
    pub disk: Arc<MemoryDevice>,
    pub sidecar: Arc<TestSidecar>,
    pub guard: Option<HeaderGuard>,
}

impl Backing {
    pub fn new(name: &str) -> Self {
        let sidecar = Arc::new(TestSidecar::default());
        *sidecar.fingerprint.lock().unwrap() = Some(vec![1]);
        Self { path: PathBuf::from(name), disk: Arc::new(MemoryDevice::file(0)), sidecar, guard: None }
    }

    pub fn guarded(name: &str) -> Self {
        Self { guard: Some(HeaderGuard { bytes: b"guarded by a tier".to_vec() }), ..Self::new(name) }
    }

    pub fn attach(&self, volume: &Volume) -> Result<VolumeFile, VolumeError> {
        let options = AttachOptions { guard: self.guard.clone() };
        volume.attach(&self.path, self.disk.clone(), self.sidecar.clone(), options)
    }
}

pub fn flash_for(config: &VolumeConfig) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(config.tier.geometry().unwrap().flash_bytes()))
}

/// A formatted flash device.
pub fn formatted(config: &VolumeConfig) -> Arc<MemoryDevice> {
    let flash = flash_for(config);
    Volume::format(&*flash, config, false).unwrap();
    flash
}

pub fn open(flash: &Arc<MemoryDevice>, config: &VolumeConfig) -> Volume {
    Volume::open(flash.clone(), config.clone()).unwrap()
}

/// A page that says what it is.
pub fn page(block: u64, version: u64) -> Vec<u8> {
    let mut page = vec![(block * 31 + version * 7) as u8; PAGE];
    page[..8].copy_from_slice(&block.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    page
}

/// A file whose table on flash says that it ends in the middle of page 9, and which went on unsynced:
/// stage-out has written that page whole, the sidecar names it, and it has left the tier. Then the process
/// died. Returns where it ends.
pub fn a_named_page_with_the_end_in_it(flash: &Arc<MemoryDevice>, backing: &Backing) -> usize {
    const END: usize = 9 * PAGE + PAGE / 2;
    let volume = open(flash, &durable());
    let file = backing.attach(&volume).unwrap();
    let bytes: Vec<u8> = (0..10).flat_map(|block| page(block, 1)).collect();
    file.write_at(&bytes[..END], 0).unwrap();
    file.sync().unwrap();
    // No sync from here on: groups become durable by themselves, and the pages go to disk.
    for block in 9..19 {
        file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
    }
    let mut block = 19;
    let named = || {
        let sidecar = String::from_utf8(backing.sidecar.read().unwrap().unwrap()).unwrap();
        sidecar.contains("written 9:") || sidecar.contains(",9:")
    };
    while !named() {
        file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
        block += 1;
    }
    // The page leaves the tier, and its sidecar is the same.
    let mut found = vec![0; PAGE];
    let disk_reads = || volume.statistics().disk_reads;
    loop {
        let before = disk_reads();
        file.read_at(&mut found, 9 * PAGE as u64).unwrap();
        if disk_reads() > before {
            return END;
        }
        assert!(named(), "the sidecar names other pages by now");
        file.write_at(&page(10, block), 10 * PAGE as u64).unwrap();
        block += 1;
    }
}

/// What a file should hold.
#[derive(Default, Clone)]
pub struct Model {
    pub bytes: Vec<u8>,
}

impl Model {
    pub fn write(&mut self, buf: &[u8], offset: usize) {
        let end = offset + buf.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(buf);
    }

    pub fn check(&self, file: &VolumeFile) {
        assert_eq!(file.len(), self.bytes.len() as u64);
        let mut found = vec![0xEE; self.bytes.len()];
        file.read_at(&mut found, 0).unwrap();
        self.compare(&found, 0);
    }

    pub fn compare(&self, found: &[u8], offset: usize) {
        if let Some(at) = found.iter().zip(&self.bytes[offset..]).position(|(a, b)| a != b) {
            let at = offset + at;
            panic!("byte {at} (page {}) is {:#x}, not {:#x}", at / PAGE, found[at - offset], self.bytes[at]);
        }
    }
}

/// Carries out `steps` random operations on a file and its model.
pub fn random_operations(
    file: &VolumeFile,
    model: &mut Model,
    random: &mut Random,
    steps: usize,
    pages: u64,
) {
    for step in 0..steps {
        let limit = pages * PAGE as u64;
        match random.below(20) {
            0..=8 => {
                let block = random.below(pages);
                let count = if random.chance(1, 5) { random.between(1, 9) } else { 1 };
                let mut bytes = Vec::new();
                for index in 0..count {
                    bytes.extend(page(block + index, step as u64));
                }
                file.write_at(&bytes, block * PAGE as u64).unwrap();
                model.write(&bytes, block as usize * PAGE);
            }
            9 | 10 => {
                let offset = random.below(limit);
                let bytes = vec![step as u8; random.between(1, 3 * PAGE as u64) as usize];
                file.write_at(&bytes, offset).unwrap();
                model.write(&bytes, offset as usize);
            }
            11..=15 => {
                let offset = random.below(model.bytes.len() as u64 + 1) as usize;
                let len = random.between(1, 12 * PAGE as u64) as usize;
                let mut found = vec![0xEE; len];
                let available = len.min(model.bytes.len() - offset);
                match file.read_at(&mut found, offset as u64) {
                    Ok(()) => assert_eq!(available, len),
                    Err(error) => assert_eq!(error.kind(), VolumeErrorKind::ShortRead { available }),
                }
                model.compare(&found[..available], offset);
                assert!(found[available..].iter().all(|&byte| byte == 0));
            }
            16 | 17 => file.sync().unwrap(),
            18 => {
                let len =
                    if random.chance(1, 2) { random.below(limit) } else { random.below(pages) * PAGE as u64 };
                file.set_len(len).unwrap();
                model.bytes.resize(len as usize, 0);
            }
            _ => {
                let offset = random.below(limit);
                let len = random.between(1, 20 * PAGE as u64);
                file.discard(offset, len).unwrap();
                let end = (offset + len).min(model.bytes.len() as u64);
                if offset < end {
                    model.bytes[offset as usize..end as usize].fill(0);
                }
            }
        }
    }
}

pub fn path(name: &str) -> &Path {
    Path::new(name)
}
