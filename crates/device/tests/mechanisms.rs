//! A drive whose times another crate computes: here, the one of this test.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a process is forked and killed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mezzanine_device::model::{self, Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing};
use mezzanine_device::{Device, DeviceErrorKind, Drive, MemoryDevice, Request};

const BUSY: usize = 0;
const FREE_AT: usize = 1;
const REPAIRED: usize = 2;
/// Entered and not asked for yet.
const WAITING: usize = 3;
const WORDS: usize = 4;

/// One server, a fixed time for each operation, and room for two.
#[derive(Debug)]
struct Turnstile {
    each_ns: u64,
}

impl Timing for Turnstile {
    fn state_words(&self) -> usize {
        WORDS
    }

    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full> {
        if state[WAITING] == 2 {
            return Err(Full { not_before: state[FREE_AT] });
        }
        state[WAITING] += 1;
        state[BUSY] += self.each_ns;
        state[FREE_AT] = state[FREE_AT].max(now) + self.each_ns;
        Ok(Submitted { sequential: false, ticket: Ticket::marked([state[FREE_AT], operation.len]) })
    }

    fn progress(&self, state: &mut [u64], _now: u64, ticket: &mut Ticket) -> Progress {
        let Some([at, _]) = ticket.mark() else { return Progress::At(ticket.completion().unwrap_or(0)) };
        state[WAITING] = state[WAITING].saturating_sub(1);
        *ticket = Ticket::known(at);
        Progress::At(at)
    }

    fn busy(&self, state: &[u64]) -> u64 {
        state[BUSY]
    }

    fn servers(&self) -> u32 {
        1
    }

    fn capacity(&self) -> u64 {
        1 << 30
    }

    fn repair(&self, state: &mut [u64], now: u64) {
        state[WAITING] = 0;
        state[FREE_AT] = now;
        state[REPAIRED] += 1;
    }
}

fn open(each_ns: u64, state: Option<&std::path::Path>) -> Arc<Drive> {
    let model = model::find("nvme-local").unwrap();
    Drive::open_with(model, Arc::new(Turnstile { each_ns }), 77, state, 1.0).unwrap()
}

fn reads(count: usize) -> Vec<Vec<u8>> {
    vec![vec![0; 4096]; count]
}

fn run(device: &dyn Device, buffers: &mut [Vec<u8>]) {
    let mut batch: Vec<Request<'_>> =
        buffers.iter_mut().map(|buffer| Request::Read { offset: 0, buf: buffer }).collect();
    device.run(&mut batch).into_iter().for_each(|result| result.unwrap());
}

#[test]
fn a_mechanism_of_another_crate_holds_operations_back() {
    let drive = open(4_000_000, None);
    let device = drive.attach(Arc::new(MemoryDevice::new(1 << 20)), 0);
    let began = Instant::now();
    // More than it has room for at once.
    run(&*device, &mut reads(5));
    assert!(began.elapsed() >= Duration::from_millis(20), "one after the other: {:?}", began.elapsed());
    let statistics = drive.statistics();
    assert_eq!((statistics.reads, statistics.busy_ns), (5, 20_000_000), "its own state is asked");
}

#[test]
fn states_of_other_sizes_and_mechanisms_are_told_apart() {
    let folder = std::env::temp_dir().join(format!("mezzanine-mechanisms-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let state = folder.join("state");
    let held = open(1, Some(&state));
    let model = model::find("nvme-local").unwrap();
    let other = Drive::open_shared(model, Some(&state), 1.0).err().unwrap();
    assert_eq!(other.kind(), DeviceErrorKind::InvalidState, "{other}");
    let same = open(1, Some(&state));
    run(&*same.attach(Arc::new(MemoryDevice::new(1 << 20)), 0), &mut reads(1));
    assert_eq!(held.statistics().reads, 1, "they share one state");
    drop((held, same));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_mechanism_repairs_what_a_process_left_that_died_in_it() {
    /// Dies when it is asked for the first time.
    #[derive(Debug)]
    struct Deadly(Turnstile);

    impl Timing for Deadly {
        fn state_words(&self) -> usize {
            self.0.state_words()
        }
        fn submit(&self, state: &mut [u64], _now: u64, _operation: Operation) -> Result<Submitted, Full> {
            state[WAITING] = 2;
            state[FREE_AT] = u64::MAX;
            // SAFETY: ends this process at once, with the lock in hand.
            unsafe { libc::_exit(0) }
        }
        fn progress(&self, state: &mut [u64], now: u64, ticket: &mut Ticket) -> Progress {
            self.0.progress(state, now, ticket)
        }
        fn busy(&self, state: &[u64]) -> u64 {
            self.0.busy(state)
        }
        fn servers(&self) -> u32 {
            1
        }
        fn capacity(&self) -> u64 {
            self.0.capacity()
        }
        fn repair(&self, state: &mut [u64], now: u64) {
            self.0.repair(state, now);
        }
    }

    let folder = std::env::temp_dir().join(format!("mezzanine-mechanisms-died-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let state = folder.join("state");
    let drive = open(1000, Some(&state));
    // SAFETY: the child opens a drive, enters an operation and dies in that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let deadly = Arc::new(Deadly(Turnstile { each_ns: 1000 }));
        let opened = model::find("nvme-local")
            .and_then(|model| Drive::open_with(model, deadly, 77, Some(&state), 1.0));
        if let Ok(opened) = opened {
            run(&*opened.attach(Arc::new(MemoryDevice::new(1 << 20)), 0), &mut reads(1));
        }
        // SAFETY: ends the child, which should have died before.
        unsafe { libc::_exit(9) };
    }
    let mut status = 0;
    // SAFETY: the pointer is valid for the duration of the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "it died where it was to");
    let began = Instant::now();
    run(&*drive.attach(Arc::new(MemoryDevice::new(1 << 20)), 0), &mut reads(3));
    assert!(began.elapsed() < Duration::from_secs(20), "nobody waits for what the dead has left");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_operation_of_a_kind_that_waits_is_asked_for_later() {
    let timing = Turnstile { each_ns: 10 };
    let mut state = timing.idle();
    let operation = timing.operation(OperationKind::Write, 3 << 30, 4096);
    assert_eq!(operation.address, 0, "addresses begin again beyond the capacity");
    let mut ticket = timing.submit(&mut state, 5, operation).unwrap().ticket;
    assert!(!ticket.is_known());
    assert_eq!(timing.progress(&mut state, 5, &mut ticket), Progress::At(15));
    assert!(ticket.is_known());
    assert_eq!(ticket.completion(), Some(15));
}
