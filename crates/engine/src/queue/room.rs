//! Room at the rear that is kept for names, and taken by bad frames: see `groups::room`.

use crate::config::SyncMode;
use crate::planted::{self, Bug};
use crate::queue::Queue;
use crate::stage_out::bad_list::BAD_MAX;

impl Queue<'_> {
    /// Frames that a queue has beyond those with which it can just work: half of them for names, half for
    /// what bad frames cost.
    pub(super) fn half_to_spare(&self) -> u64 {
        self.frames_wanted().saturating_sub(self.geometry.least_frames) / 2
    }

    /// Frames that are kept free for the names of lost pages, and for pages that disk refuses: of as many as
    /// may be lost, or as bad frames are remembered, in groups of their own, with a group more for each that
    /// carries the front past them.
    pub(super) fn room_for_names(&self) -> u64 {
        let off = planted::is(Bug::NamesWithoutRoom) || planted::is(Bug::LostPagesFindNoRoom);
        let kept = match self.sync_mode() {
            SyncMode::Through => false,
            // No page is lost there, since the tier is given up; it is what refused pages take.
            SyncMode::Drained => {
                self.control().refusals.keeps_room() && !planted::is(Bug::RefusedWithoutRoom)
            }
            SyncMode::Durable => true,
        };
        if !kept || off {
            return 0;
        }
        let names = (self.frames_wanted() / 16).min(BAD_MAX as u64);
        let groups = names.div_ceil(self.geometry.group_pages());
        (names + 2 * groups * self.geometry.summary_frames()).min(self.half_to_spare())
    }
}
