//! A queue on zoned flash: a ring of zones ("Towards an Efficient Flash-Based Mid-Tier Cache", section 3.2,
//! manages flash natively; here the queue's own order is all the management there is).
//!
//! - Superblock, paths and metadata segments, which are written over in place, lie in conventional zones. The
//!   frames begin where a zone does.
//! - The ring has whole zones. What of a zone's capacity is less than a frame is not used. A group may begin
//!   in one zone and end in the next.
//! - Within a zone groups are written in the order of their positions. Whichever begins a zone resets it
//!   first.
//! - Invariant 13: a zone is reset when no frame of it is kept any more, so frames become free a zone at a
//!   time ([`Tier::writable_end`](crate::core::Tier::writable_end)).
//! - After a crash something may have been written behind the end of the queue, and cannot be written over:
//!   the queue goes on in the next zone then, and the rest of this one holds nothing (`recovery::zones`).
//! - So that there is always a next zone, one is left to that: only a group may be put there that carries a
//!   front by which another zone becomes free. And as the rest of a zone may be lost to a crash, what can wait
//!   leaves another one to what the front needs ([`Tier::room_end`](crate::core::Tier::room_end)).

use super::geometry::SEGMENTS_OFFSET;
use super::{ConfigError, TierConfig};
use crate::config::Geometry;
use crate::core::Tier;
use crate::groups::ring::Ring;
use crate::ids::Position;

/// Largest zone in bytes.
const ZONE_BYTES_MAX: u64 = 1 << 40;
/// Bytes that every zone begins at a multiple of.
const ZONE_ALIGNMENT: u64 = 4096;

/// The zones of a flash device, as far as they decide where a tier's parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierZones {
    /// Bytes from the start of one zone to the start of the next: a multiple of 4,096.
    pub zone_bytes: u64,
    /// Bytes of a zone that can be written, from its start on.
    pub capacity_bytes: u64,
}

/// What follows from the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneGeometry {
    pub(crate) bytes: u64,
    /// Frames of the queue that lie in one zone.
    pub(crate) frames: u64,
}

/// Bytes that the zones of a queue take at most.
const QUEUE_BYTES_MAX: u64 = 1 << 62;

/// Zones that a queue has beyond what it would need without: for the rest of the zones at its ends, and for
/// one that a crash leaves out.
const ZONES_AT_ENDS: u64 = 3;
/// And for rests that were left out within what recovery may have to scan.
const ZONES_SCANNED: u64 = 2;

impl ZoneGeometry {
    /// Frames by which more are kept free than without zones: of those from the beginning of the front's zone
    /// up to the front none is free, one zone is what a crash may leave out, and one is left to what follows
    /// it.
    pub(super) fn kept_free(&self) -> u64 {
        ZONES_AT_ENDS * self.frames
    }

    /// Frames by which a queue of the smallest size is larger, beside those that are kept free.
    pub(super) fn scanned(&self) -> u64 {
        ZONES_SCANNED * self.frames
    }
}

impl TierConfig {
    /// The same tier on a device with such zones, and as many frames as fill them.
    #[must_use]
    pub fn on_zones(&self, zones: TierZones) -> Self {
        let frames = (zones.capacity_bytes / u64::from(self.page_size.max(1))).max(1);
        let frames = self.frames.next_multiple_of(frames);
        Self { zones: Some(zones), frames, frames_max: frames, ..self.clone() }
    }

    pub(super) fn zone_geometry(
        &self,
        summary_frames: u32,
        group_frames: u64,
    ) -> Result<Option<ZoneGeometry>, ConfigError> {
        let Some(TierZones { zone_bytes, capacity_bytes }) = self.zones else { return Ok(None) };
        let wrong = |reason: String, advice: &str| Err(ConfigError::new("zones", reason, advice.to_owned()));
        if zone_bytes % ZONE_ALIGNMENT != 0 || !(ZONE_ALIGNMENT..=ZONE_BYTES_MAX).contains(&zone_bytes) {
            let reason = format!("a zone of {zone_bytes} bytes is no multiple of 4096 up to 2^40");
            return wrong(reason, "state the zones that the device reports");
        }
        if capacity_bytes > zone_bytes {
            let reason = format!("a zone of {zone_bytes} bytes has no room for {capacity_bytes}");
            return wrong(reason, "state the zones that the device reports");
        }
        if self.design.writes_in_place() {
            let reason =
                format!("design {} writes in place, and zones are written front to back", self.design);
            return wrong(reason, "use face-basic, face-gr or face-gsc, or a device without zones");
        }
        if summary_frames > 1 {
            let reason =
                format!("the summary of a group of {} pages takes more than one frame", self.group_pages);
            return wrong(reason, "use smaller groups or larger pages");
        }
        let frames = capacity_bytes / u64::from(self.page_size);
        if frames < group_frames {
            let reason = format!("a zone has room for {frames} frames, and a group takes {group_frames}");
            return wrong(reason, "use smaller groups");
        }
        if self.frames % frames != 0 || self.frames_max > self.frames {
            let reason = format!(
                "a queue of {} frames, up to {}, does not fill zones of {frames} frames, and keeps its size",
                self.frames, self.frames_max
            );
            return wrong(reason, "use a multiple of the frames of a zone, and no room to grow");
        }
        // The superblock of a damaged device may ask for any.
        if (self.frames / frames).checked_mul(zone_bytes).is_none_or(|bytes| bytes > QUEUE_BYTES_MAX) {
            let reason = format!("{} zones of {zone_bytes} bytes are more than 2^62", self.frames / frames);
            return wrong(reason, "use fewer frames, or the zones that the device reports");
        }
        Ok(Some(ZoneGeometry { bytes: zone_bytes, frames }))
    }
}

impl Tier {
    /// First byte on flash of the zone that the next group is written to, if another one lies there already;
    /// `None` where it begins a zone, and without zones. Other zones of the queue that are written in part
    /// are left so: nothing is written there any more before they are reset.
    pub fn zone_gone_on_in(&self) -> Option<u64> {
        let next = self.control().ends.staged_from();
        let begin = self.geometry.zone_begin(next);
        (begin < next).then(|| self.offset_of(begin))
    }
}

impl Geometry {
    /// The zones that the tier is laid out for.
    pub fn zones(&self) -> Option<TierZones> {
        self.config.zones
    }

    /// Bytes at the beginning of the device that are written over in place, and so have to lie in
    /// conventional zones.
    pub fn conventional_bytes(&self) -> u64 {
        self.frames_offset
    }

    /// Bytes at the beginning of the device behind which nothing is written up to the first frame: of the
    /// conventional bytes those that are used, as far as zones are longer.
    pub fn conventional_bytes_used(&self) -> u64 {
        SEGMENTS_OFFSET + self.metadata_bytes()
    }

    /// Frames of a zone; 0 without zones.
    pub(crate) fn zone_frames(&self) -> u64 {
        self.zones.map_or(0, |zones| zones.frames)
    }

    /// Where the zone begins that a position lies in; the position itself without zones.
    pub(crate) fn zone_begin(&self, position: Position) -> Position {
        match self.zones {
            // The ring has whole zones and no shift.
            Some(zones) => position - position.number() % zones.frames,
            None => position,
        }
    }

    /// The first position at or behind this one at which a zone begins; the position itself without zones.
    pub(crate) fn zone_end(&self, position: Position) -> Position {
        match self.zones {
            Some(zones) => {
                let over = position.number() % zones.frames;
                position + if over == 0 { 0 } else { zones.frames - over }
            }
            None => position,
        }
    }

    /// The positions among `frames` from one on at which a zone begins.
    pub(crate) fn zones_begun(
        &self,
        position: Position,
        frames: u64,
    ) -> impl Iterator<Item = Position> + use<> {
        let (zone_frames, end) = (self.zone_frames(), position + frames);
        let first = Some(self.zone_end(position)).filter(|_| zone_frames > 0);
        std::iter::successors(first, move |begin| Some(*begin + zone_frames))
            .take_while(move |begin| *begin < end)
    }

    /// Splits `frames` frames from `position` on into those that lie side by side on flash: at the end of the
    /// ring and of zones. (Position, frames).
    pub(crate) fn pieces(
        &self,
        ring: Ring,
        position: Position,
        frames: u64,
    ) -> impl Iterator<Item = (Position, u64)> + use<> {
        let zone_frames = self.zones.map_or(u64::MAX, |zones| zones.frames);
        ring.runs(position, frames).into_iter().flat_map(move |(mut at, mut left)| {
            std::iter::from_fn(move || {
                let in_zone = zone_frames - u64::from(ring.entry_of(at).0) % zone_frames;
                let piece = (at, left.min(in_zone));
                (at, left) = (at + piece.1, left - piece.1);
                (piece.1 > 0).then_some(piece)
            })
        })
    }
}
