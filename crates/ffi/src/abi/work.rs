//! Jobs, and what those that carry them out have to know.

use super::{MezzHost, MezzMessage, tell, told};

/// Carries out one job; with `flash_writes` only one that writes to flash, which others then need not wait
/// for. False if there is nothing to do now.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_work(host: &MezzHost, flash_writes: bool) -> bool {
    if flash_writes { host.0.write_flash() } else { host.0.work() }
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

/// Has stage-out try once more what the files have refused, if it rests for that. Called now and then.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_retry_disk(host: &MezzHost) {
    host.0.tier().retry_disk();
}

/// Whether a device under the tier has failed; then `message` says which, and nothing more becomes durable.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_has_failed(host: &MezzHost, message: &mut MezzMessage) -> bool {
    let host = &host.0;
    let Some(failure) = host.tier().failure() else { return false };
    tell(&host.failed(failure), message);
    true
}

/// Gives the tier up after a failure of its device: what it has alone is written to disk and synced. Nobody
/// else writes to disk for the tier, or past it, meanwhile. False if the server must restart; then `message`
/// says why.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_give_up(host: &MezzHost, written: &mut u64, message: &mut MezzMessage) -> bool {
    let done = host.0.give_up().map(|pages| {
        *written = pages;
    });
    told(done, message)
}
