//! A page that a runner reads while an operation of the life is carried out.
//!
//! The operation may be any: a write of this very page, a switch of the sync mode, a stop of admission, a
//! replacement, a drain. The page reads as before or as after; and what the reader offers to the tier as a
//! clean page is met by whoever reads the page next.

use std::sync::{Arc, Mutex, PoisonError};

use mezzanine_ground::interleave::turns;
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::VolumeError;

use super::checkers::pages;
use super::pattern;
use super::world::{Session, World, trace};
use crate::crash::driver::{Invariant, Stop};

type Found = Arc<Mutex<Option<Result<Vec<u8>, VolumeError>>>>;

/// A read that is under way.
pub(super) struct Reading {
    file: usize,
    page: u64,
    before: Vec<u8>,
    found: Found,
}

/// Has a runner read a page beside the next operation, now and then.
pub(super) fn begin(world: &mut World, session: &Session) -> Result<Option<Reading>, Stop> {
    read(world, session, 6, 4)
}

/// Carries out a change of the tier as a whole, beside which the first page of a file is read: where a guard
/// stands, or stood.
pub(super) fn across(
    world: &mut World,
    session: &Session,
    change: impl FnOnce(&mut World, &Session) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let reading = read(world, session, 1, 1)?;
    change(world, session)?;
    end(world, reading)
}

/// In one case of `seldom`; in one of `spread` of these the first page of a file, else any.
fn read(world: &mut World, session: &Session, seldom: u64, spread: u64) -> Result<Option<Reading>, Stop> {
    if world.runners.is_none() {
        return Ok(None);
    }
    let mut aside = Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x6265_7369_6465 ^ seldom));
    if !aside.chance(1, seldom) {
        return Ok(None);
    }
    let page_bytes = world.scenario.page_bytes();
    let file = aside.below(world.models.len() as u64) as usize;
    let pages = if aside.chance(1, spread) { 1 } else { world.scenario.pages_max };
    let page = aside.below(pages);
    let offset = page * page_bytes;
    if offset + page_bytes > world.models[file].len() {
        return Ok(None);
    }
    pages::settle(world, session, file, offset, page_bytes)?;
    let mut before = vec![0; page_bytes as usize];
    world.models[file].present_bytes(offset, &mut before);
    let found = Found::default();
    let (result, source) = (Arc::clone(&found), session.files[file].clone());
    let read = move || {
        let mut bytes = vec![0xEE; page_bytes as usize];
        let read = source.read_up_to(&mut bytes, offset).map(|_| bytes);
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    };
    trace!(world, "page {page} of file {file} is read beside this:");
    if let Some(runners) = &world.runners {
        runners.ask(Box::new(read));
    }
    Ok(Some(Reading { file, page, before, found }))
}

/// The operation is over: waits for the read, and compares what it found.
pub(super) fn end(world: &mut World, reading: Option<Reading>) -> Result<(), Stop> {
    let Some(Reading { file, page, before, found }) = reading else { return Ok(()) };
    let take = || found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let found = loop {
        if let Some(found) = take() {
            break found;
        }
        turns::wait();
    };
    let found = world.done("read", found)?;
    let page_bytes = world.scenario.page_bytes();
    let offset = page * page_bytes;
    // What an operation that failed has changed, and what lies past the end, is looked at elsewhere.
    if world.has_fault_struck() || offset + page_bytes > world.models[file].len() {
        return Ok(());
    }
    let mut after = vec![0; page_bytes as usize];
    world.models[file].present_bytes(offset, &mut after);
    world.life.coverage.reads_beside += 1;
    if found == before || found == after {
        return Ok(());
    }
    let [found, before, after] =
        [found, before, after].map(|bytes| pattern::describe(&bytes, file as u8, offset));
    let text =
        format!("file {file}, page {page}, read beside an operation: {found} instead of {before} or {after}");
    Err(Stop::Violated(Invariant::ReadYourWrites, text))
}
