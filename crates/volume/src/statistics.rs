//! Counters of a volume.

/// What a volume has done since it was opened. All counters only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeStatistics {
    /// Calls of `read_at`.
    pub reads: u64,
    /// Calls of `write_at`.
    pub writes: u64,
    /// Calls of `sync`.
    pub syncs: u64,
    /// Calls of `sync` that found nothing to make durable and did no I/O.
    pub syncs_without_io: u64,
    /// Read requests to backing devices.
    pub disk_reads: u64,
    /// Bytes read from backing devices.
    pub disk_bytes_read: u64,
    /// Write requests to backing devices.
    pub disk_writes: u64,
    /// Bytes written to backing devices.
    pub disk_bytes_written: u64,
    /// Flushes of backing devices.
    pub disk_flushes: u64,
    /// Write requests to the flash device.
    pub flash_writes: u64,
    /// Bytes written to the flash device.
    pub flash_bytes_written: u64,
    /// Flushes of the flash device.
    pub flash_flushes: u64,
}
