//! The hardware of one world: flash, disk, log and control file on one power supply.

use std::sync::Arc;

use mezzanine_device::memory::{CutReport, Image, MemoryDevice, Power, Survival};
use mezzanine_device::{Device, DeviceError, DeviceErrorKind, Zones};
use mezzanine_engine::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, SuperblockError, write_superblock,
};
use mezzanine_engine::{ReadError, ReadFlash, WriteFlash};
use mezzanine_ground::random::Random;

use super::log::{Log, Lsn};
use crate::crash::driver::drives::Tally;
use crate::crash::driver::{Drive, Failing, Whole};

/// What the database knows before it has read anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Where redo begins.
    pub redo: Lsn,
    /// The tier that the database belongs to.
    pub tier: [u8; 16],
    /// Whether the disk and the log from `redo` on are the whole database, without the tier.
    pub disk_suffices: bool,
}

/// The hardware, with a control file of this kind.
pub struct Machine<C = Control> {
    /// One supply for everything.
    pub power: Power,
    /// The flash device.
    pub flash: Arc<MemoryDevice>,
    /// The disk: every page of the database has its place on it.
    pub disk: Arc<MemoryDevice>,
    /// The log.
    pub log: Log,
    /// The control file.
    pub control: Arc<Whole<C>>,
}

impl<C: Clone> Machine<C> {
    /// A machine with empty devices of these lengths in bytes, and this in its control file. A power cut
    /// leaves pieces of `disk_piece` bytes of the disk whole.
    pub fn new(flash_bytes: u64, disk_bytes: u64, disk_piece: u64, control: C) -> Self {
        let power = Power::new();
        let disk = MemoryDevice::on(&power, "simulated disk", disk_bytes, false);
        disk.set_atomic_write(disk_piece);
        Self {
            flash: Arc::new(MemoryDevice::on(&power, "simulated flash", flash_bytes, false)),
            disk: Arc::new(disk),
            log: Log::on(&power),
            control: Arc::new(Whole::new(&power, control)),
            power,
        }
    }

    /// The flash device has zones, all of them empty.
    pub(super) fn flash_has_zones(&mut self, zones: Zones) {
        self.flash = Arc::new(MemoryDevice::zoned(&self.power, "simulated zoned flash", zones));
    }

    /// Flash and disk are drives modelled from the inside, as long and empty as what they replace. Where they
    /// tell what they do is returned.
    pub(super) fn is_on_drives(&mut self, flash: &Drive, disk: &Drive) -> Tally {
        let tally = Tally::default();
        let (flash_bytes, disk_bytes) =
            (self.flash.view(Image::len) as u64, self.disk.view(Image::len) as u64);
        self.flash = Arc::new(flash.device(&self.power, "simulated flash drive", flash_bytes, &tally));
        self.disk = Arc::new(disk.device(&self.power, "simulated disk drive", disk_bytes, &tally));
        tally
    }

    /// The one of the two devices that is to fail.
    pub(crate) fn device(&self, failing: Failing) -> &MemoryDevice {
        match failing {
            Failing::Flash => &self.flash,
            Failing::Disk => &self.disk,
        }
    }

    /// Makes this machine, at rest, what `other` is at rest.
    pub fn copy_from(&mut self, other: &Self) {
        self.flash.put_back(&other.flash.snapshot());
        self.disk.put_back(&other.disk.snapshot());
        self.log.copy_from(&other.log);
        self.control.put(other.control.read());
    }

    /// Makes this machine what `other` is, with what is not durable yet, and its power on.
    pub fn copy_with_unflushed(&mut self, other: &Self) {
        self.power.restore();
        self.flash.copy_from(&other.flash);
        self.disk.copy_from(&other.disk);
        self.log.copy_from(&other.log);
        self.control.copy_from(&other.control);
    }

    /// As [`Self::cut`], with the choice made by the caller: what survives on flash and disk, where the log
    /// ends, and whether the control file has its new value if power failed while it was written.
    pub fn cut_as(&mut self, flash: &Survival, disk: &Survival, log_end: Lsn, control_replaced: bool) {
        self.flash.power_cut_as(flash);
        self.disk.power_cut_as(disk);
        self.log.end_at(log_end);
        self.control.cut_as(|| control_replaced);
        self.power.restore();
    }

    /// Lets everything volatile lose what it loses, and turns power on again. Returns what happened to flash
    /// and disk, and how many records the log lost.
    pub fn cut(&mut self, random: &mut Random) -> (CutReport, CutReport, u64) {
        let flash = self.flash.power_cut(random.next_u64());
        let disk = self.disk.power_cut(random.next_u64());
        let records = self.log.power_failed(random);
        self.control.cut(random);
        self.power.restore();
        (flash, disk, records)
    }

    /// Writes both copies of a superblock, the one that is worth less first, each durably.
    ///
    /// # Errors
    /// That of the flash device.
    pub fn write_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        write_superblock(&mut Reader(&self.flash), superblock).map_err(|error| match error {
            SuperblockError::Unreadable(_) => {
                DeviceError::new(DeviceErrorKind::Io, "read either superblock of", self.flash.describe())
            }
            SuperblockError::Failed(error) => error,
        })
    }

    /// Destroys whatever superblock the flash device holds, durably.
    ///
    /// # Errors
    /// That of the flash device.
    pub fn erase_superblocks(&self) -> Result<(), DeviceError> {
        for offset in SUPERBLOCK_OFFSETS {
            self.flash.write_at(&[0; SUPERBLOCK_BYTES], offset)?;
        }
        self.flash.flush()
    }
}

/// Reads and writes the flash device outside of jobs.
pub struct Reader<'m>(pub &'m MemoryDevice);

impl ReadFlash for Reader<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        let zone = self.0.zone_at(offset).ok()?;
        (!zone.conventional).then(|| zone.write_pointer())
    }
}

impl WriteFlash for Reader<'_> {
    type Error = DeviceError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}
