//! Checkpoints and the end.

use mezzanine_engine::RedoPoint;

use super::{MezzHost, MezzMessage, tell, told};

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

/// The server's log goes on on this timeline: pages that come in from now on are of it.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_follows_timeline(host: &MezzHost, timeline: u32) {
    host.0.follows_timeline(timeline);
}

/// The server's log is durable up to this position: before a page comes in that may tell of what lies there.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_log_flushed(host: &MezzHost, lsn: u64) {
    host.0.log_flushed(lsn);
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

/// Leaves the tier in order; with `drain` the disk is made current first. `current` says whether it is. If
/// pages are lost it cannot be: the tier is then left in order with them, which is no failure, and `message`
/// says so (`lost`).
#[unsafe(no_mangle)]
pub extern "C" fn mezz_close(
    host: &MezzHost,
    drain: bool,
    current: &mut bool,
    message: &mut MezzMessage,
) -> bool {
    let host = &host.0;
    let done = host.close(drain).map(|closed| {
        *current = closed.current;
        if let Some(refusal) = &closed.lost {
            tell(refusal, message);
        }
    });
    told(done, message)
}
