//! A whole volume: flash with changes in superblocks, groups, metadata and the table of files, and a sidecar
//! with changes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arbitrary::{Result, Unstructured};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_volume::{
    AttachOptions, HeaderGuard, MemorySidecar, SidecarStore, SyncMode, TierConfig, Volume, VolumeConfig,
    VolumeError, VolumeFile,
};

use crate::patches::{apply, assert_repair_knows, structures};

const PAGE: usize = 4096;
/// A disk is full at this length; whatever a length says, no more is taken.
const DISK_BYTES_MAX: u64 = 4 << 20;

/// A file that cannot grow without end.
struct Disk(MemoryDevice);

impl Disk {
    fn full(&self, len: u64) -> std::result::Result<(), DeviceError> {
        if len <= DISK_BYTES_MAX {
            return Ok(());
        }
        Err(DeviceError::new(DeviceErrorKind::NoSpace, "grow", self.0.describe()))
    }
}

impl Device for Disk {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<std::result::Result<(), DeviceError>> {
        let one = |request: &mut Request<'_>| {
            if let Request::Write { offset, buf, .. } = request {
                self.full(offset.saturating_add(buf.len() as u64))?;
            }
            self.0.run(std::slice::from_mut(request)).pop().expect("one result per request")
        };
        batch.iter_mut().map(one).collect()
    }

    fn set_len(&self, len: u64) -> std::result::Result<(), DeviceError> {
        self.full(len)?;
        self.0.set_len(len)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// What a machine has after a power cut, or after closing.
struct Base {
    config: VolumeConfig,
    flash: Vec<u8>,
    places: Vec<usize>,
    disk: Vec<u8>,
    sidecar: Vec<u8>,
}

fn config(sync_mode: SyncMode) -> VolumeConfig {
    let tier = TierConfig {
        group_pages: 4,
        staging_groups: 3,
        segment_frames: 12,
        shards: 4,
        survivors_max: 2,
        band_frames: 8,
        sync_mode,
        ..TierConfig::new(PAGE as u32, 104)
    };
    VolumeConfig { workers: 0, identity_seed: Some(7), ..VolumeConfig::new(tier) }
}

fn options() -> AttachOptions {
    AttachOptions { guard: Some(HeaderGuard { bytes: b"guarded".to_vec() }) }
}

/// Opens what lies there and attaches its one file.
fn open(
    config: &VolumeConfig,
    flash: &Arc<MemoryDevice>,
    disk: &Arc<Disk>,
    sidecar: &Arc<MemorySidecar>,
) -> std::result::Result<(Volume, VolumeFile), VolumeError> {
    let volume = Volume::open(Arc::clone(flash) as Arc<dyn Device>, config.clone())?;
    let (disk, sidecar) = (Arc::clone(disk) as Arc<dyn Device>, Arc::clone(sidecar) as Arc<dyn SidecarStore>);
    let file = volume.attach(Path::new("fuzzed"), disk, sidecar, options())?;
    Ok((volume, file))
}

fn base(sync_mode: SyncMode, closed: bool) -> Base {
    const USUAL: &str = "a usual volume";
    let config = config(sync_mode);
    let geometry = config.tier.geometry().expect(USUAL);
    let flash = Arc::new(MemoryDevice::new(geometry.flash_bytes()));
    Volume::format(&*flash, &config, false).expect(USUAL);
    let disk = Arc::new(Disk(MemoryDevice::file(0)));
    let sidecar = Arc::new(MemorySidecar::new());
    let (volume, file) = open(&config, &flash, &disk, &sidecar).expect(USUAL);
    for n in 0..150u64 {
        file.write_at(&[n as u8; PAGE], n * n % 61 * PAGE as u64).expect(USUAL);
        if n % 10 == 9 {
            file.sync().expect(USUAL);
        }
    }
    file.discard(5 * PAGE as u64, 3 * PAGE as u64).expect(USUAL);
    file.sync().expect(USUAL);
    if closed {
        volume.close().expect(USUAL);
    }
    drop((volume, file));
    let image = flash.image();
    let places = structures(&image);
    assert_repair_knows(&image, &places);
    // Sync mode `through` needs none.
    let sidecar = sidecar.read().expect(USUAL).unwrap_or_default();
    Base { config, flash: image, places, disk: disk.0.image(), sidecar }
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        vec![base(SyncMode::Durable, false), base(SyncMode::Durable, true), base(SyncMode::Through, false)]
    })
}

/// Changes the flash device of a volume as `data` says, opens and uses it.
///
/// # Panics
/// If an invariant is broken.
pub fn volume(data: &[u8]) -> bool {
    let changed = |input: &mut Unstructured<'_>| -> Result<bool> {
        let base = input.choose(bases())?;
        let mut flash = base.flash.clone();
        apply(input, &mut flash, &base.places)?;
        Ok(use_volume(base, &flash, &base.sidecar, true))
    };
    changed(&mut Unstructured::new(data)).unwrap_or(false)
}

/// Changes the sidecar of a volume's file as `data` says, attaches the file and uses it.
///
/// # Panics
/// If an invariant is broken.
pub fn sidecar(data: &[u8]) -> bool {
    let changed = |input: &mut Unstructured<'_>| -> Result<bool> {
        let base = input.choose(bases())?;
        let sidecar = change_text(input, &base.sidecar)?;
        Ok(use_volume(base, &base.flash, &sidecar, false))
    };
    changed(&mut Unstructured::new(data)).unwrap_or(false)
}

/// Replaces fields of a sidecar, with the checksum made right.
fn change_text(input: &mut Unstructured<'_>, bytes: &[u8]) -> Result<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("crc32c "));
    for _ in 0..=input.int_in_range(0..=2)? {
        let index = input.choose_index(lines.len())?;
        let name = lines[index].split(' ').next().unwrap_or_default().to_owned();
        let line = match input.int_in_range(0..=7)? {
            0 => format!("{name} {}", input.arbitrary::<u64>()?),
            1 => format!("{name} {}", 1u64 << input.int_in_range(0..=63)?),
            2 => format!("{name} {} {}", input.arbitrary::<u64>()?, input.arbitrary::<u64>()?),
            3 => format!("{name} {}", "ab".repeat(input.int_in_range(0..=600)?)),
            4 => format!("discarding {} {}", input.arbitrary::<u16>()?, input.arbitrary::<u64>()?),
            5 => format!("length {}", input.arbitrary::<u64>()? >> input.int_in_range(0..=63)?),
            6 => format!("state {}", input.choose(&["current", "dirty", "detached"])?),
            _ => String::from_utf8_lossy(input.bytes(input.len().min(20))?).into_owned(),
        };
        lines[index] = line;
    }
    let mut text = lines.join("\n") + "\n";
    if input.ratio(15, 16)? {
        text += &format!("crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()));
    }
    Ok(text.into_bytes())
}

/// Opens, reads, writes, syncs and drains; what was acknowledged is read again after opening once more. That
/// may be refused where a sidecar, `paired` no more, says of the file what is not true.
fn use_volume(base: &Base, flash: &[u8], sidecar: &[u8], paired: bool) -> bool {
    const ACKNOWLEDGED: &[u8] = &[0xA5; PAGE];
    let flash_device = Arc::new(MemoryDevice::new(flash.len() as u64));
    flash_device.load(flash);
    let disk = Arc::new(Disk(MemoryDevice::file(base.disk.len() as u64)));
    disk.0.load(&base.disk);
    let store = Arc::new(MemorySidecar::new());
    if !sidecar.is_empty() {
        store.replace(sidecar).expect("memory");
    }
    let Ok((volume, file)) = open(&base.config, &flash_device, &disk, &store) else { return false };
    volume.check();
    let mut page = vec![0; PAGE];
    for block in 0..64 {
        let _ = file.read_at(&mut page, block * PAGE as u64);
    }
    let at = 7 * PAGE as u64;
    let acknowledged = file.write_at(ACKNOWLEDGED, at).is_ok() && file.sync().is_ok();
    volume.check();
    drop((volume, file));
    let (volume, file) = match open(&base.config, &flash_device, &disk, &store) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!acknowledged || !paired, "a volume that was used cannot be opened: {error}");
            return true;
        }
    };
    if acknowledged {
        file.read_at(&mut page, at).expect("what was acknowledged can be read");
        assert!(page == ACKNOWLEDGED, "what was acknowledged is lost");
    }
    let _ = volume.close_drained();
    true
}
