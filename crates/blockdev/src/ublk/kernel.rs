//! The two ways to the kernel: commands to its control device, and the queue of a device's requests. All of
//! this crate that the compiler cannot check stands here.
//!
//! Rule: memory whose address the kernel was told is not freed before the command that told it has come back.
//! What cannot be waited for is never freed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use mezzanine_device::AlignedBuf;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::wire::{ControlOp, DESCRIPTOR_BYTES, Descriptor, QueueOp, control_command, queue_command};

/// Through which devices are added, started and stopped.
const CONTROL_PATH: &str = "/dev/ublk-control";

/// The control device.
pub(super) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    pub(super) fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL_PATH).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => format!("the kernel has no ublk: {CONTROL_PATH} is not there"),
                io::ErrorKind::PermissionDenied => format!("this user may not use {CONTROL_PATH}"),
                _ => format!("{CONTROL_PATH}: {error}"),
            };
            io::Error::new(error.kind(), reason)
        })?;
        Ok(Self { file, ring: IoUring::builder().build(2)? })
    }

    /// Carries a command out, and waits for that; the payload is what the kernel reads, or has written.
    pub(super) fn run<const LEN: usize>(
        &mut self,
        operation: ControlOp,
        device: u32,
        data: u64,
        payload: &mut [u8; LEN],
    ) -> io::Result<()> {
        let memory = Box::into_raw(Box::new(*payload));
        let mut command = [0; 80];
        let payload_at = if LEN == 0 { 0 } else { memory as u64 };
        let head = control_command(device, payload_at, LEN, data);
        command[..head.len()].copy_from_slice(&head);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, operation as u32).cmd(command).build();
        // SAFETY: the descriptor is open as long as `self`; the payload's memory is freed below, when the
        // command has come back, or never.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        let result = loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Whether the command is under way is not known, so its memory stays.
                Err(error) => return Err(error),
            }
            if let Some(entry) = self.ring.completion().next() {
                break entry.result();
            }
        };
        // SAFETY: it came from `Box::into_raw` above, and the kernel is done with it.
        *payload = *unsafe { Box::from_raw(memory) };
        match result {
            0.. => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

/// Wakes the thread that waits in [`Queue::wait`].
pub(super) struct Waker(rustix::fd::OwnedFd);

impl Waker {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Self(fd)))
    }

    pub(super) fn wake(&self) {
        // It is readable already if there is no room for one more.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn rest(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

/// The queue of one device's requests, for the one thread that has fetched first. A request is named by its
/// tag; the memory of each tag is the kernel's while no request of it is being carried out.
pub(super) struct Queue {
    ring: IoUring,
    file: File,
    descriptors: NonNull<u8>,
    mapped_bytes: usize,
    waker: Arc<Waker>,
    /// By tag: memory that the kernel has.
    lent: Vec<Option<AlignedBuf>>,
}

/// In place of a tag: somebody has called the waker.
const WAKE: u64 = u64::MAX;

/// What has come from the kernel.
pub(super) enum Arrival {
    /// A request, with the memory of its tag: what is to be written, or room for what is read.
    Request { tag: u16, descriptor: io::Result<Descriptor>, buffer: AlignedBuf },
    /// No request comes under this tag any more: the device is stopped.
    Ended,
    /// Somebody has called the waker.
    Woken,
    /// The kernel does not take a command.
    Failed(io::Error),
}

impl Queue {
    /// Opens the queue, whose requests have so many bytes at most, and fetches under every tag.
    ///
    /// # Errors
    /// If another process has it open (`ResourceBusy`), or the kernel does not take a command.
    pub(super) fn open(path: &Path, depth: u16, request_bytes: u32, waker: Arc<Waker>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let page = rustix::param::page_size();
        let mapped_bytes = (usize::from(depth) * DESCRIPTOR_BYTES).next_multiple_of(page);
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the address is left to the kernel, so nothing else is mapped there.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), mapped_bytes, ProtFlags::READ, flags, file.as_fd(), 0)? };
        let Some(descriptors) = NonNull::new(mapped.cast()) else {
            return Err(io::Error::other("the requests are mapped nowhere"));
        };
        let lent = (0..depth).map(|_| None).collect();
        // One command for each tag, and the waker.
        let ring = IoUring::builder().build(u32::from(depth) + 1);
        let ring = match ring {
            Ok(ring) => ring,
            Err(error) => {
                // SAFETY: nothing refers to it.
                let _ = unsafe { munmap(mapped, mapped_bytes) };
                return Err(error);
            }
        };
        let mut queue = Self { ring, file, descriptors, mapped_bytes, waker, lent };
        for tag in 0..depth {
            queue.push(QueueOp::Fetch, tag, 0, AlignedBuf::zeroed(request_bytes as usize))?;
        }
        queue.listen()?;
        queue.ring.submit()?;
        // A command that is refused has come back already.
        let refused = queue.ring.completion().next();
        match refused {
            Some(entry) => Err(io::Error::from_raw_os_error(-entry.result())),
            None => Ok(queue),
        }
    }

    fn push(&mut self, operation: QueueOp, tag: u16, result: i32, buffer: AlignedBuf) -> io::Result<()> {
        let command = queue_command(tag, result, buffer.as_ptr() as u64);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, operation as u32).cmd(command).build();
        // SAFETY: the descriptor is open as long as the ring; the buffer is kept below until the command has
        // come back, and if it has not when `self` is dropped it is never freed.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(tag.into())) };
        pushed.map_err(io::Error::other)?;
        self.lent[usize::from(tag)] = Some(buffer);
        Ok(())
    }

    /// Asks to be told when the waker is called.
    fn listen(&mut self) -> io::Result<()> {
        let fd: BorrowedFd<'_> = self.waker.0.as_fd();
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), PollFlags::IN.bits().into()).build();
        // SAFETY: the waker is open as long as `self`, and the command refers to no memory.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(WAKE)) };
        pushed.map_err(io::Error::other)
    }

    /// Answers a request: bytes that were read or written, 0 where there are none, or a negative error
    /// number. The next request may come under its tag.
    pub(super) fn answer(&mut self, tag: u16, result: i32, buffer: AlignedBuf) -> io::Result<()> {
        self.push(QueueOp::CommitAndFetch, tag, result, buffer)
    }

    /// Hands all answers to the kernel and waits until something comes from it.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => Ok(()),
            // The kernel wants what has come to be taken first, or a signal was for this thread.
            Err(error)
                if matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The next of what has come.
    pub(super) fn arrival(&mut self) -> Option<Arrival> {
        let entry = self.ring.completion().next()?;
        if entry.user_data() == WAKE {
            self.waker.rest();
            return Some(self.listen().map_or_else(Arrival::Failed, |()| Arrival::Woken));
        }
        let tag = entry.user_data() as u16;
        let buffer = self.lent.get_mut(usize::from(tag)).and_then(Option::take);
        let Some(buffer) = buffer else {
            return Some(Arrival::Failed(io::Error::other("an answer to no command")));
        };
        Some(match entry.result() {
            0 => Arrival::Request { tag, descriptor: self.descriptor(tag), buffer },
            error if -error == Errno::NODEV.raw_os_error() => Arrival::Ended,
            error => Arrival::Failed(io::Error::from_raw_os_error(-error)),
        })
    }

    fn descriptor(&self, tag: u16) -> io::Result<Descriptor> {
        let at = usize::from(tag) * DESCRIPTOR_BYTES;
        assert!(at + DESCRIPTOR_BYTES <= self.mapped_bytes, "a tag that the queue has");
        // SAFETY: within the mapping, as just asserted.
        let from = unsafe { self.descriptors.add(at) };
        // SAFETY: bytes have no alignment. The kernel wrote the descriptor before the completion that we have
        // seen, and does not write to it again before the request is answered; volatile, since the compiler
        // does not know who writes it.
        let bytes = unsafe { from.cast::<[u8; DESCRIPTOR_BYTES]>().read_volatile() };
        Descriptor::from_bytes(&bytes)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for buffer in self.lent.drain(..).flatten() {
            std::mem::forget(buffer);
        }
        // SAFETY: mapped by `open`, and nothing refers to it any more.
        let _ = unsafe { munmap(self.descriptors.as_ptr().cast(), self.mapped_bytes) };
    }
}
