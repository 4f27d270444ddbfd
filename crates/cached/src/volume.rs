//! A volume as a device.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_fragment::{DeviceError as Refused, FlushToken, WriteToken};

use crate::host::{Running, Shared};
use crate::latency::Served;
use crate::marks::Waited;
use crate::statistics::{add, count};

/// A backing device with the cache before it. It is as long as the backing device was when it was made part
/// of the cache, and can do what that can do; its length does not change.
#[derive(Clone)]
pub struct CachedVolume {
    pub(crate) running: Arc<Running>,
    pub(crate) number: usize,
}

impl CachedVolume {
    fn shared(&self) -> &Shared {
        &self.running.shared
    }

    fn backing(&self) -> &dyn Device {
        self.shared().backing(self.number)
    }

    fn closed(&self, request: &Request<'_>) -> DeviceError {
        let error = DeviceError::new(DeviceErrorKind::Io, request.operation(), self.describe());
        let error = error.advise("its cache was closed: attach it again");
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }
}

impl Device for CachedVolume {
    fn capabilities(&self) -> Capabilities {
        let len = self.shared().cache.geometry().config().volumes[self.number];
        Capabilities { len, can_resize: false, zones: None, ..self.backing().capabilities() }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        match self.shared().enter() {
            Some(_under_way) => self.shared().batch(self.number, batch),
            None => batch.iter().map(|request| Err(self.closed(request))).collect(),
        }
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let (shared, volume) = (self.shared(), self.number);
        let Some(_under_way) = shared.enter() else { return Err(self.closed(&request)) };
        let result = match request {
            Request::Read { offset, buf } => shared.read(volume, offset, buf),
            Request::Write { offset, buf, .. } => shared.write(volume, offset, buf, false),
            Request::WriteThrough { offset, buf } => shared.write(volume, offset, buf, true),
            Request::Discard { offset, len } => shared.discard(volume, offset, len),
            Request::Flush => shared.flush(volume),
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                Err(request.unsupported(self.describe()))
            }
        };
        result.inspect_err(|_| count(&shared.volumes[volume].failed))
    }

    fn set_len(&self, _: u64) -> Result<(), DeviceError> {
        let error = DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe());
        Err(error.advise("detach it from its cache, and make a new cache when it has its new length"))
    }

    fn describe(&self) -> String {
        self.backing().describe()
    }

    fn flush_apart(&self) -> Result<(), DeviceError> {
        self.backing().flush_apart()
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.backing().data_from(offset)
    }
}

/// A request that is under way.
pub(crate) struct UnderWay<'s>(&'s Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// Lets a request in; none once the cache is closed. It is counted before that is asked: whoever closes
    /// waits for it, or it is not let in.
    fn enter(&self) -> Option<UnderWay<'_>> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(self);
        (!self.is_closed.load(Ordering::SeqCst)).then_some(under_way)
    }

    fn write(&self, volume: usize, offset: u64, buf: &[u8], durable: bool) -> Result<(), DeviceError> {
        let since = Instant::now();
        let range = (offset, buf.len() as u64);
        let token = self.in_turn(volume, range, || self.write_begin(volume, offset, buf))?;
        self.offer_work();
        let token = self.wait_for(token, volume, "write", (offset, buf.len() as u64))?;
        let backing = self.backing(volume);
        let result = if durable {
            count(&self.counters.writes_durable);
            backing.run_one(Request::WriteThrough { offset, buf })
        } else {
            backing.write_at(buf, offset)
        };
        self.end(token, &result);
        if result.is_ok() {
            self.has_served(volume, Served::Write, buf.len(), since);
        }
        result
    }

    fn discard(&self, volume: usize, offset: u64, len: u64) -> Result<(), DeviceError> {
        let since = Instant::now();
        let token = self.discard_begin(volume, offset, len)?;
        self.offer_work();
        let token = self.wait_for(token, volume, "discard from", (offset, len))?;
        let result = self.backing(volume).discard(offset, len);
        self.end(token, &result);
        if result.is_ok() {
            self.has_served(volume, Served::Discard, 0, since);
        }
        result
    }

    pub(crate) fn flush(&self, volume: usize) -> Result<(), DeviceError> {
        let since = Instant::now();
        let token = self.flush_begin(volume);
        let result = self.backing(volume).flush();
        self.flushed(token, &result);
        if result.is_ok() {
            self.has_served(volume, Served::Flush, 0, since);
        }
        result
    }

    /// Counts a request of so many bytes.
    pub(crate) fn has_served(&self, volume: usize, served: Served, bytes: usize, since: Instant) {
        let of = &self.volumes[volume];
        let (requests, moved) = match served {
            Served::Cache => (&of.reads_cache, Some(&of.bytes_read)),
            Served::Backing => (&of.reads_backing, Some(&of.bytes_read)),
            Served::Both => (&of.reads_both, Some(&of.bytes_read)),
            Served::Write => (&of.writes, Some(&of.bytes_written)),
            Served::Flush => (&of.flushes, None),
            Served::Discard => (&of.discards, None),
            Served::Mark => unreachable!("nobody asks for a mark"),
        };
        count(requests);
        if let Some(moved) = moved {
            add(moved, bytes as u64);
        }
        self.latencies.record(served, since);
    }

    /// The cache device alone was read since then.
    pub(crate) fn cache_was_read(&self, since: Instant) {
        if self.cache.yield_us() > 0 {
            let took = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.cache.cache_read_took(self.now(), took);
        }
    }

    /// The engine wants to know what is durable if its map is to survive.
    pub(crate) fn flush_begin(&self, volume: usize) -> Option<FlushToken> {
        self.has_map().then(|| self.cache.flush_begin(volume).expect("a volume that is served"))
    }

    pub(crate) fn flushed(&self, token: Option<FlushToken>, result: &Result<(), DeviceError>) {
        if let Some(token) = token {
            self.cache.flush_end(token, said(result));
            self.offer_work();
        }
        count(&self.counters.flushes);
        if result.is_err() {
            count(&self.counters.flushes_failed);
        }
    }

    /// Returns when a write or discard that has begun may be sent; one that has gone past a lost cache device
    /// waits for nothing. It is ended if it may not.
    fn wait_for(
        &self,
        token: Option<WriteToken>,
        volume: usize,
        operation: &'static str,
        range: (u64, u64),
    ) -> Result<Option<WriteToken>, DeviceError> {
        let waited = self.wait_for_mark(token.as_ref().map_or(0, WriteToken::waits_for));
        if waited != Waited::No {
            count(&self.volumes[volume].writes_waited);
        }
        if waited != Waited::InVain {
            return Ok(token);
        }
        let result = Err(self.unmarked(volume, operation, range));
        self.end(token, &result);
        result.map(|()| None)
    }

    /// The answer to a write or discard that has waited for its mark in vain.
    pub(crate) fn unmarked(
        &self,
        volume: usize,
        operation: &'static str,
        (offset, bytes): (u64, u64),
    ) -> DeviceError {
        count(&self.counters.writes_unmarked);
        let error = DeviceError::new(DeviceErrorKind::Io, operation, self.backing(volume).describe());
        error.at(offset, bytes).advise(
            "nothing was written: it waited for the cache device to record that a block changes, and its cache was \
             closed; check that device and the folder of vouchers, and attach it again",
        )
    }

    /// Whether nobody will ask what the cache device has, now or after a crash: then nothing is begun.
    pub(crate) fn is_past(&self) -> bool {
        self.health.is_lost() && self.marks.are_void()
    }

    /// Begins a write in the engine. There may be work to offer afterwards: not here, so that the marks of a
    /// batch become durable together.
    pub(crate) fn write_begin(
        &self,
        volume: usize,
        offset: u64,
        buf: &[u8],
    ) -> Result<Option<WriteToken>, DeviceError> {
        if self.is_past() {
            return self.past_lost(volume, "write", offset, buf.len() as u64);
        }
        let begun = self.cache.write_begin(volume, offset, buf);
        begun.map(Some).map_err(|error| self.refused(volume, "write", (offset, buf.len() as u64), error))
    }

    /// The same of a discard.
    pub(crate) fn discard_begin(
        &self,
        volume: usize,
        offset: u64,
        len: u64,
    ) -> Result<Option<WriteToken>, DeviceError> {
        if self.is_past() {
            return self.past_lost(volume, "discard from", offset, len);
        }
        let begun = self.cache.discard_begin(volume, offset, len);
        begun.map(Some).map_err(|error| self.refused(volume, "discard from", (offset, len), error))
    }

    fn past_lost(
        &self,
        volume: usize,
        operation: &'static str,
        offset: u64,
        bytes: u64,
    ) -> Result<Option<WriteToken>, DeviceError> {
        let size = self.cache.geometry().config().volumes[volume];
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            let device = self.backing(volume).describe();
            return Err(DeviceError::new(DeviceErrorKind::OutOfRange, operation, device).at(offset, bytes));
        }
        count(&self.counters.bypass_write_lost);
        Ok(None)
    }

    pub(crate) fn end(&self, token: Option<WriteToken>, result: &Result<(), DeviceError>) {
        if let Some(token) = token {
            self.cache.write_end(token, said(result));
            self.turns.answered();
            self.offer_work();
        }
    }
}

/// What a device has said, as the engine is told.
fn said(result: &Result<(), DeviceError>) -> Result<(), Refused> {
    if result.is_ok() { Ok(()) } else { Err(Refused) }
}
