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
//! In the directory a rest is the head of a group without pages of anybody, so that the front passes it like
//! any other.

use super::{Chain, Found, RecoveryError, Scan};
use crate::core::Tier;
use crate::directory::GroupHead;
use crate::ids::{Position, Sequence};
use crate::planted::{self, Bug};

/// The group that was found last where a zone begins: rests of one zone are asked for again and again.
#[derive(Default)]
pub(super) struct ZoneHead(Option<(Position, Option<(Sequence, u32)>)>);

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
    pub(super) fn group_or_behind_rest(
        &mut self,
        position: Position,
        sequence: Sequence,
    ) -> Result<Option<Found>, RecoveryError> {
        let behind = match self.next_zone(position) {
            Some(next) if !planted::is(Bug::ZoneRestNotPassed) => {
                self.head_of_zone(next)?.map(|head| (next, head))
            }
            _ => None,
        };
        let here = self.summary_at(position, sequence)?;
        let Some((next, (number, epoch))) = behind else { return Ok(here) };
        let counts = here.as_ref().is_none_or(|here| {
            let left = here.sequence >= number && here.epoch < epoch;
            left && !planted::is(Bug::ZoneRestBelieved)
        });
        if counts { self.summary_at(next, number) } else { Ok(here) }
    }

    /// Number and epoch of the group with which a zone begins.
    fn head_of_zone(&mut self, begin: Position) -> Result<Option<(Sequence, u32)>, RecoveryError> {
        if let Some((_, head)) = self.zone_head.0.filter(|(at, _)| *at == begin) {
            return Ok(head);
        }
        let found = self.summary_at(begin, Sequence::ZERO)?;
        let head = found.map(|found| (found.sequence, found.epoch));
        self.zone_head = ZoneHead(Some((begin, head)));
        Ok(head)
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
