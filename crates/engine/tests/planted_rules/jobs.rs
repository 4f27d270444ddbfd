//! Jobs that a test keeps in its hands, while all others are carried out.

use std::collections::HashMap;

use mezzanine_engine::{Job, Tier};

use crate::common::{Flash, Host, carry_out, page};
use crate::{id, pairs};

/// Carries out jobs until one is `wanted`, which is kept. The disk is nobody's concern.
fn take_of<'t>(
    tier: &'t Tier,
    flash: &mut Flash,
    next: impl Fn() -> Option<Job<'t>>,
    wanted: impl Fn(&Job<'_>) -> bool,
) -> Option<Job<'t>> {
    loop {
        let mut job = next()?;
        if wanted(&job) {
            return Some(job);
        }
        carry_out(flash, &mut HashMap::new(), &mut job);
        tier.complete(job, Ok(()));
    }
}

/// Carries out the jobs of an owner until one is `wanted`, which it keeps.
pub(crate) fn take<'t>(
    tier: &'t Tier,
    flash: &mut Flash,
    owner: u32,
    wanted: impl Fn(&Job<'_>) -> bool,
) -> Option<Job<'t>> {
    take_of(tier, flash, || tier.next_job(owner), wanted)
}

/// The same with the jobs that write to flash alone: stage-out gets no turn.
pub(crate) fn take_flash_write<'t>(
    tier: &'t Tier,
    flash: &mut Flash,
    wanted: impl Fn(&Job<'_>) -> bool,
) -> Option<Job<'t>> {
    take_of(tier, flash, || tier.next_flash_write(1), wanted)
}

pub(crate) fn is_sync(job: &Job<'_>) -> bool {
    matches!(job, Job::SyncDisk(_))
}

/// A queue with a band that waits for a sync of the disk, which is about to be handed out.
pub(crate) fn band_written() -> Host {
    let mut config = pairs();
    config.band_frames = 1;
    let mut host = Host::new(&config, 1);
    for block in 0.. {
        let writes = host.tier.statistics().disk_writes;
        if writes > 0 {
            break;
        }
        host.write(id(block), &page(4096, 1));
    }
    host
}
