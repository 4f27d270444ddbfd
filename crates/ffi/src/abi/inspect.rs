//! Passes over the pages that the tier holds.

use std::mem::MaybeUninit;
use std::slice;

use mezzanine_engine::{HeldPage, PageCursor};

use super::names::MezzPage;
use super::{MezzHost, MezzMessage, tell};

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
    /// No read brings it back, and only flash had it.
    pub lost: bool,
}

/// What became of a step of a pass.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzStep {
    /// There are more.
    More = 0,
    /// The pass is complete.
    Complete = 1,
    /// The device answers no read; see the message.
    Failed = 2,
}

/// Begins a pass over the pages that the tier holds now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_first_page(host: &MezzHost, out: &mut MezzCursor) {
    (out.next, out.end) = host.0.tier().first_page().positions();
}

/// Looks at up to `room` frames and copies the pages found there, which may be none. False when the pass is
/// complete.
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

/// Reads what is on flash in up to `room` frames and copies the pages that are damaged; `checked` is how many
/// were read.
///
/// # Safety
/// As for `mezz_pages`; `message` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_verify(
    host: &MezzHost,
    cursor: &mut MezzCursor,
    damaged: *mut MezzHeld,
    room: usize,
    count: &mut usize,
    checked: &mut u64,
    message: &mut MezzMessage,
) -> MezzStep {
    let mut at = PageCursor::from_positions(cursor.next, cursor.end);
    let found = host.0.verify(&mut at, room);
    (cursor.next, cursor.end) = at.positions();
    (*count, *checked) = (0, 0);
    match found {
        Ok(Some(found)) => {
            *checked = found.checked;
            // SAFETY: the caller's promise.
            *count = unsafe { put_held(&found.damaged, damaged) };
            MezzStep::More
        }
        Ok(None) => MezzStep::Complete,
        Err(refusal) => {
            tell(&refusal, message);
            MezzStep::Failed
        }
    }
}

/// # Safety
/// `out` has room for so many pages.
unsafe fn put_held(pages: &[HeldPage], out: *mut MezzHeld) -> usize {
    // SAFETY: the caller's promise.
    let out = unsafe { slice::from_raw_parts_mut(out.cast::<MaybeUninit<MezzHeld>>(), pages.len()) };
    for (to, page) in out.iter_mut().zip(pages) {
        to.write(MezzHeld {
            page: MezzPage::from(&page.id),
            position: page.flash.position.number(),
            dirty: page.flash.dirty,
            referenced: page.referenced,
            staged: page.staged,
            lost: page.lost,
        });
    }
    pages.len()
}
