//! Counters of a tier.

use mezzanine_ground::region::Word;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters as they live in the region.
        #[repr(C)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Word,)+
        }

        /// What a tier has done since its region was created. Frames and pages are counts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Statistics {
                Statistics { $($name: self.$name.get(),)+ }
            }
        }

        impl Statistics {
            /// What happened between `earlier` and this snapshot of the same tier.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)+ }
            }

            /// Every counter with its name, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

/// What [`mezzanine_ground::counters`] counts for a tier.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    HitInMemory,
    HitOnFlash,
    Miss,
    StagedDirty,
    StagedClean,
    /// Where a design takes only some pages, nearly every one that comes.
    Refused,
    /// With second-touch admission, nearly every clean page that comes.
    FirstTouch,
}

counters! {
    /// Lookups answered from memory staging.
    hits_memory,
    /// Lookups that found their page on flash.
    hits_flash,
    /// Lookups that found nothing.
    misses,
    /// Dirty pages staged in.
    staged_dirty,
    /// Clean pages staged in.
    staged_clean,
    /// Clean pages dropped because a valid frame held them already.
    dropped_present,
    /// Clean pages dropped because their page changed since it was read.
    dropped_stale,
    /// Clean pages dropped because staging was full or a shard busy.
    dropped_busy,
    /// Dirty pages that found staging full and made their caller wait or work.
    stalls,
    /// Pages that admission does not take.
    refused,
    /// Clean pages that were not taken because they had not been offered lately.
    clean_first_seen,
    /// Tombstones appended.
    tombstones,
    /// Groups written.
    groups_written,
    /// Of these, groups that a sync closed before they were full.
    groups_cut_short,
    /// Of these, groups without a page: they carry a front, host metadata or tombstones.
    groups_empty,
    /// Pages in the groups written.
    pages_written,
    /// Bytes of groups written to flash.
    group_bytes_written,
    /// Bytes of groups that were not cut short.
    full_group_bytes_written,
    /// Bytes of metadata segments written to flash.
    metadata_bytes_written,
    /// Metadata segments written.
    segments_written,
    /// Flushes of the flash device.
    flushes,
    /// Groups staged out.
    groups_staged_out,
    /// Bytes read from flash by stage-out.
    stage_out_bytes_read,
    /// Frames that left the queue because they were invalid.
    left_invalid,
    /// Frames that left the queue clean.
    left_clean,
    /// Pages written to disk by stage-out.
    disk_writes,
    /// Of these, pages that a drain asked for.
    pages_drained,
    /// Times that disk has refused a page, which stays in the tier.
    disk_refused,
    /// Pages appended again.
    second_chances,
    /// Referenced pages that were refused a second chance for want of room.
    second_chances_refused,
    /// Pages that stage-out could not read, though it read each alone.
    unreadable,
    /// Of these, pages that only flash had: they are lost until they are written anew or dropped.
    lost,
    /// Places in groups that nothing was put in, because what lay there could not be read.
    voids,
    /// Syncs of the disk.
    disk_syncs,
    /// Records appended again for pages that stay where they are, by designs that write in place.
    relocated,
}

impl Statistics {
    /// Lookups.
    pub fn lookups(&self) -> u64 {
        self.hits_memory + self.hits_flash + self.misses
    }

    /// Share of lookups that the tier answered; `None` without lookups.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits_memory + self.hits_flash, self.lookups())
    }

    /// 1 - pages written to disk / dirty pages that entered; `None` if none entered.
    pub fn write_reduction(&self) -> Option<f64> {
        ratio(self.disk_writes, self.staged_dirty).map(|share| 1.0 - share)
    }

    /// Mean size in bytes of the groups that were not cut short by a sync.
    pub fn full_group_bytes_mean(&self) -> Option<f64> {
        let groups = self.groups_written - self.groups_cut_short;
        ratio(self.full_group_bytes_written, groups)
    }

    /// Mean size in bytes of the groups that a sync cut short.
    pub fn cut_group_bytes_mean(&self) -> Option<f64> {
        ratio(self.group_bytes_written - self.full_group_bytes_written, self.groups_cut_short)
    }

    /// Bytes written to flash.
    pub fn flash_bytes_written(&self) -> u64 {
        self.group_bytes_written + self.metadata_bytes_written
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
