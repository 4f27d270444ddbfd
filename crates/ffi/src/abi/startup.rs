//! Settings, opening, starting and attaching.

use std::ffi::c_char;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use mezzanine_engine::RedoPoint;

use crate::host::Host;
use crate::message::Refusal;
use crate::modelled::FlashModel;
use crate::relation_files::RelationFiles;
use crate::settings::Settings;
use crate::startup::{Adoption, Start};

use super::callbacks::{Callbacks, MezzCallbacks};
use super::{MEZZ_FFI_VERSION, MEZZ_TEXT_BYTES, MezzHost, MezzMessage, put_text, tell, text, told};

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
    /// Of clean pages only those enter that were offered before, not long ago.
    pub returning_only: bool,
    /// `through`, `drained` or `durable`.
    pub sync_mode: *const c_char,
    /// Pages of a group; 0 for the default.
    pub group_pages: u32,
    /// Name or file of a model that the flash device takes the time of; empty for none.
    pub flash_model: *const c_char,
    /// How many times slower than real time modelled devices are.
    pub time_scale: f64,
    /// Blocks of one file of a relation; 0 if files are not looked at when the server starts and ends.
    pub segment_blocks: u32,
    /// The directory within a tablespace that this release of the server uses.
    pub tablespace_directory: *const c_char,
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
    /// Random bytes, for the name of a new tier.
    pub new_uuid: [u8; 16],
    /// Others, for the name of the session that begins.
    pub new_session: [u8; 16],
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
    /// Its device has failed and nobody needs it: there is none, and no other function may be called.
    Unusable = 3,
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
    /// Clean pages that were dropped, because their files have changed since the server ended.
    pub changed_pages: u64,
    /// How many files that were.
    pub changed_files: u64,
    /// The sizes that the tier has and those that are configured, if they differ: the latter take effect only
    /// after a start with a drained tier. Else empty.
    pub sizes_kept: [c_char; MEZZ_TEXT_BYTES],
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

/// # Safety
/// As for [`text`], for every text.
unsafe fn settings(given: &MezzSettings) -> Result<(Settings, Option<FlashModel>), Refusal> {
    // SAFETY: the caller's promise, for all of these.
    let [path, data, design, admission, mode, model, tablespace] = [
        given.flash_path,
        given.data_directory,
        given.design,
        given.admission,
        given.sync_mode,
        given.flash_model,
        given.tablespace_directory,
    ]
    .map(|given| unsafe { text(given) });
    let settings = Settings {
        flash_path: PathBuf::from(path),
        flash_bytes: given.flash_bytes,
        flash_bytes_max: given.flash_bytes_max,
        page_bytes: given.page_bytes,
        design: design.parse().map_err(Refusal::new)?,
        admission: admission.parse().map_err(Refusal::new)?,
        returning_only: given.returning_only,
        sync_mode: mode.parse().map_err(Refusal::new)?,
        group_pages: given.group_pages,
        data_directory: PathBuf::from(data),
        relation_files: (given.segment_blocks > 0).then_some(RelationFiles {
            segment_blocks: given.segment_blocks,
            tablespace_directory: tablespace,
        }),
    };
    let model = if model.is_empty() { None } else { Some(FlashModel::open(&model, given.time_scale)?) };
    Ok((settings, model))
}

/// Opens the flash device in the process that starts the server; another server may be using it. Null if it
/// cannot be used; then `message` says why.
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

/// Locks the flash device for this process and its children, unless it has. False with a message if another
/// server uses it.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_lock_device(host: &mut MezzHost, message: &mut MezzMessage) -> bool {
    told(host.0.lock_device(), message)
}

/// Gives the tier its memory. `fresh` says that it is as the system gave it, zeroed, and that nobody has
/// written to it: then `mezz_start` need not wipe it. Memory that held a tier before a crash is not fresh.
///
/// # Safety
/// `host` is from `mezz_open`; the memory is initialised, has `memory_bytes` of `mezz_sizes`, lies at the
/// same address in all processes and is used by nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_use_memory(host: &mut MezzHost, base: *mut u8, bytes: usize, fresh: bool) {
    let base = NonNull::new(base).expect("memory for the tier");
    // SAFETY: the caller's promise.
    unsafe { host.0.use_memory(base, bytes, fresh) };
}

/// Judges, recovers and publishes the tier, before the server's redo. False with a message if the server must
/// not start.
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
        new_session: given.new_session,
    };
    let done = host.start(&start).map(|started| {
        out.adoption = match started.adoption {
            Adoption::Adopted => MezzAdoption::Adopted,
            Adoption::Discarded => MezzAdoption::Discarded,
            Adoption::Formatted => MezzAdoption::Formatted,
            Adoption::Unusable => MezzAdoption::Unusable,
        };
        put_text(&started.reason, &mut out.reason);
        out.pages = started.recovery.valid;
        out.dirty = started.recovery.dirty;
        out.bytes_read = started.recovery.bytes_read;
        out.mode_kept = started.mode_kept;
        out.changed_pages = started.changed_pages;
        out.changed_files = started.changed_files;
        put_text(&started.sizes_kept, &mut out.sizes_kept);
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
