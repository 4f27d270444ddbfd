//! Writing a trace of what the server does: the format of `mezz trace`.

use std::ffi::c_char;
use std::path::Path;
use std::slice;

use mezzanine_trace::Op;

use super::names::MezzPage;
use super::{MezzMessage, tell, text, told};
use crate::trace::Trace;

/// A trace that is being written.
pub struct MezzTrace(Trace);

/// What happened.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzTraceKind {
    /// A page was asked for that shared buffers did not have.
    Read = 0,
    /// A changed page was written.
    Write = 1,
    /// A page left shared buffers that nobody had changed since it was written.
    EvictClean = 2,
    /// A page left shared buffers, and was written because of that.
    EvictDirty = 3,
    /// A transaction was committed that had a number. It has no page.
    Commit = 4,
    /// A checkpoint was completed. It has no page.
    Checkpoint = 5,
}

impl MezzTraceKind {
    fn op(self) -> Op {
        match self {
            Self::Read => Op::Read,
            Self::Write => Op::Write,
            Self::EvictClean => Op::EvictClean,
            Self::EvictDirty => Op::EvictDirty,
            Self::Commit => Op::Commit,
            Self::Checkpoint => Op::Checkpoint,
        }
    }
}

/// Something that happened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzTraced {
    /// Nanoseconds since the trace was begun, never less than of the one before.
    pub time_ns: u64,
    /// The page.
    pub page: MezzPage,
    /// The process that caused it.
    pub client: u32,
    /// The number of its transaction, or 0.
    pub transaction: u32,
    /// What happened.
    pub kind: MezzTraceKind,
}

/// Begins a trace at `path`, where there is nothing yet, whose time 0 is now. NULL if that cannot be.
///
/// # Safety
/// `path` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_trace_create(
    path: *const c_char,
    page_bytes: u32,
    message: &mut MezzMessage,
) -> *mut MezzTrace {
    *message = MezzMessage::empty();
    // SAFETY: the caller's promise.
    let path = unsafe { text(path) };
    match Trace::create(Path::new(&path), page_bytes) {
        Ok(trace) => Box::into_raw(Box::new(MezzTrace(trace))),
        Err(refusal) => {
            tell(&refusal, message);
            std::ptr::null_mut()
        }
    }
}

/// Adds `count` events. After a failure nothing more can be added; what was written stays under another name,
/// which the message tells.
///
/// # Safety
/// `events` has so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_trace_add(
    trace: &mut MezzTrace,
    events: *const MezzTraced,
    count: usize,
    message: &mut MezzMessage,
) -> bool {
    *message = MezzMessage::empty();
    // SAFETY: the caller's promise.
    let events = unsafe { slice::from_raw_parts(events, count) };
    let add = |event: &MezzTraced| {
        trace.0.add(event.time_ns, event.kind.op(), &event.page.id(), event.client, event.transaction)
    };
    told(events.iter().try_for_each(add), message)
}

/// Hands what was added to the operating system: a trace of a process that ends now can be read so far.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_trace_flush(trace: &mut MezzTrace, message: &mut MezzMessage) -> bool {
    *message = MezzMessage::empty();
    told(trace.0.flush(), message)
}

/// Completes the trace and frees it. Without an event there is no file, and `events` and `bytes` are 0.
///
/// # Safety
/// `trace` is from `mezz_trace_create` and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezz_trace_finish(
    trace: *mut MezzTrace,
    events: &mut u64,
    bytes: &mut u64,
    message: &mut MezzMessage,
) -> bool {
    *message = MezzMessage::empty();
    // SAFETY: the caller's promise.
    let trace = unsafe { Box::from_raw(trace) };
    let finished = trace.0.finish().map(|written| (*events, *bytes) = written);
    told(finished, message)
}
