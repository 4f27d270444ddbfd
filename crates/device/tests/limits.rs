//! Files that are full, busy or failing, in processes of their own where a limit or a lock belongs to the
//! process.
#![allow(clippy::unwrap_used)]

mod scratch;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mezzanine_device::{
    AlignedBuf, Device, DeviceErrorKind, DirectIo, FileDevice, IoEngine, OpenOptions, Request,
};
use scratch::Scratch;

const ROLE: &str = "MEZZANINE_DEVICE_TEST_ROLE";
const DIRECTORY: &str = "MEZZANINE_DEVICE_TEST_DIRECTORY";

/// Runs `child_process` of this test binary in a process of its own.
fn spawn(role: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test of its own: what the processes started by other tests do.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    match &*role {
        "full" => write_until_full(&directory),
        "holds-lock" => {
            let locked = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write_create() };
            let _device = FileDevice::open(directory.join("flash"), &locked).unwrap();
            println!("locked");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        other => panic!("no such role: {other}"),
    }
}

const LIMIT: u64 = 1 << 20;

fn limit_files_to(len: u64) {
    let limit = libc::rlimit { rlim_cur: len, rlim_max: LIMIT };
    // SAFETY: the pointer is valid for the duration of the call, and this process has nothing else to do.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

/// A limit on file sizes is the full file system that needs no privileges: the kernel cuts a write short at
/// the limit, and refuses the next one, as it does when no block is left.
fn write_until_full(directory: &Path) {
    limit_files_to(LIMIT);
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for direct in [DirectIo::Never, DirectIo::IfPossible] {
        for engine in [IoEngine::ThreadPool, IoEngine::Auto] {
            let path = directory.join(format!("{direct:?}-{engine:?}"));
            let options = OpenOptions { direct, engine, ..OpenOptions::read_write_create() };
            let device = FileDevice::open(&path, &options).unwrap();
            let before = AlignedBuf::copy_of(&[1; 65_536]);
            device.write_at(&before, LIMIT - 65_536).unwrap();
            let after = AlignedBuf::copy_of(&[2; 65_536]);
            for (offset, len) in [(LIMIT, 65_536), (LIMIT - 4096, 8192), (LIMIT - 100, 300), (LIMIT + 7, 9)] {
                let error = device.write_at(&after[..len], offset).unwrap_err();
                assert_eq!(error.kind(), DeviceErrorKind::NoSpace, "{offset} {len}: {error}");
                assert_eq!(error.range(), Some((offset, len as u64)));
            }
            let mut batch = [Request::write(&after[..16_384], LIMIT - 8192), Request::write(&before, 0)];
            let results = device.run(&mut batch);
            assert_eq!(results[0].as_ref().unwrap_err().kind(), DeviceErrorKind::NoSpace);
            assert!(results[1].is_ok());
            assert_eq!(device.set_len(LIMIT * 2).unwrap_err().kind(), DeviceErrorKind::NoSpace);
            // What was there before the refused range is untouched.
            let mut back = AlignedBuf::zeroed(4096);
            device.read_at(&mut back, LIMIT - 65_536).unwrap();
            assert_eq!(*back, [1; 4096]);
            // A limit that is not aligned is met by a direct write that could only go half way.
            limit_files_to(LIMIT - 4096 + 100);
            for _ in 0..2 {
                let aligned = AlignedBuf::copy_of(&[4; 8192]);
                let mut batch = [Request::write(&aligned, LIMIT - 8192), Request::write(&before, 0)];
                let results = device.run(&mut batch);
                assert_eq!(results[0].as_ref().unwrap_err().kind(), DeviceErrorKind::NoSpace);
                assert!(results[1].is_ok());
                let error = device.write_at(&aligned, LIMIT - 8192).unwrap_err();
                assert_eq!(error.kind(), DeviceErrorKind::NoSpace, "{error}");
            }
            limit_files_to(LIMIT);
            device.flush().unwrap();
            assert_eq!(device.len(), LIMIT);
        }
    }
    for preallocate in [false, true] {
        let path = directory.join("too-long");
        let options = OpenOptions { len: Some(LIMIT * 2), preallocate, ..OpenOptions::read_write_create() };
        let error = FileDevice::open(&path, &options).err().unwrap();
        assert_eq!(error.kind(), DeviceErrorKind::NoSpace, "{error}");
        assert!(!path.exists(), "a file that could not be made is not left behind");
        fs::write(&path, [3; 5000]).unwrap();
        assert!(FileDevice::open(&path, &options).is_err());
        assert_eq!(fs::read(&path).unwrap(), [3; 5000], "a file that was there is left as it was");
        fs::remove_file(&path).unwrap();
    }
    let path = directory.join("reserved");
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.set_len(5000).unwrap();
    assert_eq!(device.reserve(LIMIT * 2).unwrap_err().kind(), DeviceErrorKind::NoSpace);
    assert_eq!(device.len(), 5000, "a reservation that fails leaves the length");
    device.write_at(&[3; 512], 0).unwrap();
}

#[test]
fn a_full_file_system_is_an_error_of_the_write_and_of_nothing_else() {
    let scratch = Scratch::new("full");
    let child = spawn("full", &scratch.path("")).wait_with_output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
fn a_file_locked_by_another_process_names_that_process() {
    let scratch = Scratch::new("locked");
    let mut child = spawn("holds-lock", &scratch.path(""));
    let mut output = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("locked") {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "the child ended early");
        seen.push(byte[0]);
    }
    let locked = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write() };
    let error = FileDevice::open(scratch.path("flash"), &locked).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::Busy);
    if fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains("FLOCK")) {
        assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    }
    // The lock goes with the process, however it ends.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(FileDevice::open(scratch.path("flash"), &locked).is_ok());
}

/// A loop device over a file, where we may make one.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8_lossy(&made.stdout).trim().to_string();
        (made.status.success() && name.starts_with("/dev/loop")).then_some(Self(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_devices_work_like_files_of_fixed_length() {
    const LEN: u64 = 4 << 20;
    let scratch = Scratch::new("block");
    let file = scratch.path("image");
    fs::write(&file, vec![0; LEN as usize]).unwrap();
    let Some(block) = Loop::over(&file) else {
        eprintln!("skipped: this user cannot make a loop device");
        return;
    };
    for direct in [DirectIo::Never, DirectIo::Always] {
        let options = OpenOptions { direct, exclusive_lock: true, ..OpenOptions::read_write() };
        let device = FileDevice::open(&block.0, &options).unwrap();
        let capabilities = device.capabilities();
        assert_eq!((capabilities.len, capabilities.can_resize), (LEN, false));
        assert!(capabilities.atomic_write >= 512);
        let longer = OpenOptions { len: Some(LEN + 1), exclusive_lock: false, ..options.clone() };
        assert_eq!(FileDevice::open(&block.0, &longer).err().unwrap().kind(), DeviceErrorKind::NoSpace);
        assert_eq!(FileDevice::open(&block.0, &options).err().unwrap().kind(), DeviceErrorKind::Busy);
        // What has its name lies in memory; it does not.
        let places =
            Arc::new(FileDevice::open(&block.0, &OpenOptions { direct, ..OpenOptions::default() }).unwrap());
        let way = places.reads_ahead(2, 4096).map(|places| places.describe());
        assert!(!way.as_ref().is_ok_and(|way| way.contains("memory")), "{way:?}");
        device.write_at(&[7; 10_000], 1_000).unwrap();
        let mut back = [0; 10_000];
        device.read_at(&mut back, 1_000).unwrap();
        assert_eq!(back, [7; 10_000]);
        device.flush().unwrap();
        let page = AlignedBuf::copy_of(&[9; 4096]);
        for offset in [LEN, LEN - 512, u64::MAX - 511] {
            assert_eq!(device.write_at(&page, offset).unwrap_err().kind(), DeviceErrorKind::OutOfRange);
            let mut back = AlignedBuf::zeroed(4096);
            assert_eq!(device.read_at(&mut back, offset).unwrap_err().kind(), DeviceErrorKind::UnexpectedEnd);
        }
        assert_eq!(device.set_len(LEN * 2).unwrap_err().kind(), DeviceErrorKind::Unsupported);
        device.write_at(&page, LEN - 4096).unwrap();
        match device.discard(0, 65_536) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), DeviceErrorKind::Unsupported, "{error}"),
        }
    }
}
