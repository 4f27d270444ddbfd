//! Memory shared by path: who may create it, who may join it, and what is refused.
#![allow(clippy::unwrap_used)]

mod scratch;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use mezzanine_device::{DeviceErrorKind, SharedMemory};
use scratch::Scratch;

fn refused<T>(outcome: Result<T, mezzanine_device::DeviceError>) -> DeviceErrorKind {
    let error = outcome.err().expect("this must be refused");
    assert!(error.to_string().contains("; "), "the message says what to do next: {error}");
    error.kind()
}

#[test]
fn what_one_stores_the_other_reads_at_another_address() {
    let scratch = Scratch::new("shared-memory");
    let path = scratch.path("memory");
    let (mut mine, setup) = SharedMemory::create(&path, 40_000).unwrap();
    assert_eq!(mine.as_mut(), vec![0; 40_000]);
    setup.share().unwrap();
    let mut theirs = SharedMemory::join(&path).unwrap();
    assert_eq!(theirs.bytes(), 40_000);
    assert_ne!(mine.as_mut().as_ptr(), theirs.as_mut().as_ptr());
    mine.as_mut()[39_999] = 7;
    assert_eq!(theirs.as_mut()[39_999], 7);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn nobody_joins_before_it_is_set_up_nor_after_all_are_gone() {
    let scratch = Scratch::new("shared-memory-life");
    let path = scratch.path("memory");
    assert_eq!(SharedMemory::join(&path).err().unwrap().kind(), DeviceErrorKind::NotFound);
    let (mut first, setup) = SharedMemory::create(&path, 4096).unwrap();
    first.as_mut().fill(9);
    assert_eq!(refused(SharedMemory::join(&path)), DeviceErrorKind::Busy);
    setup.share().unwrap();
    let second = SharedMemory::join(&path).unwrap();
    assert_eq!(refused(SharedMemory::create(&path, 4096)), DeviceErrorKind::Busy);
    // The creator leaves; another user is left, so more may come.
    drop(first);
    let mut third = SharedMemory::join(&path).unwrap();
    assert_eq!(third.as_mut()[0], 9);
    drop((second, third));
    assert_eq!(refused(SharedMemory::join(&path)), DeviceErrorKind::NotFound);
    let (mut fresh, _setup) = SharedMemory::create(&path, 8192).unwrap();
    assert_eq!(fresh.as_mut(), vec![0; 8192], "what was there is gone");
}

#[test]
fn a_creator_that_ends_before_it_shares_leaves_nothing_to_join() {
    let scratch = Scratch::new("shared-memory-unready");
    let path = scratch.path("memory");
    drop(SharedMemory::create(&path, 4096).unwrap());
    assert_eq!(refused(SharedMemory::join(&path)), DeviceErrorKind::NotFound);
    let _again = SharedMemory::create(&path, 4096).unwrap();
}

#[test]
fn other_files_are_left_alone() {
    let scratch = Scratch::new("shared-memory-others");
    let path = scratch.path("notes");
    fs::write(&path, "thirty-nine bytes that somebody needs!\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(refused(SharedMemory::create(&path, 4096)), DeviceErrorKind::PermissionDenied);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(refused(SharedMemory::create(&path, 4096)), DeviceErrorKind::AlreadyExists);
    assert_eq!(refused(SharedMemory::join(&path)), DeviceErrorKind::NotFound);
    assert_eq!(fs::metadata(&path).unwrap().len(), 39);
    let link = scratch.path("link");
    symlink(&path, &link).unwrap();
    assert_eq!(SharedMemory::create(&link, 4096).err().unwrap().kind(), DeviceErrorKind::SymbolicLink);
    assert_eq!(SharedMemory::join(&link).err().unwrap().kind(), DeviceErrorKind::SymbolicLink);
    assert!(SharedMemory::create(&scratch.path(""), 4096).is_err(), "a folder");
}

#[test]
fn memory_that_there_is_not_is_refused_before_it_is_spent() {
    let scratch = Scratch::new("shared-memory-room");
    let path = scratch.path("memory");
    let bytes = 1usize << 46;
    let error = SharedMemory::create(&path, bytes).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::NoSpace);
    assert!(error.to_string().contains(&bytes.to_string()), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}
