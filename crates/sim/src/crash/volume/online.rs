//! What an operator changes while files are in use: the sync mode, and whether the tier takes pages.
//!
//! Where writes go to the tier alone afterwards, and did not before, or the other way round, everything
//! before it is durable: with writes to disk first, on the disks alone. Where the power fails in a switch of
//! the mode, the superblock has the old one or the new, and the next opening asks for either.

use mezzanine_volume::{SyncMode, TierConfig, VolumeConfig, VolumeError, VolumeErrorKind, VolumeState};

use super::checkers::disk;
use super::model::FileModel;
use super::world::{Session, World, trace};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;

/// Switches the sync mode, or stops or resumes admission.
pub(super) fn change(world: &mut World, session: &Session) -> Result<(), Stop> {
    // A tier that was given up has neither.
    if session.volume.state() != VolumeState::Ok {
        return Ok(());
    }
    let on = world.life.random.chance(1, 2);
    match world.life.random.chance(1, 2) {
        true => switch(world, session, if on { SyncMode::Durable } else { SyncMode::Through }),
        false => set_admission(world, session, on),
    }
}

fn switch(world: &mut World, session: &Session, mode: SyncMode) -> Result<(), Stop> {
    let before = world.scenario.tier.sync_mode;
    if world.scenario.tier.design.has_slots() && mode != before {
        let refused = session.volume.set_sync_mode(mode);
        return match refused.as_ref().map_err(VolumeError::kind) {
            Err(VolumeErrorKind::InvalidConfig) => Ok(()),
            _ if is_without_tier(world, &refused) => Ok(()),
            _ => {
                let text = format!("a tier that writes through alone was switched to {mode}: {refused:?}");
                Err(Stop::Violated(Invariant::NoUnprovokedError, text))
            }
        };
    }
    if before == mode {
        return world.done("switch the sync mode", session.volume.set_sync_mode(mode));
    }
    let was_alone = is_tier_alone(world, session);
    // Until it is done, nothing is promised that only one of the modes keeps.
    world.disk_first |= !was_alone;
    world.scenario.tier.sync_mode = SyncMode::Durable;
    world.mode_in_doubt = true;
    trace!(world, "sync mode {mode}");
    let switched = session.volume.set_sync_mode(mode);
    if is_without_tier(world, &switched) {
        (world.scenario.tier.sync_mode, world.mode_in_doubt) = (before, false);
        return Ok(());
    }
    world.done("switch the sync mode", switched)?;
    world.scenario.tier.sync_mode = mode;
    world.mode_in_doubt = false;
    world.life.coverage.switches += 1;
    changed(world, session, was_alone)
}

fn set_admission(world: &mut World, session: &Session, on: bool) -> Result<(), Stop> {
    let was_alone = is_tier_alone(world, session);
    trace!(world, "takes pages: {on}");
    let set = if on { session.volume.resume_admission() } else { session.volume.stop_admission() };
    if is_without_tier(world, &set) {
        return Ok(());
    }
    world.done("change the admission", set)?;
    world.life.coverage.admission_changes += 1;
    changed(world, session, was_alone)
}

/// Whether writes go to the tier alone.
pub(super) fn is_tier_alone(world: &World, session: &Session) -> bool {
    !world.scenario.flash_is_expendable() && session.volume.takes_pages() == Some(true)
}

/// The way that writes take may be another.
fn changed(world: &mut World, session: &Session, was_alone: bool) -> Result<(), Stop> {
    let is_alone = is_tier_alone(world, session);
    world.disk_first = !is_alone;
    // Files may have to be made ready for their first change again.
    world.written.fill(false);
    if was_alone != is_alone {
        world.models.iter_mut().for_each(FileModel::sync_acknowledged);
    }
    if was_alone && !is_alone {
        world.drained = Drained::Pages;
        disk::check_pages_drained(world)?;
    }
    Ok(())
}

/// A device failed, and the tier was given up before anything was changed.
fn is_without_tier(world: &World, changed: &Result<(), VolumeError>) -> bool {
    world.has_fault_struck() && changed.as_ref().is_err_and(|error| error.kind() == VolumeErrorKind::NoTier)
}

impl World {
    /// How the tier is opened: now and then in sync mode `durable` though it was left in `through`. After a
    /// power cut in a switch of the sync mode either mode may be asked for: `durable` is always right,
    /// and `through` may be refused ([`World::may_refuse`]). What was put together is opened as it was
    /// accepted: a file whose sidecar is missing counts as it is in `through` alone.
    pub(super) fn config_to_open(&mut self) -> VolumeConfig {
        let switches = self.scenario.switches && self.life.random.chance(1, 8) && !self.is_accepted_only();
        if switches && !self.scenario.tier.design.has_slots() {
            self.mode_in_doubt |= self.scenario.tier.sync_mode == SyncMode::Through;
            self.scenario.tier.sync_mode = SyncMode::Durable;
            return self.scenario.volume();
        }
        let config = self.scenario.volume();
        if !self.mode_in_doubt || self.life.random.chance(1, 2) {
            return config;
        }
        VolumeConfig { tier: TierConfig { sync_mode: SyncMode::Through, ..config.tier.clone() }, ..config }
    }

    /// Whether a tier whose sync mode is in doubt may refuse to be opened in the mode asked for: in `through`
    /// it would lose pages that it has if the switch was done.
    pub(super) fn may_refuse(&self, config: &VolumeConfig, error: &VolumeError) -> bool {
        self.mode_in_doubt
            && config.tier.sync_mode == SyncMode::Through
            && error.kind() == VolumeErrorKind::OnlyCopy
    }
}
