//! What the simulated database writes: every eight bytes say which version of which file and place they are,
//! so that a stale, misplaced or mixed page is recognised wherever it was mixed.

use std::fmt::Write as _;

/// The unit of the page model in bytes: the largest piece that a power cut leaves whole.
pub const UNIT_BYTES: usize = 512;

/// One unit's contents.
pub type UnitBytes = [u8; UNIT_BYTES];

const MARK: u64 = 0xA5A5_0000_0000_0000;

/// The eight bytes at `word` (counted in eights from the start of the file) of a version: mark, version,
/// file, place. Versions stay below 2^24, files below 2^4, words below 2^20 (8 MiB).
fn word(file: u8, version: u32, word: u64) -> u64 {
    MARK | (u64::from(version) << 24) | (u64::from(file) << 20) | word
}

/// Fills `buf` with `version` as it stands at byte `offset` of `file`.
pub fn fill(buf: &mut [u8], file: u8, version: u32, offset: u64) {
    let misaligned = (offset % 8) as usize;
    let mut number = offset / 8;
    let head = if misaligned == 0 { 0 } else { (8 - misaligned).min(buf.len()) };
    let (first, rest) = buf.split_at_mut(head);
    if head > 0 {
        first.copy_from_slice(&word(file, version, number).to_le_bytes()[misaligned..misaligned + head]);
        number += 1;
    }
    let mut chunks = rest.chunks_exact_mut(8);
    for chunk in &mut chunks {
        // An array of known length: a copy of a slice would be a call for every eight bytes.
        if let Ok(chunk) = <&mut [u8; 8]>::try_from(chunk) {
            *chunk = word(file, version, number).to_le_bytes();
        }
        number += 1;
    }
    let tail = chunks.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word(file, version, number).to_le_bytes()[..len]);
}

/// Whether `bytes` are exactly `version` as it stands at byte `offset` of `file`; both are multiples of
/// eight.
pub fn is(bytes: &[u8], file: u8, version: u32, offset: u64) -> bool {
    let differing = bytes.chunks_exact(8).zip(offset / 8..).fold(0, |differing, (chunk, number)| {
        differing | (chunk.try_into().map_or(0, u64::from_le_bytes) ^ word(file, version, number))
    });
    differing == 0
}

/// The versions that occur in `bytes`, which stand at byte `offset` of `file`: `None` for zeros and for what
/// the simulated database never wrote there.
pub fn versions(bytes: &[u8], file: u8, offset: u64) -> Vec<Option<u32>> {
    let mut found = Vec::new();
    for (chunk, number) in bytes.chunks_exact(8).zip(offset / 8..) {
        let value = chunk.try_into().map_or(0, u64::from_le_bytes);
        let version = (value >> 24) as u32 & 0xFF_FFFF;
        let version = (value == word(file, version, number)).then_some(version);
        if found.last() != Some(&version) {
            found.push(version);
        }
    }
    found
}

/// Whether every byte of `bytes`, read at byte `offset` of `file`, is zero or what some version has there.
pub fn belongs(bytes: &[u8], file: u8, offset: u64) -> bool {
    // The third to fifth byte of each word are the version's.
    bytes.iter().zip(offset..).all(|(&byte, at)| {
        let inside = (at % 8) as usize;
        byte == 0 || (3..6).contains(&inside) || byte == word(file, 0, at / 8).to_le_bytes()[inside]
    })
}

/// Says in words what `bytes`, read at byte `offset` of `file`, are.
pub fn describe(bytes: &[u8], file: u8, offset: u64) -> String {
    if bytes.iter().all(|&byte| byte == 0) {
        return "zeros".to_owned();
    }
    let mut text = String::new();
    for (chunk, number) in bytes.chunks_exact(8).zip(offset / 8..) {
        let value = chunk.try_into().map_or(0, u64::from_le_bytes);
        let (version, owner, place) =
            ((value >> 24) as u32 & 0xFF_FFFF, (value >> 20) as u8 & 15, value & 0xF_FFFF);
        let part = match value {
            0 => "zeros".to_owned(),
            _ if value & 0xFFFF_0000_0000_0000 != MARK => "garbage".to_owned(),
            _ if owner == file && place == number => format!("version {version}"),
            _ => format!("version {version} of file {owner} byte {}", place / 64 * UNIT_BYTES as u64),
        };
        if !text.ends_with(&part) {
            let separator = if text.is_empty() { "" } else { ", then " };
            let _ = write!(text, "{separator}{part}");
        }
        if text.len() > 200 {
            text.push_str(" ...");
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_whether_written_alone_or_with_its_neighbours() {
        let mut whole = [0; 4096];
        fill(&mut whole, 1, 77, 8192);
        for (from, to) in [(0, 4096), (3, 9), (5, 6), (8, 24), (513, 1022), (4095, 4096)] {
            let mut piece = vec![0; to - from];
            fill(&mut piece, 1, 77, 8192 + from as u64);
            assert_eq!(piece, whole[from..to], "{from}..{to}");
        }
    }

    #[test]
    fn pieces_of_versions_belong_where_they_were_written_and_nowhere_else() {
        let mut unit = [0; UNIT_BYTES];
        fill(&mut unit[3..300], 1, 5, 1027);
        fill(&mut unit[77..205], 1, 66_000, 1101);
        assert!(belongs(&unit, 1, 1024) && belongs(&[0; 7], 0, 3));
        assert!(!belongs(&unit, 0, 1024) && !belongs(&unit, 1, 1032) && !belongs(&[7; 8], 0, 0));
    }

    #[test]
    fn mixtures_and_misplaced_pieces_are_told_apart() {
        let mut unit = [0; UNIT_BYTES];
        fill(&mut unit, 1, 5, 1024);
        assert_eq!(versions(&unit, 1, 1024), [Some(5)]);
        assert!(is(&unit, 1, 5, 1024) && !is(&unit, 1, 6, 1024) && !is(&unit, 1, 5, 1536));
        assert_eq!(describe(&unit, 1, 1024), "version 5");
        assert_eq!(versions(&unit, 1, 1536), [None]);
        assert_eq!(describe(&unit, 0, 0), "version 5 of file 1 byte 1024");
        fill(&mut unit[256..], 1, 6, 1280);
        assert_eq!(versions(&unit, 1, 1024), [Some(5), Some(6)]);
        assert!(!is(&unit, 1, 5, 1024) && !is(&unit, 1, 6, 1024));
        assert_eq!(describe(&unit, 1, 1024), "version 5, then version 6");
        assert_eq!(describe(&[0; 512], 1, 0), "zeros");
    }
}
