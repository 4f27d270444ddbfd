//! A device with the inside of a drive that loses power: bytes for the versions that
//! [`Recorder`] keeps, on a supply that others hang on as well.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use mezzanine_device::memory::{Power, Spent};
use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_ssd::Ssd;
use mezzanine_ssd::power::{Contents, Recorder, Version};

/// The unit that the drive maps, in bytes.
pub(crate) const UNIT: usize = 4096;
const SECTOR: usize = 512;

pub(crate) struct SsdDevice {
    ssd: Ssd,
    power: Power,
    inside: Mutex<Inside>,
}

struct Inside {
    state: Box<[u64]>,
    recorder: Recorder,
    random: Random,
    now: u64,
    /// When the power failed.
    cut_at: Option<u64>,
    version: Version,
    /// What was written, by version and unit.
    bytes: HashMap<(Version, u32), Box<[u8]>>,
    /// Why it does not start.
    dead: Option<String>,
    damaged: u64,
}

impl SsdDevice {
    pub(crate) fn new(ssd: Ssd, power: &Power, seed: u64) -> Self {
        let inside = Inside {
            state: ssd.idle(),
            recorder: Recorder::new(ssd.config()),
            random: Random::new(seed),
            now: 0,
            cut_at: None,
            version: 0,
            bytes: HashMap::new(),
            dead: None,
            damaged: 0,
        };
        Self { ssd, power: power.clone(), inside: Mutex::new(inside) }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    /// The power fails, if it has not failed in an operation, and the drive starts again. To be called before
    /// it returns to the others.
    pub(crate) fn lose_power(&self) {
        let mut guard = self.inside();
        let Inside { state, recorder, random, now, cut_at, dead, damaged, .. } = &mut *guard;
        if dead.is_some() {
            return;
        }
        let at = cut_at.take().unwrap_or_else(|| *now + random.magnitude(4_000_000));
        let mut remains = recorder.cut(self.ssd.config(), self.ssd.erases(state), at, None);
        *now = 0;
        *dead = self.ssd.restart(state, recorder, &mut remains).err().map(|error| error.to_string());
        if dead.is_none() {
            let units = 0..self.ssd.config().logical_units();
            let contents = units.map(|unit| recorder.read(&self.ssd, state, unit).expect("books in order"));
            *damaged += contents.filter(|contents| !contents.passes_checksum()).count() as u64;
        }
    }

    /// Units that starts have found to have other contents than any version.
    pub(crate) fn damaged(&self) -> u64 {
        self.inside().damaged
    }

    fn error(&self, kind: DeviceErrorKind, request: &Request<'_>, dead: Option<&str>) -> DeviceError {
        let error = DeviceError::new(kind, request.operation(), self.describe());
        let error = match dead {
            Some(why) => error.advise(why),
            None => error,
        };
        match request.range() {
            Some((offset, len)) => error.at(offset, len),
            None => error,
        }
    }

    fn request(
        &self,
        inside: &mut Inside,
        request: &mut Request<'_>,
        spent: Spent,
    ) -> Result<(), DeviceErrorKind> {
        if spent == Spent::Off {
            return Err(DeviceErrorKind::PoweredOff);
        }
        if inside.dead.is_some() {
            return Err(DeviceErrorKind::Io);
        }
        let capacity = self.ssd.capacity();
        if let Some((offset, len)) = request.range() {
            if offset.checked_add(len).is_none_or(|end| end > capacity) {
                return Err(DeviceErrorKind::OutOfRange);
            }
        }
        let done = match request {
            Request::Read { offset, buf } => self.read(inside, *offset, buf)?,
            Request::Write { offset, buf } => self.write(inside, *offset, buf)?,
            Request::Flush => self.enter(inside, OperationKind::Flush, 0, 0),
            Request::Discard { offset, len } => self.enter(inside, OperationKind::Discard, *offset, *len),
            Request::WriteThrough { .. } | Request::Append { .. } | Request::Reset { .. } => {
                return Err(DeviceErrorKind::Unsupported);
            }
        };
        if spent == Spent::Cut {
            // Somewhere on the way.
            let took = done - inside.now;
            inside.cut_at = Some(inside.now + inside.random.below(took + 1));
            return Err(DeviceErrorKind::PoweredOff);
        }
        inside.now = done;
        Ok(())
    }

    fn enter(&self, inside: &mut Inside, kind: OperationKind, offset: u64, len: u64) -> u64 {
        let Inside { state, recorder, now, .. } = inside;
        self.ssd.submit_recorded(state, recorder, *now, self.ssd.operation(kind, offset, len)).max(*now)
    }

    fn read(&self, inside: &mut Inside, offset: u64, buf: &mut [u8]) -> Result<u64, DeviceErrorKind> {
        let done = self.enter(inside, OperationKind::Read, offset, buf.len() as u64);
        for piece in pieces(offset, buf.len()) {
            let whole = self.unit(inside, piece.unit)?;
            buf[piece.in_buffer..piece.in_buffer + piece.len]
                .copy_from_slice(&whole[piece.in_unit..piece.in_unit + piece.len]);
        }
        Ok(done)
    }

    /// A unit that is written in part has the rest of what it had.
    fn write(&self, inside: &mut Inside, offset: u64, buf: &[u8]) -> Result<u64, DeviceErrorKind> {
        let pieces = pieces(offset, buf.len());
        let mut after = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let mut whole = if piece.len == UNIT { vec![0; UNIT] } else { self.unit(inside, piece.unit)? };
            whole[piece.in_unit..piece.in_unit + piece.len]
                .copy_from_slice(&buf[piece.in_buffer..piece.in_buffer + piece.len]);
            after.push((piece.unit, whole));
        }
        inside.version += 1;
        inside.recorder.writes(inside.version);
        for (unit, whole) in after {
            inside.bytes.insert((inside.version, unit), whole.into());
        }
        Ok(self.enter(inside, OperationKind::Write, offset, buf.len() as u64))
    }

    fn unit(&self, inside: &mut Inside, unit: u32) -> Result<Vec<u8>, DeviceErrorKind> {
        let contents = inside.recorder.read(&self.ssd, &mut inside.state, unit).expect("books in order");
        let version = |version: Version, unit: u32| match version {
            0 => vec![0; UNIT],
            version => inside.bytes[&(version, unit)].to_vec(),
        };
        Ok(match contents {
            Contents::Nothing => vec![0; UNIT],
            Contents::Whole(newest) => version(newest, unit),
            Contents::Shorn { version: newest, sectors, before } => {
                let mut whole = version(before, unit);
                let there = sectors as usize * SECTOR;
                whole[..there].copy_from_slice(&version(newest, unit)[..there]);
                whole
            }
            Contents::Corrupt(newest) => {
                let mut whole = version(newest, unit);
                let bit = splitmix(newest ^ u64::from(unit)) as usize % (8 * UNIT);
                whole[bit / 8] ^= 1 << (bit % 8);
                whole
            }
            Contents::OfAnother { unit, version: its } => version(its, unit),
            Contents::Unreadable => return Err(DeviceErrorKind::Io),
        })
    }
}

/// The part of a range that is in one unit.
struct Piece {
    unit: u32,
    in_unit: usize,
    in_buffer: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> Vec<Piece> {
    let (mut pieces, mut in_buffer) = (Vec::new(), 0);
    while in_buffer < len {
        let at = offset + in_buffer as u64;
        let in_unit = (at % UNIT as u64) as usize;
        let len = (UNIT - in_unit).min(len - in_buffer);
        pieces.push(Piece { unit: (at / UNIT as u64) as u32, in_unit, in_buffer, len });
        in_buffer += len;
    }
    pieces
}

impl Device for SsdDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            len: self.ssd.capacity(),
            block_size: 1,
            atomic_write: SECTOR as u32,
            volatile_cache: true,
            can_resize: false,
            write_through: false,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut inside = self.inside();
        let mut results = Vec::with_capacity(batch.len());
        for request in batch {
            let spent = self.power.spend();
            let result = self.request(&mut inside, request, spent);
            results.push(result.map_err(|kind| self.error(kind, request, inside.dead.as_deref())));
        }
        results
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe()).at(0, len))
    }

    fn describe(&self) -> String {
        "flash with an inside".to_owned()
    }
}
