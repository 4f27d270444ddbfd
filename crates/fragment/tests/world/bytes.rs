//! Sectors as bytes, and what jobs have for them.

use mezzanine_fragment::Job;

use super::SECTOR;

/// A sector all of which is this value.
pub(crate) fn bytes_of(value: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    bytes.chunks_exact_mut(8).for_each(|eight| eight.copy_from_slice(&value.to_le_bytes()));
    bytes
}

fn value_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The sectors of some bytes of a device.
pub(crate) fn sectors(offset: u64, bytes: usize) -> std::ops::Range<u64> {
    offset / SECTOR..(offset + bytes as u64) / SECTOR
}

/// What a job has for a sector of the cache device at this moment.
pub(crate) fn now_at(job: &Job<'_>, sector: u64) -> u64 {
    let of = |offset: u64, bytes: &[u8]| {
        let at = (sector * SECTOR).checked_sub(offset)? as usize;
        Some(value_of(bytes.get(at..at + SECTOR as usize)?))
    };
    let found = match job {
        Job::WriteBlocks(write) => write.writes().find_map(|(offset, bytes)| of(offset, bytes)),
        Job::WriteFragment(write) => of(write.offset(), write.data()),
        Job::ReadFragment(_) => None,
    };
    found.expect("a job writes the same sectors all the time")
}
