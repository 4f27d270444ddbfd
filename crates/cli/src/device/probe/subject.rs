//! What is probed, and the real ones of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_ssd::load::{FILL_BYTES, Observer, Step};

use super::load::{Load, Row, Seen};
use crate::device::measure::noise;

/// Something that loads can be run against.
pub(super) trait Subject {
    /// Has everything from now on use the first so many bytes.
    fn use_bytes(&mut self, span_bytes: u64);

    /// Writes all that is measured, so that reads go to the medium and writes change nothing but contents;
    /// `filled` is told the bytes.
    fn fill(&mut self, filled: &mut dyn FnMut(u64)) -> Result<(), DeviceError>;

    /// Runs a load for this time, up to the end of its last round of writes and fsync.
    fn run(&mut self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError>;

    /// Empties the write cache, so that no load pays for the one before, and does nothing for this time.
    fn settle(&mut self, rest: Duration) -> Result<(), DeviceError>;

    /// Flushes that the kernel has sent to the disk so far; the fewest, of several disks.
    fn flushes_counted(&self) -> Option<u64>;
}

/// Runs a load and counts flushes meanwhile. Nothing is done for `rest` after it.
pub(super) fn measure(
    subject: &mut dyn Subject,
    load: Load,
    time: Duration,
    rest: Duration,
    seed: u64,
) -> Result<Row, DeviceError> {
    let before = subject.flushes_counted();
    let seen = subject.run(load, time, seed)?;
    let counted = subject.flushes_counted().zip(before).map(|(after, before)| after.saturating_sub(before));
    subject.settle(rest)?;
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

    fn carry_out(&self, step: Step, load: Load, buffer: &mut AlignedBuf) -> Result<(), DeviceError> {
        match step {
            Step::Read(offset) => self.device.read_at(buffer, offset),
            Step::Write(offset) => self.device.write_at(buffer, offset),
            Step::WriteThrough(offset) => match &self.synchronous {
                Some(file) => file.write_all_at(buffer, offset).map_err(|error| {
                    DeviceError::from_io("write", self.device.describe(), error)
                        .at(offset, load.request_bytes)
                }),
                None => {
                    self.device.write_at(buffer, offset)?;
                    self.device.flush()
                }
            },
            Step::Fsync => self.device.flush(),
            Step::Rest(time) => {
                thread::sleep(time);
                Ok(())
            }
        }
    }

    /// One client until the time is over, or another one has failed.
    fn client(
        &self,
        number: usize,
        load: Load,
        time: Duration,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Seen, DeviceError> {
        let (mut seen, mut client) = (Seen::default(), load.client(number, self.span_bytes, seed));
        let mut buffer = noise(load.request_bytes as usize, seed.wrapping_add(number as u64));
        let began = Instant::now();
        while !(stop.load(Ordering::Relaxed)
            || client.is_over()
            || client.may_end() && began.elapsed() >= time)
        {
            let step = client.step();
            let at = Instant::now();
            self.carry_out(step, load, &mut buffer)?;
            let took = at.elapsed();
            match step {
                Step::Read(_) => seen.read(took),
                Step::Write(_) | Step::WriteThrough(_) => seen.write(took),
                Step::Fsync => seen.fsync(took),
                Step::Rest(_) => {}
            }
        }
        seen.time = began.elapsed();
        Ok(seen)
    }

    fn run_once(&self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError> {
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let all: Vec<Result<Seen, DeviceError>> = thread::scope(|scope| {
            let stop = &stop;
            let clients: Vec<_> = (0..load.clients)
                .map(|number| {
                    scope.spawn(move || {
                        let seen = self.client(number, load, time, seed, stop);
                        seen.inspect_err(|_| stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            clients.into_iter().filter_map(|client| client.join().ok()).collect()
        });
        let mut total = Seen::default();
        for seen in all {
            total.merge(&seen?);
        }
        if load.clients > 1 {
            total.time = began.elapsed();
        }
        Ok(total)
    }
}

impl Subject for RealDevice<'_> {
    fn use_bytes(&mut self, span_bytes: u64) {
        self.span_bytes = span_bytes;
    }

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
        if load.warm_up {
            self.run_once(load, time, !seed)?;
        }
        self.run_once(load, time, seed)
    }

    fn settle(&mut self, rest: Duration) -> Result<(), DeviceError> {
        self.device.flush()?;
        thread::sleep(rest);
        Ok(())
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
            let row = measure(&mut subject, load, Duration::from_millis(2), Duration::ZERO, 7).unwrap();
            assert!(row.requests > 0 && row.per_second > 0.0, "{row:?}");
            let fsyncs = load.writes_per_fsync.map_or(0, |writes| row.requests / writes);
            assert_eq!(row.fsyncs, fsyncs, "{row:?}");
            assert_eq!(row.fsync_us_mean.is_some(), fsyncs > 0);
        }
    }
}
