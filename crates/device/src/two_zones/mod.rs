//! A device without conventional zones, or with too few, that shows some: an area at its beginning that is
//! written in place.
//!
//! The area is a log in two *halves* in turn, each of the same number of zones. A write appends a record: a
//! header that names the blocks, and the blocks. When a half is full, what it holds is copied to the other
//! one, which counts from then on. So the area costs four times its bytes of flash, and writes twice what is
//! written to it, or less.
//!
//! 1. A half counts once a record says that its snapshot is complete, and all before it is durable. Of two
//!    that count the one of the higher generation does. No two attempts to fill a half have one generation.
//! 2. A zone is written to only when everything in the zones before it is durable. So what a power cut leaves
//!    of a half is a beginning of it, and only its last record may be torn.
//! 3. Nothing is written behind a write that has failed, or behind an end that is not known: what follows
//!    goes to the other half.
//! 4. A flush puts a mark behind the last record, unless nothing was written since the area was opened: who
//!    only looks changes nothing. So no record that was flushed is the last one, and damage to one passes for
//!    a torn write only if the mark is damaged as well.
//! 5. Each header repeats the one before it: a damaged one loses nothing. Blocks of any record but the last
//!    are taken as they lie, so that damage there is what it is in a conventional zone.
//! 6. A block that cannot be read when it is copied stays one that cannot be read, until it is written again.
//! 7. Of a half that is emptied the first zone is empty, durably, before another zone is reset. So one that
//!    was being emptied has no beginning, and is never read.
//! 8. One process has the device open: the map of blocks is in its memory.
//! 9. When an area is given up, formatted over or wiped, no older one is found at any moment: what begins the
//!    half that counts is reset last, after everything else by which an area could be found, and nothing of
//!    another one is written before that is durable.

mod record;

mod layout;

mod log;

mod scan;

mod forget;

pub mod planted;

use mezzanine_ground::interleave::sync::{Arc, Mutex, MutexGuard, RwLock};
use mezzanine_ground::interleave::{exclusive, lock, shared};

use self::layout::Layout;
use self::log::{Log, NOWHERE, Place};
use self::record::BLOCK_BYTES;
use crate::{AlignedBuf, Capabilities, Device, DeviceError, DeviceErrorKind, Request, Zone, Zones};

/// A zoned device that shows a conventional area, and the zones behind its two halves.
pub struct TwoZones<D> {
    inner: D,
    layout: Layout,
    shown: Zones,
    /// Taken by whoever writes, before the map.
    log: Mutex<Log>,
    /// Where each block of the area lies.
    map: RwLock<Vec<Place>>,
}

/// What a zoned device is to be taken for: as it is, or as one that has an area in two halves if it holds
/// one.
///
/// # Errors
/// As of [`TwoZones::find`].
pub fn shown(device: Arc<dyn Device>) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(match TwoZones::find(Arc::clone(&device))? {
        Some(found) => Arc::new(found),
        None => device,
    })
}

/// The zones that a device with these would show if an area of `area_bytes`, of which `used_bytes` are ever
/// written, lay in two halves; the reason if it cannot be done.
///
/// # Errors
/// What the device has too little of, as the end of a sentence.
pub fn zones_with_area(zones: &Zones, area_bytes: u64, used_bytes: u64) -> Result<Zones, String> {
    Layout::new(*zones, area_bytes, used_bytes).map(|layout| layout.shown())
}

/// Empties the zones in which an area may be, whatever state it is in. At no moment does the device hold an
/// earlier one.
///
/// # Errors
/// That of the device.
pub fn wipe(device: &dyn Device) -> Result<(), DeviceError> {
    let Some(zones) = device.capabilities().zones else { return Ok(()) };
    forget::forget(device, zones)?;
    log::reset(device, scan::searched(&zones))
}

/// How a device lies below another: shared with others, or lent for a while.
pub trait Below: Send + Sync {
    /// The device.
    fn device(&self) -> &dyn Device;
}

impl Below for Arc<dyn Device> {
    fn device(&self) -> &dyn Device {
        &**self
    }
}

impl Below for &dyn Device {
    fn device(&self) -> &dyn Device {
        *self
    }
}

impl<D: Below> TwoZones<D> {
    /// Makes an area of zeros on a device, of `area_bytes` bytes, of which `used_bytes` are ever written.
    /// Whatever area the device had is gone, and at no moment does it hold an earlier one.
    ///
    /// # Errors
    /// `Unsupported` for a device without zones, or with too few or too short ones; that of the device.
    pub fn format(inner: D, area_bytes: u64, used_bytes: u64) -> Result<Self, DeviceError> {
        let device = inner.device();
        let unsupported = |advice: String| {
            let error =
                DeviceError::new(DeviceErrorKind::Unsupported, "keep an area in zones of", device.describe());
            Err(error.advise(advice))
        };
        let Some(zones) = device.capabilities().zones else {
            return unsupported("it has no zones".to_owned());
        };
        let layout = match Layout::new(zones, area_bytes, used_bytes) {
            Ok(layout) => layout,
            Err(reason) => return unsupported(reason),
        };
        // Zones of an earlier format may lie anywhere in these, and those that begin one behind them.
        forget::forget(device, zones)?;
        log::reset(device, (0..2).flat_map(|half| layout.starts(half)))?;
        let nothing = vec![NOWHERE; layout.area_blocks as usize];
        let (end, map) = log::begin(device, &layout, 0, 1, &nothing)?;
        Ok(Self::with(inner, layout, Log { end, generation_next: 2, used: 0 }, map))
    }

    /// Opens the area that a device has; `None` if it has none.
    ///
    /// # Errors
    /// `Io` with the device and the offset if two records side by side are damaged, or if neither half is
    /// complete; `Unsupported` for an area of another version; that of the device.
    pub fn find(inner: D) -> Result<Option<Self>, DeviceError> {
        let device = inner.device();
        let Some(zones) = device.capabilities().zones else { return Ok(None) };
        let Some(layout) = scan::find_layout(device, zones)? else { return Ok(None) };
        let (log, map) = scan::open(device, &layout)?;
        Ok(Some(Self::with(inner, layout, log, map)))
    }

    /// Gives the area up: the device has none from then on. At no moment does it hold an earlier one.
    ///
    /// # Errors
    /// That of the device; the area may be there or not.
    pub fn forget(self) -> Result<(), DeviceError> {
        let device = self.inner.device();
        forget::forget(device, self.layout.zones)?;
        log::reset(device, (0..2).flat_map(|half| self.layout.starts(half)))
    }

    fn with(inner: D, layout: Layout, log: Log, map: Vec<Place>) -> Self {
        Self { inner, layout, shown: layout.shown(), log: Mutex::new(log), map: RwLock::new(map) }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    /// Bytes of the area, as they are shown: whole zones.
    fn area_end(&self) -> u64 {
        self.shown.conventional_len()
    }

    /// The byte of the device below at which a byte lies that is shown behind the area.
    fn below(&self, offset: u64) -> u64 {
        self.layout.behind().start.saturating_add(offset - self.area_end())
    }

    fn error(&self, kind: DeviceErrorKind, request: &Request<'_>) -> DeviceError {
        let error = DeviceError::new(kind, request.operation(), self.inner.device().describe());
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }

    /// The request as the device below has it, if it is for that.
    fn request_below<'r>(&self, request: &'r mut Request<'_>) -> Option<Request<'r>> {
        let end = self.area_end();
        if request.range().is_some_and(|(offset, _)| offset < end) {
            return None;
        }
        Some(match request {
            Request::Read { offset, buf } => Request::Read { offset: self.below(*offset), buf },
            Request::Write { offset, buf, stream } => Request::write_in(*stream, buf, self.below(*offset)),
            Request::WriteThrough { offset, buf } => {
                Request::WriteThrough { offset: self.below(*offset), buf }
            }
            Request::Append { zone, buf, at } => Request::Append { zone: self.below(*zone), buf, at },
            Request::Reset { zone } => Request::Reset { zone: self.below(*zone) },
            Request::Finish { zone } => Request::Finish { zone: self.below(*zone) },
            Request::Flush => Request::Flush,
            Request::Discard { offset, len } => Request::Discard { offset: self.below(*offset), len: *len },
        })
    }

    /// Carries out a request that begins in the area.
    fn in_area(&self, request: &mut Request<'_>) -> Result<(), DeviceError> {
        let (offset, len) = request.range().unwrap_or_default();
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.area_end());
        match request {
            Request::Read { offset, buf } => {
                let here = (self.area_end() - *offset).min(buf.len() as u64) as usize;
                let (here, behind) = buf.split_at_mut(here);
                self.read_area(here, *offset)?;
                match behind.is_empty() {
                    true => Ok(()),
                    false => self.read_at(behind, self.area_end()),
                }
            }
            Request::Write { .. } | Request::WriteThrough { .. } if !fits => {
                Err(self.error(DeviceErrorKind::ZoneOrder, request))
            }
            Request::Write { offset, buf, .. } => self.write_area(buf, *offset),
            Request::WriteThrough { offset, buf } => {
                self.write_area(buf, *offset)?;
                self.flush()
            }
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                Err(self.error(DeviceErrorKind::ZoneOrder, request))
            }
            // It may read as anything: also as it is.
            Request::Discard { .. } if fits => Ok(()),
            Request::Discard { .. } | Request::Flush => {
                Err(self.error(DeviceErrorKind::Unsupported, request))
            }
        }
    }

    fn read_area(&self, buf: &mut [u8], offset: u64) -> Result<(), DeviceError> {
        if buf.is_empty() {
            return Ok(());
        }
        let (first, skipped) = (offset as usize / BLOCK_BYTES, offset as usize % BLOCK_BYTES);
        let count = (skipped + buf.len()).div_ceil(BLOCK_BYTES);
        // Kept until all is read: a half is emptied only when nobody reads there.
        let map = shared(&self.map);
        let mut places: Vec<Place> = map.iter().skip(first).take(count).copied().collect();
        // Behind the area, up to where a zone begins.
        places.resize(count, NOWHERE);
        let (mut rest, mut skipped) = (buf, skipped);
        for (count, place) in log::runs(&places) {
            let len = (count * BLOCK_BYTES - skipped).min(rest.len());
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(len);
            log::read_run(self.inner.device(), place, skipped as u64, here)?;
            (rest, skipped) = (behind, 0);
        }
        Ok(())
    }

    fn write_area(&self, buf: &[u8], offset: u64) -> Result<(), DeviceError> {
        if buf.is_empty() {
            return Ok(());
        }
        let (device, layout) = (self.inner.device(), &self.layout);
        let end = offset + buf.len() as u64;
        let block = BLOCK_BYTES as u64;
        let (first, last) = (offset / block, end.div_ceil(block));
        let failed = |kind, advice: &str| {
            let error = DeviceError::new(kind, "write", device.describe());
            Err(error.at(offset, buf.len() as u64).advise(advice))
        };
        if last > layout.area_blocks {
            return failed(DeviceErrorKind::OutOfRange, "the area that is written in place ends before");
        }
        let mut log = self.log();
        let is_new = |place: &&Place| **place == NOWHERE;
        let new = shared(&self.map)[first as usize..last as usize].iter().filter(is_new).count() as u64;
        if log.used + new > layout.used_max() {
            return failed(
                DeviceErrorKind::NoSpace,
                "the area was made for fewer bytes: format it for as many as are used",
            );
        }
        let mut begin = first;
        while begin < last {
            let count = log.make_room(device, layout, &self.map)?.min(last - begin);
            let range = begin as usize..(begin + count) as usize;
            let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES * (1 + range.len()));
            // Of blocks that are written in part the rest is what it was.
            for partial in [begin, begin + count - 1] {
                let whole = partial * block..(partial + 1) * block;
                if whole.start < offset || whole.end > end {
                    let at = BLOCK_BYTES * (1 + (partial - begin) as usize);
                    self.read_area(&mut bytes[at..at + BLOCK_BYTES], whole.start)?;
                }
            }
            let from = offset.max(begin * block);
            let to = end.min((begin + count) * block);
            let at = BLOCK_BYTES + (from - begin * block) as usize;
            bytes[at..at + (to - from) as usize]
                .copy_from_slice(&buf[(from - offset) as usize..(to - offset) as usize]);
            let blocks: Vec<u32> = (begin..begin + count).map(|block| block as u32).collect();
            let place = log.change(device, layout, &blocks, &mut bytes)?;
            let mut map = exclusive(&self.map);
            for (at, nth) in range.zip(0..) {
                log.used += u64::from(map[at] == NOWHERE);
                map[at] = place + nth * block;
            }
            begin += count;
        }
        Ok(())
    }
}

impl<D: Below> Device for TwoZones<D> {
    fn capabilities(&self) -> Capabilities {
        let Zones { count, zone_len, .. } = self.shown;
        Capabilities {
            len: count * zone_len,
            can_resize: false,
            zones: Some(self.shown),
            ..self.inner.device().capabilities()
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if batch.iter().any(|request| matches!(request, Request::Flush)) {
            self.log().mark(self.inner.device(), &self.layout);
        }
        let mut below: Vec<Request<'_>> = Vec::with_capacity(batch.len());
        let mut is_below = Vec::with_capacity(batch.len());
        for request in batch.iter_mut() {
            let request = self.request_below(request);
            is_below.push(request.is_some());
            below.extend(request);
        }
        let mut done = if below.is_empty() { Vec::new() } else { self.inner.device().run(&mut below) };
        drop(below);
        let mut done = done.drain(..);
        let mut finish = |(request, is_below): (&mut Request<'_>, bool)| {
            if !is_below {
                return self.in_area(request);
            }
            let lost = || Err(self.error(DeviceErrorKind::Io, &Request::Flush));
            let result = done.next().unwrap_or_else(lost);
            if let (Ok(()), Request::Append { at, .. }) = (&result, request) {
                **at = **at - self.layout.behind().start + self.area_end();
            }
            result
        };
        batch.iter_mut().zip(is_below).map(&mut finish).collect()
    }

    fn run_one(&self, mut request: Request<'_>) -> Result<(), DeviceError> {
        match &request {
            Request::Flush => self.log().mark(self.inner.device(), &self.layout),
            Request::Append { .. } => {
                let result = self.run(std::slice::from_mut(&mut request)).pop();
                return result.unwrap_or_else(|| Err(self.error(DeviceErrorKind::Io, &request)));
            }
            _ => {}
        }
        match self.request_below(&mut request) {
            Some(below) => self.inner.device().run_one(below),
            None => self.in_area(&mut request),
        }
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe()).at(0, len))
    }

    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        let (end, len) = (self.area_end(), self.shown.zone_len);
        if offset < end {
            return Ok(Zone {
                start: self.shown.start(offset),
                capacity: len,
                conventional: true,
                written: 0,
            });
        }
        let zone = self.inner.device().zone_at(self.below(offset))?;
        Ok(Zone { start: self.shown.start(offset), ..zone })
    }

    fn flush_apart(&self) -> Result<(), DeviceError> {
        self.inner.device().flush_apart()
    }

    fn describe(&self) -> String {
        self.inner.device().describe()
    }
}

#[cfg(test)]
mod tests;
