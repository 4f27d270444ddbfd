//! A machine on which a server with the tier lives: relations in memory that forget nothing but what was not
//! written to them.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use mezzanine_engine::{Admission, Design, LogPosition, Lookup, PageId, RedoPoint, SyncMode, given_up_page};
use mezzanine_ffi::host::{DiskRead, FlashIo, Host, Server};
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::pages::{Found, Written};
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::{Start, Started};

pub const PAGE: usize = 8192;

/// What outlives a process: relations on disk, and the mark in the control file.
#[derive(Default)]
pub struct Disk {
    /// How often flash was asked for something.
    pub flash_reads: AtomicU32,
    pub pages: Mutex<BTreeMap<[u8; 20], Vec<u8>>>,
    pub syncs: AtomicU32,
    /// Pages that it does not take.
    pub refused: Mutex<BTreeSet<PageId>>,
    pub marked: Mutex<bool>,
    /// Whether an error of this process would end the server.
    pub error_ends_server: AtomicBool,
    /// Other processes carry out the jobs.
    pub others_work: AtomicBool,
    /// Whoever is asked whether he may work has the others do something first, and waits for them.
    pub asked: Mutex<Option<mpsc::Sender<mpsc::Sender<()>>>>,
    /// A sync of the disk lasts until somebody has waited so often.
    pub waits_for_sync: AtomicU32,
    pub waits: AtomicU32,
    /// How far the log reaches: all of what the tests name, until they say otherwise.
    pub log_end: Mutex<Option<LogPosition>>,
    /// How far it was durable when pages were dropped.
    pub log_position: Mutex<LogPosition>,
}

pub struct Relations(pub Arc<Disk>);

impl Server for Relations {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId> {
        let mut disk = self.0.pages.lock().unwrap();
        let refused = self.0.refused.lock().unwrap();
        let (refused, taken): (Vec<_>, Vec<_>) = pages.iter().partition(|(id, _)| refused.contains(id));
        disk.extend(taken.into_iter().map(|(id, page)| (*id.as_bytes(), page.to_vec())));
        refused.into_iter().map(|(id, _)| id).collect()
    }

    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead {
        let disk = self.0.pages.lock().unwrap();
        let Some(there) = disk.get(id.as_bytes()) else { return DiskRead::Nothing };
        page.copy_from_slice(there);
        DiskRead::There
    }

    fn sync_pages(&self) -> bool {
        self.0.syncs.fetch_add(1, Ordering::SeqCst);
        let waits = self.0.waits.load(Ordering::SeqCst);
        let enough = || self.0.waits.load(Ordering::SeqCst) - waits;
        while enough() < self.0.waits_for_sync.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_micros(100));
        }
        true
    }

    fn may_work(&self) -> bool {
        if let Some(others) = &*self.0.asked.lock().unwrap() {
            let (done, is_done) = mpsc::channel();
            others.send(done).unwrap();
            is_done.recv().unwrap();
        }
        !self.0.others_work.load(Ordering::SeqCst)
    }

    fn error_ends_server(&self) -> bool {
        self.0.error_ends_server.load(Ordering::SeqCst)
    }

    fn wait(&self, _seen: u64) {
        assert!(!self.may_work(), "nobody else carries out jobs");
        self.0.waits.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
    }

    fn progressed(&self) {}

    fn flash_begins(&self, io: FlashIo) {
        self.0.flash_reads.fetch_add(u32::from(io == FlashIo::Read), Ordering::SeqCst);
    }

    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal> {
        *self.0.marked.lock().unwrap() = dirty;
        Ok(())
    }

    fn log_position(&self) -> LogPosition {
        *self.0.log_position.lock().unwrap()
    }

    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal> {
        Ok(self.0.log_end.lock().unwrap().is_none_or(|end| log <= end))
    }
}

/// A machine: a data directory, a flash file, and the disk.
pub struct Machine {
    pub root: PathBuf,
    pub disk: Arc<Disk>,
    pub mode: SyncMode,
    pub flash_mb: u64,
    pub flash_mb_max: u64,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Machine {
    pub fn new(mode: SyncMode) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let root = std::env::temp_dir().join(format!("mezzanine-ffi-{}-{number}", std::process::id()));
        fs::create_dir_all(root.join("data")).unwrap();
        Self { root, disk: Arc::default(), mode, flash_mb: 16, flash_mb_max: 0 }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            flash_path: self.root.join("flash"),
            flash_bytes: self.flash_mb << 20,
            flash_bytes_max: self.flash_mb_max << 20,
            page_bytes: PAGE as u32,
            design: Design::FaceGsc,
            admission: Admission::Both,
            returning_only: false,
            sync_mode: self.mode,
            group_pages: 0,
            data_directory: self.root.join("data"),
            relation_files: None,
        }
    }

    pub fn open(&self) -> Result<Host, Refusal> {
        let mut host = Host::open(self.settings(), None, Box::new(Relations(Arc::clone(&self.disk))))?;
        host.lock_device()?;
        give_memory(&mut host);
        Ok(host)
    }

    pub fn start(&self, redo: u64) -> Result<(Host, Started), Refusal> {
        let host = self.open()?;
        let started = host.start(&start(redo))?;
        Ok((host, started))
    }

    /// How often the disk was synced.
    pub fn syncs(&self) -> u32 {
        self.disk.syncs.load(Ordering::SeqCst)
    }

    pub fn refusal(&self, start: &Start) -> Refusal {
        match self.open() {
            Ok(host) => host.start(start).expect_err("a server that must not start"),
            Err(refusal) => refusal,
        }
    }
}

/// Gives the host memory of its own, fresh.
pub fn give_memory(host: &mut Host) {
    let memory = vec![0u8; host.memory_bytes()].leak();
    // SAFETY: leaked, and used by nothing else.
    unsafe { host.use_memory(NonNull::from(&mut *memory).cast(), memory.len(), true) };
}

pub fn start(redo: u64) -> Start {
    static UUID: AtomicU32 = AtomicU32::new(1);
    let mut new_uuid = [7; 16];
    new_uuid[..4].copy_from_slice(&UUID.fetch_add(1, Ordering::SeqCst).to_le_bytes());
    let new_session = new_uuid.map(|byte| !byte);
    Start {
        system_identifier: 77,
        redo: RedoPoint { redo, timeline: 1 },
        checksums: true,
        from_backup: false,
        files_lack_pages: false,
        owner: 1,
        new_uuid,
        new_session,
    }
}

pub fn id(block: u32) -> PageId {
    PageId::relation(5, 1663, 1000, 0, block)
}

pub fn page(version: u8) -> Vec<u8> {
    vec![version; PAGE]
}

pub fn write(host: &Host, block: u32, version: u8) -> Written {
    let mark = host.tier().mark();
    host.write(&id(block), &page(version), u64::from(version), Some(mark)).unwrap()
}

/// Gives a clean page up and offers it at once.
pub fn offer(host: &Host, id: &PageId, page: &[u8], lsn: u64) -> bool {
    host.token_unless_held(id).is_some_and(|token| host.offer(id, page, lsn, token))
}

pub fn checkpoint(host: &Host, redo: u64) {
    let point = RedoPoint { redo, timeline: 1 };
    host.checkpoint_marked();
    host.checkpoint_written(false).unwrap();
    host.checkpoint_synced(point).unwrap();
    host.checkpoint_done(point).unwrap();
}

/// The page's version as the server reads it: from the tier, or from disk.
pub fn read(host: &Host, machine: &Machine, block: u32) -> Option<u8> {
    let mut out = page(0);
    match host.read(&id(block), &mut out) {
        Found::Here => Some(out[0]),
        Found::OnDisk => machine.disk.pages.lock().unwrap().get(id(block).as_bytes()).map(|page| page[0]),
        Found::Lost | Found::Silent | Found::Unknown => panic!("block {block} is lost"),
    }
}

/// Where flash has a block.
pub fn flash_offset(host: &Host, block: u32) -> u64 {
    match host.tier().lookup(&id(block), &mut [0; PAGE]) {
        Lookup::Flash(found) => found.offset,
        other => panic!("block {block}: {other:?}"),
    }
}

/// What disk holds in the place of a page that was given up.
pub fn nothing() -> Vec<u8> {
    let mut page = page(0);
    given_up_page(&mut page);
    page
}

pub fn on_disk(machine: &Machine, block: u32) -> Vec<u8> {
    machine.disk.pages.lock().unwrap()[id(block).as_bytes()].clone()
}

/// A marker's text that can be edited: of the format that has no checksum.
pub fn editable(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("checksum"));
    let lines = lines.map(|line| if line.starts_with("format") { "format = 1" } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

/// A marker in memory.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<Option<String>>>);

impl MarkerStore for Kept {
    fn describe(&self) -> String {
        "marker".to_owned()
    }

    fn read(&self) -> io::Result<Option<String>> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        *self.0.lock().unwrap() = Some(text.to_owned());
        Ok(())
    }
}
