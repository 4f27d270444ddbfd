//! The hardware of a server's world: flash, disk, log, control file and marker on one power supply, and
//! memory that outlives the server.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::memory::{MemoryDevice, Power, Random, Spent};
use mezzanine_device::{Device, Request};
use mezzanine_engine::{LogPosition, PageId, RedoPoint};
use mezzanine_ffi::host::{DiskRead, Server};
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;

use crate::crash::database::log::{Log, LogEnds, Lsn, NoPower};
use crate::crash::database::places::Space;

/// This server never leaves its timeline.
const TIMELINE: u32 = 1;

/// A position in the log as the tier is told it.
pub(super) fn redo_point(redo: Lsn) -> RedoPoint {
    RedoPoint { redo, timeline: TIMELINE }
}

/// So often in a row nobody has anything to do before that counts as waiting for ever.
const WAITS_MAX: u64 = 1000;

/// A file that is replaced as a whole, durably: when power fails in that, it is the old one or the new one.
pub(super) struct Whole<T> {
    power: Power,
    state: Mutex<(T, Option<T>)>,
}

impl<T: Clone> Whole<T> {
    fn new(power: &Power, value: T) -> Self {
        Self { power: power.clone(), state: Mutex::new((value, None)) }
    }

    fn state(&self) -> MutexGuard<'_, (T, Option<T>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self) -> T {
        self.state().0.clone()
    }

    pub(super) fn replace(&self, value: T) -> Result<(), NoPower> {
        match self.power.spend() {
            Spent::On => {
                self.state().0 = value;
                Ok(())
            }
            Spent::Cut => {
                self.state().1 = Some(value);
                Err(NoPower)
            }
            Spent::Off => Err(NoPower),
        }
    }

    /// What somebody puts there while the machine is at rest.
    pub(super) fn put(&self, value: T) {
        *self.state() = (value, None);
    }

    fn cut(&self, random: &mut Random) {
        let mut state = self.state();
        if let Some(value) = state.1.take() {
            if random.chance(1, 2) {
                state.0 = value;
            }
        }
    }
}

/// What the server's control file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Control {
    /// Where redo begins.
    pub(super) redo: Lsn,
    /// The files lack pages, which only a tier has.
    pub(super) files_lack_pages: bool,
}

/// The marker in the data directory.
#[derive(Clone)]
pub(super) struct MarkerFile(pub(super) Arc<Whole<Option<String>>>);

impl MarkerStore for MarkerFile {
    fn describe(&self) -> String {
        "simulated marker".to_owned()
    }

    fn read(&self) -> io::Result<Option<String>> {
        Ok(self.0.read())
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        self.0.replace(Some(text.to_owned())).map_err(io::Error::other)
    }
}

/// The hardware.
pub(super) struct Machine {
    pub(super) power: Power,
    pub(super) flash: Arc<MemoryDevice>,
    pub(super) disk: Arc<MemoryDevice>,
    pub(super) log: Log,
    pub(super) control: Arc<Whole<Control>>,
    pub(super) marker: MarkerFile,
}

impl Machine {
    /// A machine with an empty flash device and an empty disk of these lengths in bytes. A cut leaves pieces
    /// of `disk_piece` bytes of the disk whole.
    pub(super) fn new(flash_bytes: u64, disk_bytes: u64, disk_piece: u64) -> Self {
        let power = Power::new();
        let disk = MemoryDevice::on(&power, "simulated disk", disk_bytes, false);
        disk.set_atomic_write(disk_piece);
        let control = Control { redo: 0, files_lack_pages: false };
        Self {
            flash: Arc::new(MemoryDevice::on(&power, "simulated flash", flash_bytes, false)),
            disk: Arc::new(disk),
            log: Log::on(&power),
            control: Arc::new(Whole::new(&power, control)),
            marker: MarkerFile(Arc::new(Whole::new(&power, None))),
            power,
        }
    }

    /// Lets everything volatile lose what it loses, and turns power on again.
    pub(super) fn cut(&mut self, random: &mut Random) {
        self.flash.power_cut(random.next_u64());
        self.disk.power_cut(random.next_u64());
        self.log.power_failed(random);
        self.control.cut(random);
        self.marker.0.cut(random);
        self.power.restore();
    }

    /// Another machine that is at rest what this one is.
    pub(super) fn copy(&self, disk_piece: u64) -> Self {
        let mut copy = Self::new(self.flash.len(), self.disk.len(), disk_piece);
        copy.flash.put_back(&self.flash.snapshot());
        copy.disk.put_back(&self.disk.snapshot());
        copy.log.copy_from(&self.log);
        copy.control.put(self.control.read());
        copy.marker.0.put(self.marker.0.read());
        copy
    }
}

/// What only a server can do for the tier: its files are the disk.
pub(super) struct Relations {
    pub(super) disk: Arc<MemoryDevice>,
    pub(super) control: Arc<Whole<Control>>,
    pub(super) log: Arc<LogEnds>,
    pub(super) space: Space,
    pub(super) page_bytes: u64,
    pub(super) waits: Mutex<u64>,
}

impl Relations {
    fn waits(&self) -> MutexGuard<'_, u64> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server for Relations {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId> {
        let mut writes: Vec<_> = pages
            .iter()
            .map(|(id, buf)| {
                let place = self.space.place(id).expect("a page of nobody goes to disk");
                Request::Write { offset: u64::from(place) * self.page_bytes, buf }
            })
            .collect();
        let written = self.disk.run(&mut writes);
        pages.iter().zip(written).filter(|(_, written)| written.is_err()).map(|((id, _), _)| *id).collect()
    }

    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead {
        let place = self.space.place(id).expect("a page of nobody is read from disk");
        match self.disk.read_at(page, u64::from(place) * self.page_bytes) {
            Ok(()) => DiskRead::There,
            Err(_) => DiskRead::Failed,
        }
    }

    fn sync_pages(&self) -> bool {
        self.disk.flush().is_ok()
    }

    fn may_work(&self) -> bool {
        true
    }

    fn wait(&self, _seen: u64) {
        let mut waits = self.waits();
        *waits += 1;
        assert!(*waits < WAITS_MAX, "no job is left, and somebody waits");
    }

    fn progressed(&self) {
        *self.waits() = 0;
    }

    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal> {
        let control = Control { files_lack_pages: dirty, ..self.control.read() };
        self.control.replace(control).map_err(|error| Refusal::new(error.to_string()))
    }

    fn log_position(&self) -> LogPosition {
        LogPosition { timeline: TIMELINE, lsn: self.log.flushed() }
    }

    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal> {
        // A server that starts reads what is there, durable or not.
        Ok(log <= LogPosition { timeline: TIMELINE, lsn: self.log.written() })
    }
}
