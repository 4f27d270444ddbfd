//! A file's backing device, and what stands in for its first bytes while a guard is there.
//!
//! # The guard, step by step
//! While a guarded file is not current on disk, its first bytes there are the guard and its true head is in
//! the sidecar (and in `shared::guards`). The steps, each durable before the next, and what a crash after
//! each leaves:
//! 1. sidecar `current` with guard and head: the disk file is whole and current, and readable by anyone.
//! 2. the guard over the head on disk: unreadable for others; the sidecar says what belongs there, and that
//!    the rest is current. The next attachment puts the head back.
//! 3. sidecar `dirty`: unreadable for others, as it must be, for from now on the tier takes dirty pages.
//!
//! Nothing is staged out in step 2: a first page that is on its way to disk as it is would take the guard
//! away.
//!
//! Then the first page may be staged out: guard and the rest of the page go to disk, and before the frame may
//! be reused (that is, before the disk sync is reported as done) the sidecar gets the new head. A crash
//! between leaves the dirty frame in the tier, which answers for the whole page, so that disk and sidecar
//! need not agree until then.
//!
//! The way back, when everything is on disk:
//! 4. sidecar `current` with guard and head: as after 2.
//! 5. the head over the guard on disk: as after 1.
//! 6. no sidecar.
//!
//! Step 5 is one write where the file is at least as long as the guard. A shorter one is also truncated to
//! its length, and a crash in between leaves it with the guard's length for others (the next attachment
//! mends it): a guard promises nothing for files that are shorter than itself.
//!
//! Readers go on meanwhile, and one may have the guard in its buffer when the head takes its place again. So
//! what was read from disk is judged by what stood there while it was read ([`OnDisk`]): if the guard was put
//! up or taken away meanwhile, it is read again.
//!
//! So a file whose sidecar says `dirty` and that does not begin with the guard was replaced by someone, and
//! is refused; one rotten byte apart (see `guard`). The guard is followed by the name of tier and file, so
//! that another guarded file is not taken for this one.

use std::path::PathBuf;

use mezzanine_device::{AlignedBuf, Device, DeviceError, Request};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::interleave::sync::{Arc, Mutex, RwLock};

use crate::batch::checksum_of;
use crate::config::GUARD_BYTES_MAX;
use crate::core::TierHost;
use crate::shared::files::FileHome;
use crate::shared::guards::is_odd;
use crate::sidecar::SidecarStore;
use crate::statistics::{Counters, count};

/// One attached file, as this process has it.
pub(crate) struct FileInner {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    /// Number within the volume: the file of its page ids.
    pub(crate) number: u32,
    pub(crate) backing: Arc<dyn Device>,
    pub(crate) sidecar: Arc<dyn SidecarStore>,
    pub(crate) resizable: bool,
    pub(crate) page_size: u64,
    /// Shared by reads and writes, exclusive to truncations and discards. What it holds is the tier that
    /// the file's pages are in: whoever reads or writes has this lock anyway, and nobody has it while
    /// the tier is replaced.
    pub(crate) layout: RwLock<Option<Arc<TierHost>>>,
    /// Held while it is made ready.
    pub(crate) arming: Mutex<()>,
    /// Held while its sidecar is replaced.
    pub(crate) replacing: Mutex<()>,
    /// The guard is being put over the file's head on disk, or taken away. Nothing else is waited for under
    /// it.
    pub(crate) guard_moves: Mutex<()>,
    /// What threads share of it.
    pub(crate) shared: FileHome,
}

/// How a file stands on disk, noted before it is read there: see [`FileInner::on_disk`].
#[derive(Clone, Copy)]
pub(crate) struct OnDisk {
    guarding: u64,
    /// Length on disk in bytes.
    pub(crate) physical: u64,
}

impl FileInner {
    pub(crate) fn len(&self) -> u64 {
        self.shared.lengths.len()
    }

    /// First block past the end.
    pub(crate) fn blocks(&self) -> u64 {
        self.len().div_ceil(self.page_size)
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.shared.guards.is_up()
    }

    /// How the file stands on disk now. To be noted before a read, which counts only if that is so
    /// afterwards.
    pub(crate) fn on_disk(&self) -> OnDisk {
        OnDisk { guarding: self.shared.guards.guarding(), physical: self.shared.lengths.physical() }
    }

    /// Whether the file on disk was shortened since: then a read up to its former end may fail.
    pub(crate) fn is_shorter_than(&self, noted: &OnDisk) -> bool {
        self.shared.lengths.physical() < noted.physical
    }

    /// Shortest length on disk: the guard must fit.
    pub(crate) fn physical_min(&self) -> u64 {
        if self.is_guarded() { self.shared.guards.guard().len() as u64 } else { 0 }
    }

    /// Fills `buf` from `offset` with what belongs there, zeros past the physical end.
    pub(crate) fn read_home(
        &self,
        buf: &mut [u8],
        offset: u64,
        counters: &Counters,
    ) -> Result<(), DeviceError> {
        loop {
            let noted = self.on_disk();
            match self.read_disk(buf, offset, &noted, counters) {
                Ok(()) if self.unmask(buf, offset, &noted) => return Ok(()),
                Err(error) if !self.is_shorter_than(&noted) => return Err(error),
                // Read again: the file has changed on disk.
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Fills `buf` with what stands on disk from `offset` on, zeros past the end noted.
    fn read_disk(
        &self,
        buf: &mut [u8],
        offset: u64,
        noted: &OnDisk,
        counters: &Counters,
    ) -> Result<(), DeviceError> {
        let available = noted.physical.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (bytes, beyond) = buf.split_at_mut(available);
        beyond.fill(0);
        if bytes.is_empty() {
            return Ok(());
        }
        count(&counters.disk_reads, 1);
        count(&counters.disk_bytes_read, bytes.len() as u64);
        self.backing.read_at(bytes, offset)
    }

    /// Puts the true head over the guard in bytes that were read from `offset`, if one stands there. False if
    /// that has changed since `noted`, which is from before the read: they may hold the guard or not, and
    /// must be read again.
    #[must_use]
    pub(crate) fn unmask(&self, buf: &mut [u8], offset: u64, noted: &OnDisk) -> bool {
        if offset >= GUARD_BYTES_MAX as u64 {
            return true;
        }
        let late = planted::is(Bug::GuardJudgedLate);
        let guarding = if late { self.shared.guards.guarding() } else { noted.guarding };
        if is_odd(guarding) {
            let head = self.shared.guards.head();
            let from = offset as usize;
            let count = buf.len().min(head.len() - from);
            buf[..count].copy_from_slice(&head[from..from + count]);
        }
        // After the copy, so that the head was the right one, too.
        self.shared.guards.guarding() == guarding
    }

    /// Writes pages of the tier to their places on disk: `pages` in ascending order of block, each whole.
    /// Contiguous ones go as one request, all of them as one batch.
    pub(crate) fn write_pages(&self, pages: &[(u64, &[u8])], counters: &Counters) -> Result<(), DeviceError> {
        let limit = self.shared.lengths.write_limit();
        let masked = self.masked_first_page(pages);
        let mut runs: Vec<(u64, Vec<&[u8]>)> = Vec::with_capacity(pages.len());
        let mut end = u64::MAX;
        let mut written = 0;
        for (block, page) in pages {
            // A block so large, which only damage can name, lies past the end of every file.
            let narrow = planted::is(Bug::OffsetsNarrow);
            let mask = if narrow { u64::from(u32::MAX) } else { u64::MAX };
            let start = block.saturating_mul(self.page_size) & mask;
            let page = if *block == 0 { masked.as_deref().unwrap_or(page) } else { page };
            let shortest = if *block == 0 { self.physical_min() } else { 0 };
            let keep = limit.saturating_sub(start).max(shortest).min(self.page_size) as usize;
            if keep == 0 {
                continue;
            }
            written += 1;
            if start == end {
                if let Some((_, run)) = runs.last_mut() {
                    run.push(&page[..keep]);
                }
            } else {
                runs.push((start, vec![&page[..keep]]));
            }
            end = start + keep as u64;
        }
        self.write_runs(&runs, counters)?;
        // Afterwards, as for the mark that a sync takes away: what is noted is on its way no longer.
        let page_size = self.page_size;
        let pages_written = runs.iter().flat_map(|(start, run)| (start / page_size..).zip(run));
        // The first page's head stands in the sidecar, and a guard in its place.
        let noted = pages_written.filter(|(block, _)| *block > 0 || masked.is_none());
        let noted: Vec<(u64, u32)> =
            noted.map(|(block, kept)| (block, checksum_of(kept, page_size as usize))).collect();
        self.shared.stage_out.batch(|batch| {
            noted.iter().for_each(|(block, checksum)| batch.wrote(*block, *checksum));
        });
        count(&counters.disk_pages_written, written);
        if masked.is_some() {
            // As on disk: what the page holds past the end of the file is from before a crash, and must not
            // come back.
            self.shared.guards.head_written(pages[0].1, limit);
        }
        Ok(())
    }

    /// The first page with the guard over its head, if it is among `pages` and a guard stands.
    fn masked_first_page(&self, pages: &[(u64, &[u8])]) -> Option<AlignedBuf> {
        let &(0, first) = pages.first()? else { return None };
        self.is_guarded().then(|| {
            let mut masked = AlignedBuf::copy_of(first);
            let guard = self.shared.guards.guard();
            masked[..guard.len()].copy_from_slice(&guard);
            masked
        })
    }

    fn write_runs(&self, runs: &[(u64, Vec<&[u8]>)], counters: &Counters) -> Result<(), DeviceError> {
        // Copying a run of pages together costs less than a second request to any disk.
        let joined: Vec<Option<AlignedBuf>> = runs.iter().map(|(_, run)| join(run)).collect();
        let mut requests: Vec<Request<'_>> = runs
            .iter()
            .zip(&joined)
            .map(|((offset, run), joined)| {
                Request::write(joined.as_deref().unwrap_or_else(|| run[0]), *offset)
            })
            .collect();
        if requests.is_empty() {
            return Ok(());
        }
        let end = requests.iter().filter_map(Request::range).map(|(offset, len)| offset + len).max();
        let bytes = requests.iter().filter_map(Request::range).map(|(_, len)| len).sum();
        count(&counters.disk_writes, requests.len() as u64);
        count(&counters.disk_bytes_written, bytes);
        let result = self.backing.run(&mut requests).into_iter().collect();
        self.grown(&result, end.unwrap_or(0));
        result
    }

    /// Notes that the disk file may have grown to `end`; after a failed write only the device knows.
    fn grown(&self, result: &Result<(), DeviceError>, end: u64) {
        match result {
            Ok(()) => self.shared.lengths.disk_grows(end),
            Err(_) => self.shared.lengths.disk_has(self.backing.len()),
        }
    }

    /// Writes bytes to disk as they are.
    pub(crate) fn write_plain(
        &self,
        buf: &[u8],
        offset: u64,
        counters: &Counters,
    ) -> Result<(), DeviceError> {
        count(&counters.disk_writes, 1);
        count(&counters.disk_bytes_written, buf.len() as u64);
        // Counted afterwards: a sync that begins earlier does not cover it.
        let result = self.shared.disk.writing(|| self.backing.write_at(buf, offset));
        self.grown(&result, offset + buf.len() as u64);
        result
    }

    /// Zeros a range of the disk, and gives its space back where that is possible.
    pub(crate) fn zero(&self, offset: u64, end: u64, counters: &Counters) -> Result<(), DeviceError> {
        let end = end.min(self.shared.lengths.physical());
        let zeros = AlignedBuf::zeroed(1 << 18);
        let mut at = offset;
        while at < end {
            let part = (end - at).min(zeros.len() as u64);
            self.write_plain(&zeros[..part as usize], at, counters)?;
            at += part;
        }
        if self.resizable && offset < end {
            // The zeros are written already, so whether the device can do this does not matter.
            let _ = self.backing.discard(offset, end - offset);
        }
        Ok(())
    }

    /// Whether something was written to disk directly that no completed sync covers.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.shared.disk.has_changes()
    }

    /// Whether there may be something on disk that was read and that no completed sync covers: also of writes
    /// that have not returned.
    pub(crate) fn may_be_unsynced(&self) -> bool {
        self.shared.disk.may_have_been_read()
    }

    /// Syncs the disk.
    pub(crate) fn flush(&self, counters: &Counters) -> Result<(), DeviceError> {
        let changed = self.shared.disk.made();
        count(&counters.disk_flushes, 1);
        self.backing.flush()?;
        self.shared.disk.covered(changed);
        Ok(())
    }

    /// Truncates the disk file to `len`, or extends it with zeros.
    pub(crate) fn resize(&self, len: u64) -> Result<(), DeviceError> {
        // Before the device has it: a reader that finds less than it was told must see why.
        self.shared.lengths.disk_shrinks(len);
        let result = self.backing.set_len(len);
        self.shared.disk.changed();
        let now = if result.is_ok() { len } else { self.backing.len() };
        self.shared.lengths.disk_has(now);
        result
    }
}

fn join(run: &[&[u8]]) -> Option<AlignedBuf> {
    if run.len() < 2 {
        return None;
    }
    let mut joined = AlignedBuf::zeroed(run.iter().map(|page| page.len()).sum());
    let mut at = 0;
    for page in run {
        joined[at..at + page.len()].copy_from_slice(page);
        at += page.len();
    }
    Some(joined)
}
