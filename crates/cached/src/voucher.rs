//! What vouches for a map: a note outside the cache device that the map counts after a crash.
//!
//! A map that the cache device does not take any more would say what is stale as soon as a write went on
//! without its mark. So before such a write goes on nothing may vouch for the map any more, durably, and the
//! note of that cannot lie on the device that has failed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Names one opening of a cache: random, and never given again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Opening(pub [u8; 16]);

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opening({self})")
    }
}

/// Vouches for the map of a cache that is open.
pub trait Voucher: Send + Sync {
    /// Nothing vouches for the map any more, durably.
    ///
    /// # Errors
    /// If that is not certain. It may be tried again.
    fn revoke(&self) -> io::Result<()>;
}

/// A file that vouches for the map of one opening for as long as it says so.
///
/// It is kept open, so that it can be revoked whatever is mounted over its folder meanwhile. A folder that is
/// gone, or another one, vouches for nothing.
pub struct FileVoucher {
    path: PathBuf,
    file: File,
}

impl FileVoucher {
    /// Makes the file, durably.
    ///
    /// # Errors
    /// If the folder cannot be written to, or has a file of this opening.
    pub fn issue(folder: &Path, opening: Opening) -> io::Result<Self> {
        let path = path_of(folder, opening);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let written = file
            .write_all(text_of(opening).as_bytes())
            .and_then(|()| file.sync_all())
            // Its name as well.
            .and_then(|()| File::open(folder)?.sync_all());
        match written {
            Ok(()) => Ok(Self { path, file }),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Whether a file in this folder vouches for the map of this opening.
    ///
    /// # Errors
    /// That of reading a file that is there.
    pub fn vouches(folder: &Path, opening: Opening) -> io::Result<bool> {
        match std::fs::read(path_of(folder, opening)) {
            Ok(found) => Ok(found == text_of(opening).as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the file of an opening that no superblock names any more. If that fails it is in nobody's way.
    pub fn tidy(folder: &Path, opening: Opening) {
        let _ = std::fs::remove_file(path_of(folder, opening));
    }
}

impl Voucher for FileVoucher {
    fn revoke(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()?;
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

fn path_of(folder: &Path, opening: Opening) -> PathBuf {
    folder.join(format!("{opening}.voucher"))
}

fn text_of(opening: Opening) -> String {
    format!("While this says so, the map of a fragment cache counts after a crash: opening {opening}.\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_vouches_for_its_opening_until_it_is_revoked() {
        let folder = std::env::temp_dir().join(format!("mezzanine-voucher-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, other) = (Opening([1; 16]), Opening([2; 16]));
        assert!(!FileVoucher::vouches(&folder, one).unwrap());
        let voucher = FileVoucher::issue(&folder, one).unwrap();
        assert!(FileVoucher::vouches(&folder, one).unwrap());
        assert!(!FileVoucher::vouches(&folder, other).unwrap());
        assert!(FileVoucher::issue(&folder, one).is_err(), "an opening is vouched for once");
        // What is cut short vouches for nothing, and neither does what remains of one whose name comes back.
        let keep = folder.join("kept");
        std::fs::hard_link(path_of(&folder, one), &keep).unwrap();
        voucher.revoke().unwrap();
        assert!(!FileVoucher::vouches(&folder, one).unwrap());
        std::fs::rename(&keep, path_of(&folder, one)).unwrap();
        assert!(!FileVoucher::vouches(&folder, one).unwrap());
        assert!(!FileVoucher::vouches(&folder.join("missing"), one).unwrap());
        FileVoucher::tidy(&folder, one);
        std::fs::remove_dir(&folder).unwrap();
    }
}
