//! What a sidecar names of its disk, and where that is right no longer.
//!
//! A sidecar that says `dirty` names pages as stage-out wrote them last. The disk may be ahead of that: the
//! next version of a page is there when the power fails, and the sidecar has not been replaced since. Then
//! the tier has that version too, and nothing is looked at; but if the tier has lost it, the disk looks like
//! an older one that was put back. So it is where the disk was cut, and the tier has lost the length to which
//! it was. These are the only histories in which the right file may be refused as a changed one, and they
//! begin with a write to the disk of the page that is named, or a cut of it. Those are noted here, by what
//! goes to the disk and without a word from the software.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::memory::{Image, MemoryDevice};
use mezzanine_device::{Capabilities, Device, DeviceError, Request};

use super::holes::Hole;

/// No page is smaller, and each begins at a multiple of this.
const PIECE_BYTES: u64 = 4096;

/// The pieces that a range touches.
fn pieces(range: &Range<u64>) -> Range<u64> {
    range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES)
}

/// Pieces of a file, as the volume counts.
pub(super) type Pieces = BTreeSet<u64>;

#[derive(Default)]
struct Noted {
    hole: Hole,
    pieces: Pieces,
}

/// Where a disk was written or cut since it was as its sidecar names it.
#[derive(Clone, Default)]
pub(super) struct Overwritten(Arc<Mutex<Noted>>);

impl Overwritten {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts_with(&self, hole: Hole) {
        self.noted().hole = hole;
    }

    pub(super) fn pieces(&self) -> Pieces {
        self.noted().pieces.clone()
    }

    pub(super) fn set(&self, pieces: Pieces) {
        self.noted().pieces = pieces;
    }

    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        self.noted().pieces.range(pieces(range)).next().is_some()
    }

    fn wrote(&self, range: &Range<u64>) {
        self.noted().pieces.extend(pieces(range));
    }

    /// What lies in the hole is named by no sidecar.
    fn cut(&self, range: &Range<u64>) {
        let hole = self.noted().hole;
        for part in [range.start..range.end.min(hole.at), range.start.max(hole.at + hole.bytes)..range.end] {
            if !part.is_empty() {
                self.wrote(&part);
            }
        }
    }

    /// The sidecar was replaced: what it names, if the disk has it so now, and what it does not name need not
    /// be noted any more.
    pub(super) fn named(&self, sidecar: &[u8], disk: &MemoryDevice) {
        let mut noted = self.noted();
        if noted.pieces.is_empty() {
            return;
        }
        let (page_bytes, named) = names(sidecar);
        let hole = noted.hole;
        let ahead = |(block, checksum): (u64, u32)| {
            let at = block.checked_mul(page_bytes)?;
            let range = at..at.checked_add(page_bytes)?;
            let same = disk.view(|image| checksum_at(image, hole, &range)) == checksum;
            (!same).then_some(range)
        };
        let ahead: Pieces = named.into_iter().filter_map(ahead).flat_map(|page| pieces(&page)).collect();
        noted.pieces.retain(|piece| ahead.contains(piece));
    }
}

/// The page size, and the pages that a sidecar names: block and CRC-32C (docs/format.md, *Sidecars*).
fn names(sidecar: &[u8]) -> (u64, Vec<(u64, u32)>) {
    let text = String::from_utf8_lossy(sidecar);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let one = |page: &str| {
        let (block, checksum) = page.split_once(':')?;
        Some((block.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
    };
    let named = field("written ").split(',').filter_map(one).collect();
    (field("page-size ").parse().unwrap_or(0), named)
}

/// The checksum of a page of the file on disk, filled up with zeros.
fn checksum_at(image: &Image, hole: Hole, page: &Range<u64>) -> u32 {
    let len = (page.end - page.start) as usize;
    let inside = page.start >= hole.at && page.start < hole.at + hole.bytes;
    let start = if page.start < hole.at { page.start } else { page.start.saturating_sub(hole.bytes) };
    let start = if inside { image.len() } else { (start as usize).min(image.len()) };
    let kept = image.range(start..(start + len).min(image.len()));
    crc32c::crc32c_append(crc32c::crc32c(&kept), &vec![0; len - kept.len()])
}

/// A disk whose writes and cuts are noted.
pub(super) struct NotedDisk {
    pub(super) inner: Arc<dyn Device>,
    pub(super) overwritten: Overwritten,
}

impl NotedDisk {
    /// Before it is written: also what fails may be there.
    fn note(&self, request: &Request<'_>) {
        if let (Request::Write { .. }, Some((offset, len))) = (request, request.range()) {
            self.overwritten.wrote(&(offset..offset + len));
        }
    }
}

impl Device for NotedDisk {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        batch.iter().for_each(|request| self.note(request));
        self.inner.run(batch)
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        self.note(&request);
        self.inner.run_one(request)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.overwritten.cut(&(len..self.inner.len()));
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
