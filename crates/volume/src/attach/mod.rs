//! Attaching a file to a volume, and making it ready for changes.

mod candidate;

use std::sync::Arc;

use mezzanine_device::AlignedBuf;
use mezzanine_engine::format::{Superblock, newer_superblock};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{IdRange, Lookup, Position};

pub(crate) use self::candidate::{Candidate, found_sidecar};
use crate::backing::FileInner;
use crate::core::{Local, TierHost, exclusive, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::guard::{is_rotten, name_guard};
use crate::host_metadata::{FILES_MAX, LENGTH_END};
use crate::identity::{Bond, FileEvidence, TierEvidence, judge};
use crate::open::Reader;
use crate::registry::Registry;
use crate::shared::guards::empty_head;
use crate::shared::marks::{Opening, Says};
use crate::sidecar::Sidecar;

/// The opening that a sidecar names.
fn opening_of(sidecar: &Sidecar) -> Opening {
    Opening { epoch: sidecar.epoch, nonce: sidecar.nonce }
}

impl Local {
    /// Attaches a file. On refusal nothing has changed.
    pub(crate) fn attach(&self, candidate: Candidate<'_>) -> Result<Arc<FileInner>, VolumeError> {
        let mut registry = lock(&self.registry);
        self.health.route("attach", &candidate.name)?;
        if self.all_files().iter().any(|file| file.path == candidate.path) {
            let reason = "it is attached to this volume already";
            return Err(VolumeError::new(VolumeErrorKind::AlreadyAttached, "attach", candidate.name, reason));
        }
        let found = candidate.read_sidecar()?;
        // After a crash of the process that used it its unsynced writes can still be read; what is read now
        // must not go back. Nothing is unsynced of a file that was closed together with the tier.
        let opened = registry.tier.as_ref().filter(|_| self.tier_in_use().is_some());
        let closed = opened.filter(|opened| opened.was_closed()).map(|opened| &opened.found);
        let closed = closed.zip(found.as_ref()).is_some_and(|(superblock, sidecar)| {
            sidecar.epoch == superblock.epoch && superblock.nonce_of(sidecar.epoch) == Some(sidecar.nonce)
        });
        if !closed {
            candidate.backing.flush().map_err(|error| candidate.io(error))?;
        }
        let guard_len = found.as_ref().map_or(0, |sidecar| sidecar.guard.len()).max(candidate.guard.len());
        let mut head = vec![0; guard_len];
        candidate.read_head(&mut head, found.as_ref())?;
        let rotten = found.as_ref().filter(|sidecar| self.is_rotten_guard(sidecar, &head));
        if let Some(sidecar) = rotten {
            head[..sidecar.guard.len()].copy_from_slice(&sidecar.guard);
        }
        let rotten = rotten.is_some();
        if candidate.backing.len() >= LENGTH_END {
            let reason = format!("it is longer than a file of a volume can be, {} bytes", LENGTH_END - 1);
            return Err(VolumeError::new(VolumeErrorKind::Io, "attach", candidate.name, reason));
        }
        let bond = self.judge(&candidate, found.as_ref(), &head, &registry)?;
        if closed && matches!(bond, Bond::New { .. }) {
            candidate.backing.flush().map_err(|error| candidate.io(error))?;
        }
        if let (Bond::New { .. }, Some(sidecar)) = (&bond, &found) {
            self.refuse_parting(&candidate, sidecar, &registry)?;
        }
        if let (Bond::Dirty { number }, Some(sidecar)) = (&bond, &found) {
            self.refuse_older_disk(&candidate, sidecar, *number)?;
        }
        match (&found, bond) {
            (Some(sidecar), Bond::Dirty { number }) => {
                self.attach_dirty(&mut registry, candidate, sidecar, number, rotten)
            }
            (_, bond) => {
                if let Some(sidecar) = &found {
                    candidate.restore_head(sidecar, &head)?;
                }
                self.attach_current(&mut registry, candidate, bond, found.as_ref())
            }
        }
    }

    /// Whether the guard that the sidecar names stands on disk, and one byte of it has rotted.
    fn is_rotten_guard(&self, sidecar: &Sidecar, head: &[u8]) -> bool {
        // A tier that is older than the sidecar does not know all numbers.
        let known =
            |host: &Arc<TierHost>| host.tier.uuid() == sidecar.tier_uuid && sidecar.epoch <= host.epoch;
        let host = self.tier_in_use().filter(known);
        let given_up_to = host.map_or(u32::MAX, |host| host.table().table.next_file);
        is_rotten(sidecar, head, |number| number < given_up_to)
    }

    fn judge(
        &self,
        candidate: &Candidate<'_>,
        sidecar: Option<&Sidecar>,
        head: &[u8],
        registry: &Registry,
    ) -> Result<Bond, VolumeError> {
        let failed = |error| VolumeError::from_io("attach", &candidate.name, error);
        let fingerprint = match sidecar {
            Some(sidecar) if !sidecar.fingerprint.is_empty() => {
                candidate.store.fingerprint().map_err(failed)?
            }
            _ => None,
        };
        let file = FileEvidence {
            name: &candidate.name,
            path: candidate.path,
            sidecar_name: candidate.store.describe(),
            sidecar,
            head,
            file_len: candidate.backing.capabilities().can_resize.then(|| candidate.backing.len()),
            guard: &candidate.guard,
            fingerprint: fingerprint.as_deref(),
        };
        let (Some(host), Some(opened)) = (self.tier_in_use(), &registry.tier) else {
            return judge(&file, None);
        };
        // A copy: judging takes longer than the table may be locked, and nobody but the caller, who has the
        // registry, adds a file to it or takes one away.
        let table = host.table().table.clone();
        let tier = TierEvidence {
            name: &host.flash_name,
            opened,
            begun: host.has_begun().then_some((host.epoch, host.nonce)),
            table: &table,
            attached: self.all_files().iter().map(|file| (file.number, file.name.clone())).collect(),
            provably_clean: host.provably_clean(),
        };
        let judged = judge(&file, Some(&tier));
        judged.map_err(|error| match error.kind() {
            VolumeErrorKind::OlderTier => unless_in_doubt(&host, &opened.found, &candidate.name, error),
            _ => error,
        })
    }

    /// Compares what stage-out has written last with what stands on disk. Pages that the tier holds in a
    /// newer version may differ.
    fn refuse_older_disk(
        &self,
        candidate: &Candidate<'_>,
        sidecar: &Sidecar,
        number: u32,
    ) -> Result<(), VolumeError> {
        let Some(host) = self.tier_in_use().filter(|_| !planted::is(Bug::BatchUnchecked)) else {
            return Ok(());
        };
        let length = host.table().table.get(number).map_or(0, |entry| entry.length);
        let size = host.page_size() as u64;
        let mut page = AlignedBuf::zeroed(host.page_size());
        for &(block, checksum) in &sidecar.written {
            let discarded = sidecar.discarding.is_some_and(|(first, end)| (first..end).contains(&block));
            // Past the end: truncated already, or about to be. The page that the end falls into was not
            // truncated while it is named (`forget_truncated_page`).
            let start = block.saturating_mul(size);
            let uncompared = planted::is(Bug::CutPageUncompared) && sidecar.length > length;
            let past_end = start >= length || uncompared && length - start < size;
            let id = mezzanine_engine::PageId::volume(u64::from(number), block);
            let newer = match host.tier.lookup(&id, &mut page) {
                Lookup::Miss(_) => false,
                Lookup::Memory => true,
                Lookup::Flash(found) => found.dirty,
            };
            if discarded || past_end || newer {
                continue;
            }
            if !candidate.has_checksum(&mut page, block * size, checksum)? {
                let reason = format!(
                    "the page there is not what was written there last: the file is older than its sidecar {}, or was changed by somebody \
                     else, while its newest pages were in the tier {}, or the tier has lost a newer version of that page, or that it was cut off",
                    candidate.store.describe(),
                    host.flash_name
                );
                return Err(VolumeError::new(
                    VolumeErrorKind::ChangedFile,
                    "attach",
                    &candidate.name,
                    reason,
                )
                .at(block * size)
                .advise(
                    "put the newest file back, or restore file and sidecar from a backup and format the tier",
                ));
            }
        }
        Ok(())
    }

    /// Attaches a file whose disk is current.
    fn attach_current(
        &self,
        registry: &mut Registry,
        candidate: Candidate<'_>,
        bond: Bond,
        sidecar: Option<&Sidecar>,
    ) -> Result<Arc<FileInner>, VolumeError> {
        let Some(host) = self.tier_in_use().filter(|_| registry.tier.is_some()) else {
            return self.attach_without_tier(registry, candidate);
        };
        match bond {
            Bond::New { forget } => self.attach_new(registry, &host, candidate, forget),
            Bond::Warm { number } | Bond::Dirty { number } => {
                let mut candidate = candidate;
                name_guard(&mut candidate.guard, &host.tier.uuid(), number);
                let file = candidate.into_file(number, Some(&host), self.memory());
                if let Some(sidecar) = sidecar {
                    file.shared.marks.found(opening_of(sidecar), sidecar.mark);
                }
                self.distrust(&host, &file, sidecar.map_or(0, |sidecar| sidecar.distrusted));
                // Where writes go to disk first, nothing has to be durable before a change.
                file.shared.marks.set_ready(host.disk_first());
                self.attach_known(registry, &host, file)
            }
        }
    }

    /// Attaches a file that the tier knows, and of which nothing on disk has to be put right any more: it
    /// waits for the start of this opening, if that is not over.
    fn attach_known(
        &self,
        registry: &mut Registry,
        host: &Arc<TierHost>,
        file: FileInner,
    ) -> Result<Arc<FileInner>, VolumeError> {
        let Some(opened) = registry.tier.as_mut() else { return Ok(self.register(file)) };
        if self.is_unstarted() {
            let file = self.register(file);
            opened.waiting.push(Arc::clone(&file));
            return Ok(file);
        }
        opened.name_file(host, file.number, &file.path)?;
        self.take_up(host, &file)?;
        let file = self.register(file);
        self.completed(registry, host)?;
        Ok(file)
    }

    /// Attaches a file of which the tier knows nothing that may be believed, but perhaps these numbers.
    fn attach_new(
        &self,
        registry: &mut Registry,
        host: &Arc<TierHost>,
        mut candidate: Candidate<'_>,
        forget: Vec<u32>,
    ) -> Result<Arc<FileInner>, VolumeError> {
        let length = candidate.backing.len();
        let number = {
            let state = host.table();
            if state.table.entries.len() >= FILES_MAX + forget.len() {
                let reason = format!("the volume has {FILES_MAX} files already");
                let error = VolumeError::new(VolumeErrorKind::TooManyFiles, "attach", candidate.name, reason);
                return Err(error.advise("use another tier for it"));
            }
            state.table.next().map_err(|used_up| used_up.of(&candidate.name))?
        };
        self.start(registry)?;
        let Some(opened) = registry.tier.as_mut() else {
            return self.attach_without_tier(registry, candidate);
        };
        opened.name_file(host, number, candidate.path)?;
        name_guard(&mut candidate.guard, &host.tier.uuid(), number);
        let file = candidate.into_file(number, Some(host), self.memory());
        if !host.provably_clean() {
            // A file that the table knows has a sidecar with its number and the epoch, so they go to the
            // sidecar first.
            file.shared.marks.set_former(&forget);
            self.replace_sidecar(&file, || self.plain_sidecar(host, &file)).inspect_err(|_| {
                if !planted::is(Bug::FailedNumberReused) {
                    // It may be in place all the same.
                    host.table().table.give_up(number);
                }
            })?;
        }
        // Where writes go to disk first, nothing has to be durable before a change.
        file.shared.marks.set_ready(host.disk_first());
        let file = {
            let mut state = host.table();
            for old in forget {
                state.table.remove(old);
                opened.path_table.paths.remove(&old);
                opened.forget.push(old);
            }
            state.table.add(host.epoch, length);
            // At once: nobody is to see a number that no file has, and wait for it.
            self.insert(file)
        };
        self.recording.name(&file);
        self.completed(registry, host)?;
        Ok(file)
    }

    /// Attaches a file that the disk alone answers for. If the tier was given up, another one may take its
    /// place, and the number is one that no file of that one has.
    fn attach_without_tier(
        &self,
        registry: &mut Registry,
        candidate: Candidate<'_>,
    ) -> Result<Arc<FileInner>, VolumeError> {
        let host = self.host();
        let number = match &host {
            Some(host) => {
                let table = &mut host.table().table;
                let number = table.next().map_err(|used_up| used_up.of(&candidate.name))?;
                table.next_file = number + 1;
                number
            }
            None => {
                registry.next_number += 1;
                registry.next_number - 1
            }
        };
        let file = candidate.into_file(number, host.as_ref(), self.memory());
        file.shared.marks.set_ready(true);
        Ok(self.register(file))
    }

    /// Takes up a file whose newest pages may be in the tier; `rotten` says that its guard is.
    fn attach_dirty(
        &self,
        registry: &mut Registry,
        candidate: Candidate<'_>,
        sidecar: &Sidecar,
        number: u32,
        rotten: bool,
    ) -> Result<Arc<FileInner>, VolumeError> {
        let Some(host) = self.tier_in_use().filter(|_| registry.tier.is_some()) else {
            let reason = "the tier was given up meanwhile";
            return Err(VolumeError::new(VolumeErrorKind::OnlyCopy, "attach", candidate.name, reason));
        };
        let host = &host;
        let mut candidate = candidate;
        candidate.guard.clone_from(&sidecar.guard);
        let file = candidate.into_file(number, Some(host), self.memory());
        file.shared.marks.found(opening_of(sidecar), sidecar.mark);
        let length = host.table().table.get(number).map_or(0, |entry| entry.length);
        file.shared.lengths.set(length);
        file.shared.guards.put_up(!sidecar.guard.is_empty());
        let mut head = sidecar.head.clone();
        head.resize(empty_head(&sidecar.guard).len(), 0);
        file.shared.guards.set_head(head);
        file.shared.marks.say(Says::PerhapsDirty);
        file.shared.stage_out.batch(|batch| batch.found(sidecar.written.clone()));
        file.shared.stage_out.batch(|batch| batch.forget(length / file.page_size, u64::MAX));
        file.shared.guards.zero_past(length);
        // A truncation was durable in the tier and not yet done on disk, or a stage-out came before its
        // length did.
        let physical = length.max(file.physical_min());
        let longer = file.shared.lengths.physical() > physical && file.resizable;
        let discarding = sidecar.discarding.filter(|_| !planted::is(Bug::DiscardNotRepeated));
        if rotten || longer || discarding.is_some() {
            self.start(registry)?;
        }
        if rotten && !planted::is(Bug::RottenGuardLeft) {
            // With a second rotten byte it would be known no longer.
            let failed = |error| VolumeError::from_device("write the guard anew of", &file.name, error).at(0);
            file.write_plain(&sidecar.guard, 0, self.counters()).map_err(failed)?;
            file.flush(self.counters()).map_err(failed)?;
        }
        // A page that the tier had let go before it was discarded may be there again, since no durable group
        // states the front that passed it.
        let distrusted = match discarding {
            Some(_) if !planted::is(Bug::ForgottenCopiesBelieved) => host.tier.rear().number(),
            _ => 0,
        };
        self.distrust(host, &file, sidecar.distrusted.max(distrusted));
        if longer {
            self.forget_truncated_page(&file, sidecar, length)?;
            let failed = |error| VolumeError::from_device("attach", &file.name, error);
            file.resize(physical).map_err(failed)?;
            file.flush(self.counters()).map_err(failed)?;
        }
        if let Some((first, end)) = discarding {
            // The pages of these that the tier holds are zero there already, or as old as a crash may leave
            // them; the others are zero, or were to be.
            let failed = |error| VolumeError::from_device("attach", &file.name, error);
            let zeroed = file.zero(
                first.saturating_mul(file.page_size),
                end.saturating_mul(file.page_size),
                self.counters(),
            );
            zeroed.and_then(|()| file.flush(self.counters())).map_err(failed)?;
            // A disk job that ran beside the discard may have had the sidecar name them as they were.
            if !planted::is(Bug::SyncedBatchRemembered) {
                file.shared.stage_out.batch(|batch| batch.forget(first, end));
            }
        }
        // After a crash the tier may hold pages past the end that no sync covered: an extension must not find
        // them. The crash may lie some clean closes back, if nothing was changed since.
        file.shared.lengths.set_trim(true);
        self.attach_known(registry, host, file)
    }

    /// Before the disk is truncated to `length`: the page which that falls into is no longer what stage-out
    /// wrote there, when the file was longer. So its sidecar, which is otherwise as it was found, names it no
    /// longer, also if this attachment gets no further than that.
    fn forget_truncated_page(
        &self,
        file: &FileInner,
        sidecar: &Sidecar,
        length: u64,
    ) -> Result<(), VolumeError> {
        let is_truncated = |block: u64| block == length / file.page_size && length % file.page_size != 0;
        let named = sidecar.written.iter().any(|&(block, _)| is_truncated(block));
        if !named || planted::is(Bug::CutPageCompared) {
            return Ok(());
        }
        let others = sidecar.written.iter().copied().filter(|&(block, _)| !is_truncated(block));
        self.replace_sidecar(file, || Sidecar { written: others.collect(), ..sidecar.clone() })
    }

    /// Somebody began to give this tier up, and may have written newer pages over those that the clean ones
    /// before this position are copies of.
    fn distrust(&self, host: &TierHost, file: &FileInner, before: u64) {
        file.shared.marks.distrust(before);
        let (pages, before) =
            (IdRange::blocks_from(u64::from(file.number), 0), Position::from_number(before));
        host.tier.distrust_clean(&pages, before);
    }

    fn register(&self, file: FileInner) -> Arc<FileInner> {
        let file = self.insert(file);
        self.recording.name(&file);
        file
    }

    fn insert(&self, file: FileInner) -> Arc<FileInner> {
        let file = Arc::new(file);
        exclusive(&self.files).insert(file.number, Arc::clone(&file));
        file
    }

    /// Once every file that the tier knows is attached, jobs may run; what is not to be believed is
    /// invalidated.
    pub(crate) fn completed(&self, registry: &mut Registry, host: &TierHost) -> Result<(), VolumeError> {
        let Some(opened) = registry.tier.as_mut() else { return Ok(()) };
        let missing = self.missing_files(host);
        if missing.is_empty() && !host.provably_clean() {
            // The first frame that is released for good has a group with this table behind it: from then on
            // the tier is ahead of older copies of the files (see `identity`).
            self.tell_table(host, &mut host.table());
        }
        host.shared.service.hold(!missing.is_empty());
        if missing.is_empty() {
            // What cannot be forgotten now stays to be. The file is attached all the same: jobs may be at its
            // pages by now, and nobody has its former numbers, whose pages go nowhere.
            while let Some(number) = opened.forget.last() {
                let range = IdRange::blocks_from(u64::from(*number), 0);
                let forgotten = self.with_room(host, || host.tier.invalidate_range(&range));
                if planted::is(Bug::UnforgottenRefused) {
                    forgotten?;
                } else if forgotten.is_err() {
                    break;
                }
                opened.forget.pop();
            }
            self.signal.offer_work();
        }
        Ok(())
    }

    /// Numbers of files that may have dirty pages in the tier and are not attached.
    pub(crate) fn missing_files(&self, host: &TierHost) -> Vec<u32> {
        if host.provably_clean() {
            return Vec::new();
        }
        let state = host.table();
        let numbers = state.table.entries.iter().map(|entry| entry.file);
        numbers.filter(|number| self.file(*number).is_none()).collect()
    }
}

/// A tier that looks older than a file may be the newest one all the same, if one copy of its superblock
/// cannot be read: that one is written first, and the other is durable a flush later.
fn unless_in_doubt(host: &TierHost, found: &Superblock, name: &str, error: VolumeError) -> VolumeError {
    let used = if host.has_begun() { lock(&host.superblock).clone() } else { found.clone() };
    let newer = newer_superblock(&mut Reader(&*host.flash), &used);
    let Some(why) = newer.filter(|_| !planted::is(Bug::UnreadCopyTakenForOld)) else { return error };
    let reason = format!("the tier {} looks older than the file, but {why}", host.flash_name);
    VolumeError::new(VolumeErrorKind::Io, "attach", name, reason)
        .advise("see to the flash device and open the tier again; nothing was changed")
}
