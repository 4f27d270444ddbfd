//! Devices and sidecars in memory whose requests are points, before and after each and between the pages of
//! one, and which lose power together.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mezzanine_device::memory::{MemoryDevice, Power, Spent};
use mezzanine_device::{Capabilities, Device, DeviceError, Request};
use mezzanine_ground::interleave::point;
use mezzanine_volume::SidecarStore;

use crate::pages::PAGE;
use crate::world::draw;

/// A device in memory. The requests of a batch take effect one by one in any order, the pages of a request
/// one after the other, and other threads may run in between. A flush takes effect at once, somewhere between
/// its two points.
pub(crate) struct Scheduled(pub(crate) MemoryDevice);

impl Scheduled {
    pub(crate) fn on(power: &Power, name: &'static str, bytes: u64, resizable: bool) -> Arc<Self> {
        Arc::new(Self(MemoryDevice::on(power, name, bytes, resizable)))
    }

    /// One on another supply in the same state.
    pub(crate) fn copy_on(&self, power: &Power) -> Arc<Self> {
        let copy = Self::on(power, "a copy", 0, self.0.capabilities().can_resize);
        copy.0.copy_from(&self.0);
        copy
    }

    fn carry_out(&self, request: &mut Request<'_>) -> Result<(), DeviceError> {
        point();
        match request {
            Request::Read { offset, buf } => {
                for (index, part) in buf.chunks_mut(PAGE).enumerate() {
                    between(index);
                    self.0.read_at(part, *offset + (index * PAGE) as u64)?;
                }
                Ok(())
            }
            Request::Write { offset, buf, .. } => {
                for (index, part) in buf.chunks(PAGE).enumerate() {
                    between(index);
                    self.0.write_at(part, *offset + (index * PAGE) as u64)?;
                }
                Ok(())
            }
            Request::Flush => self.0.flush(),
            Request::Discard { offset, len } => self.0.discard(*offset, *len),
            Request::WriteThrough { offset, buf } => self.0.write_through(buf, *offset),
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                Err(request.unsupported(self.0.describe()))
            }
        }
    }
}

fn between(index: usize) {
    if index > 0 {
        point();
    }
}

impl Device for Scheduled {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut results: Vec<Option<Result<(), DeviceError>>> = batch.iter().map(|_| None).collect();
        while !left.is_empty() {
            let next = left.swap_remove(draw(left.len() as u64) as usize);
            results[next] = Some(self.carry_out(&mut batch[next]));
        }
        point();
        results.into_iter().flatten().collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        point();
        let set = self.0.set_len(len);
        point();
        set
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// A sidecar that is replaced whole or not at all.
pub(crate) struct Sidecar {
    power: Power,
    /// So many more changes are made before some are refused, and so many then.
    left: AtomicU64,
    refused: AtomicU64,
    // A standard lock: it is not held at a point.
    bytes: Mutex<Option<Vec<u8>>>,
}

impl Sidecar {
    pub(crate) fn on(power: &Power) -> Arc<Self> {
        Arc::new(Self::with(power, None))
    }

    /// One on another supply that says the same.
    pub(crate) fn copy_on(&self, power: &Power) -> Arc<Self> {
        Arc::new(Self::with(power, self.bytes.lock().unwrap().clone()))
    }

    fn with(power: &Power, bytes: Option<Vec<u8>>) -> Self {
        let [left, refused] = Default::default();
        Self { power: power.clone(), left, refused, bytes: Mutex::new(bytes) }
    }

    /// Has it make `left` changes more, and then refuse some.
    pub(crate) fn fails(&self, left: u64, refused: u64) {
        self.left.store(left, Ordering::SeqCst);
        self.refused.store(refused, Ordering::SeqCst);
    }

    /// One of those that are made is over, or else one of those that are refused.
    fn is_refused(&self) -> bool {
        let one = |count: &AtomicU64| {
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
        };
        one(&self.left).is_err() && one(&self.refused).is_ok()
    }

    pub(crate) fn exists(&self) -> bool {
        self.bytes.lock().unwrap().is_some()
    }

    fn put(&self, bytes: Option<Vec<u8>>) -> io::Result<()> {
        point();
        let spent = self.power.spend();
        let refused = self.is_refused();
        // Nobody knows whether one that is refused, or that the power fails in, was made.
        if spent == Spent::On && !refused || spent != Spent::Off && draw(2) == 0 {
            *self.bytes.lock().unwrap() = bytes;
        }
        point();
        match (spent, refused) {
            (Spent::On, false) => Ok(()),
            (Spent::On, true) => Err(io::Error::other("refused by the model")),
            _ => Err(io::Error::other("no power")),
        }
    }
}

impl SidecarStore for Sidecar {
    fn describe(&self) -> String {
        "sidecar".to_owned()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.bytes.lock().unwrap().clone())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(Some(bytes.to_vec()))
    }

    fn remove(&self) -> io::Result<()> {
        self.put(None)
    }

    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(vec![1]))
    }
}
