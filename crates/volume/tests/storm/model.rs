//! What each sector of the files may read as, while any number of threads change them at once.
//!
//! A sector's *operations* are the writes, truncations and discards that covered it, each with the moment at
//! which it was called and the one at which it had returned. A read may find what an operation left
//! 1. that was called before the read returned, and
//! 2. that was not followed, wholly before the read was called, by another one that was called after it had
//!    returned.
//!
//! What has been read took effect by then at the latest: so the second of two reads never finds what is older
//! than what the first has found. After a crash the call of the last sync that was acknowledged stands for
//! the read: what had returned by then is durable, and so is a truncation or a discard when it has returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mezzanine_volume::{VolumeErrorKind, VolumeFile};

use crate::common::PAGE;

pub const SECTOR: usize = 512;
pub const PAGES: u64 = 120;
pub const SECTORS: u64 = PAGES * (PAGE / SECTOR) as u64;
/// Threads that read.
pub const READERS_MAX: usize = 4;
/// Operations of a sector that are kept before it is looked which of them count no more.
const KEPT: usize = 24;
/// Steps of the operator that a failure tells.
const STORY: usize = 16;
const NOT_YET: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Operation {
    /// 0 for zeros.
    version: u64,
    called: u64,
    /// When it had taken effect at the latest: it had returned, or was read.
    done: u64,
    returned: u64,
    /// It is durable when it has returned.
    durable: bool,
    /// The sectors that it covered, as far as they were changed together.
    covers: (u64, u64),
}

impl Operation {
    /// What was found when nobody was at work, whatever had brought it about.
    fn at_first(version: u64, sector: u64) -> Self {
        Self { version, called: 0, done: 0, returned: 0, durable: true, covers: (sector, sector + 1) }
    }

    /// Whether it changed these two sectors.
    fn changed_both(&self, one: u64, other: u64) -> bool {
        let covers = self.covers.0..self.covers.1;
        covers.contains(&one) && covers.contains(&other)
    }
}

/// One file.
pub struct FileModel {
    number: u64,
    sectors: Vec<Mutex<Vec<Operation>>>,
    /// When the last sync that was acknowledged was called.
    synced: AtomicU64,
}

pub struct Model {
    pub files: Vec<FileModel>,
    clock: AtomicU64,
    versions: AtomicU64,
    /// What the operator did last, and when.
    story: Mutex<VecDeque<String>>,
    /// When the read was called that each reader carries out.
    reading: [AtomicU64; READERS_MAX],
}

/// A change that was called.
pub struct Change {
    pub version: u64,
    called: u64,
    first: u64,
    end: u64,
}

/// The bytes of a sector.
pub fn fill(file: u64, sector: u64, version: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let word = file << 56 | sector << 40 | version;
    bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word.to_le_bytes()));
    bytes
}

fn version_in(bytes: &[u8], file: u64, sector: u64, context: &dyn Fn() -> String) -> u64 {
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(
        bytes.chunks_exact(8).all(|part| part == &bytes[..8]),
        "{}: sector {sector} of file {file} is a mixture",
        context()
    );
    assert!(
        word == 0 || word >> 40 == file << 16 | sector,
        "{}: sector {sector} of file {file} holds {word:#x}",
        context()
    );
    word & 0xFF_FFFF_FFFF
}

impl Model {
    pub fn new(files: u64) -> Self {
        let fresh = |sector| Mutex::new(vec![Operation::at_first(0, sector)]);
        let file = |number| FileModel {
            number,
            sectors: (0..SECTORS).map(fresh).collect(),
            synced: AtomicU64::new(0),
        };
        Self {
            files: (0..files).map(file).collect(),
            clock: AtomicU64::new(1),
            versions: AtomicU64::new(1),
            story: Mutex::default(),
            reading: [const { AtomicU64::new(NOT_YET) }; READERS_MAX],
        }
    }

    /// Notes something that the operator does.
    pub fn note(&self, what: &str) {
        let now = self.now();
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.push_back(format!("{now} {what}"));
        if story.len() > STORY {
            story.pop_front();
        }
    }

    /// What a message begins with.
    fn story(&self, context: &str) -> String {
        let story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{context}, after {story:?}")
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A change of sectors `first..end` is about to be called: a write, or with zeros something that is
    /// durable on return.
    pub fn call(&self, file: usize, first: u64, end: u64, zeros: bool) -> Change {
        let version = if zeros { 0 } else { self.versions.fetch_add(1, Ordering::SeqCst) };
        let called = self.now();
        let change = Change { version, called, first, end: end.min(SECTORS) };
        let oldest = self.reading.iter().map(|read| read.load(Ordering::SeqCst)).min().unwrap_or(NOT_YET);
        let file = &self.files[file];
        let oldest = oldest.min(file.synced.load(Ordering::SeqCst));
        for sector in change.first..change.end {
            let mut operations = file.sectors[sector as usize].lock().unwrap_or_else(PoisonError::into_inner);
            if operations.len() > KEPT {
                let known = operations.clone();
                operations.retain(|one| !is_followed(one, &known, |other| other.returned < oldest));
            }
            operations.push(Operation {
                version,
                called,
                done: NOT_YET,
                returned: NOT_YET,
                durable: zeros,
                covers: (change.first, change.end),
            });
        }
        change
    }

    /// The change has returned.
    pub fn returned(&self, file: usize, change: &Change) {
        let now = self.now();
        for sector in change.first..change.end {
            let mut operations =
                self.files[file].sectors[sector as usize].lock().unwrap_or_else(PoisonError::into_inner);
            let same = |one: &&mut Operation| (one.version, one.called) == (change.version, change.called);
            if let Some(one) = operations.iter_mut().find(same) {
                one.done = one.done.min(now);
                one.returned = now;
            }
        }
    }

    /// Syncs a file by `sync`. False if that failed.
    pub fn sync(&self, file: usize, sync: impl FnOnce() -> bool) -> bool {
        let called = self.now();
        let done = sync();
        if done {
            self.files[file].synced.fetch_max(called, Ordering::SeqCst);
        }
        done
    }

    /// Everything that has returned is durable.
    pub fn all_durable(&self) {
        let now = self.now();
        self.files.iter().for_each(|file| file.synced.store(now, Ordering::SeqCst));
    }

    /// Reads sectors `first..end` of a file and judges them.
    pub fn read(
        &self,
        reader: usize,
        (number, handle): (usize, &VolumeFile),
        (first, end): (u64, u64),
        context: &str,
    ) -> Result<(), mezzanine_volume::VolumeError> {
        // Nothing is forgotten between the two.
        self.reading[reader].store(0, Ordering::SeqCst);
        let called = self.now();
        self.reading[reader].store(called, Ordering::SeqCst);
        let mut found = vec![0xEE; (end - first) as usize * SECTOR];
        let read = handle.read_at(&mut found, first * SECTOR as u64);
        let returned = self.now();
        let read = match read {
            Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => Err(error),
            _ => {
                let file = &self.files[number];
                let story = || self.story(context);
                let judged: Vec<(u64, Operation)> = (first..end)
                    .zip(found.chunks_exact(SECTOR))
                    .map(|(sector, bytes)| {
                        (sector, file.judge(sector, bytes, (called, returned), false, &story))
                    })
                    .collect();
                let page = |(sector, _): &(u64, Operation)| sector / (PAGE / SECTOR) as u64;
                judged.chunk_by(|one, other| page(one) == page(other)).for_each(|page| whole(page, &story));
                Ok(())
            }
        };
        self.reading[reader].store(NOT_YET, Ordering::SeqCst);
        read
    }

    /// Judges a file after a crash, and goes on with what it holds. Nobody else is at work.
    pub fn recover(&self, number: usize, handle: &VolumeFile, context: &str) {
        let file = &self.files[number];
        let synced = file.synced.load(Ordering::SeqCst);
        for page in 0..PAGES {
            let mut found = vec![0xEE; PAGE];
            match handle.read_at(&mut found, page * PAGE as u64) {
                Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => {
                    panic!("{context}: {error}")
                }
                _ => {}
            }
            for (at, bytes) in found.chunks_exact(SECTOR).enumerate() {
                let sector = page * (PAGE / SECTOR) as u64 + at as u64;
                let Operation { version, .. } =
                    file.judge(sector, bytes, (synced, NOT_YET), true, &|| self.story(context));
                *file.sectors[sector as usize].lock().unwrap_or_else(PoisonError::into_inner) =
                    vec![Operation::at_first(version, sector)];
            }
        }
    }
}

/// Whether one of `others` that `counts` was called after `one` was done.
fn is_followed(one: &Operation, others: &[Operation], counts: impl Fn(&Operation) -> bool) -> bool {
    others.iter().any(|other| other.called > one.done && counts(other))
}

/// A page is read as it was before or after any write of it: no two writes that changed the same two sectors
/// are found in one each.
fn whole(page: &[(u64, Operation)], context: &dyn Fn() -> String) {
    for (at, (one, left)) in page.iter().enumerate() {
        for (other, right) in &page[at + 1..] {
            let written = left.version != 0 && right.version != 0 && left.version != right.version;
            let mixed = written && left.changed_both(*one, *other) && right.changed_both(*one, *other);
            assert!(
                !mixed,
                "{}: sectors {one} and {other} are a mixture of {left:?} and {right:?}",
                context()
            );
        }
    }
}

impl FileModel {
    /// Judges what a read found in a sector, and returns what brought it there.
    fn judge(
        &self,
        sector: u64,
        bytes: &[u8],
        (called, returned): (u64, u64),
        crashed: bool,
        context: &dyn Fn() -> String,
    ) -> Operation {
        let version = version_in(bytes, self.number, sector, context);
        let mut operations = self.sectors[sector as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |other: &Operation| match crashed {
            false => other.done < called,
            true => other.returned < called || other.durable && other.returned != NOT_YET,
        };
        let possible = |one: &Operation| {
            one.version == version && one.called < returned && !is_followed(one, &operations, holds)
        };
        let found: Vec<usize> = (0..operations.len()).filter(|&at| possible(&operations[at])).collect();
        assert!(
            !found.is_empty(),
            "{}: sector {sector} of file {} is of version {version} in a read from {called} to {returned}{}: \
             {operations:?}",
            context(),
            self.number,
            if crashed { " after a crash" } else { "" }
        );
        if let ([one], false) = (&found[..], crashed) {
            operations[*one].done = operations[*one].done.min(returned);
        }
        operations[found[0]]
    }
}
