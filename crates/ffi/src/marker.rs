//! The marker: what a data directory knows of its tier.
//!
//! A file in the data directory names the tier and says whether it may hold the only copy of pages. It is
//! durable before the first page may be dirty in a tier of sync mode `durable`, so a flash device that is
//! missing or swapped is noticed (invariant 10). Where the disk suffices, after a drain or with the other
//! sync modes, it says so. A tier whose device failed and that was given up is not to be used again: the
//! server has run on without it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::message::Refusal;

/// The file's name in the data directory.
pub const MARKER_FILE: &str = "mezzanine.tier";
const FORMAT: u32 = 1;

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
        let mode = self.file_mode()?;
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        // Apart from opening it: then neither the process's mask counts, nor what a crash has left here.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, self.0.join(MARKER_FILE))?;
        File::open(&self.0)?.sync_all()
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
    /// Names the tiers that were to be made since, in hexadecimal: a crash, or a device that failed, may have left
    /// one of them, whole or in part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forming: Vec<String>,
}

impl Marker {
    /// A marker for the tier of this name.
    pub fn new(tier_uuid: &[u8; 16], flash_path: &Path, only_copies: bool) -> Self {
        Self {
            format: FORMAT,
            tier: hex(tier_uuid),
            flash_path: flash_path.to_path_buf(),
            only_copies,
            given_up: false,
            forming: Vec::new(),
        }
    }

    /// The same for a tier that nobody needs any more: its device has failed.
    #[must_use]
    pub fn of_given_up(self) -> Self {
        Self { only_copies: false, given_up: true, ..self }
    }

    /// The same while a tier of this name is made.
    #[must_use]
    pub fn of_forming(mut self, tier_uuid: &[u8; 16]) -> Self {
        if !self.forms(tier_uuid) {
            self.forming.push(hex(tier_uuid));
        }
        self
    }

    /// Whether a tier of this name was to be made, and may be there in part.
    pub fn forms(&self, tier_uuid: &[u8; 16]) -> bool {
        self.forming.contains(&hex(tier_uuid))
    }

    /// The name that a tier which was to be made can still have: no server has used it.
    pub fn unused_name(&self) -> Option<[u8; 16]> {
        self.forming.last().filter(|_| !self.given_up).and_then(|name| unhex(name))
    }

    /// Whether it names this tier.
    pub fn names(&self, tier_uuid: &[u8; 16]) -> bool {
        self.tier == hex(tier_uuid)
    }

    /// Reads the marker of a data directory; `None` if it never had a tier.
    ///
    /// # Errors
    /// If there is one that cannot be read or understood: it may say that pages are missing from the disk.
    pub fn read(store: &dyn MarkerStore) -> Result<Option<Self>, Refusal> {
        let shown = store.describe();
        let odd = |what: String| {
            Refusal::new(format!("the marker \"{shown}\" of the flash tier cannot be used: {what}"))
                .hint("Restore it from a backup of the same moment. It says whether pages are missing from the disk.")
        };
        // What cannot be read just now needs no backup.
        let unread = |error: io::Error| {
            match error.kind() {
            ErrorKind::InvalidData => odd(error.to_string()),
            _ => Refusal::new(format!("the marker \"{shown}\" of the flash tier cannot be read: {error}"))
                .hint("Check its owner and mode, its file system and the kernel's log, and start the server again."),
        }
        };
        let Some(text) = store.read().map_err(unread)? else { return Ok(None) };
        let marker: Self = toml::from_str(&text).map_err(|error| odd(error.message().to_owned()))?;
        if marker.format != FORMAT {
            return Err(odd(format!(
                "it has format {}, and this build knows format {FORMAT}",
                marker.format
            )));
        }
        Ok(Some(marker))
    }

    /// Makes it the data directory's marker, durably: whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, store: &dyn MarkerStore) -> Result<(), Refusal> {
        let text = format!(
            "# Says which flash tier holds pages of this cluster. Do not remove: without it a missing tier is not noticed.\n{}",
            toml::to_string(self).map_err(|error| Refusal::new(error.to_string()))?
        );
        store.replace(&text).map_err(|error| {
            Refusal::new(format!(
                "the marker \"{}\" of the flash tier cannot be written: {error}",
                store.describe()
            ))
            .hint("Check free space, owner and mode of the data directory.")
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}
