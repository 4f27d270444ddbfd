//! What backends do with pages: write, offer, read, forget, drop.

use std::ffi::c_char;
use std::slice;

use mezzanine_engine::{Mark, PageId, SyncMode, Token};

use crate::pages::{Found, Written};
use crate::read_ahead::AheadCounts;
use crate::read_at_once::AtOnce;

use super::names::{MezzPage, MezzScope};
use super::{MEZZ_TEXT_BYTES, MezzHost, MezzMessage, put_text, tell, told};

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
    /// Its only copy is on a flash device that answers no read just now.
    Silent = 3,
    /// Flash does not give it back, and a read of the disk fails: it may be lost or on disk.
    Unknown = 4,
}

/// What became of one of several pages that were read at once.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzAtOnce {
    /// To be read by itself.
    Undecided = 0,
    /// It was copied to its buffer, from memory.
    FromMemory = 1,
    /// It was read from flash.
    FromFlash = 2,
    /// The disk has it.
    OnDisk = 3,
}

/// The last mark: read before it is looked up how old a page's changes are.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_mark(host: &MezzHost) -> u64 {
    host.0.tier().mark().number()
}

/// Takes a dirty page whose log is forced. `since` is what `mezz_mark` said before it was found that no
/// change in the page is older than the redo pointer of the checkpoint under way; 0 if one is.
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

/// A clean page is about to leave the pool, and nobody else can have it yet. Whether it is to be offered when
/// it has: then `token` is what [`mezz_offer`] needs. The tier has it otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_before_offer(host: &MezzHost, page: MezzPage, token: &mut u32) -> bool {
    let Some(seen) = host.0.token_unless_held(&page.id()) else { return false };
    *token = seen.number();
    true
}

/// Offers a clean page that has left the pool: a copy in memory, no waiting. Whether the tier took it; not if
/// anything newer was written, to the tier or past it, or the page was dropped, since `token`.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `bytes` has a page's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_offer(
    host: &MezzHost,
    page: MezzPage,
    bytes: *const u8,
    lsn: u64,
    token: u32,
) -> bool {
    let host = &host.0;
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(bytes, host.geometry().page_size()) };
    host.offer(&page.id(), bytes, lsn, Token::from_number(token))
}

/// Changes whenever a page that came in may have left work behind: who finds it changed by his page wakes
/// whoever carries that out.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_work_number(host: &MezzHost) -> u64 {
    host.0.tier().work()
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
        Found::Silent => MezzFound::Silent,
        Found::Unknown => MezzFound::Unknown,
    }
}

/// Reads blocks of a fork from `page` on, as far as the tier has them: those on flash with one batch of
/// requests. What a buffer has of a page that was not read says nothing.
///
/// # Safety
/// `host` is from `mezz_open` and attached; `buffers` and `found` have `count` elements, and each buffer a
/// page's length, which may be written and is no other's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_read_at_once(
    host: &MezzHost,
    page: MezzPage,
    buffers: *const *mut u8,
    count: usize,
    found: *mut MezzAtOnce,
) {
    let host = &host.0;
    let page_size = host.geometry().page_size();
    let ids: Vec<PageId> =
        (0..count as u32).map(|number| MezzPage { block: page.block + number, ..page }.id()).collect();
    // SAFETY: the caller's promise.
    let buffers = unsafe { slice::from_raw_parts(buffers, count) };
    let mut buffers: Vec<&mut [u8]> = buffers
        .iter()
        // SAFETY: the caller's promise.
        .map(|buffer| unsafe { slice::from_raw_parts_mut(*buffer, page_size) })
        .collect();
    // SAFETY: the caller's promise.
    let found = unsafe { slice::from_raw_parts_mut(found, count) };
    for (found, at_once) in found.iter_mut().zip(host.read_at_once(&ids, &mut buffers)) {
        *found = match at_once {
            AtOnce::Undecided => MezzAtOnce::Undecided,
            AtOnce::FromMemory => MezzAtOnce::FromMemory,
            AtOnce::FromFlash => MezzAtOnce::FromFlash,
            AtOnce::OnDisk => MezzAtOnce::OnDisk,
        };
    }
}

/// What this process has read ahead since it began.
#[repr(C)]
pub struct MezzAhead {
    /// Reads that were begun.
    pub begun: u64,
    /// Of these, pages that a read has taken.
    pub used: u64,
    /// Pages that had changed, or came damaged or not at all: they were read anew.
    pub stale: u64,
    /// Pages that nobody came for.
    pub unused: u64,
    /// Bytes of memory for it now.
    pub bytes: u64,
}

/// By what pages are read ahead.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzAheadWay {
    /// Nothing was to be read ahead so far.
    None = 0,
    /// By what the text says.
    Some = 1,
    /// By nothing, for the reason that the text gives.
    Unsupported = 2,
}

/// Begins to read `count` blocks of a fork from `page` on that lie on flash and that this process will read
/// soon; at most `depth` of them are under way at a time, and another depth than before gives up what was.
/// Whether the tier has all of them, so that disk need not be asked.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_read_ahead(host: &MezzHost, page: MezzPage, count: usize, depth: usize) -> bool {
    let block = |number| MezzPage { block: page.block + number, ..page }.id();
    match count {
        1 => host.0.read_ahead(&[page.id()], depth),
        _ => host.0.read_ahead(&(0..count as u32).map(block).collect::<Vec<_>>(), depth),
    }
}

/// Gives up what this process reads ahead: nobody comes for it any more.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_forget_ahead(host: &MezzHost) {
    host.0.forget_ahead();
}

/// What this process has read ahead since it began.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_ahead(host: &MezzHost, out: &mut MezzAhead) {
    let counts = host.0.ahead_counts();
    let bytes = host.0.ahead_bytes() as u64;
    let AheadCounts { begun, used, stale, unused } = counts;
    *out = MezzAhead { begun, used, stale, unused, bytes };
}

/// By what this process reads ahead.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_ahead_way(host: &MezzHost, text: &mut [c_char; MEZZ_TEXT_BYTES]) -> MezzAheadWay {
    let (way, what) = match host.0.ahead_way() {
        None => (MezzAheadWay::None, String::new()),
        Some(Ok(what)) => (MezzAheadWay::Some, what),
        Some(Err(why)) => (MezzAheadWay::Unsupported, why),
    };
    put_text(&what, text);
    way
}

/// Whether the tier never holds the only copy of a page.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_is_clean(host: &MezzHost) -> bool {
    host.0.is_provably_clean()
}

/// Whether the tier may hold the only copy of a page beyond a checkpoint of the server: what it holds is then
/// part of the database.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_is_durable(host: &MezzHost) -> bool {
    host.0.tier().sync_mode() == SyncMode::Durable
}

/// Calls `with` for the last page of every fork that is newer in the tier than on disk. A pass over the
/// directory.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_dirty_forks(host: &MezzHost, with: extern "C" fn(last: MezzPage)) {
    host.0.last_dirty_pages().iter().map(MezzPage::from).for_each(|last| with(last));
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

/// Forgets a page that was refused and is on disk. `again` says whether stage-out may have written an older
/// version over it: then the caller waits for that, writes the page once more, and calls again.
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

/// Forgets what the tier has of a block that is about to be written past it; what is newer than the disk goes
/// there first.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_overwrite(host: &MezzHost, page: MezzPage, message: &mut MezzMessage) -> bool {
    told(host.0.overwrite(&page.id()), message)
}

/// Gives up a page that is lost: disk holds what no server accepts, durably, and the tier forgets it. Nobody
/// else writes the page, or has it, meanwhile. False if it is not lost, or a device does not say; then
/// nothing was changed, and `message` has the reason.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_give_up_page(host: &MezzHost, page: MezzPage, message: &mut MezzMessage) -> bool {
    told(host.0.give_up_page(&page.id()), message)
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
