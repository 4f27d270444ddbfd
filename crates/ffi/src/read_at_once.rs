//! Several pages are read at once: one batch for the flash device, and one request for what lies side by side
//! there. A process of the server has no threads, so the requests of a batch overlap where the system has
//! io_uring, and on a modelled device; elsewhere they go one after the other.
//!
//! 1. Whatever is in doubt stays undecided, and is read by itself: an error, a wrong checksum, a frame that
//!    went to another page. So all rules for pages that flash does not give back stand in one place
//!    ([`Host::read`]).
//! 2. A page counts as read if its frame still held it *after* the read.

use mezzanine_device::{AlignedBuf, DeviceError, Request, runs};
use mezzanine_engine::{FlashPage, Lookup, PageId};

use crate::host::{FlashIo, Host};

/// What became of one of several pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// To be read by itself.
    Undecided,
    /// It was copied to its buffer, from memory.
    FromMemory,
    /// It was read from flash.
    FromFlash,
    /// The disk has it.
    OnDisk,
}

impl Host {
    /// Reads pages as far as the tier has them, each to its buffer. What a buffer has of a page that is not
    /// here says nothing.
    ///
    /// # Panics
    /// If there are not as many buffers as pages, or one has another length than a page.
    pub fn read_at_once(&self, ids: &[PageId], buffers: &mut [&mut [u8]]) -> Vec<AtOnce> {
        assert_eq!(ids.len(), buffers.len(), "a buffer for each page");
        let mut found = Vec::with_capacity(ids.len());
        let mut on_flash = Vec::new();
        let pages = ids.iter().copied().zip(buffers.iter_mut().map(|buffer| &mut **buffer));
        let mut looked_up = Vec::with_capacity(ids.len());
        self.tier().lookup_each(pages, |one| looked_up.push(one));
        for (index, ((id, buffer), looked_up)) in ids.iter().zip(&mut *buffers).zip(looked_up).enumerate() {
            self.outdate_ahead(id, &looked_up);
            found.push(match looked_up {
                Lookup::Memory => AtOnce::FromMemory,
                Lookup::Miss(_) => AtOnce::OnDisk,
                Lookup::Flash(page) if self.take_ahead(id, &page, buffer) => AtOnce::FromFlash,
                Lookup::Flash(page) => {
                    on_flash.push((index, page));
                    AtOnce::Undecided
                }
            });
        }
        if !on_flash.is_empty() {
            self.read_frames(&on_flash, buffers, &mut found);
        }
        found
    }

    fn read_frames(&self, on_flash: &[(usize, FlashPage)], buffers: &mut [&mut [u8]], found: &mut [AtOnce]) {
        let page_size = self.geometry().page_size();
        // Side by side on flash and in the call.
        let runs = runs(on_flash.iter().map(|(_, page)| Some(((), page.offset))), page_size as u64);
        // A single page is read to its place; several are divided among theirs.
        let mut joined: Vec<AlignedBuf> = runs
            .iter()
            .filter(|run| run.pieces() > 1)
            .map(|run| AlignedBuf::zeroed(run.pieces() * page_size))
            .collect();
        let results = {
            let mut joined = joined.iter_mut();
            let mut places: Vec<Option<&mut &mut [u8]>> = buffers.iter_mut().map(Some).collect();
            let mut batch: Vec<Request<'_>> = Vec::with_capacity(runs.len());
            for run in &runs {
                let buf: Option<&mut [u8]> = match run.pieces() {
                    1 => places[on_flash[run.first].0].take().map(|place| &mut **place),
                    _ => joined.next().map(|buf| &mut **buf),
                };
                batch.extend(buf.map(|buf| Request::Read { offset: run.offset, buf }));
            }
            self.run_reads(&mut batch)
        };
        let mut joined = joined.iter();
        for (run, result) in runs.iter().zip(results) {
            let together = if run.pieces() > 1 { joined.next() } else { None };
            let pages = &on_flash[run.first..run.end];
            for (number, (index, page)) in pages.iter().enumerate() {
                if let Some(together) = together {
                    buffers[*index].copy_from_slice(&together[number * page_size..][..page_size]);
                }
                // The frame first: what has gone to another page is not damaged.
                if result.is_ok() && self.tier().confirm(page) && self.tier().verify(page, buffers[*index]) {
                    found[*index] = AtOnce::FromFlash;
                }
            }
        }
    }

    fn run_reads(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.server.flash_begins(FlashIo::Read);
        let results = self.flash.run(batch);
        self.server.flash_ended(FlashIo::Read);
        results
    }
}
