//! Pages that disk does not take.

use std::collections::BTreeSet;

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{
    Design, DrainScope, DrainState, DrainTicket, IdRange, Job, PageId, StageIn, StageKind, SyncMode,
    TierConfig,
};

use crate::common::{Host, carry_out, page};
use crate::{id, pairs};

/// A host whose disk refuses some pages.
struct Refusing {
    host: Host,
    refused: BTreeSet<PageId>,
    refusals: u64,
    /// Who writes cannot do without room.
    at_any_cost: bool,
}

impl Refusing {
    fn new(config: &TierConfig, refused: impl Iterator<Item = u64>) -> Self {
        let host = Host::new(config, 1);
        host.tier.keep_room_for_refused();
        Self { host, refused: refused.map(id).collect(), refusals: 0, at_any_cost: false }
    }

    /// Carries out a job; false if there was none.
    fn step(&mut self) -> bool {
        let Host { tier, flash, disk, .. } = &mut self.host;
        let Some(mut job) = tier.next_job(1) else { return false };
        let writes = matches!(job, Job::WriteDisk(_));
        let before: Vec<(PageId, Option<Vec<u8>>)> =
            self.refused.iter().filter(|_| writes).map(|id| (*id, disk.get(id).cloned())).collect();
        carry_out(flash, disk, &mut job);
        if let Job::WriteDisk(work) = &mut job {
            let listed: BTreeSet<PageId> = work.pages().map(|(id, _)| id).collect();
            for (id, older) in before.into_iter().filter(|(id, _)| listed.contains(id)) {
                self.refusals += 1;
                work.refuse(&id);
                match older {
                    Some(older) => disk.insert(id, older),
                    None => disk.remove(&id),
                };
            }
        }
        tier.complete(job, Ok(()));
        true
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    /// Stages a page in; false if there is no room for it, whatever is tried.
    fn write(&mut self, block: u64, version: u64) -> bool {
        let bytes = page(self.host.page_size, version);
        let mut retried = 0;
        loop {
            match self.host.tier.stage_in(&id(block), &bytes, StageKind::Dirty, 0) {
                StageIn::Staged { .. } => return true,
                StageIn::Full if self.step() => {}
                StageIn::Full if !self.host.tier.rests_for_disk() || self.host.tier.may_make_room() => {
                    panic!("who waits for room waits for ever");
                }
                StageIn::Full if self.at_any_cost && retried < 4 => {
                    retried += 1;
                    self.host.tier.retry_disk_at_any_cost();
                }
                StageIn::Full if !self.at_any_cost && retried < 1 => {
                    retried += 1;
                    self.host.tier.retry_disk();
                }
                StageIn::Full => return false,
                other => panic!("not taken: {other:?}"),
            }
        }
    }

    fn drain(&mut self) -> DrainState {
        let ticket = self.drain_of(&DrainScope::default());
        self.host.tier.drain_state(&ticket)
    }

    /// A drain, when it is over.
    fn drain_of(&mut self, scope: &DrainScope) -> DrainTicket {
        let ticket = self.host.tier.request_drain(scope).unwrap();
        while self.host.tier.drain_state(&ticket) == DrainState::Pending {
            assert!(self.step(), "a drain must have a job");
        }
        ticket
    }

    /// The reason passes: whether everything goes on after another attempt.
    fn recovers(&mut self) -> bool {
        let refused = std::mem::take(&mut self.refused);
        self.host.tier.retry_disk();
        self.write(20_000, 1)
            && self.drain() == DrainState::Done
            && refused
                .iter()
                .filter(|id| self.host.tier.holds(id).is_some())
                .all(|id| self.host.disk.contains_key(id))
    }

    /// Whether the newest versions of the refused pages can still be had.
    fn has_all(&mut self, version: u64) -> bool {
        let wanted = page(self.host.page_size, version);
        let refused: Vec<PageId> = self.refused.iter().copied().collect();
        refused.into_iter().all(|id| self.host.read(id) == wanted)
    }
}

/// In the queue and where pages are written in place.
fn designs() -> Vec<TierConfig> {
    let queue = pairs();
    let in_place = TierConfig { design: Design::Lc, ..TierConfig::new(4096, 64) };
    vec![queue, in_place]
}

/// Some pages are refused for several rounds of the queue, while others come and go.
fn some_rounds(config: &TierConfig) -> Refusing {
    let mut disk = Refusing::new(config, [3, 7].into_iter());
    for block in 0..8 {
        assert!(disk.write(block, 1));
    }
    for round in 0..20 {
        for block in 100..140 {
            assert!(disk.write(block, round), "other files go on");
        }
    }
    assert!(disk.refusals > 1, "disk was asked for them");
    disk
}

#[test]
fn refused_pages_stay_while_others_go_on() {
    only_with(&[Bug::RefusedCountsAsWritten], || {
        designs().iter().all(|config| {
            let mut disk = some_rounds(config);
            let all = disk.has_all(1);
            // The reason passes, and everything reaches disk.
            let refused = std::mem::take(&mut disk.refused);
            disk.host.tier.retry_disk();
            let drained = disk.drain() == DrainState::Done;
            let wanted = page(disk.host.page_size, 1);
            all && drained && refused.iter().all(|id| disk.host.disk.get(id) == Some(&wanted))
        })
    });
}

#[test]
fn refused_pages_are_found_after_a_crash() {
    only_with(&[Bug::RefusedCountsAsWritten, Bug::RefusedCarriedClean], || {
        designs().iter().all(|config| {
            let mut disk = some_rounds(config);
            disk.host.sync();
            disk.host = disk.host.reopen(false);
            let mut out = vec![0; disk.host.page_size];
            let dirty = disk.refused.iter().all(|id| disk.host.tier.holds(id) == Some(true));
            let _ = disk.host.tier.lookup(&id(3), &mut out);
            dirty && disk.has_all(1)
        })
    });
}

#[test]
fn a_drain_tells_of_refused_pages() {
    only_with(&[Bug::RefusedCountsAsWritten, Bug::RefusedCountsAsDrained], || {
        designs().iter().all(|config| {
            let mut disk = Refusing::new(config, [3].into_iter());
            for block in 0..8 {
                assert!(disk.write(block, 1));
            }
            let told = disk.drain() == DrainState::Refused;
            let others =
                (0..8).filter(|&block| block != 3).all(|block| disk.host.disk.contains_key(&id(block)));
            disk.refused.clear();
            told && others && disk.drain() == DrainState::Done && disk.host.disk.contains_key(&id(3))
        })
    });
}

/// Who has asked for a drain may look when the next ones are over, too.
#[test]
fn a_later_drain_says_nothing_of_an_earlier_one() {
    only_with(&[Bug::LaterDrainMeant], || {
        let mut disk = Refusing::new(&pairs(), [3].into_iter());
        for block in 0..8 {
            assert!(disk.write(block, 1));
        }
        let only = |block| DrainScope {
            before: None,
            range: Some(IdRange { start: id(block), count: 1, shift: 0 }),
        };
        let earlier = disk.drain_of(&only(5));
        let refused = disk.drain_of(&only(3));
        let later = disk.drain_of(&only(6));
        let states = [earlier, refused, later].map(|ticket| disk.host.tier.drain_state(&ticket));
        // Long after, nobody knows, and asks again.
        for _ in 0..64 {
            disk.drain_of(&only(7));
        }
        states == [DrainState::Done, DrainState::Refused, DrainState::Done]
            && disk.host.tier.drain_state(&later) == DrainState::Refused
    });
}

/// Nobody needs frames: what is refused ahead of need stays where it is.
#[test]
fn refused_pages_are_not_carried_ahead_of_need() {
    only_with(&[Bug::RefusedAheadOfNeed], || {
        let mut config = pairs();
        config.ahead_frames = 256;
        let mut disk = Refusing::new(&config, 0..8);
        for block in 0..180 {
            assert!(disk.write(block, 1));
        }
        disk.host.sync();
        let rear = disk.host.tier.rear();
        disk.host.tier.set_disk_utilisation(0);
        disk.settle();
        disk.refusals > 0 && disk.host.tier.rear() == rear
    });
}

/// More is refused than is appended again within a revolution: stage-out rests, and who wants room is told.
#[test]
fn stage_out_rests_when_too_much_is_refused() {
    only_with(&[Bug::RefusedForEver], || {
        let frames = 2048;
        let mut config = TierConfig::new(4096, frames);
        (config.design, config.group_pages, config.survivors_max) = (Design::FaceGr, 16, 0);
        let many = frames * 5 / 8;
        let mut disk = Refusing::new(&config, 0..many);
        for block in 0..many {
            assert!(disk.write(block, 1));
        }
        let told = !(many..4 * frames).all(|block| disk.write(block, 1));
        let all = disk.host.tier.rests_for_disk() && disk.has_all(1);
        told && all && disk.recovers()
    });
}

/// Everything is refused.
#[test]
fn stage_out_rests_when_nothing_goes_to_disk() {
    for config in designs() {
        let mut disk = Refusing::new(&config, 0..10_000);
        let block = (0..10_000).find(|&block| !disk.write(block, 1)).unwrap();
        assert!(disk.refusals < 4 * disk.host.tier.geometry().frames());
        assert!((0..block).all(|block| disk.host.tier.holds(&id(block)) == Some(true)));
        assert!(disk.recovers());
    }
}

/// A quarter of the queue is refused, side by side: the front passes it, again and again.
#[test]
fn a_long_row_of_refused_pages_stops_nobody() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let mut config = TierConfig::new(4096, 2048);
        (config.design, config.group_pages, config.survivors_max) = (Design::FaceGr, 16, 0);
        config.sync_mode = mode;
        let mut disk = Refusing::new(&config, 0..400);
        for block in 0..8 * 2048 {
            assert!(disk.write(block, 1), "{mode:?}: no room for block {block}");
        }
        assert!(disk.has_all(1));
        assert!(disk.recovers());
    }
}

/// A third of the pages is refused where pages are written in place: others leave in their stead. It was the
/// end for all when as many were refused as are on their way out at a time.
#[test]
fn refused_pages_in_place_stop_nobody() {
    only_with(&[Bug::RefusedLeavesStill], || {
        let config = TierConfig { design: Design::Lc, ..TierConfig::new(4096, 512) };
        let mut disk = Refusing::new(&config, 0..170);
        let taken = (0..8 * 512).all(|block| disk.write(block, 1));
        taken && disk.has_all(1) && disk.recovers()
    });
}

/// A tier of 448 frames, as the smallest under a server, of whose pages disk refuses a share, side by side or
/// every other one; true if there is room for others all the same.
fn others_find_room(mode: SyncMode, side_by_side: bool, percent: u64, at_any_cost: bool) -> bool {
    let frames = 448;
    let mut config = TierConfig::new(4096, frames);
    (config.group_pages, config.survivors_max, config.sync_mode) = (7, 3, mode);
    let step = if side_by_side { 1 } else { 2 };
    let many = frames * percent / 100;
    let mut disk = Refusing::new(&config, (0..many).map(|block| block * step));
    disk.at_any_cost = at_any_cost;
    let mut blocks = (0..many * step).chain(10_000..10_000 + 4 * frames);
    let told = blocks.find(|&block| !disk.write(block, 1));
    // What was not taken is nowhere.
    disk.refused.retain(|page| told.is_none_or(|told| *page < id(told)));
    assert!(disk.has_all(1));
    disk.at_any_cost = false;
    assert!(disk.recovers());
    told.is_none()
}

/// Nearly half of the frames: it was the end when two pages in five were refused, and in `drained` with one
/// in five, if they lay side by side.
#[test]
fn half_of_the_tier_may_be_refused() {
    only_with(&[Bug::RevolutionByFrames, Bug::RefusedWithoutRoom], || {
        [SyncMode::Durable, SyncMode::Drained].into_iter().all(|mode| {
            [20, 30, 49].into_iter().all(|percent| {
                others_find_room(mode, true, percent, false) && others_find_room(mode, false, percent, false)
            })
        })
    });
}

/// More than half of a small tier is refused, and stage-out rests. Then disk takes most of it, or most of it
/// is dropped, but for the page that the front has come to: others find room all the same. Stage-out rested
/// on: each attempt met that page, and ended there.
fn rests_no_longer(dropped: bool) -> bool {
    let mut config = TierConfig::new(4096, 448);
    (config.group_pages, config.survivors_max) = (7, 3);
    let mut disk = Refusing::new(&config, 0..246);
    let told = (0..4 * 448).find(|&block| !disk.write(block, 1)).unwrap();
    // The front has come to one that is refused still.
    let (taken, refused) = (0..201, 201..246);
    for block in taken.clone() {
        disk.refused.remove(&id(block));
    }
    if dropped {
        disk.host.tier.invalidate_range(&IdRange::blocks(1, 0, taken.end)).unwrap();
        disk.settle();
    }
    // What was dropped counts at once.
    let room = (0..if dropped { 1 } else { 8 }).any(|_| disk.write(told, 1));
    let others = (told + 1..told + 4 * 448).all(|block| disk.write(block, 1));
    room && others && refused.into_iter().all(|block| disk.host.tier.holds(&id(block)) == Some(true))
}

#[test]
fn stage_out_rests_no_longer_when_disk_takes_most() {
    only_with(&[Bug::AttemptsInVain], || rests_no_longer(false));
}

#[test]
fn stage_out_rests_no_longer_when_most_is_dropped() {
    only_with(&[Bug::DroppedStillCounts], || rests_no_longer(true));
}

/// Who cannot do without room finds some until the tier is full of such pages.
#[test]
fn most_of_the_tier_may_be_refused_at_any_cost() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        for side_by_side in [false, true] {
            assert!(others_find_room(mode, side_by_side, 70, true), "{mode:?}, {side_by_side}");
            assert!(!others_find_room(mode, side_by_side, 70, false), "{mode:?}, {side_by_side}");
        }
    }
}
