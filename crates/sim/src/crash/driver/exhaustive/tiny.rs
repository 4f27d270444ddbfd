//! The tiers and beginnings that every trace is tried in.

use std::fmt;

use mezzanine_engine::{Admission, Design, SyncMode, TierConfig};

use crate::crash::driver::tiers::draw_policy_parameters;

/// Rounds of use after which a queue must have come round.
pub(crate) const ROUNDS_MAX: u32 = 1000;

/// What the machine is like when a trace begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Beginning {
    /// An unformatted flash device, and nothing else either.
    New,
    /// A queue that has come round and in which most pages are valid, so that the next ones to leave go to
    /// disk or get a second chance; a file or relation with all its pages; and a process that was killed.
    Used,
}

/// The smallest tier of its kind, so that a short trace goes a long way in it, and a beginning.
#[derive(Debug, Clone)]
pub(crate) struct Tiny {
    pub(crate) tier: TierConfig,
    pub(crate) beginning: Beginning,
}

impl Tiny {
    /// Each of these sync modes with each design, groups of one page and of two by turns, and the other
    /// admissions with the third design; each new and used. A sync mode or a design that is asked for leaves
    /// only its own.
    pub(crate) fn all(modes: &[SyncMode], sync_mode: Option<SyncMode>, design: Option<Design>) -> Vec<Self> {
        let fixed = design.is_some_and(Design::has_slots);
        let wanted = |mode: &SyncMode| sync_mode.is_none_or(|only| only == *mode);
        let modes = modes.iter().copied().filter(wanted).filter(|mode| !fixed || *mode == SyncMode::Through);
        let mut all = Vec::new();
        for mode in modes {
            // Those that write in place have traces of their own length: they are asked for one by one.
            let wanted = |one: &Design| design.map_or(!one.writes_in_place(), |only| only == *one);
            for wanted in Design::ALL.iter().copied().filter(wanted) {
                for admission in [Admission::Both, Admission::Dirty, Admission::Clean] {
                    if admission != Admission::Both && wanted != design.unwrap_or(Design::FaceGsc) {
                        continue;
                    }
                    for beginning in [Beginning::New, Beginning::Used] {
                        let tier = |group_pages| tier(mode, wanted, admission, group_pages);
                        all.extend([1, 2].map(|group_pages| Self { tier: tier(group_pages), beginning }));
                    }
                }
            }
        }
        all
    }

    /// Pages of what is used: one more than the queue holds, so that pages leave it with their newest
    /// version.
    pub(crate) fn pages(&self) -> u64 {
        match self.beginning {
            Beginning::New => 8,
            // As many as there are homes, of which some are kept free.
            Beginning::Used if self.tier.design.writes_in_place() => self.tier.frames,
            Beginning::Used => self.tier.geometry().map_or(8, |geometry| {
                let groups = (self.tier.frames - self.tier.band_frames) / geometry.group_frames();
                (groups - 6) * geometry.group_pages()
            }),
        }
    }
}

impl fmt::Display for Tiny {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tier, beginning } = self;
        let beginning = match beginning {
            Beginning::New => "new",
            Beginning::Used => "used",
        };
        let (mode, design, admission) = (tier.sync_mode, tier.design, tier.admission);
        write!(f, "{beginning}/{mode}/{design}/{admission}/{}", tier.group_pages)
    }
}

fn tier(sync_mode: SyncMode, design: Design, admission: Admission, group_pages: u32) -> TierConfig {
    let mut tier = TierConfig::new(4096, 1);
    tier.group_pages = group_pages;
    tier.staging_groups = 2;
    tier.segment_frames = 8;
    tier.shards = 1;
    tier.survivors_max = group_pages - 1;
    tier.band_frames = u64::from(group_pages);
    (tier.sync_mode, tier.design, tier.admission) = (sync_mode, design, admission);
    draw_policy_parameters(&mut tier);
    while tier.geometry().is_err() {
        tier.frames += 1;
    }
    tier
}
