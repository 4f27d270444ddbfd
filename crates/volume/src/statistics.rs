//! Counters of a volume.

use mezzanine_engine::{Statistics, Tier};

use crate::shared::plain::{Quiet, plain};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        plain! {
            /// The counters as they are counted.
            pub(crate) struct Counters {
                $(pub(crate) $name: Quiet,)+
            }
        }

        /// What a volume has done since it was opened, and what is wrong with its tier. All counters only
        /// grow.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct VolumeStatistics {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Pages that are lost now: no counter. [`crate::Volume::lost_pages`] names them.
            pub lost_pages: u64,
            /// Why the tier takes no more pages, if one of its numbers that only rise is at its end or near
            /// it.
            pub used_up: Option<String>,
            /// The tier's own counters; `None` without a tier.
            pub tier: Option<Statistics>,
        }

        impl Counters {
            pub(crate) fn snapshot(&self, tier: Option<&Tier>, lost_pages: u64) -> VolumeStatistics {
                VolumeStatistics {
                    $($name: self.$name.get(),)+
                    lost_pages,
                    used_up: tier.and_then(Tier::used_up).map(|why| why.to_string()),
                    tier: tier.map(Tier::statistics),
                }
            }
        }

        impl VolumeStatistics {
            /// What happened between `earlier` and this snapshot of the same volume. What is no counter is as
            /// it is in this one.
            pub fn since(&self, earlier: &Self) -> Self {
                let tier = match (&self.tier, &earlier.tier) {
                    (Some(now), Some(then)) => Some(now.since(then)),
                    (now, _) => *now,
                };
                let Self { lost_pages, ref used_up, .. } = *self;
                let used_up = used_up.clone();
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)+ lost_pages, used_up, tier }
            }

            /// Every counter of the volume itself with its name, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Calls of `read_at`.
    reads,
    /// Calls of `write_at`.
    writes,
    /// Calls of `sync`.
    syncs,
    /// Calls of `sync` that found nothing to make durable and did no I/O.
    syncs_without_io,
    /// Pages that readers found in staging memory.
    page_hits_memory,
    /// Pages that readers found on flash.
    page_hits_flash,
    /// Pages that readers took from disk.
    page_misses,
    /// Pages that writers gave to the tier or, where it did not take them, to disk.
    page_writes,
    /// Clean pages on flash that could not be read or were damaged, and were read from disk instead.
    pages_damaged,
    /// Lost pages that were given up.
    pages_given_up,
    /// Read requests to backing devices.
    disk_reads,
    /// Bytes read from backing devices.
    disk_bytes_read,
    /// Write requests to backing devices.
    disk_writes,
    /// Bytes written to backing devices.
    disk_bytes_written,
    /// Pages written to backing devices, part pages included.
    disk_pages_written,
    /// Flushes of backing devices.
    disk_flushes,
    /// Read requests to the flash device.
    flash_reads,
    /// Write requests to the flash device.
    flash_writes,
    /// Bytes written to the flash device.
    flash_bytes_written,
    /// Flushes of the flash device.
    flash_flushes,
    /// Jobs that callers carried out because the tier had no room for their pages or a sync waited.
    jobs_by_callers,
}

pub(crate) fn count(counter: &Quiet, by: u64) {
    counter.count(by);
}

impl VolumeStatistics {
    /// Share of the pages read that came from the tier, memory staging included; `None` before the first
    /// read.
    pub fn hit_ratio(&self) -> Option<f64> {
        let hits = self.page_hits_memory + self.page_hits_flash;
        let all = hits + self.page_misses;
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// 1 - pages written to disk / pages written; `None` before the first write.
    pub fn write_reduction(&self) -> Option<f64> {
        (self.page_writes > 0).then(|| 1.0 - self.disk_pages_written as f64 / self.page_writes as f64)
    }

    /// Mean size of a write to the flash device in bytes; `None` before the first.
    pub fn flash_write_bytes_mean(&self) -> Option<f64> {
        (self.flash_writes > 0).then(|| self.flash_bytes_written as f64 / self.flash_writes as f64)
    }
}
