//! The cache device of an opening, and what its superblock notes of the volumes.

use std::path::PathBuf;
use std::sync::Arc;

use mezzanine_cached::{Attachment, Backing, Opening, make_room, read_superblocks, write_superblock};
use mezzanine_device::Device;
use mezzanine_fragment::format::{HOST_BYTES, Superblock};

use super::devices;
use super::open::Volume;
use super::resize;
use crate::failure::{Failure, chain};

/// The cache device with its superblock of this opening.
pub(super) struct CacheDevice {
    pub(super) path: PathBuf,
    pub(super) device: Arc<dyn Device>,
    pub(super) superblock: Superblock,
    /// Which of its two places is written first.
    pub(super) first: usize,
    /// What the superblock had for the host before: of itself, and of each volume.
    pub(super) before: ([u8; HOST_BYTES], Vec<[u8; HOST_BYTES]>),
    pub(super) opening: Opening,
    pub(super) opening_before: Option<Opening>,
}

impl CacheDevice {
    /// Notes durably that these volumes are in use by this opening.
    pub(super) fn note_in_use(&mut self, volumes: &[Volume]) -> Result<(), Failure> {
        for volume in volumes {
            let backing = Backing { attachment: Attachment::InUse, ..volume.known_by };
            self.superblock.volumes[volume.number].host = backing.encode();
        }
        self.write()
    }

    /// Notes durably that they are detached as they are now.
    pub(super) fn note_detached(&mut self, volumes: &[Volume]) -> Result<(), Failure> {
        for volume in volumes {
            let backing = devices::known_by(&volume.named.path, &volume.device)?;
            self.superblock.volumes[volume.number].host = backing.encode();
        }
        self.write()
    }

    /// Notes durably that the cache uses so many bytes of its device, which has room for them then.
    pub(super) fn note_size(&mut self, bytes: u64) -> Result<(), Failure> {
        let before = self.superblock.slots_limit;
        let resized = self.superblock.resized(bytes);
        let resized = resized.map_err(|error| resize::refused(self.path.display(), &error))?;
        if resized.slots_limit > before {
            let end = resized.layout.end_of(resized.slots_limit);
            make_room(&*self.device, end)
                .map_err(|error| Failure::refused(self.path.display(), chain(&error)))?;
        }
        self.superblock.slots_limit = resized.slots_limit;
        // The cache goes by the size that it had; on its device may be either, and the next note says this.
        self.write().inspect_err(|_| self.superblock.slots_limit = before)
    }

    /// Notes durably that all is as it was before it was opened: nobody has been let in. What was written
    /// last may be in both places, in one or in none.
    pub(super) fn note_nothing_done(&mut self) -> Result<(), Failure> {
        let found = read_superblocks(&*self.device)
            .map_err(|error| Failure::refused(self.path.display(), error).next("check the device"))?;
        self.first = found.write_first;
        self.superblock.host = self.before.0;
        for (entry, before) in self.superblock.volumes.iter_mut().zip(&self.before.1) {
            entry.host = *before;
        }
        self.write()
    }

    /// Afterwards both copies are as new as one another. A number is used once, also if that fails: something
    /// of it may be on the device.
    fn write(&mut self) -> Result<(), Failure> {
        let written = write_superblock(&*self.device, &self.superblock, self.first);
        self.superblock.sequence += 1;
        written.map_err(|error| {
            Failure::refused(self.path.display(), chain(&error))
                .next("check the device; or serve the volumes with --without-cache")
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_cached::{Fingerprint, opening_of, set_opening};
    use mezzanine_device::memory::{Fault, Injection, Operation};
    use mezzanine_device::{DeviceErrorKind, MemoryDevice};
    use mezzanine_fragment::format::SUPERBLOCK_OFFSETS;

    use super::*;

    const BYTES: u64 = 8 << 20;

    fn backing(attachment: Attachment) -> Backing {
        Backing { fingerprint: Fingerprint([7; 32]), attachment, changed_ns: 5, label: None }
    }

    /// A cache whose volume was detached, as it is on the device, and the opening that follows.
    fn opened(device: &Arc<MemoryDevice>) -> CacheDevice {
        let superblock = Superblock::new([1; 16], BYTES, 128 << 10).unwrap();
        let host = backing(Attachment::Detached).encode();
        let superblock = superblock.with_volume([2; 16], "disk", 4 << 20, host).unwrap();
        write_superblock(&**device, &superblock, 0).unwrap();
        let found = read_superblocks(&**device).unwrap();
        let before = (superblock.host, vec![host]);
        let mut superblock = found.newest.opened();
        set_opening(&mut superblock, Opening([9; 16]));
        superblock.volumes[0].host = backing(Attachment::InUse).encode();
        CacheDevice {
            path: PathBuf::from("cache"),
            device: Arc::clone(device) as Arc<dyn Device>,
            superblock,
            first: found.write_first,
            before,
            opening: Opening([9; 16]),
            opening_before: None,
        }
    }

    #[test]
    fn what_could_not_be_noted_everywhere_is_taken_back() {
        let mut in_use = 0;
        for after in 0..2 {
            let device = Arc::new(MemoryDevice::new(BYTES));
            let mut cache = opened(&device);
            let fault = Fault::Error(DeviceErrorKind::Io);
            device.inject(Injection { operation: Operation::Write, after, count: 1, fault });
            cache.note_in_use(&[]).unwrap_err();
            let noted = read_superblocks(&*device).unwrap().newest;
            in_use += u32::from(opening_of(&noted).is_some());
            cache.note_nothing_done().unwrap();
            // In both copies, so that the loss of the one does not bring the other back.
            for _ in 0..2 {
                let found = read_superblocks(&*device).unwrap();
                let state = Backing::decode(&found.newest.volumes[0].host);
                assert_eq!(state, backing(Attachment::Detached), "write {after}");
                assert_eq!(opening_of(&found.newest), None);
                device.write_at(&[0; 4096], SUPERBLOCK_OFFSETS[1 - found.write_first]).unwrap();
            }
        }
        assert!(in_use > 0, "one of the copies said that it is in use");
    }

    #[test]
    fn a_number_is_used_once() {
        let device = Arc::new(MemoryDevice::new(BYTES));
        let mut cache = opened(&device);
        let fault = Fault::Error(DeviceErrorKind::Io);
        device.inject(Injection { operation: Operation::Write, after: 1, count: u64::MAX, fault });
        cache.note_in_use(&[]).unwrap_err();
        // The device goes on refusing: it says that it is in use, and whoever looks at it is not mistaken.
        cache.note_nothing_done().unwrap_err();
        let noted = read_superblocks(&*device).unwrap().newest;
        assert_eq!(opening_of(&noted), Some(Opening([9; 16])));
        device.heal();
        cache.note_nothing_done().unwrap();
        let found = read_superblocks(&*device).unwrap().newest;
        assert!(found.sequence > noted.sequence && opening_of(&found).is_none());
    }
}
