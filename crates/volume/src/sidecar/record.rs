//! What a sidecar says: the bond between one file and its tier.
//!
//! A small text, one field to a line, so that a person who finds it beside a database can read it. The last
//! line is a CRC-32C of everything before it. docs/format.md lists the lines, and a test has a whole one.
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

use super::lines::{Reader, Value, Visitor, Writer, Wrong};
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

impl Value for SidecarState {
    fn write(&self) -> String {
        self.name().to_owned()
    }

    fn read(_: &str, text: &str) -> Result<Self, Wrong> {
        let state = Self::ALL.into_iter().find(|state| state.name() == text);
        state.ok_or_else(|| "its state is unknown".to_owned())
    }
}

impl Value for SyncMode {
    fn write(&self) -> String {
        self.name().to_owned()
    }

    fn read(_: &str, text: &str) -> Result<Self, Wrong> {
        text.parse().map_err(|_| "its sync mode is unknown".to_owned())
    }
}

/// Bytes of a first sector.
struct Sector(Vec<u8>);

impl Value for Sector {
    fn write(&self) -> String {
        self.0.write()
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        let bytes = Vec::read(name, text)?;
        let what = || format!("its field '{name}' is longer than {GUARD_BYTES_MAX} bytes");
        if bytes.len() > GUARD_BYTES_MAX { Err(what()) } else { Ok(Self(bytes)) }
    }
}

impl Sidecar {
    /// One that says nothing, for reading.
    fn blank() -> Self {
        Self {
            state: SidecarState::Current,
            volume_uuid: [0; 16],
            tier_uuid: [0; 16],
            tier_path: String::new(),
            epoch: 0,
            nonce: Nonce::default(),
            mark: 0,
            groups: 0,
            file: 0,
            former: Vec::new(),
            sync_mode: SyncMode::Durable,
            page_size: 0,
            length: 0,
            discarding: None,
            distrusted: 0,
            written: Vec::new(),
            guard: Vec::new(),
            head: Vec::new(),
            fingerprint: Vec::new(),
            reason: String::new(),
        }
    }

    /// The list of lines in a sidecar of this version.
    fn show(&mut self, version: u32, visitor: &mut impl Visitor) -> Result<(), Wrong> {
        let mut distrusted = Some(self.distrusted).filter(|&position| position > 0);
        let mut guard = Sector(std::mem::take(&mut self.guard));
        let mut head = Sector(std::mem::take(&mut self.head));
        visitor.line("state", &mut self.state)?;
        visitor.line("volume", &mut self.volume_uuid)?;
        visitor.line("tier", &mut self.tier_uuid)?;
        visitor.line("tier-path", &mut self.tier_path)?;
        visitor.line("epoch", &mut self.epoch)?;
        if version != 1 {
            visitor.line("nonce", &mut self.nonce)?;
            visitor.line("mark", &mut self.mark)?;
            visitor.line("groups", &mut self.groups)?;
        }
        visitor.line("file", &mut self.file)?;
        visitor.line("former", &mut self.former)?;
        visitor.line("mode", &mut self.sync_mode)?;
        visitor.line("page-size", &mut self.page_size)?;
        visitor.line("length", &mut self.length)?;
        visitor.line("discarding", &mut self.discarding)?;
        visitor.line("distrusted", &mut distrusted)?;
        visitor.line("written", &mut self.written)?;
        visitor.line("guard", &mut guard)?;
        visitor.line("head", &mut head)?;
        visitor.line("fingerprint", &mut self.fingerprint)?;
        visitor.line("reason", &mut self.reason)?;
        self.distrusted = distrusted.unwrap_or(0);
        (self.guard, self.head) = (guard.0, head.0);
        Ok(())
    }

    /// The bytes of the sidecar.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(format!("{FIRST_LINE}{SIDECAR_VERSION}\n{COMMENT}"));
        let shown = self.clone().show(SIDECAR_VERSION, &mut writer);
        assert!(shown.is_ok(), "only who reads finds something wrong");
        let Writer(mut text) = writer;
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
        let mut sidecar = Self::blank();
        sidecar.show(version, &mut Reader(&text[..at])).map_err(SidecarError::Damaged)?;
        Ok(sidecar)
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
    fn every_line_reads_as_the_format_says() {
        let whole = Sidecar {
            tier_path: "/flash/tier".to_owned(),
            fingerprint: vec![0x0F, 0xA0],
            reason: "the flash device\nfailed".to_owned(),
            ..example()
        };
        let lines = "mezzanine sidecar 2\n\
            # The file beside this one has a flash tier. While the state is dirty its newest pages are\n\
            # there: do not open, copy or restore the file without the tier, and keep this sidecar.\n\
            state dirty\n\
            volume 07070707070707070707070707070707\n\
            tier abababababababababababababababab\n\
            tier-path /flash/tier\n\
            epoch 9\n\
            nonce c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5\n\
            mark 12\n\
            groups 512\n\
            file 3\n\
            former 1,2\n\
            mode durable\n\
            page-size 8192\n\
            length 1099511627776\n\
            discarding 5 9\n\
            distrusted 4711\n\
            written 7:0a1b2c3d,1099511627776:00000009\n\
            guard 6775617264\n\
            head 6865616421\n\
            fingerprint 0fa0\n\
            reason the flash device failed\n";
        let expected = format!("{lines}crc32c {:08x}\n", crc32c::crc32c(lines.as_bytes()));
        assert_eq!(String::from_utf8(whole.encode()).unwrap(), expected);
        let reason = "the flash device failed".to_owned();
        assert_eq!(Sidecar::decode(expected.as_bytes()), Ok(Sidecar { reason, ..whole }));
    }

    /// Where there is nothing to say there is no line.
    #[test]
    fn what_says_nothing_has_no_line() {
        let plain = Sidecar {
            tier_path: "/flash/tier".to_owned(),
            former: Vec::new(),
            discarding: None,
            distrusted: 0,
            written: Vec::new(),
            guard: Vec::new(),
            head: Vec::new(),
            ..example()
        };
        let text = String::from_utf8(plain.encode()).unwrap();
        let names = text.lines().skip(3).map(|line| line.split(' ').next().unwrap());
        let expected =
            "state volume tier tier-path epoch nonce mark groups file mode page-size length crc32c";
        assert_eq!(names.collect::<Vec<_>>().join(" "), expected);
        assert_eq!(Sidecar::decode(text.as_bytes()), Ok(plain));
    }

    /// The names of the lines that it is shown.
    struct Names(Vec<&'static str>);

    impl Visitor for Names {
        fn line<T: Value>(&mut self, name: &'static str, _: &mut T) -> Result<(), Wrong> {
            self.0.push(name);
            Ok(())
        }
    }

    #[test]
    fn the_document_lists_the_lines() {
        let document = include_str!("../../../../docs/format.md");
        let table = document.split("\n\n").find(|section| section.starts_with("| line of a sidecar |"));
        let listed: Vec<_> =
            table.unwrap().lines().skip(2).map(|row| row.split('`').nth(1).unwrap()).collect();
        let mut names = Names(Vec::new());
        example().show(SIDECAR_VERSION, &mut names).unwrap();
        names.0.push("crc32c");
        assert_eq!(listed, names.0);
    }

    /// The text with other lines, its checksum right.
    fn with(before: &str, after: &str) -> Vec<u8> {
        let text = String::from_utf8(example().encode()).unwrap();
        assert!(text.contains(before), "{before}");
        let text = text.replace(before, after);
        let lines = &text[..text.rfind("crc32c ").unwrap()];
        format!("{lines}crc32c {:08x}\n", crc32c::crc32c(lines.as_bytes())).into_bytes()
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (before, after, wrong) in [
            ("state dirty", "state odd", "its state is unknown"),
            ("volume 07", "volume ", "its field 'volume' is no identity"),
            ("tier ab", "tier xy", "its field 'tier' is no identity"),
            ("epoch 9", "epoch -9", "its field 'epoch' is no number"),
            ("epoch 9", "epoch 4294967296", "its field 'epoch' is too large"),
            ("nonce c5", "nonc c5", "its field 'nonce' is no identity"),
            ("mark 12\n", "", "its field 'mark' is no number"),
            ("groups 512", "groups 5 12", "its field 'groups' is no number"),
            ("file 3", "file 18446744073709551616", "its field 'file' is no number"),
            ("former 1,2", "former 1;2", "its field 'former' is no list of numbers"),
            ("mode durable", "mode often", "its sync mode is unknown"),
            ("page-size 8192", "page-size 8K", "its field 'page-size' is no number"),
            ("length 1099511627776", "length long", "its field 'length' is no number"),
            ("discarding 5 9", "discarding 5", "its field 'discarding' is no range"),
            ("distrusted 4711", "distrusted x", "its field 'distrusted' is no number"),
            ("written 7:", "written 7;", "its field 'written' is no list of blocks and checksums"),
            ("guard 67", "guard 6", "its field 'guard' is no hex"),
            ("head 68", "head é", "its field 'head' is no hex"),
        ] {
            let found = Sidecar::decode(&with(before, after));
            assert_eq!(found, Err(SidecarError::Damaged(wrong.to_owned())), "{after}");
        }
    }

    /// As a build before marks wrote it, for a tier in version 2 of the flash format.
    #[test]
    fn a_sidecar_of_version_1_needs_no_nonce_and_no_marks() {
        let text = String::from_utf8(with("sidecar 2", "sidecar 1")).unwrap();
        let marked = |line: &&str| ["nonce ", "mark ", "groups "].iter().any(|name| line.starts_with(name));
        let lines: String =
            text.lines().filter(|line| !marked(line)).map(|line| format!("{line}\n")).collect();
        let lines = &lines[..lines.rfind("crc32c ").unwrap()];
        let text = format!("{lines}crc32c {:08x}\n", crc32c::crc32c(lines.as_bytes()));
        let tier_path = "/flash/a tier with a break".to_owned();
        let expected = Sidecar { tier_path, nonce: [0; 16], mark: 0, groups: 0, ..example() };
        assert_eq!(Sidecar::decode(text.as_bytes()), Ok(expected));
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
