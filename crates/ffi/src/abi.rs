//! The C interface. `postgres/mezzanine/mezz_ffi.h` is generated from this file.
//!
//! Pointers that are references here must be valid; a `MezzHost` comes from `mezz_open` and is never given back. From
//! `mezz_mark` on the functions need a process that has started or attached the tier; none may be called by two threads
//! of one process at once.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::slice;

use mezzanine_device::Drive;
use mezzanine_engine::{HeldPage, IdRange, Mark, PageCursor, PageId, RedoPoint};

use crate::host::{FlashIo, Host, Server};
use crate::message::Refusal;
use crate::modelled::{DiskModel, FlashModel};
use crate::pages::{Found, Written};
use crate::settings::Settings;
use crate::startup::{Adoption, Start};

/// Changes with every change of what is declared here.
pub const MEZZ_FFI_VERSION: u32 = 1;
/// Bytes of each text in a `MezzMessage`, the end mark included.
pub const MEZZ_TEXT_BYTES: usize = 512;

/// The tier, as one process of the server sees it.
pub struct MezzHost(Host);

/// A modelled disk under the server's relations.
pub struct MezzDisk(DiskModel);

/// What a person is told when something cannot be done.
#[repr(C)]
pub struct MezzMessage {
    /// The thing and the reason.
    pub message: [c_char; MEZZ_TEXT_BYTES],
    /// More about it; may be empty.
    pub detail: [c_char; MEZZ_TEXT_BYTES],
    /// What to do next; may be empty.
    pub hint: [c_char; MEZZ_TEXT_BYTES],
}

/// The name of a page: the parts of PostgreSQL's buffer tag.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzPage {
    /// Database.
    pub database: u32,
    /// Tablespace.
    pub tablespace: u32,
    /// Relation file number.
    pub relation: u32,
    /// Fork.
    pub fork: u32,
    /// Block.
    pub block: u32,
}

/// A page on its way to disk.
#[repr(C)]
pub struct MezzDiskPage {
    /// Its name.
    pub page: MezzPage,
    /// Its bytes, valid during the call.
    pub bytes: *const u8,
}

/// What pages a call is about.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzScope {
    /// Every block of the fork from `block` on.
    ForkFrom = 0,
    /// Every fork of the relation.
    Relation = 1,
    /// Every relation of the database, in all tablespaces.
    Database = 2,
    /// The block alone.
    Block = 3,
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

/// Bytes side by side on a modelled disk.
#[repr(C)]
pub struct MezzRun {
    /// The first of them.
    pub address: u64,
    /// How many.
    pub bytes: usize,
}

/// What a modelled drive has done for all its users, in its own time; what was done at time scale 0 is not counted.
#[repr(C)]
pub struct MezzDriveUse {
    /// How many times slower than real time it is now.
    pub time_scale: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of the times of reads from entry to completion.
    pub read_response_ns: u64,
    /// Sum of the times of writes from entry to completion.
    pub write_response_ns: u64,
    /// Sum of the times of flushes from entry to completion.
    pub flush_response_ns: u64,
    /// By how much callers were let go too late, in total: what the machine added to the model.
    pub late_ns: u64,
    /// Time that the spindles or channels were busy, added up.
    pub busy_ns: u64,
    /// Time that has passed.
    pub elapsed_ns: u64,
    /// Spindles or channels.
    pub servers: u32,
}

impl MezzDriveUse {
    fn of(drive: &Drive) -> Self {
        let used = drive.statistics();
        Self {
            time_scale: drive.time_scale(),
            reads: used.reads,
            writes: used.writes,
            flushes: used.flushes,
            bytes_read: used.bytes_read,
            bytes_written: used.bytes_written,
            read_response_ns: used.read_response_ns,
            write_response_ns: used.write_response_ns,
            flush_response_ns: used.flush_response_ns,
            late_ns: used.late_ns,
            busy_ns: used.busy_ns,
            elapsed_ns: used.elapsed_ns,
            servers: used.servers,
        }
    }
}

/// What only the server can do for the tier. None of these may raise an error or jump.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzCallbacks {
    /// Writes `count` pages to their relations, in this order. False if one could not be written; the reason was logged.
    pub write_pages: extern "C" fn(pages: *const MezzDiskPage, count: usize) -> bool,
    /// Syncs every file that `write_pages` has written, in any process. False if that failed; the reason was logged.
    pub sync_pages: extern "C" fn() -> bool,
    /// Whether this process may carry out jobs now: not in a critical section, where nothing can be allocated.
    pub may_work: extern "C" fn() -> bool,
    /// Waits until `progressed` is called in any process, or some milliseconds. `seen` is `mezz_progress` as of when the
    /// caller looked: if it is another by now, returns at once.
    pub wait: extern "C" fn(seen: u64),
    /// Wakes those that wait, and the background worker.
    pub progressed: extern "C" fn(),
    /// Keeps servers that know nothing of the tier away from the data directory, or lets them in again; durably. May be null.
    pub mark_control_file: Option<extern "C" fn(dirty: bool) -> bool>,
    /// Keeps other processes from replacing the superblock, or lets them again.
    pub lock_superblock: extern "C" fn(lock: bool),
    /// This process waits for the flash device from now on.
    pub flash_begins: extern "C" fn(io: MezzFlashIo),
    /// It waits no longer.
    pub flash_ended: extern "C" fn(io: MezzFlashIo),
}

/// The configuration. Texts end with a zero byte.
#[repr(C)]
pub struct MezzSettings {
    /// `MEZZ_FFI_VERSION` as the caller knows it.
    pub version: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Absolute path of the flash file or block device.
    pub flash_path: *const c_char,
    /// Bytes of flash to use.
    pub flash_bytes: u64,
    /// Bytes of flash up to which the tier can grow; 0 for no more than that.
    pub flash_bytes_max: u64,
    /// The data directory.
    pub data_directory: *const c_char,
    /// `face-basic`, `face-gr` or `face-gsc`.
    pub design: *const c_char,
    /// `clean`, `dirty` or `both`.
    pub admission: *const c_char,
    /// `through`, `drained` or `durable`.
    pub sync_mode: *const c_char,
    /// Pages of a group; 0 for the default.
    pub group_pages: u32,
    /// Name or file of a model that the flash device takes the time of; empty for none.
    pub flash_model: *const c_char,
    /// How many times slower than real time modelled devices are.
    pub time_scale: f64,
}

/// What the server knows when it starts.
#[repr(C)]
pub struct MezzStart {
    /// The control file's system identifier.
    pub system_identifier: u64,
    /// The control file's redo pointer.
    pub redo: u64,
    /// And its timeline.
    pub timeline: u32,
    /// Number of this process: not 0, not `UINT32_MAX`, no other process's.
    pub owner: u32,
    /// The data directory was restored from a base backup and has not been started since.
    pub from_backup: bool,
    /// The control file says that pages carry checksums.
    pub checksums: bool,
    /// The control file says that the files lack pages, which only a tier has.
    pub files_lack_pages: bool,
    /// Random bytes.
    pub new_uuid: [u8; 16],
}

/// How the tier was found.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzAdoption {
    /// As it was left.
    Adopted = 0,
    /// It was emptied.
    Discarded = 1,
    /// It is new.
    Formatted = 2,
}

/// What starting the tier did.
#[repr(C)]
pub struct MezzStarted {
    /// How it was found.
    pub adoption: MezzAdoption,
    /// Why it was not adopted; empty if it was.
    pub reason: [c_char; MEZZ_TEXT_BYTES],
    /// Pages in the tier.
    pub pages: u64,
    /// Of these, pages newer than their disk copies.
    pub dirty: u64,
    /// Bytes read from flash.
    pub bytes_read: u64,
    /// The configured sync mode or admission takes effect only after a start with a drained tier.
    pub mode_kept: bool,
}

/// What became of a dirty page.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzWritten {
    /// The tier has it.
    Taken = 0,
    /// The tier has it, and the caller writes it to disk as well.
    AlsoDisk = 1,
    /// The caller writes it to disk, syncs that unless `mezz_is_clean`, and calls `mezz_forget`.
    Refused = 2,
    /// A device has failed; see the message.
    Failed = 3,
}

/// Where a page was found.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzFound {
    /// It was copied to the buffer.
    Here = 0,
    /// The disk has it.
    OnDisk = 1,
    /// Its only copy is damaged.
    Lost = 2,
}

/// The sizes of the tier.
#[repr(C)]
pub struct MezzSizes {
    /// Bytes of shared memory.
    pub memory_bytes: u64,
    /// Bytes of flash.
    pub flash_bytes: u64,
    /// Frames of the queue.
    pub frames: u64,
    /// Pages of a group.
    pub group_pages: u64,
}

/// How a wait has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzWaited {
    /// What was waited for is done.
    Done = 0,
    /// The caller had something else to do.
    Stopped = 1,
    /// It cannot be done; see the message.
    Failed = 2,
}

/// The state of the tier.
#[repr(C)]
pub struct MezzNow {
    /// Whether it takes pages.
    pub admits: bool,
    /// The sync mode in force.
    pub sync_mode: [c_char; MEZZ_TEXT_BYTES],
    /// The design in force.
    pub design: [c_char; MEZZ_TEXT_BYTES],
    /// The admission in force.
    pub admission: [c_char; MEZZ_TEXT_BYTES],
    /// Frames of the queue.
    pub frames: u64,
    /// Frames up to which it can grow.
    pub frames_max: u64,
    /// Whether a resize is under way: to how many frames, and how many more have to be appended before it takes effect.
    pub resizing: bool,
    /// See `resizing`.
    pub frames_wanted: u64,
    /// See `resizing`.
    pub frames_to_go: u64,
    /// Pages in staging memory.
    pub staged: u64,
}

/// What the tier has done since its memory was set up.
#[repr(C)]
pub struct MezzStatistics {
    /// Lookups answered from staging memory.
    pub hits_memory: u64,
    /// Lookups that found their page on flash.
    pub hits_flash: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Dirty pages taken.
    pub staged_dirty: u64,
    /// Clean pages taken.
    pub staged_clean: u64,
    /// Pages that admission did not take.
    pub refused: u64,
    /// Dirty pages that found staging memory full and made their process wait or work.
    pub stalls: u64,
    /// Groups written.
    pub groups_written: u64,
    /// Bytes of these.
    pub group_bytes_written: u64,
    /// Bytes written to flash, metadata included.
    pub flash_bytes_written: u64,
    /// Syncs of the flash device.
    pub flash_syncs: u64,
    /// Bytes that stage-out has read from flash.
    pub stage_out_bytes_read: u64,
    /// Pages written to disk by stage-out.
    pub disk_writes: u64,
    /// Of these, pages that a drain asked for.
    pub pages_drained: u64,
    /// Syncs of the disk.
    pub disk_syncs: u64,
    /// Pages that were appended again instead of leaving the tier.
    pub second_chances: u64,
}

/// How far a pass over the pages has come.
#[repr(C)]
pub struct MezzCursor {
    /// The next position.
    pub next: u64,
    /// Where the pass ends.
    pub end: u64,
}

/// A page that the tier holds.
#[repr(C)]
pub struct MezzHeld {
    /// Its name.
    pub page: MezzPage,
    /// Its position in the queue.
    pub position: u64,
    /// Newer than the disk copy.
    pub dirty: bool,
    /// Looked up since it entered, or since its last second chance.
    pub referenced: bool,
    /// Not yet durable on flash.
    pub staged: bool,
}

struct Callbacks(MezzCallbacks);

impl Server for Callbacks {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> bool {
        let pages: Vec<MezzDiskPage> = pages
            .iter()
            .map(|(id, bytes)| MezzDiskPage { page: MezzPage::from(id), bytes: bytes.as_ptr() })
            .collect();
        (self.0.write_pages)(pages.as_ptr(), pages.len())
    }

    fn sync_pages(&self) -> bool {
        (self.0.sync_pages)()
    }

    fn may_work(&self) -> bool {
        (self.0.may_work)()
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

impl From<&PageId> for MezzPage {
    fn from(id: &PageId) -> Self {
        let [database, tablespace, relation, fork, block] = id.relation_parts();
        Self { database, tablespace, relation, fork, block }
    }
}

impl MezzPage {
    fn id(&self) -> PageId {
        PageId::relation(self.database, self.tablespace, self.relation, self.fork, self.block)
    }

    fn range(&self, scope: MezzScope) -> IdRange {
        let &Self { database, tablespace, relation, fork, block } = self;
        match scope {
            MezzScope::ForkFrom => {
                IdRange::fork_blocks(database, tablespace, relation, fork, block, u64::MAX)
            }
            MezzScope::Relation => IdRange::relation(database, tablespace, relation),
            MezzScope::Database => IdRange::database(database),
            MezzScope::Block => IdRange::fork_blocks(database, tablespace, relation, fork, block, 1),
        }
    }
}

fn put_text(text: &str, out: &mut [c_char; MEZZ_TEXT_BYTES]) {
    let mut end = text.len().min(MEZZ_TEXT_BYTES - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, from) in out.iter_mut().zip(text.as_bytes()[..end].iter().chain(&[0])) {
        *to = *from as c_char;
    }
}

fn tell(refusal: &Refusal, out: &mut MezzMessage) {
    put_text(&refusal.message, &mut out.message);
    put_text(&refusal.detail, &mut out.detail);
    put_text(&refusal.hint, &mut out.hint);
}

fn told(result: Result<(), Refusal>, out: &mut MezzMessage) -> bool {
    result.map_err(|refusal| tell(&refusal, out)).is_ok()
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// As for [`text`], for every text.
unsafe fn settings(given: &MezzSettings) -> Result<(Settings, Option<FlashModel>), Refusal> {
    // SAFETY: the caller's promise, for all of these.
    let [path, data, design, admission, mode, model] = [
        given.flash_path,
        given.data_directory,
        given.design,
        given.admission,
        given.sync_mode,
        given.flash_model,
    ]
    .map(|given| unsafe { text(given) });
    let settings = Settings {
        flash_path: PathBuf::from(path),
        flash_bytes: given.flash_bytes,
        flash_bytes_max: given.flash_bytes_max,
        page_bytes: given.page_bytes,
        design: design.parse().map_err(Refusal::new)?,
        admission: admission.parse().map_err(Refusal::new)?,
        sync_mode: mode.parse().map_err(Refusal::new)?,
        group_pages: given.group_pages,
        data_directory: PathBuf::from(data),
    };
    let model = if model.is_empty() { None } else { Some(FlashModel::open(&model, given.time_scale)?) };
    Ok((settings, model))
}

/// Opens the flash device in the process that starts the server. Null if it cannot be used; then `message` says why.
///
/// # Safety
/// The pointers are valid during the call, the callbacks for good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_open(
    given: &MezzSettings,
    callbacks: &MezzCallbacks,
    message: &mut MezzMessage,
) -> *mut MezzHost {
    #[cfg(feature = "planted")]
    if let Err(refusal) = crate::planted::plant() {
        tell(&refusal, message);
        return ptr::null_mut();
    }
    let opened = if given.version == MEZZ_FFI_VERSION {
        // SAFETY: the caller's promise.
        unsafe { settings(given) }
            .and_then(|(settings, model)| Host::open(settings, model, Box::new(Callbacks(*callbacks))))
    } else {
        Err(Refusal::new("the extension and its library are of different versions").hint("Build both again."))
    };
    match opened {
        Ok(host) => Box::into_raw(Box::new(MezzHost(host))),
        Err(refusal) => {
            tell(&refusal, message);
            ptr::null_mut()
        }
    }
}

/// The sizes of the tier, before any of it is taken.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_sizes(host: &MezzHost, out: &mut MezzSizes) {
    let host = &host.0;
    let geometry = host.geometry();
    *out = MezzSizes {
        memory_bytes: host.memory_bytes() as u64,
        flash_bytes: host.flash_bytes(geometry.frames()),
        frames: geometry.frames(),
        group_pages: geometry.group_pages(),
    };
}

/// Gives the tier its memory, zeroed.
///
/// # Safety
/// `host` is from `mezz_open`; the memory has `memory_bytes` of `mezz_sizes`, lies at the same address in all processes and is used by nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_use_memory(host: &mut MezzHost, base: *mut u8, bytes: usize) {
    let base = NonNull::new(base).expect("memory for the tier");
    // SAFETY: the caller's promise.
    unsafe { host.0.use_memory(base, bytes) };
}

/// Judges, recovers and publishes the tier, before the server's redo. False with a message if the server must not start.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_start(
    host: &MezzHost,
    given: &MezzStart,
    out: &mut MezzStarted,
    message: &mut MezzMessage,
) -> bool {
    let host = &host.0;
    let start = Start {
        system_identifier: given.system_identifier,
        redo: RedoPoint { redo: given.redo, timeline: given.timeline },
        from_backup: given.from_backup,
        checksums: given.checksums,
        files_lack_pages: given.files_lack_pages,
        owner: given.owner,
        new_uuid: given.new_uuid,
    };
    let done = host.start(&start).map(|started| {
        out.adoption = match started.adoption {
            Adoption::Adopted => MezzAdoption::Adopted,
            Adoption::Discarded => MezzAdoption::Discarded,
            Adoption::Formatted => MezzAdoption::Formatted,
        };
        put_text(&started.reason, &mut out.reason);
        out.pages = started.recovery.valid;
        out.dirty = started.recovery.dirty;
        out.bytes_read = started.recovery.bytes_read;
        out.mode_kept = started.mode_kept;
    });
    told(done, message)
}

/// Joins the tier that another process of the server has recovered. `owner` is this process's own number.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_attach(host: &MezzHost, owner: u32, message: &mut MezzMessage) -> bool {
    told(host.0.attach(owner), message)
}

/// Whether this process has recovered or attached the tier.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_is_attached(host: &MezzHost) -> bool {
    host.0.is_attached()
}

/// The last mark: read before it is looked up how old a page's changes are.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_mark(host: &MezzHost) -> u64 {
    host.0.tier().mark().number()
}

/// Takes a dirty page whose log is forced. `since` is what `mezz_mark` said before it was found that no change in the page
/// is older than the redo pointer of the checkpoint under way; 0 if one is.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `bytes` has a page's length; `message` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_write(
    host: &MezzHost,
    page: MezzPage,
    bytes: *const u8,
    lsn: u64,
    since: u64,
    message: &mut MezzMessage,
) -> MezzWritten {
    let host = &host.0;
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(bytes, host.geometry().page_size()) };
    let since = (since != 0).then(|| Mark::from_number(since));
    match host.write(&page.id(), bytes, lsn, since) {
        Ok(Written::Taken) => MezzWritten::Taken,
        Ok(Written::AlsoDisk) => MezzWritten::AlsoDisk,
        Ok(Written::Refused) => MezzWritten::Refused,
        Err(refusal) => {
            tell(&refusal, message);
            MezzWritten::Failed
        }
    }
}

/// Offers a clean page that leaves the pool: a copy in memory, no waiting. Whether the tier took it.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `bytes` has a page's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_offer(host: &MezzHost, page: MezzPage, bytes: *const u8, lsn: u64) -> bool {
    let host = &host.0;
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(bytes, host.geometry().page_size()) };
    host.offer(&page.id(), bytes, lsn)
}

/// Reads a page if the tier has it.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `bytes` has a page's length and may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_read(host: &MezzHost, page: MezzPage, bytes: *mut u8) -> MezzFound {
    let host = &host.0;
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts_mut(bytes, host.geometry().page_size()) };
    match host.read(&page.id(), bytes) {
        Found::Here => MezzFound::Here,
        Found::OnDisk => MezzFound::OnDisk,
        Found::Lost => MezzFound::Lost,
    }
}

/// Whether the tier has the page now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_holds(host: &MezzHost, page: MezzPage) -> bool {
    host.0.holds(&page.id())
}

/// Whether the tier never holds the only copy of a page.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_is_clean(host: &MezzHost) -> bool {
    host.0.is_provably_clean()
}

/// Carries out one job. False if there is nothing to do now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_work(host: &MezzHost) -> bool {
    host.0.work()
}

/// A number that changes whenever room was made in the tier.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_progress(host: &MezzHost) -> u64 {
    host.0.tier().progress()
}

/// How busy the disk is with what others wait for, in thousandths of its time: stage-out takes the rest.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_busy(host: &MezzHost, permille: u32) {
    host.0.tier().set_disk_utilisation(permille)
}

/// Whether a device under the tier has failed; then `message` says which, and nothing more becomes durable.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_has_failed(host: &MezzHost, message: &mut MezzMessage) -> bool {
    let host = &host.0;
    let Some(failure) = host.tier().failure() else { return false };
    tell(&host.failed(failure), message);
    true
}

/// Waits until no write of these pages to disk is under way.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_await_stage_out(
    host: &MezzHost,
    page: MezzPage,
    scope: MezzScope,
    message: &mut MezzMessage,
) -> bool {
    told(host.0.await_stage_out(&page.range(scope)), message)
}

/// Forgets a page that was refused and is on disk. `again` says whether stage-out may have written an older version over it:
/// then the caller waits for that, writes the page once more, and calls again.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_forget(
    host: &MezzHost,
    page: MezzPage,
    again: &mut bool,
    message: &mut MezzMessage,
) -> bool {
    let host = &host.0;
    let done = host.forget(&page.id()).map(|gone| {
        *again = !gone;
    });
    told(done, message)
}

/// Forgets pages that are dropped, and waits until none of them can come back.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_drop(
    host: &MezzHost,
    page: MezzPage,
    scope: MezzScope,
    message: &mut MezzMessage,
) -> bool {
    told(host.0.drop_range(&page.range(scope)), message)
}

/// Forgets what the tier has of a block that is about to be written past it; what is newer than the disk goes there first.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_overwrite(host: &MezzHost, page: MezzPage, message: &mut MezzMessage) -> bool {
    told(host.0.overwrite(&page.id()), message)
}

/// Has the newest version of these pages written to disk and synced.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_flush(
    host: &MezzHost,
    page: MezzPage,
    scope: MezzScope,
    message: &mut MezzMessage,
) -> bool {
    told(host.0.flush_range(&page.range(scope)), message)
}

/// Has every page that is newer than its disk copy written to disk and synced.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_drain(host: &MezzHost, message: &mut MezzMessage) -> bool {
    told(host.0.drain_all(), message)
}

/// A checkpoint has chosen its redo pointer, and marked the pages in the pool that are dirty.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_checkpoint_marked(host: &MezzHost) {
    host.0.checkpoint_marked();
}

/// A checkpoint has written these pages. With `all`, the disk is made current.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_checkpoint_written(host: &MezzHost, all: bool, message: &mut MezzMessage) -> bool {
    told(host.0.checkpoint_written(all), message)
}

/// A checkpoint has synced its files; the control file will name this redo pointer.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_checkpoint_synced(
    host: &MezzHost,
    redo: u64,
    timeline: u32,
    message: &mut MezzMessage,
) -> bool {
    told(host.0.checkpoint_synced(RedoPoint { redo, timeline }), message)
}

/// The control file names this redo pointer.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_checkpoint_done(
    host: &MezzHost,
    redo: u64,
    timeline: u32,
    message: &mut MezzMessage,
) -> bool {
    told(host.0.checkpoint_done(RedoPoint { redo, timeline }), message)
}

/// Leaves the tier in order; with `drain` the disk is made current first. `current` says whether it is.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_close(
    host: &MezzHost,
    drain: bool,
    current: &mut bool,
    message: &mut MezzMessage,
) -> bool {
    let host = &host.0;
    let done = host.close(drain).map(|is_current| {
        *current = is_current;
    });
    told(done, message)
}

/// Stops taking pages, or takes them again.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_admit(host: &MezzHost, admit: bool) {
    let tier = host.0.tier();
    if admit { tier.resume_admission() } else { tier.stop_admission() }
}

/// Pages in the tier, and how many of them are newer than their disk copies: a pass over the directory.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_count_pages(host: &MezzHost, pages: &mut u64, dirty: &mut u64) {
    (*pages, *dirty) = host.0.tier().valid_and_dirty();
}

/// The state of the tier now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_now(host: &MezzHost, out: &mut MezzNow) {
    let tier = host.0.tier();
    let config = tier.geometry().config();
    out.admits = tier.admits();
    put_text(tier.sync_mode().name(), &mut out.sync_mode);
    put_text(config.design.name(), &mut out.design);
    put_text(config.admission.name(), &mut out.admission);
    out.frames = tier.frames();
    out.frames_max = tier.geometry().frames_max();
    let resize = tier.resize_progress();
    out.resizing = resize.is_some();
    (out.frames_wanted, out.frames_to_go) = resize.unwrap_or_default();
    out.staged = tier.staged_pages();
}

/// Copies the counters of the tier.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_statistics(host: &MezzHost, out: &mut MezzStatistics) {
    let of = host.0.tier().statistics();
    *out = MezzStatistics {
        hits_memory: of.hits_memory,
        hits_flash: of.hits_flash,
        misses: of.misses,
        staged_dirty: of.staged_dirty,
        staged_clean: of.staged_clean,
        refused: of.refused,
        stalls: of.stalls,
        groups_written: of.groups_written,
        group_bytes_written: of.group_bytes_written,
        flash_bytes_written: of.flash_bytes_written(),
        flash_syncs: of.flushes,
        stage_out_bytes_read: of.stage_out_bytes_read,
        disk_writes: of.disk_writes,
        pages_drained: of.pages_drained,
        disk_syncs: of.disk_syncs,
        second_chances: of.second_chances,
    };
}

/// Asks for a queue that takes so many bytes of flash; it takes effect when the queue has come round.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_resize(host: &MezzHost, bytes: u64, message: &mut MezzMessage) -> bool {
    told(host.0.resize(bytes), message)
}

/// Begins a pass over the pages that the tier holds now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_first_page(host: &MezzHost, out: &mut MezzCursor) {
    (out.next, out.end) = host.0.tier().first_page().positions();
}

/// Looks at up to `room` frames and copies the pages found there, which may be none. False when the pass is complete.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `pages` has room for `room` pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_pages(
    host: &MezzHost,
    cursor: &mut MezzCursor,
    pages: *mut MezzHeld,
    room: usize,
    count: &mut usize,
) -> bool {
    let mut at = PageCursor::from_positions(cursor.next, cursor.end);
    let found = host.0.tier().pages(&mut at, room);
    (cursor.next, cursor.end) = at.positions();
    // SAFETY: the caller's promise.
    *count = unsafe { put_held(found.as_deref().unwrap_or(&[]), pages) };
    found.is_some()
}

/// Reads what is on flash in up to `room` frames and copies the pages that are damaged; `checked` is how many were read. False
/// when the pass is complete.
///
/// # Safety
/// As for `mezz_pages`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_verify(
    host: &MezzHost,
    cursor: &mut MezzCursor,
    damaged: *mut MezzHeld,
    room: usize,
    count: &mut usize,
    checked: &mut u64,
) -> bool {
    let mut at = PageCursor::from_positions(cursor.next, cursor.end);
    let found = host.0.verify(&mut at, room);
    (cursor.next, cursor.end) = at.positions();
    let more = found.is_some();
    let found = found.unwrap_or_default();
    *checked = found.checked;
    // SAFETY: the caller's promise.
    *count = unsafe { put_held(&found.damaged, damaged) };
    more
}

/// # Safety
/// `out` has room for so many pages.
unsafe fn put_held(pages: &[HeldPage], out: *mut MezzHeld) -> usize {
    // SAFETY: the caller's promise.
    let out = unsafe { slice::from_raw_parts_mut(out.cast::<MaybeUninit<MezzHeld>>(), pages.len()) };
    for (to, page) in out.iter_mut().zip(pages) {
        to.write(MezzHeld {
            page: MezzPage::from(&page.id),
            position: page.flash.position.0,
            dirty: page.flash.dirty,
            referenced: page.referenced,
            staged: page.staged,
        });
    }
    pages.len()
}

/// Has the newest version of these pages, or of all (`page` is null), written to disk and synced, and waits for it unless `stop`
/// says that the caller has something else to do. The drain goes on without him.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_drain_unless(
    host: &MezzHost,
    page: Option<&MezzPage>,
    scope: MezzScope,
    stop: extern "C" fn() -> bool,
    message: &mut MezzMessage,
) -> MezzWaited {
    let range = page.map(|page| page.range(scope));
    match host.0.drain_unless(range, &|| stop()) {
        Ok(true) => MezzWaited::Done,
        Ok(false) => MezzWaited::Stopped,
        Err(refusal) => {
            tell(&refusal, message);
            MezzWaited::Failed
        }
    }
}

/// Opens a modelled disk in the process that starts the server. Arms move `spread` times as far as blocks are apart, within
/// the share `span` of the disk. Null if there is no such model; then `message` says so.
///
/// # Safety
/// `name` ends with a zero byte; `message` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_disk_open(
    name: *const c_char,
    time_scale: f64,
    spread: f64,
    span: f64,
    message: &mut MezzMessage,
) -> *mut MezzDisk {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    match DiskModel::open(&name, time_scale, spread, span) {
        Ok(disk) => Box::into_raw(Box::new(MezzDisk(disk))),
        Err(refusal) => {
            tell(&refusal, message);
            ptr::null_mut()
        }
    }
}

/// Returns when the modelled disk would have read `bytes` bytes from `address`.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_read(disk: &MezzDisk, address: u64, bytes: usize) {
    disk.0.read(address, bytes)
}

/// Returns when the modelled disk would have written `bytes` bytes at `address`.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_write(disk: &MezzDisk, address: u64, bytes: usize) {
    disk.0.write(address, bytes)
}

/// Returns when the modelled disk would have written all of these, handed to it together.
///
/// # Safety
/// `runs` points to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_disk_write_together(disk: &MezzDisk, runs: *const MezzRun, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let runs = unsafe { slice::from_raw_parts(runs, count) };
    let runs: Vec<(u64, usize)> = runs.iter().map(|run| (run.address, run.bytes)).collect();
    disk.0.write_together(&runs)
}

/// Changes how many times slower than real time the modelled disk is, for all processes; 0 = no delay.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_set_time_scale(disk: &MezzDisk, time_scale: f64) {
    disk.0.drive().set_time_scale(time_scale)
}

/// What the modelled disk has done for all processes.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_used(disk: &MezzDisk, out: &mut MezzDriveUse) {
    *out = MezzDriveUse::of(disk.0.drive());
}

/// Changes how many times slower than real time the tier's modelled drive is, for all processes. False without one.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_flash_set_time_scale(host: &MezzHost, time_scale: f64) -> bool {
    let model = host.0.flash_model();
    if let Some(model) = model {
        model.drive().set_time_scale(time_scale);
    }
    model.is_some()
}

/// What the tier's modelled drive has done for all processes. False without one.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_flash_used(host: &MezzHost, out: &mut MezzDriveUse) -> bool {
    let model = host.0.flash_model();
    if let Some(model) = model {
        *out = MezzDriveUse::of(model.drive());
    }
    model.is_some()
}

/// Returns when the modelled disk would have completed a flush.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_disk_flush(disk: &MezzDisk) {
    disk.0.flush()
}
