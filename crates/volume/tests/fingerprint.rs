//! A file that was changed behind a tier that was closed is not taken for unchanged, whatever its size and
//! the time of its last change say.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use common::{PAGE, formatted, open, page, through};
#[cfg(feature = "planted")]
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{AttachOptions, PathSidecar, SidecarStore};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fingerprint-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Overwrites a file and says that it was last changed when it was before.
fn change_in_secret(path: &Path, bytes: &[u8]) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// What the first page is after somebody has changed it so while the tier was closed.
fn page_changed_in_secret(scratch: &Scratch) -> Vec<u8> {
    let path = scratch.0.join("a.data");
    let flash = formatted(&through());
    let volume = open(&flash, &through());
    let file = volume.attach_path(&path, AttachOptions::default()).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    volume.close().unwrap();
    drop((file, volume));
    change_in_secret(&path, &page(0, 2));
    let volume = open(&flash, &through());
    let file = volume.attach_path(&path, AttachOptions::default()).unwrap();
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    volume.close().unwrap();
    found
}

#[test]
fn a_file_that_was_changed_in_secret_is_read_from_disk() {
    let scratch = Scratch::new("secret");
    assert!(page_changed_in_secret(&scratch) == page(0, 2));
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::FingerprintOfTimes));
        let found = page_changed_in_secret(&scratch);
        set(None);
        assert!(found == page(0, 1), "the planted fault went unnoticed");
    }
}

#[test]
fn a_file_that_was_not_changed_is_warm() {
    let scratch = Scratch::new("warm");
    let path = scratch.0.join("a.data");
    let flash = formatted(&through());
    for round in 0..3u64 {
        let volume = open(&flash, &through());
        let file = volume.attach_path(&path, AttachOptions::default()).unwrap();
        let mut found = vec![0; PAGE];
        if round > 0 {
            file.read_at(&mut found, 0).unwrap();
            assert!(found == page(0, round));
            let statistics = volume.statistics();
            assert_eq!(statistics.page_hits_flash + statistics.page_hits_memory, 1, "round {round}");
        }
        file.write_at(&page(0, round + 1), 0).unwrap();
        // Right after the last change.
        volume.close().unwrap();
    }
}

#[test]
fn another_file_in_its_place_is_another_file() {
    let scratch = Scratch::new("place");
    let (path, other) = (scratch.0.join("a"), scratch.0.join("b"));
    File::create(&path).unwrap().write_all(b"one").unwrap();
    let sidecar = PathSidecar::beside(&path);
    let before = sidecar.fingerprint().unwrap().unwrap();
    assert_eq!(sidecar.fingerprint().unwrap().unwrap(), before);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = File::create(&other).unwrap();
    file.write_all(b"two").unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    fs::rename(&other, &path).unwrap();
    let after = sidecar.fingerprint().unwrap().unwrap();
    assert_eq!(before[..24], after[..24], "size and time of the last change are the same");
    assert_ne!(before, after);
    assert_ne!(before[before.len() - 8..], after[after.len() - 8..], "the inode");
}

/// A file system's clock stands still for milliseconds at a time, or for seconds.
#[test]
fn a_change_right_after_a_fingerprint_shows() {
    let scratch = Scratch::new("soon");
    let path = scratch.0.join("a");
    let mut file = File::create(&path).unwrap();
    let sidecar = PathSidecar::beside(&path);
    for round in 0..50u8 {
        file.write_all(&[round]).unwrap();
        file.set_len(1).unwrap();
        let before = sidecar.fingerprint().unwrap().unwrap();
        file.set_len(1).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[round + 1], 0).unwrap();
        assert_ne!(sidecar.fingerprint().unwrap().unwrap(), before, "round {round}");
    }
}
