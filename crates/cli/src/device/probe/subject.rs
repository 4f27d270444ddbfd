//! What is probed, and the real ones of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_ground::random::Random;

use super::load::{Load, LoadKind, Row, Seen};
use crate::device::measure::noise;

/// Size of the writes that fill what is measured.
pub(super) const FILL_BYTES: u64 = 1 << 20;

/// Something that loads can be run against.
pub(super) trait Subject {
    /// Writes all that is measured, so that reads go to the medium and writes change nothing but contents;
    /// `filled` is told the bytes.
    fn fill(&mut self, filled: &mut dyn FnMut(u64)) -> Result<(), DeviceError>;

    /// Runs a load for this time, up to the end of its last round of writes and fsync.
    fn run(&mut self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError>;

    /// Empties the write cache, so that no load pays for the one before.
    fn settle(&mut self) -> Result<(), DeviceError>;

    /// Flushes that the kernel has sent to the disk so far; the fewest, of several disks.
    fn flushes_counted(&self) -> Option<u64>;
}

/// Runs a load and counts flushes meanwhile.
pub(super) fn measure(
    subject: &mut dyn Subject,
    load: Load,
    time: Duration,
    seed: u64,
) -> Result<Row, DeviceError> {
    let before = subject.flushes_counted();
    let seen = subject.run(load, time, seed)?;
    let counted = subject.flushes_counted().zip(before).map(|(after, before)| after.saturating_sub(before));
    subject.settle()?;
    Ok(Row::new(load, &seen, counted))
}

/// A file or block device.
pub(super) struct RealDevice<'d> {
    device: &'d dyn Device,
    /// The same, opened with O_DSYNC; without it that load flushes after each write, which is the same
    /// promise.
    synchronous: Option<File>,
    span_bytes: u64,
    flushes: Box<dyn Fn() -> Option<u64> + Sync + 'd>,
}

impl<'d> RealDevice<'d> {
    pub(super) fn new(
        device: &'d dyn Device,
        synchronous: Option<File>,
        span_bytes: u64,
        flushes: impl Fn() -> Option<u64> + Sync + 'd,
    ) -> RealDevice<'d> {
        RealDevice { device, synchronous, span_bytes, flushes: Box::new(flushes) }
    }

    fn request(&self, load: Load, buffer: &mut AlignedBuf, offset: u64) -> Result<(), DeviceError> {
        match (load.kind, &self.synchronous) {
            (LoadKind::RandomRead, _) => self.device.read_at(buffer, offset),
            (LoadKind::LogDsync, Some(file)) => file.write_all_at(buffer, offset).map_err(|error| {
                DeviceError::from_io("write", self.device.describe(), error).at(offset, load.request_bytes)
            }),
            (LoadKind::LogDsync, None) => {
                self.device.write_at(buffer, offset)?;
                self.device.flush()
            }
            _ => self.device.write_at(buffer, offset),
        }
    }

    /// One client until the time is over, or another one has failed.
    fn client(&self, load: Load, time: Duration, seed: u64, stop: &AtomicBool) -> Result<Seen, DeviceError> {
        let (mut seen, mut random) = (Seen::default(), Random::new(seed));
        let mut buffer = noise(load.request_bytes as usize, seed);
        let places = self.span_bytes / load.request_bytes;
        let began = Instant::now();
        let mut number = 0_u64;
        loop {
            let is_round = load.writes_per_fsync.is_none_or(|writes| number % writes == 0);
            if stop.load(Ordering::Relaxed) || (is_round && began.elapsed() >= time) {
                break;
            }
            let place = if load.is_random() { random.below(places) } else { number % places };
            let at = Instant::now();
            self.request(load, &mut buffer, place * load.request_bytes)?;
            seen.requests.record(at.elapsed());
            number += 1;
            if load.writes_per_fsync.is_some_and(|writes| number % writes == 0) {
                let at = Instant::now();
                self.device.flush()?;
                seen.fsyncs.record(at.elapsed());
            }
        }
        seen.time = began.elapsed();
        Ok(seen)
    }
}

impl Subject for RealDevice<'_> {
    fn fill(&mut self, filled: &mut dyn FnMut(u64)) -> Result<(), DeviceError> {
        let noise = noise(FILL_BYTES as usize, 0);
        let mut offset = 0;
        while offset < self.span_bytes {
            let len = FILL_BYTES.min(self.span_bytes - offset);
            self.device.write_at(&noise[..len as usize], offset)?;
            offset += len;
            filled(offset);
        }
        self.device.flush()
    }

    fn run(&mut self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError> {
        let (this, stop) = (&*self, AtomicBool::new(false));
        let began = Instant::now();
        let all: Vec<Result<Seen, DeviceError>> = thread::scope(|scope| {
            let stop = &stop;
            let clients: Vec<_> = (0..load.clients as u64)
                .map(|client| {
                    let seed = seed.wrapping_add(client << 32);
                    scope.spawn(move || {
                        let seen = this.client(load, time, seed, stop);
                        seen.inspect_err(|_| stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        let mut total = Seen::default();
        for seen in all {
            let seen = seen?;
            total.requests.merge(&seen.requests);
            total.fsyncs.merge(&seen.fsyncs);
            total.time = total.time.max(seen.time);
        }
        if load.clients > 1 {
            total.time = began.elapsed();
        }
        Ok(total)
    }

    fn settle(&mut self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    fn flushes_counted(&self) -> Option<u64> {
        (self.flushes)()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::MemoryDevice;

    use super::*;
    use crate::device::probe::load::loads;

    #[test]
    fn each_load_is_run_and_counts_its_requests_and_fsyncs() {
        let device = MemoryDevice::new(8 << 20);
        let mut subject = RealDevice::new(&device, None, 8 << 20, || None);
        subject.fill(&mut |_| {}).unwrap();
        for load in loads(3) {
            let row = measure(&mut subject, load, Duration::from_millis(2), 7).unwrap();
            assert!(row.requests > 0 && row.per_second > 0.0, "{row:?}");
            let fsyncs = load.writes_per_fsync.map_or(0, |writes| row.requests / writes);
            assert_eq!(row.fsyncs, fsyncs, "{row:?}");
            assert_eq!(row.fsync_us_mean.is_some(), fsyncs > 0);
        }
    }
}
