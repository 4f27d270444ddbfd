//! The hardware of one world: flash, disk, log and control file on one power supply.

use mezzanine_device::memory::{CutReport, MemoryDevice, Power, Random, Spent, Survival};
use mezzanine_device::{Device, DeviceError, DeviceErrorKind};
use mezzanine_engine::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, SuperblockError, write_superblock,
};
use mezzanine_engine::{ReadError, ReadFlash, WriteFlash};

use super::log::{Log, Lsn, NoPower};

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

/// The control file: one value, replaced as a whole or not at all.
#[derive(Debug)]
pub struct ControlFile {
    power: Power,
    control: Control,
    /// What was being written when power failed.
    under_way: Option<Control>,
}

impl ControlFile {
    /// The value.
    pub fn read(&self) -> Control {
        self.control
    }

    /// The value that power failed in the writing of.
    pub fn under_way(&self) -> Option<Control> {
        self.under_way
    }

    /// Replaces the value, durably.
    ///
    /// # Errors
    /// [`NoPower`]: it is the old one or the new one.
    pub fn replace(&mut self, control: Control) -> Result<(), NoPower> {
        match self.power.spend() {
            Spent::On => {
                self.control = control;
                Ok(())
            }
            Spent::Cut => {
                self.under_way = Some(control);
                Err(NoPower)
            }
            Spent::Off => Err(NoPower),
        }
    }
}

/// The hardware.
pub struct Machine {
    /// One supply for everything.
    pub power: Power,
    /// The flash device.
    pub flash: MemoryDevice,
    /// The disk: every page of the database has its place on it.
    pub disk: MemoryDevice,
    /// The log.
    pub log: Log,
    /// The control file.
    pub control: ControlFile,
}

impl Machine {
    /// A machine with empty devices of these lengths in bytes. A power cut leaves pieces of `disk_piece`
    /// bytes of the disk whole.
    pub fn new(flash_bytes: u64, disk_bytes: u64, disk_piece: u64) -> Self {
        let power = Power::new();
        let disk = MemoryDevice::on(&power, "simulated disk", disk_bytes, false);
        disk.set_atomic_write(disk_piece);
        let control = Control { redo: 0, tier: [0; 16], disk_suffices: true };
        Self {
            flash: MemoryDevice::on(&power, "simulated flash", flash_bytes, false),
            disk,
            log: Log::on(&power),
            control: ControlFile { power: power.clone(), control, under_way: None },
            power,
        }
    }

    /// Makes this machine, at rest, what `other` is at rest.
    pub fn copy_from(&mut self, other: &Self) {
        self.flash.put_back(&other.flash.snapshot());
        self.disk.put_back(&other.disk.snapshot());
        self.log.copy_from(&other.log);
        self.control.control = other.control.control;
    }

    /// Makes this machine what `other` is, with what is not durable yet, and its power on.
    pub fn copy_with_unflushed(&mut self, other: &Self) {
        self.power.restore();
        self.flash.copy_from(&other.flash);
        self.disk.copy_from(&other.disk);
        self.log.copy_from(&other.log);
        (self.control.control, self.control.under_way) = (other.control.control, other.control.under_way);
    }

    /// As [`Self::cut`], with the choice made by the caller: what survives on flash and disk, where the log
    /// ends, and whether the control file has its new value if power failed while it was written.
    pub fn cut_as(&mut self, flash: &Survival, disk: &Survival, log_end: Lsn, control_replaced: bool) {
        self.flash.power_cut_as(flash);
        self.disk.power_cut_as(disk);
        self.log.end_at(log_end);
        match self.control.under_way.take() {
            Some(control) if control_replaced => self.control.control = control,
            _ => {}
        }
        self.power.restore();
    }

    /// Lets everything volatile lose what it loses, and turns power on again. Returns what happened to flash
    /// and disk, and how many records the log lost.
    pub fn cut(&mut self, random: &mut Random) -> (CutReport, CutReport, u64) {
        let flash = self.flash.power_cut(random.next_u64());
        let disk = self.disk.power_cut(random.next_u64());
        let records = self.log.power_failed(random);
        if let Some(control) = self.control.under_way.take() {
            if random.chance(1, 2) {
                self.control.control = control;
            }
        }
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
