//! The server starts: whether the tier on flash is the one that belongs to it, and if so, its recovery.
//!
//! It happens before the server's redo, in the one process that does that. What must hold, in this order:
//! 1. The flash device is flushed: what is read back must still be there after the next power cut.
//! 2. The superblock is judged (`judge`) by the marker of the data directory and by the control file's redo
//!    pointer (invariant 10). Nothing has been written until then.
//! 3. The tier is recovered, in memory: a refusal for what is found in that has changed nothing either.
//! 4. The superblock announces the session that begins (`session.rs`).
//! 5. The marker says which tier it is, in which session, and whether it may hold only copies. For a new
//!    tier that is durable after the tier's superblock, but before any page is in it. Where there was no
//!    marker, one that asks for nothing is durable before the device is written to, and where there was one
//!    it names the new tier beside the old one: half a superblock is then known to be this server's
//!    (`foreign.rs`).
//! 6. Recovery's writes and then the superblock of the new epoch are durable (invariant 7); then, if need be,
//!    the control file says that the files lack pages.
//! 7. What is not to be believed of it, because files were changed while the server was down, is dropped,
//!    durably (`at_rest.rs`); the marker, which has said until then what the files were, says it no more.
//! 8. The tier is published. From now on other processes of the server may use it.

use mezzanine_device::sleep_at_locks;
use mezzanine_engine::format::{
    ClusterName, FormatError, Nonce, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Sessions, Superblock, TierState,
    read_superblock, read_superblock_to_drain,
};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    Blank, Geometry, LogPosition, Recovered, RecoveryError, RecoveryReport, RedoPoint, SyncMode, Tier,
    WriteFlash,
};

use crate::at_rest::Changed;
use crate::expendable::{expendable, provably_clean};
use crate::foreign::{Contents, claim, contents, is_own, refuse_cache, refuse_foreign, refuse_zeros};
use crate::host::{Flash, Host, describe, reshapes};
use crate::marker::Marker;
use crate::message::Refusal;
use crate::session;
pub use crate::start::{Adoption, Start, Started};
use crate::sync_mark;

/// Where both copies of the superblock end,
const AFTER_SUPERBLOCKS: u64 = SUPERBLOCK_OFFSETS[1] + SUPERBLOCK_BYTES as u64;
/// and where metadata begins.
const METADATA_AT: u64 = 1 << 16;

/// The cluster's name in the superblock: whose pages these are, and in which form.
pub fn database_uuid(start: &Start) -> [u8; 16] {
    ClusterName { system_identifier: start.system_identifier, checksums: start.checksums }.database_uuid()
}

/// Whether the marker says anything of this directory's tier. A base backup is complete without one,
/// whatever marker was copied with it. But where a start before this one was cut off, the tier that it made
/// is ours, and has nobody's only copies.
fn counts(marker: &Marker, start: &Start) -> bool {
    !start.from_backup || marker.is_of_restore(start.redo)
}

/// Decides what becomes of the tier that was found; `older` is what could be read of one of an older format,
/// and `contents` what there is if it is none.
///
/// # Errors
/// If a tier that may hold the only copy of pages is missing, damaged, older than the database or another's;
/// and if the device holds something of others.
fn judge(
    found: Result<&Superblock, &FormatError>,
    older: Option<&Superblock>,
    contents: Contents,
    marker: Option<&Marker>,
    start: &Start,
    flash: &str,
) -> Result<(Adoption, String), Refusal> {
    let own = |tier: &Superblock| is_own(tier, marker, start);
    let marker = marker.filter(|marker| counts(marker, start));
    let needed = marker.filter(|marker| marker.only_copies && !start.from_backup);
    match found {
        Ok(found) => judge_found(found, own(found), marker, start, flash),
        Err(error @ (FormatError::OlderFormat(_) | FormatError::NewerFormat(_))) => {
            let older = older.filter(|_| needed.is_none()).map(|tier| (tier, own(tier)));
            judge_other_format(error, older, flash)
        }
        Err(error) => {
            if let Some(marker) = needed {
                return Err(Refusal::new(format!("the flash tier of this cluster is not on \"{flash}\""))
                    .detail(format!(
                        "Tier {} (last seen on \"{}\") may hold the only copy of pages. Found: {}.",
                        marker.tier,
                        marker.flash_path.display(),
                        if contents == Contents::Nothing {
                            "an empty device".to_owned()
                        } else {
                            describe(error)
                        }
                    ))
                    .hint(without_its_tier(start)));
            }
            match contents {
                Contents::Nothing => Ok((Adoption::Formatted, String::new())),
                Contents::Ours => Ok((Adoption::Formatted, describe(error))),
                _ if marker.is_some() && planted::is(Bug::ForeignFormatted) => {
                    Ok((Adoption::Formatted, describe(error)))
                }
                Contents::Zeros(bytes) => Err(refuse_zeros(flash, bytes)),
                Contents::Something => Err(refuse_foreign(flash, error)),
            }
        }
    }
}

/// What to do about a directory whose marker names a tier that is not there. The marker may be another
/// server's, where a directory was restored or rewound and then started without a tier: the control file,
/// which is marked before a tier takes its first page, knows.
fn without_its_tier(start: &Start) -> String {
    let rest = match start.files_lack_pages {
        true => "If it is lost, restore a backup.".to_owned(),
        false => format!(
            "If it is lost, or this directory was restored, copied or rewound from another server's: pg_control says that the files lack no pages, so remove \"{}\" from the data directory and start again.",
            crate::marker::MARKER_FILE
        ),
    };
    format!("Name the device that holds it in mezzanine.flash_path. {rest}")
}

/// A tier of another version of the format is not used, and made anew only where nobody needs it: it was
/// drained, or it is this cluster's own and never held the only copy of a page.
fn judge_other_format(
    error: &FormatError,
    older: Option<(&Superblock, bool)>,
    flash: &str,
) -> Result<(Adoption, String), Refusal> {
    if older.is_some_and(|(tier, own)| tier.state == TierState::Drained || own && expendable(tier)) {
        return Ok((Adoption::Formatted, describe(error)));
    }
    Err(Refusal::new(format!("\"{flash}\" holds a flash tier that this build does not use"))
        .detail(describe(error))
        .hint(
            "Start the cluster that it belongs to with the build that wrote it, run `mezz pg drain` there, and start again. \
             If nobody needs what it holds, remove the file, or name another path in mezzanine.flash_path.",
        ))
}

fn judge_found(
    found: &Superblock,
    own: bool,
    marker: Option<&Marker>,
    start: &Start,
    flash: &str,
) -> Result<(Adoption, String), Refusal> {
    let needed = marker.is_some_and(|marker| marker.only_copies && !start.from_backup);
    let ours = marker.is_some_and(|marker| marker.names(&found.tier_uuid));
    let forms = marker.is_some_and(|marker| marker.forms(&found.tier_uuid));
    if (ours || forms) && marker.is_some_and(|marker| marker.given_up) {
        return Ok((Adoption::Formatted, "its device failed, and the server has gone on without it".into()));
    }
    if !ours && needed {
        return Err(Refusal::new(format!("the flash tier on \"{flash}\" is not the one of this cluster"))
            .detail("The data directory says that another tier may hold the only copy of pages.")
            .hint(without_its_tier(start)));
    }
    if !ours || found.database_uuid != database_uuid(start) {
        let nobodys = found.state == TierState::Drained;
        if nobodys || expendable(found) && (own || planted::is(Bug::ForeignCacheFormatted)) {
            return Ok((
                Adoption::Formatted,
                "it belonged to another cluster, or to another state of this one".into(),
            ));
        }
        if expendable(found) {
            return Err(refuse_cache(found, start, flash));
        }
        return Err(Refusal::new(format!("the flash tier on \"{flash}\" may hold the only copy of another cluster's pages"))
            .detail("It is not known to this data directory, which may have been restored from a backup or copied.")
            .hint("Choose another path in mezzanine.flash_path, or remove the file if nobody needs that cluster any more."));
    }
    let other_redo = (!knows(found, start.redo)).then(|| {
        let (confirmed, pending) = (found.confirmed, found.pending);
        format!(
            "redo begins at {}, and the tier was last used at {}{}",
            point(start.redo),
            point(confirmed),
            if pending == confirmed { String::new() } else { format!(" or {}", point(pending)) }
        )
    });
    let other_session = marker.and_then(|marker| session::differs(found, marker));
    let differences: Vec<String> = other_redo.into_iter().chain(other_session).collect();
    if differences.is_empty() {
        return Ok((Adoption::Adopted, String::new()));
    }
    let reason = session::apart(found, needed, flash, differences.join("; "))?;
    Ok((Adoption::Discarded, reason))
}

/// Whether the tier was last used with this redo point. Two histories of one cluster have the same positions
/// in their logs, and tell them apart by the timeline alone. Tiers of before that was stored have timeline 0,
/// which is none.
fn knows(found: &Superblock, redo: RedoPoint) -> bool {
    found.knows(redo) || found.knows(RedoPoint { timeline: 0, ..redo })
}

/// Whether a tier was left in order, and the directory of its marker was not. A crash came between the two;
/// or the directory is of an earlier moment, and lacks what the server has written to it since: then redo is
/// to bring that. A primary server that is left in order moves redo past everything, a standby does not.
fn closed_alone(found: &Superblock, marker: Option<&Marker>) -> bool {
    let closed = found.state != TierState::Open && !planted::is(Bug::ClosedAlone);
    closed && marker.is_some_and(|marker| !marker.rests())
}

fn point(point: RedoPoint) -> String {
    format!("{:X}/{:X} on timeline {}", point.redo >> 32, point.redo as u32, point.timeline)
}

impl Host {
    /// Judges, recovers and publishes the tier. If its device fails while nobody needs it, there is none: see
    /// [`Adoption::Unusable`].
    ///
    /// # Errors
    /// Why the server cannot be started with this tier.
    ///
    /// # Panics
    /// If the device was not locked.
    pub fn start(&self, start: &Start) -> Result<Started, Refusal> {
        assert!(self.is_locked(), "a tier is judged only when nobody else changes it");
        sleep_at_locks();
        let marker = Marker::read(&*self.marker)?;
        let start = &self.named(start, marker.as_ref());
        // One that never was in use is the wrong one, rather than one that has failed.
        let dispensable = marker.as_ref().is_some_and(|marker| !marker.only_copies)
            && !start.files_lack_pages
            && !start.from_backup;
        let needed = marker.as_ref().is_some_and(|marker| marker.only_copies) || start.files_lack_pages;
        match self.start_tier(start, marker.as_ref()) {
            Err(refusal) if refusal.device_failed && dispensable => {
                self.start_without(start, marker, refusal)
            }
            Err(refusal) if refusal.device_failed && (!needed || start.from_backup) => {
                Err(refusal.hint("See the kernel's log and to the device, and start the server again, or name another one in mezzanine.flash_path: nothing that this one holds is needed."))
            }
            Err(refusal) if refusal.device_failed && refusal.hint.is_empty() => Err(refusal
                .hint("See the kernel's log and to the device, and start the server again. If it fails again: copy what can be read of it to another one and name that in mezzanine.flash_path, or restore a backup.")),
            started => started,
        }
    }

    /// The server starts without the tier, and what the device holds must not be believed later: the one that
    /// was there before, or what became of the new one. A write that failed may have left either.
    fn start_without(
        &self,
        start: &Start,
        marker: Option<Marker>,
        refusal: Refusal,
    ) -> Result<Started, Refusal> {
        self.server.mark_control_file(false)?;
        match marker {
            Some(marker) if !planted::is(Bug::GivenUpNameForgotten) => {
                marker.of_given_up().of_forming(&start.new_uuid).write(&*self.marker)?;
            }
            _ => self.forsake(&start.new_uuid)?,
        }
        Ok(Started {
            adoption: Adoption::Unusable,
            reason: [refusal.message, refusal.detail]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(": "),
            recovery: RecoveryReport::default(),
            mode_kept: false,
            sizes_kept: String::new(),
            changed_pages: 0,
            changed_files: 0,
        })
    }

    fn device_failed(&self, error: &dyn std::fmt::Display) -> Refusal {
        Refusal::new(format!("the flash device \"{}\" has failed: {error}", self.flash_path().display()))
            .of_failed_device()
    }

    /// The device answers nothing just now, and may hold everything: no reason to take a backup.
    fn device_silent(&self, error: &dyn std::fmt::Display) -> Refusal {
        let path = self.flash_path();
        Refusal::new(format!("the flash device \"{}\" answers no read just now: {error}", path.display()))
            .detail("Nothing is known to be lost.")
            .hint("See the kernel's log and to the device, and start the server again. If it does not answer any more: copy what can be read of it to another one and name that in mezzanine.flash_path, or restore a backup.")
            .of_failed_device()
    }

    /// Memory is for the sizes that are configured, since the device did not say which ones its tier has.
    fn of_other_sizes(&self) -> Refusal {
        Refusal::new(format!(
            "the flash device \"{}\" answered no read when the memory that its tier needs was computed",
            self.flash_path().display()
        ))
        .detail("The tier has other sizes than those that are configured. Nothing is known to be lost.")
        .hint("Start the server again.")
        .of_failed_device()
    }

    fn start_tier(&self, start: &Start, marker: Option<&Marker>) -> Result<Started, Refusal> {
        let flash = self.flash_path().display().to_string();
        // Before anything can go wrong: whatever comes of this start, no process joins a tier of before.
        let memory = self.blank()?;
        if let Some(absent) = &self.absent {
            return Err(absent.clone().of_failed_device());
        }
        self.flash.flush().map_err(|error| self.device_failed(&error))?;
        let found = read_superblock(&mut Flash(&*self.flash));
        if let (Ok(found), false) = (&found, planted::is(Bug::SilentShapeKept)) {
            if !self.fits(found)? {
                return Err(self.of_other_sizes());
            }
        }
        let older = match &found {
            Err(FormatError::OlderFormat(_)) => read_superblock_to_drain(&mut Flash(&*self.flash)).ok(),
            _ => None,
        };
        let older = older.as_ref().map(|(superblock, _)| superblock);
        let contents = match &found {
            Ok(_) | Err(FormatError::OlderFormat(_) | FormatError::NewerFormat(_)) => Ok(Contents::Something),
            Err(_) => contents(&*self.flash, marker),
        };
        let contents = contents.map_err(|error| match &found {
            Err(FormatError::Unreadable(error)) => self.device_silent(error),
            _ => self.device_failed(&error),
        })?;
        if let (Err(FormatError::Unreadable(error)), true, false) =
            (&found, contents != Contents::Nothing, planted::is(Bug::SilentDeviceJudged))
        {
            // What it begins with could be read a moment later.
            return Err(self.device_silent(error));
        }
        let (adoption, reason) = judge(found.as_ref(), older, contents, marker, start, &flash)?;
        // The marker says so as well, and which tier it is; but it is a file like others, and it may be gone.
        if start.files_lack_pages && !start.from_backup && adoption != Adoption::Adopted {
            return Err(Refusal::new(format!("the flash tier on \"{flash}\" does not have the pages that the files of this cluster lack"))
                .detail(format!("The control file says that a tier has them. Found: {}.", if reason.is_empty() { "an empty device" } else { &reason }))
                .hint(format!("Name the device that holds them in mezzanine.flash_path, and put back \"{}\" if it is gone from the data directory. If they are lost, restore a backup.", crate::marker::MARKER_FILE)));
        }
        self.reserve_space(self.geometry.frames())?;
        let whole = found.is_ok() || older.is_some();
        let reshaped = |found: &Superblock| reshapes(found, &self.settings);
        // The superblock that announces the session; that of a new tier does so from the beginning.
        let (announced, adoption) = match (&found, adoption) {
            (Ok(found), Adoption::Adopted) if !reshaped(found) => (Some(found.clone()), adoption),
            (Ok(found), Adoption::Discarded) => (Some(found.discarded()), adoption),
            _ => (None, Adoption::Formatted),
        };
        let announced =
            announced.map(|found| session::begin(&found, marker, start.new_session).started_at(start.redo));
        let superblock = match &announced {
            Some(announced) => self.merged(announced),
            None => self.format(start, whole)?,
        };
        let mode_kept = superblock.config.sync_mode != self.settings.sync_mode
            || superblock.config.admission != self.settings.admission;
        let sizes_kept = self.sizes_kept(&superblock);
        let only_copies =
            !provably_clean(&superblock.config) && superblock.config.sync_mode == SyncMode::Durable;
        if only_copies && planted::is(Bug::ControlFileBeforeMarker) {
            self.server.mark_control_file(true)?;
        }
        let as_left = marker.filter(|_| announced.is_some() && adoption == Adoption::Adopted);
        let (recovered, older, changed) =
            self.recover_checked(memory, &superblock, marker, as_left, start.owner)?;
        if let Some(announced) = announced.filter(|_| !planted::is(Bug::SessionUnannounced)) {
            self.put_superblock(&announced)?;
        }
        let mark = marker.filter(|marker| marker.names(&superblock.tier_uuid)).map_or(0, Marker::mark);
        let in_use = self
            .marker_of_start(start, &superblock.tier_uuid, only_copies)
            .of_session(&start.new_session, recovered.superblock.epoch)
            .marked(mark);
        // Before any page may be newer in the tier than on disk. A start that is cut off has changed no file.
        let is_dropped = changed.everything || !changed.ranges.is_empty();
        let noted = as_left.filter(|_| is_dropped && !planted::is(Bug::RestForgottenEarly));
        in_use.clone().rested_as(noted).write(&*self.marker)?;
        sync_mark::go_on(&recovered.tier, mark);
        let mut recovery = self.begin_epoch(recovered, start, only_copies)?;
        if is_dropped {
            self.drop_changed(&changed)?;
            in_use.write(&*self.marker)?;
            (recovery.valid, recovery.dirty) = self.tier().valid_and_dirty();
        }
        if !only_copies {
            self.server.mark_control_file(false)?;
        }
        let adoption =
            if recovery.discarded && adoption == Adoption::Adopted { Adoption::Discarded } else { adoption };
        let reason = match (adoption, older) {
            (_, Some(older)) => older,
            (Adoption::Discarded, None) if reason.is_empty() => {
                "it was not left in order, and the disk is newer".to_owned()
            }
            _ => reason,
        };
        let Changed { pages: changed_pages, files: changed_files, .. } = changed;
        Ok(Started { adoption, reason, recovery, mode_kept, sizes_kept, changed_pages, changed_files })
    }

    /// Takes the space for so many frames, so that a full file system is noticed now and not when pages are
    /// written.
    pub(crate) fn reserve_space(&self, frames: u64) -> Result<(), Refusal> {
        let bytes = self.flash_bytes(frames);
        self.flash.reserve(bytes).map_err(|error| {
            Refusal::new(format!(
                "the flash device \"{}\" cannot hold the tier: {error}",
                self.flash_path().display()
            ))
            .detail(format!("It needs {} MB there.", bytes.div_ceil(1 << 20)))
            .hint("Free space on its file system, lower mezzanine.flash_size, or give the tier a larger device.")
        })
    }

    fn merged(&self, found: &Superblock) -> Superblock {
        let config = self.settings.merged(&found.config, found.state == TierState::Drained);
        // Left open while it could hold no only copies, and from now on it can: what it says of clean pages
        // is old.
        let emptied =
            provably_clean(&found.config) && found.state == TierState::Open && !provably_clean(&config);
        let base = if emptied { found.discarded() } else { found.clone() };
        Superblock { config, ..base }
    }

    fn marker_of_start(&self, start: &Start, tier_uuid: &[u8; 16], only_copies: bool) -> Marker {
        let marker = Marker::new(tier_uuid, self.flash_path(), only_copies);
        if start.from_backup { marker.of_restore(start.redo) } else { marker }
    }

    /// The start of a server with the name that a new tier gets: that of one that was to be made and that
    /// nobody has used, so that the marker does not name ever more of them.
    fn named(&self, start: &Start, marker: Option<&Marker>) -> Start {
        Start { new_uuid: marker.and_then(Marker::unused_name).unwrap_or(start.new_uuid), ..*start }
    }

    /// Makes the tier anew, on a device that may be formatted. At any moment it holds nothing, the `whole`
    /// superblock that was found, or what the marker names.
    fn format(&self, start: &Start, whole: bool) -> Result<Superblock, Refusal> {
        let geometry: &Geometry = &self.geometry;
        let superblock = Superblock {
            confirmed: start.redo,
            pending: start.redo,
            sessions: Sessions { confirmed: Nonce::default(), pending: start.new_session },
            ..Superblock::new(geometry, start.new_uuid, database_uuid(start))
        };
        match Marker::read(&*self.marker)? {
            Some(marker) if counts(&marker, start) => {
                marker.of_forming(&start.new_uuid).write(&*self.marker)?;
            }
            _ if planted::is(Bug::FormattedUnmarked) => {}
            // A crash may leave half a superblock, and the next start would not know whose that is.
            _ => self
                .marker_of_start(start, &start.new_uuid, false)
                .of_session(&start.new_session, superblock.epoch)
                .write(&*self.marker)?,
        }
        // Where a whole superblock is, one of its copies stays until one of the new one's is whole; the start
        // after a crash finds either, and judges as this one did.
        if !whole && !planted::is(Bug::FormattedUnclaimed) {
            claim(&*self.flash, &superblock).map_err(|error| self.device_failed(&error))?;
        }
        self.put_superblock(&superblock)?;
        // A volume's table of files, if there was one; recovery flushes it with what it writes.
        let rest = AFTER_SUPERBLOCKS..METADATA_AT;
        let zeros = vec![0; (rest.end - rest.start) as usize];
        self.flash.write_at(&zeros, rest.start).map_err(|error| self.device_failed(&error))?;
        Ok(superblock)
    }

    /// [`Self::recover`]s the tier; with the reason, if it is emptied since its directory is older, and with
    /// what is to be dropped of it, if it is `as_left`, by the marker of then.
    fn recover_checked(
        &self,
        memory: Blank,
        superblock: &Superblock,
        marker: Option<&Marker>,
        as_left: Option<&Marker>,
        owner: u32,
    ) -> Result<(Recovered, Option<String>, Changed), Refusal> {
        let ours = marker.filter(|marker| marker.names(&superblock.tier_uuid));
        let recovered = self.recover(memory, superblock, ours, owner)?;
        let older = match sync_mark::is_ahead(&recovered, ours) {
            None => self.log_ends_before(recovered.log)?,
            ahead => ahead,
        };
        let Some(why) = older else {
            let changed = as_left.map(|marker| self.changed_at_rest(&recovered.tier, marker));
            let changed = changed.unwrap_or_default();
            if !changed.everything {
                return Ok((recovered, None, changed));
            }
            let why = "every file of which it held pages was changed while the server was down";
            drop(recovered);
            let changed = Changed { everything: true, ..Changed::default() };
            return Ok((self.emptied(superblock, owner)?, Some(why.to_owned()), changed));
        };
        let needed = marker.is_some_and(|marker| marker.only_copies);
        let shown = self.flash_path().display().to_string();
        let why = session::apart(superblock, needed, &shown, why)?;
        drop(recovered);
        Ok((self.emptied(superblock, owner)?, Some(why), Changed::default()))
    }

    /// A log that ends before the newest page of the tier is of an earlier moment, and so are the files: what
    /// was drained to the newer files is missing in these, and redo would take the newer pages of the tier
    /// for its own. Why that is so, if it is.
    fn log_ends_before(&self, newest: LogPosition) -> Result<Option<String>, Refusal> {
        if newest.lsn == 0 || planted::is(Bug::LogEndUnchecked) || self.server.log_reaches(newest)? {
            return Ok(None);
        }
        Ok(Some(format!(
            "the data directory is the older one, for the tier has pages from behind the end of its log, which reached {} when they were written",
            point(RedoPoint { redo: newest.lsn, timeline: newest.timeline })
        )))
    }

    /// Recovers the tier in memory. Nothing on flash has changed then.
    fn recover(
        &self,
        memory: Blank,
        superblock: &Superblock,
        marker: Option<&Marker>,
        owner: u32,
    ) -> Result<Recovered, Refusal> {
        let mut flash = Flash(&*self.flash);
        let alone = closed_alone(superblock, marker);
        if alone && provably_clean(&superblock.config) {
            return self.emptied(superblock, owner);
        }
        // Damage is told as in a tier that was closed; its records, as after a crash.
        let redone = Superblock {
            state: TierState::Closed,
            redone_from: superblock.confirmed.redo,
            ..superblock.clone()
        };
        let basis = if alone { &redone } else { superblock };
        let nobody_needs = |error: &RecoveryError| match error {
            RecoveryError::Damaged { .. } => expendable(superblock),
            RecoveryError::Read(_) | RecoveryError::Silent(_) => {
                expendable(superblock) && !planted::is(Bug::UnreadableEndsStart)
            }
            _ => false,
        };
        let recovered = match Tier::recover(memory, basis, owner, &mut flash) {
            // Invariant 8: what is damaged can be had from disk, or redone from the log; and so can what
            // cannot be read.
            Err(error) if nobody_needs(&error) => return self.emptied(superblock, owner),
            recovered => recovered,
        };
        recovered.map_err(|error| self.not_recovered(error))
    }

    /// The same tier with nothing in it.
    fn emptied(&self, superblock: &Superblock, owner: u32) -> Result<Recovered, Refusal> {
        // What was replayed until then is no part of it.
        let memory = self.blank()?;
        let mut recovered = Tier::recover(memory, &superblock.discarded(), owner, &mut Flash(&*self.flash))
            .map_err(|error| self.not_recovered(error))?;
        recovered.report.discarded = true;
        Ok(recovered)
    }

    fn not_recovered(&self, error: RecoveryError) -> Refusal {
        let shown = self.flash_path().display();
        match error {
            RecoveryError::Read(error) | RecoveryError::Damaged { unread: Some(error), .. } => {
                self.device_failed(&error)
            }
            RecoveryError::Silent(error) => self.device_silent(&error),
            RecoveryError::UsedUp(error) => {
                Refusal::new(format!("the flash tier on \"{shown}\" cannot be used any more: {error}"))
            }
            RecoveryError::RegionTooSmall(_) | RecoveryError::Config(_)
                if !planted::is(Bug::SilentShapeKept) =>
            {
                self.of_other_sizes()
            }
            error => Refusal::new(format!("the flash tier on \"{shown}\" cannot be recovered: {error}"))
                .detail("Pages whose only copy it held are lost.")
                .hint("Put back an undamaged copy of the device, or restore a base backup."),
        }
    }

    /// Makes durable what recovery has found, with the epoch that begins, and publishes the tier.
    fn begin_epoch(
        &self,
        recovered: Recovered,
        start: &Start,
        only_copies: bool,
    ) -> Result<RecoveryReport, Refusal> {
        let Recovered { tier, writes, superblock, report, .. } = recovered;
        let superblock = session::confirm(&superblock);
        let mut flash = Flash(&*self.flash);
        let written = writes.iter().try_for_each(|(offset, bytes)| flash.write(*offset, bytes));
        written.and_then(|()| flash.flush()).map_err(|error| self.device_failed(&error))?;
        self.put_superblock(&superblock)?;
        if only_copies {
            // Not before: what the control file says that the files lack is looked for in the tier that the
            // marker names, and only one that is adopted has it.
            self.server.mark_control_file(true)?;
        }
        tier.log_reached(LogPosition { timeline: start.redo.timeline, lsn: 0 });
        tier.publish(&superblock);
        self.set_tier(tier);
        Ok(report)
    }
}
