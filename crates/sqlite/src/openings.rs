//! Which openings of the tier a log directory is of: files whose names say so, and that hold nothing. A name
//! needs no sync of its own, and on a full disk no room but in the directory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mezzanine_volume::Nonce;

use crate::logs::{README, absent_is_fine, is_full, made_anew, sync_directory};

/// `opening.<number>.<nonce>`: a directory names first what has the lowest number. A file with another end
/// says nothing, like what earlier versions left.
const PREFIX: &str = "opening";

/// Openings that a log directory names at most. The first ones count: with later ones, in which the database
/// could not be attached, no log was written.
const OPENINGS_MAX: usize = 8;

/// A nonce, as it is in names.
pub(crate) fn hex(nonce: &Nonce) -> String {
    nonce.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One opening that a directory names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    number: u32,
    nonce: String,
    /// The file that says so.
    file: PathBuf,
}

/// What a log directory says.
pub(crate) struct Openings<'a> {
    database: &'a Path,
    directory: &'a Path,
    named: Vec<Named>,
    /// Files that say nothing.
    remains: Vec<PathBuf>,
}

impl<'a> Openings<'a> {
    /// Of the directory of the logs of `database`.
    pub(crate) fn of(database: &'a Path, directory: &'a Path) -> io::Result<Self> {
        let mut found = Self { database, directory, named: Vec::new(), remains: Vec::new() };
        for entry in fs::read_dir(directory)? {
            let file = entry?.path();
            let name = file.file_name().and_then(OsStr::to_str);
            let Some(rest) = name.and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let parts = rest.strip_prefix('.').and_then(|rest| rest.split_once('.'));
            match parts.map(|(number, nonce)| (number.parse(), nonce)) {
                Some((Ok(number), nonce)) => {
                    found.named.push(Named { number, nonce: nonce.to_owned(), file })
                }
                _ => found.remains.push(file),
            }
        }
        found.named.sort();
        Ok(found)
    }

    /// Whether the directory says nothing.
    pub(crate) fn is_silent(&self) -> bool {
        self.named.is_empty()
    }

    pub(crate) fn names(&self, nonce: &str) -> bool {
        self.named.iter().any(|named| named.nonce == nonce)
    }

    /// Has the directory name one more opening. Where it names too many the last one goes.
    pub(crate) fn add(&mut self, nonce: &str) -> io::Result<()> {
        if self.names(nonce) {
            return Ok(());
        }
        let number = self.named.last().map_or(0, |last| last.number).saturating_add(1);
        let file = self.directory.join(format!("{PREFIX}.{number}.{nonce}"));
        match made_anew(self.database, &file) {
            // Another name for a file that is there already needs none of what there is no more of.
            Err(error) if is_full(&error) => {
                let readme = self.directory.join(README);
                let there = self.named.first().map_or(readme, |named| named.file.clone());
                fs::hard_link(there, &file).map_err(|_| error)?;
            }
            made => drop(made?),
        }
        if self.named.len() >= OPENINGS_MAX {
            if let Some(last) = self.named.pop() {
                absent_is_fine(fs::remove_file(last.file))?;
            }
        }
        self.named.push(Named { number, nonce: nonce.to_owned(), file });
        Ok(())
    }

    /// Of the openings that the directory names leaves those of `nonces`.
    pub(crate) fn keep_only(&mut self, nonces: &[&str]) -> io::Result<()> {
        let keep = |named: &Named| nonces.contains(&&*named.nonce);
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.named).into_iter().partition(keep);
        self.named = kept;
        self.remains.extend(gone.into_iter().map(|named| named.file));
        self.remove_remains()
    }

    /// Removes every file that names an opening, or was to.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.remains.extend(std::mem::take(&mut self.named).into_iter().map(|named| named.file));
        self.remove_remains()
    }

    fn remove_remains(&mut self) -> io::Result<()> {
        self.remains.drain(..).try_for_each(|file| absent_is_fine(fs::remove_file(file)))
    }

    /// What the directory says is there after a crash.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync_directory(self.directory)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn nonce(number: usize) -> String {
        format!("{number:032x}")
    }

    #[test]
    fn the_first_openings_are_kept_and_the_newest() {
        let directory = std::env::temp_dir().join(format!("mezzanine-openings-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let database = directory.join("app.db");
        fs::write(&database, "").unwrap();
        let openings = || Openings::of(&database, &directory).unwrap();
        assert!(openings().is_silent());
        for number in 0..100 {
            openings().add(&nonce(number)).unwrap();
        }
        let found: Vec<_> = openings().named.into_iter().map(|named| named.nonce).collect();
        let wanted: Vec<_> = (0..OPENINGS_MAX - 1).chain([99]).map(nonce).collect();
        assert_eq!(found, wanted);

        // What half an attempt or an earlier version left says nothing, and goes.
        for remains in ["opening", "opening.new", "opening.x.y"] {
            fs::write(directory.join(remains), "").unwrap();
        }
        openings().keep_only(&[&nonce(1), &nonce(99)]).unwrap();
        let found = openings();
        assert_eq!(found.named.len(), 2);
        assert!(found.names(&nonce(1)) && found.names(&nonce(99)) && !found.names(&nonce(0)));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
        found.remove().unwrap();
        assert!(openings().is_silent());
        fs::remove_dir_all(directory).unwrap();
    }
}
