//! The C interface. `postgres/mezzanine/mezz_ffi.h` is generated from this file and those below it.
//!
//! Pointers that are references here must be valid; a `MezzHost` comes from `mezz_open` and is never given
//! back. From `mezz_mark` on the functions need a process that has started or attached the tier; none may be
//! called by two threads of one process at once.

use std::ffi::{CStr, c_char};

use crate::host::Host;
use crate::message::Refusal;

pub mod names;

pub mod callbacks;

pub mod startup;

pub mod pages;

pub mod work;

pub mod checkpoint;

pub mod control;

pub mod statistics;

pub mod inspect;

pub mod devices;

pub mod trace;

/// Changes with every change of what is declared here; `tests/header.rs` sees to that.
pub const MEZZ_FFI_VERSION: u32 = 21;
/// Bytes of each text in a `MezzMessage`, the end mark included.
pub const MEZZ_TEXT_BYTES: usize = 512;

/// The tier, as one process of the server sees it.
pub struct MezzHost(Host);

/// What a person is told when something cannot be done.
#[repr(C)]
pub struct MezzMessage {
    /// The thing and the reason.
    pub message: [c_char; MEZZ_TEXT_BYTES],
    /// More about it; may be empty.
    pub detail: [c_char; MEZZ_TEXT_BYTES],
    /// What to do next; may be empty.
    pub hint: [c_char; MEZZ_TEXT_BYTES],
    /// It is because of pages that are lost. Nothing has failed: what was asked for is refused, and
    /// everything else goes on.
    pub lost: bool,
    /// The same because the files do not take pages, which stay in the tier.
    pub disk_refuses: bool,
}

impl MezzMessage {
    fn empty() -> Self {
        let text = [0; MEZZ_TEXT_BYTES];
        Self { message: text, detail: text, hint: text, lost: false, disk_refuses: false }
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
    out.lost = refusal.lost_pages;
    out.disk_refuses = refusal.disk_refuses;
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
