//! A device of the block host: a drive model, or a station of so many places in which each operation takes a
//! fixed time and that of its bytes.

use mezzanine_device::Model;
use mezzanine_device::model::OperationKind;

use super::super::drive::{Drive, DriveLoad, Look};
use super::super::processor::Servers;
use super::super::setup::Refusal;
use super::between::Ask;

/// What a device of the block host is.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockDevice {
    /// A drive model.
    Model(Box<Model>),
    /// `depth` operations at a time, each of which takes `latency_us` microseconds and the time of its bytes
    /// at `mb_per_s` MB/s (without one: none). What comes then waits in line.
    Flat {
        /// Of one operation, in microseconds.
        latency_us: f64,
        /// Operations at a time.
        depth: u32,
        /// In 10^6 bytes a second.
        mb_per_s: Option<f64>,
    },
}

impl BlockDevice {
    /// Bytes of an endless device are all that a volume can have.
    pub(super) fn capacity(&self) -> u64 {
        match self {
            Self::Model(model) => model.capacity_bytes,
            Self::Flat { .. } => u64::MAX,
        }
    }
}

/// When an operation is to be looked at, and whether it is complete then.
pub(super) enum Entered {
    Done(u64),
    Look { at: u64, operation: u32 },
}

/// A device, with operations for somebody who is a `W`.
pub(super) enum Station<W> {
    Model(Box<Drive<W>>),
    Flat {
        servers: Servers,
        latency: u64,
        ns_per_byte: f64,
        load: DriveLoad,
        write_end: u64,
        stalls: Option<Stalls>,
    },
}

/// A device that stands still at times: what comes then waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalls {
    /// From one to the next, in seconds.
    pub every_seconds: u32,
    /// How long, in ms: less than that.
    pub lasts_ms: u32,
}

impl Stalls {
    /// When what comes now is begun with.
    fn begins(self, now: u64) -> u64 {
        let every = u64::from(self.every_seconds) * 1_000_000_000;
        let began = now / every * every;
        // None at the very beginning.
        if began == 0 { now } else { now.max(began + u64::from(self.lasts_ms) * 1_000_000) }
    }
}

impl<W: Copy> Station<W> {
    /// # Errors
    /// What is wrong with the model, of the device that is called so.
    pub(super) fn new(parameter: &'static str, device: &BlockDevice) -> Result<Self, Refusal> {
        match device {
            BlockDevice::Model(model) => Drive::new(model, None)
                .map(|drive| Self::Model(Box::new(drive)))
                .map_err(|error| Refusal::new(parameter, error.to_string(), "mend the model")),
            &BlockDevice::Flat { latency_us, depth, mb_per_s } => Ok(Self::Flat {
                servers: Servers::new(depth),
                latency: (latency_us * 1e3) as u64,
                ns_per_byte: mb_per_s.map_or(0.0, |rate| 1e3 / rate),
                load: DriveLoad::default(),
                write_end: u64::MAX,
                stalls: None,
            }),
        }
    }

    /// The device with such stalls.
    ///
    /// # Errors
    /// If it is a drive model: its times are its own.
    pub(super) fn with_stalls(mut self, wanted: Option<Stalls>) -> Result<Self, Refusal> {
        match (&mut self, wanted) {
            (Self::Flat { stalls, .. }, wanted) => *stalls = wanted,
            (Self::Model(_), None) => {}
            (Self::Model(_), Some(_)) => {
                let reason = "the cache device is a drive model, whose times are its own";
                return Err(Refusal::new(
                    "cache_stalls",
                    reason.to_owned(),
                    "describe the device by time and depth",
                ));
            }
        }
        Ok(self)
    }

    /// Enters an operation.
    pub(super) fn enter(&mut self, now: u64, ask: &Ask, whose: W) -> Entered {
        match self {
            Self::Model(drive) => {
                let operation = drive.operation(ask.kind, ask.offset, ask.bytes, 1.0);
                let look = drive.submit(now, operation, whose);
                Entered::Look { at: look.at, operation: look.operation }
            }
            Self::Flat { servers, latency, ns_per_byte, load, write_end, stalls } => {
                if ask.kind == OperationKind::Write {
                    load.writes += 1;
                    load.write_bytes += ask.bytes;
                    load.writes_sequential += u64::from(ask.offset == *write_end);
                    *write_end = ask.offset + ask.bytes;
                } else {
                    load.reads += 1;
                    load.read_bytes += ask.bytes;
                }
                // Never nothing, or a run whose devices cost nothing would not come to its end.
                let work = (*latency + (*ns_per_byte * ask.bytes as f64) as u64).max(1);
                let done = servers.serve(stalls.map_or(now, |stalls| stalls.begins(now)), work);
                load.residence += done - now;
                Entered::Done(done)
            }
        }
    }

    /// How an operation of a model is.
    pub(super) fn look(&mut self, now: u64, operation: u32) -> Look<W> {
        match self {
            Self::Model(drive) => drive.look(now, operation),
            Self::Flat { .. } => unreachable!("operations of a flat device are not looked at"),
        }
    }

    pub(super) fn load(&self) -> DriveLoad {
        match self {
            Self::Model(drive) => drive.load(),
            Self::Flat { load, .. } => *load,
        }
    }

    /// Time in ns that all spindles, channels or places were busy, those of operations that are under way
    /// included, and how many there are.
    pub(super) fn busy(&self) -> (u64, u32) {
        match self {
            Self::Model(drive) => (drive.busy(), drive.servers()),
            Self::Flat { servers, .. } => (servers.load().busy, servers.servers()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::between::Device;
    use super::*;

    #[test]
    fn a_flat_device_has_so_many_places_and_a_line() {
        let device = BlockDevice::Flat { latency_us: 2500.0, depth: 1, mb_per_s: Some(150.0) };
        let mut station: Station<()> = Station::new("backing", &device).unwrap();
        let mut enter = |now, kind, bytes| {
            let ask = Ask { device: Device::Backing, kind, offset: 0, bytes };
            match station.enter(now, &ask, ()) {
                Entered::Done(at) => at,
                Entered::Look { .. } => unreachable!(),
            }
        };
        // 8,192 bytes at 150 MB/s are 54.613 us.
        assert_eq!(enter(0, OperationKind::Read, 8192), 2_554_613);
        assert_eq!(enter(0, OperationKind::Write, 8192), 2 * 2_554_613);
        assert_eq!(enter(9_000_000, OperationKind::Read, 8192), 11_554_613);
        let load = station.load();
        assert_eq!((load.reads, load.writes, load.read_bytes), (2, 1, 16_384));
        assert_eq!(station.busy(), (3 * 2_554_613, 1));
    }

    #[test]
    fn what_comes_while_a_device_stands_still_waits() {
        let stalls = Stalls { every_seconds: 2, lasts_ms: 500 };
        let seconds = [0, 1_999, 2_000, 2_400, 2_500, 3_999, 4_001].map(|ms| stalls.begins(ms * 1_000_000));
        let wanted = [0, 1_999, 2_500, 2_500, 2_500, 3_999, 4_500].map(|ms| ms * 1_000_000);
        assert_eq!(seconds, wanted);
    }
}
