//! What the simulated database and its host do: one random operation at a time.

use std::sync::{Arc, Mutex, PoisonError};

use mezzanine_device::memory::Power;
use mezzanine_engine::{Design, TierConfig};
use mezzanine_volume::{Volume, VolumeError, VolumeErrorKind, VolumeState};

use super::beside;
use super::checkers::{disk, pages};
use super::holes::File;
use super::meanwhile::At;
use super::model::FileModel;
use super::online;
use super::pattern;
use super::replacement;
use super::world::{Session, World, trace};
use crate::crash::driver::weights;
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;

/// Draws one operation and carries it out.
pub(super) fn one(world: &mut World, session: &Session) -> Result<(), Stop> {
    world.life.operations += 1;
    let file = world.life.random.below(world.models.len() as u64) as usize;
    if world.scenario.resizes && world.life.random.chance(1, 24) {
        return resize(world, session);
    }
    if world.scenario.switches && world.life.random.chance(1, 32) {
        return beside::across(world, session, online::change);
    }
    if world.scenario.replaces && world.life.random.chance(1, 24) {
        return beside::across(world, session, replacement::replace);
    }
    let operation = draw(world);
    trace!(world, "operation {operation} on file {file}");
    match operation {
        0 => write_pages(world, session, file, 1),
        1 => {
            let count = world.life.random.between(2, 6);
            write_pages(world, session, file, count)
        }
        2 => write_bytes(world, session, file),
        3 => {
            let page = page(world);
            match world.life.random.chance(1, 8) && !is_resized(session) && world.runners.is_none() {
                true => read_page_meanwhile(world, session, file, page),
                false => pages::read(world, session, file, page, 1),
            }
        }
        4 => read_bytes(world, session, file),
        5 => sync(world, session, file),
        6 => {
            if world.scenario.tier.ahead_frames > 0 && world.life.random.chance(1, 4) {
                session.volume.set_disk_utilisation(world.life.random.below(1001) as u32);
            }
            session.volume.step();
            Ok(())
        }
        7 => {
            settle(world, session);
            match world.life.random.chance(1, 2) && !is_resized(session) && world.runners.is_none() {
                true => step_meanwhile(world, session, file),
                false => Ok(()),
            }
        }
        8 => discard(world, session, file),
        9 => shrink(world, session, file),
        10 => extend(world, session, file),
        _ => drain(world, session),
    }
}

fn draw(world: &mut World) -> usize {
    weights::draw(&world.scenario.weights.shares(), &mut world.life.random)
}

/// A page of a file: most of the time a hot one.
fn page(world: &mut World) -> u64 {
    let hot = world.life.random.chance(world.scenario.hot_share, 16);
    let pages = if hot { world.scenario.pages_hot } else { world.scenario.pages_max };
    world.life.random.below(pages)
}

fn write_pages(world: &mut World, session: &Session, file: usize, count: u64) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let first = page(world);
    let count = count.min(world.scenario.pages_max - first);
    write(world, session, file, first * page_bytes, count * page_bytes)
}

fn write_bytes(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let offset = page(world) * page_bytes + world.life.random.below(page_bytes);
    let len = world.life.random.magnitude(2 * page_bytes);
    write(world, session, file, offset, len)
}

/// Writes the next version over a range.
pub(super) fn write(
    world: &mut World,
    session: &Session,
    file: usize,
    offset: u64,
    len: u64,
) -> Result<(), Stop> {
    // A change of part of a page goes on from what the rest of it is, so that must be known.
    let page_bytes = world.scenario.page_bytes();
    if offset % page_bytes != 0 || len % page_bytes != 0 {
        pages::settle(world, session, file, offset, len)?;
    }
    let version = changing(world);
    trace!(world, "write {version}: {len} bytes at {offset}");
    world.models[file].write_issued(version, offset, len);
    let mut bytes = std::mem::take(&mut world.buffer);
    bytes.resize(len as usize, 0);
    pattern::fill(&mut bytes, file as u8, version, offset);
    let written = session.files[file].write_at(&bytes, offset);
    world.buffer = bytes;
    world.done("write", written)?;
    world.written[file] = true;
    check_len(world, session, file)
}

/// The next version, for an operation that changes a file.
fn changing(world: &mut World) -> u32 {
    world.drained = Drained::No;
    world.version += 1;
    world.version
}

fn read_bytes(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let offset = page(world) * page_bytes + world.life.random.below(page_bytes);
    let len = world.life.random.magnitude(2 * page_bytes);
    pages::settle(world, session, file, offset, len)?;
    let mut found = std::mem::take(&mut world.buffer);
    found.clear();
    found.resize(len as usize, 0xEE);
    let read = session.files[file].read_up_to(&mut found, offset);
    let available = world.models[file].len().saturating_sub(offset).min(len);
    let read = world.done("read", read)?;
    if read as u64 != available {
        let text = format!("file {file}: {read} bytes read at {offset} instead of {available}");
        return Err(Stop::Violated(Invariant::ReadYourWrites, text));
    }
    let mut expected = vec![0; available as usize];
    world.models[file].present_bytes(offset, &mut expected);
    // Past the end of the file there are zeros, whatever the buffer held before.
    expected.resize(len as usize, 0);
    let same = found == expected;
    let text = match same {
        true => String::new(),
        false => {
            let at = found.iter().zip(&expected).position(|(found, expected)| found != expected).unwrap_or(0);
            format!("file {file}: read of {len} bytes at {offset} differs from byte {at} on")
        }
    };
    world.buffer = found;
    if same { Ok(()) } else { Err(Stop::Violated(Invariant::ReadYourWrites, text)) }
}

/// Reads a page, and while a device is read, other pages and perhaps this one are written and jobs are
/// carried out. The page reads as before or as after.
fn read_page_meanwhile(world: &mut World, session: &Session, file: usize, page: u64) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let offset = page * page_bytes;
    // The first change since a file was attached excludes readers, so nothing can be written during a read
    // before it.
    if offset + page_bytes > world.models[file].len() || !world.written[file] {
        return Ok(());
    }
    // A reader who makes room may meet a failure and settle the volume, and the write would wait for that: in
    // this one thread, for ever.
    if world.faults.planned {
        return Ok(());
    }
    pages::settle(world, session, file, offset, page_bytes)?;
    let mut before = vec![0; page_bytes as usize];
    world.models[file].present_bytes(offset, &mut before);
    let work = Meantime::draw(world, session, file, page);
    let failure = Arc::clone(&work.failure);
    let (reads_before, after_the_read) = (world.life.random.below(2), world.life.random.chance(1, 2));
    world.machine.meanwhile.plan(At::LoneReads, reads_before, after_the_read, move || work.carry_out());
    let mut found = vec![0; page_bytes as usize];
    let read = session.files[file].read_at(&mut found, offset);
    world.machine.meanwhile.make_up();
    let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(Ok(()), |error| Err(world.failed("write during a read", &error)))?;
    world.done("read", read)?;
    let mut after = vec![0; page_bytes as usize];
    world.models[file].present_bytes(offset, &mut after);
    world.life.coverage.reads_interrupted += 1;
    if found == before || found == after {
        return Ok(());
    }
    let [found, before, after] =
        [found, before, after].map(|bytes| pattern::describe(&bytes, file as u8, offset));
    let text = format!(
        "file {file}, page {page}: {found}, which is neither {before} nor, written meanwhile, {after}"
    );
    Err(Stop::Violated(Invariant::ReadYourWrites, text))
}

/// Fills a group, and while one of the next jobs waits for a device, others are carried out and a page is
/// written: perhaps one of those that the job has read.
///
/// After all jobs are done there is room for this in staging memory, so the write does not have to wait for
/// the job: in this one thread, for ever.
fn step_meanwhile(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    world.life.power_is_on()?;
    // A job that fails settles the volume, and a write would wait for that: in this one thread, for ever.
    if world.faults.planned {
        return Ok(());
    }
    // Where a page that flash has must not go to disk before its slot is durably invalid, a write may wait
    // for the very job.
    if world.scenario.tier.design.has_slots() || !has_room_during_jobs(&world.scenario.tier) {
        return Ok(());
    }
    if !world.written[file] || session.volume.state() != VolumeState::Ok {
        return Ok(());
    }
    let pages = world.models[file].len() / world.scenario.page_bytes();
    for _ in 0..world.life.random.below(u64::from(world.scenario.tier.group_pages) + 1) {
        write_pages(world, session, file, 1)?;
    }
    let target = page(world);
    if target >= pages {
        return Ok(());
    }
    let steps = world.life.random.between(0, 4);
    let work = Meantime { inside_a_job: true, ..Meantime::of(world, session, file, &[target], steps) };
    let failure = Arc::clone(&work.failure);
    let (at, before) =
        if world.life.random.chance(1, 2) { (At::Reads, 0) } else { (At::Any, world.life.random.below(3)) };
    world.machine.meanwhile.plan(at, before, world.life.random.chance(1, 2), move || work.carry_out());
    for _ in 0..world.life.random.between(1, 4) {
        session.volume.step();
    }
    world.machine.meanwhile.make_up();
    let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    world.life.coverage.jobs_interrupted += 1;
    failed.map_or(Ok(()), |error| Err(world.failed("write during a job", &error)))
}

/// Whether a page still finds room when a group was filled and some jobs are done. Where pages get a second
/// chance, those of all groups that leave may lie in staging memory, too, until they are durable.
fn has_room_during_jobs(tier: &TierConfig) -> bool {
    tier.design != Design::FaceGsc || tier.survivors_max == 0
}

/// More device operations than one job needs.
const OPERATIONS_OF_A_JOB: u64 = 100;

/// Writes and jobs that happen during a request to a device.
struct Meantime {
    /// Page and version of each write.
    writes: Vec<(u64, u32)>,
    steps: u64,
    file: File,
    number: u8,
    page_bytes: u64,
    volume: Arc<Volume>,
    power: Power,
    /// The request that hangs is one of a job.
    inside_a_job: bool,
    failure: Arc<Mutex<Option<VolumeError>>>,
}

impl Meantime {
    fn draw(world: &mut World, session: &Session, file: usize, page: u64) -> Self {
        let page_bytes = world.scenario.page_bytes();
        let pages = world.models[file].len() / page_bytes;
        let mut targets = Vec::new();
        let itself = world.life.random.chance(1, 2);
        for number in 0..world.life.random.magnitude(24) {
            let target = if number == 0 && itself { page } else { self::page(world) };
            // At most one write of the page that is read, so that it has one version before and one after.
            if target < pages && (target != page || number == 0) {
                targets.push(target);
            }
        }
        let steps = world.life.random.between(0, 3);
        Self::of(world, session, file, &targets, steps)
    }

    fn of(world: &mut World, session: &Session, file: usize, targets: &[u64], steps: u64) -> Self {
        let page_bytes = world.scenario.page_bytes();
        let issue = |&target: &u64| {
            let version = changing(world);
            trace!(world, "write {version} meanwhile: page {target} of file {file}");
            world.models[file].write_issued(version, target * page_bytes, page_bytes);
            (target, version)
        };
        Self {
            writes: targets.iter().map(issue).collect(),
            steps,
            file: session.files[file].clone(),
            number: file as u8,
            page_bytes,
            volume: Arc::clone(&session.volume),
            power: world.machine.power.clone(),
            inside_a_job: false,
            failure: Arc::default(),
        }
    }

    fn carry_out(&self) {
        let mut bytes = vec![0; self.page_bytes as usize];
        for (page, version) in &self.writes {
            pattern::fill(&mut bytes, self.number, *version, page * self.page_bytes);
            if let Err(error) = self.file.write_at(&bytes, page * self.page_bytes) {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return;
            }
            for _ in 0..self.steps {
                // A job during which power fails makes the volume give up its tier, and that waits for the
                // request that hangs: in this one thread, for ever.
                if !self.inside_a_job || self.power.left() > OPERATIONS_OF_A_JOB {
                    self.volume.step();
                }
            }
        }
    }
}

/// Syncs a file.
pub(super) fn sync(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    world.done("sync", session.files[file].sync())?;
    world.models[file].sync_acknowledged();
    Ok(())
}

/// Carries out jobs until there are none; a host whose jobs never end would hang here, so there is a limit.
pub(super) fn settle(world: &World, session: &Session) {
    for _ in 0..10_000 {
        if !session.volume.step() || world.life.power_is_on().is_err() {
            return;
        }
    }
    panic!("10,000 jobs were carried out without an operation in between, and there is still another");
}

fn discard(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    let len = world.models[file].len();
    if len == 0 {
        return Ok(());
    }
    let page_bytes = world.scenario.page_bytes();
    let (offset, count) = if world.life.random.chance(2, 3) {
        (page(world) * page_bytes, world.life.random.magnitude(8) * page_bytes)
    } else {
        (world.life.random.below(len), world.life.random.magnitude(3 * page_bytes))
    };
    let count = count.min(len.saturating_sub(offset));
    if count == 0 {
        return Ok(());
    }
    discard_range(world, session, file, offset, count)
}

/// Discards a range that lies in the file and is not empty.
pub(super) fn discard_range(
    world: &mut World,
    session: &Session,
    file: usize,
    offset: u64,
    count: u64,
) -> Result<(), Stop> {
    pages::settle(world, session, file, offset, count)?;
    let version = changing(world);
    trace!(world, "discard {version}: {count} bytes at {offset}");
    world.models[file].discard_issued(version, offset, count);
    world.done("discard", session.files[file].discard(offset, count))?;
    world.models[file].zero_acknowledged(version, offset, count);
    check_len(world, session, file)
}

fn shrink(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    let (len, page_bytes) = (world.models[file].len(), world.scenario.page_bytes());
    let new_len = match world.life.random.below(4) {
        0 => world.life.random.below(len + 1),
        1 => world.life.random.below(len / page_bytes + 1) * page_bytes,
        _ => len.saturating_sub(world.life.random.magnitude(8) * page_bytes),
    };
    if new_len >= len {
        return Ok(());
    }
    shrink_to(world, session, file, new_len)
}

/// Cuts a file off at a length shorter than it has.
pub(super) fn shrink_to(world: &mut World, session: &Session, file: usize, new_len: u64) -> Result<(), Stop> {
    let (len, bytes_max) = (world.models[file].len(), world.models[file].bytes_max());
    pages::settle(world, session, file, new_len, 1)?;
    let version = changing(world);
    trace!(world, "shrink {version}: from {len} to {new_len}");
    let model = &mut world.models[file];
    model.len_issued(new_len);
    model.zero_issued(version, new_len, bytes_max - new_len);
    world.done("shrink", session.files[file].set_len(new_len))?;
    let model = &mut world.models[file];
    model.len_acknowledged();
    model.zero_acknowledged(version, new_len, bytes_max - new_len);
    check_len(world, session, file)
}

fn extend(world: &mut World, session: &Session, file: usize) -> Result<(), Stop> {
    let (len, page_bytes) = (world.models[file].len(), world.scenario.page_bytes());
    let most = world.scenario.pages_max * page_bytes;
    if len >= most {
        return Ok(());
    }
    let by = world.life.random.magnitude(most - len);
    let whole = world.life.random.chance(1, 2);
    let new_len = if whole { (len + by).next_multiple_of(page_bytes).min(most) } else { len + by };
    extend_to(world, session, file, new_len)
}

/// Lengthens a file to a length that it does not have yet.
pub(super) fn extend_to(world: &mut World, session: &Session, file: usize, new_len: u64) -> Result<(), Stop> {
    let len = world.models[file].len();
    let version = changing(world);
    trace!(world, "extend {version}: from {len} to {new_len}");
    world.models[file].len_issued(new_len);
    world.done("extend", session.files[file].set_len(new_len))?;
    check_len(world, session, file)
}

/// Drains the volume.
pub(super) fn drain(world: &mut World, session: &Session) -> Result<(), Stop> {
    world.done("drain", session.volume.drain())?;
    world.models.iter_mut().for_each(FileModel::sync_acknowledged);
    world.drained = Drained::Pages;
    disk::check_pages_drained(world)
}

/// Asks for a queue of another size. It is cut when the rear comes to the end, at any operation after this
/// one.
fn resize(world: &mut World, session: &Session) -> Result<(), Stop> {
    let Some(progress) = session.volume.resize_progress() else { return Ok(()) };
    let bytes = progress.bytes_max - world.life.random.magnitude(progress.bytes_max - 1);
    trace!(world, "resize to {bytes} bytes, of {}", progress.bytes_max);
    match session.volume.resize(bytes) {
        // Most sizes are too small for the tier's other parameters.
        Err(error) if error.kind() == VolumeErrorKind::InvalidConfig => Ok(()),
        resized => world.done("resize", resized.map(|_| ())),
    }
}

/// Whether a superblock may be written at any moment. What waits for it during a request to a device would
/// wait for that request: in this one thread, for ever.
fn is_resized(session: &Session) -> bool {
    session.volume.resize_progress().is_some_and(|progress| progress.wanted.is_some())
}

fn check_len(world: &World, session: &Session, file: usize) -> Result<(), Stop> {
    let (found, expected) = (session.files[file].len(), world.models[file].len());
    if found == expected {
        return Ok(());
    }
    let text = format!("file {file} says that it has {found} bytes instead of {expected}");
    Err(Stop::Violated(Invariant::ReadYourWrites, text))
}
