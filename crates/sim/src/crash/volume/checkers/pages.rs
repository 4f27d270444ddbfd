//! Reads pages through the volume and compares them with the model.
//!
//! Invariants checked:
//! - `versions`: after a crash a unit is one of the contents that the model remembers for it: acknowledged as
//!   durable last, or issued since.
//! - `no-going-back`: the first read after a recovery settles which one; every later read, also after later
//!   crashes, finds it or a newer one.
//! - `no-resurrection`: where something was discarded or cut off there are zeros or newer contents.
//! - `whole-pages`: in sync mode `durable` the units of a page belong to one version of the page.
//! - `read-your-writes`: what is not in doubt reads as written last.

use mezzanine_volume::VolumeErrorKind;

use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::{Floor, Mismatch};
use crate::crash::volume::pattern::{self, UNIT_BYTES};
use crate::crash::volume::world::{Session, World};

/// Compares every file's length after an opening.
pub(in crate::crash::volume) fn check_lengths(world: &mut World, session: &Session) -> Result<(), Stop> {
    for file in 0..world.models.len() {
        let len = session.files[file].len();
        if let Err(possible) = world.models[file].len_observed(len) {
            let text = format!("file {file} has {len} bytes after recovery; possible are {possible}");
            return Err(Stop::Violated(Invariant::Versions, text));
        }
    }
    Ok(())
}

/// Compares every file's length, and then all pages or some.
pub(in crate::crash::volume) fn check_after_open(world: &mut World, session: &Session) -> Result<(), Stop> {
    check_lengths(world, session)?;
    if world.life.random.chance(world.scenario.full_checks, 16) {
        return read_everything(world, session);
    }
    for _ in 0..world.life.random.magnitude(8) {
        let file = world.life.random.below(world.models.len() as u64) as usize;
        let page = world.life.random.below(world.scenario.pages_max);
        read(world, session, file, page, 1)?;
    }
    Ok(())
}

/// Reads every page of every file, from the front or, as often, in a scattered order.
pub(in crate::crash::volume) fn read_everything(world: &mut World, session: &Session) -> Result<(), Stop> {
    let scattered = world.life.random.chance(1, 2);
    for file in 0..world.models.len() {
        let pages = world.models[file].len().div_ceil(world.scenario.page_bytes());
        // A step without a common divisor with the number of pages visits each page once.
        let step = if scattered { (7..64).find(|step| coprime(*step, pages)).unwrap_or(1) } else { 1 };
        for number in 0..pages {
            read(world, session, file, number * step % pages, 1)?;
        }
    }
    Ok(())
}

fn coprime(a: u64, b: u64) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// Settles whatever is in doubt on the pages that overlap a range.
pub(in crate::crash::volume) fn settle(
    world: &mut World,
    session: &Session,
    file: usize,
    offset: u64,
    len: u64,
) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let first = offset / page_bytes;
    let count = (offset + len).div_ceil(page_bytes) - first;
    if !world.models[file].is_in_doubt(first * page_bytes, count * page_bytes) {
        return Ok(());
    }
    read(world, session, file, first, count)
}

/// Reads whole pages, as far as the file reaches, and compares each.
pub(in crate::crash::volume) fn read(
    world: &mut World,
    session: &Session,
    file: usize,
    first: u64,
    count: u64,
) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let offset = first * page_bytes;
    let available = world.models[file].len().saturating_sub(offset).min(count * page_bytes);
    if available == 0 {
        return Ok(());
    }
    let mut found = std::mem::take(&mut world.buffer);
    found.resize(available as usize, 0);
    let read = session.files[file].read_at(&mut found, offset);
    let compared = match read {
        Ok(()) => compare(world, file, offset, &found),
        Err(error)
            if error.kind() == VolumeErrorKind::LostPage && world.is_in_order() && !world.drive_refuses() =>
        {
            Err(Stop::Violated(Invariant::Versions, format!("file {file}, page {first} is lost: {error}")))
        }
        Err(error) => Err(world.failed("read", &error)),
    };
    world.buffer = found;
    compared
}

fn compare(world: &mut World, file: usize, offset: u64, found: &[u8]) -> Result<(), Stop> {
    let page_bytes = world.scenario.page_bytes();
    let whole = world.pages_are_whole();
    let model = &mut world.models[file];
    for (page, bytes) in (offset / page_bytes..).zip(found.chunks(page_bytes as usize)) {
        let at = page * page_bytes;
        let is_whole = !whole || model.is_whole(at, bytes);
        match model.observed(at, bytes) {
            Ok(settled) => world.life.coverage.pages_settled += u64::from(settled > 0),
            Err((unit, mismatch)) => {
                let start = unit * UNIT_BYTES as u64;
                let from = (start - at) as usize;
                let bytes = &bytes[from..(from + UNIT_BYTES).min(bytes.len())];
                let text = format!(
                    "file {file}, page {page}, byte {start}: {} instead of {}",
                    pattern::describe(bytes, file as u8, start),
                    model.expectation(unit)
                );
                return Err(Stop::Violated(invariant_of(mismatch), text));
            }
        }
        if !is_whole {
            let text = format!("file {file}, page {page} mixes {}", pattern::describe(bytes, file as u8, at));
            return Err(Stop::Violated(Invariant::WholePages, text));
        }
    }
    Ok(())
}

fn invariant_of(mismatch: Mismatch) -> Invariant {
    match mismatch {
        Mismatch::WentBack(Floor::Zeroed) => Invariant::NoResurrection,
        Mismatch::WentBack(Floor::Observed) => Invariant::NoGoingBack,
        Mismatch::WentBack(Floor::New | Floor::Synced) => Invariant::Versions,
        Mismatch::Mixed => Invariant::WholePages,
        Mismatch::Other => Invariant::ReadYourWrites,
    }
}
