//! Which openings of the tier a log directory is of: a symbolic link whose target names them. It is replaced
//! as a whole, so that a directory that is copied over another one has the openings of one of them, and it
//! needs no sync but that of the directory: with up to two names it lies in its inode, and takes no room of a
//! full disk.
//!
//! Where a file system has no symbolic links, or an earlier version has been, it is a file with a line for
//! each.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mezzanine_volume::Nonce;

use crate::open_directory::OpenDirectory;

/// The link, or the file.
pub(crate) const OPENING: &str = "opening";
/// While it is being made; a crash or a full disk leaves it.
pub(crate) const OPENING_NEW: &str = "opening.new";

/// Openings that a log directory names at most. The first ones count: with later ones, in which the database
/// could not be attached, no log was written.
const OPENINGS_MAX: usize = 8;

/// Digits of a nonce that are compared. Two names of so many fit into the inode of a link in ext4, 59 bytes.
const DIGITS: usize = 28;
const SEPARATOR: &str = ".";

/// How an opening is named.
pub(crate) fn name_of(nonce: &Nonce) -> String {
    hex::encode(nonce)[..DIGITS].to_owned()
}

/// The openings that a log directory names, the first one first; `None` if it says nothing.
pub(crate) fn named_in(directory: &Path) -> io::Result<Option<Vec<String>>> {
    let path = directory.join(OPENING);
    let text = match fs::read_link(&path) {
        Ok(target) => String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It is a file.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let mut text = String::new();
            File::open(path)?.take(4096).read_to_string(&mut text)?;
            text
        }
        Err(error) => return Err(error),
    };
    let names = text.split(['\n', '.']).filter(|name| name.len() >= DIGITS);
    Ok(Some(names.map(|name| name.chars().take(DIGITS).collect()).collect()))
}

/// Has the directory of the logs of `database` name these openings and no others, durably: of more than it
/// may name the first ones and the last.
pub(crate) fn name(database: &Path, directory: &OpenDirectory, names: &[String]) -> io::Result<()> {
    let last = names.len().saturating_sub(1);
    let kept = names.iter().enumerate().filter(|(index, _)| *index < OPENINGS_MAX - 1 || *index == last);
    let names: Vec<&str> = kept.map(|(_, name)| name.as_str()).collect();
    directory.remove(OPENING_NEW)?;
    match directory.link(database, &names.join(SEPARATOR), OPENING_NEW) {
        Err(error) if has_no_links(&error) => {
            let mut file = directory.make(database, OPENING_NEW)?;
            file.write_all(names.join("\n").as_bytes())?;
            file.sync_all()?;
        }
        made => made?,
    }
    directory.rename(OPENING_NEW, OPENING)?;
    directory.sync()
}

fn has_no_links(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_openings_are_kept_and_the_newest() {
        let directory = std::env::temp_dir().join(format!("mezzanine-openings-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let database = directory.join("app.db");
        fs::write(&database, "").unwrap();
        let names: Vec<String> = (0..100_u8).map(|number| name_of(&[number; 16])).collect();
        assert_eq!(named_in(&directory).unwrap(), None);
        let open = OpenDirectory::open(&directory).unwrap();
        name(&database, &open, &names).unwrap();
        let found = named_in(&directory).unwrap().unwrap();
        assert_eq!(found[..7], names[..7]);
        assert_eq!(found[7..], names[99..]);

        // Two lie in the inode.
        name(&database, &open, &names[..2]).unwrap();
        assert_eq!(named_in(&directory).unwrap().unwrap(), names[..2]);
        assert!(fs::symlink_metadata(directory.join(OPENING)).unwrap().len() < 60);

        // What an earlier version wrote, with the half of a name that a crash has left.
        let listed = [[1; 16], [2; 16]].map(hex::encode::<[u8; 16]>);
        fs::remove_file(directory.join(OPENING)).unwrap();
        fs::write(directory.join(OPENING), format!("{}\n{}\n{}", listed[0], listed[1], &listed[0][..7]))
            .unwrap();
        assert_eq!(named_in(&directory).unwrap().unwrap(), names[1..3]);

        fs::write(directory.join(OPENING_NEW), "").unwrap();
        name(&database, &open, &names[5..6]).unwrap();
        assert_eq!(named_in(&directory).unwrap().unwrap(), names[5..6]);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(directory).unwrap();
    }
}
