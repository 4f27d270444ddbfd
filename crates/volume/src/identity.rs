//! Whether a file and a tier belong together (invariant 10).
//!
//! Three things bear witness: the sidecar beside the file, the superblock of the tier, and the table of files
//! that travels in the tier's host metadata. The order in which they become durable makes every mix tell its
//! story:
//! - the superblock's epoch E, and its nonce, are durable before any sidecar says them: a sidecar ahead of
//!   the superblock means that the tier is an older snapshot; one with another nonce than the superblock
//!   keeps for E, that file and tier are copies of one pair which were both opened. (The superblock keeps the
//!   nonces of the last epochs. A file that was not attached for longer is judged by numbers alone.);
//! - a sidecar that says E, and each mark in it (see `marks`), is durable before the table says so for its
//!   file: a table ahead of the sidecar means that the file and its sidecar are older, restored from a
//!   backup. The table does say E before the first frame is released for good, and each mark before what
//!   depends on it, so that no page is missing from an older file that is accepted;
//! - groups that a sidecar says were durable are there: a tier that ends before them is an older snapshot, or
//!   has lost them;
//! - the table knows a file durably before its sidecar says `dirty`: a dirty file that the table does not
//!   know has lost its tier;
//! - numbers of files are never given twice, so nothing of one file is ever taken for another's.

use std::path::Path;

use mezzanine_engine::format::{Nonce, Superblock, TierState};
use mezzanine_engine::planted::{self, Bug};

use crate::config::provably_clean;
use crate::error::{VolumeError, VolumeErrorKind};
use crate::forget::or_forget;
use crate::guard::is_len_of_current;
use crate::host_metadata::{Entry, Table};
use crate::registry::OpenedTier;
use crate::sidecar::{Sidecar, SidecarState};

/// How a file goes on with the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bond {
    /// The tier knows nothing of it that may be believed. Older numbers of it are to be forgotten.
    New { forget: Vec<u32> },
    /// The disk is current, and the tier's pages of it are clean and still right.
    Warm { number: u32 },
    /// The tier may hold the only copy of its pages.
    Dirty { number: u32 },
}

/// What is known of a file that is to be attached.
pub(crate) struct FileEvidence<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a Path,
    pub(crate) sidecar_name: String,
    pub(crate) sidecar: Option<&'a Sidecar>,
    /// First bytes on disk, zeros past the end.
    pub(crate) head: &'a [u8],
    /// Bytes on disk; `None` of a device, whose length says nothing.
    pub(crate) file_len: Option<u64>,
    /// What the caller wants to stand there while the file is not current; empty for nothing.
    pub(crate) guard: &'a [u8],
    pub(crate) fingerprint: Option<&'a [u8]>,
}

/// What is known of the tier.
pub(crate) struct TierEvidence<'a> {
    pub(crate) name: &'a str,
    pub(crate) opened: &'a OpenedTier,
    /// Epoch and nonce of this opening, once they are durable: an attachment that failed may have left a
    /// sidecar that says them.
    pub(crate) begun: Option<(u32, Nonce)>,
    pub(crate) table: &'a Table,
    /// Numbers of the files attached so far, with the paths they were attached under.
    pub(crate) attached: Vec<(u32, String)>,
    pub(crate) provably_clean: bool,
}

impl TierEvidence<'_> {
    /// The nonce of an epoch of the tier, as far as it is known.
    fn nonce_of(&self, epoch: u32) -> Option<Nonce> {
        self.opened.found.nonce_of(epoch)
    }

    fn is_attached(&self, number: u32) -> bool {
        self.attached.iter().any(|(attached, _)| *attached == number)
    }

    /// Whether the sidecar is of an epoch that the tier has not begun.
    fn is_behind(&self, sidecar: &Sidecar) -> bool {
        let begun = self.begun.filter(|_| !planted::is(Bug::FailedAttachmentRefused));
        sidecar.epoch > self.opened.found.epoch && begun != Some((sidecar.epoch, sidecar.nonce))
    }

    /// Whether the sidecar is of an opening that this tier never had: the same numbers may have been given to
    /// other files there.
    fn is_stranger(&self, sidecar: &Sidecar) -> bool {
        self.is_behind(sidecar) || self.nonce_of(sidecar.epoch).is_some_and(|nonce| nonce != sidecar.nonce)
    }

    /// Files that the table knows, that are not attached yet and not to be forgotten.
    fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        let numbers = self.table.entries.iter().map(|entry| entry.file);
        numbers.filter(|number| !self.opened.forget.contains(number) && !self.is_attached(*number))
    }

    fn may_hold_only_copies(&self) -> bool {
        !self.provably_clean && self.opened.found.state != TierState::Drained
    }

    /// Whether the tier may hold the only copy of a page under this number. Not if the file was not used with
    /// it since nobody needed anything of it: the first group with a page of a file says that it was.
    fn is_needed(&self, number: u32) -> bool {
        let drained = match planted::is(Bug::DrainedEpochForgotten) {
            true => 0,
            false => self.opened.found.drained_epoch,
        };
        self.may_hold_only_copies() && self.table.get(number).is_some_and(|entry| entry.epoch > drained)
    }

    /// Numbers of this name that wait.
    fn waiting_as(&self, path: &Path) -> impl Iterator<Item = u32> + '_ {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.waiting().filter(move |number| self.opened.path_table.path(*number) == Some(&path))
    }

    /// Numbers under which the tier knows a file of this name, and whose pages nobody needs: of another copy
    /// of the file, or of the same one before its sidecar was lost. Nobody will come with them, and a tier
    /// that goes on in a mode in which it holds only copies would wait for that.
    fn orphans(&self, path: &Path) -> Vec<u32> {
        if planted::is(Bug::OrphansAwaited) {
            return Vec::new();
        }
        self.waiting_as(path).filter(|number| !self.is_needed(*number)).collect()
    }
}

/// Decides how the file goes on, or refuses.
pub(crate) fn judge(file: &FileEvidence<'_>, tier: Option<&TierEvidence<'_>>) -> Result<Bond, VolumeError> {
    let Some(sidecar) = file.sidecar else { return judge_without_sidecar(file, tier) };
    if sidecar.state == SidecarState::Dirty {
        return judge_dirty(file, sidecar, tier);
    }
    let guarded = !file.guard.is_empty() && file.head.starts_with(file.guard);
    let by_its_own = !sidecar.guard.is_empty() && file.head.starts_with(&sidecar.guard);
    if guarded && !by_its_own {
        return Err(refuse(
            file,
            VolumeErrorKind::ChangedFile,
            format!(
                "it is not current on disk, and its sidecar {} says that it is: one of them was replaced",
                file.sidecar_name
            ),
            "put back the file and the sidecar of the same moment",
        ));
    }
    if by_its_own {
        refuse_other_length(file, sidecar)?;
    }
    let Some(tier) = tier else { return Ok(Bond::New { forget: Vec::new() }) };
    if sidecar.tier_uuid != tier.opened.found.tier_uuid {
        refuse_waited_for(file, sidecar, &[], tier, VolumeErrorKind::ForeignTier)?;
        return Ok(Bond::New { forget: tier.orphans(file.path) });
    }
    let mut forget = sidecar.former.clone();
    forget.push(sidecar.file);
    // A sidecar may name one twice.
    forget.sort_unstable();
    forget.dedup();
    let orphans = tier.orphans(file.path).into_iter().filter(|number| !forget.contains(number));
    let orphans: Vec<u32> = orphans.collect();
    forget.extend(&orphans);
    // A number that another file has got is no number of this one, whatever a sidecar of another copy says.
    forget.retain(|number| tier.table.get(*number).is_some() && !tier.is_attached(*number));
    let Some(entry) = tier.table.get(sidecar.file) else {
        refuse_waited_for(file, sidecar, &forget, tier, VolumeErrorKind::NewerTier)?;
        return Ok(Bond::New { forget });
    };
    if tier.may_hold_only_copies() || !tier.is_stranger(sidecar) || planted::is(Bug::NumbersOfCopies) {
        refuse_attached_number(file, sidecar, tier)?;
    }
    if tier.is_needed(sidecar.file) && !planted::is(Bug::OlderFileForgotten) {
        // Its pages are not forgotten on the word of a sidecar that does not know of them.
        refuse_tier_behind(file, sidecar, tier)?;
        refuse_other_copy(file, sidecar, tier)?;
        refuse_older_file(file, sidecar, entry, tier)?;
    }
    let unchanged = !sidecar.fingerprint.is_empty() && file.fingerprint == Some(&sidecar.fingerprint);
    let warm = sidecar.state == SidecarState::Current
        && tier.opened.was_closed()
        && entry.epoch == sidecar.epoch
        && (tier.nonce_of(sidecar.epoch) == Some(sidecar.nonce) || planted::is(Bug::NonceUnchecked))
        && orphans.is_empty()
        && unchanged;
    Ok(if warm { Bond::Warm { number: sidecar.file } } else { Bond::New { forget } })
}

fn refuse(file: &FileEvidence<'_>, kind: VolumeErrorKind, reason: String, advice: &str) -> VolumeError {
    VolumeError::new(kind, "attach", file.name, reason).advise(advice)
}

/// A sidecar that says `current` and names a guard was written when the disk was as long as the file, and
/// while it stands nothing there changes but the head. A disk with that guard and another length is of
/// another moment, at which the file's newest pages were in the tier; and putting the head back would
/// truncate it.
fn refuse_other_length(file: &FileEvidence<'_>, sidecar: &Sidecar) -> Result<(), VolumeError> {
    let Some(len) = file.file_len.filter(|len| !is_len_of_current(sidecar, *len)) else { return Ok(()) };
    if planted::is(Bug::GuardedLengthUncompared) {
        return Ok(());
    }
    Err(refuse(
        file,
        VolumeErrorKind::ChangedFile,
        format!(
            "it is not current on disk, where it has {len} bytes, and its sidecar {} says that it is, with {} bytes: they are of two moments",
            file.sidecar_name, sidecar.length
        ),
        "put back the file and the sidecar of the same moment",
    ))
}

fn judge_without_sidecar(
    file: &FileEvidence<'_>,
    tier: Option<&TierEvidence<'_>>,
) -> Result<Bond, VolumeError> {
    if !file.guard.is_empty() && file.head.starts_with(file.guard) {
        return Err(refuse(
            file,
            VolumeErrorKind::SidecarMissing,
            format!(
                "it is not current on disk, and the sidecar {} that says where its pages are is missing",
                file.sidecar_name
            ),
            "put the sidecar back beside the file, or restore both from a backup",
        ));
    }
    let Some(tier) = tier else { return Ok(Bond::New { forget: Vec::new() }) };
    // A file that was drained into another tier since has no sidecar either.
    let forget = tier.orphans(file.path);
    if tier.provably_clean {
        return Ok(Bond::New { forget });
    }
    let waiting = tier.waiting().filter(|number| tier.is_needed(*number) && !forget.contains(number));
    let waiting: Vec<String> = waiting.map(|number| tier.opened.path_table.name(number)).collect();
    if waiting.is_empty() {
        return Ok(Bond::New { forget });
    }
    Err(refuse(
        file,
        VolumeErrorKind::FileNotAttached,
        format!(
            "it has no sidecar, and the tier {} holds pages of files that are not attached: {}",
            tier.name,
            waiting.join(", ")
        ),
        &format!(
            "attach those first, {}; if this is one of them, put its sidecar back or restore it from a backup with the tier formatted anew",
            or_forget(tier.name, &waiting)
        ),
    ))
}

/// A dirty file goes on with its own tier, in the state in which it left it, or not at all.
fn judge_dirty(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    tier: Option<&TierEvidence<'_>>,
) -> Result<Bond, VolumeError> {
    let Some(tier) = tier else {
        return Err(refuse(
            file,
            VolumeErrorKind::OnlyCopy,
            format!("its newest pages are in the tier {}, and it is being opened without", sidecar.tier_path),
            "open it with that tier, or drain the tier first",
        ));
    };
    let found: &Superblock = &tier.opened.found;
    if sidecar.tier_uuid != found.tier_uuid {
        let what = if sidecar.volume_uuid == found.database_uuid {
            "another tier"
        } else {
            "a tier of another database"
        };
        return Err(refuse(
            file,
            VolumeErrorKind::ForeignTier,
            format!("its newest pages are in the tier {}, but {} is {what}", sidecar.tier_path, tier.name),
            "open it with its own tier; formatting that tier or deleting the sidecar would lose those pages",
        ));
    }
    refuse_attached_number(file, sidecar, tier)?;
    refuse_tier_behind(file, sidecar, tier)?;
    refuse_other_copy(file, sidecar, tier)?;
    if found.origin_epoch > sidecar.epoch && !planted::is(Bug::IdentityUnchecked) {
        return Err(refuse_emptied_tier(file, sidecar, tier));
    }
    refuse_clean_tier(file, tier)?;
    let Some(entry) = tier.table.get(sidecar.file) else { return Err(refuse_unknown(file, sidecar, tier)) };
    refuse_older_file(file, sidecar, entry, tier)?;
    refuse_older_groups(file, sidecar, tier)?;
    if !sidecar.guard.is_empty() && !file.head.starts_with(&sidecar.guard) {
        return Err(refuse(
            file,
            VolumeErrorKind::ChangedFile,
            "it was replaced or rewritten while its newest pages were in the tier".to_owned(),
            &format!(
                "put the file back that belongs to the tier, or, if its first {} bytes alone are others, write there what the sidecar {} calls \
                 `guard`, in hexadecimal digits; or, to go on with the new file, {}",
                sidecar.guard.len(),
                file.sidecar_name,
                forget_and_delete(file, tier)
            ),
        ));
    }
    Ok(Bond::Dirty { number: sidecar.file })
}

/// The tier has not begun the epoch in which the file was last used with it.
fn refuse_tier_behind(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    tier: &TierEvidence<'_>,
) -> Result<(), VolumeError> {
    let behind = tier.is_behind(sidecar) && !planted::is(Bug::IdentityUnchecked);
    if behind { Err(refuse_older_tier(file, sidecar, tier)) } else { Ok(()) }
}

fn refuse_older_tier(file: &FileEvidence<'_>, sidecar: &Sidecar, tier: &TierEvidence<'_>) -> VolumeError {
    let found = &tier.opened.found;
    refuse(
        file,
        VolumeErrorKind::OlderTier,
        format!(
            "the tier {} is older than the file: it is at epoch {} (begun at {}), the file was last used at epoch {}",
            tier.name, found.epoch, found.origin_epoch, sidecar.epoch
        ),
        "put the newest tier back, or restore file and sidecar from a backup and format the tier",
    )
}

/// Nothing in the tier is as old as the file: it was drained into a newer one, or emptied since.
fn refuse_emptied_tier(file: &FileEvidence<'_>, sidecar: &Sidecar, tier: &TierEvidence<'_>) -> VolumeError {
    refuse(
        file,
        VolumeErrorKind::NewerTier,
        format!(
            "the tier {} is newer than the file: it was emptied, and began anew at epoch {}, and the file's sidecar says that its newest \
             pages are there since epoch {}; the file or its sidecar was restored from a backup",
            tier.name, tier.opened.found.origin_epoch, sidecar.epoch
        ),
        "put the newest file and sidecar back; or, to go on with the backup, delete its sidecar after restoring a \
         drained copy, and format the tier",
    )
}

/// A tier came to a mode in which it holds no only copies when the sidecars of all its files said, durably,
/// that they were current. And what it has of them is not kept after a crash.
fn refuse_clean_tier(file: &FileEvidence<'_>, tier: &TierEvidence<'_>) -> Result<(), VolumeError> {
    if !provably_clean(&tier.opened.found.config) || planted::is(Bug::DirtyFileOfCleanTier) {
        return Ok(());
    }
    Err(refuse(
        file,
        VolumeErrorKind::NewerTier,
        format!(
            "its sidecar {} says that its newest pages are in the tier {}, which has been used since in a mode in which it holds the only copy of none: \
             all its files were current then; the file or its sidecar was restored from a backup",
            file.sidecar_name, tier.name
        ),
        "put the newest file and sidecar back; or, to go on with the backup, delete its sidecar after restoring a \
         drained copy, and format the tier",
    ))
}

/// Sidecar and tier are of one epoch with two nonces: two copies of the tier were opened apart, and this is
/// not the one that the file was with.
fn refuse_other_copy(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    tier: &TierEvidence<'_>,
) -> Result<(), VolumeError> {
    let same = tier.nonce_of(sidecar.epoch).is_none_or(|nonce| nonce == sidecar.nonce);
    if same || planted::is(Bug::NonceUnchecked) {
        return Ok(());
    }
    Err(refuse(
        file,
        VolumeErrorKind::OtherCopy,
        format!(
            "its sidecar {} and the tier {} were both in use at epoch {} and not together: one of them is a copy that was opened apart",
            file.sidecar_name, tier.name, sidecar.epoch
        ),
        "put the file, its sidecar and the flash of one copy together; or restore file and sidecar from a backup and format the tier",
    ))
}

/// The tier has seen the file newer than it is here.
fn refuse_older_file(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    entry: &Entry,
    tier: &TierEvidence<'_>,
) -> Result<(), VolumeError> {
    let marked = entry.epoch == sidecar.epoch && !planted::is(Bug::MarkUnchecked);
    let ahead = entry.epoch > sidecar.epoch || marked && entry.mark > sidecar.mark;
    if !ahead {
        return Ok(());
    }
    Err(refuse(
        file,
        VolumeErrorKind::NewerTier,
        format!(
            "the tier {} is newer than the file: it was last used at epoch {}, mark {}, the file's sidecar says epoch {}, mark {}; \
             the file or its sidecar was restored from a backup",
            tier.name, entry.epoch, entry.mark, sidecar.epoch, sidecar.mark
        ),
        &format!(
            "put the newest file and sidecar back; or, to go on with the backup, restore a drained copy, and {}",
            forget_and_delete(file, tier)
        ),
    ))
}

/// What to do before a file is used that is not the one which the tier has pages of. Formatting the tier
/// would lose the pages of all others.
fn forget_and_delete(file: &FileEvidence<'_>, tier: &TierEvidence<'_>) -> String {
    let path = file.path.display();
    format!(
        "have the tier forget what it holds of it (`mezz tier forget --force {} {path}`), then delete its sidecar",
        tier.name
    )
}

/// The tier ends before groups of which the sidecar says that they were durable.
///
/// A group that is there and torn tells a damaged tier from an older copy, as in [`refuse_unknown`].
fn refuse_older_groups(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    tier: &TierEvidence<'_>,
) -> Result<(), VolumeError> {
    let unchecked = planted::is(Bug::GroupsUnchecked) || planted::is(Bug::IdentityUnchecked);
    if sidecar.groups <= tier.opened.end || unchecked {
        return Ok(());
    }
    const ADVICE: &str =
        "put the newest tier back, or restore file and sidecar from a backup and format the tier";
    if tier.opened.report.recovery.groups_torn > 0 {
        let reason =
            format!("its newest pages were in the tier {}, whose newest groups are damaged", tier.name);
        return Err(refuse(file, VolumeErrorKind::Damaged, reason, ADVICE));
    }
    let reason = format!(
        "the tier {} is older than the file: it has {} groups, and {} of them were durable when the file's sidecar was written; it is an \
         older copy, or its newest groups are damaged",
        tier.name, tier.opened.end, sidecar.groups
    );
    Err(refuse(file, VolumeErrorKind::OlderTier, reason, ADVICE))
}

/// The tier does not know a file that is dirty there. It did, durably, before the sidecar said so; what is
/// missing was written in the sidecar's epoch.
///
/// Then the last groups of that epoch are damaged, or the flash device is a copy that was made before them. A
/// group that is there and torn tells the two apart: a copy made at rest has none, for recovery begins a new
/// epoch behind it. Without one nothing does, and the refusal says both.
fn refuse_unknown(file: &FileEvidence<'_>, sidecar: &Sidecar, tier: &TierEvidence<'_>) -> VolumeError {
    const ADVICE: &str =
        "put the newest tier back, or restore file and sidecar from a backup and format the tier";
    if tier.opened.found.epoch > sidecar.epoch {
        // Everything before the tier's epoch is there, so it was told to forget the file.
        return refuse(
            file,
            VolumeErrorKind::NewerTier,
            format!(
                "its sidecar says that its newest pages are in the tier {}, which has been used without it since; the file \
                 or its sidecar was restored from a backup",
                tier.name
            ),
            "put the newest file and sidecar back; or, to go on with the backup, restore a drained copy, and delete its \
             sidecar",
        );
    }
    if tier.opened.report.recovery.groups_torn > 0 {
        let reason = format!(
            "its newest pages were in the tier {}, whose newest groups are damaged: it knows nothing of the file",
            tier.name
        );
        return refuse(file, VolumeErrorKind::Damaged, reason, ADVICE);
    }
    let reason = format!(
        "its newest pages were in the tier {}, which knows nothing of it: the tier is an older copy, or its newest groups \
         are damaged",
        tier.name
    );
    refuse(file, VolumeErrorKind::OlderTier, reason, ADVICE)
}

/// The tier does not know the file by what its current sidecar says, and waits for a file of the same name:
/// that one is newer. The number in the sidecar is one that a crash took from the table before it was
/// durable, or that of another tier; an opening since gave the file another one. A tier that was given up,
/// and whose device could not be told, looks the same beside files that went on with another one.
fn refuse_waited_for(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    known: &[u32],
    tier: &TierEvidence<'_>,
    kind: VolumeErrorKind,
) -> Result<(), VolumeError> {
    if planted::is(Bug::OlderNumberForgotten) {
        return Ok(());
    }
    let needed = |number: &u32| tier.is_needed(*number) && !known.contains(number);
    let Some(number) = tier.waiting_as(file.path).find(needed) else { return Ok(()) };
    if kind == VolumeErrorKind::ForeignTier {
        return Err(refuse_gone_on(file, sidecar, number, tier));
    }
    Err(refuse(
        file,
        kind,
        format!(
            "the tier {} is newer than the file: it holds pages of a file of this name, number {number}, and the sidecar {} says that it is \
             another one, which is current; the file or its sidecar was restored from a backup",
            tier.name, file.sidecar_name
        ),
        &format!(
            "put the newest file and sidecar back; or, if files have changed names, attach the one first that had this name; or, to go on with \
             the backup, restore a drained copy, and {}",
            forget_and_delete(file, tier)
        ),
    ))
}

/// The same, of a file whose sidecar names another tier: one that took this one's place, or one of a backup.
fn refuse_gone_on(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    number: u32,
    tier: &TierEvidence<'_>,
) -> VolumeError {
    refuse(
        file,
        VolumeErrorKind::ForeignTier,
        format!(
            "the tier {} holds pages of a file of this name, number {number}, and the sidecar {} says that the file went on with the tier {}, \
             and is current on disk",
            tier.name, file.sidecar_name, sidecar.tier_path
        ),
        &format!(
            "open it with {}, which may have taken this one's place, and all files with it; or, if the file or its sidecar was restored from a \
             backup, put the newest ones back, or delete the sidecar after restoring a drained copy, and format the tier; if files have \
             changed names, attach the one first that had this name",
            sidecar.tier_path
        ),
    )
}

fn refuse_attached_number(
    file: &FileEvidence<'_>,
    sidecar: &Sidecar,
    tier: &TierEvidence<'_>,
) -> Result<(), VolumeError> {
    let Some((_, other)) = tier.attached.iter().find(|(number, _)| *number == sidecar.file) else {
        return Ok(());
    };
    Err(refuse(
        file,
        VolumeErrorKind::AlreadyAttached,
        format!("its sidecar is that of {other}, which is attached"),
        "a copy of a file with a tier cannot be used beside it; delete the copy's sidecar only if the copy is whole",
    ))
}
