//! Damages the flash device of a copy of the machine in the middle of a life that goes on: bits flip and
//! writes go wrong while a volume is in use, and then the power fails, or the process dies, again and again.
//!
//! Invariants checked: `damage-noticed`:
//! - Nothing that was never written there is read, ever.
//! - Where the tier has clean pages only, every page reads as synced last or as written since.
//! - What was written and synced after the damage reads so, or newer, after every later cut; where the tier
//!   may hold only copies it may be reported as lost, or the tier be refused as damaged.
//!
//! In some such lives sectors of flash go bad for good, and nothing else goes wrong: then every page reads
//! right or is reported as lost, and the volume takes changes as before.
//!
//! In other such lives harm is done to the spare device of a replacement, while it is made ready and soon
//! after, and to nothing else before:
//! - A replacement that fails of it names that device, and the volume goes on as before.
//! - Once the spare one is in use the disk has every page, so whatever nobody has written since reads right,
//!   and is not reported as lost. What was written since is judged as above.
//! - Where the power fails in the replacement the old device can be opened, with everything as it should be,
//!   or the new one can, or is refused as damaged.
//!
//! The machine itself is not touched, and no number is drawn that anything else in the life would have drawn.

use std::collections::BTreeSet;

use mezzanine_device::Device;
use mezzanine_device::memory::{Image, Injection};
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::{ReplaceOptions, VolumeError, VolumeErrorKind, VolumeState};

use super::damage;
use super::recovery::contents;
use crate::crash::driver::harm::{Harm, bad_writes};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::Machine;
use crate::crash::volume::pattern::{self, UNIT_BYTES};
use crate::crash::volume::world::{Session, World, trace};

/// What a page may read as.
#[derive(Default, Clone)]
struct Page {
    /// The versions that were written since it was read last, none older than that which was synced last.
    issued: Vec<u32>,
    /// The first of them was synced: what was read before them is gone.
    replaced: bool,
    /// A version was synced since the last damage, or ever if the disk has all pages.
    synced: bool,
    /// The disk had it when the flash device was replaced, and nobody has written it since.
    on_disk: bool,
}

/// How far the replacement of the flash device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// There is none in this life.
    None,
    /// It is to come.
    ToCome,
    /// The power has failed in it.
    CutShort,
    /// The device that was the spare one is in use.
    Done,
}

/// A copy of the machine, and what is known of its files.
struct Later<'w> {
    world: &'w mut World,
    random: Random,
    machine: Machine,
    /// What each file held when it was read last.
    before: Vec<Vec<u8>>,
    pages: Vec<Vec<Page>>,
    version: u32,
    /// The tier has clean pages only.
    clean: bool,
    harm: Harm,
    /// Sessions so far, this one included.
    sessions: usize,
    replacement: Replacement,
}

/// To be called between two sessions.
pub(in crate::crash::volume) fn check(world: &mut World) -> Result<(), Stop> {
    let mut random = Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x6c61_7465_7273));
    if random.chance(1, 64) {
        let machine = Machine::from_snapshot(&world.machine.snapshot(), world.scenario.fingerprints);
        begin(world, machine, random, Replacement::None)?;
    }
    let mut random = Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x7265_706c_6163_6573));
    if !(world.scenario.replaces && world.scenario.spares && random.chance(1, 16)) {
        return Ok(());
    }
    let machine = Machine::from_snapshot(&world.machine.snapshot(), world.scenario.fingerprints);
    // One that was never in use, or a tier of this life, complete or not.
    let blank = Image::zeroed(world.scenario.flash_bytes() as usize);
    let used = world.machine.spare.snapshot();
    machine.spare.put_back(if random.chance(1, 4) { &blank } else { &used });
    begin(world, machine, random, Replacement::ToCome)
}

fn begin(world: &mut World, machine: Machine, random: Random, replacement: Replacement) -> Result<(), Stop> {
    let session = world.open_on(&machine)?;
    let before = contents(world, &session)?;
    let page = world.scenario.page_bytes() as usize;
    let pages = before.iter().map(|file| vec![Page::default(); file.len() / page]).collect();
    let (version, clean) = (world.version + 1, world.scenario.flash_is_expendable());
    world.life.coverage.damages += 1;
    Later {
        world,
        random,
        machine,
        before,
        pages,
        version,
        clean,
        harm: Harm::default(),
        sessions: 0,
        replacement,
    }
    .live(session)
}

impl Later<'_> {
    fn live(mut self, mut session: Session) -> Result<(), Stop> {
        // In some lives sectors go bad, and nothing else goes wrong: then whatever is not lost with them goes
        // on.
        let replaces = self.replacement != Replacement::None;
        let sectors = !replaces && self.world.scenario.sectors && self.random.chance(1, 2);
        for round in 0..4 {
            self.sessions = round + 1;
            // The first two are those in which something goes wrong.
            if round < 2 && !sectors && self.harms_flash() {
                self.plan_bad_writes();
            }
            if self.random.chance(3, 4) {
                self.machine.power.crash_after(self.random.magnitude(64));
            }
            let used = self.use_session(&session, round < 2, sectors);
            self.end_session(session);
            used?;
            if round < 2 && !self.clean && self.harm.damaged {
                // Whatever was synced meanwhile may lie where something went wrong.
                self.pages.iter_mut().flatten().for_each(|page| page.synced = false);
            }
            if self.replacement == Replacement::CutShort {
                self.choose()?;
            }
            session = match self.world.try_open_on(&self.machine) {
                Ok(session) => session,
                Err((_, error)) => {
                    trace!(self.world, "refused later, on a copy: {error}");
                    self.world.life.coverage.damage_refused += 1;
                    if error.kind() == VolumeErrorKind::Io && !self.harm.bad_sectors.is_empty() {
                        return Ok(());
                    }
                    return self.judge_refusal(&error);
                }
            };
            self.read_everything(&session)?;
        }
        Ok(())
    }

    /// Without power nothing that dropping the volume does can reach a device. Then the devices lose what
    /// they lose, or only the process has died.
    fn end_session(&mut self, session: Session) {
        let failed = !self.machine.power.is_on();
        trace!(self.world, "later, on a copy: the session ends, the power has failed: {failed}");
        self.machine.power.crash_after(1);
        drop(session);
        self.machine.power.restore();
        self.harm.forget_planned(&self.machine.flash);
        self.machine.spare.heal();
        if failed || self.random.chance(1, 2) {
            self.machine.cut(&mut self.random);
        }
    }

    fn plan_bad_writes(&mut self) {
        let mut injection = bad_writes(16, &mut self.random);
        // A spare device may keep nothing of what is written to it, and hold what it held before.
        if !self.harms_flash() && self.random.chance(1, 4) {
            injection.count = u64::MAX;
        }
        let Injection { fault, after, count, .. } = injection;
        trace!(self.world, "later, on a copy: {fault:?} after {after} writes, {count} times");
        match self.harms_flash() {
            true => self.machine.flash.inject(injection),
            false => self.machine.spare.inject(injection),
        }
        self.harm.damaged |= self.harms_flash();
    }

    /// Whether harm comes to the device in use, and not to the spare one.
    fn harms_flash(&self) -> bool {
        matches!(self.replacement, Replacement::None | Replacement::Done)
    }

    fn flip_bit(&mut self) {
        let bytes = self.world.scenario.flash_bytes();
        let bit = self.harm.flip_bit(&self.machine.flash, bytes, &mut self.random);
        trace!(self.world, "later, on a copy: bit {bit} flips");
    }

    fn spoil_sector(&mut self) {
        let bytes = self.world.scenario.flash_bytes();
        let (sector, bad) = self.harm.spoil_sector(&self.machine.flash, bytes, &mut self.random);
        trace!(self.world, "later, on a copy: the sector at {sector} is bad: {bad:?}");
    }

    /// Writes, syncs and carries out jobs until the power fails or something else does that may.
    fn use_session(&mut self, session: &Session, damaging: bool, sectors: bool) -> Result<(), Stop> {
        // A page has to leave before what lies in a bad sector is asked for.
        let operations = if sectors { 400 } else { 48 };
        for _ in 0..self.random.magnitude(operations) {
            if damaging && self.replacement == Replacement::ToCome && self.random.chance(1, 8) {
                self.replace(session)?;
                if !self.machine.power.is_on() {
                    return Ok(());
                }
            }
            let file = self.random.below(self.pages.len() as u64) as usize;
            let failed = match self.random.below(8) {
                0 if damaging && self.harms_flash() && self.random.chance(1, 4) => {
                    if sectors {
                        self.spoil_sector()
                    } else {
                        self.flip_bit()
                    }
                    Ok(())
                }
                0 | 1 => session.files[file].sync().map(|()| self.synced(file)),
                2 | 3 => {
                    session.volume.step();
                    Ok(())
                }
                _ if self.pages[file].is_empty() => Ok(()),
                _ => self.write(session, file),
            };
            if !self.machine.power.is_on() {
                return Ok(());
            }
            if let Err(error) = failed {
                return self.judge_change(session, error.kind(), &error.to_string());
            }
            if let VolumeState::ReadOnly { reason } = session.volume.state() {
                return self.judge_change(session, VolumeErrorKind::ReadOnly, &reason);
            }
        }
        Ok(())
    }

    /// A change is refused when one page more is lost than the tier carries. Whole pages are written, so none
    /// is refused because a page is lost.
    fn judge_change(&self, session: &Session, kind: VolumeErrorKind, text: &str) -> Result<(), Stop> {
        let lost = session.volume.lost_pages();
        trace!(self.world, "later, on a copy: a change is refused, {} pages are lost: {text}", lost.len());
        // Each page that is lost lay in a frame of its own, and so does the one that is too many.
        let enough = self.harm.damaged || self.pages_that_may_be_lost() > lost.len();
        let too_many = damage::carries_no_more(session, self.bad_frames()) && enough;
        if kind == VolumeErrorKind::ReadOnly && too_many && !self.clean {
            return Ok(());
        }
        Err(broken(format!(
            "a change failed on a damaged tier, of which {} pages are lost: {text}",
            lost.len()
        )))
    }

    /// A page for each bad frame, and one more for each session: a crash that comes before a bad frame was
    /// left out of a group for the first time has it forgotten.
    fn pages_that_may_be_lost(&self) -> usize {
        self.bad_frames() * self.sessions
    }

    /// Frames of flash in which sectors went bad.
    fn bad_frames(&self) -> usize {
        let frames = self.harm.bad_sectors.iter().map(|(at, _)| at / self.world.scenario.page_bytes());
        frames.collect::<BTreeSet<u64>>().len()
    }

    /// Puts the spare device in the place of the other, with harm done to it.
    fn replace(&mut self, session: &Session) -> Result<(), Stop> {
        self.plan_bad_writes();
        if self.random.chance(1, 2) {
            self.machine.power.crash_after(self.random.magnitude(128));
        }
        self.version += 1;
        let options = ReplaceOptions {
            force: true,
            identity_seed: Some(splitmix(self.world.scenario.seed ^ splitmix(u64::from(self.version)))),
            ..ReplaceOptions::new(self.world.scenario.tier.clone())
        };
        trace!(self.world, "later, on a copy: the flash device is replaced");
        let spare = self.machine.connect(&self.machine.spare);
        let replaced = session.volume.replace_flash(spare, &options);
        if !self.machine.power.is_on() {
            self.replacement = Replacement::CutShort;
            return Ok(());
        }
        if let Err(error) = replaced {
            trace!(self.world, "later, on a copy: the replacement failed: {error}");
            self.world.life.coverage.replacements_failed += 1;
            self.machine.spare.heal();
            let named = error.to_string().contains(&self.machine.spare.describe());
            let state = session.volume.state();
            return match named && state == VolumeState::Ok {
                true => Ok(()),
                false => Err(broken(format!(
                    "a spare device was harmed, and the replacement failed like this, {state:?}: {error}"
                ))),
            };
        }
        self.world.life.coverage.replacements += 1;
        (0..self.pages.len()).for_each(|file| self.synced(file));
        self.goes_on_with_spare();
        Ok(())
    }

    /// The spare device is in use from now on, and the disk has every page.
    fn goes_on_with_spare(&mut self) {
        self.machine.swap_flash();
        self.replacement = Replacement::Done;
        self.harm.damaged = true;
        self.pages.iter_mut().flatten().for_each(|page| page.on_disk = true);
    }

    /// The power has failed in the replacement: somebody opens the volume with the one device or the other,
    /// among those that can be.
    fn choose(&mut self) -> Result<(), Stop> {
        self.replacement = Replacement::ToCome;
        // It was put aside, and has lost what was not flushed.
        self.machine.spare.power_cut(self.random.next_u64());
        let new_first = self.random.chance(1, 2);
        for new in [new_first, !new_first] {
            if new {
                self.machine.swap_flash();
            }
            let copy = Machine::from_snapshot(&self.machine.snapshot(), self.world.scenario.fingerprints);
            if new {
                self.machine.swap_flash();
            }
            let opened = self.world.try_open_on(&copy);
            let changed = opened.map(|used| used.files.iter().try_for_each(|file| file.set_len(file.len())));
            if matches!(changed, Ok(Ok(()))) {
                trace!(self.world, "later, on a copy: the new device is opened: {new}");
                if new {
                    self.goes_on_with_spare();
                }
                return Ok(());
            }
        }
        // The files need the new one, and that is harmed.
        trace!(self.world, "later, on a copy: neither device can be used");
        self.goes_on_with_spare();
        Ok(())
    }

    fn judge_refusal(&self, error: &VolumeError) -> Result<(), Stop> {
        damage::refusal(self.world, &self.machine, error, false)
    }

    fn write(&mut self, session: &Session, file: usize) -> Result<(), VolumeError> {
        let bytes = self.world.scenario.page_bytes();
        let number = self.random.below(self.pages[file].len() as u64);
        self.version += 1;
        self.pages[file][number as usize].issued.push(self.version);
        self.pages[file][number as usize].on_disk = false;
        trace!(self.world, "later, on a copy: write {} of page {number} of file {file}", self.version);
        let mut page = vec![0; bytes as usize];
        pattern::fill(&mut page, file as u8, self.version, number * bytes);
        session.files[file].write_at(&page, number * bytes)
    }

    fn synced(&mut self, file: usize) {
        trace!(self.world, "later, on a copy: sync of file {file}");
        for page in &mut self.pages[file] {
            if let Some(last) = page.issued.last().copied() {
                *page = Page { issued: vec![last], replaced: true, synced: true, on_disk: page.on_disk };
            }
        }
    }

    fn read_everything(&mut self, session: &Session) -> Result<(), Stop> {
        let bytes = self.world.scenario.page_bytes() as usize;
        let mut lost = 0;
        for file in 0..self.pages.len() {
            for number in 0..self.pages[file].len() {
                let mut found = vec![0; bytes];
                let offset = (number * bytes) as u64;
                if let Err(error) = session.files[file].read_at(&mut found, offset) {
                    let short = matches!(error.kind(), VolumeErrorKind::ShortRead { .. });
                    let on_disk = self.clean || self.pages[file][number].on_disk;
                    // An older table of files knows an older length.
                    if short && !on_disk && self.harm.damaged {
                        continue;
                    }
                    // Where the disk has every page damage to flash fails nothing.
                    if error.kind() != VolumeErrorKind::LostPage || on_disk {
                        return Err(broken(format!("file {file}, page {number}: {error}")));
                    }
                    lost += 1;
                    // A bad sector costs the page in it, and one more after each crash that comes before its
                    // frame was left out.
                    if !self.harm.damaged && lost > self.pages_that_may_be_lost() {
                        let text =
                            format!("{lost} pages are lost with {} frames: {error}", self.bad_frames());
                        return Err(broken(text));
                    }
                    self.world.life.coverage.damage_reported += 1;
                    continue;
                }
                let mut units = found.chunks(UNIT_BYTES).zip((offset..).step_by(UNIT_BYTES));
                if let Some((unit, at)) = units.find(|(unit, at)| !self.may_be(file, number, unit, *at)) {
                    let text = pattern::describe(unit, file as u8, at);
                    return Err(broken(format!(
                        "file {file}, page {number}: {text} came from a tier that was damaged in use; written were {:?}, synced: {}",
                        self.pages[file][number].issued, self.pages[file][number].synced
                    )));
                }
                self.before[file][number * bytes..(number + 1) * bytes].copy_from_slice(&found);
                let page = &mut self.pages[file][number];
                page.replaced = false;
                page.issued.clear();
            }
        }
        Ok(())
    }

    fn may_be(&self, file: usize, number: usize, unit: &[u8], at: u64) -> bool {
        let page = &self.pages[file][number];
        let from = at as usize;
        page.issued.iter().any(|version| pattern::is(unit, file as u8, *version, at))
            || (!page.replaced && *unit == self.before[file][from..from + unit.len()])
            || (!page.synced
                && !page.on_disk
                && !self.clean
                && self.harm.damaged
                && pattern::belongs(unit, file as u8, at))
    }
}

fn broken(text: String) -> Stop {
    Stop::Violated(Invariant::DamageNoticed, text)
}
