//! Files and block devices.
//!
//! Rules of this module, numbered for reference:
//! 1. A single request is one plain system call on the calling thread, with no lock but a shared one, because
//!    a page read from flash has to cost what the device costs.
//! 2. Transfers whose memory, offset or length is not aligned go through a bounce buffer on a direct device,
//!    except writes of an unaligned range: these go through the page cache, alone, because a
//!    read-modify-write of the edges would lose the write of a neighbour and could lengthen the file.
//! 3. All flushes of a process use one descriptor. The kernel reports a lost write once per open file; two
//!    flushes at once could see it reported to the other, so they take turns, and the first failure is final.
//!    A process that was forked shares the open file with others and opens it once more for its flushes
//!    ([`Device::flush_apart`]).
//! 4. What goes to a sequential zone of a block device goes past the page cache, one call after the other in
//!    the order of the batch, and never twice (`zoned`).

mod report;

mod open;

mod transfer;

mod pool;

mod ring;

mod ahead;

mod zoned;

mod kernel;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

pub use open::{DirectIo, IoEngine, OpenOptions};

use crate::{AlignedBuf, Capabilities, Device, DeviceError, DeviceErrorKind, ReadsAhead, Request, Zone};
use open::Opened;
use transfer::{Memory, Transfer};

/// A regular file or a block device.
pub struct FileDevice {
    path: PathBuf,
    opened: Opened,
    writable: bool,
    batches: Batches,
    /// Shared by aligned writes, exclusive to a write through the page cache on a direct device (rule 2).
    edges: RwLock<()>,
    flush: FlushState,
}

/// How a batch is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batches {
    Ring,
    /// By a ring, and without threads where none can be had.
    RingAlone,
    Pool,
    OneByOne,
}

fn one_by_one(transfers: &mut [Transfer<'_>]) -> Vec<io::Result<()>> {
    transfers.iter_mut().map(Transfer::carry_out).collect()
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        kernel::unlock(&self.opened.buffered);
    }
}

/// Who flushes when. A flush that begins after a call was made covers that call too, so callers that wait for
/// one another share flushes.
#[derive(Default)]
struct FlushState {
    /// Flushes begun so far.
    begun: AtomicU64,
    /// Number of the last flush that succeeded; held while flushing.
    succeeded: Mutex<u64>,
    failed: AtomicBool,
    /// The file as this process alone has opened it,
    apart: OnceLock<std::fs::File>,
    /// and that it was to: without it no flush succeeds.
    apart_wanted: AtomicBool,
    /// The next flush fails, and those after it would not: as the kernel reports a lost write.
    #[cfg(test)]
    fails_once: AtomicBool,
}

impl FileDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `PermissionDenied`, `ReadOnly`, `SymbolicLink`, `Busy`, `NoSpace`;
    /// `Unsupported` for what is neither a file nor a block device, and for direct I/O or io_uring where
    /// they are demanded and missing. A file that was created by a call that failed is removed again.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        Self::with(path, options, || open::open(path, options))
    }

    /// The file or block device that is open as `file`; what `options` say of finding and creating it has no
    /// meaning here.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn of_file(file: std::fs::File, path: &Path, options: &OpenOptions) -> Result<Self, DeviceError> {
        Self::with(path, options, || open::of_file(file, path, options))
    }

    fn with(
        path: &Path,
        options: &OpenOptions,
        open: impl FnOnce() -> Result<Opened, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let batches = match (options.engine, ring::unavailable()) {
            (IoEngine::Sequential, _) | (IoEngine::RingOrSequential, Some(_)) => Batches::OneByOne,
            (IoEngine::RingOrSequential, None) => Batches::RingAlone,
            (IoEngine::ThreadPool, _) | (IoEngine::Auto, Some(_)) => Batches::Pool,
            (IoEngine::Auto | IoEngine::IoUring, None) => Batches::Ring,
            (IoEngine::IoUring, Some(reason)) => {
                let error =
                    DeviceError::new(DeviceErrorKind::Unsupported, "open", path.display().to_string());
                return Err(error.advise(format!("{reason}; use the thread pool")));
            }
        };
        let opened = open()?;
        let in_memory = || kernel::lies_in_memory(&opened.buffered);
        let batches = if batches == Batches::RingAlone && in_memory() { Batches::OneByOne } else { batches };
        let (path, writable) = (path.to_path_buf(), options.write);
        Ok(Self { path, opened, writable, batches, edges: RwLock::new(()), flush: FlushState::default() })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor that has the locks, if any, and whose locks cover all others of this device.
    pub fn file(&self) -> &std::fs::File {
        &self.opened.buffered
    }

    /// Whether transfers bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.opened.direct.is_some()
    }

    fn error(&self, kind: DeviceErrorKind, operation: &'static str) -> DeviceError {
        DeviceError::new(kind, operation, self.describe())
    }

    fn io_error(&self, operation: &'static str, source: io::Error) -> DeviceError {
        DeviceError::from_io(operation, self.describe(), source)
    }

    /// The error of a request with a range.
    fn failed(&self, operation: &'static str, offset: u64, len: usize, source: io::Error) -> DeviceError {
        let error = self.io_error(operation, source).at(offset, len as u64);
        match error.kind() {
            DeviceErrorKind::NoSpace => error.advise("free some space on its file system or raise the limit"),
            _ => error,
        }
    }

    fn file_len(&self) -> io::Result<u64> {
        match self.opened.block_device_len {
            Some(len) => Ok(len),
            None => Ok(self.opened.buffered.metadata()?.len()),
        }
    }

    /// Whether a transfer can go to a direct descriptor as it is.
    fn is_aligned(&self, address: *const u8, offset: u64, len: usize) -> bool {
        let block = self.block_size() as usize;
        address as usize % block == 0 && self.is_range_aligned(offset, len)
    }

    fn is_range_aligned(&self, offset: u64, len: usize) -> bool {
        let block = self.block_size();
        offset % u64::from(block) == 0 && len % block as usize == 0
    }

    fn block_size(&self) -> u32 {
        self.opened.direct.as_ref().map_or(1, |(_, alignment)| *alignment)
    }

    /// Refuses what can be refused without asking the kernel.
    fn check(&self, request: &Request<'_>) -> Result<(), DeviceError> {
        let operation = request.operation();
        if !self.writable && request.is_change() {
            return Err(self.error(DeviceErrorKind::ReadOnly, operation).advise("open it for writing"));
        }
        if !matches!(request, Request::Read { .. }) {
            self.check_latch(operation)?;
        }
        let Some((offset, len)) = request.range() else { return Ok(()) };
        let limit = self.opened.block_device_len.unwrap_or(i64::MAX as u64);
        match offset.checked_add(len) {
            Some(end) if end <= limit => Ok(()),
            _ if matches!(request, Request::Read { .. }) => {
                Err(self.error(DeviceErrorKind::UnexpectedEnd, operation).at(offset, len))
            }
            _ => Err(self.error(DeviceErrorKind::OutOfRange, operation).at(offset, len)),
        }?;
        self.check_zones(request)
    }

    fn check_latch(&self, operation: &'static str) -> Result<(), DeviceError> {
        if !self.flush.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let error = self.error(DeviceErrorKind::FlushFailed, operation);
        Err(error.advise("check the drive and the kernel's log, then open it again and recover"))
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), DeviceError> {
        let len = buf.len();
        let done = match &self.opened.direct {
            Some((file, _)) if !self.is_aligned(buf.as_ptr(), offset, len) => {
                let mut bounce = Bounce::covering(offset, len, self.block_size());
                let result = bounce.read(file, &self.opened.buffered);
                result.map(|()| buf.copy_from_slice(bounce.wanted()))
            }
            Some((file, _)) => self.transfer(file, Memory::Read(buf), offset).carry_out(),
            None => self.transfer(&self.opened.buffered, Memory::Read(buf), offset).carry_out(),
        };
        done.map_err(|error| self.failed("read", offset, len, error))
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<(), DeviceError> {
        let len = buf.len();
        let done = match &self.opened.direct {
            Some(_) if !self.is_range_aligned(offset, len) => {
                let _alone = self.edges.write().unwrap_or_else(PoisonError::into_inner);
                self.transfer(&self.opened.buffered, Memory::Write(buf), offset).carry_out()
            }
            Some((file, _)) => {
                let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
                if self.is_aligned(buf.as_ptr(), offset, len) {
                    self.transfer(file, Memory::Write(buf), offset).carry_out()
                } else {
                    let copy = AlignedBuf::copy_of(buf);
                    self.transfer(file, Memory::Write(&copy), offset).carry_out()
                }
            }
            None => self.transfer(&self.opened.buffered, Memory::Write(buf), offset).carry_out(),
        };
        done.map_err(|error| self.failed("write", offset, len, error))
    }

    fn transfer<'t>(&'t self, file: &'t std::fs::File, memory: Memory<'t>, offset: u64) -> Transfer<'t> {
        Transfer { file, buffered: &self.opened.buffered, memory, offset, done: 0 }
    }

    fn flush_all(&self) -> Result<(), DeviceError> {
        let begun_before = self.flush.begun.load(Ordering::SeqCst);
        let mut succeeded = self.flush.succeeded.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_latch("flush")?;
        if *succeeded > begun_before {
            // Another caller's flush began after this call was made, and has succeeded.
            return Ok(());
        }
        let number = self.flush.begun.fetch_add(1, Ordering::SeqCst) + 1;
        match self.sync_file() {
            Ok(()) => {
                *succeeded = number;
                Ok(())
            }
            Err(error) => {
                self.flush.failed.store(true, Ordering::Release);
                let error = self.io_error("flush", error);
                Err(error
                    .advise("what was written since the last flush may be lost; nothing more is written"))
            }
        }
    }

    fn sync_file(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.flush.fails_once.swap(false, Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if self.flush.apart_wanted.load(Ordering::Acquire) {
            self.open_apart()?;
        }
        self.flush.apart.get().unwrap_or(&self.opened.buffered).sync_data()
    }

    /// Opens the file once more for the flushes of this process, unless it has.
    fn open_apart(&self) -> io::Result<()> {
        if self.flush.apart.get().is_none() {
            let file = kernel::open_again(&self.opened.buffered, &self.path)?;
            // Another thread may have done it meanwhile; then that one's serves.
            let _ = self.flush.apart.set(file);
        }
        Ok(())
    }

    fn discard_range(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if len == 0 {
            return Ok(());
        }
        let file = &self.opened.buffered;
        let done = match self.opened.block_device_len {
            Some(_) => kernel::discard_blocks(file, offset, len),
            None => kernel::punch_hole(file, offset, len),
        };
        done.map_err(|error| {
            let error = self.io_error("discard from", error).at(offset, len);
            match error.kind() {
                DeviceErrorKind::Unsupported => {
                    error.advise("its contents are unchanged; do without discard here")
                }
                _ => error,
            }
        })
    }

    /// Carries out the reads and writes among `requests` at once through the ring or the pool.
    fn run_transfers(
        &self,
        requests: &mut [(usize, &mut Request<'_>)],
        results: &mut [Result<(), DeviceError>],
    ) {
        let file = self.opened.direct.as_ref().map_or(&self.opened.buffered, |(file, _)| file);
        let mut bounces: Vec<Option<Bounce>> =
            requests.iter().map(|(_, request)| self.bounce_for(request)).collect();
        let mut transfers = Vec::with_capacity(requests.len());
        for ((_, request), bounce) in requests.iter_mut().zip(&mut bounces) {
            transfers.push(match (&mut **request, bounce) {
                (Request::Read { .. }, Some(bounce)) => {
                    self.transfer(file, Memory::Read(&mut bounce.buffer), bounce.start)
                }
                (Request::Read { offset, buf }, None) => self.transfer(file, Memory::Read(buf), *offset),
                (Request::Write { .. }, Some(bounce)) => {
                    self.transfer(file, Memory::Write(&bounce.buffer), bounce.start)
                }
                (Request::Write { offset, buf, .. }, None) => {
                    self.transfer(file, Memory::Write(buf), *offset)
                }
                _ => unreachable!("only transfers are passed here"),
            });
        }
        let shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
        // A process that is killed in a system call is there until the call has ended. What it has given to a
        // ring the kernel carries out after it is gone: a write would come behind a recovery, over what was
        // written since.
        let is_write = |transfer: &Transfer<'_>| matches!(transfer.memory, Memory::Write(_));
        let ringed = if transfers.iter().any(is_write) { None } else { self.run_ringed(&mut transfers) };
        let outcomes = ringed.unwrap_or_else(|| match self.batches {
            Batches::Ring | Batches::Pool => pool::run(&mut transfers),
            Batches::RingAlone | Batches::OneByOne => one_by_one(&mut transfers),
        });
        drop(shared);
        let done: Vec<usize> = transfers.iter().map(|transfer| transfer.done).collect();
        drop(transfers);
        for (((index, request), bounce), (outcome, done)) in
            requests.iter_mut().zip(&bounces).zip(outcomes.into_iter().zip(done))
        {
            let operation = request.operation();
            let (offset, len) = request.range().unwrap_or_default();
            let outcome = match (&mut **request, bounce) {
                (Request::Read { buf, .. }, Some(bounce)) => {
                    bounce.enough(outcome, done).map(|()| buf.copy_from_slice(bounce.wanted()))
                }
                _ => outcome,
            };
            results[*index] = outcome.map_err(|error| self.failed(operation, offset, len as usize, error));
        }
    }

    /// Through the ring, if batches go there.
    fn run_ringed(&self, transfers: &mut [Transfer<'_>]) -> Option<Vec<io::Result<()>>> {
        match self.batches {
            Batches::Ring | Batches::RingAlone => ring::run(transfers),
            Batches::Pool | Batches::OneByOne => None,
        }
    }

    /// The aligned stand-in for the memory of a transfer that a direct descriptor would refuse.
    fn bounce_for(&self, request: &Request<'_>) -> Option<Bounce> {
        self.opened.direct.as_ref()?;
        match request {
            Request::Read { offset, buf } if !self.is_aligned(buf.as_ptr(), *offset, buf.len()) => {
                Some(Bounce::covering(*offset, buf.len(), self.block_size()))
            }
            Request::Write { offset, buf, .. } if !self.is_aligned(buf.as_ptr(), *offset, buf.len()) => {
                let mut bounce = Bounce::covering(*offset, buf.len(), self.block_size());
                debug_assert_eq!(
                    bounce.buffer.len(),
                    buf.len(),
                    "unaligned ranges are written through the cache"
                );
                bounce.buffer.copy_from_slice(buf);
                Some(bounce)
            }
            _ => None,
        }
    }

    /// Whether a request is a transfer that may run beside others.
    fn is_concurrent(&self, request: &Request<'_>) -> bool {
        match request {
            Request::Read { .. } => true,
            Request::Write { offset, buf, .. } => {
                !self.is_in_zone(*offset) && self.is_range_aligned(*offset, buf.len())
            }
            _ => false,
        }
    }
}

impl Device for FileDevice {
    fn reads_ahead(self: Arc<Self>, places: usize, bytes: usize) -> Result<Box<dyn ReadsAhead>, DeviceError> {
        ahead::reads_ahead(self, places, bytes)
    }

    fn capabilities(&self) -> Capabilities {
        let sector = self.opened.block_device_len.map(|_| kernel::sector_size(&self.opened.buffered));
        Capabilities {
            // A file whose metadata cannot be read has no bytes that could be relied on.
            len: self.file_len().unwrap_or(0),
            block_size: self.block_size(),
            atomic_write: sector.and_then(Result::ok).unwrap_or(0),
            volatile_cache: true,
            can_resize: self.writable && self.opened.block_device_len.is_none(),
            write_through: self.writes_through(),
            zones: self.opened.zones,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut results: Vec<Result<(), DeviceError>> =
            batch.iter().map(|request| self.check(request)).collect();
        let mut transfers = Vec::with_capacity(batch.len());
        for (index, request) in batch.iter_mut().enumerate() {
            if results[index].is_err() {
                continue;
            }
            if self.is_concurrent(request) {
                transfers.push((index, request));
            } else {
                // Flushes and other rarities come first, one by one: a flush covers nothing of its own batch
                // anyway.
                results[index] = self.carry_out(request);
            }
        }
        match &mut transfers[..] {
            [] => {}
            [(index, request)] => results[*index] = self.carry_out(request),
            many => self.run_transfers(many, &mut results),
        }
        results
    }

    fn run_one(&self, mut request: Request<'_>) -> Result<(), DeviceError> {
        self.check(&request)?;
        self.carry_out(&mut request)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        let operation = "set the length of";
        if self.opened.block_device_len.is_some() {
            return Err(self
                .error(DeviceErrorKind::Unsupported, operation)
                .advise("a block device has a fixed length"));
        }
        if !self.writable {
            return Err(self.error(DeviceErrorKind::ReadOnly, operation).advise("open it for writing"));
        }
        self.check_latch(operation)?;
        self.opened.buffered.set_len(len).map_err(|error| self.io_error(operation, error).at(0, len))
    }

    fn reserve(&self, len: u64) -> Result<(), DeviceError> {
        let operation = "reserve space for";
        let before = self.len();
        if self.opened.block_device_len.is_some() || !self.writable || len == 0 {
            return if before < len { self.set_len(len) } else { Ok(()) };
        }
        self.check_latch(operation)?;
        match kernel::reserve(&self.opened.buffered, len) {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) && before < len => self.set_len(len),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            Err(error) => {
                // A reservation that failed halfway may have extended the file.
                let _ = self.opened.buffered.set_len(before);
                Err(self.io_error(operation, error).at(0, len))
            }
        }
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        let len = self.len();
        if offset >= len {
            return Ok(None);
        }
        if self.opened.block_device_len.is_some() {
            return Ok(Some(offset..len));
        }
        match kernel::data_from(&self.opened.buffered, offset) {
            // A file system that knows no holes.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                Ok(Some(offset..len))
            }
            found => found.map_err(|error| self.io_error("look for data in", error)),
        }
    }

    fn flush_apart(&self) -> Result<(), DeviceError> {
        if !self.writable {
            return Ok(());
        }
        self.flush.apart_wanted.store(true, Ordering::Release);
        self.open_apart().map_err(|error| self.io_error("open once more", error))
    }

    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        self.reported_zone(offset)
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn len(&self) -> u64 {
        self.file_len().unwrap_or(0)
    }
}

impl FileDevice {
    fn carry_out(&self, request: &mut Request<'_>) -> Result<(), DeviceError> {
        match request {
            Request::Read { offset, buf } => self.read(buf, *offset),
            Request::Write { offset, buf, .. } if self.is_in_zone(*offset) => {
                self.write_in_order(buf, *offset, false)
            }
            Request::Write { offset, buf, .. } => self.write(buf, *offset),
            Request::WriteThrough { offset, buf } if self.writes_through() => {
                self.write_durably(buf, *offset)
            }
            Request::Reset { zone } if self.opened.zones.is_some() => self.reset(*zone),
            Request::Finish { zone } if self.opened.zones.is_some() => self.finish(*zone),
            Request::Flush => self.flush_all(),
            Request::Discard { offset, len } => self.discard_range(*offset, *len),
            // Linux has no system call by which a block device chooses the place in a zone.
            Request::WriteThrough { .. }
            | Request::Append { .. }
            | Request::Reset { .. }
            | Request::Finish { .. } => Err(request.unsupported(self.describe())),
        }
    }
}

/// Aligned memory for an aligned range that covers an unaligned one.
struct Bounce {
    buffer: AlignedBuf,
    start: u64,
    /// Where in the buffer the wanted bytes lie.
    skip: usize,
    len: usize,
}

impl Bounce {
    fn covering(offset: u64, len: usize, block_size: u32) -> Self {
        let block = u64::from(block_size);
        let start = offset - offset % block;
        let end = (offset + len as u64).next_multiple_of(block);
        let buffer = AlignedBuf::zeroed((end - start) as usize);
        Self { buffer, start, skip: (offset - start) as usize, len }
    }

    fn wanted(&self) -> &[u8] {
        &self.buffer[self.skip..self.skip + self.len]
    }

    fn read(&mut self, direct: &std::fs::File, buffered: &std::fs::File) -> io::Result<()> {
        let memory = Memory::Read(&mut self.buffer);
        let mut transfer = Transfer { file: direct, buffered, memory, offset: self.start, done: 0 };
        let outcome = transfer.carry_out();
        let done = transfer.done;
        self.enough(outcome, done)
    }

    /// The file may end inside the last block, behind the wanted bytes.
    fn enough(&self, outcome: io::Result<()>, done: usize) -> io::Result<()> {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && done >= self.skip + self.len => {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests;
