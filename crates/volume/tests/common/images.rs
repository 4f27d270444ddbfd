//! Tiers that older builds have left, kept in `tests/images`.
//!
//! A device's image begins with its length (u64), and goes on with pieces: 0, a length (u32) and as many
//! bytes; or 1, a length (u32) and one byte that stands so often.

#![allow(unreachable_pub)]

use super::{PAGE, page};

/// What stands in `tests/images` under this name: flash device, file and sidecar.
pub struct Image {
    pub flash: Vec<u8>,
    pub file: Vec<u8>,
    pub sidecar: Vec<u8>,
}

/// The older versions of the format, and the kinds of tiers that each has.
pub const OLDER: [(u32, [&str; 3]); 2] = [
    (2, ["version-2-queue", "version-2-in-place", "version-2-slots"]),
    (3, ["version-3-queue", "version-3-in-place", "version-3-slots"]),
];

/// Every image, with its version.
pub fn older() -> impl Iterator<Item = (u32, &'static str)> {
    OLDER.into_iter().flat_map(|(version, names)| names.map(|name| (version, name)))
}

impl Image {
    pub fn of(name: &str) -> Self {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../volume/tests/images");
        let read = |kind| std::fs::read(format!("{directory}/{name}.{kind}")).unwrap();
        Self { flash: unpack(&read("flash")), file: unpack(&read("file")), sidecar: read("sidecar") }
    }

    /// What the file holds through its tier.
    pub fn contents() -> Vec<u8> {
        let version = |block: u64| if block % 3 == 0 { 13 } else { 3 };
        let pages: Vec<u8> = (0..58).flat_map(|block| page(block, version(block))).collect();
        assert_eq!(pages.len(), 58 * PAGE);
        pages
    }
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let (len, mut rest) = packed.split_at(8);
    let len = u64::from_le_bytes(len.try_into().unwrap()) as usize;
    let mut bytes = Vec::with_capacity(len);
    while let [kind, a, b, c, d, more @ ..] = rest {
        let count = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if *kind == 1 {
            bytes.resize(bytes.len() + count, more[0]);
            rest = &more[1..];
        } else {
            bytes.extend_from_slice(&more[..count]);
            rest = &more[count..];
        }
    }
    assert_eq!(bytes.len(), len);
    bytes
}
