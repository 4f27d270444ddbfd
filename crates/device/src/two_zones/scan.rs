//! Reading the log when it is opened: which half counts, and where everything lies.

use super::layout::{Layout, Position, ROOM_MIN};
use super::log::{End, Log, NO_MORE, NOWHERE, Place};
use super::planted::{self, Bug};
use super::record::{BLOCK_BYTES, Brief, Header, Kind, LOST, unknown_version};
use crate::zones::write_pointer;
use crate::{AlignedBuf, Device, DeviceError, DeviceErrorKind, Request, Zones};

/// Zones among whose first blocks the beginning of a half is looked for.
const ZONES_SEARCHED: u64 = 1024;
/// How many of them are read at once.
const ZONES_AT_ONCE: usize = 64;
/// Headers that begin a half.
const FIRST_HEADERS: u64 = 2;

fn read_header(device: &dyn Device, place: u64) -> Option<Header> {
    let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
    device.read_at(&mut bytes, place).ok()?;
    Header::decode(&bytes, place)
}

fn damaged(device: &dyn Device, place: u64) -> DeviceError {
    let error =
        DeviceError::new(DeviceErrorKind::Io, "find the area kept in two halves of", device.describe());
    error.at(place, BLOCK_BYTES as u64).advise(
        "a record and the one behind it are damaged or cannot be read: see to the device and try again, or put back an undamaged copy of the same moment",
    )
}

/// The zones among which the halves lie, if there are some.
pub(super) fn searched(zones: &Zones) -> impl Iterator<Item = u64> + use<> {
    let (first, len) = (zones.conventional_len(), zones.zone_len);
    let count = zones.count.saturating_sub(zones.conventional).min(ZONES_SEARCHED);
    (0..count).map(move |zone| first + zone * len)
}

/// Where the halves lie, if there are some.
pub(super) fn find_layout(device: &dyn Device, zones: Zones) -> Result<Option<Layout>, DeviceError> {
    let (mut unread, mut found) = (false, None);
    each_first_block(device, &zones, |place, read| {
        let Some(bytes) = read else {
            unread |= place < zones.conventional_len() + zones.zone_len;
            return Ok(true);
        };
        if let Some(version) = unknown_version(bytes) {
            let error = DeviceError::new(DeviceErrorKind::Unsupported, "open", device.describe());
            return Err(error.at(place, BLOCK_BYTES as u64).advise(format!(
                "it has an area in two halves in version {version}, which this build does not know: use the build that wrote it"
            )));
        }
        found = Header::decode(bytes, place).and_then(|header| layout_of(&header, zones, place));
        Ok(found.is_none())
    })?;
    // It may have begun where nothing can be read. Of a device that has conventional zones as well others
    // will say so, if it holds anything.
    match found.is_none() && unread && zones.conventional == 0 {
        true => Err(damaged(device, zones.conventional_len())),
        false => Ok(found),
    }
}

/// What begins a half, of this layout or of an earlier one.
pub(super) struct Beginning {
    /// First byte of the zone that it lies in.
    pub(super) zone: u64,
    pub(super) layout: Layout,
}

/// Whatever begins a half, as far as it can be read, in the order in which it lies.
pub(super) fn beginnings(device: &dyn Device, zones: Zones) -> Result<Vec<Beginning>, DeviceError> {
    let mut found: Vec<Beginning> = Vec::new();
    each_first_block(device, &zones, |place, read| {
        let header = read.and_then(|bytes| Header::decode(bytes, place));
        let zone = zones.start(place);
        match header.and_then(|header| layout_of(&header, zones, place)) {
            Some(layout) if found.last().is_none_or(|last| last.zone != zone) => {
                found.push(Beginning { zone, layout });
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Shows `see` the blocks in which the first headers of a half may lie, each with its place, as long as it
/// says `true`. A block that cannot be read is none.
fn each_first_block(
    device: &dyn Device,
    zones: &Zones,
    mut see: impl FnMut(u64, Option<&[u8]>) -> Result<bool, DeviceError>,
) -> Result<(), DeviceError> {
    let fits = zones.zone_capacity >= FIRST_HEADERS * BLOCK_BYTES as u64;
    if !fits || zones.zone_len % BLOCK_BYTES as u64 != 0 {
        return Ok(());
    }
    let all: Vec<u64> = searched(zones).collect();
    for starts in all.chunks(ZONES_AT_ONCE) {
        let places: Vec<u64> = starts
            .iter()
            .flat_map(|start| (0..FIRST_HEADERS).map(move |nth| start + nth * BLOCK_BYTES as u64))
            .collect();
        let mut blocks = vec![AlignedBuf::zeroed(BLOCK_BYTES); places.len()];
        let mut reads: Vec<_> = places
            .iter()
            .zip(&mut blocks)
            .map(|(offset, buf)| Request::Read { offset: *offset, buf })
            .collect();
        let read = device.run(&mut reads);
        for ((place, bytes), read) in places.iter().zip(&blocks).zip(&read) {
            let bytes = match read {
                Ok(()) => Some(&bytes[..]),
                Err(error) if error.kind() == DeviceErrorKind::Io => None,
                // Of a device that is switched off nothing is said.
                Err(error) => return Err(read_failure(device, *place, error)),
            };
            if !see(*place, bytes)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn read_failure(device: &dyn Device, place: u64, error: &DeviceError) -> DeviceError {
    DeviceError::new(error.kind(), "read", device.describe()).at(place, BLOCK_BYTES as u64)
}

/// The layout that one of the first headers of a half names, if it is one.
fn layout_of(header: &Header, zones: Zones, place: u64) -> Option<Layout> {
    let half_zones = u64::from(header.zones);
    let layout = Layout { zones, half_zones, area_blocks: header.area_bytes / BLOCK_BYTES as u64 };
    let begins = layout.place(header.half, Position { zone: 0, block: header.number });
    (header.number < FIRST_HEADERS && place == begins && layout.check().is_ok()).then_some(layout)
}

/// What a half holds.
struct Half {
    end: End,
    is_complete: bool,
    /// Where each block lies.
    places: Vec<Place>,
    /// The last record, if it brings blocks.
    last: Option<Last>,
}

/// A record that may be torn.
struct Last {
    place: u64,
    checksum: u32,
    /// Its blocks, and where each lay before.
    replaced: Vec<(u32, Place)>,
}

/// Opens the log: the map, and the end that writes go on at.
pub(super) fn open(device: &dyn Device, layout: &Layout) -> Result<(Log, Vec<Place>), DeviceError> {
    let mut found = Vec::new();
    for half in 0..2 {
        if let Some(generation) = generation_of(device, layout, half)? {
            found.push((generation, half));
        }
    }
    found.sort_unstable();
    let generation_next = found.last().map_or(1, |last| last.0 + 1);
    let mut is_newest = true;
    while let Some((generation, half)) = found.pop() {
        let mut half = scan(device, layout, half, generation)?;
        if half.is_complete || planted::is(Bug::IncompleteHalfCounts) {
            check_last(device, &mut half);
            // A half that is newer and not complete is written anew, so that it never passes for complete.
            half.end.in_doubt |= !is_newest && !planted::is(Bug::FailedHalfForgotten);
            let used = half.places.iter().filter(|place| **place != NOWHERE).count() as u64;
            return Ok((Log { end: half.end, generation_next, used }, half.places));
        }
        is_newest = false;
    }
    let error =
        DeviceError::new(DeviceErrorKind::Io, "find the area kept in two halves of", device.describe());
    Err(error.at(layout.zone(0, 0), 0).advise(
        "neither half is complete: formatting it was cut short, or it is damaged; format it, or put back an undamaged copy of the same moment",
    ))
}

/// The generation of a half, as its first records say it; none if nothing has begun there.
pub(super) fn generation_of(
    device: &dyn Device,
    layout: &Layout,
    half: u32,
) -> Result<Option<u64>, DeviceError> {
    let begins = Position::default();
    for nth in 0..FIRST_HEADERS {
        let position = Position { block: nth, ..begins };
        let header = read_header(device, layout.place(half, position));
        if let Some(header) = header.filter(|header| is_of(header, layout, half) && header.number == nth) {
            return Ok(Some(header.generation));
        }
    }
    // A beginning that was cut short leaves nothing behind its first record.
    let is_damaged = match write_pointer(device, layout.zone(half, 0)) {
        Some(_) => written(device, layout, half, 0) > 1,
        None => headers_from(device, layout, half, begins, None).next().is_some(),
    };
    if is_damaged { Err(damaged(device, layout.zone(half, 0))) } else { Ok(None) }
}

fn is_of(header: &Header, layout: &Layout, half: u32) -> bool {
    let same = u64::from(header.zones) == layout.half_zones
        && header.area_bytes / BLOCK_BYTES as u64 == layout.area_blocks;
    same && header.half == half
}

/// The headers of a half from a position on, up to what was written of each zone. Without a generation only
/// those in the zone of the position.
fn headers_from<'d>(
    device: &'d dyn Device,
    layout: &'d Layout,
    half: u32,
    from: Position,
    generation: Option<u64>,
) -> impl Iterator<Item = (Position, Header)> + 'd {
    let last = if generation.is_some() { layout.half_zones - 1 } else { from.zone };
    (from.zone..=last)
        .flat_map(move |zone| {
            let first = if zone == from.zone { from.block } else { 0 };
            (first..written(device, layout, half, zone)).map(move |block| Position { zone, block })
        })
        .filter_map(move |position| {
            let header = read_header(device, layout.place(half, position))?;
            let counts = is_of(&header, layout, half)
                && generation.is_none_or(|generation| header.generation == generation);
            counts.then_some((position, header))
        })
}

/// How many blocks of a zone were begun, as the device says; all, if it does not say.
fn written(device: &dyn Device, layout: &Layout, half: u32, zone: u64) -> u64 {
    let start = layout.zone(half, zone);
    let bytes = write_pointer(device, start).map_or(u64::MAX, |pointer| pointer - start);
    bytes.div_ceil(BLOCK_BYTES as u64).min(layout.zone_blocks())
}

/// Reads the records of a half in their order.
fn scan(device: &dyn Device, layout: &Layout, half: u32, generation: u64) -> Result<Half, DeviceError> {
    let mut found = Half {
        end: End::of_empty(half, generation),
        is_complete: false,
        places: vec![NOWHERE; layout.area_blocks as usize],
        last: None,
    };
    loop {
        let position = found.end.position;
        if let Some((position, header)) = next(device, layout, &found.end) {
            found.take(layout, position, &header.own, Some(header.data_checksum));
            continue;
        }
        // The end, or a header that is damaged: then the next one says what it said.
        let beyond = Position { block: position.block + 1, ..position };
        let beyond = headers_from(device, layout, half, beyond, Some(generation))
            .find(|(_, header)| header.number > found.end.number);
        let Some((at, header)) = beyond.filter(|_| !planted::is(Bug::DamagedHeaderEnds)) else {
            break;
        };
        let before = layout.position(half, header.before.place).filter(|before| *before >= position);
        match before {
            Some(before) if header.number == found.end.number + 1 && before < at => {
                found.take(layout, before, &header.before, None);
                found.take(layout, at, &header.own, Some(header.data_checksum));
            }
            _ => return Err(damaged(device, due_at(device, layout, &found.end))),
        }
    }
    // Whatever lies behind the end is torn: nothing can be written there before the zone is reset.
    let Position { zone, block } = found.end.position;
    let start = layout.zone(half, zone);
    let place = start + block * BLOCK_BYTES as u64;
    let goes_on = write_pointer(device, start) == Some(place);
    if layout.zone_blocks() - block >= ROOM_MIN {
        found.end.in_doubt |= !goes_on && !planted::is(Bug::WrittenBehindUnknownEnd);
    } else if !goes_on {
        // Here only what fills the zone may lie. Where it ends before, or a record does that reads as whole,
        // as what was not written of it is zeros, whatever is written there may become part of something
        // torn.
        let full = start + layout.zones.zone_capacity;
        found.end.in_doubt |= write_pointer(device, start).is_some_and(|pointer| pointer != full);
        found.end.position.block = layout.zone_blocks();
        found.end.in_doubt |= zone + 1 < layout.half_zones && written(device, layout, half, zone + 1) > 0;
    } else {
        found.end.in_doubt |= zone + 1 < layout.half_zones && written(device, layout, half, zone + 1) > 0;
    }
    Ok(found)
}

/// The record that is due at the end, or, if hardly any fits there, where the next zone begins.
fn next(device: &dyn Device, layout: &Layout, end: &End) -> Option<(Position, Header)> {
    let room = layout.zone_blocks() - end.position.block;
    let here = (room > 0).then_some(end.position);
    let next_zone = Position { zone: end.position.zone + 1, block: 0 };
    let there = (room < ROOM_MIN && next_zone.zone < layout.half_zones).then_some(next_zone);
    [here, there].into_iter().flatten().find_map(|position| {
        let header = read_header(device, layout.place(end.half, position))?;
        let is_due = is_of(&header, layout, end.half)
            && (header.generation, header.number) == (end.generation, end.number)
            && position.block + 1 + header.own.blocks.len() as u64 <= layout.zone_blocks();
        is_due.then_some((position, header))
    })
}

/// Where the record that is due at the end began, which is damaged: behind what fills a zone it is the first
/// of the next one.
fn due_at(device: &dyn Device, layout: &Layout, end: &End) -> u64 {
    let room = layout.zone_blocks() - end.position.block;
    let next_zone = end.position.zone + 1;
    let here = layout.place(end.half, end.position);
    let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
    let mut filled = || device.read_at(&mut bytes, here).is_ok() && bytes.iter().all(|byte| *byte == 0);
    let there = room < ROOM_MIN && next_zone < layout.half_zones && (room == 0 || filled());
    if there { layout.zone(end.half, next_zone) } else { here }
}

impl Half {
    /// Takes a record that lies at this position.
    fn take(&mut self, layout: &Layout, position: Position, record: &Brief, checksum: Option<u32>) {
        let place = layout.place(self.end.half, position);
        let mut replaced = Vec::with_capacity(record.blocks.len());
        for (nth, number) in (1..).zip(&record.blocks) {
            let block = number & !LOST;
            let lies_at = if number & LOST == 0 { place + nth * BLOCK_BYTES as u64 } else { NO_MORE };
            // Both lists of a header were compared with the area that it names.
            let before = std::mem::replace(&mut self.places[block as usize], lies_at);
            replaced.push((block, before));
        }
        self.is_complete |= record.kind == Kind::Complete;
        let end = &mut self.end;
        end.position = Position { block: position.block + 1 + record.blocks.len() as u64, ..position };
        end.number += 1;
        end.before = record.clone();
        self.last =
            checksum.filter(|_| !record.blocks.is_empty()).map(|checksum| Last { place, checksum, replaced });
    }
}

/// Drops the last record if it is torn. A flush leaves a mark behind it, which brings no blocks.
fn check_last(device: &dyn Device, half: &mut Half) {
    let Some(Last { place, checksum, replaced }) = half.last.take() else { return };
    let mut bytes = AlignedBuf::zeroed(replaced.len() * BLOCK_BYTES);
    let read = device.read_at(&mut bytes, place + BLOCK_BYTES as u64);
    let whole = read.is_ok() && crc32c::crc32c(&bytes) == checksum;
    if whole || planted::is(Bug::TornRecordTaken) {
        return;
    }
    for (block, before) in replaced.into_iter().rev() {
        half.places[block as usize] = before;
    }
    half.end.in_doubt = !planted::is(Bug::WrittenBehindTornRecord);
}
