//! Transmission: requests in, replies out, by threads that take turns at reading.
//!
//! A thread reads one request, lets the next thread read, carries its request out and sends the reply. So
//! there are as many requests under way as threads, replies leave in the order in which requests are done,
//! and the device sees the depth that the client keeps up. Threads are begun when a request is read and none
//! is left to read the next, up to the limit; with all of them busy nobody reads, and the client waits.
//!
//! Lock order: `input`, then `large`; `output` alone.

use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use mezzanine_device::DeviceError;

use super::carry_out::{Buffer, Outcome, carry_out, error_number};
use super::export::{Export, Offer};
use super::haggle::{Ended, Violation, read_message, skip};
use super::negotiation::Agreed;
use super::request::{Command, HEADER_BYTES, Header, Refusal};
use super::stream::write_both;
use super::wire::{ErrorNumber, ReplyHeader, chunk, error_payload};

/// What is read at once, in bytes: many requests without payload, or one small write.
const INPUT_BYTES: usize = 64 << 10;
/// Requests under way that need more memory than threads keep.
const LARGE_MAX: usize = 2;

/// What a connection stands on.
pub(super) struct Terms<'c> {
    pub(super) export: &'c Export,
    pub(super) offer: &'c Offer,
    pub(super) agreed: Agreed,
    pub(super) threads_max: usize,
    /// The server is shutting down: nothing more is begun.
    pub(super) closing: &'c AtomicBool,
    /// Ends the connection for whoever reads from it.
    pub(super) hang_up: &'c (dyn Fn() + Sync),
    /// Told of each request that the device has failed.
    pub(super) on_failure: &'c (dyn Fn(&DeviceError) + Sync),
}

/// One client in transmission.
pub(super) struct Connection<'c> {
    terms: Terms<'c>,
    input: Mutex<Input<'c>>,
    output: Mutex<Box<dyn Write + Send + 'c>>,
    /// Threads that read, or wait until they may.
    readers: AtomicUsize,
    threads: AtomicUsize,
    large: Permits,
}

struct Input<'c> {
    reader: BufReader<Box<dyn Read + Send + 'c>>,
    ended: Option<Ended>,
}

/// A request whose payload, if any, is in the thread's buffer.
struct Received<'p> {
    cookie: u64,
    command: Result<Command, Refusal>,
    /// Held until the reply is sent.
    _large: Option<Permit<'p>>,
}

impl<'c> Connection<'c> {
    /// A connection on these terms, between these ends.
    pub(super) fn new(
        terms: Terms<'c>,
        reader: Box<dyn Read + Send + 'c>,
        writer: Box<dyn Write + Send + 'c>,
    ) -> Self {
        let input = Input { reader: BufReader::with_capacity(INPUT_BYTES, reader), ended: None };
        Self {
            terms,
            input: Mutex::new(input),
            output: Mutex::new(writer),
            readers: AtomicUsize::new(0),
            threads: AtomicUsize::new(1),
            large: Permits::new(LARGE_MAX),
        }
    }

    /// Serves the client until the connection ends, and all that was under way with it.
    pub(super) fn transmit(&self) -> Ended {
        thread::scope(|scope| self.work(scope));
        lock(&self.input).ended.take().unwrap_or(Ended::Closed)
    }

    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let _guard = HangUpOnPanic(self);
        let mut buffer = Buffer::new();
        while let Some(received) = self.receive(&mut buffer) {
            if self.readers.load(Ordering::SeqCst) == 0 {
                self.begin_thread(scope);
            }
            self.answer(received, &mut buffer);
            buffer.shrink();
        }
    }

    fn begin_thread<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        if self.threads.fetch_add(1, Ordering::SeqCst) >= self.terms.threads_max {
            self.threads.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let thread = thread::Builder::new().name("nbd".to_owned());
        if thread.spawn_scoped(scope, || self.work(scope)).is_err() {
            // The system has no more; those that there are go on.
            self.threads.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The next request; none after the end.
    fn receive(&self, buffer: &mut Buffer) -> Option<Received<'_>> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        let mut input = lock(&self.input);
        let received = if input.ended.is_some() { None } else { self.read_request(&mut input, buffer) };
        drop(input);
        self.readers.fetch_sub(1, Ordering::SeqCst);
        // What is read into memory beyond that of a thread waits here, without the input: others go on.
        received.map(|mut received| {
            if let Ok(Command::Read { len, .. }) = received.command {
                received._large = self.large_if(len);
            }
            received
        })
    }

    fn large_if(&self, len: u32) -> Option<Permit<'_>> {
        (len as usize > Buffer::KEPT_BYTES).then(|| self.large.take())
    }

    fn read_request(&self, input: &mut Input<'c>, buffer: &mut Buffer) -> Option<Received<'_>> {
        let read = self.try_read_request(&mut input.reader, buffer);
        match read {
            Ok(Received { command: Ok(Command::Disconnect), .. }) => {
                input.ended = Some(Ended::Done);
                None
            }
            Ok(received) => Some(received),
            Err(ended) => {
                let stopped = self.terms.closing.load(Ordering::SeqCst);
                input.ended = Some(if stopped { Ended::Stopped } else { ended });
                None
            }
        }
    }

    fn try_read_request(
        &self,
        reader: &mut BufReader<Box<dyn Read + Send + 'c>>,
        buffer: &mut Buffer,
    ) -> Result<Received<'_>, Ended> {
        let mut bytes = [0; HEADER_BYTES];
        if !read_message(reader, &mut bytes)? {
            return Err(Ended::Closed);
        }
        let Some(header) = Header::parse(&bytes) else {
            return Err(Ended::Violation(Violation("a request does not begin as requests do")));
        };
        let mut command = header.command(self.terms.offer, &self.terms.agreed);
        if self.terms.closing.load(Ordering::SeqCst) && command != Ok(Command::Disconnect) {
            command = Err(Refusal { error: ErrorNumber::Shutdown, why: "the server is shutting down" });
        }
        let payload = header.payload();
        let mut large = None;
        if command.is_err() {
            skip(reader, u64::from(payload))?;
        } else if payload > 0 {
            large = self.large_if(payload);
            reader.read_exact(buffer.take(payload as usize))?;
        }
        Ok(Received { cookie: header.cookie, command, _large: large })
    }

    fn answer(&self, received: Received<'_>, buffer: &mut Buffer) {
        let cookie = received.cookie;
        let outcome = match received.command {
            Ok(command) => carry_out(self.terms.export, command, buffer).map_err(|error| {
                (self.terms.on_failure)(&error);
                (error_number(&error), error.to_string())
            }),
            Err(refusal) => Err((refusal.error, refusal.why.to_owned())),
        };
        let structured = self.terms.agreed.structured;
        let (payload, bytes);
        let (header, tail) = match outcome {
            Ok(Outcome::Read { offset, len }) => {
                bytes = buffer.filled(len as usize);
                let header = match structured {
                    true => ReplyHeader::data_chunk(cookie, offset, len),
                    false => ReplyHeader::simple(cookie, 0),
                };
                (header, bytes)
            }
            Ok(Outcome::BlockStatus(extents)) => {
                payload = extents;
                (ReplyHeader::last_chunk(cookie, chunk::BLOCK_STATUS, payload.len() as u32), &payload[..])
            }
            Ok(Outcome::Done) if structured => (ReplyHeader::last_chunk(cookie, chunk::NONE, 0), &[][..]),
            Ok(Outcome::Done) => (ReplyHeader::simple(cookie, 0), &[][..]),
            Err((error, message)) if structured => {
                payload = error_payload(error, &message);
                (ReplyHeader::last_chunk(cookie, chunk::ERROR, payload.len() as u32), &payload[..])
            }
            Err((error, _)) => (ReplyHeader::simple(cookie, error as u32), &[][..]),
        };
        let sent = write_both(&mut **lock(&self.output), header.bytes(), tail);
        if sent.is_err() {
            // A reply that was cut off can have no other behind it.
            (self.terms.hang_up)();
        }
    }
}

/// A thread that has panicked leaves the bytes of a connection at an unknown place only while it holds the
/// lock, and none does anything there that panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client whose request nobody answers any more is not left waiting for that.
struct HangUpOnPanic<'g, 'c>(&'g Connection<'c>);

impl Drop for HangUpOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0.terms.hang_up)();
        }
    }
}

/// How many may do something at the same time.
struct Permits {
    free: Mutex<usize>,
    returned: Condvar,
}

struct Permit<'p>(&'p Permits);

impl Permits {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), returned: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        let free = self.returned.wait_while(lock(&self.free), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.returned.notify_one();
    }
}
