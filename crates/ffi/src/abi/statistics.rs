//! The state of the tier and its counters.

use std::ffi::c_char;

use super::{MEZZ_TEXT_BYTES, MezzHost, put_text};

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
    /// Whether a resize is under way: to how many frames, and how many more have to be appended before it
    /// takes effect.
    pub resizing: bool,
    /// See `resizing`.
    pub frames_wanted: u64,
    /// See `resizing`.
    pub frames_to_go: u64,
    /// Pages in staging memory.
    pub staged: u64,
    /// Pages that no read brings back, and that only flash had.
    pub lost: u64,
    /// Which of its numbers comes to its end, so that it takes no more pages; empty as long as none does.
    pub used_up: [c_char; MEZZ_TEXT_BYTES],
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
    /// Pages that admission did not take, clean ones that were offered for the first time among them.
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
    /// Times that a file did not take a page; it stays in the tier.
    pub disk_refused: u64,
    /// Syncs of the disk.
    pub disk_syncs: u64,
    /// Pages that were appended again instead of leaving the tier.
    pub second_chances: u64,
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
    out.lost = tier.lost().len() as u64;
    put_text(&tier.used_up().map_or_else(String::new, |why| why.to_string()), &mut out.used_up);
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
        refused: of.refused + of.clean_first_seen,
        stalls: of.stalls,
        groups_written: of.groups_written,
        group_bytes_written: of.group_bytes_written,
        flash_bytes_written: of.flash_bytes_written(),
        flash_syncs: of.flushes,
        stage_out_bytes_read: of.stage_out_bytes_read,
        disk_writes: of.disk_writes,
        pages_drained: of.pages_drained,
        disk_refused: of.disk_refused,
        disk_syncs: of.disk_syncs,
        second_chances: of.second_chances,
    };
}
