//! Which pages of a group at the front get a second chance ("Flash as cache extension for online
//! transactional workloads", section 4.3, "Group second chance").
//!
//! The paper's are those that were referenced. With `keeps_unreferenced` others follow them, as many as
//! frames of their group were freed by overwrites. In the paper whatever was not read while the queue went
//! round once leaves it, however much of the queue holds superseded versions; the more is written, the
//! shorter a round is, and pages leave a queue that has room for all of them. With the rule a page leaves for
//! room that overwrites do not make. Where nothing is overwritten it changes nothing, but for bad frames,
//! which count as freed. A group never has more survivors than `survivors_max`, so the write amplification
//! has the bound that it has without the rule.

use std::cmp::Reverse;

use crate::config::Design;
use crate::core::Tier;
use crate::directory::{GroupHead, REFERENCED, VALID, is_lost, needs_disk};
use crate::ids::Position;

/// The survivors of a group.
pub(crate) struct Survivors {
    /// Where they lie, in no order.
    pub(crate) pages: Vec<Position>,
    /// Referenced ones that are too many.
    pub(crate) refused: u64,
}

impl Tier {
    /// Whether a page in this state is to get a second chance at the front.
    pub(crate) fn survives(&self, state: u32) -> bool {
        let gsc = self.geometry.config().design == Design::FaceGsc;
        gsc && state & VALID != 0 && state & REFERENCED != 0 && !is_lost(state)
    }

    /// Whether pages that were not referenced may survive as well.
    pub(crate) fn keeps_unreferenced(&self) -> bool {
        let config = self.geometry.config();
        config.keeps_unreferenced && config.design == Design::FaceGsc
    }

    /// Pages of the group that get a second chance, at most as many as may survive: referenced ones first. If
    /// there are more of these, those at the very front go, as in the paper.
    ///
    /// Groups are listed twice if a page of theirs had to be read again, alone. What got its second chance in
    /// the first pass is linked elsewhere by the second, which may choose as many again: so at most twice
    /// as many survive, where a read has failed, and each page once. It costs writes and no more: a second
    /// chance never takes the room that a group for the front needs ([`Reserve::StageOut`]), so the front
    /// moves on as ever.
    ///
    /// [`Reserve::StageOut`]: crate::groups::group::Reserve::StageOut
    pub(crate) fn survivors_of(&self, group: Position, head: &GroupHead) -> Survivors {
        let config = self.geometry.config();
        if config.design != Design::FaceGsc {
            return Survivors { pages: Vec::new(), refused: 0 };
        }
        let directory = self.directory();
        // Each is looked at once: others are referencing them meanwhile.
        let states: Vec<(Position, u32)> = Position::each(self.pages_of(group, head))
            .map(|position| (position, directory.state(self.entry_of(position))))
            .collect();
        let survives = states.iter().filter(|(_, state)| self.survives(*state));
        let mut pages: Vec<Position> = survives.map(|&(position, _)| position).collect();
        let excess = pages.len().saturating_sub(config.survivors_max as usize);
        pages.drain(..excess);
        if self.keeps_unreferenced() {
            let freed = states.iter().filter(|(_, state)| state & VALID == 0).count();
            // A page that has to go to disk costs a write there when it leaves, and a read if it is wanted
            // again; another one the read alone. Of those alike the last ones came last.
            let mut others: Vec<_> = states
                .iter()
                .filter(|(_, state)| state & VALID != 0 && state & REFERENCED == 0 && !is_lost(*state))
                .map(|&(position, state)| (!needs_disk(state), Reverse(position)))
                .collect();
            let room = freed.min(config.survivors_max as usize - pages.len());
            others.sort_unstable();
            pages.extend(others.iter().take(room).map(|&(_, Reverse(position))| position));
        }
        Survivors { pages, refused: excess as u64 }
    }
}
