//! Changes to bytes that were whole: some random, some where a structure has its fields, with checksums made
//! right again so that nonsense gets past them.

use std::ops::Range;

use arbitrary::{Result, Unstructured};
use mezzanine_engine::format::{
    RECORD_BYTES, SEGMENT_HEADER_BYTES, SUMMARY_HEADER_BYTES, SUMMARY_MAGIC, SUPERBLOCK_BYTES,
};

/// Structures begin at multiples of this.
const STEP: usize = 4096;
const SEGMENT_MAGIC: [u8; 8] = *b"MEZZSEG1";
const SUPERBLOCK_MAGIC: [u8; 8] = *b"MEZZTIER";
const HOST_METADATA_AT: Range<usize> = 80..272;

/// Where structures lie in an image.
pub(crate) fn structures(image: &[u8]) -> Vec<usize> {
    let begins = |bytes: &[u8]| {
        [SUMMARY_MAGIC, SEGMENT_MAGIC, SUPERBLOCK_MAGIC].iter().any(|magic| bytes.starts_with(magic))
    };
    (0..image.len()).step_by(STEP).filter(|&at| begins(&image[at..])).collect()
}

/// Applies the changes that `input` describes, until it ends. `places` are where structures lie.
pub(crate) fn apply(input: &mut Unstructured<'_>, image: &mut [u8], places: &[usize]) -> Result<()> {
    let mut left = 16;
    while !input.is_empty() && left > 0 {
        left -= 1;
        let place = *input.choose(places)?;
        match input.int_in_range(0..=5)? {
            0 => change_bytes(input, image, place)?,
            1..=3 => change_field(input, &mut image[place..])?,
            4 => {
                // A misdirected write.
                let other = *input.choose(places)?;
                let end = (place.max(other) + STEP).min(image.len()) - place.max(other);
                image.copy_within(other..other + end, place);
            }
            _ => image[place..(place + STEP)].fill(0),
        }
        if input.ratio(3, 4)? {
            repair(image, place);
        }
    }
    Ok(())
}

fn change_bytes(input: &mut Unstructured<'_>, image: &mut [u8], place: usize) -> Result<()> {
    let at = (place + input.int_in_range(0..=3 * STEP)?).min(image.len() - 8);
    let count = input.int_in_range(1..=8)?;
    let bytes = input.bytes(count.min(input.len()))?;
    image[at..at + bytes.len()].copy_from_slice(bytes);
    Ok(())
}

/// Changes a number in a header or in a record to one that is often wrong.
fn change_field(input: &mut Unstructured<'_>, structure: &mut [u8]) -> Result<()> {
    let records =
        if structure.starts_with(&SEGMENT_MAGIC) { SEGMENT_HEADER_BYTES } else { SUMMARY_HEADER_BYTES };
    let at = if input.ratio(1, 2)? {
        8 + 4 * input.int_in_range(0..=30)?
    } else {
        records + RECORD_BYTES * input.int_in_range(0..=20)? + 4 * input.int_in_range(0..=11)?
    };
    let wide = input.ratio(1, 2)?;
    let Some(field) = structure.get_mut(at..at + if wide { 8 } else { 4 }) else { return Ok(()) };
    let mut word = [0; 8];
    word[..field.len()].copy_from_slice(field);
    let old = u64::from_le_bytes(word);
    let new = match input.int_in_range(0..=6)? {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> input.int_in_range(0..=63)?,
        3 => old.wrapping_add(input.int_in_range(1..=255)?),
        4 => old.wrapping_sub(input.int_in_range(1..=255)?),
        5 => 1 << input.int_in_range(0..=63)?,
        _ => input.arbitrary()?,
    };
    field.copy_from_slice(&new.to_le_bytes()[..field.len()]);
    Ok(())
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn put(bytes: &mut [u8], at: usize, checksum: u32) {
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Makes the checksums of the structure at `place` right, whatever it is.
pub(crate) fn repair(image: &mut [u8], place: usize) {
    let bytes = &mut image[place..];
    if bytes.len() < STEP {
        return;
    }
    if bytes.starts_with(&SUPERBLOCK_MAGIC) {
        let at = SUPERBLOCK_BYTES - 4;
        put(bytes, at, crc32c::crc32c(&bytes[..at]));
    } else if bytes.starts_with(&SEGMENT_MAGIC) {
        let end = (SEGMENT_HEADER_BYTES + number(bytes, 96).min(1 << 16) * RECORD_BYTES).min(bytes.len());
        put(bytes, 100, crc32c::crc32c(&bytes[SEGMENT_HEADER_BYTES..end]));
        // The reference bits behind the records.
        let bits = end.next_multiple_of(STEP).min(bytes.len());
        let bits_end = (bits + number(bytes, 116).div_ceil(8)).min(bytes.len());
        put(bytes, 120, crc32c::crc32c(&bytes[bits..bits_end]));
        put(bytes, 124, crc32c::crc32c(&bytes[..124]));
    } else if bytes.starts_with(&SUMMARY_MAGIC) {
        // The host metadata has a checksum of its own in its first four bytes, if it is a volume's.
        if bytes[HOST_METADATA_AT].iter().any(|&byte| byte != 0) {
            put(
                bytes,
                HOST_METADATA_AT.start,
                crc32c::crc32c(&bytes[HOST_METADATA_AT.start + 4..HOST_METADATA_AT.end]),
            );
        }
        let end = (SUMMARY_HEADER_BYTES + number(bytes, 40) * RECORD_BYTES).min(bytes.len());
        let at = SUMMARY_HEADER_BYTES - 4;
        let header = crc32c::crc32c(&bytes[..at]);
        put(bytes, at, crc32c::crc32c_append(header, &bytes[SUMMARY_HEADER_BYTES..end]));
    }
}

/// # Panics
/// If [`repair`] does not know the structures as they are now: it leaves whole ones as they are.
pub(crate) fn assert_repair_knows(image: &[u8], places: &[usize]) {
    let mut repaired = image.to_vec();
    for &place in places {
        repair(&mut repaired, place);
    }
    assert!(image == repaired, "the format has moved: repair() and HOST_METADATA_AT must follow");
}
