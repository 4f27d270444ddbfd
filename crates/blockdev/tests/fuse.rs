//! A device shown as a file, as programs see it. Left out where nothing can be mounted.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mezzanine_blockdev::fuse::{FuseFile, FuseOptions};
use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_device::{Device as _, DeviceErrorKind, MemoryDevice};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

const LEN: u64 = 1 << 20;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fuse-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A device of memory, shown as a file; none if nothing can be mounted here.
fn shown(options: FuseOptions) -> Option<(Arc<MemoryDevice>, FuseFile, PathBuf, Scratch)> {
    let scratch = Scratch::new();
    let (device, path) = (Arc::new(MemoryDevice::file(LEN)), scratch.0.join("disk"));
    match FuseFile::mount(Arc::clone(&device) as _, &path, options) {
        Ok(file) => Some((device, file, path, scratch)),
        Err(error) => {
            println!("skipped: nothing can be mounted here: {error}");
            assert!(!path.exists(), "what was made for it is gone");
            None
        }
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn what_is_written_to_the_file_is_on_the_device_and_durable_when_it_was_synced() {
    let Some((device, mut shown, path, _scratch)) = shown(FuseOptions::default()) else { return };
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777, metadata.is_file()), (LEN, 0o600, true));
    let file = open(&path);
    file.write_all_at(&[7; 5000], 100).unwrap();
    let mut found = [0; 5000];
    file.read_exact_at(&mut found, 100).unwrap();
    assert_eq!(found, [7; 5000]);
    assert!(device.unflushed() > 0);
    file.sync_all().unwrap();
    assert_eq!(device.unflushed(), 0);
    // Who opens it so need not ask.
    let dsync = OFlags::DSYNC.bits() as i32;
    let durable = OpenOptions::new().write(true).custom_flags(dsync).open(&path).unwrap();
    for value in 1..=12 {
        durable.write_all_at(&[value; 4096], 200_704).unwrap();
        device.power_cut(value.into());
        assert!(device.image()[200_704..][..4096] == [value; 4096], "write {value}");
    }
    drop(durable);
    // Large ones are several requests.
    let many: Vec<u8> = (0..LEN as u32 / 4).flat_map(u32::to_le_bytes).collect();
    file.write_all_at(&many, 0).unwrap();
    assert!(fs::read(&path).unwrap() == many && device.image() == many);
    // Two at a time see one another.
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..50u8 {
                    let at = u64::from(thread) * 65536 + u64::from(round) * 512;
                    file.write_all_at(&[round; 512], at).unwrap();
                    let mut found = [0; 512];
                    file.read_exact_at(&mut found, at).unwrap();
                    assert_eq!(found, [round; 512]);
                }
            });
        }
    });
    assert_eq!(shown.unmount().unwrap_err().kind(), ErrorKind::ResourceBusy, "it is open");
    file.write_all_at(&[1], 0).unwrap();
    drop(file);
    // The kernel tells of the close when it has time for it.
    let begun = std::time::Instant::now();
    while let Err(error) = shown.unmount() {
        assert!(error.kind() == ErrorKind::ResourceBusy && begun.elapsed().as_secs() < 10, "{error}");
        std::thread::yield_now();
    }
    assert!(!path.exists(), "the file that was made for it goes with it");
    drop(shown);
    assert_eq!(Arc::strong_count(&device), 1, "no thread has the device any more");
}

#[test]
fn a_file_that_is_closed_under_its_users_fails_them_and_leaves_the_device_alone() {
    let Some((device, mut shown, path, _scratch)) = shown(FuseOptions::default()) else { return };
    let file = open(&path);
    file.write_all_at(&[1; 512], 0).unwrap();
    shown.close(Duration::from_secs(10)).unwrap();
    assert!(!path.exists());
    assert_eq!(file.write_at(&[2; 512], 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap_err().raw_os_error(), Some(5));
    assert!(file.sync_all().is_err());
    assert_eq!(device.image()[..512], [1; 512]);
    drop(file);
    // Its threads end with its last user.
    drop(shown);
    let begun = std::time::Instant::now();
    while Arc::strong_count(&device) > 1 {
        assert!(begun.elapsed().as_secs() < 10, "a thread has the device still");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_end_of_the_device_is_the_end_of_the_file() {
    let Some((device, _shown, path, _scratch)) = shown(FuseOptions::default()) else { return };
    let mut file = open(&path);
    assert_eq!(file.write_at(&[1; 100], LEN - 40).unwrap(), 40);
    assert_eq!(file.write_at(&[1; 100], LEN).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.read_at(&mut [0; 100], LEN - 40).unwrap(), 40);
    assert_eq!(file.read_at(&mut [0; 100], LEN).unwrap(), 0);
    assert_eq!(file.set_len(LEN / 2).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(file.set_len(LEN * 2).unwrap_err().kind(), ErrorKind::PermissionDenied);
    file.set_len(LEN).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    assert_eq!(file.write(&[1]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
    assert_eq!(device.len(), LEN);
}

#[test]
fn holes_are_punched_only_where_they_are_zeros() {
    for zeroes_are_holes in [false, true] {
        let Some((device, _shown, path, _scratch)) =
            shown(FuseOptions { zeroes_are_holes, ..FuseOptions::default() })
        else {
            return;
        };
        let file = open(&path);
        file.write_all_at(&[9; 16384], 0).unwrap();
        let punched = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096);
        assert_eq!(punched.is_ok(), zeroes_are_holes);
        fallocate(&file, FallocateFlags::ZERO_RANGE, 8192, 4096).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, LEN).unwrap();
        assert!(fallocate(&file, FallocateFlags::empty(), 0, LEN + 1).is_err());
        assert!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).is_err());
        let second = if zeroes_are_holes { [0; 4096] } else { [9; 4096] };
        assert_eq!(device.image()[..16384], [[9; 4096], second, [0; 4096], [9; 4096]].concat());
    }
}

#[test]
fn what_the_device_fails_is_an_error_of_the_request_alone() {
    let failures = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failures);
    let on_failure = Box::new(move |_: &mezzanine_device::DeviceError| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let Some((device, _shown, path, _scratch)) = shown(FuseOptions { on_failure, ..FuseOptions::default() })
    else {
        return;
    };
    let file = open(&path);
    for (operation, kind, number) in [
        (Operation::Read, DeviceErrorKind::Io, 5),
        (Operation::Write, DeviceErrorKind::NoSpace, 28),
        (Operation::Flush, DeviceErrorKind::Io, 5),
    ] {
        device.inject(Injection { operation, after: 0, count: 1, fault: Fault::Error(kind) });
        let error = match operation {
            Operation::Read => file.read_at(&mut [0; 512], 0).unwrap_err(),
            Operation::Write => file.write_at(&[0; 512], 0).unwrap_err(),
            _ => file.sync_data().unwrap_err(),
        };
        assert_eq!(error.raw_os_error(), Some(number), "{operation:?}");
    }
    assert_eq!(failures.load(Ordering::Relaxed), 3);
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap(), 512);
}

#[test]
fn a_file_that_is_shown_to_be_read_is_not_written() {
    let Some((_device, _shown, path, _scratch)) =
        shown(FuseOptions { read_only: true, ..FuseOptions::default() })
    else {
        return;
    };
    assert!(OpenOptions::new().write(true).open(&path).is_err());
    assert_eq!(File::open(&path).unwrap().read_at(&mut [0; 512], 0).unwrap(), 512);
}

#[test]
fn nothing_is_hidden_by_it() {
    let scratch = Scratch::new();
    let mount = |path: &Path| {
        let device = Arc::new(MemoryDevice::new(LEN));
        FuseFile::mount(device, path, FuseOptions::default()).err().map(|error| error.kind())
    };
    let full = scratch.0.join("full");
    fs::write(&full, "something").unwrap();
    assert_eq!(mount(&full), Some(ErrorKind::AlreadyExists));
    assert_eq!(mount(&scratch.0), Some(ErrorKind::AlreadyExists));
    assert_eq!(mount(&scratch.0.join("no/file")), Some(ErrorKind::NotFound));
    assert_eq!(fs::read(&full).unwrap(), b"something");
}
