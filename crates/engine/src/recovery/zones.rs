//! Rests of zones in which nothing lies (invariant 13).
//!
//! A crash may leave more on flash than the queue has: a group that is torn, or that came behind one which is
//! missing. On zones it cannot be written over. So the queue goes on at the next zone, and the positions in
//! between, the *rest*, hold nothing. Nothing on flash names a rest: it follows from where groups lie. The
//! group behind it says by its sequence number, and by its predecessor's checksum, that none lies between.
//!
//! ```text
//!        group n-1     what the crash left    unwritten    | group n
//!   -- +-------------+----------------------+--------------+-------------- --
//!      |             | perhaps "group n" of  |              | of the epoch that began with
//!      |             | an earlier epoch      |              | the recovery, or of a later one
//!   -- +-------------+----------------------+--------------+-------------- --
//!                    ^ end of the queue then                ^ where a zone begins
//! ```
//!
//! In the directory a rest is the head of a group without pages of anybody. The front passes it together with
//! the group before ([`Tier::behind_rest`]): where it stands a group begins, of which segments need not say
//! the number, and so what lies there is never a rest.

use super::groups::Unread;
use super::{Chain, Found, ReadError, RecoveryError, Scan, damaged};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::format::{GroupSummary, SUMMARY_MAGIC};
use crate::ids::{Position, Sequence};
use crate::planted::{self, Bug};

/// The group that was found last where a zone begins: rests of one zone are asked for again and again.
#[derive(Default)]
pub(super) struct ZoneHead(Option<(Position, Result<Head, ReadError>)>);

/// What a zone begins with.
#[derive(Clone, Copy)]
enum Head {
    /// A group of this tier, with its number and epoch.
    Group(Sequence, u32),
    /// What begins like a group's summary and is none: torn, or rotten.
    Damaged,
    Nothing,
}

/// Of two places where a group may lie one could not be read or is damaged, and the group at the other was
/// taken for the queue's.
pub(super) struct Doubt {
    /// What is no group of the queue does not reach behind this position, if that is known.
    behind: Option<Position>,
    /// What stands in the way.
    cause: RecoveryError,
}

/// Tells a place that cannot be read from whatever ends a recovery.
fn readable<T>(read: Result<T, RecoveryError>) -> Result<Result<T, ReadError>, RecoveryError> {
    match read {
        Ok(found) => Ok(Ok(found)),
        Err(RecoveryError::Read(unread)) => Ok(Err(unread)),
        Err(error) => Err(error),
    }
}

impl Tier {
    /// Nothing lies between these positions, the end of the queue and the beginning of a zone.
    pub(super) fn leave_rest(&self, from: Position, to: Position, front: Position) {
        if from >= to || from < front {
            return;
        }
        let frames = to - from;
        let pages = (frames - self.geometry.summary_frames()) as u32;
        let head = GroupHead { sequence: Sequence::ZERO, pages, records: 0, checksum: 0 };
        self.directory().set_head(self.entry_of(from), &head);
    }
}

impl Tier {
    /// Where the front goes on that has passed the group which ends here: behind the rest of the zone, if one
    /// was left.
    pub(crate) fn behind_rest(&self, end: Position) -> Position {
        let passed = self.is_rest(end) && !planted::is(Bug::FrontBeforeRest);
        if passed { self.geometry.zone_end(end) } else { end }
    }

    /// Whether a rest begins here.
    pub(crate) fn is_rest(&self, position: Position) -> bool {
        // The first group of all begins a zone.
        if self.geometry.zone_end(position) == position || position >= self.control().ends.staged_from() {
            return false;
        }
        let head = self.directory().head(self.entry_of(position));
        head.is_some_and(|head| head.sequence == Sequence::ZERO)
    }
}

impl Scan<'_, '_> {
    /// Where a zone begins behind the one that this position lies in; `None` without zones, and where one
    /// begins right here.
    pub(super) fn next_zone(&self, position: Position) -> Option<Position> {
        Some(self.geometry.zone_end(position)).filter(|end| *end > position)
    }

    /// The group at this position, or where the next zone begins, if the queue went on there.
    ///
    /// There may be whole ones at both. What a crash has left here has no smaller number than the group
    /// behind the rest, and an earlier epoch. (A later one has the group here if the device could not say how
    /// far the zone was written when the group there was, and that was lost.)
    ///
    /// If one of the two places cannot be read or is damaged the group at the other may be what a crash has
    /// left: that it is not has to show (`doubt`).
    pub(super) fn group_or_behind_rest(
        &mut self,
        position: Position,
        sequence: Sequence,
    ) -> Result<Option<Found>, RecoveryError> {
        let next = self.next_zone(position).filter(|_| !planted::is(Bug::ZoneRestNotPassed));
        let Some(next) = next else { return self.group_at(position, sequence) };
        let behind = readable(self.head_of_zone(next))?;
        // Last, so that its summary is at hand.
        let here = readable(self.group_at(position, sequence))?;
        match (here, behind) {
            (Ok(Some(here)), Ok(Head::Damaged)) => {
                let cause = damaged("the group with which a zone begins", self.offset_of(next));
                self.doubt.get_or_insert(Doubt { behind: Some(next), cause });
                Ok(Some(here))
            }
            (here, Ok(Head::Damaged | Head::Nothing)) => here.map_err(RecoveryError::Read),
            (Ok(here), Ok(Head::Group(number, epoch))) => {
                let counts = here.as_ref().is_none_or(|here| {
                    let left = here.sequence >= number && here.epoch < epoch;
                    left && !planted::is(Bug::ZoneRestBelieved)
                });
                if counts { self.summary_at(next, number) } else { Ok(here) }
            }
            (Err(unread), Ok(Head::Group(number, _))) if number == sequence => {
                self.doubt.get_or_insert(Doubt { behind: None, cause: RecoveryError::Read(unread) });
                self.summary_at(next, number)
            }
            (Ok(Some(here)), Err(unread)) => {
                let cause = RecoveryError::Read(unread);
                self.doubt.get_or_insert(Doubt { behind: Some(next), cause });
                Ok(Some(here))
            }
            (Err(unread), _) | (_, Err(unread)) => Err(RecoveryError::Read(unread)),
        }
    }

    /// This group follows the one before. What a crash has left is of an earlier epoch than the last one, and
    /// does not reach behind where the queue went on.
    pub(super) fn follows(&mut self, group: &Found) {
        let is_last = group.epoch == self.superblock.epoch;
        let is_behind = |end: Position| group.position > end;
        if self.doubt.as_ref().is_some_and(|doubt| is_last || doubt.behind.is_some_and(is_behind)) {
            self.doubt = None;
        }
    }

    /// The chain of groups ends with `last`; the group that was looked at behind it did not follow. If there
    /// is doubt whether `last` was left by a crash, its pages tell: a recovery took it, had it been whole.
    ///
    /// # Errors
    /// `Read` or `Damaged`: a group of it may have been left by a crash, and the one that counts cannot be
    /// read, or is damaged.
    pub(super) fn ends_without_doubt(&mut self, last: Option<&Found>) -> Result<(), RecoveryError> {
        let Some(Doubt { behind, cause }) = self.doubt.take() else { return Ok(()) };
        let before = |group: &&Found| behind.is_some_and(|behind| group.position < behind);
        let whole = match last.filter(before) {
            Some(last) => self.is_whole(last)?,
            // What did not follow is torn, or what a crash has left; the next zone may have what follows.
            None => !matches!(cause, RecoveryError::Read(_)),
        };
        if whole || planted::is(Bug::UnreadZoneHeadForgotten) { Ok(()) } else { Err(cause) }
    }

    /// Whether all pages of a group are there. One that cannot be read is not.
    fn is_whole(&mut self, group: &Found) -> Result<bool, RecoveryError> {
        if self.summary_at(group.position, group.sequence)?.is_none() {
            return Ok(false);
        }
        let summary = std::mem::take(&mut self.summary);
        let mut page = vec![0; self.geometry.page_size()];
        let whole = self.pages_whole(&summary, group.position, group.records, &mut page, Unread::IsTorn);
        self.summary = summary;
        whole
    }

    /// The group at this position. Where the device says that nothing was written it is not asked for more.
    fn group_at(&mut self, position: Position, sequence: Sequence) -> Result<Option<Found>, RecoveryError> {
        if self.written_of(position, 1) == 0 { Ok(None) } else { self.summary_at(position, sequence) }
    }

    fn head_of_zone(&mut self, begin: Position) -> Result<Head, RecoveryError> {
        if let Some((_, head)) = self.zone_head.0.as_ref().filter(|(at, _)| *at == begin) {
            return head.clone().map_err(RecoveryError::Read);
        }
        let head = readable(self.group_at(begin, Sequence::ZERO))?.map(|found| match found {
            Some(found) => Head::Group(found.sequence, found.epoch),
            None if self.written_of(begin, 1) > 0 && self.has_damaged_summary() => Head::Damaged,
            None => Head::Nothing,
        });
        self.zone_head = ZoneHead(Some((begin, head.clone())));
        head.map_err(RecoveryError::Read)
    }

    /// Whether what was read last for a summary begins like one and is none.
    fn has_damaged_summary(&self) -> bool {
        let begins = self.summary.starts_with(&SUMMARY_MAGIC);
        begins && GroupSummary::decode(&self.summary).is_err() && !planted::is(Bug::RottenZoneHeadPassed)
    }

    /// Of so many frames of one zone from a position on, how many something was written in, as far as the
    /// device says.
    pub(super) fn written_of(&mut self, position: Position, frames: u64) -> u64 {
        if self.geometry.zones().is_none() {
            return frames;
        }
        let offset = self.offset_of(position);
        let written = self
            .flash
            .write_pointer(offset)
            .map(|end| end.saturating_sub(offset).div_ceil(self.geometry.page_size() as u64));
        written.map_or(frames, |written| written.min(frames))
    }

    /// Where the queue goes on behind `chain`: right there if the device says that nothing was written there,
    /// else where the next zone begins.
    pub(super) fn goes_on_at(&mut self, chain: Chain) -> Position {
        let Some(next) = self.next_zone(chain.position) else { return chain.position };
        let offset = self.offset_of(chain.position);
        let unwritten = self.flash.write_pointer(offset) == Some(offset);
        if unwritten || planted::is(Bug::ZoneEndWrittenOver) { chain.position } else { next }
    }
}
