//! What every database above the tier does with its log and its pool, however it reaches the tier: changes
//! are logged and made in the pool, drops are logged before anything forgets, and redo repeats the log.
//!
//! Invariants checked: `redo-promise`, `log-first`: on every page that redo needs.

use super::contents::Content;
use super::history::{History, Verdict};
use super::log::{Change, Log, Lsn};
use super::places::{Extent, Place};
use super::pool::Pool;
use crate::crash::driver::{Invariant, Life, NoPower, Stop};

/// What a database has for its log and its pool.
pub(crate) struct Parts<'d> {
    pub(crate) life: &'d mut Life,
    pub(crate) log: &'d mut Log,
    pub(crate) history: &'d mut History,
    pub(crate) pool: &'d mut Pool,
    /// Up to where the log was promised to survive.
    pub(crate) acknowledged: &'d mut Lsn,
    /// Where the control file says that redo begins.
    pub(crate) redo: Lsn,
}

impl Parts<'_> {
    /// The LSN of a page in this version: 0 if it was written without a log.
    fn page_lsn(&self, version: u32) -> Lsn {
        page_lsn(self.log, self.history, version)
    }
}

/// The LSN of a page in this version: 0 if it was written without a log.
pub(crate) fn page_lsn(log: &Log, history: &History, version: u32) -> Lsn {
    let lsn = history.lsn(version).unwrap_or(0);
    let logged = lsn > 0 && !matches!(log.record(lsn), Change::Load { .. });
    if logged { lsn } else { 0 }
}

/// A running database.
pub(crate) trait Logging {
    /// Where a page came from.
    type Source: Copy;

    /// What it has for its log and its pool.
    fn parts(&mut self) -> Parts<'_>;

    /// What came of forcing the log.
    fn forced(&self, result: Result<(), NoPower>) -> Result<(), Stop>;

    /// Brings a page into the pool that must be there, and compares it with what it must be. Returns its
    /// version.
    fn bring(&mut self, place: Place) -> Result<u32, Stop>;

    /// Makes room for a page in the pool.
    fn make_room_in_pool(&mut self) -> Result<(), Stop>;

    /// Whether a page may be made at `place`.
    fn may_make(&self, place: Place) -> bool;

    /// Whether a change of a page with this LSN is logged as an image of the whole page.
    fn logs_image(&self, page_lsn: Lsn) -> bool;

    /// What a drop does to pool, tier and disk; also in redo.
    fn forget(&mut self, extent: &Extent, lsn: Lsn) -> Result<(), Stop>;

    /// Carries out a job of the tier, if there is one.
    fn carry_out_a_job(&mut self) -> Result<(), Stop>;

    /// Redo comes to the next record.
    fn comes_to_record(&mut self) {}

    /// Reads a page for redo that is not in the pool.
    fn read_for_redo(&mut self, place: Place) -> Result<(Content, Self::Source), Stop>;

    /// Redo has found a page; without a source it is the pool's, or was not looked at.
    fn has_found(&mut self, found: Content, source: Option<Self::Source>);

    /// A page that redo has found, in words.
    fn describe_found(&self, place: Place, found: Content, source: Option<Self::Source>) -> String;

    /// The page's newest version is in the pool.
    fn write_in_pool(&mut self, place: Place, version: u32, lsn: Lsn) {
        let pool = self.parts().pool;
        match pool.touch(place) {
            Some(buffer) => (buffer.version, buffer.lsn, buffer.dirty) = (version, lsn, true),
            None => pool.put(place, version, lsn, true),
        }
    }

    /// Logs a change of a page and makes it in the pool, where there is room if the page is new.
    fn log_change(&mut self, place: Place, version: u32, change: Change) {
        let Parts { life, log, history, .. } = self.parts();
        let lsn = history.append(log, change);
        life.tell(|| format!("record {lsn}: {change:?}"));
        self.write_in_pool(place, version, lsn);
    }

    /// Changes the page at `place`, or makes it if it may be made.
    fn change_page(&mut self, place: Place) -> Result<(), Stop> {
        if self.parts().history.now().version(place).is_some() {
            let previous = self.bring(place)?;
            let parts = self.parts();
            let (page_lsn, version) = (parts.page_lsn(previous), parts.history.new_version());
            let change = match self.logs_image(page_lsn) {
                true => Change::Image { place, version },
                false => Change::Update { place, previous, version },
            };
            self.log_change(place, version, change);
        } else if self.may_make(place) {
            self.make_room_in_pool()?;
            let version = self.parts().history.new_version();
            self.log_change(place, version, Change::Init { place, version });
        }
        Ok(())
    }

    /// Completes a transaction.
    fn commit(&mut self) -> Result<(), Stop> {
        self.log_durably(Change::Commit).map(|_| ())
    }

    /// Drops the pages of an extent, for good.
    fn drop_extent(&mut self, extent: Extent) -> Result<(), Stop> {
        self.parts().life.tell(|| format!("drop {extent:?}"));
        let lsn = self.log_durably(Change::Drop(extent))?;
        self.parts().life.coverage.drops += 1;
        self.forget(&extent, lsn)
    }

    /// Logs what is durable when this returns.
    fn log_durably(&mut self, change: Change) -> Result<Lsn, Stop> {
        let Parts { log, history, .. } = self.parts();
        let lsn = history.append(log, change);
        let forced = log.force(lsn);
        self.forced(forced)?;
        *self.parts().acknowledged = lsn;
        Ok(lsn)
    }

    /// Repeats the log from the redo pointer to its end.
    fn redo(&mut self) -> Result<(), Stop> {
        let Parts { life, log, redo, .. } = self.parts();
        let end = log.end();
        life.tell(|| format!("redo from {redo} to {end}"));
        for lsn in redo + 1..=end {
            self.comes_to_record();
            match self.parts().log.record(lsn) {
                Change::Commit => {}
                Change::Drop(extent) => self.forget(&extent, lsn)?,
                change => {
                    if let Some((place, version)) = change.page() {
                        self.redo_page(lsn, place, version)?;
                    }
                }
            }
            let life = self.parts().life;
            life.coverage.records_redone += 1;
            if life.random.chance(1, 8) {
                self.carry_out_a_job()?;
            }
        }
        Ok(())
    }

    /// Repeats a change of a page.
    fn redo_page(&mut self, lsn: Lsn, place: Place, version: u32) -> Result<(), Stop> {
        let Parts { log, pool, .. } = self.parts();
        let record = log.record(lsn);
        let is_needed = matches!(record, Change::Update { .. } | Change::Load { .. });
        let (found, source) = match pool.find(place) {
            Some(buffer) => (Content::Version(buffer.version), None),
            None => {
                self.make_room_in_pool()?;
                match is_needed {
                    true => self.read_for_redo(place).map(|(found, source)| (found, Some(source)))?,
                    false => (Content::Zeros, None),
                }
            }
        };
        self.has_found(found, source);
        let parts = self.parts();
        match parts.history.judge(parts.log, lsn, place, found) {
            Verdict::Apply => self.write_in_pool(place, version, lsn),
            Verdict::Skip => {
                if let (Content::Version(newer), Some(_)) = (found, source) {
                    let lsn = parts.page_lsn(newer);
                    parts.pool.put(place, newer, lsn, false);
                }
            }
            Verdict::Doomed => {}
            verdict => {
                let invariant =
                    if verdict == Verdict::TooNew { Invariant::LogFirst } else { Invariant::RedoPromise };
                let found = self.describe_found(place, found, source);
                let text = format!("redo of record {lsn} ({record:?}) finds {found}");
                return Err(Stop::violated(invariant, text));
            }
        }
        Ok(())
    }
}
