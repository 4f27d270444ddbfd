//! What Linux says of the zones of a block device: the bytes of a report, and what they come to.
//!
//! Pure functions of bytes, so that all of it is tested without such a device. The format is that of
//! `struct blk_zone_report` in the kernel's `include/uapi/linux/blkzoned.h`; everything in it is counted in
//! sectors of 512 bytes, whatever the drive's own are.

use std::fmt;

use crate::{Zone, Zones};

/// Bytes of the kernel's sector.
pub(super) const SECTOR: u64 = 512;
/// Bytes before the first zone of a report: first sector u64, number of zones u32, flags u32.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of each zone.
pub(super) const ZONE_BYTES: usize = 64;
/// Flag of a report whose zones state their capacity; kernels before 5.9 did not know of any.
const HAS_CAPACITY: u32 = 1;
/// Condition of a zone that was opened by a write to it.
const IMPLICITLY_OPEN: u8 = 2;

/// How a zone is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneKind {
    /// Anywhere.
    Conventional,
    /// From its write pointer on, and nowhere else: that of a host-managed device.
    Sequential,
    /// From its write pointer on if possible; anywhere else as well: that of a host-aware device.
    SequentialPreferred,
}

/// A zone of a report, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReportedZone {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) capacity: u64,
    pub(super) kind: ZoneKind,
    /// Bytes from the start to the write pointer. All of the capacity where nothing can be written any more.
    pub(super) written: u64,
    /// Whether the drive has opened it by itself, for it was written to.
    pub(super) is_open: bool,
}

impl ReportedZone {
    /// As hosts see it.
    pub(super) fn zone(&self) -> Zone {
        let conventional = self.kind == ZoneKind::Conventional;
        Zone { start: self.start, capacity: self.capacity, conventional, written: self.written }
    }

    fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// What is wrong with a report, or with the zones that it states: the reason, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZonesRefused {
    pub(super) reason: String,
    pub(super) advice: &'static str,
}

impl fmt::Display for ZonesRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.advice)
    }
}

const USE_ANOTHER: &str = "use another device";

fn senseless(reason: String) -> ZonesRefused {
    ZonesRefused { reason, advice: "see the kernel's log about this device, or use another one" }
}

/// The header of a request for `zones` zones from byte `offset` on.
pub(super) fn request(offset: u64, zones: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&(offset / SECTOR).to_ne_bytes());
    header[8..12].copy_from_slice(&zones.to_ne_bytes());
    header
}

/// The zones of a report.
///
/// # Errors
/// A report that contradicts itself: it comes from a device.
pub(super) fn parse(report: &[u8]) -> Result<Vec<ReportedZone>, ZonesRefused> {
    let cut = || senseless(format!("a report of zones has {} bytes, which is too few", report.len()));
    let (header, zones) = report.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
    let (count, flags) = (u32_at(header, 8), u32_at(header, 12));
    let zones = (count as usize).checked_mul(ZONE_BYTES).and_then(|len| zones.get(..len)).ok_or_else(cut)?;
    zones.chunks_exact(ZONE_BYTES).map(|zone| parse_zone(zone, flags & HAS_CAPACITY != 0)).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// start u64, len u64, write pointer u64, type u8, condition u8, two bytes of hints, 4 reserved, capacity
/// u64.
fn parse_zone(zone: &[u8], has_capacity: bool) -> Result<ReportedZone, ZonesRefused> {
    let [start, len, pointer, capacity] = [0, 8, 16, 32].map(|at| u64_at(zone, at));
    let (kind, condition) = (zone[24], zone[25]);
    let wrong = |what: &str| senseless(format!("the zone at sector {start} {what}"));
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR).ok_or_else(|| wrong("is beyond 2^64 bytes"));
    if len == 0 || start.checked_add(len).is_none() {
        return Err(wrong("has no length, or none that can be"));
    }
    bytes(start + len)?;
    let capacity = if has_capacity { capacity } else { len };
    if !(1..=len).contains(&capacity) {
        return Err(wrong(&format!("has {len} sectors, and room for {capacity}")));
    }
    let kind = match kind {
        1 => ZoneKind::Conventional,
        2 => ZoneKind::Sequential,
        3 => ZoneKind::SequentialPreferred,
        other => return Err(wrong(&format!("is of type {other}, which is unknown here"))),
    };
    let written = match (kind, condition) {
        (ZoneKind::Conventional, _) | (_, 0 | 1) => 0,
        // Open by itself, open by request, closed: the conditions in which a write pointer means something.
        (_, 2..=4) => match pointer.checked_sub(start) {
            Some(written) if written <= capacity => written,
            _ => return Err(wrong(&format!("goes on at sector {pointer}, which it does not have"))),
        },
        // Read-only, full, offline: nothing can be written, wherever the pointer is said to be.
        (_, 0xD..=0xF) => capacity,
        (_, other) => return Err(wrong(&format!("is in condition {other}, which is unknown here"))),
    };
    Ok(ReportedZone {
        start: start * SECTOR,
        len: len * SECTOR,
        capacity: capacity * SECTOR,
        kind,
        written: written * SECTOR,
        is_open: kind == ZoneKind::Sequential && condition == IMPLICITLY_OPEN,
    })
}

/// The geometry of a device with all of these zones; `None` if it can be written anywhere, as host-aware
/// devices can. Those that manage their zones by themselves report none.
///
/// A shorter zone at the end is left out, and so are conventional zones behind all sequential ones.
///
/// # Errors
/// Zones of several lengths or capacities; conventional ones between sequential ones.
pub(super) fn geometry(zones: &[ReportedZone]) -> Result<Option<Zones>, ZonesRefused> {
    let mut expected = 0;
    for zone in zones {
        if zone.start != expected {
            let reason = format!("the zone at byte {} was to begin at byte {expected}", zone.start);
            return Err(senseless(reason));
        }
        expected = zone.end();
    }
    let is_sequential = |zone: &ReportedZone| zone.kind == ZoneKind::Sequential;
    let Some(first_sequential) = zones.iter().position(is_sequential) else { return Ok(None) };
    let zone_len = zones[0].len;
    let whole = match zones {
        [whole @ .., last] if last.len < zone_len && !whole.is_empty() => whole,
        all => all,
    };
    if let Some(other) = whole.iter().find(|zone| zone.len != zone_len) {
        return Err(ZonesRefused {
            reason: format!(
                "zones of {zone_len} and of {} bytes are mixed, and only zones of one length can be used",
                other.len
            ),
            advice: USE_ANOTHER,
        });
    }
    let Some(behind) = whole.get(first_sequential..).filter(|behind| !behind.is_empty()) else {
        // The one sequential zone is the short one.
        return Err(ZonesRefused { reason: "it has no whole zone to write".into(), advice: USE_ANOTHER });
    };
    let sequential = behind.iter().take_while(|zone| is_sequential(zone)).count();
    if behind[sequential..].iter().any(is_sequential) {
        return Err(ZonesRefused {
            reason: "conventional zones lie between sequential ones, and can only be used in front of them"
                .into(),
            advice: USE_ANOTHER,
        });
    }
    let zone_capacity = behind[0].capacity;
    if let Some(other) = behind[..sequential].iter().find(|zone| zone.capacity != zone_capacity) {
        return Err(ZonesRefused {
            reason: format!(
                "zones with room for {zone_capacity} and for {} bytes are mixed, and only zones of one capacity \
                 can be used",
                other.capacity
            ),
            advice: USE_ANOTHER,
        });
    }
    Ok(Some(Zones {
        zone_len,
        zone_capacity,
        count: (first_sequential + sequential) as u64,
        conventional: first_sequential as u64,
        open_max: 0,
        active_max: 0,
    }))
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
