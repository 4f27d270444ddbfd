//! A device in memory whose power can fail, for tests and the crash simulator.
//!
//! Faults it may show (all from a seed, none unless asked for):
//! - *Power cut*, [`Power::crash_after`]: the n-th operation of all devices on a supply and every later one
//!   fail. Each change since the last flush, and those under way, is then kept, lost or torn in sectors of
//!   512 bytes, in any order: a later one may survive an earlier one. A sector holds afterwards what it held
//!   at some moment since the flush. Changes of a file's length survive in their order. A flush that is cut
//!   makes anything from nothing to everything durable.
//! - *Errors*, [`Fault::Error`]: EIO, ENOSPC or any other kind, on the n-th operation of a kind or on all
//!   from then on.
//! - *Bit flips*, [`Fault::FlipBit`] and [`MemoryDevice::flip_bit`]; *misdirected writes*,
//!   [`Fault::Misdirect`]; *lies*, [`Fault::Lie`]: a flush, write or discard that is reported and not done.
//!
//! With zones ([`MemoryDevice::zoned`]) a write elsewhere than at the write pointer of its zone is refused.
//! Of what happened to a zone since the last flush a power cut keeps a part from its beginning: after the
//! first reset, write or finish that it loses or tears nothing of that zone is kept. Where the device limits
//! how many zones are written in part, a write that would begin another is refused, and so is one of a batch
//! that is under way in more zones than may be open.
//!
//! A [`Medium`] behind it ([`MemoryDevice::before`]), such as a drive from the inside, decides in its place
//! what a power cut leaves, and reports errors of its own.
//!
//! It never shows: a sector torn within, an unflushed overwrite replaced by an older one that was already
//! visible when it was issued, a delay.

mod power;

mod bad;

mod cache;

mod fault;

mod image;

mod medium;

mod window;

mod zoned;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use bad::Bad;
pub use cache::{CutReport, SECTOR_BYTES};
pub use fault::{Fault, Injection, Operation};
pub use image::Image;
pub use medium::Medium;
pub use power::{Power, Spent};
pub use window::{Fate, Survival, Unflushed};

use mezzanine_ground::random::Random;

use crate::{Capabilities, Device, DeviceError, DeviceErrorKind, Request, Zone, Zones};
use bad::BadPlaces;
use cache::Cache;
use fault::Plan;
use medium::Behind;

/// A simulated device. Contents are gone with the value.
pub struct MemoryDevice {
    name: &'static str,
    resizable: bool,
    power: Power,
    state: Mutex<State>,
}

struct State {
    /// Of a device that has some.
    zones: Option<Zones>,
    /// Exactly as long as the device.
    image: Image,
    cache: Cache,
    plan: Plan,
    bad: BadPlaces,
    /// Decides what an injected fault does. Power cuts bring their own seed.
    random: Random,
    flush_failed: bool,
    changes: u64,
    /// Zones that the batch under way writes to.
    in_batch: Vec<u64>,
    /// What carries requests out and decides about power cuts in the place of `cache`, if anything does.
    behind: Option<Behind>,
}

impl MemoryDevice {
    /// A block device of `len` zero bytes on a power supply of its own; its length never changes.
    pub fn new(len: u64) -> Self {
        Self::on(&Power::new(), "simulated drive", len, false)
    }

    /// A file of `len` zero bytes on a power supply of its own; it grows with writes past its end.
    pub fn file(len: u64) -> Self {
        Self::on(&Power::new(), "simulated file", len, true)
    }

    /// A device of `len` zero bytes that shares `power` with others and calls itself `name` in messages.
    pub fn on(power: &Power, name: &'static str, len: u64, resizable: bool) -> Self {
        let state = State {
            zones: None,
            image: Image::zeroed(len as usize),
            cache: Cache::default(),
            plan: Plan::default(),
            bad: BadPlaces::default(),
            random: Random::new(len),
            flush_failed: false,
            changes: 0,
            in_batch: Vec::new(),
            behind: None,
        };
        Self { name, resizable, power: power.clone(), state: Mutex::new(state) }
    }

    /// The supply that this device hangs on.
    pub fn power(&self) -> &Power {
        &self.power
    }

    /// Decides by `seed` what of the unflushed changes survives a loss of power, and forgets a failed flush,
    /// since the device starts anew. The supply is not touched: cut every device on it, then
    /// [`Power::restore`] it.
    pub fn power_cut(&self, seed: u64) -> CutReport {
        let mut state = self.state();
        if let Some(report) = state.behind_loses_power(seed) {
            return report;
        }
        let survival = state.cache.draw(&mut Random::new(seed));
        drop(state);
        self.power_cut_as(&survival)
    }

    /// As [`Self::power_cut`], with the choice made by the caller among what [`Self::window`] lists.
    ///
    /// # Panics
    /// When `survival` has not one fate for each unflushed change, or a [`Medium`] has the choice.
    pub fn power_cut_as(&self, survival: &Survival) -> CutReport {
        let mut guard = self.state();
        let state = &mut *guard;
        assert!(state.behind.is_none(), "what is behind {} decides what survives", self.name);
        let report = state.cache.cut(&mut state.image, survival);
        state.finish_beyond_limit();
        state.flush_failed = false;
        report
    }

    /// Promises that a power cut leaves aligned pieces of `bytes` bytes whole, as drives with atomic page
    /// writes do. Without a promise they are [`SECTOR_BYTES`] long.
    ///
    /// # Panics
    /// When `bytes` is 0.
    pub fn set_atomic_write(&self, bytes: u64) {
        assert!(bytes > 0, "a piece has a length");
        self.state().cache.sector_bytes = bytes;
    }

    /// The length of the aligned pieces that a power cut leaves whole, in bytes.
    pub fn atomic_write(&self) -> u64 {
        self.state().cache.sector_bytes
    }

    /// The changes that a power cut could still undo, oldest first; none where a [`Medium`] knows them.
    pub fn window(&self) -> Vec<Unflushed> {
        self.state().cache.window()
    }

    /// Makes this device what `other` is: contents, unflushed changes, planned faults, bad places. It stays
    /// on its own supply.
    ///
    /// # Panics
    /// When either has a [`Medium`] behind it, of which there are no copies.
    pub fn copy_from(&self, other: &Self) {
        let (mut state, other) = (self.state(), other.state());
        assert!(state.behind.is_none() && other.behind.is_none(), "{} is not memory alone", self.name);
        state.zones = other.zones;
        state.image.clone_from(&other.image);
        state.cache.clone_from(&other.cache);
        state.plan.clone_from(&other.plan);
        state.bad.clone_from(&other.bad);
        state.random.clone_from(&other.random);
        state.flush_failed = other.flush_failed;
        state.changes = other.changes;
    }

    /// Makes the device new: `len` zero bytes, nothing unflushed, no planned faults, no bad places; `seed`
    /// decides about injected ones.
    pub fn reset(&self, len: u64, seed: u64) {
        let mut state = self.state();
        state.image = Image::zeroed(len as usize);
        state.zones_are_empty();
        state.cache.clear();
        state.plan.clear();
        state.bad.clear();
        state.random = Random::new(seed);
        state.flush_failed = false;
        state.behind_holds_image();
    }

    /// Plans a fault. Several plans count operations independently; the oldest that strikes wins.
    pub fn inject(&self, injection: Injection) {
        self.state().plan.add(injection);
    }

    /// Makes `len` bytes from `offset` on a bad place. Neither a loss of power nor other contents change
    /// that.
    pub fn spoil(&self, offset: u64, len: u64, bad: Bad) {
        self.state().bad.add(offset..offset + len, bad);
    }

    /// Forgets all planned faults and bad places, and a failed flush with them: as if the device had been
    /// replaced with its contents.
    pub fn heal(&self) {
        let mut state = self.state();
        state.plan.clear();
        state.bad.clear();
        state.flush_failed = false;
    }

    /// How many operations planned faults have struck since the device was made, and reads bad places.
    pub fn faults_struck(&self) -> u64 {
        self.state().plan.struck_at_all()
    }

    /// How many operations of this kind planned faults or bad places have struck since the device was made.
    pub fn faults_struck_in(&self, operation: Operation) -> u64 {
        self.state().plan.struck(operation)
    }

    /// A copy of what reads see now. Costs no operation and works without power.
    pub fn image(&self) -> Vec<u8> {
        self.state().image.to_vec()
    }

    /// Calls `look` with a copy of what reads see now. Costs no operation and works without power.
    pub fn inspect<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.image())
    }

    /// Calls `look` with what reads see now, without a copy. Costs no operation and works without power.
    pub fn view<T>(&self, look: impl FnOnce(&Image) -> T) -> T {
        look(&self.state().image)
    }

    /// As [`Self::image`], at little cost: the device copies later what it changes.
    pub fn snapshot(&self) -> Image {
        self.state().image.clone()
    }

    /// Replaces contents and length by `image`, durably: another device in the same slot. Zones that hold
    /// anything are full.
    pub fn load(&self, image: &[u8]) {
        self.put_back(&Image::from(image));
    }

    /// As [`Self::load`], at little cost.
    pub fn put_back(&self, image: &Image) {
        let mut state = self.state();
        state.image.clone_from(image);
        state.zones_are_full();
        state.cache.clear();
        state.flush_failed = false;
        state.behind_holds_image();
    }

    /// Inverts one bit at rest, durably. Bits count from the lowest of the first byte.
    ///
    /// # Panics
    /// When the device has no such bit, or a [`Medium`] behind it.
    pub fn flip_bit(&self, bit: u64) {
        let byte = (bit / 8) as usize;
        let mut state = self.state();
        assert!(state.behind.is_none(), "{} is not memory alone", self.name);
        state.image.flip(byte, 1 << (bit % 8));
    }

    /// How many changes a power cut could still undo; where a [`Medium`] decides, how many came since the
    /// last flush.
    pub fn unflushed(&self) -> usize {
        let state = self.state();
        state.behind.as_ref().map_or_else(|| state.cache.len(), Behind::unflushed)
    }

    /// Lets the write cache hold at most so many bytes: if there are more, the oldest are durable now, as in
    /// a drive that empties its cache while it works.
    pub fn drain_cache(&self, bytes_max: u64) {
        self.state().cache.drain(bytes_max);
    }

    /// How many writes, discards and changes of the length have reached the device since it was made, in the
    /// manner of a file's time of last change: it grows with every change and never returns to an earlier
    /// value.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Sets what [`Self::changes`] counts on from, as when a file is copied together with its times.
    pub fn set_changes(&self, changes: u64) {
        self.state().changes = changes;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread cannot leave the state half changed in a way that matters to a test that
        // goes on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, state: &State, kind: DeviceErrorKind, request: &Request<'_>) -> DeviceError {
        let mut error = DeviceError::new(kind, request.operation(), self.name);
        let said = state.behind.as_ref().filter(|_| kind == DeviceErrorKind::Io).and_then(Behind::says);
        if let Some(said) = said {
            error = error.advise(said);
        }
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }

    /// Carries out one request of a batch before which `flushable` changes had completed.
    fn request(
        &self,
        state: &mut State,
        request: &mut Request<'_>,
        flushable: usize,
        spent: Spent,
    ) -> Result<(), DeviceErrorKind> {
        match spent {
            Spent::Off => return Err(DeviceErrorKind::PoweredOff),
            Spent::Cut if state.behind.is_some() => return Err(state.cut_behind(request)),
            Spent::Cut => {
                // Under way when the power failed: the change joins the cache, and the cut decides what there
                // is of it.
                let _ = match request {
                    Request::Write { offset, buf, .. } | Request::WriteThrough { offset, buf } => {
                        state.write(*offset, buf, self.resizable)
                    }
                    Request::Append { zone, buf, .. } => state.append(*zone, buf).map(|_| ()),
                    Request::Reset { zone } => state.reset_zone(*zone),
                    Request::Finish { zone } => state.finish_zone(*zone),
                    Request::Discard { offset, len } => state.discard(*offset, *len),
                    Request::Read { .. } | Request::Flush => Ok(()),
                };
                return Err(DeviceErrorKind::PoweredOff);
            }
            Spent::On => {}
        }
        match request {
            Request::Read { offset, buf } => state.read(*offset, buf),
            Request::Write { offset, buf, .. } => state.checked_write(*offset, buf, self.resizable),
            Request::WriteThrough { offset, buf } => {
                state.checked_write(*offset, buf, self.resizable)?;
                state.last_is_durable()
            }
            Request::Append { zone, buf, at } => {
                let place = state.write_pointer_of(*zone)?;
                state.checked_write(place, buf, false).inspect(|()| **at = place)
            }
            Request::Reset { zone } => match state.plan.strike(Operation::Reset) {
                _ if state.flush_failed => Err(DeviceErrorKind::FlushFailed),
                Some(Fault::Error(kind)) => Err(kind),
                Some(Fault::Lie) => Ok(()),
                _ => state.reset_zone(*zone),
            },
            Request::Finish { zone } => match state.plan.strike(Operation::Finish) {
                _ if state.flush_failed => Err(DeviceErrorKind::FlushFailed),
                Some(Fault::Error(kind)) => Err(kind),
                Some(Fault::Lie) => Ok(()),
                _ => state.finish_zone(*zone),
            },
            Request::Flush => state.flush(flushable),
            Request::Discard { offset, len } => match state.plan.strike(Operation::Discard) {
                Some(Fault::Error(kind)) => Err(kind),
                Some(Fault::Lie) => Ok(()),
                _ => state.discard(*offset, *len),
            },
        }
    }
}

impl State {
    fn range(&self, offset: u64, len: u64) -> Option<std::ops::Range<usize>> {
        let end = offset.checked_add(len)?;
        (end <= self.image.len() as u64).then_some(offset as usize..end as usize)
    }

    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceErrorKind> {
        let fault = self.plan.strike(Operation::Read);
        if let Some(Fault::Error(kind)) = fault {
            return Err(kind);
        }
        let range = self.range(offset, buf.len() as u64).ok_or(DeviceErrorKind::UnexpectedEnd)?;
        if self.bad.fails(&(offset..offset + buf.len() as u64)) {
            self.plan.count(Operation::Read);
            return Err(DeviceErrorKind::Io);
        }
        self.image.read(range.start, buf);
        self.read_behind(offset, buf)?;
        self.bad.garble(offset, buf);
        if fault == Some(Fault::FlipBit) && !buf.is_empty() {
            let bit = self.random.below(buf.len() as u64 * 8);
            buf[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        Ok(())
    }

    /// A write with the planned faults.
    fn checked_write(&mut self, offset: u64, buf: &[u8], resizable: bool) -> Result<(), DeviceErrorKind> {
        if self.flush_failed {
            return Err(DeviceErrorKind::FlushFailed);
        }
        match self.plan.strike(Operation::Write) {
            None => self.write(offset, buf, resizable),
            Some(Fault::Lie) => Ok(()),
            Some(Fault::Error(kind)) => {
                self.write_some_sectors(offset, buf);
                Err(kind)
            }
            Some(Fault::FlipBit) => {
                let mut stored = buf.to_vec();
                if !stored.is_empty() {
                    let bit = self.random.below(stored.len() as u64 * 8);
                    stored[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                self.write(offset, &stored, resizable)
            }
            Some(Fault::Misdirect) => {
                let unit = (buf.len() as u64).next_power_of_two().max(SECTOR_BYTES);
                let places = (self.image.len() as u64 / unit).max(1);
                let elsewhere = self.random.below(places) * unit + offset % unit;
                // Past the end of the device the misdirected write is simply lost.
                let _ = self.write(elsewhere, buf, false);
                Ok(())
            }
        }
    }

    /// What a failed write leaves: every sector inside the device is old or new.
    fn write_some_sectors(&mut self, offset: u64, buf: &[u8]) {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let next = (done + (SECTOR_BYTES - at % SECTOR_BYTES) as usize).min(buf.len());
            if self.random.chance(1, 2) && self.range(at, (next - done) as u64).is_some() {
                // In a zone nothing is written behind what was left out.
                let _ = self.write(at, &buf[done..next], false);
            }
            done = next;
        }
    }

    fn write(&mut self, offset: u64, buf: &[u8], resizable: bool) -> Result<(), DeviceErrorKind> {
        let before = self.image.len() as u64;
        let end = offset.checked_add(buf.len() as u64).ok_or(DeviceErrorKind::OutOfRange)?;
        if self.is_sequential(offset) && end <= before {
            return self.write_in_zone(offset, buf);
        }
        if end > before {
            if !resizable {
                return Err(DeviceErrorKind::OutOfRange);
            }
            self.image.resize(end as usize);
        }
        self.write_behind(offset, buf)?;
        let after = self.image.len() as u64;
        self.changes += 1;
        if self.behind.is_none() {
            self.cache.record(&self.image, self.changes, (offset, buf.len() as u64), (before, after));
        }
        self.image.write(offset as usize, buf);
        self.bad.written(&(offset..end));
        Ok(())
    }

    /// A discarded range keeps its bytes or turns to zeros: a caller that reads it again must not care.
    fn discard(&mut self, offset: u64, len: u64) -> Result<(), DeviceErrorKind> {
        let range = self.range(offset, len).ok_or(DeviceErrorKind::OutOfRange)?;
        if len > 0 && self.is_sequential(offset + len - 1) {
            return Err(DeviceErrorKind::Unsupported);
        }
        let before = self.image.len() as u64;
        if self.behind.is_some() {
            return self.discard_behind(offset, len);
        }
        if self.random.chance(1, 2) {
            self.changes += 1;
            self.cache.record(&self.image, self.changes, (offset, len), (before, before));
            self.image.zero(range);
        }
        Ok(())
    }

    fn flush(&mut self, flushable: usize) -> Result<(), DeviceErrorKind> {
        if self.flush_failed {
            return Err(DeviceErrorKind::FlushFailed);
        }
        match self.plan.strike(Operation::Flush) {
            Some(Fault::Error(kind)) => {
                self.flush_failed = true;
                Err(kind)
            }
            Some(Fault::Lie) => Ok(()),
            _ => {
                self.cache.settle(flushable);
                self.flush_behind()
            }
        }
    }

    fn set_len(&mut self, len: u64) {
        let before = self.image.len() as u64;
        let (from, removed) = (len.min(before), before.saturating_sub(len));
        self.changes += 1;
        self.cache.record(&self.image, self.changes, (from, removed), (before, len));
        self.image.resize(len as usize);
    }
}

impl Device for MemoryDevice {
    fn capabilities(&self) -> Capabilities {
        let state = self.state();
        let behind = state.behind.as_ref().map(Behind::capabilities);
        Capabilities {
            len: state.image.len() as u64,
            block_size: 1,
            atomic_write: behind
                .as_ref()
                .map_or(state.cache.sector_bytes as u32, |behind| behind.atomic_write),
            volatile_cache: behind.is_none_or(|behind| behind.volatile_cache),
            can_resize: self.resizable,
            write_through: true,
            zones: state.zones,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut state = self.state();
        state.in_batch.clear();
        let flushable = state.cache.len();
        let mut power_failed = false;
        let mut results = Vec::with_capacity(batch.len());
        for request in batch {
            let mut spent = self.power.spend();
            power_failed |= spent == Spent::Cut;
            // The requests of a batch are in flight together: when power fails in one, the later ones are
            // under way too.
            if power_failed {
                spent = Spent::Cut;
            }
            let result = self.request(&mut state, request, flushable, spent);
            results.push(result.map_err(|kind| self.error(&state, kind, request)));
        }
        results
    }

    fn run_one(&self, mut request: Request<'_>) -> Result<(), DeviceError> {
        let mut state = self.state();
        state.in_batch.clear();
        let flushable = state.cache.len();
        let result = self.request(&mut state, &mut request, flushable, self.power.spend());
        result.map_err(|kind| self.error(&state, kind, &request))
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        let error = |kind| Err(DeviceError::new(kind, "resize", self.name).at(0, len));
        if !self.resizable {
            return error(DeviceErrorKind::Unsupported);
        }
        let mut state = self.state();
        match self.power.spend() {
            Spent::On => {}
            Spent::Cut => {
                state.set_len(len);
                return error(DeviceErrorKind::PoweredOff);
            }
            Spent::Off => return error(DeviceErrorKind::PoweredOff),
        }
        if state.flush_failed {
            return error(DeviceErrorKind::FlushFailed);
        }
        match state.plan.strike(Operation::SetLen) {
            Some(Fault::Error(kind)) => return error(kind),
            Some(Fault::Lie) => return Ok(()),
            _ => state.set_len(len),
        }
        Ok(())
    }

    fn zone_at(&self, offset: u64) -> Result<Zone, DeviceError> {
        let state = self.state();
        state
            .zone_at(offset)
            .map_err(|kind| DeviceError::new(kind, "report a zone of", self.name).at(offset, 0))
    }

    fn describe(&self) -> String {
        self.name.to_owned()
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod zone_tests;
