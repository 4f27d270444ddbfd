//! Writing: records behind one another, and from one half to the other when one is full.

use mezzanine_ground::interleave::sync::RwLock;
use mezzanine_ground::interleave::{exclusive, shared};

use super::layout::{Layout, Position, ROOM_MIN, blocks_that_fit};
use super::planted::{self, Bug};
use super::record::{BLOCK_BYTES, BLOCKS_MAX, Brief, Header, Kind, LOST};
use crate::zones::write_pointer;
use crate::{AlignedBuf, Device, DeviceError, DeviceErrorKind, Request};

/// How often a block is read that is to be copied.
const READS: usize = 3;

/// Where a block of the area lies: the byte on the device, or one of these two.
pub(super) type Place = u64;
/// It was never written, and reads as zeros. Records begin with a header, so no block lies there.
pub(super) const NOWHERE: Place = 0;
/// It could not be read when it was to be copied.
pub(super) const NO_MORE: Place = u64::MAX;

/// The end of a half.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) half: u32,
    pub(super) generation: u64,
    /// Where the next record goes, if the zone has room for one.
    pub(super) position: Position,
    /// The next record's.
    pub(super) number: u64,
    pub(super) before: Brief,
    /// What lies there is not known: nothing is written behind it any more.
    pub(super) in_doubt: bool,
    /// A record was written behind the last mark, or snapshot, since this was opened.
    pub(super) unmarked: bool,
}

/// The log of an area.
pub(super) struct Log {
    pub(super) end: End,
    /// Above that of every record that may lie anywhere in the halves.
    pub(super) generation_next: u64,
    /// How many blocks of the area were written ever.
    pub(super) used: u64,
}

impl End {
    /// The end of a half that is empty.
    pub(super) fn of_empty(half: u32, generation: u64) -> Self {
        let (position, before) = (Position::default(), Brief::default());
        Self { half, generation, position, number: 0, before, in_doubt: false, unmarked: false }
    }

    fn room(&self, layout: &Layout) -> u64 {
        layout.zone_blocks() - self.position.block
    }

    /// Writes a record here, of these blocks; `bytes` is a header's room and then what they hold. Returns the
    /// place of the first.
    ///
    /// # Panics
    /// If the zone has no room for it.
    fn append(
        &mut self,
        device: &dyn Device,
        layout: &Layout,
        kind: Kind,
        blocks: &[u32],
        bytes: &mut [u8],
    ) -> Result<Place, DeviceError> {
        let taken = 1 + blocks.len() as u64;
        assert!(taken <= self.room(layout), "a record lies in one zone");
        assert_eq!(bytes.len() as u64, taken * BLOCK_BYTES as u64);
        let place = layout.place(self.half, self.position);
        let (header, data) = bytes.split_at_mut(BLOCK_BYTES);
        let own = Brief { place, kind, blocks: blocks.to_vec() };
        Header {
            generation: self.generation,
            number: self.number,
            area_bytes: layout.area_blocks * BLOCK_BYTES as u64,
            zones: layout.half_zones as u32,
            half: self.half,
            data_checksum: crc32c::crc32c(data),
            own: own.clone(),
            before: std::mem::take(&mut self.before),
        }
        .encode(header);
        // Whatever comes of the write: it is not repeated here.
        self.in_doubt = !planted::is(Bug::FailedWriteRepeated);
        device.write_at(bytes, place)?;
        self.in_doubt = false;
        self.position.block += taken;
        self.number += 1;
        self.before = own;
        self.unmarked = kind == Kind::Change && !blocks.is_empty();
        Ok(place + BLOCK_BYTES as u64)
    }

    /// Goes on in the next zone of the half if this one has no room for a record; `false` if there is none.
    /// All that was written is durable then, so that no zone holds what follows something lost in another.
    fn find_room(&mut self, device: &dyn Device, layout: &Layout) -> Result<bool, DeviceError> {
        if self.room(layout) >= ROOM_MIN {
            return Ok(true);
        }
        if self.position.zone + 1 >= layout.half_zones {
            return Ok(false);
        }
        // A drive that limits how many zones are written to at once counts those that are not full. Of an end
        // that was found, some of this may have been written before.
        let start = layout.zone(self.half, self.position.zone);
        let place = start + self.position.block * BLOCK_BYTES as u64;
        let place = write_pointer(device, start).unwrap_or(place);
        let rest = AlignedBuf::zeroed((start + layout.zones.zone_capacity).saturating_sub(place) as usize);
        if !rest.is_empty() {
            self.in_doubt = true;
            device.write_at(&rest, place)?;
            self.in_doubt = false;
        }
        if !planted::is(Bug::ZoneBegunUnflushed) {
            device.flush()?;
        }
        self.position = Position { zone: self.position.zone + 1, block: 0 };
        Ok(true)
    }
}

/// The runs of blocks that lie side by side: how many, and where.
pub(super) fn runs(places: &[Place]) -> impl Iterator<Item = (usize, Place)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *places.get(at)?;
        let follows = |(nth, place): (usize, &Place)| match first {
            NOWHERE | NO_MORE => *place == first,
            _ => *place == first + (nth * BLOCK_BYTES) as u64,
        };
        let count = places[at..].iter().enumerate().take_while(|each| follows((each.0, each.1))).count();
        at += count;
        Some((count, first))
    })
}

/// Reads whole blocks of the area that lie at these places.
pub(super) fn read_blocks(
    device: &dyn Device,
    places: &[Place],
    bytes: &mut [u8],
) -> Result<(), DeviceError> {
    let mut rest = bytes;
    for (count, place) in runs(places) {
        let (here, behind) = std::mem::take(&mut rest).split_at_mut(count * BLOCK_BYTES);
        read_run(device, place, 0, here)?;
        rest = behind;
    }
    Ok(())
}

/// Reads from byte `from` of a run that begins at this place.
pub(super) fn read_run(
    device: &dyn Device,
    place: Place,
    from: u64,
    bytes: &mut [u8],
) -> Result<(), DeviceError> {
    match place {
        NOWHERE => bytes.fill(0),
        NO_MORE => {
            let error = DeviceError::new(DeviceErrorKind::Io, "read", device.describe());
            return Err(error.advise(
                "a block of the area that is kept in two halves could not be read when it was to be copied",
            ));
        }
        place => device.read_at(bytes, place + from)?,
    }
    Ok(())
}

impl Log {
    /// Makes room for a record with a change, in the other half if need be, and returns for how many blocks.
    /// `map` is given another form only when all of it is durable.
    pub(super) fn make_room(
        &mut self,
        device: &dyn Device,
        layout: &Layout,
        map: &RwLock<Vec<Place>>,
    ) -> Result<u64, DeviceError> {
        if self.end.in_doubt || !self.end.find_room(device, layout)? {
            let places = shared(map).clone();
            let (end, places) = self.switch(device, layout, &places)?;
            // Waits for those who still read the half that is left.
            *exclusive(map) = places;
            self.end = end;
            // By `used_max` there is room for more than the snapshot.
            assert!(self.end.find_room(device, layout)?, "a half has room for twice what is used");
        }
        Ok(blocks_that_fit(self.end.room(layout)))
    }

    /// Appends a record with these blocks, for which there is room. As [`End::append`].
    pub(super) fn change(
        &mut self,
        device: &dyn Device,
        layout: &Layout,
        blocks: &[u32],
        bytes: &mut [u8],
    ) -> Result<Place, DeviceError> {
        self.end.append(device, layout, Kind::Change, blocks, bytes)
    }

    /// Marks that a flush follows: so that the last record that it covers is not the last of the log, which
    /// may pass for torn. An aid only; that it fails is seen by the next write.
    pub(super) fn mark(&mut self, device: &dyn Device, layout: &Layout) {
        let marked = !self.end.unmarked || planted::is(Bug::FlushUnmarked);
        if !marked && !self.end.in_doubt && self.end.room(layout) > 0 {
            let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
            let _ = self.end.append(device, layout, Kind::Change, &[], &mut bytes);
        }
    }

    /// Writes everything that is mapped to the other half. The half that counts is the one before until the
    /// last flush of this has gone well, and if anything fails.
    fn switch(
        &mut self,
        device: &dyn Device,
        layout: &Layout,
        places: &[Place],
    ) -> Result<(End, Vec<Place>), DeviceError> {
        let half = 1 - self.end.half;
        // What an attempt has left that failed is of another generation than the next one.
        let generation = self.generation_next;
        self.generation_next += u64::from(!planted::is(Bug::GenerationReused));
        begin(device, layout, half, generation, places)
    }
}

/// Resets these zones, durably.
pub(super) fn reset(device: &dyn Device, zones: impl Iterator<Item = u64>) -> Result<(), DeviceError> {
    let mut resets: Vec<_> = zones.map(|zone| Request::Reset { zone }).collect();
    device.run(&mut resets).into_iter().collect::<Result<(), _>>()?;
    device.flush()
}

/// Empties a half, its first zone before the others: resets that are cut short happen to any of the zones,
/// and what they leave of a half has no beginning then, so that it passes neither for damaged nor for
/// complete.
pub(super) fn empty(device: &dyn Device, layout: &Layout, half: u32) -> Result<(), DeviceError> {
    let first = usize::from(!planted::is(Bug::HalfEmptiedAtOnce));
    if first > 0 {
        reset(device, layout.starts(half).take(first))?;
    }
    reset(device, layout.starts(half).skip(first))
}

/// Empties a half and writes a snapshot to it. Returns its end, and where everything lies there.
pub(super) fn begin(
    device: &dyn Device,
    layout: &Layout,
    half: u32,
    generation: u64,
    places: &[Place],
) -> Result<(End, Vec<Place>), DeviceError> {
    // Nothing of what was there before follows what is written now.
    empty(device, layout, half)?;
    let mut end = End::of_empty(half, generation);
    let mut header = AlignedBuf::zeroed(BLOCK_BYTES);
    // Two headers side by side begin a half, so that one that is damaged does not hide it.
    end.append(device, layout, Kind::Snapshot, &[], &mut header)?;
    let mut copied = vec![NOWHERE; places.len()];
    let mapped: Vec<u32> = (0..).zip(places).filter(|each| *each.1 != NOWHERE).map(|each| each.0).collect();
    let (mut rest, mut any_read) = (&mapped[..], false);
    while !rest.is_empty() {
        full_unless(end.find_room(device, layout)?, device)?;
        let count = (blocks_that_fit(end.room(layout)) as usize).min(rest.len()).min(BLOCKS_MAX);
        let (now, later) = rest.split_at(count);
        let mut bytes = AlignedBuf::zeroed((1 + count) * BLOCK_BYTES);
        let from: Vec<Place> = now.iter().map(|block| places[*block as usize]).collect();
        let lost = read_to_copy(device, &from, &mut bytes[BLOCK_BYTES..])?;
        any_read |= lost.iter().zip(&from).any(|(lost, from)| !lost && *from != NO_MORE);
        let flag = if planted::is(Bug::LostBlockZeroed) { 0 } else { LOST };
        let named: Vec<u32> =
            now.iter().zip(&lost).map(|(block, lost)| if *lost { block | flag } else { *block }).collect();
        let place = end.append(device, layout, Kind::Snapshot, &named, &mut bytes)?;
        for (nth, block) in named.iter().enumerate() {
            copied[(block & !LOST) as usize] = match block & LOST {
                0 => place + (nth * BLOCK_BYTES) as u64,
                _ => NO_MORE,
            };
        }
        rest = later;
    }
    // Of a device that answers nothing no block is given up.
    if !any_read && places.iter().any(|place| ![NOWHERE, NO_MORE].contains(place)) {
        let error = DeviceError::new(DeviceErrorKind::Io, "read", device.describe());
        return Err(error.advise("nothing of the area could be read to copy it to its other half"));
    }
    full_unless(end.find_room(device, layout)?, device)?;
    header.fill(0);
    end.append(device, layout, Kind::Complete, &[], &mut header)?;
    if !planted::is(Bug::SnapshotUnflushed) {
        device.flush()?;
    }
    Ok((end, copied))
}

fn full_unless(room: bool, device: &dyn Device) -> Result<(), DeviceError> {
    let error = || DeviceError::new(DeviceErrorKind::NoSpace, "copy an area of", device.describe());
    room.then_some(()).ok_or_else(error)
}

/// Reads blocks that are to be copied, and says which of them could not be read: their bytes are zeros then.
fn read_to_copy(device: &dyn Device, from: &[Place], bytes: &mut [u8]) -> Result<Vec<bool>, DeviceError> {
    if read_blocks(device, from, bytes).is_ok() {
        return Ok(vec![false; from.len()]);
    }
    let mut lost = Vec::with_capacity(from.len());
    for (place, bytes) in from.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
        let mut read = read_run(device, *place, 0, bytes);
        for _ in 1..READS {
            if read.is_err() {
                read = read_run(device, *place, 0, bytes);
            }
        }
        match read {
            Err(error) if error.kind() != DeviceErrorKind::Io => return Err(error),
            read => lost.push(read.is_err()),
        }
        if lost.last() == Some(&true) {
            bytes.fill(0);
        }
    }
    Ok(lost)
}
