//! Tiers as worlds draw them: small, so that a queue comes round often, and of every kind.
//!
//! What is drawn from numbers of its own was added later: the other draws of a seed stay what they were.

use mezzanine_device::Zones;
use mezzanine_device::two_zones::zones_with_area;
use mezzanine_engine::{Admission, Design, Geometry, PolicyParameters, SyncMode, TierConfig, TierZones};
use mezzanine_ground::random::Random;

use super::terms::Focus;

/// What a world asks of the tiers that it draws.
pub(crate) struct Wanted<'w> {
    /// The sizes of a group in pages, as often as they are drawn.
    pub(crate) group_pages: &'w [u32],
    /// The sync modes, as often as they are drawn.
    pub(crate) sync_modes: &'w [SyncMode],
    pub(crate) focus: Focus,
}

impl Wanted<'_> {
    /// Draws a tier with pages of this size, from the numbers of its world and from some of its own.
    pub(crate) fn draw(&self, page_size: u32, seed: u64, random: &mut Random) -> TierConfig {
        let mut tier = TierConfig::new(page_size, 0);
        tier.group_pages = *random.pick(self.group_pages);
        tier.staging_groups = random.between(2, 4) as u32;
        tier.segment_frames = *random.pick(&[8, 8, 10, 13, 20, 33]);
        tier.shards = *random.pick(&[1, 2, 16]);
        tier.survivors_max = random.below(u64::from(tier.group_pages)) as u32;
        tier.band_frames = random.between(1, 2 * u64::from(tier.group_pages));
        if random.chance(1, 4) {
            // Many small groups under way at once, and bands of many groups: orders that a small staging
            // memory never sees.
            tier.group_pages = *random.pick(&[1, 1, 2, 3]);
            tier.survivors_max = random.below(u64::from(tier.group_pages)) as u32;
            tier.staging_groups = random.between(6, 12) as u32;
            tier.band_frames = random.between(2, 9) * (u64::from(tier.group_pages) + 1);
        }
        draw_policy(&mut tier, self.sync_modes, self.focus, random);
        draw_in_place(&mut tier, self.focus, seed);
        draw_second_touch(&mut tier, seed);
        draw_unreferenced(&mut tier, seed);
        (tier.ahead_frames, tier.frames_max) = (0, 0);
        tier.frames = random.magnitude(64);
        // From there on the least number that the configuration can have, so that the queue comes round
        // often.
        while tier.geometry().is_err() {
            tier.frames += random.magnitude(8);
        }
        tier
    }
}

/// Draws what may differ from one opening of a tier to the next, if it is closed in order.
pub(crate) fn draw_policy(tier: &mut TierConfig, sync_modes: &[SyncMode], focus: Focus, random: &mut Random) {
    draw_design(tier, random);
    tier.admission = draw_admission(random);
    tier.sync_mode = *random.pick(sync_modes);
    focus.apply(tier);
    draw_policy_parameters(tier);
}

/// Draws which pages are admitted.
pub(crate) fn draw_admission(random: &mut Random) -> Admission {
    *random.pick(&[Admission::Both, Admission::Both, Admission::Dirty, Admission::Clean])
}

/// Designs whose tiers differ in their policies alone, so that one may follow the other; as often as they are
/// drawn.
const QUEUES: [Design; 4] = [Design::FaceGsc, Design::FaceGsc, Design::FaceGr, Design::FaceBasic];
const IN_PLACE: [Design; 7] =
    [Design::Lc, Design::Lru, Design::Exadata, Design::Clock, Design::Cac, Design::Lc, Design::Fifo];

/// One world in three has a design that writes in place. From numbers of its own, so that the others stay
/// what they were.
fn draw_in_place(tier: &mut TierConfig, focus: Focus, seed: u64) {
    let mut random = Random::new(seed ^ 0x696e_5f70_6c61_6365);
    if focus.design.is_none() && random.chance(1, 3) {
        tier.design = *random.pick(&IN_PLACE);
        let through = focus.sync_mode.is_none_or(|mode| mode == SyncMode::Through);
        if through && Random::new(seed ^ 0x736c_6f74_735f).chance(1, 8) {
            tier.design = Design::Tac;
        }
    }
    draw_policy_parameters(tier);
}

/// In one world of six there is second-touch admission of clean pages; few are remembered, many or the
/// default. From numbers of its own, as above.
fn draw_second_touch(tier: &mut TierConfig, seed: u64) {
    let mut random = Random::new(seed ^ 0x7265_7475_726e_696e);
    tier.returning_only = random.chance(1, 6);
    tier.remembered_pages = *random.pick(&[Some(1), Some(40), None]);
    tier.remembered_pages = tier.remembered_pages.filter(|_| tier.returning_only);
}

/// In one world of six pages that were not referenced get second chances as well. From numbers of its own, as
/// above.
fn draw_unreferenced(tier: &mut TierConfig, seed: u64) {
    tier.keeps_unreferenced = Random::new(seed ^ 0x756e_7265_665f_6b70).chance(1, 6);
}

/// A design like the one that the tier has: by number, so that no other draw depends on which kind it is.
fn draw_design(tier: &mut TierConfig, random: &mut Random) {
    let number = *random.pick(&[0, 1, 2, 3]);
    // A tier with a slot directory is not opened with any other design.
    if tier.design.has_slots() {
        return;
    }
    tier.design = if tier.design.writes_in_place() { IN_PLACE[number] } else { QUEUES[number] };
}

/// Parameters that go with the design and the admission, and the sync mode if the design has but one.
pub(crate) fn draw_policy_parameters(tier: &mut TierConfig) {
    tier.policy = PolicyParameters::default();
    match tier.design {
        Design::Exadata => tier.policy.write_back = tier.admission != Admission::Clean,
        Design::Lc => tier.policy.dirty_percent = Some([5, 30, 100][tier.band_frames as usize % 3]),
        Design::Tac => {
            tier.sync_mode = SyncMode::Through;
            // So that extents differ in worlds that are so small, and change places.
            tier.policy.extent_pages = Some([1, 2, 4][tier.band_frames as usize % 3]);
            tier.policy.random_weight = Some([1, 94][tier.frames as usize % 2]);
        }
        _ => {}
    }
}

/// Makes a tier one on zones of a few groups each, so that its queue begins one often, and returns those of
/// the device. The tier is a queue from then on, and keeps its size. From numbers of its own.
pub(crate) fn lay_on_zones(tier: &mut TierConfig, seed: u64) -> Zones {
    lay_on(tier, seed, false)
}

/// As [`lay_on_zones`]. One device in three has no conventional zones: then the beginning of the tier is kept
/// in two halves of sequential ones. Only whoever opens the tier as a volume does can use such a device.
///
/// Two devices in three limit how many zones are written in part, as narrowly as a tier can do with: one for
/// the queue, and two for the halves.
pub(crate) fn lay_on_any_zones(tier: &mut TierConfig, seed: u64) -> Zones {
    let zones = lay_on(tier, seed, Random::new(seed ^ 0x7a6e_735f_6f6e_6c79).chance(1, 3));
    let mut random = Random::new(seed ^ 0x7a6e_735f_6d61_7821);
    let least = if zones.conventional == 0 { 3 } else { 1 };
    let active_max = if random.chance(1, 3) { 0 } else { least + random.below(3) as u32 };
    Zones { active_max, open_max: random.below(3) as u32, ..zones }
}

fn lay_on(tier: &mut TierConfig, seed: u64, all_sequential: bool) -> Zones {
    let mut random = Random::new(seed ^ 0x7a6f_6e65_7300);
    if tier.design.writes_in_place() {
        tier.design = *random.pick(&[Design::FaceGsc, Design::FaceGr, Design::FaceBasic]);
        draw_policy_parameters(tier);
    }
    let page = u64::from(tier.page_size);
    // Little is kept beside whole zones.
    tier.staging_groups = random.between(2, 3) as u32;
    tier.segment_frames = *random.pick(&[8, 8, 13]);
    let group = u64::from(tier.group_pages) + 1;
    let frames = group * random.between(1, 5) + random.below(3);
    // A record of the area takes three blocks.
    let frames = if all_sequential { frames.max(SMALLEST_ZONE.div_ceil(page)) } else { frames };
    // Now and then there is a rest that no frame fits in, and zones begin further apart than they are long.
    let capacity = frames * page + *random.pick(&[0, 0, 512]);
    let len = (capacity + *random.pick(&[0, 0, 4096, page])).next_multiple_of(4096);
    tier.frames = 1;
    tier.band_frames = tier.band_frames.min(frames);
    *tier = tier.on_zones(TierZones { zone_bytes: len, capacity_bytes: capacity });
    tier.ahead_frames = 0;
    while tier.geometry().is_err() {
        tier.frames += frames;
        tier.frames_max = tier.frames;
    }
    let geometry = tier.geometry().ok();
    let area = geometry.as_ref().map_or(0, Geometry::conventional_bytes);
    let conventional = if all_sequential { 0 } else { area / len };
    let zones = Zones {
        zone_len: len,
        zone_capacity: capacity,
        count: flash_bytes(tier) / len,
        conventional,
        open_max: 0,
        active_max: 0,
    };
    if !all_sequential {
        return zones;
    }
    let used = geometry.as_ref().map_or(0, Geometry::conventional_bytes_used);
    // As many as leave the tier what it needs behind its halves.
    let mut count = zones.count;
    let suffices = |count| {
        let shown = zones_with_area(&Zones { count, ..zones }, area, used);
        shown.is_ok_and(|shown| shown.count >= zones.count)
    };
    while !suffices(count) && count < ZONES_TRIED {
        count += 1;
    }
    Zones { count, ..zones }
}

/// Bytes at the beginning of a device with these zones that the halves of an area take; 0 if it needs none.
pub(crate) fn halves_bytes(tier: &TierConfig, zones: &Zones) -> u64 {
    let Ok(geometry) = tier.geometry() else { return 0 };
    let (area, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
    if zones.conventional > 0 {
        return 0;
    }
    let behind = |shown: Zones| shown.count - shown.conventional;
    zones_with_area(zones, area, used).map_or(0, |shown| (zones.count - behind(shown)) * zones.zone_len)
}

/// Bytes of the smallest zone of a device that has sequential ones alone.
const SMALLEST_ZONE: u64 = 4 * 4096;
/// More zones than a tier of a world needs.
const ZONES_TRIED: u64 = 4000;

/// Bytes of flash that a tier needs; 0 if there can be none like this.
pub(crate) fn flash_bytes(tier: &TierConfig) -> u64 {
    tier.geometry().map_or(0, |geometry| geometry.flash_bytes())
}

/// Whether a tier mends pages that a power cut tears on disk: it keeps each dirty page until its disk copy is
/// synced.
pub(crate) fn mends_torn_pages(tier: &TierConfig) -> bool {
    tier.sync_mode == SyncMode::Durable && tier.admission != Admission::Clean
}

/// How large everything is, in a part of a line, for reports.
pub(crate) fn dimensions(tier: &TierConfig) -> String {
    let TierConfig { page_size, frames, group_pages, staging_groups, band_frames, .. } = tier;
    let TierConfig { segment_frames, survivors_max, .. } = tier;
    let queue = format!("page {page_size}, {frames} frames, group {group_pages}, staging {staging_groups}");
    let kept = if tier.keeps_unreferenced { " and unreferenced" } else { "" };
    format!("{queue}, band {band_frames}, segment {segment_frames}, survivors {survivors_max}{kept}")
}
