//! Modelled devices: the disk under the relations, and the tier's own.

use std::ffi::c_char;
use std::{ptr, slice};

use mezzanine_device::Drive;

use crate::modelled::DiskModel;

use super::{MezzHost, MezzMessage, tell, text};

/// A modelled disk under the server's relations.
pub struct MezzDisk(DiskModel);

/// Bytes side by side on a modelled disk.
#[repr(C)]
pub struct MezzRun {
    /// The first of them.
    pub address: u64,
    /// How many.
    pub bytes: usize,
}

/// What a modelled drive has done for all its users, in its own time; what was done at time scale 0 is not
/// counted.
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

/// Opens a modelled disk in the process that starts the server. Arms move `spread` times as far as blocks are
/// apart, within the share `span` of the disk. Null if there is no such model; then `message` says so.
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

/// Changes how many times slower than real time the tier's modelled drive is, for all processes. False
/// without one.
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
