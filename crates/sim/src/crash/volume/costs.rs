//! What an error of a device may cost a volume: the table of docs/reliability.md (*What an error may cost*)
//! as the worlds hold every life to it.
//!
//! 1. A volume is without its tier, or read-only, only if something has failed that may cost that.
//! 2. An operation fails only if something has failed that the operation itself needs, or that may have made
//!    the volume read-only. So an error of flash fails none: the tier is given up behind it, or a page is
//!    lost, or the volume is read-only; or no read of flash goes well, while only flash has the page.
//! 3. A read fails only by a read of the disk, or because its page is lost or flash answers nothing.
//! 4. Openings, closings and changes of the tier as a whole report any error as their own; such a change that
//!    has failed may have cost writing.
//! 5. What fails of a device that is to take the place of flash, before it has, fails that replacement and
//!    nothing else, and costs nothing.

use mezzanine_device::memory::Operation;
use mezzanine_volume::{VolumeErrorKind, VolumeState};

/// The change that puts another device in the place of flash.
pub(super) const REPLACE: &str = "replace the flash device";

/// How many operations of the devices have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Struck {
    /// Of flash, by kind of operation.
    pub(super) flash: Kinds,
    /// Of the device that was to take its place.
    pub(super) spare: Kinds,
    /// Of the disks.
    pub(super) disk: Kinds,
    /// Readings and replacements of sidecars.
    pub(super) sidecar: u64,
}

/// Counts by kind of operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) lengths: u64,
    /// They cost nothing.
    pub(super) discards: u64,
}

impl Kinds {
    pub(super) fn of(count: impl Fn(Operation) -> u64) -> Self {
        let kinds =
            [Operation::Read, Operation::Write, Operation::Flush, Operation::SetLen, Operation::Discard];
        let [reads, writes, flushes, lengths, discards] = kinds.map(count);
        Self { reads, writes, flushes, lengths, discards }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            flushes: self.flushes + other.flushes,
            lengths: self.lengths + other.lengths,
            discards: self.discards + other.discards,
        }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
            lengths: self.lengths - before.lengths,
            discards: self.discards - before.discards,
        }
    }

    /// Whether anything has failed that may cost something.
    fn any(self) -> bool {
        Self { discards: 0, ..self } != Self::default()
    }
}

impl Struck {
    /// What has failed since it was so.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            flash: self.flash.since(before.flash),
            spare: self.spare.since(before.spare),
            disk: self.disk.since(before.disk),
            sidecar: self.sidecar - before.sidecar,
        }
    }

    /// Whether nothing has failed but the device that was to take the place of another.
    pub(super) fn is_of_spare_alone(self) -> bool {
        Self { spare: Kinds::default(), ..self } == Self::default()
    }
}

/// What a life has met, and what it lives on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Met {
    /// Since errors were planned.
    pub(super) struck: Struck,
    /// The tier has clean pages only: the first column of the table.
    pub(super) clean: bool,
    /// The tier was told to take no pages for a while: writes go to disk first, as where it has clean pages
    /// only.
    pub(super) disk_first_at_times: bool,
    /// Flash that may pass for a device of which nothing can be read any more, and not a few places alone.
    pub(super) flash_is_unreadable: bool,
    /// Flash says nothing of this opening yet. One that cannot start for a change goes on without its tier,
    /// if disk has everything, or can have it.
    pub(super) unstarted: bool,
    /// A read of flash has failed, ever: pages may be lost.
    pub(super) pages_may_be_lost: bool,
    /// A change of the tier as a whole has failed in this session.
    pub(super) change_failed: bool,
    /// A replacement has failed in this session.
    pub(super) replacement_failed: bool,
}

/// Whether an operation of this name changes the tier as a whole while it is in use.
pub(super) fn changes_tier(operation: &str) -> bool {
    matches!(operation, "resize" | "switch the sync mode" | "change the admission" | REPLACE)
}

impl Met {
    fn may_cost_tier(&self) -> bool {
        let Struck { flash, .. } = self.struck;
        let silent = self.flash_is_unreadable && flash.reads > 0;
        // Between two devices no file needs either.
        let between = self.replacement_failed && self.struck.sidecar > 0;
        // A flush that fails when an opening starts costs the tier, a later one may cost writing.
        let expendable = self.clean || self.disk_first_at_times || self.unstarted;
        between || flash.writes > 0 || flash.flushes > 0 || silent && expendable
    }

    /// Whether a page that only flash has may not be had just now, and is not lost.
    fn is_silent(&self) -> bool {
        self.flash_is_unreadable && self.struck.flash.reads > 0 && !self.clean
    }

    fn may_cost_writing(&self) -> bool {
        let Struck { flash, disk, sidecar, .. } = self.struck;
        // Whatever fails while the tier is given up keeps it from being given up in order.
        let beside = flash.reads > 0 || disk.any() || sidecar > 0;
        let by_flash =
            flash.flushes > 0 || self.flash_is_unreadable && flash.reads > 0 || flash.writes > 0 && beside;
        let by_the_rest = disk.writes > 0 || disk.lengths > 0 || sidecar > 0;
        disk.flushes > 0 || self.change_failed || !self.clean && (by_flash || by_the_rest)
    }

    /// Whether a volume may be in this state.
    pub(super) fn may_be(&self, state: &VolumeState) -> bool {
        match state {
            VolumeState::Ok => true,
            VolumeState::Bypass { .. } => self.may_cost_tier(),
            VolumeState::ReadOnly { .. } => self.may_cost_writing(),
        }
    }

    /// Whether an operation of this name may fail so.
    pub(super) fn may_fail(&self, operation: &str, kind: VolumeErrorKind) -> bool {
        let Struck { disk, sidecar, .. } = self.struck;
        let opens_or_closes = matches!(operation, "open" | "attach" | "format" | "close" | "close drained");
        let of_the_tier = (opens_or_closes || changes_tier(operation)) && !self.struck.is_of_spare_alone();
        let replaces = operation == REPLACE;
        match kind {
            VolumeErrorKind::LostPage => self.pages_may_be_lost && !self.clean,
            VolumeErrorKind::Io | VolumeErrorKind::NoSpace | VolumeErrorKind::ReadOnly => {
                let by_its_own = disk.reads > 0 || operation != "read" && (disk.any() || sidecar > 0);
                let by_the_volume = operation != "read" && self.may_cost_writing();
                replaces || of_the_tier || by_its_own || by_the_volume || self.is_silent()
            }
            // Another runner has met the failure since the operation was begun.
            VolumeErrorKind::NoTier => changes_tier(operation) && self.may_cost_tier(),
            // It says what the old device may hold alone.
            VolumeErrorKind::OnlyCopy => replaces && self.may_cost_writing(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_ONLY: VolumeState = VolumeState::ReadOnly { reason: String::new() };
    const BYPASS: VolumeState = VolumeState::Bypass { reason: String::new() };

    fn once(set: impl FnOnce(&mut Struck)) -> Struck {
        let mut struck = Struck::default();
        set(&mut struck);
        struck
    }

    /// Row by row: what fails, then whether it may cost the tier and writing where there are clean pages
    /// only, and where not.
    #[test]
    fn every_row_of_the_table_allows_what_it_says_and_no_more() {
        let rows = [
            ("flash, a read", once(|s| s.flash.reads = 1), [false, false], [false, false]),
            ("flash, a write", once(|s| s.flash.writes = 1), [true, false], [true, false]),
            ("flash, a flush", once(|s| s.flash.flushes = 1), [true, false], [true, true]),
            ("disk, a read", once(|s| s.disk.reads = 1), [false, false], [false, false]),
            ("disk, a write", once(|s| s.disk.writes = 1), [false, false], [false, true]),
            ("disk, a sync", once(|s| s.disk.flushes = 1), [false, true], [false, true]),
            ("disk, a length", once(|s| s.disk.lengths = 1), [false, false], [false, true]),
            ("a sidecar", once(|s| s.sidecar = 1), [false, false], [false, true]),
        ];
        for (what, struck, of_clean, of_durable) in rows {
            for (clean, costs) in [(true, of_clean), (false, of_durable)] {
                let met = Met { struck, clean, ..Met::default() };
                assert_eq!([met.may_be(&BYPASS), met.may_be(&READ_ONLY)], costs, "{what}, clean: {clean}");
            }
        }
    }

    #[test]
    fn silence_costs_a_durable_tier_only_before_its_opening_has_started() {
        let met = Met { struck: once(|s| s.flash.reads = 9), flash_is_unreadable: true, ..Met::default() };
        assert!(!met.may_be(&BYPASS) && met.may_be(&READ_ONLY));
        assert!(Met { unstarted: true, ..met }.may_be(&BYPASS));
    }

    #[test]
    fn an_error_of_flash_fails_no_operation() {
        for struck in [once(|s| s.flash.writes = 9), once(|s| s.flash.reads = 9)] {
            let met = Met { struck, ..Met::default() };
            for operation in ["read", "write", "sync", "discard", "shrink", "extend", "drain"] {
                assert!(!met.may_fail(operation, VolumeErrorKind::Io), "{operation}");
                assert!(!met.may_fail(operation, VolumeErrorKind::LostPage), "{operation}");
            }
            assert!(met.may_fail("close", VolumeErrorKind::Io));
            assert!(Met { pages_may_be_lost: true, ..met }.may_fail("read", VolumeErrorKind::LostPage));
        }
    }

    #[test]
    fn who_changes_a_tier_may_come_after_it() {
        let given_up = Met { struck: once(|s| s.flash.writes = 1), ..Met::default() };
        assert!(given_up.may_fail("resize", VolumeErrorKind::NoTier));
        assert!(!given_up.may_fail("write", VolumeErrorKind::NoTier));
        assert!(!Met::default().may_fail("resize", VolumeErrorKind::NoTier));
    }

    #[test]
    fn a_spare_device_fails_its_replacement_and_nothing_else() {
        let spare = Kinds { reads: 3, writes: 3, flushes: 3, ..Kinds::default() };
        let met = Met { struck: Struck { spare, ..Struck::default() }, ..Met::default() };
        assert!(met.may_fail(REPLACE, VolumeErrorKind::Io));
        assert!(!met.may_fail(REPLACE, VolumeErrorKind::OnlyCopy));
        for operation in ["read", "write", "sync", "drain", "resize", "switch the sync mode", "close", "open"]
        {
            assert!(!met.may_fail(operation, VolumeErrorKind::Io), "{operation}");
            assert!(!met.may_fail(operation, VolumeErrorKind::ReadOnly), "{operation}");
        }
        assert!(!met.may_be(&BYPASS) && !met.may_be(&READ_ONLY));
    }

    #[test]
    fn a_silent_device_fails_what_needs_a_page_of_it() {
        let struck = once(|s| s.flash.reads = 9);
        let met = Met { struck, flash_is_unreadable: true, ..Met::default() };
        assert!(met.may_fail("read", VolumeErrorKind::Io));
        assert!(!met.may_fail("read", VolumeErrorKind::LostPage));
        assert!(!Met { clean: true, ..met }.may_fail("read", VolumeErrorKind::Io));
    }

    #[test]
    fn a_read_fails_by_reads_alone() {
        let disk = Kinds { writes: 1, flushes: 1, lengths: 1, ..Kinds::default() };
        let met = Met { struck: Struck { disk, sidecar: 1, ..Struck::default() }, ..Met::default() };
        assert!(!met.may_fail("read", VolumeErrorKind::Io));
        assert!(!met.may_fail("read", VolumeErrorKind::ReadOnly));
        assert!(met.may_fail("write", VolumeErrorKind::ReadOnly));
    }
}
