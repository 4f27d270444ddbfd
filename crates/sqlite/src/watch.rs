//! What tells a database file from another that gets into its place.
//!
//! Who writes over a file without SQLite asks for no lock. Where nobody uses the database here and its tier
//! is open, that is a restore: what the tier has of the file before must not come into it, nor may what it
//! knows of that one be read. So the file is remembered when its last user leaves, and again after each
//! change of our own; and looked at before each, and before it is used again. SQLite alone reads the change
//! counter there, which says nothing on a tier: the newest one is in memory.
//!
//! ```text
//!   USED    a connection has a lock, or nobody has looked yet: changes go by, and void what was remembered
//!   IDLE    connections, none with a lock: a look before the first change, and one after the last
//!   CLOSED  no connections, another database keeps the tier: as IDLE, one change at a time
//!
//!   USED -> IDLE `rest`    IDLE -> USED `rouse`    USED, IDLE -> CLOSED `leave`    CLOSED -> IDLE `take_up`
//! ```
//! What counts as another file:
//! 1. CLOSED, and it is opened again, or no page is known that came there: any other length, first bytes or
//!    time of the last change. Of an older copy the first bytes alone may be the same.
//! 2. IDLE, and a change in CLOSED: a refusal there ends work that goes on, of other databases of the tier
//!    too, so a time alone is no reason, which `touch` sets as well: the file is another one if its length,
//!    its first bytes, or one of the pages that came there last differ too.
//! 3. While changes of our own are under way nobody can tell, and nobody is refused.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use mezzanine_device::Request;
use mezzanine_engine::planted::{self, Bug};

/// How often a file is looked at before it counts as another one.
const LOOKS_AT_OTHER: usize = 2;
/// The first bytes that are remembered: SQLite's header, or a guard with the name of its tier and file.
const HEAD_BYTES: usize = 128;
/// Pages that came last and are remembered, and how many bytes of each.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 4096;
/// Two changes that are less than this apart may say the same time: ticks of a kernel's clock, and of a file
/// system that counts whole seconds or two.
const TICK: Duration = Duration::from_millis(20);
const COARSE_TICK: Duration = Duration::from_secs(2);

/// When the contents were changed last, in seconds and nanoseconds. Whoever changes an owner, a mode or a
/// name leaves that as it was.
type Changed = (i64, i64);

/// What is asked of the system without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outside {
    len: u64,
    changed: Changed,
}

impl From<&Metadata> for Outside {
    fn from(found: &Metadata) -> Self {
        Self { len: found.len(), changed: (found.mtime(), found.mtime_nsec()) }
    }
}

/// A file as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    head: [u8; HEAD_BYTES],
    outside: Outside,
    /// It was changed so shortly before it was looked at that another change may say the same time.
    just_changed: bool,
}

impl Left {
    /// Through the page cache, where another program's write is at once. A shorter file ends with zeros.
    fn look(file: &File) -> io::Result<Self> {
        let outside = Outside::from(&file.metadata()?);
        let mut head = [0; HEAD_BYTES];
        read(file, &mut head, 0)?;
        Ok(Self { head, outside, just_changed: is_just_now(outside.changed) })
    }

    /// As rule 1 has it.
    fn is_same(&self, left: &Self) -> bool {
        let outside = self.outside == left.outside || planted::is(Bug::OlderCopyUnnoticed);
        outside && self.head == left.head
    }
}

/// As much as there is of `bytes` from `offset` on; the rest stays as it was.
pub(crate) fn read(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_just_now((seconds, nanoseconds): Changed) -> bool {
    let tick = if nanoseconds == 0 { COARSE_TICK } else { TICK };
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds as u32);
    // A clock that is behind the file's says nothing.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since).map_or(true, |elapsed| elapsed < tick)
}

/// The beginning of a page that came to the file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    offset: u64,
    len: usize,
    checksum: u32,
}

impl Piece {
    fn is_there(&self, file: &File) -> bool {
        let mut bytes = [0; PIECE_BYTES];
        let bytes = &mut bytes[..self.len];
        // What cannot be read is not known to be another.
        read(file, bytes, self.offset).is_err() || crc32c::crc32c(bytes) == self.checksum
    }
}

/// A change of our own.
#[derive(Default)]
pub(crate) struct Change {
    /// Ranges that do not stay as they are.
    touched: Vec<Range<u64>>,
    /// What it leaves there.
    pieces: Vec<Piece>,
}

impl Change {
    pub(crate) fn of(requests: &[Request<'_>]) -> Self {
        let changes = requests.iter().filter(|request| is_change(request));
        let ranges = changes.filter_map(Request::range);
        let written = requests.iter().rev().filter_map(|request| match request {
            Request::Write { offset, buf, .. } | Request::WriteThrough { offset, buf } => {
                Some((*offset, &buf[..buf.len().min(PIECE_BYTES)]))
            }
            _ => None,
        });
        let piece = |(offset, bytes): (u64, &[u8])| Piece {
            offset,
            len: bytes.len(),
            checksum: crc32c::crc32c(bytes),
        };
        Self {
            touched: ranges.map(|(offset, len)| offset..offset.saturating_add(len)).collect(),
            pieces: written.take(PIECES).map(piece).collect(),
        }
    }

    /// The file is to end there.
    pub(crate) fn length(len: u64) -> Self {
        Self { touched: std::iter::once(len..u64::MAX).collect(), pieces: Vec::new() }
    }

    fn touches(&self, piece: &Piece) -> bool {
        let end = piece.offset + piece.len as u64;
        self.touched.iter().any(|range| range.start < end && piece.offset < range.end)
    }
}

pub(crate) fn is_change(request: &Request<'_>) -> bool {
    request.is_change()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Use {
    #[default]
    Used,
    Idle,
    Closed,
}

#[derive(Default)]
struct State {
    used: Use,
    /// Changes of our own that are under way, and how many there were so far.
    changing: usize,
    changes: u64,
    /// What the file has to be; `None` if it was changed since somebody looked.
    left: Option<Left>,
    /// Of what came there last.
    pieces: Vec<Piece>,
}

impl State {
    /// What cannot be looked at is not remembered.
    fn remember(&mut self, file: &File) {
        if self.changing == 0 && self.left.is_none() {
            self.left = Left::look(file).ok();
        }
    }

    /// Whether there is something else by now than what was left. What cannot be read is not known to be.
    fn is_other(&mut self, file: &File) -> bool {
        let Some(left) = self.left.filter(|_| self.changing == 0) else { return false };
        if self.used == Use::Closed && self.pieces.is_empty() {
            return seen_twice(|| Left::look(file).is_ok_and(|found| !found.is_same(&left)));
        }
        let same = |found: Metadata| Outside::from(&found) == left.outside && !left.just_changed;
        if file.metadata().is_ok_and(same) {
            return false;
        }
        seen_twice(|| match Left::look(file) {
            Ok(found) if self.is_excused(file, &left, &found) => {
                self.left = Some(found);
                false
            }
            Ok(_) => true,
            Err(_) => false,
        })
    }

    /// By rule 2.
    fn is_excused(&self, file: &File, left: &Left, found: &Left) -> bool {
        if planted::is(Bug::TouchedTakenForOther) {
            return found.is_same(left);
        }
        let pieces =
            || planted::is(Bug::OlderCopyExcused) || self.pieces.iter().all(|piece| piece.is_there(file));
        found.head == left.head
            && found.outside.len == left.outside.len
            && (found.outside.changed == left.outside.changed || pieces())
    }
}

fn seen_twice(mut other: impl FnMut() -> bool) -> bool {
    (0..LOOKS_AT_OTHER).all(|_| other())
}

/// See the module.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    /// Held for a change of a closed database, since each is followed by another look.
    alone: Mutex<()>,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// The first connection is about to use the database. Whether `file` is what was left, or nothing was.
    pub(crate) fn rouse(&self, file: &File) -> bool {
        let mut state = unpoisoned(&self.state);
        if !planted::is(Bug::OpenFileUnwatched) && state.is_other(file) {
            return false;
        }
        state.used = Use::Used;
        true
    }

    /// The last connection that used it does not any more.
    pub(crate) fn rest(&self, file: &File) {
        if planted::is(Bug::OpenFileUnwatched) {
            return;
        }
        let mut state = unpoisoned(&self.state);
        state.used = Use::Idle;
        state.remember(file);
    }

    /// Nobody has the database open here from now on, and its tier goes on.
    pub(crate) fn leave(&self, file: &File) {
        let mut state = unpoisoned(&self.state);
        if planted::is(Bug::CopiedOverUnnoticed) {
            (state.used, state.left) = (Use::Used, None);
            return;
        }
        // The last look that excuses a time.
        state.is_other(file);
        state.used = Use::Closed;
        state.remember(file);
    }

    /// The database is opened again.
    pub(crate) fn take_up(&self) {
        let mut state = unpoisoned(&self.state);
        if state.used == Use::Closed {
            state.used = Use::Idle;
        }
    }

    /// Whether `file` is what was left, or nobody has left it: by rule 1, since nothing is interrupted by
    /// what comes of it.
    pub(crate) fn is_as_left(&self, file: &File) -> bool {
        let state = unpoisoned(&self.state);
        let other = |left: &Left| seen_twice(|| Left::look(file).is_ok_and(|found| !found.is_same(left)));
        !state.left.as_ref().is_some_and(other)
    }

    /// Carries out a change of the file, if it is what was left.
    pub(crate) fn change<R: Outcome>(
        &self,
        file: &File,
        what: Change,
        change: impl FnOnce() -> R,
    ) -> Option<R> {
        let closed = unpoisoned(&self.state).used == Use::Closed;
        let _alone = closed.then(|| unpoisoned(&self.alone));
        let before = {
            let mut state = unpoisoned(&self.state);
            if state.used != Use::Used && state.is_other(file) {
                return None;
            }
            state.left = None;
            state.pieces.retain(|piece| !what.touches(piece));
            state.changing += 1;
            state.changes += 1;
            (state.changing == 1).then_some(state.changes)
        };
        let changed = change();
        // Of two that were under way together nobody knows which came last.
        let pieces = if changed.is_whole() { what.pieces } else { Vec::new() };
        let mut state = unpoisoned(&self.state);
        if before == Some(state.changes) {
            let kept = PIECES.saturating_sub(pieces.len());
            let superfluous = state.pieces.len().saturating_sub(kept);
            state.pieces.drain(..superfluous);
            state.pieces.extend(pieces);
        }
        state.changing -= 1;
        if state.used != Use::Used {
            state.remember(file);
        }
        Some(changed)
    }
}

/// What a change has come to.
pub(crate) trait Outcome {
    /// Whether all of it is there.
    fn is_whole(&self) -> bool;
}

impl<E> Outcome for Result<(), E> {
    fn is_whole(&self) -> bool {
        self.is_ok()
    }
}

impl<E> Outcome for Vec<Result<(), E>> {
    fn is_whole(&self) -> bool {
        self.iter().all(Result::is_ok)
    }
}
