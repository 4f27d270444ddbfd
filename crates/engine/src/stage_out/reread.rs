//! What flash did not give back whole is read again, before anybody draws a conclusion.
//!
//! A read of many frames fails as a whole for one bad sector, an error may pass by, and a device may answer
//! nothing for a while: a controller that is reset, a path that changes. So each page that is not whole is
//! read again by itself, in two rounds, each read a job of its own. If the last read of a round fails,
//! other places are read, the *probes* (`Geometry::probes`): whether the device answers at all.
//!
//! ```text
//!   READING --> all whole ----------------------------------------------------------------> listed
//!      |                                                                                      ^
//!      +--> first round --> probe --> second round --> probe --> what is not whole is judged -+
//!                             |                          |
//!                             +--- nothing answers ------+----> SILENT: nothing is lost, writing ends
//! ```
//!
//! So a page counts as unreadable only if the device answered between the two reads of it and after the
//! second one.

use crate::config::{PAGE_SIZE_MIN, PROBES, probes_asked};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::format::{GroupSummary, SUPERBLOCK_BYTES};
use crate::ids::Position;
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::batch::Load;

/// Nothing of the batch is read again.
pub(crate) const NOT_AGAIN: u64 = 0;
/// All that had to be was read again.
const READ_AGAIN: u64 = u64::MAX;
/// As [`READ_AGAIN`], and the device answered nothing.
const SILENT: u64 = u64::MAX - 1;
/// How often a page is read by itself before it counts as unreadable.
const ROUNDS: u64 = 2;

// A probe takes the place of a page.
const _: () = assert!(SUPERBLOCK_BYTES <= PAGE_SIZE_MIN as usize);

/// What is read by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    /// A page or frame.
    Page,
    /// One of the probes.
    Probe(usize),
}

/// One read by itself.
#[derive(Clone, Copy)]
struct Step {
    round: u64,
    alone: Alone,
    /// Of the page, among those of the batch; of a probe, that of a page that is not whole, in whose place it
    /// goes.
    index: u64,
}

impl Step {
    /// Kinds of reads in a code: the probes, and a page.
    const KINDS: u64 = PROBES as u64 + 1;

    /// As a word of the region, between [`NOT_AGAIN`] and [`SILENT`].
    fn code(self) -> u64 {
        let kind = match self.alone {
            Alone::Page => Self::KINDS - 1,
            Alone::Probe(probe) => probe as u64,
        };
        1 + (self.index * Self::KINDS + kind) * ROUNDS + self.round
    }

    fn from_code(code: u64) -> Option<Self> {
        if matches!(code, NOT_AGAIN | READ_AGAIN | SILENT) {
            return None;
        }
        let (round, rest) = ((code - 1) % ROUNDS, (code - 1) / ROUNDS);
        let (index, kind) = (rest / Self::KINDS, rest % Self::KINDS);
        let alone = if kind == Self::KINDS - 1 { Alone::Page } else { Alone::Probe(kind as usize) };
        Some(Self { round, alone, index })
    }
}

impl Tier {
    /// What ReadFront reads if it reads something alone: (flash offset, region offset, bytes).
    pub(crate) fn read_alone(&self) -> Option<(u64, usize, usize)> {
        let step = Step::from_code(self.control().batch.again.get())?;
        let page = self.batch_page_at(step.index)?;
        let memory = self.batch_memory(page.place);
        Some(match step.alone {
            Alone::Page => (self.offset_of(page.position), memory, self.geometry.page_size()),
            Alone::Probe(probe) => (self.geometry.probes()[probe], memory, SUPERBLOCK_BYTES),
        })
    }

    /// Whether the device answered nothing, none of the probes either, when the batch was read.
    pub(crate) fn flash_is_silent(&self) -> bool {
        self.control().batch.again.get() == SILENT
    }

    /// Something of what was read is not whole, or the last read `failed`. True if something is now to be
    /// read by itself; false when all that had to be has been.
    pub(crate) fn read_again(&self, failed: bool) -> bool {
        let control = self.control();
        let next = match Step::from_code(control.batch.again.get()) {
            None => {
                control.batch.was_read(failed);
                self.first_of_round(0)
            }
            Some(Step { round, alone: Alone::Page, index }) => self.next_in_round(round, index + 1, failed),
            Some(Step { round, alone: Alone::Probe(probe), index }) if failed => {
                if probe + 1 == probes_asked() {
                    control.batch.again.set(SILENT);
                    return false;
                }
                Some(Step { round, alone: Alone::Probe(probe + 1), index })
            }
            Some(Step { round, .. }) => self.first_of_round(round + 1),
        };
        let Some(next) = next else {
            control.batch.again.set(READ_AGAIN);
            return false;
        };
        let _guard = control.lock.lock(self.owner);
        control.batch.again.set(next.code());
        planted::inside("batch: something to be read again");
        control.batch.to_reread();
        true
    }

    fn first_of_round(&self, round: u64) -> Option<Step> {
        let rounds = match () {
            () if planted::is(Bug::RunNotReadAgain) => 0,
            () if planted::is(Bug::UnreadableAtOnce) => 1,
            () => ROUNDS,
        };
        let index = self.next_unread(0).filter(|_| round < rounds)?;
        Some(Step { round, alone: Alone::Page, index })
    }

    /// The next page of a round. Behind its last one comes the probe, or the next round if all is whole or
    /// that last read did not `fail`.
    fn next_in_round(&self, round: u64, from: u64, failed: bool) -> Option<Step> {
        let page = self.next_unread(from).map(|index| Step { round, alone: Alone::Page, index });
        let probe = || self.next_unread(0).filter(|_| failed);
        page.or_else(|| probe().map(|index| Step { round, alone: Alone::Probe(0), index }))
            .or_else(|| self.first_of_round(round + 1))
    }

    /// The first of the batch's pages, from an index on, that something is to be done for and that is not
    /// what belongs there.
    fn next_unread(&self, from: u64) -> Option<u64> {
        let pages = (from..).map_while(|index| Some((index, self.batch_page_at(index)?)));
        pages.filter(|(_, page)| self.is_wanted_whole(*page)).map(|(index, _)| index).next()
    }

    /// The batch's page or frame with this index.
    fn batch_page_at(&self, index: u64) -> Option<BatchPage> {
        let control = self.control();
        if !control.batch.carries(Load::Groups) {
            return self.batch_list().nth(index as usize);
        }
        let position = control.batch.position() + index;
        (position < control.batch.end()).then_some(BatchPage { position, place: index })
    }

    /// Whether something has to be done for what lies in the batch's buffer at this place, and it is not what
    /// belongs there.
    fn is_wanted_whole(&self, page: BatchPage) -> bool {
        let control = self.control();
        if !control.batch.carries(Load::Groups) {
            return self.position_needs_disk(page.position) && !self.batch_page_whole(page);
        }
        let failed = control.batch.has_failed();
        let of_group =
            self.batch_groups().find(|(group, head)| page.position < self.pages_of(*group, head).end);
        let Some((group, head)) = of_group else { return false };
        if page.position < self.page_position(group, 0) {
            // Without the summary there are no second chances, and a place that cannot be read is to be
            // known.
            return failed && self.reads_whole_groups() && !self.batch_summary_whole(group, &head);
        }
        // Where the read failed the frames of dead pages are looked at as well: one of them is bad.
        let looked_at = failed && self.reads_whole_groups() && !self.holds_nothing(page);
        (looked_at || self.matters(page.position, failed)) && !self.batch_page_whole(page)
    }

    /// Whether the summary of one of the batch's groups was read, all of it.
    pub(crate) fn batch_summary_whole(&self, group: Position, head: &GroupHead) -> bool {
        self.batch_summary(group, head).is_some()
    }

    /// The summary of one of the batch's groups, if it was read and is that group's: its bytes, and the
    /// number of its records.
    pub(crate) fn batch_summary(&self, group: Position, head: &GroupHead) -> Option<(&[u8], usize)> {
        let bytes = self.geometry.summary_frames() as usize * self.geometry.page_size();
        let summary = self.batch_bytes(group - self.control().batch.position(), bytes);
        let (header, checksum) = GroupSummary::decode(summary).ok()?;
        let same = checksum == head.checksum && header.sequence == head.sequence;
        same.then_some((summary, header.records as usize))
    }
}
