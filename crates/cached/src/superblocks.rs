//! The two copies of the superblock on the cache device: read, and replaced one after the other.

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_fragment::format::{
    FormatError, SUPERBLOCK_BYTES_MAX, SUPERBLOCK_OFFSETS, Superblock, Superblocks,
};

/// Reads both copies; one that the device does not give back is as if it were not there.
///
/// # Errors
/// If neither is whole.
pub fn read_superblocks(device: &dyn Device) -> Result<Superblocks, FormatError> {
    let copies = SUPERBLOCK_OFFSETS.map(|offset| {
        let len = device.len().saturating_sub(offset).min(SUPERBLOCK_BYTES_MAX as u64);
        let mut bytes = AlignedBuf::zeroed(len as usize);
        let read = len == 0 || device.read_at(&mut bytes, offset).is_ok();
        read.then_some(bytes)
    });
    Superblocks::read(copies.each_ref().map(|copy| copy.as_deref()))
}

/// Writes a superblock durably: first to the place `first` of the two, and to the other one when that is
/// durable. A cut in between leaves one whole copy.
///
/// # Errors
/// That of the device. What has been written until then counts.
pub fn write_superblock(
    device: &dyn Device,
    superblock: &Superblock,
    first: usize,
) -> Result<(), DeviceError> {
    let bytes = AlignedBuf::copy_of(&superblock.encode());
    for place in [first, 1 - first] {
        device.write_at(&bytes, SUPERBLOCK_OFFSETS[place])?;
        device.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::MemoryDevice;
    use mezzanine_device::memory::Bad;

    use super::*;

    #[test]
    fn a_cut_at_any_moment_leaves_the_old_one_or_the_new_one() {
        let old = Superblock::new([1; 16], 8 << 20, 1 << 20).unwrap();
        let new = old.opened();
        let mut found = [0; 2];
        for operations in 1..=4 {
            for seed in 0..4 {
                let device = MemoryDevice::new(8 << 20);
                write_superblock(&device, &old, 0).unwrap();
                let first = read_superblocks(&device).unwrap().write_first;
                device.power().crash_after(operations);
                let written = write_superblock(&device, &new, first);
                device.power_cut(seed);
                device.power().restore();
                let newest = read_superblocks(&device).unwrap().newest;
                assert!(newest == old || newest == new);
                assert!(written.is_err() || newest == new);
                found[usize::from(newest == new)] += 1;
            }
        }
        assert!(found.iter().all(|&count| count > 0), "{found:?}");
    }

    #[test]
    fn one_copy_that_cannot_be_read_is_enough_of_a_loss() {
        let superblock = Superblock::new([1; 16], 8 << 20, 1 << 20).unwrap();
        let device = MemoryDevice::new(8 << 20);
        assert_eq!(read_superblocks(&device), Err(FormatError::Unrecognised));
        assert_eq!(read_superblocks(&MemoryDevice::new(100)), Err(FormatError::Unrecognised));
        write_superblock(&device, &superblock, 0).unwrap();
        device.spoil(0, 512, Bad::Unreadable);
        assert_eq!(read_superblocks(&device).unwrap().newest, superblock);
        device.spoil(SUPERBLOCK_OFFSETS[1], 512, Bad::Unreadable);
        assert_eq!(read_superblocks(&device), Err(FormatError::Unreadable));
    }
}
