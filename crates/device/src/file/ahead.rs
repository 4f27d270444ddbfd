//! Reads ahead of files and block devices.
//!
//! With io_uring, through a ring of their own, whether transfers bypass the page cache or not. Without, a
//! file that is read through the page cache is read ahead into that (`posix_fadvise`), and one that is read
//! past it cannot be: no thread may be started for it. Of a file in memory nothing is read ahead: io_uring
//! would pass each read to a thread of the kernel's, which costs more than the copy.

use std::io;
use std::os::fd::AsRawFd;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::{FileDevice, kernel, ring};
use crate::ahead::{ReadLate, ReadsAhead};
use crate::fork::generation;
use crate::mapping::Mapping;
use crate::{Device, DeviceError, DeviceErrorKind};

/// Entries of the largest ring that is asked for.
const ENTRIES_MAX: usize = 4096;

pub(super) fn reads_ahead(
    device: Arc<FileDevice>,
    places: usize,
    bytes: usize,
) -> Result<Box<dyn ReadsAhead>, DeviceError> {
    if kernel::lies_in_memory(&device.opened.buffered) {
        return Ok(Box::new(ReadLate::new(device, places, bytes)));
    }
    let ringed = match ring::unavailable() {
        Some(reason) => Err(reason.to_owned()),
        None => RingAhead::new(Arc::clone(&device), places, bytes)
            .map_err(|error| format!("io_uring gives this process no ring ({error})")),
    };
    match ringed {
        Ok(ring) => Ok(Box::new(ring)),
        Err(reason) => without_ring(device, places, bytes, reason),
    }
}

fn without_ring(
    device: Arc<FileDevice>,
    places: usize,
    bytes: usize,
    reason: String,
) -> Result<Box<dyn ReadsAhead>, DeviceError> {
    if device.is_direct() {
        let error = device.error(DeviceErrorKind::Unsupported, "read ahead from");
        return Err(error.advise(format!("{reason}, and it is read past the page cache")));
    }
    let late = ReadLate::new(Arc::clone(&device) as Arc<dyn Device>, places, bytes);
    Ok(Box::new(CacheAhead { device, bytes, late, reason }))
}

/// The kernel reads into its page cache; the copy from there is made when it is asked for.
struct CacheAhead {
    device: Arc<FileDevice>,
    bytes: usize,
    late: ReadLate,
    /// Why it is not a ring.
    reason: String,
}

impl ReadsAhead for CacheAhead {
    fn begin(&mut self, place: usize, offset: u64) -> bool {
        // Advice that is not taken costs time when the place is finished, and nothing else.
        let _ = kernel::will_need(&self.device.opened.buffered, offset, self.bytes as u64);
        self.late.begin(place, offset)
    }

    fn finish(&mut self, place: usize) -> Option<&[u8]> {
        self.late.finish(place)
    }

    fn is_under_way(&mut self, place: usize) -> bool {
        self.late.is_under_way(place)
    }

    fn describe(&self) -> String {
        format!("the page cache: {}", self.reason)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    UnderWay,
    Read,
    Failed,
}

/// ```text
/// Idle ─begin─► UnderWay ─reap─► Read or Failed ─finish, begin─► Idle, UnderWay
/// ```
struct RingAhead {
    device: Arc<FileDevice>,
    ring: IoUring,
    /// Of the process that has the ring: a child would share its memory with its parent.
    generation: u64,
    /// Shared with children, so that a fork leaves the pages where the kernel writes to them.
    memory: Mapping,
    bytes: usize,
    states: Vec<State>,
    under_way: usize,
    /// The kernel refuses the ring.
    broken: bool,
}

impl RingAhead {
    fn new(device: Arc<FileDevice>, places: usize, bytes: usize) -> io::Result<Self> {
        let ring = IoUring::new(places.next_power_of_two().clamp(1, ENTRIES_MAX) as u32)?;
        let memory = Mapping::new(None, (places * bytes).max(1))?;
        let states = vec![State::Idle; places];
        Ok(Self {
            device,
            ring,
            generation: generation(),
            memory,
            bytes,
            states,
            under_way: 0,
            broken: false,
        })
    }

    fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    fn address(&self, place: usize) -> *mut u8 {
        assert!(place < self.states.len(), "place {place} of {}", self.states.len());
        // SAFETY: the mapping has so many bytes for each place.
        unsafe { self.memory.base().as_ptr().add(place * self.bytes) }
    }

    /// Hands over what is in the submission queue, and waits for so many completions.
    fn enter(&mut self, completions: usize) {
        match self.ring.submit_and_wait(completions) {
            Ok(_) => {}
            // Interrupted, or completions are to be taken first. What was not accepted is handed over with
            // the next call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
            Err(_) => self.abandon(),
        }
        self.reap();
    }

    /// The kernel refuses the ring: what it has accepted is waited for, the rest never began.
    fn abandon(&mut self) {
        self.broken = true;
        let never_started = self.ring.submission().len();
        while self.under_way > never_started {
            // Completions are posted when this thread enters the kernel, which sleeping does.
            thread::sleep(Duration::from_micros(100));
            self.reap();
        }
        for state in self.states.iter_mut().filter(|state| **state == State::UnderWay) {
            *state = State::Failed;
        }
        self.under_way = 0;
    }

    fn reap(&mut self) {
        for completion in self.ring.completion() {
            let whole = completion.result() == self.bytes as i32;
            self.states[completion.user_data() as usize] = if whole { State::Read } else { State::Failed };
            self.under_way -= 1;
        }
    }

    fn await_place(&mut self, place: usize) {
        if self.states[place] == State::UnderWay {
            self.reap();
        }
        while self.states[place] == State::UnderWay {
            self.enter(1);
        }
    }
}

impl ReadsAhead for RingAhead {
    fn begin(&mut self, place: usize, offset: u64) -> bool {
        let address = self.address(place);
        if self.broken || !self.is_ours() || !self.device.is_aligned(address, offset, self.bytes) {
            return false;
        }
        self.await_place(place);
        let file = self.device.opened.direct.as_ref().map_or(&self.device.opened.buffered, |(file, _)| file);
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), address, self.bytes as u32)
            .offset(offset)
            .build()
            .user_data(place as u64);
        // SAFETY: the place is nobody else's until its completion was taken, the mapping and the descriptor
        // live at least as long as `self`, and that is not dropped before.
        if unsafe { self.ring.submission().push(&read) }.is_err() {
            // As many entries as places: only what was not accepted can fill it.
            return false;
        }
        self.states[place] = State::UnderWay;
        self.under_way += 1;
        self.enter(0);
        true
    }

    fn finish(&mut self, place: usize) -> Option<&[u8]> {
        if !self.is_ours() {
            return None;
        }
        self.await_place(place);
        if std::mem::replace(&mut self.states[place], State::Idle) != State::Read {
            return None;
        }
        // SAFETY: the place has so many bytes, initialised by the mapping at the latest, and nothing is under
        // way there as long as the borrow lasts.
        Some(unsafe { slice::from_raw_parts(self.address(place), self.bytes) })
    }

    fn is_under_way(&mut self, place: usize) -> bool {
        if self.is_ours() && self.states[place] == State::UnderWay {
            self.reap();
        }
        self.states[place] == State::UnderWay
    }

    fn describe(&self) -> String {
        "io_uring".to_owned()
    }
}

impl Drop for RingAhead {
    fn drop(&mut self) {
        // A child's copy only unmaps its view and closes its descriptor.
        while self.is_ours() && self.under_way > 0 && !self.broken {
            self.enter(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{DirectIo, OpenOptions};

    const BYTES: usize = 8192;

    fn device(name: &str, direct: DirectIo) -> Arc<FileDevice> {
        let path = std::env::temp_dir().join(format!("mezzanine-ahead-{name}-{}", std::process::id()));
        let options =
            OpenOptions { direct, len: Some(64 * BYTES as u64), ..OpenOptions::read_write_create() };
        let device = FileDevice::open(&path, &options).unwrap();
        std::fs::remove_file(&path).unwrap();
        for page in 0..64 {
            device.write_at(&[page; BYTES], u64::from(page) * BYTES as u64).unwrap();
        }
        Arc::new(device)
    }

    fn offset(page: u8) -> u64 {
        u64::from(page) * BYTES as u64
    }

    /// More reads than places, in an order of their own, and places that are given up.
    fn reads(ahead: &mut dyn ReadsAhead, places: usize) {
        for first in (0..64).step_by(places) {
            for place in 0..places {
                assert!(ahead.begin(place, offset((63 - first - place) as u8)));
                assert!(ahead.begin(place, offset((first + place) as u8)), "in the place of the one before");
            }
            for place in (0..places).rev() {
                let page = (first + place) as u8;
                assert_eq!(ahead.finish(place), Some(&[page; BYTES][..]), "page {page}");
                assert_eq!(ahead.finish(place), None, "taken already");
            }
        }
        // Behind the end of the file, whole or in part.
        for page in [63, 64, 65] {
            ahead.begin(0, offset(page));
            assert_eq!(ahead.finish(0).is_some(), page < 64, "page {page}");
        }
    }

    #[test]
    fn reads_ahead_bring_what_is_there() {
        for direct in [DirectIo::IfPossible, DirectIo::Never] {
            if let Some(reason) = ring::unavailable() {
                eprintln!("left out: {reason}");
                break;
            }
            let mut ring = RingAhead::new(device("ring", direct), 16, BYTES).unwrap();
            reads(&mut ring, 16);
            // What nobody has waited for.
            (0..16).for_each(|place| assert!(ring.begin(place, 0)));
        }
        let device = device("cache", DirectIo::Never);
        reads(&mut *without_ring(device, 16, BYTES, "a test".to_owned()).unwrap(), 16);
    }

    #[test]
    fn without_a_ring_and_past_the_page_cache_nothing_is_read_ahead() {
        let device = device("direct", DirectIo::IfPossible);
        if !device.is_direct() {
            eprintln!("left out: this file system has no direct I/O");
            return;
        }
        let error = without_ring(device, 16, BYTES, "io_uring is not available".to_owned()).err().unwrap();
        assert_eq!(error.kind(), DeviceErrorKind::Unsupported);
        assert!(error.to_string().contains("io_uring is not available, and it is read past"), "{error}");
    }

    #[test]
    fn a_child_has_no_part_in_reads_ahead() {
        if ring::unavailable().is_some() {
            return;
        }
        let mut ring = RingAhead::new(device("child", DirectIo::Never), 2, BYTES).unwrap();
        assert!(ring.begin(0, offset(7)));
        // SAFETY: the child calls what is tested here and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = !ring.begin(1, 0) && ring.finish(0).is_none();
            drop(ring);
            // SAFETY: ends the process without anything of its parent's.
            unsafe { libc::_exit(if none { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: the pointer is valid for the duration of the call.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "what the child has seen");
        assert_eq!(ring.finish(0), Some(&[7; BYTES][..]));
    }
}
