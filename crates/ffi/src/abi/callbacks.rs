//! What the server does for the tier, behind functions of C.

use mezzanine_engine::{LogPosition, PageId};

use crate::host::{DiskRead, FlashIo, Server};
use crate::message::Refusal;

use super::names::MezzPage;
use super::{MezzMessage, tell};

/// A page on its way to disk.
#[repr(C)]
pub struct MezzDiskPage {
    /// Its name.
    pub page: MezzPage,
    /// Its bytes, valid during the call.
    pub bytes: *const u8,
    /// Its file did not take it.
    pub refused: bool,
}

/// What a read of a page's place on disk has brought.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzDiskRead {
    /// What is there.
    There = 0,
    /// The relation does not reach so far.
    Nothing = 1,
    /// An error: what is there is not known.
    Failed = 2,
}

/// A position in the server's log.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzLogPosition {
    /// The position.
    pub lsn: u64,
    /// The timeline.
    pub timeline: u32,
}

/// Whether the log reaches a position.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzLogReach {
    /// It does.
    Reaches = 0,
    /// It ends before, or is of another history.
    EndsBefore = 1,
    /// It could not be read; the reason was logged.
    Unread = 2,
}

/// What the flash device is doing for a process.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzFlashIo {
    /// A page is read, or what stage-out looks at.
    Read = 0,
    /// A group or metadata is written.
    Write = 1,
    /// What was written is made durable.
    Sync = 2,
}

/// What only the server can do for the tier. None of these may raise an error or jump.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzCallbacks {
    /// Writes `count` pages to their relations, in this order. Of those that could not be written `refused`
    /// is set; the reason was logged.
    pub write_pages: extern "C" fn(pages: *mut MezzDiskPage, count: usize),
    /// Reads a page of a relation as it is on disk; an error was logged. Its file is synced with those that
    /// were written.
    pub read_page: extern "C" fn(page: MezzPage, bytes: *mut u8) -> MezzDiskRead,
    /// Syncs every file that `write_pages` has written, in any process. False if that failed; the reason was
    /// logged.
    pub sync_pages: extern "C" fn() -> bool,
    /// Whether this process may carry out jobs now: not in a critical section, where nothing can be
    /// allocated.
    pub may_work: extern "C" fn() -> bool,
    /// Whether an error of this process would end the server, as it does in redo.
    pub error_ends_server: extern "C" fn() -> bool,
    /// Waits until `progressed` is called in any process, or some milliseconds. `seen` is `mezz_progress` as
    /// of when the caller looked: if it is another by now, returns at once.
    pub wait: extern "C" fn(seen: u64),
    /// Wakes those that wait, and background workers that have nothing to do.
    pub progressed: extern "C" fn(),
    /// Keeps servers that know nothing of the tier away from the data directory, or lets them in again;
    /// durably. May be null.
    pub mark_control_file: Option<extern "C" fn(dirty: bool) -> bool>,
    /// How far the log is durable, or was redone in recovery.
    pub log_position: extern "C" fn() -> MezzLogPosition,
    /// Whether the log that is about to be redone reaches so far, on a timeline of its history.
    pub log_reaches: extern "C" fn(log: MezzLogPosition) -> MezzLogReach,
    /// Keeps other processes from replacing the superblock, or lets them again.
    pub lock_superblock: extern "C" fn(lock: bool),
    /// This process waits for the flash device from now on.
    pub flash_begins: extern "C" fn(io: MezzFlashIo),
    /// It waits no longer.
    pub flash_ended: extern "C" fn(io: MezzFlashIo),
    /// Logs what the flash device said when it failed.
    pub flash_failed: extern "C" fn(message: &MezzMessage),
}

pub(super) struct Callbacks(pub(super) MezzCallbacks);

impl Server for Callbacks {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId> {
        let mut named: Vec<MezzDiskPage> = pages
            .iter()
            .map(|(id, bytes)| MezzDiskPage {
                page: MezzPage::from(id),
                bytes: bytes.as_ptr(),
                refused: false,
            })
            .collect();
        (self.0.write_pages)(named.as_mut_ptr(), named.len());
        pages.iter().zip(named).filter(|(_, named)| named.refused).map(|((id, _), _)| *id).collect()
    }

    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead {
        match (self.0.read_page)(MezzPage::from(id), page.as_mut_ptr()) {
            MezzDiskRead::There => DiskRead::There,
            MezzDiskRead::Nothing => DiskRead::Nothing,
            MezzDiskRead::Failed => DiskRead::Failed,
        }
    }

    fn sync_pages(&self) -> bool {
        (self.0.sync_pages)()
    }

    fn may_work(&self) -> bool {
        (self.0.may_work)()
    }

    fn error_ends_server(&self) -> bool {
        (self.0.error_ends_server)()
    }

    fn wait(&self, seen: u64) {
        (self.0.wait)(seen);
    }

    fn progressed(&self) {
        (self.0.progressed)();
    }

    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal> {
        match self.0.mark_control_file {
            Some(mark) if !mark(dirty) => Err(Refusal::new("the control file cannot be written")),
            _ => Ok(()),
        }
    }

    fn log_position(&self) -> LogPosition {
        let MezzLogPosition { lsn, timeline } = (self.0.log_position)();
        LogPosition { timeline, lsn }
    }

    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal> {
        match (self.0.log_reaches)(MezzLogPosition { lsn: log.lsn, timeline: log.timeline }) {
            MezzLogReach::Reaches => Ok(true),
            MezzLogReach::EndsBefore => Ok(false),
            MezzLogReach::Unread => Err(Refusal::new("the log of the server cannot be read")
                .hint("See the messages before this one.")),
        }
    }

    fn lock_superblock(&self) {
        (self.0.lock_superblock)(true);
    }

    fn unlock_superblock(&self) {
        (self.0.lock_superblock)(false);
    }

    fn flash_begins(&self, io: FlashIo) {
        (self.0.flash_begins)(io.into());
    }

    fn flash_ended(&self, io: FlashIo) {
        (self.0.flash_ended)(io.into());
    }

    fn flash_failed(&self, reason: &str) {
        let mut message = MezzMessage::empty();
        tell(&Refusal::new(reason), &mut message);
        (self.0.flash_failed)(&message);
    }
}

impl From<FlashIo> for MezzFlashIo {
    fn from(io: FlashIo) -> Self {
        match io {
            FlashIo::Read => Self::Read,
            FlashIo::Write => Self::Write,
            FlashIo::Sync => Self::Sync,
        }
    }
}
