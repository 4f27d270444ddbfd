//! What a sidecar says: the bond between one file and its tier.
//!
//! A small text, one field per line, so that a person who finds it beside a database can read it. The last
//! line is a CRC-32C of everything before it.
//!
//! ```text
//! mezzanine sidecar 2
//! # This file belongs to a database ... (a fixed comment)
//! state dirty
//! volume 00112233445566778899aabbccddeeff
//! tier ffeeddccbbaa99887766554433221100
//! tier-path /flash/tier.mez
//! epoch 7
//! nonce 0f1e2d3c4b5a69788796a5b4c3d2e1f0
//! mark 12                    how often it was marked in that epoch (see `marks`)
//! groups 512                 groups of the tier before this one were durable then
//! file 3
//! former 1,2                 numbers it had before, if the tier may still know them
//! mode durable
//! page-size 8192
//! length 40960
//! discarding 2 4             pages 2 and 3 are being zeroed on disk
//! distrusted 4711            clean pages in the tier from before this position may differ from the disk
//! written 7:0a1b2c3d,8:...   blocks and checksums of pages that stage-out wrote last (see `batch`)
//! guard 4d455a...            while the first bytes on disk may be replaced
//! head 53514c69...           what belongs there, to the end of the sector
//! fingerprint 00a0...        of a file that was closed in order
//! reason the flash device failed: ...
//! crc32c 1a2b3c4d
//! ```
//!
//! Version 1 had no nonce, mark and groups; it is read to drain a tier in version 2 of the flash format.
//!
//! # States
//! * `current`: the disk holds every synced page. If `guard` is set and the file begins with it, `head`
//!   belongs there instead; if the file begins with anything else, the file is right as it is. So the state
//!   holds before the guard is written, while it is there, and after it was taken away, whichever of these a
//!   crash leaves behind.
//! * `dirty`: the tier may hold the only copy of pages. If `guard` is set, the file begins with it.
//! * `detached`: as `current`; the tier was given up after a failure and must not be believed any more.

use std::fmt::Write;

use mezzanine_engine::SyncMode;
use mezzanine_engine::format::Nonce;

use crate::config::GUARD_BYTES_MAX;

const FIRST_LINE: &str = "mezzanine sidecar ";
/// The version of the sidecar's format that this build writes; it reads older ones as well.
pub(crate) const SIDECAR_VERSION: u32 = 2;
const COMMENT: &str = "# The file beside this one has a flash tier. While the state is dirty its newest pages are\n\
                       # there: do not open, copy or restore the file without the tier, and keep this sidecar.\n";

/// Where the newest synced pages of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidecarState {
    /// On disk.
    Current,
    /// On disk or in the tier.
    Dirty,
    /// On disk; the tier was given up.
    Detached,
}

impl SidecarState {
    const ALL: [Self; 3] = [Self::Current, Self::Dirty, Self::Detached];

    /// The word in the sidecar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Dirty => "dirty",
            Self::Detached => "detached",
        }
    }
}

/// The decoded sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Where the newest synced pages are.
    pub state: SidecarState,
    /// Identity of the volume: the tier's database.
    pub volume_uuid: [u8; 16],
    /// Identity of the tier.
    pub tier_uuid: [u8; 16],
    /// Where the tier was, for messages.
    pub tier_path: String,
    /// The tier's epoch when the file was last attached to it.
    pub epoch: u32,
    /// The nonce of that epoch; zeros in a sidecar of version 1.
    pub nonce: Nonce,
    /// How often the file was marked in that epoch.
    pub mark: u64,
    /// Groups of the tier below this sequence number were durable when the sidecar was written.
    pub groups: u64,
    /// Number of the file within the volume.
    pub file: u32,
    /// Numbers that it had before and that the tier may still know.
    pub former: Vec<u32>,
    /// Sync mode of the volume.
    pub sync_mode: SyncMode,
    /// Page size in bytes.
    pub page_size: u32,
    /// Length of the file in bytes when the sidecar was written; while dirty the tier knows better.
    pub length: u64,
    /// First and end of the pages that are being discarded: to be zeroed on disk again after a crash, for a
    /// disk may tear a page that is overwritten.
    pub discarding: Option<(u64, u64)>,
    /// The tier began to be given up when its queue had come to this position: clean pages that it took
    /// before may differ from the disk, and count for nothing. 0 if that never happened.
    pub distrusted: u64,
    /// Blocks that stage-out wrote to disk last, and the checksums of their pages there.
    pub written: Vec<(u64, u32)>,
    /// What stands at the start of the file on disk while it is not current there; may be empty.
    pub guard: Vec<u8>,
    /// What belongs there, to the end of the sector.
    pub head: Vec<u8>,
    /// Of the backing file when it was closed in order; empty otherwise.
    pub fingerprint: Vec<u8>,
    /// Why the tier was given up.
    pub reason: String,
}

/// Why bytes are no sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SidecarError {
    NewerFormat(u32),
    Damaged(String),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() % 2 != 0 {
        return None;
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().ok()).collect()
}

fn written(text: &str) -> Option<Vec<(u64, u32)>> {
    let one = |page: &str| {
        let (block, checksum) = page.split_once(':')?;
        Some((block.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
    };
    text.split(',').filter(|page| !page.is_empty()).map(one).collect()
}

fn pair(text: &str) -> Option<Option<(u64, u64)>> {
    if text.is_empty() {
        return Some(None);
    }
    let (first, end) = text.split_once(' ')?;
    Some(Some((first.parse().ok()?, end.parse().ok()?)))
}

/// Line breaks would end the field.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Sidecar {
    /// The bytes of the sidecar.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FIRST_LINE}{SIDECAR_VERSION}\n{COMMENT}");
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(text, "{name} {value}");
            }
        };
        field("state", self.state.name());
        field("volume", &hex(&self.volume_uuid));
        field("tier", &hex(&self.tier_uuid));
        field("tier-path", &one_line(&self.tier_path));
        field("epoch", &self.epoch.to_string());
        field("nonce", &hex(&self.nonce));
        field("mark", &self.mark.to_string());
        field("groups", &self.groups.to_string());
        field("file", &self.file.to_string());
        let former: Vec<String> = self.former.iter().map(u32::to_string).collect();
        field("former", &former.join(","));
        field("mode", self.sync_mode.name());
        field("page-size", &self.page_size.to_string());
        field("length", &self.length.to_string());
        if let Some((first, end)) = self.discarding {
            field("discarding", &format!("{first} {end}"));
        }
        if self.distrusted > 0 {
            field("distrusted", &self.distrusted.to_string());
        }
        let written: Vec<String> =
            self.written.iter().map(|(block, checksum)| format!("{block}:{checksum:08x}")).collect();
        field("written", &written.join(","));
        field("guard", &hex(&self.guard));
        field("head", &hex(&self.head));
        field("fingerprint", &hex(&self.fingerprint));
        field("reason", &one_line(&self.reason));
        let _ = writeln!(text, "crc32c {:08x}", crc32c::crc32c(text.as_bytes()));
        text.into_bytes()
    }

    /// Reads a sidecar.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SidecarError> {
        let damaged = |what: &str| SidecarError::Damaged(what.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let rest =
            text.strip_prefix(FIRST_LINE).ok_or_else(|| damaged("it does not begin as a sidecar does"))?;
        let (version, _) = rest.split_once('\n').ok_or_else(|| damaged("it ends in its first line"))?;
        let version: u32 = version.parse().map_err(|_| damaged("its version is no number"))?;
        if version > SIDECAR_VERSION {
            return Err(SidecarError::NewerFormat(version));
        }
        let at = text.rfind("crc32c ").ok_or_else(|| damaged("its checksum is missing"))?;
        let expected = format!("crc32c {:08x}\n", crc32c::crc32c(&bytes[..at]));
        if text[at..] != expected {
            return Err(damaged("its checksum does not match"));
        }
        let find = |name: &str| {
            text[..at]
                .lines()
                .find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')))
                .unwrap_or("")
        };
        let uuid = |name: &str| {
            let bytes = unhex(find(name)).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            bytes.ok_or_else(|| damaged(&format!("its field '{name}' is no identity")))
        };
        let number = |name: &str| {
            find(name).parse::<u64>().map_err(|_| damaged(&format!("its field '{name}' is no number")))
        };
        let small = |name: &str| {
            u32::try_from(number(name)?).map_err(|_| damaged(&format!("its field '{name}' is too large")))
        };
        let blob =
            |name: &str| unhex(find(name)).ok_or_else(|| damaged(&format!("its field '{name}' is no hex")));
        let short = |name: &str| {
            let bytes = blob(name)?;
            let what = || damaged(&format!("its field '{name}' is longer than {GUARD_BYTES_MAX} bytes"));
            if bytes.len() > GUARD_BYTES_MAX { Err(what()) } else { Ok(bytes) }
        };
        let state = SidecarState::ALL.into_iter().find(|state| state.name() == find("state"));
        Ok(Self {
            state: state.ok_or_else(|| damaged("its state is unknown"))?,
            volume_uuid: uuid("volume")?,
            tier_uuid: uuid("tier")?,
            tier_path: find("tier-path").to_owned(),
            epoch: small("epoch")?,
            nonce: if version == 1 { Nonce::default() } else { uuid("nonce")? },
            mark: if version == 1 { 0 } else { number("mark")? },
            groups: if version == 1 { 0 } else { number("groups")? },
            file: small("file")?,
            former: numbers(find("former"))
                .ok_or_else(|| damaged("its field 'former' is no list of numbers"))?,
            sync_mode: find("mode").parse().map_err(|_| damaged("its sync mode is unknown"))?,
            page_size: small("page-size")?,
            length: number("length")?,
            discarding: pair(find("discarding"))
                .ok_or_else(|| damaged("its field 'discarding' is no range"))?,
            distrusted: if find("distrusted").is_empty() { 0 } else { number("distrusted")? },
            written: written(find("written"))
                .ok_or_else(|| damaged("its field 'written' is no list of blocks and checksums"))?,
            guard: short("guard")?,
            head: short("head")?,
            fingerprint: blob("fingerprint")?,
            reason: find("reason").to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn example() -> Sidecar {
        Sidecar {
            state: SidecarState::Dirty,
            volume_uuid: [7; 16],
            tier_uuid: [0xAB; 16],
            tier_path: "/flash/a tier\nwith a break".to_owned(),
            epoch: 9,
            nonce: [0xC5; 16],
            mark: 12,
            groups: 512,
            file: 3,
            former: vec![1, 2],
            sync_mode: SyncMode::Durable,
            page_size: 8192,
            length: 1 << 40,
            discarding: Some((5, 9)),
            distrusted: 4711,
            written: vec![(7, 0x0A1B_2C3D), (1 << 40, 9)],
            guard: b"guard".to_vec(),
            head: b"head!".to_vec(),
            fingerprint: Vec::new(),
            reason: String::new(),
        }
    }

    #[test]
    fn a_sidecar_survives_its_encoding() {
        let mut sidecar = example();
        let decoded = Sidecar::decode(&sidecar.encode()).unwrap();
        sidecar.tier_path = "/flash/a tier with a break".to_owned();
        assert_eq!(decoded, sidecar);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = example().encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Sidecar::decode(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
        for len in 0..bytes.len() {
            assert!(Sidecar::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
    }

    /// The checksum is right, but nobody writes such a guard: it would stand for more than the first sector,
    /// and was copied beyond a page.
    #[test]
    fn a_guard_or_head_longer_than_a_sector_is_damage() {
        let long = vec![7; GUARD_BYTES_MAX + 1];
        let sector = vec![7; GUARD_BYTES_MAX];
        let whole =
            Sidecar { guard: sector.clone(), head: sector, tier_path: "/flash".to_owned(), ..example() };
        assert_eq!(Sidecar::decode(&whole.encode()).as_ref(), Ok(&whole));
        for odd in [
            Sidecar { guard: long.clone(), ..whole.clone() },
            Sidecar { head: long.clone(), ..whole.clone() },
        ] {
            assert!(matches!(Sidecar::decode(&odd.encode()), Err(SidecarError::Damaged(_))));
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number() {
        let newer = b"mezzanine sidecar 12\nwhatever\n";
        assert_eq!(Sidecar::decode(newer), Err(SidecarError::NewerFormat(12)));
    }
}
