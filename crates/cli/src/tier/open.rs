//! Opening a tier at rest: its file, its superblock, its recovery; nothing here writes.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::two_zones;
use mezzanine_device::zones::write_pointer;
use mezzanine_device::{Device, DeviceError, DeviceErrorKind, FileDevice, OpenOptions};
use mezzanine_engine::format::{
    FormatError, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, read_superblock_to_drain,
};
use mezzanine_engine::{
    Blank, Geometry, ReadError, ReadFlash, Recovered, RecoveryError, Tier, read_patiently,
};
use mezzanine_volume::RecoveryThreads;

use super::postgres;
use crate::failure::{Failure, chain};
use crate::machine::memory_available;
use crate::size::Size;

/// Locks of the tier that is recovered here name this owner; there is only one.
const OWNER: u32 = 1;

/// A flash file or device, opened for reading and locked, so that no database changes it meanwhile.
pub(crate) struct Flash {
    pub(crate) name: String,
    pub(crate) device: Arc<dyn Device>,
}

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.device.read_at(bytes, offset).map_err(|error| ReadError(chain(&error)))
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        write_pointer(&*self.device, offset)
    }
}

/// What to do about a device that cannot be opened, where the error does not say so itself.
pub(crate) fn open_failure(path: &Path, error: &DeviceError) -> Failure {
    let failure = Failure::refused(path.display(), chain(error));
    match error.kind() {
        DeviceErrorKind::NotFound => failure.next("check the path; `mezz tier format` makes a new tier"),
        DeviceErrorKind::Busy => failure.next("a database is using the tier: stop it first; of PostgreSQL, pg_stat_mezzanine and mezzanine_verify() show a tier in use"),
        _ => failure,
    }
}

impl Flash {
    pub(crate) fn open(path: &Path) -> Result<Flash, Failure> {
        let options = OpenOptions { exclusive_lock: true, no_follow: true, ..OpenOptions::default() };
        let device = FileDevice::open(path, &options).map_err(|error| open_failure(path, &error))?;
        let device = two_zones::shown(Arc::new(device)).map_err(|error| open_failure(path, &error))?;
        Ok(Flash { name: path.display().to_string(), device })
    }

    /// The newest whole superblock.
    pub(crate) fn superblock(&mut self) -> Result<Superblock, Failure> {
        self.superblock_and_version().map(|(superblock, _)| superblock)
    }

    /// The newest whole superblock, and its version of the format: this build's, or an older one that it can
    /// read.
    pub(crate) fn superblock_and_version(&mut self) -> Result<(Superblock, u32), Failure> {
        let name = self.name.clone();
        read_superblock_to_drain(self).map_err(|error| match error {
            FormatError::Unrecognised => {
                Failure::refused(&name, "it holds no flash tier").next("check the path; `mezz tier format` makes a new tier")
            }
            FormatError::NewerFormat(_) | FormatError::OlderFormat(_) => Failure::refused(&name, error),
            FormatError::Damaged(_) => Failure::check(&name, format!("both superblocks are lost: {error}"))
                .next("the tier cannot be opened; restore the database from its backup, or use its files alone if they are current"),
            FormatError::Unreadable(_) => Failure::refused(&name, error).next("the device or its file system fails; see the kernel's log"),
        })
    }

    /// What each of the two superblock copies is: `None` when whole, else the reason.
    pub(crate) fn superblock_copies(&mut self) -> Vec<Option<String>> {
        let wrong = |bytes: &[u8]| match Superblock::decode(bytes) {
            Ok(_) | Err(FormatError::OlderFormat(_)) => None,
            Err(error) => Some(error.to_string()),
        };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let mut copy = |offset| match read_patiently(self, offset, &mut bytes, |bytes| wrong(bytes).is_none())
        {
            Ok(_) => wrong(&bytes),
            Err(RecoveryError::Read(error) | RecoveryError::Silent(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        SUPERBLOCK_OFFSETS.iter().map(|&offset| copy(offset)).collect()
    }

    /// The sizes that follow from a superblock, after checking that the file is as long as they say.
    pub(crate) fn geometry(&self, superblock: &Superblock) -> Result<Geometry, Failure> {
        let geometry = superblock.config.geometry().map_err(|error| {
            Failure::check(&self.name, format!("the superblock describes an impossible tier: {error}"))
                .next("restore the database from its backup, or use its files alone if they are current")
        })?;
        let len = self.device.len();
        if len < geometry.flash_bytes() {
            return Err(Failure::check(
                &self.name,
                format!("it is truncated: {len} bytes of {} are there", geometry.flash_bytes()),
            )
            .next("bring back the whole file; nothing in it was changed"));
        }
        Ok(geometry)
    }

    /// Recovers the tier in memory, as opening it would, without writing anything.
    pub(crate) fn recover(
        &mut self,
        superblock: &Superblock,
        geometry: &Geometry,
    ) -> Result<Recovered, Failure> {
        let needed = geometry.region_bytes() as u64;
        // A size from a file is not to be trusted with all of the memory.
        if memory_available().is_some_and(|available| needed > available) {
            return Err(Failure::refused(&self.name, format!("reading it takes {} of memory", Size(needed)))
                .next("run this on a machine with more memory"));
        }
        let name = self.name.clone();
        let memory = Blank::heap(geometry.region_bytes());
        let threads = RecoveryThreads::of_machine();
        Tier::recover_with(memory, superblock, OWNER, self, &threads).map_err(|error| {
            match error {
                RecoveryError::Damaged { .. } if postgres::can_be_redone(superblock) => Failure::check(&name, error)
                    .next("nothing is lost: the server empties it when it starts, and recovers from its files and its log"),
                // Nobody knows whether anything is missing.
                RecoveryError::Damaged { unread: Some(_), .. } | RecoveryError::Read(_) => {
                    Failure::refused(&name, error).next(
                        "see to the device, or copy it whole to a good one (the kernel's log says more); nothing was changed",
                    )
                }
                RecoveryError::Silent(_) => Failure::refused(&name, error)
                    .next("see to the device and try again (the kernel's log says more); nothing was changed, and nothing is known to be lost"),
                RecoveryError::Damaged { .. } => Failure::check(&name, error)
                    .next("pages that were acknowledged are lost; restore the database from its backup"),
                _ => Failure::refused(&name, error),
            }
        })
    }
}
