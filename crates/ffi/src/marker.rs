//! The marker: what a data directory knows of its tier.
//!
//! A file in the data directory names the tier and says whether it may hold the only copy of pages. It is
//! durable before the first page may be dirty in a tier of sync mode `durable`, so a flash device that is
//! missing or swapped is noticed (invariant 10). Where the disk suffices, after a drain or with the other
//! sync modes, it says so. A tier whose device failed and that was given up is not to be used again: the
//! server has run on without it. The session that it names tells directories apart: see `session.rs`.
//!
//! So one bit of it may decide whether flash counts. Its last line is a checksum of everything before, and
//! what does not match is read once more before it is refused. Markers of format 1 have none: of these two
//! reads must say the same.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hex::FromHex as _;
use mezzanine_engine::RedoPoint;
use mezzanine_engine::format::Nonce;
use mezzanine_engine::planted::{self, Bug};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use crate::message::Refusal;
use crate::noted::Noted;

/// The file's name in the data directory.
pub const MARKER_FILE: &str = "mezzanine.tier";
/// What keeps the space of one more marker, beside it: a server whose file system is full goes on, and can be
/// stopped and started. Nobody reads it.
const ROOM_FILE: &str = "mezzanine.tier.room";
/// Most markers are shorter. A longer one, of a server left in order that has many databases, can be done
/// without.
const ROOM_BYTES: usize = 4096;
const FORMAT: u32 = 2;
/// The last without a checksum.
const FORMAT_UNCHECKED: u32 = 1;
/// The first line.
const HEADING: &str = "# Says which flash tier holds pages of this cluster. \
                       Do not remove: without it a missing tier is not noticed.\n";
/// What the last line begins and ends with; between them eight hexadecimal digits: the CRC-32C of all bytes
/// before the line.
const CHECKSUM: [&str; 2] = ["checksum = \"", "\"\n"];
/// How often it is read before it counts as damaged.
const READS: usize = 2;

/// Where the marker is kept.
pub trait MarkerStore: Send + Sync {
    /// What it is called in messages.
    fn describe(&self) -> String;

    /// The marker's text; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self) -> io::Result<Option<String>>;

    /// Replaces the text, durably: whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    fn replace(&self, text: &str) -> io::Result<()>;
}

/// A data directory, in which the marker is a file.
#[derive(Debug, Clone)]
pub struct DataDirectory(pub PathBuf);

impl DataDirectory {
    /// As PostgreSQL sets it for its own files (`SetDataDirectoryCreatePerm`): the group reads them if it may
    /// read the directory, as with `initdb --allow-group-access`, so that its members can back them up.
    fn file_mode(&self) -> io::Result<u32> {
        let for_group = fs::metadata(&self.0)?.permissions().mode() & 0o750 == 0o750;
        Ok(if for_group { 0o640 } else { 0o600 })
    }

    fn room(&self) -> PathBuf {
        self.0.join(ROOM_FILE)
    }

    /// Writes a file that nobody reads yet, durably.
    fn put(&self, path: &Path, anew: bool, bytes: &[u8]) -> io::Result<()> {
        let mode = self.file_mode()?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(anew).truncate(anew).mode(mode).open(path)?;
        // Apart from opening it: then neither the process's mask counts, nor what a crash has left here.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    /// Takes the space of one more marker, unless it has it: whoever is to need it sees that it is not there.
    fn keep_room(&self) {
        let room = self.room();
        if room.exists() {
            return;
        }
        if self.put(&room, true, &[0; ROOM_BYTES]).is_err() {
            let _ = fs::remove_file(&room);
        }
    }

    /// Replaces the marker where the file system is full, by the file that was kept for that: it is written
    /// in place, which takes no space, and exchanged with the marker, which is what is kept from then on.
    /// Neither is ever missing, so a power cut leaves the old text or the new one.
    ///
    /// It may have been the marker until an exchange that is not durable yet, because a process died before
    /// it had synced the directory: then it would be again after a power cut. So that comes first.
    ///
    /// A file system that knows no exchange takes it in place of the marker, and what that had is free for
    /// the next one. Not the ordinary way, because a backup that has opened the marker could see it change.
    fn replace_from_room(&self, text: &str) -> io::Result<()> {
        let (room, marker) = (self.room(), self.0.join(MARKER_FILE));
        self.sync()?;
        self.put(&room, false, text.as_bytes())?;
        if renameat_with(CWD, &room, CWD, &marker, RenameFlags::EXCHANGE).is_err() {
            fs::rename(&room, &marker)?;
        }
        self.sync()?;
        self.keep_room();
        Ok(())
    }
}

/// Whether there was no space for what was to be written.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

impl MarkerStore for DataDirectory {
    fn describe(&self) -> String {
        self.0.join(MARKER_FILE).display().to_string()
    }

    fn read(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.0.join(MARKER_FILE)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let temporary = self.0.join(format!("{MARKER_FILE}.tmp"));
        match self.put(&temporary, true, text.as_bytes()) {
            Err(error) if is_full(&error) => {
                // Nobody reads it; what it has taken is free again.
                let _ = fs::remove_file(&temporary);
                return self.replace_from_room(text).map_err(|_| error);
            }
            put => put?,
        }
        fs::rename(&temporary, self.0.join(MARKER_FILE))?;
        self.sync()?;
        self.keep_room();
        Ok(())
    }
}

/// What a data directory knows of its tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    format: u32,
    /// Names the tier, in hexadecimal.
    pub tier: String,
    /// Where it was when the marker was written: for people, not believed.
    pub flash_path: PathBuf,
    /// Whether the tier may hold the only copy of pages.
    pub only_copies: bool,
    /// Whether its device has failed and the server has gone on without it.
    #[serde(default)]
    pub given_up: bool,
    /// The session of the server that began last, in hexadecimal: see [`crate::session`]. Empty if it was one
    /// that drew no nonce.
    #[serde(default)]
    session: String,
    /// The tier's epoch that began with it.
    #[serde(default)]
    pub(crate) epoch: u32,
    /// The sync mark, in 16 hexadecimal digits: see [`crate::sync_mark`]. A backup of a server that is
    /// running reads the file by the length that it had a moment before.
    #[serde(default)]
    mark: String,
    /// Redo point and timeline at which a start began that had a base backup to restore, in 24 hexadecimal
    /// digits; zeros if the last one had none. Of a start that was cut off before the server put its label
    /// aside the next one knows its own tier by that, and not by what was copied with the backup.
    #[serde(default)]
    restored: String,
    /// Names the tiers that were to be made since, in hexadecimal: a crash, or a device that failed, may have
    /// left one of them, whole or in part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forming: Vec<String>,
    /// The directories of relations as the server left them in order: see [`crate::at_rest`]. `None` while it
    /// runs and after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_rest: Option<Vec<String>>,
    /// Whether no page was newer in the tier than on disk then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_rest_current: Option<bool>,
}

impl Marker {
    /// A marker for the tier of this name.
    pub fn new(tier_uuid: &[u8; 16], flash_path: &Path, only_copies: bool) -> Self {
        Self {
            format: FORMAT,
            tier: hex::encode(tier_uuid),
            flash_path: flash_path.to_path_buf(),
            only_copies,
            given_up: false,
            session: String::new(),
            epoch: 0,
            mark: format!("{:016x}", 0),
            restored: restored_at(RedoPoint::default()),
            forming: Vec::new(),
            at_rest: None,
            at_rest_current: None,
        }
    }

    /// The same, of a server that was left in order with these directories.
    #[must_use]
    pub(crate) fn resting(self, noted: &[Noted], current: bool) -> Self {
        let at_rest = Some(noted.iter().map(Noted::shown).collect());
        Self { at_rest, at_rest_current: Some(current), ..self }
    }

    /// Whether the server was left in order, and has not been started since.
    pub(crate) fn rests(&self) -> bool {
        self.at_rest.is_some()
    }

    /// The directories that were noted, and whether no page was newer in the tier; `None` if nothing was
    /// noted.
    pub(crate) fn at_rest(&self) -> Option<(Vec<Noted>, bool)> {
        let noted = self.at_rest.as_ref()?.iter().filter_map(|text| Noted::parse(text)).collect();
        Some((noted, self.at_rest_current.unwrap_or_default()))
    }

    /// The same, with what another one has noted.
    #[must_use]
    pub(crate) fn rested_as(self, other: Option<&Self>) -> Self {
        Self {
            at_rest: other.and_then(|other| other.at_rest.clone()),
            at_rest_current: other.and_then(|other| other.at_rest_current),
            ..self
        }
    }

    /// The same, of a session of the server.
    #[must_use]
    pub(crate) fn of_session(self, session: &Nonce, epoch: u32) -> Self {
        Self { session: hex::encode(session), epoch, ..self }
    }

    /// The same, with a sync mark.
    #[must_use]
    pub(crate) fn marked(self, mark: u64) -> Self {
        Self { mark: format!("{mark:016x}"), ..self }
    }

    /// The sync mark; 0 if it has none.
    pub(crate) fn mark(&self) -> u64 {
        u64::from_str_radix(&self.mark, 16).unwrap_or_default()
    }

    /// The same, of a start that restores a base backup from this redo point.
    #[must_use]
    pub(crate) fn of_restore(self, redo: RedoPoint) -> Self {
        Self { restored: restored_at(redo), ..self }
    }

    /// Whether it was written by a start that restored a base backup from this redo point.
    pub(crate) fn is_of_restore(&self, redo: RedoPoint) -> bool {
        self.restored == restored_at(redo) && !planted::is(Bug::RestoreForgotten)
    }

    /// The session's nonce; zeros if it has none.
    pub(crate) fn session_nonce(&self) -> Nonce {
        Nonce::from_hex(&self.session).unwrap_or_default()
    }

    /// The same for a tier that nobody needs any more: its device has failed.
    #[must_use]
    pub fn of_given_up(self) -> Self {
        Self { format: FORMAT, only_copies: false, given_up: true, ..self }
    }

    /// The same while a tier of this name is made.
    #[must_use]
    pub fn of_forming(mut self, tier_uuid: &[u8; 16]) -> Self {
        if !self.forms(tier_uuid) {
            self.forming.push(hex::encode(tier_uuid));
        }
        self
    }

    /// Whether a tier of this name was to be made, and may be there in part.
    pub fn forms(&self, tier_uuid: &[u8; 16]) -> bool {
        self.forming.contains(&hex::encode(tier_uuid))
    }

    /// The name that a tier which was to be made can still have: no server has used it.
    pub fn unused_name(&self) -> Option<[u8; 16]> {
        self.forming.last().filter(|_| !self.given_up).and_then(|name| <[u8; 16]>::from_hex(name).ok())
    }

    /// Whether it names this tier.
    pub fn names(&self, tier_uuid: &[u8; 16]) -> bool {
        self.tier == hex::encode(tier_uuid)
    }

    /// Reads the marker of a data directory; `None` if it never had a tier.
    ///
    /// # Errors
    /// If there is one that cannot be read or understood, or is damaged: it may say that pages are missing
    /// from the disk.
    pub fn read(store: &dyn MarkerStore) -> Result<Option<Self>, Refusal> {
        let shown = store.describe();
        let odd = |what: &String| {
            Refusal::new(format!("the marker \"{shown}\" of the flash tier cannot be used: {what}"))
                .hint("Restore it from a backup of the same moment. It says whether pages are missing from the disk.")
        };
        let mut before: Option<Result<Self, String>> = None;
        let mut unread = false;
        for _ in 0..if planted::is(Bug::MarkerBelieved) { 1 } else { READS } {
            let read = store.read();
            unread = read.as_ref().is_err_and(|error| error.kind() != ErrorKind::InvalidData);
            let read = match (read, &before) {
                // What was there a moment ago is not what there never was.
                (Ok(None), Some(_)) => Err("it was there, and is gone".to_owned()),
                (Ok(None), None) => return Ok(None),
                (Ok(Some(text)), _) => Self::parse(&text),
                (Err(error), _) => Err(error.to_string()),
            };
            match read {
                Ok(marker)
                    if marker.format != FORMAT_UNCHECKED || before.as_ref() == Some(&Ok(marker.clone())) =>
                {
                    return Ok(Some(marker));
                }
                read => before = Some(read),
            }
        }
        match before {
            Some(Ok(marker)) if planted::is(Bug::MarkerBelieved) => Ok(Some(marker)),
            // What cannot be read just now needs no backup.
            Some(Err(what)) if unread => Err(Refusal::new(format!(
                "the marker \"{shown}\" of the flash tier cannot be read: {what}"
            ))
            .hint(
                "Check its owner and mode, its file system and the kernel's log, and start the server again.",
            )),
            Some(Err(what)) => Err(odd(&what)),
            _ => Err(odd(&"it is another one each time it is read".to_owned())),
        }
    }

    /// A marker's text.
    fn compose(&self) -> Result<String, Refusal> {
        let fields = toml::to_string(self).map_err(|error| Refusal::new(error.to_string()))?;
        let said = format!("{HEADING}{fields}");
        let checksum = crc32c::crc32c(said.as_bytes());
        let [begins, ends] = CHECKSUM;
        Ok(format!("{said}{begins}{checksum:08x}{ends}"))
    }

    /// What a marker's text says.
    fn parse(text: &str) -> Result<Self, String> {
        let [begins, ends] = CHECKSUM;
        let last = text.strip_suffix(ends).and_then(|text| text.rsplit_once(begins));
        let checked = !planted::is(Bug::MarkerBelieved);
        let said = match last {
            Some((said, checksum)) if checked => {
                if format!("{:08x}", crc32c::crc32c(said.as_bytes())) != checksum {
                    return Err("it is damaged: its checksum does not match".to_owned());
                }
                said
            }
            _ => text,
        };
        let marker: Self = toml::from_str(said).map_err(|error| error.message().to_owned())?;
        match marker.format {
            FORMAT if last.is_none() && checked => Err("it is damaged: its checksum is missing".to_owned()),
            FORMAT | FORMAT_UNCHECKED => Ok(marker),
            format => Err(format!(
                "it has format {format}, and this build knows formats {FORMAT_UNCHECKED} and {FORMAT}"
            )),
        }
    }

    /// Makes it the data directory's marker, durably: whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, store: &dyn MarkerStore) -> Result<(), Refusal> {
        let text = self.compose()?;
        store.replace(&text).map_err(|error| {
            Refusal::new(format!(
                "the marker \"{}\" of the flash tier cannot be written: {error}",
                store.describe()
            ))
            .detail("It says which tier the data directory has, and whether that may hold the only copy of pages.")
            .hint("Check free space, owner and mode of the data directory.")
        })
    }
}

fn restored_at(point: RedoPoint) -> String {
    format!("{:016x}{:08x}", point.redo, point.timeline)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Marker {
        Marker {
            given_up: true,
            at_rest: Some(vec!["base/5 77 8 9".to_owned()]),
            at_rest_current: Some(true),
            ..Marker::new(&[0xAB; 16], Path::new("/flash/tier"), true)
                .of_session(&[0xC5; 16], 7)
                .marked(0x1112_1314_1516_1718)
                .of_restore(RedoPoint { redo: 0x2122_2324_2526_2728, timeline: 3 })
                .of_forming(&[0xEF; 16])
        }
    }

    #[test]
    fn every_line_reads_as_the_format_says() -> Result<(), Refusal> {
        let lines = "\
            # Says which flash tier holds pages of this cluster. \
            Do not remove: without it a missing tier is not noticed.\n\
            format = 2\n\
            tier = \"abababababababababababababababab\"\n\
            flash_path = \"/flash/tier\"\n\
            only_copies = true\n\
            given_up = true\n\
            session = \"c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5\"\n\
            epoch = 7\n\
            mark = \"1112131415161718\"\n\
            restored = \"212223242526272800000003\"\n\
            forming = [\"efefefefefefefefefefefefefefefef\"]\n\
            at_rest = [\"base/5 77 8 9\"]\n\
            at_rest_current = true\n";
        let expected = format!("{lines}checksum = \"{:08x}\"\n", crc32c::crc32c(lines.as_bytes()));
        assert_eq!(example().compose()?, expected);
        assert_eq!(Marker::parse(&expected), Ok(example()));
        Ok(())
    }

    #[test]
    fn the_document_lists_the_lines() -> Result<(), Refusal> {
        let text = example().compose()?;
        let written = text.lines().skip(1).filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
        let document = include_str!("../../../docs/format.md");
        let table = document.split("\n\n").find(|section| section.contains("| `only_copies` |"));
        let rows = table.unwrap_or_default().lines().skip(2);
        let listed = rows.filter_map(|row| row.split('`').nth(1));
        assert_eq!(listed.collect::<Vec<_>>(), written.collect::<Vec<_>>());
        Ok(())
    }
}
