//! What a device holds already: looked at before it is written over.

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_ground::random::Random;

/// Read of both ends of a block device: partition tables, file systems, and the labels of volumes and arrays
/// lie there.
const END_BYTES: u64 = 16 << 20;
/// Size of a read.
const CHUNK_BYTES: usize = 1 << 20;
/// Places that are looked at in between.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 4096;

/// The first thing that is found on a device: where, and what it looks like. None if there are zeros alone in
/// the first `span_bytes`, at both ends, and at places drawn evenly in between.
pub(crate) fn contents(device: &dyn Device, span_bytes: u64) -> Result<Option<String>, DeviceError> {
    let len = device.len();
    let head = span_bytes.max(END_BYTES).min(len);
    let tail = len.saturating_sub(END_BYTES).max(head);
    let mut buffer = AlignedBuf::zeroed(CHUNK_BYTES);
    if let Some(at) = first_byte(device, &mut buffer, 0, head)? {
        return Ok(Some(name(device, at)?));
    }
    if let Some(at) = first_byte(device, &mut buffer, tail, len)? {
        return Ok(Some(format!("bytes other than zero at offset {at}, near its end")));
    }
    let places = (tail - head) / SAMPLE_BYTES;
    let mut random = Random::new(len);
    for _ in 0..SAMPLES.min(places) {
        let place = head + random.below(places) * SAMPLE_BYTES;
        if let Some(at) = first_byte(device, &mut buffer, place, place + SAMPLE_BYTES)? {
            return Ok(Some(format!("bytes other than zero at offset {at}")));
        }
    }
    Ok(None)
}

/// Where the first byte lies that is not zero.
fn first_byte(
    device: &dyn Device,
    buffer: &mut AlignedBuf,
    from: u64,
    to: u64,
) -> Result<Option<u64>, DeviceError> {
    let mut offset = from;
    while offset < to {
        let part = (to - offset).min(buffer.len() as u64) as usize;
        let chunk = &mut buffer[..part];
        device.read_at(chunk, offset)?;
        if let Some(at) = chunk.iter().position(|byte| *byte != 0) {
            return Ok(Some(offset + at as u64));
        }
        offset += part as u64;
    }
    Ok(None)
}

/// What begins on the device, by the marks of those that are met most.
fn name(device: &dyn Device, at: u64) -> Result<String, DeviceError> {
    const MARKS: [(usize, &[u8], &str); 12] = [
        (0, b"MEZZTIER", "a tier of Mezzanine (`mezz tier inspect` shows it)"),
        (0, b"MEZZFRAG", "a cache of Mezzanine (`mezz block check` looks at it)"),
        (0, b"SQLite format 3\0", "a database of SQLite"),
        (512, b"EFI PART", "a partition table (GPT)"),
        (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (65_600, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS", "an encrypted volume (LUKS)"),
        (536, b"LVM2", "a physical volume of LVM"),
        (4086, b"SWAPSPACE2", "swap space"),
        (4096, b"\xfc\x4e\x2b\xa9", "a part of an array (md)"),
        (510, b"\x55\xaa", "a partition table or a boot sector"),
    ];
    let mut head = AlignedBuf::zeroed(128 << 10);
    device.read_at_or_zero(&mut head, 0)?;
    let mark = MARKS.iter().find(|(offset, mark, _)| head[*offset..].starts_with(mark));
    Ok(match mark {
        Some((.., what)) => (*what).to_owned(),
        None => format!("bytes other than zero at offset {at}"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::MemoryDevice;

    use super::*;

    const LEN: u64 = 96 << 20;
    const SPAN: u64 = 8 << 20;

    fn found(at: u64, bytes: &[u8]) -> Option<String> {
        let device = MemoryDevice::new(LEN);
        device.write_at(bytes, at).unwrap();
        contents(&device, SPAN).unwrap()
    }

    #[test]
    fn zeros_are_no_data() {
        assert_eq!(contents(&MemoryDevice::new(LEN), SPAN).unwrap(), None);
        assert_eq!(contents(&MemoryDevice::new(4096), 4096).unwrap(), None);
    }

    #[test]
    fn what_a_device_holds_is_found_and_named() {
        let cases: [(u64, &[u8], &str); 11] = [
            (0, b"MEZZTIER", "a tier of Mezzanine"),
            (0, b"MEZZFRAG", "a cache of Mezzanine"),
            (0, b"SQLite format 3\0", "SQLite"),
            (510, b"\x55\xaa", "boot sector"),
            (512, b"EFI PART", "GPT"),
            (1080, b"\x53\xef", "ext4"),
            (4086, b"SWAPSPACE2", "swap"),
            (536, b"LVM2", "LVM"),
            (SPAN - 1, b"x", "offset 8388607"),
            (LEN - 1, b"x", "near its end"),
            (LEN - (1 << 20), b"EFI PART", "near its end"),
        ];
        for (at, bytes, wanted) in cases {
            let found = found(at, bytes).unwrap();
            assert!(found.contains(wanted), "{wanted}: {found}");
        }
        // Where only samples are read, data of any size to speak of is met.
        assert!(found(40 << 20, &[7; 1 << 20]).is_some());
    }
}
