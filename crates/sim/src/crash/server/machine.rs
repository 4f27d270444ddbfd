//! What a server's world has beside the machine of a database: what its control file says, a marker, and
//! files that are the disk of the tier.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_device::{Device, Request};
use mezzanine_engine::{LogPosition, PageId, RedoPoint};
use mezzanine_ffi::host::{DiskRead, Server};
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;

use crate::crash::database::log::{LogEnds, Lsn};
use crate::crash::database::places::Space;
use crate::crash::driver::Whole;

/// This server never leaves its timeline.
const TIMELINE: u32 = 1;

/// A position in the log as the tier is told it.
pub(super) fn redo_point(redo: Lsn) -> RedoPoint {
    RedoPoint { redo, timeline: TIMELINE }
}

/// So often in a row nobody has anything to do before that counts as waiting for ever.
const WAITS_MAX: u64 = 1000;

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

impl MarkerFile {
    /// None yet, on a supply of power.
    pub(super) fn on(power: &Power) -> Self {
        Self(Arc::new(Whole::new(power, None)))
    }
}

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
                Request::write(buf, u64::from(place) * self.page_bytes)
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
