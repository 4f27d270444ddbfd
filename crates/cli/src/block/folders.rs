//! Where `mezz block` keeps things of this user: what is attached, and what vouches for maps.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Names the folder of what is attached, where it is not to be the usual one.
pub(super) const RUN_VARIABLE: &str = "MEZZ_RUN_DIR";
/// The same of the folder of vouchers.
pub(super) const STATE_VARIABLE: &str = "MEZZ_STATE_DIR";

/// The folder of what is attached, made if it is missing. It need not survive a restart of the machine.
pub(super) fn run() -> Result<PathBuf, Failure> {
    let path = match (std::env::var_os(RUN_VARIABLE), std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(path)) => Path::new(&path).join("mezz"),
        (None, None) if is_root() => PathBuf::from("/run/mezz"),
        (None, None) => std::env::temp_dir().join(format!("mezz-{}", user())),
    };
    made(path, RUN_VARIABLE)
}

/// The folder of vouchers, made if it is missing. It should survive a restart of the machine.
pub(super) fn state() -> Result<PathBuf, Failure> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state/mezz"));
    let path = match (std::env::var_os(STATE_VARIABLE), std::env::var_os("XDG_STATE_HOME")) {
        (Some(path), _) => Some(PathBuf::from(path)),
        (None, _) if is_root() => Some(PathBuf::from("/var/lib/mezz")),
        (None, Some(path)) => Some(Path::new(&path).join("mezz")),
        (None, None) => home(),
    };
    let path = path.ok_or_else(|| {
        Failure::refused("folder of vouchers", "this user has no home")
            .next(format!("name a folder with the variable {STATE_VARIABLE}"))
    })?;
    made(path, STATE_VARIABLE)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_root() -> bool {
    user() == 0
}

/// A folder of this user, or a symbolic link to one that this user or root has made: nobody else says where
/// things are kept.
fn made(path: PathBuf, variable: &str) -> Result<PathBuf, Failure> {
    let refused = |error: io::Error| {
        Failure::refused(path.display(), format!("cannot be used: {error}"))
            .next(format!("name another folder with the variable {variable}"))
    };
    let link = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_symlink);
    if let Some(link) = &link {
        if link.uid() != user() && link.uid() != 0 {
            return Err(refused(io::Error::other("it is a symbolic link of another user")));
        }
        if !path.exists() {
            return Err(refused(io::Error::other("it is a symbolic link to what is not there")));
        }
    }
    DirBuilder::new().mode(0o700).recursive(true).create(&path).map_err(refused)?;
    let metadata = fs::metadata(&path).map_err(refused)?;
    if !metadata.is_dir() || metadata.uid() != user() {
        return Err(refused(io::Error::other("it is another user's, or no folder")));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_may_be_a_link_of_this_user_to_a_folder_of_this_user() {
        let place = std::env::temp_dir().join(format!("mezzanine-folders-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(place.join("real")).unwrap();
        let [link, dangling, to_file] = ["link", "dangling", "file-link"].map(|name| place.join(name));
        symlink(place.join("real"), &link).unwrap();
        symlink(place.join("nowhere"), &dangling).unwrap();
        fs::write(place.join("file"), "").unwrap();
        symlink(place.join("file"), &to_file).unwrap();
        let said = |path: &Path| made(path.to_owned(), STATE_VARIABLE).map_err(|failure| failure.to_string());
        assert_eq!(said(&link), Ok(link.clone()));
        assert_eq!(said(&place.join("made/below")), Ok(place.join("made/below")));
        for (path, reason) in [(&dangling, "not there"), (&to_file, "cannot be used")] {
            let said = said(path).unwrap_err();
            assert!(said.contains(reason) && said.contains(STATE_VARIABLE), "{said}");
        }
        if is_root() {
            let other = rustix::fs::Uid::from_raw(65_534);
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(rustix::fs::CWD, &link, Some(other), None, flags).unwrap();
            assert!(said(&link).unwrap_err().contains("symbolic link of another user"));
            fs::remove_file(&link).unwrap();
            symlink(place.join("real"), &link).unwrap();
            rustix::fs::chown(place.join("real"), Some(other), None).unwrap();
            assert!(said(&link).unwrap_err().contains("another user's"));
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
