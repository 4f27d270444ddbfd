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

use super::{Chain, Found, ReadError, RecoveryError, Scan};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::ids::{Position, Sequence};
use crate::planted::{self, Bug};

/// The group that was found last where a zone begins: rests of one zone are asked for again and again.
#[derive(Default)]
pub(super) struct ZoneHead(Option<(Position, Result<Head, ReadError>)>);

/// Number and epoch of the group with which a zone begins, if one does.
type Head = Option<(Sequence, u32)>;

/// Of two places where a group may lie one could not be read, and that at the other was taken for the
/// queue's.
pub(super) struct Doubt {
    /// What is no group of the queue does not reach behind this position, if that is known.
    behind: Option<Position>,
    unread: ReadError,
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
    /// If one of the two places cannot be read the group at the other may be what a crash has left: that it
    /// is not has to show (`doubt`).
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
            (here, Ok(None)) => here.map_err(RecoveryError::Read),
            (Ok(here), Ok(Some((number, epoch)))) => {
                let counts = here.as_ref().is_none_or(|here| {
                    let left = here.sequence >= number && here.epoch < epoch;
                    left && !planted::is(Bug::ZoneRestBelieved)
                });
                if counts { self.summary_at(next, number) } else { Ok(here) }
            }
            (Err(unread), Ok(Some((number, _)))) if number == sequence => {
                self.doubt.get_or_insert(Doubt { behind: None, unread });
                self.summary_at(next, number)
            }
            (Ok(Some(here)), Err(unread)) => {
                self.doubt.get_or_insert(Doubt { behind: Some(next), unread });
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

    /// The chain of groups ends here.
    ///
    /// # Errors
    /// `Read`: a group of it may have been left by a crash, and the one that counts cannot be read.
    pub(super) fn ends_without_doubt(&mut self) -> Result<(), RecoveryError> {
        match self.doubt.take() {
            Some(doubt) if !planted::is(Bug::UnreadZoneHeadForgotten) => {
                Err(RecoveryError::Read(doubt.unread))
            }
            _ => Ok(()),
        }
    }

    /// The group at this position. Where the device says that nothing was written it is not asked for more.
    fn group_at(&mut self, position: Position, sequence: Sequence) -> Result<Option<Found>, RecoveryError> {
        if self.written_of(position, 1) == 0 { Ok(None) } else { self.summary_at(position, sequence) }
    }

    fn head_of_zone(&mut self, begin: Position) -> Result<Head, RecoveryError> {
        if let Some((_, head)) = self.zone_head.0.as_ref().filter(|(at, _)| *at == begin) {
            return head.clone().map_err(RecoveryError::Read);
        }
        let head = readable(self.group_at(begin, Sequence::ZERO))?;
        let head = head.map(|found| found.map(|found| (found.sequence, found.epoch)));
        self.zone_head = ZoneHead(Some((begin, head.clone())));
        head.map_err(RecoveryError::Read)
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
