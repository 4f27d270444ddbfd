//! The threads of a device: one that talks to the kernel, since that takes answers from the thread alone that
//! has fetched, and others that carry requests out, since a device blocks.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use mezzanine_device::{AlignedBuf, Device, DeviceError, DeviceErrorKind};
use rustix::io::Errno;

use super::UblkOptions;
use super::kernel::{Arrival, Queue, Waker};
use super::wire::{Descriptor, Operation};
use crate::gate::Gate;
use crate::zeroes::{give_up, write_zeroes};

/// What the threads of one device share.
pub(super) struct Serving {
    device: Arc<dyn Device>,
    options: UblkOptions,
    pub(super) gate: Gate,
    pending: Mutex<Pending>,
    /// For those who carry requests out.
    arrived: Condvar,
    answers: Mutex<Vec<Answer>>,
    waker: Arc<Waker>,
}

#[derive(Default)]
struct Pending {
    requests: VecDeque<Request>,
    /// No request comes any more.
    is_over: bool,
}

struct Request {
    tag: u16,
    descriptor: Descriptor,
    buffer: AlignedBuf,
}

struct Answer {
    tag: u16,
    result: i32,
    buffer: AlignedBuf,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    /// Begins to serve the queue at this path, and returns when requests can come.
    ///
    /// # Errors
    /// If the queue cannot be opened, or the system has no thread.
    pub(super) fn begin(
        device: Arc<dyn Device>,
        options: UblkOptions,
        path: &Path,
        (depth, request_bytes): (u16, u32),
    ) -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        let serving = Arc::new(Self {
            device,
            options,
            gate: Gate::default(),
            pending: Mutex::default(),
            arrived: Condvar::new(),
            answers: Mutex::default(),
            waker: Waker::new()?,
        });
        for _ in 0..serving.options.threads.max(1) {
            let (own, thread) = (Arc::clone(&serving), thread::Builder::new().name("ublk-request".into()));
            // They end with the queue.
            thread.spawn(move || own.carry_out_requests()).inspect_err(|_| serving.end())?;
        }
        let (ready, is_ready) = mpsc::channel();
        let (own, path) = (Arc::clone(&serving), path.to_owned());
        let thread = thread::Builder::new().name("ublk-queue".to_owned());
        let thread = thread.spawn(move || {
            own.run_queue(&path, (depth, request_bytes), ready);
            own.end();
        });
        let thread = thread.inspect_err(|_| serving.end())?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok((serving, thread)),
            Ok(Err(error)) => Err(error),
            Err(mpsc::RecvError) => Err(io::Error::other("the thread of the queue has ended")),
        }
    }

    /// Lets those who carry requests out end.
    fn end(&self) {
        locked(&self.pending).is_over = true;
        self.arrived.notify_all();
    }

    fn run_queue(&self, path: &Path, (depth, request_bytes): (u16, u32), ready: Sender<io::Result<()>>) {
        without_waiting_for_memory();
        let mut queue = match Queue::open(path, depth, request_bytes, Arc::clone(&self.waker)) {
            Ok(queue) => queue,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        if let Err(error) = self.serve(&mut queue, depth.into()) {
            (self.options.on_failure)(&DeviceError::from_io("serve", path.display().to_string(), error));
        }
    }

    /// Takes requests and gives answers until every tag has ended.
    fn serve(&self, queue: &mut Queue, mut tags: usize) -> io::Result<()> {
        while tags > 0 {
            queue.wait()?;
            let mut came = 0;
            while let Some(arrival) = queue.arrival() {
                match arrival {
                    Arrival::Request { tag, descriptor: Ok(descriptor), buffer } => {
                        locked(&self.pending).requests.push_back(Request { tag, descriptor, buffer });
                        came += 1;
                    }
                    Arrival::Request { tag, descriptor: Err(_), buffer } => {
                        queue.answer(tag, -Errno::INVAL.raw_os_error(), buffer)?;
                    }
                    Arrival::Ended => tags -= 1,
                    Arrival::Woken => {}
                    Arrival::Failed(error) => return Err(error),
                }
            }
            for _ in 0..came {
                self.arrived.notify_one();
            }
            let answers = std::mem::take(&mut *locked(&self.answers));
            for Answer { tag, result, buffer } in answers {
                queue.answer(tag, result, buffer)?;
            }
        }
        Ok(())
    }

    fn carry_out_requests(&self) {
        without_waiting_for_memory();
        while let Some(Request { tag, descriptor, mut buffer }) = self.next_request() {
            let result = match self.gate.enter() {
                Some(_inside) => self.carry_out(descriptor, &mut buffer),
                None => -Errno::IO.raw_os_error(),
            };
            let mut answers = locked(&self.answers);
            answers.push(Answer { tag, result, buffer });
            let is_first = answers.len() == 1;
            drop(answers);
            // Who takes that one takes all.
            if is_first {
                self.waker.wake();
            }
        }
    }

    fn next_request(&self) -> Option<Request> {
        let mut pending = locked(&self.pending);
        loop {
            if let Some(request) = pending.requests.pop_front() {
                return Some(request);
            }
            if pending.is_over {
                return None;
            }
            pending = self.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Bytes that were moved, or a negative error number.
    fn carry_out(&self, descriptor: Descriptor, buffer: &mut AlignedBuf) -> i32 {
        match carry_out(&*self.device, &self.options, descriptor, buffer) {
            Ok(moved) => moved,
            Err(Refused::Unknown) => -Errno::OPNOTSUPP.raw_os_error(),
            Err(Refused::TooLong) => -Errno::INVAL.raw_os_error(),
            Err(Refused::ByDevice(error)) => {
                (self.options.on_failure)(&error);
                let number = match error.kind() {
                    DeviceErrorKind::NoSpace => Errno::NOSPC,
                    DeviceErrorKind::Unsupported => Errno::OPNOTSUPP,
                    _ => Errno::IO,
                };
                -number.raw_os_error()
            }
        }
    }
}

/// The kernel waits for us when it writes back dirty pages to be able to use their memory; so no allocation
/// of these threads may wait for that. Only root may say so, and nothing else depends on it.
fn without_waiting_for_memory() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

#[derive(Debug)]
enum Refused {
    Unknown,
    TooLong,
    ByDevice(DeviceError),
}

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Self {
        Self::ByDevice(error)
    }
}

fn carry_out(
    device: &dyn Device,
    options: &UblkOptions,
    Descriptor { operation, offset, len }: Descriptor,
    buffer: &mut [u8],
) -> Result<i32, Refused> {
    match operation {
        Operation::Read | Operation::Write { .. } => {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let buffer = buffer.get_mut(..len).ok_or(Refused::TooLong)?;
            match operation {
                Operation::Read => device.read_at(buffer, offset)?,
                Operation::Write { durable: true } => device.write_through(buffer, offset)?,
                _ => device.write_at(buffer, offset)?,
            }
            return i32::try_from(len).map_err(|_| Refused::TooLong);
        }
        Operation::Flush => device.flush()?,
        Operation::Discard => give_up(device, offset, len)?,
        Operation::WriteZeroes { durable, may_punch } => {
            write_zeroes(device, offset, len, may_punch && options.zeroes_are_holes)?;
            if durable {
                device.flush()?;
            }
        }
        Operation::Unknown(_) => return Err(Refused::Unknown),
    }
    Ok(0)
}

#[cfg(test)]
#[path = "serving_tests.rs"]
mod tests;
