//! Pages that are to leave their places while others are on their way to a slow disk.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Design, Job, StageIn, StageKind, SyncMode, TierConfig};

use crate::common::{Host, carry_out, page};
use crate::id;

/// Most of the pages that fit, so that those that are named to leave are written again before they have left.
const PAGES: u64 = 40;
/// A job of the disk takes so many steps.
const SLOW: u64 = 60;
/// Jobs that are looked for in one step, at most.
const JOBS: u64 = 16;

/// Pages that were named to leave get another place when they are written again, and what the list has of
/// them is let be until a part of the list goes to disk. Beside a slow disk it fills up with that. True if
/// the tier goes on.
fn written_again_beside_a_slow_disk(seed: u64) -> bool {
    let config = TierConfig {
        group_pages: 1,
        staging_groups: 8,
        segment_frames: 10,
        survivors_max: 0,
        band_frames: 18,
        ahead_frames: 20,
        sync_mode: SyncMode::Drained,
        ..TierConfig::of(Design::Lru, 4096, 46)
    };
    let mut host = Host::new(&config, seed);
    let bytes = page(4096, 1);
    let draw = |_| [host.random(PAGES), host.random(SLOW), host.random(JOBS)];
    let draws: Vec<[u64; 3]> = (0..4000).map(draw).collect();
    let Host { tier, mut flash, .. } = host;
    let (mut on_disk, mut staged) = (Vec::new(), 0);
    for [block, slow, jobs] in draws {
        let staging = tier.stage_in(&id(block), &bytes, StageKind::Dirty, 0);
        staged += u64::from(matches!(staging, StageIn::Staged { .. }));
        if slow == 0 {
            on_disk.drain(..).for_each(|job| tier.complete(job, Ok(())));
        }
        for _ in 0..jobs {
            let Some(mut job) = tier.next_job(1) else { break };
            carry_out(&mut flash, &mut HashMap::new(), &mut job);
            match &job {
                Job::WriteDisk(_) | Job::SyncDisk(_) => on_disk.push(job),
                _ => tier.complete(job, Ok(())),
            }
        }
    }
    staged > 400
}

/// Looking for a job named victims, put them back because the list was full, and began again: without end,
/// and with the disk idle. A world of a database did not come to its end; nothing was said of it.
#[test]
fn looking_for_a_job_ends_when_nothing_can_leave() {
    only_with(&[Bug::StayingPagesEvicted], || {
        (1..=6).all(|seed| {
            catch_unwind(AssertUnwindSafe(|| written_again_beside_a_slow_disk(seed))).is_ok_and(|good| good)
        })
    });
}
