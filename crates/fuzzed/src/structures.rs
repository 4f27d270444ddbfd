//! Structures by themselves: decoded, and if accepted encoded again.

use mezzanine_device::AlignedBuf;
use mezzanine_engine::format::{
    GroupSummary, RECORD_BYTES, Record, RecordKind, SEGMENT_HEADER_BYTES, SUMMARY_HEADER_BYTES,
    SUMMARY_MAGIC, SUPERBLOCK_BYTES, SegmentHeader, Superblock,
};
use mezzanine_engine::{AttachError, REGION_VERSION, Region, Tier, TierConfig};

use crate::patches::repair;

/// Bytes that follow a magic number, with the checksums of the whole made right.
fn structure(magic: &[u8], data: &[u8], bytes: usize) -> Vec<u8> {
    let mut whole = magic.to_vec();
    whole.extend_from_slice(data);
    whole.resize(bytes.max(whole.len()), 0);
    repair(&mut whole, 0);
    whole
}

/// A superblock with `data` in it: changes of up to seven bytes of the fields of a valid one, each after a
/// byte that says where.
///
/// # Panics
/// If an invariant is broken.
pub fn superblock(data: &[u8]) -> bool {
    let _ = Superblock::decode(data);
    let Ok(found) = Superblock::decode(&changed_superblock(data)) else { return false };
    let geometry = found.config.geometry().expect("what is accepted has sizes");
    assert!(geometry.region_bytes() > geometry.staging_bytes());
    assert!(geometry.flash_bytes() >= geometry.frames() * geometry.page_size() as u64);
    assert_eq!(Superblock::decode(&found.encode()), Ok(found));
    true
}

/// Changes up to seven bytes at a time within `span` bytes after the magic number.
fn change(structure: &mut [u8], changes: &[u8], span: u8) {
    for change in changes.chunks(8) {
        let at = 8 + usize::from(change[0] % span);
        structure[at..at + change.len() - 1].copy_from_slice(&change[1..]);
    }
}

fn changed_superblock(changes: &[u8]) -> [u8; SUPERBLOCK_BYTES] {
    let geometry = TierConfig::new(4096, 256).geometry().expect("a usual configuration");
    let mut superblock = Superblock::new(&geometry, [7; 16], [9; 16]).encode();
    change(&mut superblock, changes, 160);
    repair(&mut superblock, 0);
    superblock
}

/// A metadata segment with `data` in it: a byte that says how many changes of the header follow, those, and
/// records.
///
/// # Panics
/// If an invariant is broken.
pub fn segment(data: &[u8]) -> bool {
    let _ = SegmentHeader::decode(data);
    let (&[changes, ..], data) = data.split_at(data.len().min(1)) else { return false };
    let (changes, records) = data.split_at(data.len().min(usize::from(changes % 8) * 8));
    let mut whole = b"MEZZSEG1".to_vec();
    whole.resize(SEGMENT_HEADER_BYTES, 0);
    change(&mut whole, changes, 116);
    whole.extend_from_slice(records);
    repair(&mut whole, 0);
    let Ok(found) = SegmentHeader::decode(&whole) else { return false };
    assert!(found.records_bytes() <= u64::from(u32::MAX) * RECORD_BYTES as u64);
    assert!(found.records_end() >= SEGMENT_HEADER_BYTES as u64 + found.records_bytes());
    assert_eq!(SegmentHeader::decode(&found.encode()), Ok(found));
    each_record(records);
    true
}

/// A group summary whose header fields and records are `data`.
///
/// # Panics
/// If an invariant is broken.
pub fn group(data: &[u8]) -> bool {
    let _ = GroupSummary::decode(data);
    let frames = (SUMMARY_MAGIC.len() + data.len()).next_multiple_of(4096);
    let whole = structure(&SUMMARY_MAGIC, data, frames);
    let Ok((found, _)) = GroupSummary::decode(&whole) else { return false };
    assert!(found.pages <= found.records);
    assert!(SUMMARY_HEADER_BYTES + found.records as usize * RECORD_BYTES <= whole.len());
    for index in 0..found.records as usize + 1 {
        let _ = GroupSummary::record(&whole, index);
    }
    each_record(&data[data.len().min(SUMMARY_HEADER_BYTES - 8)..]);
    true
}

/// How many records are accepted; each of them says the same when it is encoded again, as far as its kind
/// goes.
fn each_record(bytes: &[u8]) {
    for bytes in bytes.chunks_exact(RECORD_BYTES) {
        let bytes = bytes.try_into().expect("chunks have the length of a record");
        let Some(record) = Record::decode(bytes) else { continue };
        assert_eq!(Record::decode(&record.encode()), Some(record));
        if let RecordKind::Tombstone(range) = record.kind {
            assert!(range.count == 0 || range.contains(&range.start));
            assert!(range.end().is_none_or(|end| end >= range.start && !range.contains(&end)));
        }
    }
}

struct Memory(AlignedBuf);

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Shared memory whose header has `data` in it: changes of 8 bytes of the header, then fields of the
/// superblock.
///
/// # Panics
/// If an invariant is broken.
pub fn region(data: &[u8]) -> bool {
    let config = TierConfig::new(4096, 256);
    let geometry = config.geometry().expect("a usual configuration");
    let mut header = [0; 64];
    header[..8].copy_from_slice(b"MEZZREGN");
    header[8..16].copy_from_slice(&REGION_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&(geometry.region_bytes() as u64).to_le_bytes());
    let (&[mapped, changes, ..], data) = data.split_at(data.len().min(2)) else { return false };
    let mut data = data.chunks(8);
    for bytes in data.by_ref().take(usize::from(changes % 4)) {
        let at = usize::from(bytes[0] % 4) * 8;
        header[at..at + bytes.len() - 1].copy_from_slice(&bytes[1..]);
    }
    let superblock = changed_superblock(&data.flatten().copied().collect::<Vec<_>>());
    let mut memory = AlignedBuf::zeroed(match mapped {
        0 => 4096,
        1 => 8192,
        _ => geometry.region_bytes().next_multiple_of(4096),
    });
    let whole: Vec<u8> = header.iter().chain(&superblock).copied().collect();
    let fits = whole.len().min(memory.len());
    memory[..fits].copy_from_slice(&whole[..fits]);
    match Tier::attach(Region::owning(Memory(memory)), 2) {
        Ok(tier) => {
            assert!(!tier.is_poisoned());
            assert_eq!(
                tier.published().map(|superblock| superblock.config),
                Some(tier.geometry().config().clone())
            );
            true
        }
        Err(AttachError::Poisoned) => panic!("nobody has held a lock of this region"),
        Err(_) => false,
    }
}
