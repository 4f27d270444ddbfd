//! What a device can do, measured: random and sequential reads and writes in a closed loop, and the time of a
//! flush.
//!
//! [`measure`] never writes to a device unless [`Setup::writes`] says that its contents may be lost.
//! [`measure_new_file`] writes, but only to a file that it creates itself and removes again.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device, DeviceError, DeviceErrorKind, FileDevice, OpenOptions};
use mezzanine_ground::random::Random;
use mezzanine_workload::Histogram;
use serde::Serialize;

/// Threads of a closed loop at most: deeper queues are measured at this depth, and the report says so.
pub(super) const CLIENTS_MAX: usize = 256;

/// Whether the contents of the device may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Writes {
    /// Read only.
    #[default]
    Forbidden,
    /// Overwrite the measured part of the device with noise.
    DestroyContents,
}

/// How to measure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setup {
    /// Size of random requests in bytes.
    pub(super) random_bytes: usize,
    /// Size of sequential requests in bytes.
    pub(super) sequential_bytes: usize,
    /// Requests in flight.
    pub(super) queue_depth: usize,
    /// Time for each phase.
    pub(super) time: Duration,
    /// Use only the first bytes of the device; the whole device if it is shorter.
    pub(super) span_bytes: u64,
    /// Whether writes and flushes are measured.
    pub(super) writes: Writes,
    /// Seed of the random addresses.
    pub(super) seed: u64,
}

impl Default for Setup {
    /// 4 KiB and 128 KiB at depth 32, two seconds each, reading only.
    fn default() -> Self {
        Self {
            random_bytes: 4096,
            sequential_bytes: 128 << 10,
            queue_depth: 32,
            time: Duration::from_secs(2),
            span_bytes: u64::MAX,
            writes: Writes::Forbidden,
            seed: 1,
        }
    }
}

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Reads at random addresses.
    RandomRead,
    /// Writes at random addresses.
    RandomWrite,
    /// Reads that follow one another.
    SequentialRead,
    /// Writes that follow one another.
    SequentialWrite,
    /// One client that writes a block and flushes; the flush alone is timed.
    Flush,
}

impl Phase {
    /// All phases in the order in which they are measured.
    pub(super) const ALL: [Self; 5] =
        [Self::SequentialWrite, Self::RandomWrite, Self::RandomRead, Self::SequentialRead, Self::Flush];

    /// Whether contents are lost.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::RandomWrite | Self::SequentialWrite | Self::Flush)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }
}

/// What came out of a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Measurement {
    /// The load.
    pub(super) phase: Phase,
    /// Size of a request in bytes.
    pub(super) request_bytes: usize,
    /// Requests in flight.
    pub(super) queue_depth: usize,
    /// Requests completed.
    pub(super) operations: u64,
    /// Requests per second.
    pub(super) per_second: f64,
    /// Bytes per second in 10^6.
    pub(super) mb_per_s: f64,
    /// Mean latency in microseconds.
    pub(super) latency_us_mean: f64,
    /// Median latency in microseconds.
    pub(super) latency_us_p50: f64,
    /// 95 % of the latencies are not above this, in microseconds.
    pub(super) latency_us_p95: f64,
    /// 99 % of the latencies are not above this, in microseconds.
    pub(super) latency_us_p99: f64,
    /// 99.9 % of the latencies are not above this, in microseconds.
    pub(super) latency_us_p999: f64,
    /// Longest latency in microseconds.
    pub(super) latency_us_max: f64,
}

/// Measures a device; `begin` is told each phase before it starts.
///
/// # Errors
/// `OutOfRange` if the device is shorter than a request; the first failed request.
pub(super) fn measure(
    device: &dyn Device,
    setup: &Setup,
    begin: &mut dyn FnMut(Phase),
) -> Result<Vec<Measurement>, DeviceError> {
    let may_write = setup.writes == Writes::DestroyContents;
    let mut measurements = Vec::new();
    for phase in Phase::ALL.into_iter().filter(|phase| may_write || !phase.writes()) {
        begin(phase);
        measurements.push(Run::new(device, setup, phase)?.measure()?);
    }
    Ok(measurements)
}

/// Measures where a file would lie: creates one of `len` bytes at `path`, fills it, measures everything,
/// removes it.
///
/// # Errors
/// `AlreadyExists` if there is a file, which is left alone; those of creating, filling and measuring.
pub(super) fn measure_new_file(
    path: &Path,
    len: u64,
    options: &OpenOptions,
    setup: &Setup,
    begin: &mut dyn FnMut(Phase),
) -> Result<Vec<Measurement>, DeviceError> {
    let options = OpenOptions { write: true, create_new: true, len: Some(len), ..options.clone() };
    let device = FileDevice::open(path, &options)?;
    let setup = Setup { writes: Writes::DestroyContents, ..setup.clone() };
    let result = fill(&device, len).and_then(|()| measure(&device, &setup, begin));
    drop(device);
    let _ = std::fs::remove_file(path);
    result
}

/// Writes every block, so that reads go to the medium and not to holes.
fn fill(device: &dyn Device, len: u64) -> Result<(), DeviceError> {
    let noise = noise(1 << 20, 0);
    let mut offset = 0;
    while offset < len {
        let count = (len - offset).min(noise.len() as u64);
        device.write_at(&noise[..count as usize], offset)?;
        offset += count;
    }
    device.flush()
}

/// Bytes that no drive can compress.
pub(super) fn noise(len: usize, seed: u64) -> AlignedBuf {
    let (mut buffer, mut random) = (AlignedBuf::zeroed(len), Random::new(seed));
    for word in buffer.chunks_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
    }
    buffer
}

/// A phase under way.
struct Run<'r> {
    device: &'r dyn Device,
    phase: Phase,
    len: usize,
    /// Requests that fit into the measured part.
    places: u64,
    clients: usize,
    time: Duration,
    seed: u64,
    next: AtomicU64,
    stop: AtomicBool,
    failed: Mutex<Option<DeviceError>>,
}

impl<'r> Run<'r> {
    fn new(device: &'r dyn Device, setup: &Setup, phase: Phase) -> Result<Self, DeviceError> {
        let len = if phase.is_random() || phase == Phase::Flush {
            setup.random_bytes
        } else {
            setup.sequential_bytes
        };
        let places = device.len().min(setup.span_bytes) / (len as u64).max(1);
        if places == 0 || len == 0 {
            let error = DeviceError::new(DeviceErrorKind::OutOfRange, "measure", device.describe());
            return Err(error.at(0, len as u64).advise("it is shorter than a single request"));
        }
        let clients = if phase == Phase::Flush { 1 } else { setup.queue_depth.clamp(1, CLIENTS_MAX) };
        Ok(Self {
            device,
            phase,
            len,
            places,
            clients,
            time: setup.time,
            seed: setup.seed,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failed: Mutex::new(None),
        })
    }

    fn measure(&self) -> Result<Measurement, DeviceError> {
        let began = Instant::now();
        let total = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|client| scope.spawn(move || self.client(client as u64, began)))
                .collect();
            let mut total = Histogram::default();
            for client in clients {
                if let Ok(histogram) = client.join() {
                    total.merge(&histogram);
                }
            }
            total
        });
        let seconds = began.elapsed().as_secs_f64();
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let per_second = total.count() as f64 / seconds;
        let us = |latency: Duration| latency.as_nanos() as f64 / 1e3;
        Ok(Measurement {
            phase: self.phase,
            request_bytes: self.len,
            queue_depth: self.clients,
            operations: total.count(),
            per_second,
            mb_per_s: per_second * self.len as f64 / 1e6,
            latency_us_mean: us(total.mean()),
            latency_us_p50: us(total.quantile(0.5)),
            latency_us_p95: us(total.quantile(0.95)),
            latency_us_p99: us(total.quantile(0.99)),
            latency_us_p999: us(total.quantile(0.999)),
            latency_us_max: us(total.max()),
        })
    }

    /// Sends one request after the other until the time is over.
    fn client(&self, number: u64, began: Instant) -> Histogram {
        let seed = self.seed.wrapping_add(number << 32);
        let (mut random, mut buffer) = (Random::new(seed), noise(self.len, seed));
        let mut histogram = Histogram::default();
        while !self.stop.load(Ordering::Relaxed) && began.elapsed() < self.time {
            let place = if self.phase.is_random() {
                random.below(self.places)
            } else {
                self.next.fetch_add(1, Ordering::Relaxed) % self.places
            };
            let offset = place * self.len as u64;
            match self.request(&mut buffer, offset) {
                Ok(latency) => histogram.record(latency),
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
        histogram
    }

    /// The latency of one request.
    fn request(&self, buffer: &mut AlignedBuf, offset: u64) -> Result<Duration, DeviceError> {
        let mut began = Instant::now();
        match self.phase {
            Phase::RandomRead | Phase::SequentialRead => self.device.read_at(buffer, offset)?,
            Phase::RandomWrite | Phase::SequentialWrite => self.device.write_at(buffer, offset)?,
            Phase::Flush => {
                self.device.write_at(buffer, offset)?;
                began = Instant::now();
                self.device.flush()?;
            }
        }
        Ok(began.elapsed())
    }
}
