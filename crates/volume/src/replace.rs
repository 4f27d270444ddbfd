//! Going on with another flash device while files stay attached and readers go on.
//!
//! The tier that files use hangs behind their layout locks, so that nobody looks into two tiers for one page,
//! and costs a reader nothing (docs/decisions/0004). The steps, each durable before the next:
//! 1. The new device is formatted and opened. Nobody refers to it yet, and it says that nobody needs it: if
//!    the replacement is refused later it can be formatted again like any other. Before it can be opened it
//!    names the files, so that it does not take some of them alone (see `parted`).
//! 2. Nobody changes anything any more. The old tier is quiesced and its dirty pages go to disk. One that was
//!    given up has none, nor one where writes go to disk first: its device is not asked for anything. What
//!    was written to the disks directly is synced. Only then does the new device say that it is in use.
//! 3. The sidecars say `current`, the heads take their places. From here on nobody needs the old tier.
//! 4. A tier that may hold only copies is marked as drained, if its device still can.
//! 5. The sidecars name the new tier.
//! 6. Each file's pages are in the new tier from now on, and it takes the first. Files are made ready for
//!    their first change as ever, with a guard that names the new tier.
//!
//! What a crash leaves:
//! - Before 3, files that need the old tier and name it: the new one is refused as another tier. Within 2
//!   some are current already. The new tier would take these, and so refuses them while others need the old
//!   one.
//! - From 3 on, files that are current and need none. One that names the old tier is a new one to the new
//!   tier, and to the old one too, because that was not closed in order, or is empty. So it does not matter
//!   which sidecars name which, unless the old tier could not be marked as drained: it waits for files that
//!   name the new one, and refuses changes of any.
//! - An old device that comes back after 6 is one that the files do not name: refused by those that are
//!   dirty, and not believed for those that are current.
//!
//! Files keep their numbers, and the opening its nonce: what a host has put down with it is right with either
//! device. The new tier takes over the old one's epoch and goes on counting from there, so that numbers which
//! the old one gave are not given again, even if the new one is emptied by a crash and its table with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_engine::format::{Superblock, TierState, read_superblock};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{DrainCursor, TierConfig};
use mezzanine_ground::random::splitmix;

use crate::backing::FileInner;
use crate::config::VolumeConfig;
use crate::core::{Local, TierHost, exclusive, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::guard::rename_guard;
use crate::health::{Mode, Route};
use crate::host_metadata::{Entry, FILES_MAX, Table};
use crate::open::{Reader, format_tier, open_tier, shown};
use crate::path_table::PathTable;
use crate::registry::{OpenedTier, Registry};
use crate::shared::marks::Says;
use crate::sidecar::Sidecar;

const REPLACE: &str = "replace the flash device";

/// The tier that takes the place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceOptions {
    /// Its parameters. The page size must be that of the old one; everything else may differ.
    pub tier: TierConfig,
    /// Formats the new device even if it holds something else, or a tier whose pages may be nowhere else.
    pub force: bool,
    /// As [`VolumeConfig::identity_seed`]. The identity differs from that of the old tier in any case.
    pub identity_seed: Option<u64>,
}

impl ReplaceOptions {
    /// A tier of these parameters, on a device that holds nothing that anybody may need.
    pub fn new(tier: TierConfig) -> Self {
        Self { tier, force: false, identity_seed: None }
    }
}

/// A tier that is ready to take the place of another one.
struct Successor {
    host: Arc<TierHost>,
    opened: OpenedTier,
}

impl Successor {
    /// Has the device say that its tier is in use: before a sidecar names its epoch (see `identity`). If it
    /// cannot, it says that nobody needs it, if it can.
    fn start(&mut self) -> Result<(), VolumeError> {
        let ready = self.opened.begin_epoch(&self.host);
        if planted::is(Bug::SuccessorUnready) {
            return Ok(());
        }
        ready.inspect_err(|_| leave_empty(&self.host))
    }
}

impl Local {
    /// See [`crate::Volume::replace_flash`].
    pub(crate) fn replace_flash(
        &self,
        flash: Arc<dyn Device>,
        options: &ReplaceOptions,
    ) -> Result<(), VolumeError> {
        let mut registry = lock(&self.registry);
        let old = self.replaceable(&registry)?;
        if !old.disk_first() {
            self.start_for_change(&mut registry)?;
        }
        let files = self.all_files();
        let mut successor = self.prepare_successor(&old, &files, flash, options)?;
        let _changing = exclusive(&self.changing);
        if self.quiesce_old(&old, &files)? {
            if let Err(error) = self.empty_old(&old, &files) {
                let outcome = Err(error);
                old.tier.end_drain();
                old.resume_admission();
                self.end_quiescing(&outcome);
                self.signal.made_progress();
                return outcome;
            }
            if let Err(error) = successor.start() {
                self.stop_quiescing(&old);
                return Err(error);
            }
            mark_drained(&old);
        } else {
            self.sync_all(&files)?;
            successor.start()?;
        }
        let named = files.iter().try_for_each(|file| {
            self.replace_sidecar(file, || {
                let plain = self.plain_sidecar(&successor.host, file);
                Sidecar { distrusted: 0, discarding: None, ..plain }
            })
        });
        if let Err(error) = named {
            // Every file is current on disk, whichever tier its sidecar names.
            leave_empty(&successor.host);
            self.health.change(&[Mode::Quiescing], Mode::Bypass, &error.to_string());
            self.signal.made_progress();
            return Err(
                error.advise("the volume goes on without a tier: see to the sidecars and replace it again")
            );
        }
        let switched = self.switch(&old, &files, successor, &mut registry);
        self.signal.made_progress();
        switched
    }

    /// The tier that may be replaced.
    fn replaceable(&self, registry: &Registry) -> Result<Arc<TierHost>, VolumeError> {
        let Some(old) = self.host() else {
            let reason = "the volume was opened without a tier";
            return Err(VolumeError::new(VolumeErrorKind::NoTier, REPLACE, "of the volume", reason)
                .advise("close it and open it with one"));
        };
        if let Err(error) = self.health.route(REPLACE, &old.flash_name) {
            return Err(self.tell_loss(&old, error));
        }
        self.refuse_incomplete(registry, REPLACE)?;
        Ok(old)
    }

    /// The error of a volume that is read-only, with what the old device may hold alone.
    fn tell_loss(&self, old: &TierHost, error: VolumeError) -> VolumeError {
        if self.health.mode() != Mode::ReadOnly || old.disk_first() {
            return error;
        }
        let mut pages: BTreeMap<u32, usize> = BTreeMap::new();
        let mut cursor = DrainCursor::default();
        loop {
            let batch = old.tier.drain_batch(&mut cursor, 4096);
            if batch.is_empty() {
                break;
            }
            batch.iter().for_each(|page| *pages.entry(page.id.file() as u32).or_default() += 1);
        }
        if pages.is_empty() {
            return error;
        }
        let name = |number: &u32| self.file(*number).map_or_else(String::new, |file| file.name.clone());
        let lost: Vec<String> =
            pages.iter().map(|(number, count)| format!("{count} of {}", name(number))).collect();
        let reason = format!(
            "the volume is read-only since a failure ({}), and the newest versions of these pages may be on this device \
             alone: {}",
            self.health.reason(),
            lost.join(", ")
        );
        VolumeError::new(VolumeErrorKind::OnlyCopy, REPLACE, &old.flash_name, reason).advise(
            "close the volume, see to the device, or copy it whole to a good one, and open it again: what was synced \
             before the failure is kept there. If it is lost, restore these files from a backup",
        )
    }

    /// Formats and opens the new device. Nothing else has changed if it cannot be used.
    fn prepare_successor(
        &self,
        old: &TierHost,
        files: &[Arc<FileInner>],
        flash: Arc<dyn Device>,
        options: &ReplaceOptions,
    ) -> Result<Successor, VolumeError> {
        let name = flash.describe();
        let refused = |kind, reason: String| VolumeError::new(kind, REPLACE, &old.flash_name, reason);
        if options.tier.page_size as usize != old.page_size() {
            let reason = format!(
                "its tier has pages of {} bytes, and the one on {name} is to have pages of {}",
                old.page_size(),
                options.tier.page_size
            );
            return Err(refused(VolumeErrorKind::InvalidConfig, reason)
                .advise("give both the same page size; another one needs the files to be closed"));
        }
        if files.len() > FILES_MAX {
            let reason = format!("{} files are attached, and a tier can have {FILES_MAX}", files.len());
            return Err(refused(VolumeErrorKind::TooManyFiles, reason)
                .advise("open the volume anew with fewer files"));
        }
        let seen = shown(Arc::clone(&flash), REPLACE).unwrap_or_else(|_| Arc::clone(&flash));
        let present = read_superblock(&mut Reader(&*seen));
        if present.is_ok_and(|present| present.tier_uuid == old.tier.uuid()) {
            let reason = format!("{name} holds the tier that is in use, or a copy of it");
            return Err(refused(VolumeErrorKind::Busy, reason)
                .advise("name another device, or wipe that one if it holds a copy"));
        }
        let config = VolumeConfig {
            tier: options.tier.clone(),
            workers: old.workers,
            identity_seed: options.identity_seed.map(|seed| seed ^ past(old)),
            nonce_seed: None,
            to_drain: false,
        };
        let mut path_table = PathTable::default();
        for file in files {
            path_table.set(file.number, &file.path);
        }
        // With the superblock the device can be opened, and must know by then whom it is not to part
        // (`parted`).
        let late = planted::is(Bug::SuccessorUnnamed);
        let first_path_table = if late { PathTable::default() } else { path_table.clone() };
        let made = format_tier(&*flash, &config, options.force, &first_path_table, |first| Superblock {
            database_uuid: old.database_uuid,
            epoch: old.epoch,
            origin_epoch: old.epoch,
            ..first
        })?;
        let (host, mut opened) = open_tier(Arc::clone(&flash), false, |_| config, Some(old.nonce))?;
        if host.tier.uuid() != made && !planted::is(Bug::OlderSuccessorUsed) {
            let reason =
                "it says that it has written a new tier, and holds an older one, whose pages are old";
            return Err(VolumeError::new(VolumeErrorKind::Damaged, REPLACE, &name, reason)
                .advise("name another device: this one does not keep what is written to it"));
        }
        opened.path_table = path_table;
        if late {
            let failed = |error| VolumeError::from_device("format", &name, error);
            opened.path_table.write(&*host.flash).map_err(failed)?;
        }
        if planted::is(Bug::SuccessorStartedEarly) {
            opened.begin_epoch(&host)?;
        }
        {
            let next_file = old.table().table.next_file;
            let mut state = host.table();
            let entry = |file: &Arc<FileInner>| Entry {
                file: file.number,
                epoch: host.epoch,
                mark: file.mark(),
                length: file.len(),
            };
            state.table = Table {
                next_file: next_file.max(state.table.next_file),
                entries: files.iter().map(entry).collect(),
            };
        }
        Ok(Successor { host: Arc::new(host), opened })
    }

    /// Has the old tier to this thread, but for readers. False if it was given up, perhaps just now.
    fn quiesce_old(&self, old: &TierHost, files: &[Arc<FileInner>]) -> Result<bool, VolumeError> {
        loop {
            match self.health.route(REPLACE, &old.flash_name) {
                Ok(Route::Tier) => {}
                Ok(Route::Disk) => return Ok(false),
                Err(error) => return Err(self.tell_loss(old, error)),
            }
            if old.disk_first() {
                // Its device, which may have failed, is not asked for anything.
                if !self.health.change(&[Mode::Normal], Mode::Quiescing, REPLACE) {
                    continue;
                }
                self.signal.made_progress();
                old.wait_outside();
                old.tier.stop_admission();
                return Ok(true);
            }
            self.trim_all(old, files)?;
            match self.begin_quiescing(old, REPLACE) {
                Ok(quiesced) => return Ok(quiesced),
                Err(error) => return Err(self.tell_loss(old, error)),
            }
        }
    }

    /// Everything is on disk, and every file says so and is whole there.
    fn empty_old(&self, old: &TierHost, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        if !old.disk_first() && !planted::is(Bug::ReplacedUndrained) {
            let _gate = exclusive(&old.disk_gate);
            self.drain_pages(old)?;
        }
        self.sync_all(files)?;
        files.iter().try_for_each(|file| self.declare_current(old, file))?;
        files.iter().try_for_each(|file| self.restore_head(file))
    }

    /// Syncs what was written to the disks directly: a page read from there may become durable in the new
    /// tier, and must not be newer than its disk copy after a crash.
    fn sync_all(&self, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        if planted::is(Bug::ReplacedUnsynced) {
            return Ok(());
        }
        files.iter().try_for_each(|file| self.flush_direct(file))
    }

    /// The new tier takes the place of the old one.
    fn switch(
        &self,
        old: &TierHost,
        files: &[Arc<FileInner>],
        successor: Successor,
        registry: &mut Registry,
    ) -> Result<(), VolumeError> {
        let Successor { host, opened } = successor;
        if !host.provably_clean() {
            // As when the last file was attached: see `Local::completed`.
            self.tell_table(&host, &mut host.table());
        }
        for file in files {
            // One after the other: files whose readers are slow do not hold up those of others.
            let mut layout = exclusive(&file.layout);
            let mut guard = file.shared.guards.guard();
            rename_guard(&mut guard, &old.tier.uuid(), &host.tier.uuid(), file.number);
            file.shared.guards.set_guard(guard);
            file.shared.lengths.set_trim(false);
            file.shared.lengths.set_tail(false);
            file.shared.marks.say(Says::Current);
            file.shared.marks.distrust(0);
            file.shared.marks.set_ready(host.disk_first());
            *layout = Some(Arc::clone(&host));
        }
        host.shared.service.hold(false);
        self.set_host(host);
        registry.tier = Some(opened);
        self.has_started();
        // Last: until now readers found their pages on disk, and nothing was given to either tier.
        if self.health.renew(|| old.retire()) {
            return Ok(());
        }
        Err(self.health.read_only(REPLACE, &old.flash_name))
    }
}

/// Has the old device say that nobody needs it, so that it can be formatted like any other. One that cannot
/// does not matter: the sidecars do not name it.
fn mark_drained(old: &TierHost) {
    if old.has_begun() && !old.provably_clean() {
        leave_empty(old);
    }
}

/// Has a device say that nobody needs its tier, if it can.
fn leave_empty(host: &TierHost) {
    let emptied = |last: &Superblock| Superblock { state: TierState::Drained, ..last.discarded() };
    let _ = host.put_superblock(REPLACE, emptied);
}

/// What keeps the identities of a tier and its successors apart that come from one seed.
fn past(old: &TierHost) -> u64 {
    let uuid = old.tier.uuid();
    let word = |at: usize| uuid[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    splitmix(word(0) ^ splitmix(word(8)))
}
