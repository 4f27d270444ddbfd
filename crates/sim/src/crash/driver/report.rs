//! What a run found, and what it went through to find it.

use std::fmt;

use mezzanine_device::memory::CutReport;
use mezzanine_engine::{Statistics, TierConfig};
use serde::Serialize;

use super::drives::Done;

/// The version that a violation is reported with: together with the seed it replays the failure.
pub const VERSION: &str = match option_env!("MEZZANINE_VERSION") {
    Some(described) => described,
    None => env!("CARGO_PKG_VERSION"),
};

/// More violations than anyone reads; a run ends with them.
pub(crate) const VIOLATIONS_MAX: usize = 20;

/// What must hold, whatever the devices do within their rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Invariant {
    /// A page reads as a version between the last acknowledged durable one and the last issued one.
    Versions,
    /// What was read once after a recovery never goes back.
    NoGoingBack,
    /// What was discarded or cut off never returns.
    NoResurrection,
    /// A torn page is noticed; it never mixes versions where pages are promised whole.
    WholePages,
    /// A recovery that was interrupted, however often, finds what one undisturbed recovery finds.
    RepeatableRecovery,
    /// Without a fault a read returns exactly what was written last.
    ReadYourWrites,
    /// After a drain the backing file alone is complete.
    DiskAlone,
    /// While a file is not current on disk its header there says so.
    Guarded,
    /// In sync mode `through` the loss of the flash device loses nothing.
    FlashExpendable,
    /// Redo finds no page older than the redo pointer promises.
    RedoPromise,
    /// No page is newer than the durable log.
    LogFirst,
    /// Every acknowledged commit is in the log.
    Commits,
    /// A tier that the database does not know is refused, and the right one is not.
    KnownTier,
    /// An operation fails only if a device did.
    NoUnprovokedError,
    /// Damage on flash is noticed: what is damaged is never served, and what the disk has as well comes from
    /// there.
    DamageNoticed,
    /// Devices and files that do not belong together are refused, or it does no harm.
    Pairing,
    /// The software's own assertions hold.
    Assertion,
}

impl Invariant {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Versions => "versions",
            Self::NoGoingBack => "no-going-back",
            Self::NoResurrection => "no-resurrection",
            Self::WholePages => "whole-pages",
            Self::RepeatableRecovery => "repeatable-recovery",
            Self::ReadYourWrites => "read-your-writes",
            Self::DiskAlone => "disk-alone",
            Self::Guarded => "guarded",
            Self::FlashExpendable => "flash-expendable",
            Self::RedoPromise => "redo-promise",
            Self::LogFirst => "log-first",
            Self::Commits => "commits",
            Self::KnownTier => "known-tier",
            Self::NoUnprovokedError => "no-unprovoked-error",
            Self::DamageNoticed => "damage-noticed",
            Self::Pairing => "pairing",
            Self::Assertion => "assertion",
        }
    }
}

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// The seed of the world in which it showed; 0 for a case of the exhaustive mode, which has none.
    pub seed: u64,
    /// How many power cuts that world had gone through; in the exhaustive mode the stop.
    pub cut: u64,
    /// The version of the software.
    pub version: String,
    /// What was found and what was expected.
    pub text: String,
    /// The command that shows it again.
    pub replay: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, seed, cut, version, text, replay } = self;
        let name = invariant.name();
        write!(f, "{name} broken: {text}; seed {seed}, cut {cut}, version {version}; replay: {replay}")
    }
}

/// Evidence that a run reached the states where things go wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Power cuts while a volume was being opened, its files attached or the tier recovered.
    pub cuts_inside_recovery: u64,
    /// Power cuts while something was open for use.
    pub cuts_in_use: u64,
    /// Processes that ended without closing, with the devices still powered.
    pub kills: u64,
    /// Clean closes and drained closes.
    pub closes: u64,
    /// Unflushed changes of the flash device that survived a cut in part.
    pub torn_flash_writes: u64,
    /// Unflushed changes of the backing devices that survived a cut in part.
    pub torn_disk_writes: u64,
    /// Unflushed changes that a cut took away.
    pub lost_writes: u64,
    /// Pages found in doubt after a cut and settled by reading.
    pub pages_settled: u64,
    /// Pages appended again at the rear because they had been referenced.
    pub second_chances: u64,
    /// Times that one session filled the queue all round.
    pub wraps: u64,
    /// Bytes appended to the queue.
    pub queue_bytes: u64,
    /// Metadata segments written.
    pub segments: u64,
    /// Groups written to flash.
    pub groups: u64,
    /// Of these, at least so many of more than one page.
    pub groups_of_several_pages: u64,
    /// Pages that left the tier for the disk.
    pub stage_outs: u64,
    /// Reads answered by the tier.
    pub hits: u64,
    /// Reads during which pages were written and jobs carried out.
    pub reads_interrupted: u64,
    /// Jobs during which a page was written.
    pub jobs_interrupted: u64,
    /// Pages that a runner read beside an operation.
    pub reads_beside: u64,
    /// Times that another thread of a volume went on at a request to a device, or waited.
    pub turns: u64,
    /// Flash devices lost in sync mode `through`.
    pub flash_losses: u64,
    /// Flash devices replaced while their volume was in use.
    pub replacements: u64,
    /// Power cuts while one was.
    pub replacements_cut: u64,
    /// Replacements that a device's error ended.
    pub replacements_failed: u64,
    /// Replacements in which a device failed, and that came to their end.
    pub replacements_outlived: u64,
    /// Recoveries compared with an undisturbed one.
    pub recoveries_compared: u64,
    /// Times a backing file was found current, or guarded, on its own.
    pub disks_compared: u64,
    /// Checkpoints of a database.
    pub checkpoints: u64,
    /// Dirty pages that left a database's pool, or were written by its checkpoints.
    pub pages_written_out: u64,
    /// Records of a log repeated in recovery.
    pub records_redone: u64,
    /// Records of a log that a crash took away.
    pub records_lost: u64,
    /// Pages, forks, relations and databases dropped.
    pub drops: u64,
    /// Relations filled without a log.
    pub loads: u64,
    /// Pages that the tier asked a database's pool for.
    pub pages_pulled: u64,
    /// Drains of a tier up to a mark or of a range, completed.
    pub drains: u64,
    /// Tiers that grew or shrank while they were in use.
    pub resizes: u64,
    /// Switches of the sync mode of tiers in use.
    pub switches: u64,
    /// Stops and resumptions of the admission of tiers in use.
    pub admission_changes: u64,
    /// Wrong flash devices that were refused.
    pub tiers_refused: u64,
    /// Data directories of a server of an earlier moment that were put back.
    pub directories_put_back: u64,
    /// Of these, those that were refused.
    pub directories_refused: u64,
    /// Tiers that were made anew, or emptied, when their server started.
    pub tiers_emptied: u64,
    /// Processes that died with jobs of the tier in their hands.
    pub owners_killed: u64,
    /// Copies of the flash device that were damaged.
    pub damages: u64,
    /// Damaged tiers that were not opened.
    pub damage_refused: u64,
    /// Damaged pages that were noticed: read from disk instead, or reported as lost.
    pub damage_refetched: u64,
    /// Reads that reported a page as lost.
    pub damage_reported: u64,
    /// Times that a copy of the machine was put together with devices or files that do not belong there.
    pub mixes: u64,
    /// Of these, refused.
    pub mixes_refused: u64,
    /// Times that a life went on with what was so put together.
    pub mixes_lived_on: u64,
    /// Times that a whole machine was put back to an earlier moment.
    pub rollbacks: u64,
    /// Openings in which a file was missing.
    pub openings_without_a_file: u64,
    /// Device errors planned.
    pub errors_planned: u64,
    /// Operations that failed because a device did, and whose process went on.
    pub errors_outlived: u64,
    /// Processes that ended on a device's error.
    pub errors_fatal: u64,
    /// Sessions in which a device failed and no operation did.
    pub errors_hidden: u64,
    /// Power cuts that came before a modelled drive had taken a request since the last one.
    pub drive_starts_cut: u64,
    /// Units that collection of modelled drives has moved.
    pub drive_units_moved: u64,
    /// Units that modelled drives have written of their maps.
    pub drive_units_of_map: u64,
    /// Units that modelled drives had other contents of after a start than any version.
    pub drive_units_damaged: u64,
    /// Lives that ended with an error after a modelled drive had lost what was flushed.
    pub drives_told: u64,
    /// Lives that ended with an older version of what was flushed, which a modelled drive had passed for it.
    pub drives_believed: u64,
}

macro_rules! add_fields {
    ($into:expr, $from:expr, $($field:ident),+ $(,)?) => { $($into.$field += $from.$field;)+ };
}

impl Coverage {
    /// Adds what a tier did in one session, and what it answered.
    pub(crate) fn count_tier(&mut self, config: &TierConfig, statistics: &Statistics) {
        self.hits += statistics.hits_memory + statistics.hits_flash;
        self.count_queue(config, statistics);
    }

    /// Adds what a tier did in one session, without what it answered.
    pub(crate) fn count_queue(&mut self, config: &TierConfig, statistics: &Statistics) {
        self.second_chances += statistics.second_chances;
        self.groups += statistics.groups_written;
        self.stage_outs += statistics.disk_writes;
        self.segments += statistics.segments_written;
        self.queue_bytes += statistics.group_bytes_written;
        self.wraps += statistics.group_bytes_written / (config.frames * u64::from(config.page_size));
    }

    /// Adds what a power cut did to flash and disks.
    pub(crate) fn count_cut(&mut self, flash: CutReport, disks: CutReport) {
        self.torn_flash_writes += flash.torn;
        self.torn_disk_writes += disks.torn;
        self.lost_writes += flash.lost + disks.lost;
    }

    /// Adds what modelled drives have done.
    pub(crate) fn count_drives(&mut self, done: &Done) {
        self.drive_starts_cut += done.starts_cut;
        self.drive_units_moved += done.units_moved;
        self.drive_units_of_map += done.units_of_map;
        self.drive_units_damaged += done.units_damaged;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        add_fields!(
            self,
            other,
            cuts_inside_recovery,
            cuts_in_use,
            kills,
            closes,
            torn_flash_writes,
            torn_disk_writes,
            lost_writes,
            pages_settled,
            second_chances,
            wraps,
            queue_bytes,
            segments,
            groups,
            groups_of_several_pages,
            stage_outs,
            hits,
            reads_interrupted,
            jobs_interrupted,
            reads_beside,
            turns,
            flash_losses,
            replacements,
            replacements_cut,
            replacements_failed,
            replacements_outlived,
            recoveries_compared,
            disks_compared,
            checkpoints,
            pages_written_out,
            records_redone,
            records_lost,
            drops,
            loads,
            pages_pulled,
            drains,
            resizes,
            switches,
            admission_changes,
            tiers_refused,
            directories_put_back,
            directories_refused,
            tiers_emptied,
            owners_killed,
            damages,
            damage_refused,
            damage_refetched,
            damage_reported,
            mixes,
            mixes_refused,
            mixes_lived_on,
            rollbacks,
            openings_without_a_file,
            errors_planned,
            errors_outlived,
            errors_fatal,
            errors_hidden,
            drive_starts_cut,
            drive_units_moved,
            drive_units_of_map,
            drive_units_damaged,
            drives_told,
            drives_believed,
        );
    }
}
