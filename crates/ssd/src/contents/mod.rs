//! A drive from the inside with bytes, as a device.
//!
//! One controller says both when an operation is complete and what a power cut leaves of it: the bytes are
//! those of the versions that the [`Recorder`] finds in flash and in the buffer, by the rules of
//! [`power`](crate::power). So a database on it meets what the model describes: a volatile cache that loses
//! what was not flushed, a durable one that does not, and what drives do worse
//! ([`Anomaly`](crate::power::Anomaly)).
//!
//! Invariants:
//! 1. Until the power fails, a unit reads as it was written or discarded last.
//! 2. Nothing enters the controller after the instant at which the power fails, and nothing is complete then
//!    that it had not completed.
//! 3. Bytes are forgotten when no read can return them, whatever a power cut brings back.

mod bytes;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mezzanine_device::drive::{LosesPower, ModelClock};
use mezzanine_device::memory::Spent;
use mezzanine_device::model::{Operation, OperationKind, Timing as _};
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_ground::random::Random;

use crate::config::CacheKind;
use crate::counters::Counters;
use crate::drive::{Condition, Ssd};
use crate::power::{Anomaly, Contents, Recorder, RestartError, SECTOR_BYTES, Version};
use bytes::{Bytes, Unreadable};

/// After a power cut that comes between two requests: the longest time since the last one in ns, where
/// nobody keeps time.
const IDLE_NS_MAX: u64 = 4_000_000;

/// A [`Ssd`] with contents in memory.
pub struct SsdDevice {
    ssd: Ssd,
    /// Requests take as long as the drive takes, on this clock; without one they take no time, and come one
    /// behind the other.
    clock: Option<ModelClock>,
    inside: Mutex<Inside>,
}

struct Inside {
    state: Box<[u64]>,
    recorder: Recorder,
    bytes: Bytes,
    /// Model time on the clock of the device when the drive's own began.
    started_at: u64,
    /// When the last request was entered, or, without a clock, was complete.
    now: u64,
    /// When the power failed.
    cut_at: Option<u64>,
    version: Version,
    /// Why it does not start.
    dead: Option<RestartError>,
}

/// What a power cut has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Units that have an older version than the last that was written, acknowledged or not.
    pub older: u64,
    /// Units with parts of two versions, wrong bits, another unit's contents, or that cannot be read.
    pub damaged: u64,
    /// Bytes of a durable cache that weak capacitors did not bring to the dump area.
    pub dump_bytes_missing: u64,
    /// The drive does not start any more, and this is what it says.
    pub dead: Option<String>,
}

impl SsdDevice {
    /// A drive that was never used, and takes no time: its clock goes from one completion to the next.
    pub fn new(ssd: Ssd) -> Self {
        let inside = Inside {
            state: ssd.idle(),
            recorder: Recorder::new(ssd.config()),
            bytes: Bytes::new(ssd.config().geometry.unit_bytes),
            started_at: 0,
            now: 0,
            cut_at: None,
            version: 0,
            dead: None,
        };
        // Of what a used one held nobody knows the bytes.
        let ssd = ssd.beginning(Condition::Fresh);
        Self { ssd, clock: None, inside: Mutex::new(inside) }
    }

    /// The same, and from now on requests take as long as the drive takes, times `time_scale`; at 0 they go
    /// on to take no time.
    #[must_use]
    pub fn in_real_time(mut self, time_scale: f64) -> Self {
        let clock = ModelClock::starting(time_scale);
        if clock.scale() > 0.0 {
            let inside = self.inside.get_mut().unwrap_or_else(PoisonError::into_inner);
            inside.started_at = clock.now().saturating_sub(inside.now);
            self.clock = Some(clock);
        }
        self
    }

    /// What it is made of, and its books.
    pub fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// Bytes of memory that it takes at most: all that flash and the buffer can hold, and what is known of
    /// it.
    pub fn memory_bytes_max(ssd: &Ssd) -> u64 {
        let geometry = &ssd.config().geometry;
        let versions = (geometry.bytes() + ssd.config().cache.buffer_bytes) / u64::from(geometry.unit_bytes);
        let versions = Bytes::memory_max(versions, geometry.unit_bytes);
        let known = u64::from(geometry.units()) * Recorder::BYTES_PER_UNIT;
        // A cut has a copy of what is known.
        versions + 2 * known + ssd.state_bytes()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it does not start any more.
    pub fn is_dead(&self) -> bool {
        self.inside().dead.is_some()
    }

    /// What it has counted since it started last.
    pub fn counters(&self) -> Counters {
        self.ssd.counters(&self.inside().state)
    }

    /// The power that had failed in a request has not failed for this drive: the request is complete, and
    /// nobody was told.
    pub fn power_stays_on(&self) {
        let mut inside = self.inside();
        if let Some(at) = inside.cut_at.take() {
            inside.now = inside.now.max(at);
        }
    }

    /// Breaks a rule of dump and recovery from now on, for tests that have to notice.
    #[cfg(feature = "planted")]
    pub fn plant(&self, fault: Option<crate::power::PlantedFault>) {
        self.inside().recorder.plant(fault);
    }

    /// Versions of units whose bytes are kept.
    pub fn versions_kept(&self) -> usize {
        self.inside().bytes.kept()
    }

    /// Reads without a request: no time passes, and the power need not be on. What cannot be read is zeros;
    /// returns whether that was so.
    ///
    /// # Panics
    /// If it does not lie within the drive.
    pub fn peek(&self, offset: u64, buf: &mut [u8]) -> bool {
        assert!(offset + buf.len() as u64 <= self.ssd.capacity(), "a drive ends at its capacity");
        let mut inside = self.inside();
        if inside.dead.is_some() {
            buf.fill(0);
            return true;
        }
        let mut unreadable = false;
        for piece in self.pieces(offset, buf.len()) {
            let part = &mut buf[piece.in_buffer];
            match self.unit(&mut inside, piece.unit) {
                Ok(whole) => part.copy_from_slice(&whole[piece.in_unit]),
                Err(Unreadable) => {
                    part.fill(0);
                    unreadable = true;
                }
            }
        }
        unreadable
    }

    /// Carries requests out, of which `spend` says what power each has.
    pub fn run_on(
        &self,
        batch: &mut [Request<'_>],
        mut spend: impl FnMut() -> Spent,
    ) -> Vec<Result<(), DeviceError>> {
        let mut results = Vec::with_capacity(batch.len());
        let mut inside = self.inside();
        let mut last = 0;
        for request in batch {
            let result = self.request(&mut inside, request, spend());
            last = last.max(*result.as_ref().unwrap_or(&0));
            let dead = inside.dead.as_ref();
            results.push(result.map(drop).map_err(|kind| self.error(kind, request, dead)));
        }
        let wait_until = inside.started_at.saturating_add(last);
        drop(inside);
        if let Some(clock) = &self.clock {
            clock.wait_until(wait_until);
        }
        results
    }

    fn error(
        &self,
        kind: DeviceErrorKind,
        request: &Request<'_>,
        dead: Option<&RestartError>,
    ) -> DeviceError {
        let mut error = DeviceError::new(kind, request.operation(), self.describe());
        if let Some(dead) = dead {
            error = error.advise(dead.to_string());
        }
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }

    /// Enters a request; when it is complete.
    fn request(
        &self,
        inside: &mut Inside,
        request: &mut Request<'_>,
        spent: Spent,
    ) -> Result<u64, DeviceErrorKind> {
        if spent == Spent::Off || inside.cut_at.is_some() {
            return Err(DeviceErrorKind::PoweredOff);
        }
        if inside.dead.is_some() {
            return Err(DeviceErrorKind::Io);
        }
        if let Some((offset, len)) = request.range() {
            if offset.checked_add(len).is_none_or(|end| end > self.ssd.capacity()) {
                return Err(match request {
                    Request::Read { .. } => DeviceErrorKind::UnexpectedEnd,
                    _ => DeviceErrorKind::OutOfRange,
                });
            }
        }
        if let Some(clock) = &self.clock {
            inside.now = inside.now.max(clock.now().saturating_sub(inside.started_at));
        }
        let done = match request {
            Request::Read { offset, buf } => self.read(inside, *offset, buf)?,
            Request::Write { offset, buf, stream } => self.write(inside, *offset, buf, false, *stream)?,
            Request::WriteThrough { offset, buf } => self.write(inside, *offset, buf, true, 0)?,
            Request::Flush => self.enter(inside, Operation::FLUSH),
            Request::Discard { offset, len } => {
                self.enter(inside, self.ssd.operation(OperationKind::Discard, *offset, *len))
            }
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                return Err(DeviceErrorKind::Unsupported);
            }
        };
        if spent == Spent::Cut {
            // Somewhere on the way.
            let mut random = Random::new(inside.version ^ done);
            inside.cut_at = Some(inside.now + random.below(done - inside.now + 1));
            return Err(DeviceErrorKind::PoweredOff);
        }
        if self.clock.is_none() {
            inside.now = done;
        }
        Ok(done)
    }

    fn enter(&self, inside: &mut Inside, operation: Operation) -> u64 {
        let Inside { state, recorder, now, .. } = inside;
        self.ssd.submit_recorded(state, recorder, *now, operation).max(*now)
    }

    fn read(&self, inside: &mut Inside, offset: u64, buf: &mut [u8]) -> Result<u64, DeviceErrorKind> {
        let done = self.enter(inside, self.ssd.operation(OperationKind::Read, offset, buf.len() as u64));
        for piece in self.pieces(offset, buf.len()) {
            let whole = self.unit(inside, piece.unit).map_err(|Unreadable| DeviceErrorKind::Io)?;
            buf[piece.in_buffer].copy_from_slice(&whole[piece.in_unit]);
        }
        Ok(done)
    }

    /// A unit that is written in part has the rest of what it had.
    fn write(
        &self,
        inside: &mut Inside,
        offset: u64,
        buf: &[u8],
        through: bool,
        stream: u8,
    ) -> Result<u64, DeviceErrorKind> {
        let mut after = Vec::new();
        for piece in self.pieces(offset, buf.len()) {
            let part = &buf[piece.in_buffer];
            let whole = if part.len() == self.unit_bytes() {
                part.into()
            } else {
                let mut whole = self.unit(inside, piece.unit).map_err(|Unreadable| DeviceErrorKind::Io)?;
                whole[piece.in_unit].copy_from_slice(part);
                whole
            };
            after.push((piece.unit, whole));
        }
        inside.version += 1;
        inside.recorder.writes(inside.version);
        for (unit, whole) in after {
            inside.bytes.put(inside.version, unit, whole);
        }
        let operation = self.ssd.operation(OperationKind::Write, offset, buf.len() as u64);
        let done = self.enter(inside, Operation { through, stream, ..operation });
        inside.bytes.sweep(&inside.recorder);
        Ok(done)
    }

    fn contents(&self, inside: &mut Inside, unit: u32) -> Contents {
        let contents = inside.recorder.read(&self.ssd, &mut inside.state, unit);
        contents.unwrap_or_else(|broken| panic!("the books of {} are in order: {broken}", self.describe()))
    }

    fn unit(&self, inside: &mut Inside, unit: u32) -> Result<Box<[u8]>, Unreadable> {
        let contents = self.contents(inside, unit);
        inside.bytes.read(contents, unit)
    }

    /// The power fails, if it has not failed in a request, and the drive starts again, of which `random`
    /// decides what nothing else does. It has power then, unless it is dead. A durable cache dumps with as
    /// much of a full charge as `charge` says, 0 to 1.
    pub fn lose_power(&self, random: &mut Random, charge: f64) -> Loss {
        let mut guard = self.inside();
        let inside = &mut *guard;
        if let Some(dead) = &inside.dead {
            return Loss { dead: Some(dead.to_string()), ..Loss::default() };
        }
        let units = self.ssd.config().logical_units();
        let before: Vec<Contents> = (0..units).map(|unit| self.contents(inside, unit)).collect();
        let idle = || inside.now + random.magnitude(IDLE_NS_MAX);
        let at = inside.cut_at.unwrap_or_else(idle).max(inside.now);
        let charge = (self.ssd.config().cache.kind == CacheKind::Durable).then_some(charge);
        let mut remains = inside.recorder.cut(self.ssd.config(), self.ssd.erases(&inside.state), at, charge);
        (inside.now, inside.cut_at) = (0, None);
        inside.started_at = self.clock.map_or(0, |clock| clock.now());
        // The power may fail in the start as well: what that did is undone, and the next one finds the same.
        while random.chance(1, 4) {
            if self.ssd.restart_cut_off(&mut inside.state, &mut inside.recorder, &mut remains).is_err() {
                break;
            }
        }
        let restarted = self.ssd.restart(&mut inside.state, &mut inside.recorder, &mut remains);
        let mut loss = Loss::default();
        match restarted {
            Ok(restarted) => loss.dump_bytes_missing = restarted.bytes_missing,
            Err(dead) => {
                loss.dead = Some(dead.to_string());
                inside.dead = Some(dead);
                return loss;
            }
        }
        for (unit, before) in (0..units).zip(before) {
            let after = self.contents(inside, unit);
            loss.damaged += u64::from(!after.passes_checksum());
            loss.older += u64::from(after.passes_checksum() && after != before);
        }
        loss
    }

    fn unit_bytes(&self) -> usize {
        self.ssd.config().geometry.unit_bytes as usize
    }

    fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = Piece> + use<> {
        let unit_bytes = self.unit_bytes();
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = offset + next as u64;
            let from = (at % unit_bytes as u64) as usize;
            let here = (unit_bytes - from).min(len - next);
            let piece = Piece {
                unit: (at / unit_bytes as u64) as u32,
                in_unit: from..from + here,
                in_buffer: next..next + here,
            };
            next += here;
            (here > 0).then_some(piece)
        })
    }
}

/// The part of a range that is in one unit.
struct Piece {
    unit: u32,
    in_unit: Range<usize>,
    in_buffer: Range<usize>,
}

impl Device for SsdDevice {
    fn capabilities(&self) -> Capabilities {
        let config = self.ssd.config();
        let atomic_write =
            if config.shows(Anomaly::Shorn) { SECTOR_BYTES } else { config.geometry.unit_bytes };
        Capabilities {
            len: self.ssd.capacity(),
            block_size: 1,
            atomic_write,
            volatile_cache: config.cache.kind == CacheKind::Volatile,
            can_resize: false,
            write_through: true,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.run_on(batch, || Spent::On)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe()).at(0, len))
    }

    fn describe(&self) -> String {
        format!("{}, from the inside", self.ssd.name())
    }
}

/// Hangs on the switch that served drives have.
impl LosesPower for SsdDevice {
    type Report = Loss;

    fn power_fails(&self) {
        let mut inside = self.inside();
        if let Some(clock) = &self.clock {
            let now = clock.now().saturating_sub(inside.started_at);
            // Unless it has failed in a request.
            let at = now.max(inside.now);
            inside.cut_at.get_or_insert(at);
        }
    }

    /// The last write is the one.
    fn run_at_cut(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let is_write =
            |request: &Request<'_>| matches!(request, Request::Write { .. } | Request::WriteThrough { .. });
        let last = batch.iter().rposition(is_write);
        let mut next = 0;
        self.run_on(batch, || {
            next += 1;
            if Some(next - 1) == last { Spent::Cut } else { Spent::On }
        })
    }

    fn power_cut(&self, seed: u64) -> Loss {
        self.lose_power(&mut Random::new(seed), 1.0)
    }
}
