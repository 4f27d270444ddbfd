//! A modelled drive with contents, whose power can fail while others use it.
//!
//! A [`PoweredDrive`] is the switch, on any device that [`LosesPower`]. By default that is one whose times
//! are those of a [`Drive`] and whose bytes are those of a [`MemoryDevice`] ([`ModelledContents`]). What a
//! cut takes is decided there: of what the write cache holds each write is kept, lost or torn. A cache of 0
//! bytes stands for one that capacitors keep, and for none: whatever was acknowledged is there afterwards,
//! and what was under way is there as a whole or not at all.
//!
//! Rules, numbered for reference:
//! 1. Nothing is acknowledged once the power is off, whatever became of it: whoever is being held back by the
//!    model gets an error.
//! 2. What a cut takes is decided when nothing is under way any more, and nothing begins before the power is
//!    on again. So no request from before the cut reaches the contents after it.
//!
//! What is not modelled: the time that the drive takes to start, and a queue that is empty then.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::{Attachment, Drive};
use crate::memory::CutReport;
use crate::{Capabilities, Device, DeviceError, DeviceErrorKind, MemoryDevice, Request};

/// A device that can lose power, and decides then what it has lost.
pub trait LosesPower: Device {
    /// What a power cut has done.
    type Report;

    /// Carries out requests in one of whose writes the power fails. What comes of it is told to nobody.
    fn run_at_cut(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.run(batch)
    }

    /// The power fails at this instant. What is under way may go on to its end; nobody is told of it.
    fn power_fails(&self) {}

    /// Decides by `seed` what the power cut takes. Nothing is under way. Then the device has power again.
    fn power_cut(&self, seed: u64) -> Self::Report;
}

/// A device whose power can fail while others use it.
pub struct PoweredDrive<D = ModelledContents> {
    device: D,
    name: String,
    off: AtomicBool,
    /// Shared by what is under way (rule 2).
    under_way: RwLock<()>,
    /// Writes since the power came on, and in which of them it fails; `u64::MAX` for none.
    writes: AtomicU64,
    cut_at_write: AtomicU64,
    /// For those who wait for a cut.
    waiting: Mutex<()>,
    went_off: Condvar,
}

/// Contents in memory, with the times of a modelled drive.
pub struct ModelledContents {
    contents: Arc<MemoryDevice>,
    /// The contents with their cache, on the drive.
    modelled: Arc<dyn Device>,
}

/// Contents of which at most so much is not durable.
struct Cached {
    contents: Arc<MemoryDevice>,
    cache_bytes: u64,
}

impl PoweredDrive {
    /// Puts contents on a drive whose write cache holds so many bytes that a power cut may take.
    pub fn new(drive: &Arc<Drive>, contents: Arc<MemoryDevice>, cache_bytes: u64) -> Self {
        let cached = Cached { contents: Arc::clone(&contents), cache_bytes };
        let attachment = Attachment { pass_flush: true, ..Attachment::default() };
        let modelled = drive.attach_as(Arc::new(cached), attachment);
        let device = ModelledContents { contents, modelled };
        Self::of(device, format!("a modelled {}", drive.model().title))
    }

    /// What the drive holds: all that was written, until a cut is decided.
    pub fn contents(&self) -> &MemoryDevice {
        &self.device.contents
    }
}

impl<D: LosesPower> PoweredDrive<D> {
    /// Puts a switch on a device, which errors name like this.
    pub fn of(device: D, name: String) -> Self {
        Self {
            device,
            name,
            off: AtomicBool::new(false),
            under_way: RwLock::new(()),
            writes: AtomicU64::new(0),
            cut_at_write: AtomicU64::new(u64::MAX),
            waiting: Mutex::new(()),
            went_off: Condvar::new(),
        }
    }

    /// The device itself, past the switch.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Writes since the power came on.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Lets the power fail in the `n`-th write after it came on; 1 is the first.
    pub fn cut_in_write(&self, n: u64) {
        self.cut_at_write.store(n.max(1), Ordering::SeqCst);
    }

    /// Lets the power fail in no write any more. If it was to fail in one that had begun, it has failed when
    /// this returns.
    pub fn cut_in_no_write(&self) {
        let _alone = self.under_way.write().unwrap_or_else(PoisonError::into_inner);
        self.cut_at_write.store(u64::MAX, Ordering::SeqCst);
    }

    /// The power fails now. From now on all requests fail, those under way among them.
    pub fn cut(&self) {
        if !self.off.swap(true, Ordering::SeqCst) {
            self.device.power_fails();
        }
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.went_off.notify_all();
    }

    /// Whether it has power.
    pub fn is_on(&self) -> bool {
        !self.off.load(Ordering::SeqCst)
    }

    /// Waits until the power has failed, but no longer than that; returns whether it has.
    pub fn wait_for_cut(&self, patience: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.went_off.wait_timeout_while(waiting, patience, |()| self.is_on()));
        !self.is_on()
    }

    /// Decides by `seed` what the cut takes, once nothing is under way. The power stays off.
    ///
    /// # Panics
    /// When the power is on.
    pub fn lose(&self, seed: u64) -> D::Report {
        assert!(!self.is_on(), "a drive that has power loses nothing");
        let _alone = self.under_way.write().unwrap_or_else(PoisonError::into_inner);
        self.device.power_cut(seed)
    }

    /// The power comes on again, on what there is. Writes are counted from 0.
    pub fn restore(&self) {
        let _alone = self.under_way.write().unwrap_or_else(PoisonError::into_inner);
        self.writes.store(0, Ordering::SeqCst);
        self.off.store(false, Ordering::SeqCst);
    }

    fn without_power(&self, request: &Request<'_>) -> DeviceError {
        let error = DeviceError::new(DeviceErrorKind::PoweredOff, request.operation(), self.describe());
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }
}

impl<D: LosesPower> Device for PoweredDrive<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let off = |batch: &[Request<'_>]| -> Vec<Result<(), DeviceError>> {
            batch.iter().map(|request| Err(self.without_power(request))).collect()
        };
        let under_way = self.under_way.read().unwrap_or_else(PoisonError::into_inner);
        if !self.is_on() {
            return off(batch);
        }
        let is_write =
            |request: &&Request<'_>| matches!(request, Request::Write { .. } | Request::WriteThrough { .. });
        let writes = batch.iter().filter(is_write).count() as u64;
        let before = self.writes.fetch_add(writes, Ordering::SeqCst);
        let is_cut = writes > 0 && before + writes >= self.cut_at_write.load(Ordering::SeqCst);
        let results = if is_cut { self.device.run_at_cut(batch) } else { self.device.run(batch) };
        if is_cut {
            self.cut();
        }
        let is_on = self.is_on();
        drop(under_way);
        if is_on { results } else { off(batch) }
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.device.set_len(len)
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.device.data_from(offset)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl ModelledContents {
    /// The contents alone.
    pub fn memory(&self) -> &MemoryDevice {
        &self.contents
    }
}

impl Device for ModelledContents {
    fn capabilities(&self) -> Capabilities {
        self.modelled.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.modelled.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.modelled.set_len(len)
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.modelled.data_from(offset)
    }

    fn describe(&self) -> String {
        self.modelled.describe()
    }
}

impl LosesPower for ModelledContents {
    type Report = CutReport;

    fn power_cut(&self, seed: u64) -> CutReport {
        self.contents.power_cut(seed)
    }
}

impl Device for Cached {
    fn capabilities(&self) -> Capabilities {
        self.contents.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let results = self.contents.run(batch);
        self.contents.drain_cache(self.cache_bytes);
        results
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.contents.set_len(len)
    }

    fn describe(&self) -> String {
        self.contents.describe()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::thread;

    use super::*;
    use crate::model;

    fn drive(cache_bytes: u64, time_scale: f64) -> PoweredDrive {
        let drive = Drive::open_shared(model::find("nvme-local").unwrap(), None, time_scale).unwrap();
        PoweredDrive::new(&drive, Arc::new(MemoryDevice::new(1 << 20)), cache_bytes)
    }

    #[test]
    fn a_cache_that_capacitors_keep_loses_nothing_that_was_acknowledged() {
        let drive = drive(0, 0.0);
        for round in 0..50u8 {
            drive.write_at(&[round; 8192], 4096).unwrap();
            drive.cut();
            assert_eq!(drive.lose(u64::from(round)), CutReport::default());
            let error = drive.read_at(&mut [0; 10], 0).unwrap_err();
            assert_eq!(error.kind(), DeviceErrorKind::PoweredOff);
            assert!(error.to_string().contains("NVMe"), "{error}");
            drive.restore();
            let mut found = [0; 8192];
            drive.read_at(&mut found, 4096).unwrap();
            assert_eq!(found, [round; 8192]);
        }
    }

    #[test]
    fn a_volatile_cache_loses_what_was_not_flushed_and_nothing_else() {
        let mut lost = 0;
        for seed in 0..50 {
            let drive = drive(1 << 20, 0.0);
            drive.write_at(&[1; 4096], 0).unwrap();
            drive.flush().unwrap();
            drive.write_at(&[2; 4096], 4096).unwrap();
            drive.cut();
            drive.lose(seed);
            drive.restore();
            let mut found = [0; 8192];
            drive.read_at(&mut found, 0).unwrap();
            assert_eq!(found[..4096], [1; 4096]);
            lost += u32::from(found[4096..] != [2; 4096]);
        }
        assert!(lost > 0);
    }

    #[test]
    fn the_write_that_was_named_is_not_acknowledged_and_none_after_it() {
        let drive = drive(0, 0.0);
        drive.cut_in_write(3);
        for round in 0..2 {
            drive.write_at(b"one", 0).unwrap();
            drive.read_at(&mut [0; 3], 0).unwrap();
            drive.write_at(b"two", 0).unwrap();
            assert!(!drive.wait_for_cut(Duration::ZERO));
            drive.write_at(b"cut", 0).unwrap_err();
            assert!(drive.wait_for_cut(Duration::ZERO), "{round}");
            assert_eq!(drive.writes(), 3);
            drive.flush().unwrap_err();
            drive.lose(1);
            drive.restore();
        }
    }

    #[test]
    fn a_cut_that_is_taken_back_has_come_or_never_comes() {
        let drive = drive(1 << 20, 10_000.0);
        drive.cut_in_write(1);
        thread::scope(|scope| {
            let write = scope.spawn(|| drive.write_at(&[7; 4096], 0));
            while drive.contents().changes() == 0 {
                thread::yield_now();
            }
            drive.cut_in_no_write();
            assert!(!drive.is_on(), "the write had begun");
            write.join().unwrap().unwrap_err();
        });
        drive.lose(1);
        drive.restore();
        drive.write_at(&[7; 4096], 0).unwrap();
        assert!(drive.is_on());
    }

    /// Rules 1 and 2: a write that the model holds back is not acknowledged, and is over before the cut is
    /// decided.
    #[test]
    fn what_the_model_holds_back_at_a_cut_fails_and_the_cut_waits_for_it() {
        // A write takes about 20 us, so here about 200 ms.
        let drive = drive(1 << 20, 10_000.0);
        thread::scope(|scope| {
            let write = scope.spawn(|| drive.write_at(&[7; 4096], 0));
            while drive.contents().changes() == 0 {
                thread::yield_now();
            }
            drive.cut();
            drive.lose(3);
            assert!(write.is_finished() || drive.under_way.try_write().is_ok());
            let error = write.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), DeviceErrorKind::PoweredOff);
        });
        assert_eq!(drive.contents().unflushed(), 0);
    }
}
