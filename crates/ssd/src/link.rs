//! The way between a host and a drive: one command after the other, as long as its transfer takes.

use crate::config::HostConfig;

/// Times of the link in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    command: u64,
    /// Of a mapping unit that is written, beyond its transfer.
    pub(crate) write_unit: u64,
    /// From a command's arrival until the drive works on it.
    pub(crate) latency: u64,
    /// Of a mapping unit, in units of 2^-16 ns.
    unit_transfer: u64,
}

impl Link {
    pub(crate) fn new(host: &HostConfig, unit_bytes: u32) -> Self {
        let ns = |us: f64| (us * 1e3).round() as u64;
        Self {
            command: ns(host.command_us),
            write_unit: ns(host.write_unit_us),
            latency: ns(host.latency_us),
            unit_transfer: (f64::from(unit_bytes) * 1e3 / host.link_mb_per_s * 65_536.0).round() as u64,
        }
    }

    /// What so many units take.
    #[inline]
    pub(crate) fn transfer(&self, units: u64) -> u64 {
        units.saturating_mul(self.unit_transfer) >> 16
    }

    /// When a command of so many units is over that arrives at `now`; the link is free at `free_at`, and then
    /// at that time.
    #[inline]
    pub(crate) fn over(&self, free_at: &mut u64, now: u64, units: u64) -> u64 {
        *free_at = (*free_at).max(now) + self.command + self.transfer(units);
        *free_at
    }
}
