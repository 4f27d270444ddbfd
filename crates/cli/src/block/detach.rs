//! The end of `mezz block attach`, by a signal or by `mezz block detach`: clients first, then the cache.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mezzanine_blockdev::nbd::Server;
use mezzanine_cached::{BlockCache, Drained, FileVoucher, Opening, Survival};
use mezzanine_device::DeviceError;

use super::attach::{IS_INTERRUPTED, LOOK_EVERY, SIGNAL_WITHIN};
use super::cache_device::CacheDevice;
use super::ending::Ending;
use super::folders;
use super::open::Volume;
use super::page::Pages;
use super::served::{Attachment, Detached};
use crate::failure::{Failure, chain};
use crate::output;

/// How much longer than the end has time a request may be in a device that does not give it back.
const DEVICE_WITHIN: Duration = Duration::from_secs(5);
/// And a mark, which takes a flush of the cache device.
const MARK_WITHIN: Duration = Duration::from_secs(1);

/// Finishes what is under way, makes durable what was written, and notes that the volumes are detached.
pub(super) fn end(attachment: &Attachment, volumes: &[Volume]) -> Result<Detached, Failure> {
    let begun = Instant::now();
    let ending = &attachment.ending;
    ending.stage("clients", 0, 1);
    let running = attachment.engine.fragments().map(|(running, _)| running);
    if let Err(errors) = with_an_end_of_waits(ending, running, || disconnect(attachment)) {
        let reasons: Vec<_> = errors.iter().map(|error| chain(error)).collect();
        return Err(Failure::refused("flush at the end", reasons.join("; "))
            .next("what was written since the last flush of a client may be lost"));
    }
    if let Some(pages) = attachment.engine.pages() {
        return end_pages(attachment, pages, begun);
    }
    let Some(running) = attachment.engine.fragments() else {
        let seconds = begun.elapsed().as_secs_f64();
        return Ok(Detached {
            copies_left: 0,
            writes_failed: 0,
            is_whole: false,
            goes_on: false,
            seconds,
            pages: None,
        });
    };
    let go_on = |left| {
        ending.stage("blocks and fragments to be written", 0, left);
        if IS_INTERRUPTED.load(Ordering::Acquire) {
            ending.want(SIGNAL_WITHIN);
        }
        // Somebody may have less patience than who began it.
        !ending.left().is_zero()
    };
    let (Drained { copies_left, is_whole }, goes_on) =
        close(running.0, attachment.take_device(), volumes, ending.left(), go_on);
    let writes_failed = running.0.statistics().host.writes_unmarked;
    if writes_failed > 0 {
        output::note(&format!(
            "{}: {writes_failed} writes and discards waited for it to record that blocks change until the time was over; \
             they failed, and nothing of them was written",
            running.1.path
        ));
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Detached { copies_left, writes_failed, is_whole, goes_on, seconds, pages: None })
}

/// The same of the page engine.
fn end_pages(attachment: &Attachment, pages: &Pages, begun: Instant) -> Result<Detached, Failure> {
    let (ending, drains) = (&attachment.ending, attachment.drains());
    let closed = pages.close(drains, |written, all| {
        ending.stage("pages to be written to the volumes' own devices", written, all);
        if IS_INTERRUPTED.load(Ordering::Acquire) {
            ending.want(SIGNAL_WITHIN);
        }
        !ending.left().is_zero()
    })?;
    Ok(Detached {
        copies_left: 0,
        writes_failed: 0,
        is_whole: !drains || closed.volumes_are_current,
        goes_on: true,
        seconds: begun.elapsed().as_secs_f64(),
        pages: Some(closed),
    })
}

/// Ends what clients use, when what is under way is finished.
fn disconnect(attachment: &Attachment) -> Result<(), Vec<DeviceError>> {
    attachment.take_local().close(|| attachment.ending.left() + DEVICE_WITHIN);
    let server = attachment.server.write().unwrap_or_else(PoisonError::into_inner).take();
    server.map_or(Ok(()), Server::shutdown)
}

/// Does something that waits for requests under way. Those that wait for a mark fail a second after the end
/// has no time left: they would wait for as long as the voucher cannot be revoked.
fn with_an_end_of_waits<T>(ending: &Ending, cache: Option<&BlockCache>, waits: impl FnOnce() -> T) -> T {
    let Some(cache) = cache else { return waits() };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut over: Option<Instant> = None;
            while !is_done.load(Ordering::Acquire) {
                if IS_INTERRUPTED.load(Ordering::Acquire) {
                    ending.want(SIGNAL_WITHIN);
                }
                // Somebody may have less patience than who began it.
                if !ending.left().is_zero() {
                    over = None;
                } else if over.get_or_insert_with(Instant::now).elapsed() >= MARK_WITHIN {
                    return cache.end_waits();
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        let result = waits();
        is_done.store(true, Ordering::Release);
        result
    })
}

/// Closes the cache, and notes that the volumes are detached if its map is whole. Whole is what is noted
/// durably; if it is not, the cache goes on as after a crash, if its map is vouched for. Without the cache
/// device nothing can be noted.
pub(super) fn close(
    running: &BlockCache,
    mut cache: Option<CacheDevice>,
    volumes: &[Volume],
    within: Duration,
    go_on: impl FnMut(u64) -> bool,
) -> (Drained, bool) {
    let closed = running.close(within, go_on);
    let noted = match (closed.is_whole, &mut cache) {
        (true, Some(cache)) => cache.note_detached(volumes).map_err(|failure| failure.to_string()),
        (true, None) => Err("the cache device does not give a write of its superblock back".to_owned()),
        (false, _) => Err("not all of it could be written in time".to_owned()),
    };
    let Err(reason) = noted else {
        tidy(cache.map(|cache| cache.opening));
        return (closed, true);
    };
    let path = cache.map_or("the cache device".to_owned(), |cache| cache.path.display().to_string());
    let survival = running.statistics().survival;
    match &survival {
        Survival::Crash => output::note(&format!("{path}: it goes on as after a crash: {reason}")),
        Survival::OrderlyEnd => output::note(&format!("{path}: it begins empty the next time: {reason}")),
        Survival::Nothing(why) => output::note(&format!("{path}: it begins empty the next time: {why}")),
    }
    (Drained { is_whole: false, ..closed }, survival == Survival::Crash)
}

/// Nothing vouches for an opening any more that no superblock names.
pub(super) fn tidy(opening: Option<Opening>) {
    if let (Some(opening), Ok(folder)) = (opening, folders::state()) {
        FileVoucher::tidy(&folder, opening);
    }
}
