//! Flash, disks and sidecars put back to earlier moments of a life, whole or in parts, and lives that go on
//! from there.
//!
//! While a volume is in use, and between sessions, *moments* of the machine are noted: everything on its
//! devices, flushed or not, and what its files may contain. Later
//! - the whole machine is put back to a moment. It must open as after a crash, and goes on with nonces of its
//!   own; so what came after that moment the first time is another copy's life;
//! - on a copy, the flash of one moment is put together with disks and sidecars of others, of the same life
//!   or of another copy's. That is refused, or right ([`super::checkers::mixes`]); and if nothing of it is
//!   beyond what the volume promises, the machine goes on with it;
//! - the volume is opened more often than its superblock keeps nonces, with one of the files missing.
//!
//! In between are all operations, power cuts and checks of any other world.
//!
//! A device that failed has learned nothing since, so no moment outlives a session in which one did.

use std::sync::Arc;

use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::{Volume, VolumeConfig};

use super::checkers::mixes;
use super::model::FileModel;
use super::moments::Moment;
use super::world::{Session, World, trace};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;

/// Moments that are kept at a time.
const MOMENTS_MAX: usize = 10;
/// More openings than a superblock keeps nonces.
const OPENINGS_MAX: u64 = 80;

impl World {
    /// Each opening has a nonce of its own where copies are opened.
    pub(super) fn next_nonce(&mut self) -> Option<u64> {
        if !self.scenario.histories {
            return None;
        }
        self.histories.openings += 1;
        Some(splitmix(self.scenario.seed ^ splitmix(self.histories.openings)))
    }

    /// The opening that the present life begins with must be as it was accepted: that one may be refused
    /// otherwise.
    pub(super) fn is_accepted_only(&self) -> bool {
        self.histories.accepted_only
    }

    /// The tier was opened, and all files attached.
    pub(super) fn was_opened(&mut self) {
        self.histories.accepted_only = false;
    }

    fn moment(&mut self) -> Arc<Moment> {
        Arc::new(Moment {
            id: self.histories.next(),
            snapshot: self.machine.snapshot(),
            models: self.models.clone(),
            tier: self.scenario.tier.clone(),
            drained: self.drained,
            disk_first: self.disk_first,
            mode_in_doubt: self.mode_in_doubt,
            closed: self.closed,
            accepted_only: self.histories.accepted_only,
        })
    }

    fn keep(&mut self, moment: Arc<Moment>, random: &mut Random) {
        trace!(self, "moment {} is kept", moment.id);
        let moments = &mut self.histories.moments;
        if moments.len() < MOMENTS_MAX {
            moments.push(moment);
        } else {
            let at = random.below(MOMENTS_MAX as u64) as usize;
            moments[at] = moment;
        }
    }

    /// Takes over what is known of a moment whose devices the machine has now.
    fn take_over(&mut self, moment: &Moment) {
        (self.histories.now, self.histories.files_now) = (moment.id, None);
        self.histories.accepted_only = moment.accepted_only;
        self.scenario.tier = moment.tier.clone();
        (self.drained, self.formatted) = (moment.drained, true);
        (self.disk_first, self.mode_in_doubt) = (moment.disk_first, moment.mode_in_doubt);
        self.closed = moment.closed;
    }
}

/// Numbers that no other part of the life draws from.
fn aside(world: &World) -> Random {
    Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x6d6f_6d65_6e74))
}

/// To be called after each operation.
pub(super) fn in_a_session(world: &mut World) {
    if !world.scenario.histories || world.faults.planned || world.pages_lost {
        return;
    }
    let mut random = aside(world);
    if random.chance(1, 64) {
        let moment = world.moment();
        world.keep(moment, &mut random);
    }
}

/// To be called between two sessions.
pub(super) fn between_sessions(world: &mut World) -> Result<(), Stop> {
    // Nor one in which a page is lost: it is so in every copy.
    if world.faults.planned || world.pages_lost {
        world.histories.moments.clear();
        return Ok(());
    }
    if !world.formatted {
        return Ok(());
    }
    let mut random = aside(world);
    let moments = world.histories.moments.len() as u64;
    let mixed = moments > 0 && random.chance(1, 4);
    // What is seldom done is dear: a moment is a copy of everything.
    if mixed || random.chance(1, 8) {
        let now = world.moment();
        for _ in 0..if mixed { random.between(1, 4) } else { 0 } {
            if let Some(joined) = mixes::check(world, &now, &mut random)? {
                go_on_with(world, joined);
                return Ok(());
            }
        }
        world.keep(now, &mut random);
    }
    if moments > 0 && random.chance(1, 12) {
        let moment = world.histories.moments[random.below(moments) as usize].clone();
        put_back(world, &moment);
    } else if world.models.len() > 1 && random.chance(1, 128) {
        open_without_a_file(world, &mut random)?;
    }
    Ok(())
}

/// Puts the whole machine back.
fn put_back(world: &mut World, moment: &Moment) {
    trace!(world, "everything is put back to moment {}", moment.id);
    world.machine.put_back(&moment.snapshot);
    world.models.clone_from(&moment.models);
    world.take_over(moment);
    world.models_crashed();
    world.life.coverage.rollbacks += 1;
}

/// Goes on with what was put together and found right.
fn go_on_with(world: &mut World, joined: mixes::Joined) {
    let mixes::Joined { snapshot, contents, flash, files, sync_mode } = joined;
    trace!(world, "the machine goes on with flash of moment {}", flash.id);
    world.machine.put_back(&snapshot);
    world.version += 1;
    for (model, contents) in world.models.iter_mut().zip(&contents) {
        *model = FileModel::found(model, world.version, contents);
    }
    world.take_over(&flash);
    (world.drained, world.formatted) = (Drained::No, true);
    (world.scenario.tier.sync_mode, world.mode_in_doubt) = (sync_mode, false);
    (world.histories.files_now, world.histories.accepted_only) = (Some(files), true);
    world.life.coverage.mixes_lived_on += 1;
}

/// Opens the volume again and again with one file alone, and has it killed each time.
fn open_without_a_file(world: &mut World, random: &mut Random) -> Result<(), Stop> {
    let file = random.below(world.models.len() as u64) as usize;
    let openings = random.between(1, OPENINGS_MAX);
    trace!(world, "{openings} openings with file {file} alone");
    for _ in 0..openings {
        let nonce_seed = world.next_nonce();
        let config = VolumeConfig { nonce_seed, ..world.scenario.volume() };
        let opened = Volume::open(world.machine.connect(&world.machine.flash), config);
        let volume = match opened {
            // The power failed in a switch of the sync mode.
            Err(_) if world.mode_in_doubt => return Ok(()),
            opened => world.done("open", opened)?,
        };
        let attached = world.attach_one(&world.machine, &volume, file);
        let attached = world.done("attach one file", attached)?;
        let len = attached.len();
        if let Err(possible) = world.models[file].len_observed(len) {
            let text = format!("file {file} has {len} bytes, opened alone; possible are {possible}");
            return Err(Stop::Violated(Invariant::Versions, text));
        }
        world.release(Session { volume: volume.into(), files: vec![attached] });
        world.life.coverage.openings_without_a_file += 1;
    }
    Ok(())
}
