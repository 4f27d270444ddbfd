//! Concurrent reads through io_uring. Writes are never given to a ring: the kernel carries out what it has
//! also when whoever gave it is dead, and that would come over what a recovery has written since.
//!
//! Every thread has a ring of its own, so submitting takes no lock and no completion has to find its way to
//! another thread. A ring does not survive a `fork` (both processes would share its memory), so each
//! remembers its process.
//!
//! Rule: while the kernel may still write to or read from the caller's memory, the function that borrowed it
//! does not return. A ring on which anything unexpected happened is closed, but only after its last transfer
//! has completed.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::process;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::transfer::{Memory, Transfer};

/// Transfers in flight at once from one batch; more are submitted as these complete.
const ENTRIES: u32 = 128;

/// The kernel moves at most this many bytes per call, and a completion counts them in an `i32`.
const TRANSFER_LEN_MAX: usize = 0x7fff_f000;

struct ThreadRing {
    process: u32,
    ring: IoUring,
}

thread_local! {
    static RING: RefCell<Option<ThreadRing>> = const { RefCell::new(None) };
}

/// Why this kernel (or its administrator, or a sandbox) does not let us use io_uring; `None` if it does.
pub(super) fn unavailable() -> Option<&'static str> {
    static PROBED: OnceLock<Option<String>> = OnceLock::new();
    PROBED.get_or_init(|| probe().err()).as_deref()
}

fn probe() -> Result<(), String> {
    let ring = IoUring::new(2).map_err(|error| format!("io_uring is not available ({error})"))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|error| format!("io_uring is too old ({error})"))?;
    if probe.is_supported(opcode::Read::CODE) {
        Ok(())
    } else {
        Err("io_uring is too old: it has no plain read".to_string())
    }
}

/// Carries out all transfers, which are reads, concurrently; one result each, in order. `None` if no ring could
/// be had now, in which case nothing was started.
pub(super) fn run(transfers: &mut [Transfer<'_>]) -> Option<Vec<io::Result<()>>> {
    let mut ring = take_ring()?;
    let outcome = Submission::new(transfers).run(&mut ring.ring);
    if outcome.ring_usable {
        RING.with(|slot| *slot.borrow_mut() = Some(ring));
    }
    let mut results = outcome.results;
    for (transfer, result) in transfers.iter_mut().zip(&mut results) {
        if result.is_ok() {
            // What a short transfer left over is finished here; it is rare, and usually ends in an error.
            *result = transfer.carry_out();
        }
    }
    Some(results)
}

/// Whether this thread has used a ring.
#[cfg(test)]
pub(super) fn was_used() -> bool {
    RING.with(|slot| slot.borrow().is_some())
}

/// This thread's ring, taken out of its slot so that no borrow is held while waiting.
fn take_ring() -> Option<ThreadRing> {
    let process = process::id();
    match RING.with(|slot| slot.borrow_mut().take()) {
        Some(ring) if ring.process == process => return Some(ring),
        // Left by the parent of a fork. Dropping it only unmaps our view and closes our descriptor.
        Some(_) | None => {}
    }
    let ring = IoUring::new(ENTRIES).ok()?;
    Some(ThreadRing { process, ring })
}

struct Outcome {
    results: Vec<io::Result<()>>,
    ring_usable: bool,
}

struct Submission<'s, 'a> {
    transfers: &'s mut [Transfer<'a>],
    results: Vec<io::Result<()>>,
    /// Transfers put into the submission queue so far: always a prefix of the batch.
    queued: usize,
    completed: usize,
}

impl<'s, 'a> Submission<'s, 'a> {
    fn new(transfers: &'s mut [Transfer<'a>]) -> Self {
        let results = transfers.iter().map(|_| Ok(())).collect();
        Self { transfers, results, queued: 0, completed: 0 }
    }

    fn run(mut self, ring: &mut IoUring) -> Outcome {
        while self.completed < self.transfers.len() {
            self.fill(ring);
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                // Interrupted, or the kernel wants completions to be taken before it accepts more.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(_) => return self.abandon(ring),
            }
            self.reap(ring);
        }
        Outcome { results: self.results, ring_usable: true }
    }

    /// Puts as many transfers into the submission queue as may be in flight.
    fn fill(&mut self, ring: &mut IoUring) {
        let mut queue = ring.submission();
        while self.queued < self.transfers.len() && self.queued - self.completed < ENTRIES as usize {
            let entry = entry_for(&mut self.transfers[self.queued]).user_data(self.queued as u64);
            // SAFETY: the memory and the descriptor behind the entry are borrowed by `self.transfers`, and
            // this submission does not end before the entry has completed or was never handed to
            // the kernel.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            self.queued += 1;
        }
    }

    /// Takes the completions that have arrived.
    fn reap(&mut self, ring: &mut IoUring) {
        for completion in ring.completion() {
            let index = completion.user_data() as usize;
            let transfer = &mut self.transfers[index];
            self.results[index] = match completion.result() {
                0 if transfer.len() > 0 => Err(transfer.nothing_moved()),
                moved @ 0.. => {
                    transfer.done = moved as usize;
                    Ok(())
                }
                // Nothing was moved: `carry_out` tries once more on this thread, and finds out why.
                error if matches!(-error, libc::EINTR | libc::EAGAIN | libc::EINVAL) => Ok(()),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            self.completed += 1;
        }
    }

    /// The kernel refuses the ring. What it has accepted is waited for; the rest was never started and goes
    /// on without the ring, by the same path as what a short transfer leaves over.
    fn abandon(mut self, ring: &mut IoUring) -> Outcome {
        let never_started = ring.submission().len();
        let accepted = self.queued - never_started;
        while self.completed < accepted {
            // Completions are posted when this thread enters the kernel, which sleeping does.
            thread::sleep(Duration::from_micros(100));
            self.reap(ring);
        }
        Outcome { results: self.results, ring_usable: false }
    }
}

fn entry_for(transfer: &mut Transfer<'_>) -> squeue::Entry {
    let file = types::Fd(transfer.file.as_raw_fd());
    let offset = transfer.offset;
    match &mut transfer.memory {
        Memory::Read(buf) => {
            let len = buf.len().min(TRANSFER_LEN_MAX) as u32;
            opcode::Read::new(file, buf.as_mut_ptr(), len).offset(offset).build()
        }
        Memory::Write(_) => unreachable!("no write is given to a ring"),
    }
}
