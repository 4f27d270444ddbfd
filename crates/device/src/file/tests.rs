//! What needs a look inside: a flush that fails.
#![allow(clippy::unwrap_used)]

use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use super::*;

/// Puts something else behind a descriptor for as long as this lives: a failing disk for tests.
struct Swapped {
    descriptor: RawFd,
    original: RawFd,
}

impl Swapped {
    /// What it leads to then cannot be opened by any name.
    fn by_a_socket(descriptor: RawFd) -> Self {
        let (socket, _) = UnixStream::pair().unwrap();
        // SAFETY: all descriptors are open; the original stays open under a new number.
        let original = unsafe { libc::dup(descriptor) };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(socket.as_raw_fd(), descriptor) }, descriptor);
        Self { descriptor, original }
    }

    fn by_a_pipe(descriptor: RawFd) -> Self {
        let mut pipe = [0; 2];
        // SAFETY: the call writes two descriptors through the pointer.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // SAFETY: all descriptors are open; the original stays open under a new number.
        let original = unsafe { libc::dup(descriptor) };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(pipe[0], descriptor) }, descriptor);
        // SAFETY: both ends are ours, and the one that is needed has been duplicated.
        let _ = pipe.map(|end| unsafe { libc::close(end) });
        Self { descriptor, original }
    }
}

impl Drop for Swapped {
    fn drop(&mut self) {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(self.original, self.descriptor) };
        // SAFETY: the duplicate is ours.
        unsafe { libc::close(self.original) };
    }
}

#[test]
fn after_a_failed_flush_only_reads_go_on() {
    let path = std::env::temp_dir().join(format!("mezzanine-flush-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.write_at(&[5; 4096], 0).unwrap();
    device.flush().unwrap();
    {
        // A pipe cannot be flushed: the kernel reports an error, as it does once for a lost write.
        let _failing = Swapped::by_a_pipe(device.opened.buffered.as_raw_fd());
        assert_eq!(device.flush().unwrap_err().operation(), "flush");
    }
    // The disk would say yes now, and the write that was lost would be forgotten.
    for result in [
        device.flush(),
        device.write_at(&[6; 4096], 0),
        device.discard(0, 4096),
        device.set_len(0),
        device.run(&mut [Request::Flush]).remove(0),
    ] {
        assert_eq!(result.unwrap_err().kind(), DeviceErrorKind::FlushFailed);
    }
    let mut back = [0; 4096];
    device.read_at(&mut back, 0).unwrap();
    assert_eq!(back, [5; 4096]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn callers_share_flushes_and_none_is_told_too_early() {
    let path = std::env::temp_dir().join(format!("mezzanine-group-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    let calls = 8 * 20;
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..20 {
                    device.write_at(&[1; 512], (thread * 20 + round) * 512).unwrap();
                    let begun_before = device.flush.begun.load(Ordering::SeqCst);
                    device.flush().unwrap();
                    let succeeded = *device.flush.succeeded.lock().unwrap();
                    assert!(succeeded > begun_before, "a flush that began later has succeeded");
                }
            });
        }
    });
    assert!(device.flush.begun.load(Ordering::SeqCst) <= calls);
    std::fs::remove_file(&path).unwrap();
}

/// The kernel reports a lost write to one call. It must not be that the others who waited for the same flush
/// are told that all is well.
#[test]
fn a_failed_flush_is_seen_by_all_who_waited_for_it() {
    let path = std::env::temp_dir().join(format!("mezzanine-waited-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.write_at(&[5; 4096], 0).unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        // Nobody flushes before all have asked.
        let flushing = device.flush.succeeded.lock().unwrap();
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let device = &device;
                let batch = || device.run(&mut [Request::Flush]).remove(0);
                scope.spawn(move || if caller % 2 == 0 { device.flush() } else { batch() })
            })
            .collect();
        device.flush.fails_once.store(true, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(flushing);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    std::fs::remove_file(&path).unwrap();
    assert!(!device.flush.fails_once.load(Ordering::SeqCst));
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
}

/// A device that has gone cannot be opened once more: that is a failure of who flushes it, and of nobody
/// else.
#[test]
fn a_file_that_cannot_be_opened_once_more_fails_the_flush() {
    let path = std::env::temp_dir().join(format!("mezzanine-apart-gone-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.write_at(&[5; 4096], 0).unwrap();
    {
        let _gone = Swapped::by_a_socket(device.opened.buffered.as_raw_fd());
        assert!(device.flush_apart().is_err());
    }
    assert!(device.flush.apart.get().is_none());
    device.flush().unwrap();
    assert!(device.flush.apart.get().is_some(), "it is there again by the first flush");
    std::fs::remove_file(&path).unwrap();

    let path = std::env::temp_dir().join(format!("mezzanine-apart-lost-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    let _gone = Swapped::by_a_socket(device.opened.buffered.as_raw_fd());
    assert!(device.flush_apart().is_err());
    assert_eq!(device.flush().unwrap_err().operation(), "flush");
    std::fs::remove_file(&path).unwrap();
}

/// Processes that were forked share an open file, and with it the one report of a lost write.
#[test]
fn flushes_apart_go_through_a_file_that_nobody_else_has_open() {
    let path = std::env::temp_dir().join(format!("mezzanine-apart-{}", std::process::id()));
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.write_at(&[5; 4096], 0).unwrap();
    device.flush_apart().unwrap();
    device.flush_apart().unwrap();
    {
        // What others see of the file that was open before.
        let _failing = Swapped::by_a_pipe(device.opened.buffered.as_raw_fd());
        device.flush().unwrap();
    }
    let apart = device.flush.apart.get().unwrap();
    // Open files have one offset each, however many descriptors lead to them.
    let offset = |file: &std::fs::File, to| Seek::seek(&mut &*file, to).unwrap();
    offset(&device.opened.buffered, SeekFrom::Start(77));
    assert_eq!(offset(apart, SeekFrom::Current(0)), 0);
    {
        let _failing = Swapped::by_a_pipe(apart.as_raw_fd());
        assert_eq!(device.flush().unwrap_err().operation(), "flush");
    }
    assert_eq!(device.flush().unwrap_err().kind(), DeviceErrorKind::FlushFailed);
    std::fs::remove_file(&path).unwrap();
}

/// The kernel carries out what was given to a ring also when whoever gave it is dead. A process that is
/// recovered after, and writes to the same places, must not meet that; in a system call a process dies late.
#[test]
fn writes_are_system_calls_and_reads_go_through_the_ring() {
    if let Some(reason) = ring::unavailable() {
        eprintln!("skipped: {reason}");
        return;
    }
    let directory = std::env::temp_dir();
    for engine in [IoEngine::Auto, IoEngine::IoUring, IoEngine::RingOrSequential] {
        let path = directory.join(format!("mezzanine-ring-{engine:?}-{}", std::process::id()));
        let options = OpenOptions { engine, len: Some(1 << 16), ..OpenOptions::read_write_create() };
        let device = FileDevice::open(&path, &options).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (first, second) = (AlignedBuf::copy_of(&[1; 4096]), AlignedBuf::copy_of(&[2; 4096]));
                let mut writes = [Request::write(&first, 0), Request::write(&second, 8192)];
                assert!(device.run(&mut writes).into_iter().all(|result| result.is_ok()));
                assert!(!ring::was_used(), "{engine:?}");
                let (mut one, mut other) = (AlignedBuf::zeroed(4096), AlignedBuf::zeroed(4096));
                let mut reads = [
                    Request::Read { offset: 0, buf: &mut one },
                    Request::Read { offset: 8192, buf: &mut other },
                ];
                assert!(device.run(&mut reads).into_iter().all(|result| result.is_ok()));
                assert_eq!((one[0], other[0]), (1, 2));
                let in_memory = kernel::lies_in_memory(&device.opened.buffered);
                let expected = engine != IoEngine::RingOrSequential || !in_memory;
                assert_eq!(ring::was_used(), expected, "{engine:?}");
            });
        });
    }
}
