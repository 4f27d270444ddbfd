//! Invariants checked: what was flushed is there after a power cut at any operation, and of what was not each
//! block is as one of the writes since has left it; what was written is read, also around errors.

#![allow(clippy::unwrap_used)]

use mezzanine_ground::random::Random;

use super::*;
use crate::MemoryDevice;
use crate::memory::{Bad, Fault, Injection, Operation, Power};

const BLOCK: u64 = BLOCK_BYTES as u64;

fn zones_of(conventional: u64, capacity: u64) -> Zones {
    let zone_len = capacity.next_multiple_of(BLOCK) + BLOCK;
    Zones { zone_len, zone_capacity: capacity, count: 64, conventional, open_max: 0 }
}

/// A device, its area, and what the blocks of that may hold.
struct Case {
    device: Arc<MemoryDevice>,
    area: TwoZones<Arc<dyn Device>>,
    /// Of each block what it was at the last flush, and what each write since has made of it.
    held: Vec<Vec<Vec<u8>>>,
}

impl Case {
    fn new(zones: Zones, blocks: u64) -> Self {
        let device = Arc::new(MemoryDevice::zoned(&Power::new(), "zoned drive", zones));
        let area = TwoZones::format(Arc::clone(&device) as Arc<dyn Device>, blocks * BLOCK, blocks * BLOCK);
        Self { device, area: area.unwrap(), held: vec![vec![vec![0; BLOCK_BYTES]]; blocks as usize] }
    }

    fn find(&self) -> Result<Option<TwoZones<Arc<dyn Device>>>, DeviceError> {
        TwoZones::find(Arc::clone(&self.device) as Arc<dyn Device>)
    }

    fn reopen(&mut self) {
        self.area = self.find().unwrap().unwrap();
    }

    fn bytes(&self) -> u64 {
        self.held.len() as u64 * BLOCK
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut whole: Vec<u8> = self.held.iter().flat_map(|held| held.last().unwrap()).copied().collect();
        whole[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        for block in offset / BLOCK..(offset + bytes.len() as u64).div_ceil(BLOCK) {
            let at = (block * BLOCK) as usize;
            self.held[block as usize].push(whole[at..at + BLOCK_BYTES].to_vec());
        }
        self.area.write_at(bytes, offset)
    }

    fn write_random(&mut self, random: &mut Random) -> Result<(), DeviceError> {
        let unit = *random.pick(&[1, 512, BLOCK, BLOCK]);
        let most = random.magnitude(9);
        let len = random.between(1, (self.bytes() / unit).min(most).max(1)) * unit;
        let offset = random.below((self.bytes() - len) / unit + 1) * unit;
        let (first, step) = (random.below(256) as u8, random.below(7) as u8);
        let bytes: Vec<u8> = (0..len).map(|at| first.wrapping_add(step.wrapping_mul(at as u8))).collect();
        self.write(offset, &bytes)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.area.flush()?;
        for held in &mut self.held {
            held.drain(..held.len() - 1);
        }
        Ok(())
    }

    /// Every block is read as one of what it may hold; that is what it holds from then on.
    fn check(&mut self, exactly: bool, when: &str) {
        for (number, held) in self.held.iter_mut().enumerate() {
            let mut bytes = vec![1; BLOCK_BYTES];
            self.area.read_at(&mut bytes, number as u64 * BLOCK).unwrap();
            let may_be = if exactly { &held[held.len() - 1..] } else { &held[..] };
            assert!(
                may_be.contains(&bytes),
                "{when}: block {number} is none of {} that it may be",
                may_be.len()
            );
            if !exactly {
                held.push(bytes);
            }
        }
    }

    /// Power fails in the `after`-th operation from now; what the cut leaves is opened again.
    fn cut(&mut self, after: u64, seed: u64, random: &mut Random) {
        self.device.power().crash_after(after);
        for _ in 0..10 * after {
            let done = if random.chance(1, 4) { self.flush() } else { self.write_random(random) };
            if let Err(error) = done {
                assert!(!self.device.power().is_on(), "{error}");
                break;
            }
        }
        self.device.power_cut(seed);
        self.device.power().restore();
        self.reopen();
        self.check(false, "after a cut");
        // What was read is on flash: what is not there can come back no more.
        for held in &mut self.held {
            held.drain(..held.len() - 1);
        }
    }
}

#[test]
fn what_was_flushed_is_there_after_a_cut_at_any_operation() {
    let mut switches = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let capacity = random.between(3, 12) * BLOCK + *random.pick(&[0, 512]);
        let blocks = random.between(1, 9);
        let zones = Zones { count: 2000, ..zones_of(random.below(2), capacity) };
        let mut case = Case::new(zones, blocks);
        for cut in 0..12 {
            case.cut(random.between(1, 60), seed * 100 + cut, &mut random);
        }
        for _ in 0..20 {
            case.write_random(&mut random).unwrap();
            case.check(true, "after a write");
        }
        case.flush().unwrap();
        case.reopen();
        case.check(true, "opened again");
        switches += case.area.log().end.generation;
    }
    assert!(switches > 4000, "the halves changed {switches} times");
}

#[test]
fn errors_are_returned_and_cost_nothing_that_was_there() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut case = Case::new(zones_of(1, random.between(3, 9) * BLOCK), 5);
        let mut failed = 0;
        for _ in 0..16 {
            let operation = *random.pick(&[Operation::Write, Operation::Reset, Operation::Read]);
            let fault = Fault::Error(DeviceErrorKind::Io);
            let injection =
                Injection { operation, after: random.below(12), count: random.between(1, 2), fault };
            case.device.inject(injection);
            for _ in 0..20 {
                let result = if random.chance(1, 4) { case.flush() } else { case.write_random(&mut random) };
                if result.is_err() {
                    // Each block is as before or as it was to be.
                    failed += 1;
                    case.device.heal();
                    case.check(false, "after an error");
                }
            }
            case.device.heal();
            case.check(false, "after errors");
            if random.chance(1, 3) {
                case.device.power().crash_after(1);
                assert!(case.area.flush().is_err());
                case.device.power_cut(seed);
                case.device.power().restore();
            }
            case.reopen();
            case.check(false, "opened again");
        }
        case.write_random(&mut random).unwrap();
        case.flush().unwrap();
        case.reopen();
        case.check(true, "written and opened again");
        assert!(failed > 0, "seed {seed}");
    }
}

/// Each header of the half that counts damaged, one after the other: nothing is lost but the end; two side by
/// side are an error that names the first of them.
#[test]
fn the_next_record_says_what_a_damaged_header_said() {
    for unreadable in [false, true] {
        let mut case = Case::new(zones_of(0, 9 * BLOCK), 9);
        let mut random = Random::new(1);
        let half = case.area.log().end.half;
        while case.area.log().end.half == half {
            case.write_random(&mut random).unwrap();
        }
        for block in 0..6 {
            case.write(block * BLOCK, &[block as u8 + 1; BLOCK_BYTES]).unwrap();
            case.flush().unwrap();
        }
        let (image, layout, end) = (case.device.image(), case.area.layout, case.area.log().end.clone());
        let places: Vec<u64> = layout
            .starts(end.half)
            .flat_map(|start| (0..layout.zone_blocks()).map(move |block| start + block * BLOCK))
            .filter(|place| {
                let bytes = &image[*place as usize..][..BLOCK_BYTES];
                record::Header::decode(bytes, *place)
                    .is_some_and(|header| header.generation == end.generation)
            })
            .collect();
        assert!(places.len() > 12, "{} records", places.len());
        let damage = |device: &MemoryDevice, place: u64| match unreadable {
            true => device.spoil(place, 512, Bad::Unreadable),
            false => device.flip_bit((place + 50) * 8),
        };
        for (nth, place) in places.iter().enumerate() {
            damage(&case.device, *place);
            case.reopen();
            case.check(true, "one header damaged");
            if let Some(next) = places.get(nth + 1).filter(|_| nth + 2 < places.len()) {
                damage(&case.device, *next);
                let found = case.find();
                assert!(found.is_err(), "records {nth} and the next of {}", places.len());
                let error = found.err().unwrap();
                // What begins the half hides its generation; then the half is named.
                let named = if nth == 0 { layout.zone(end.half, 0) } else { *place };
                assert_eq!(error.range().map(|range| range.0), Some(named), "{error}");
                assert_eq!(error.device(), "zoned drive");
            }
            case.device.heal();
            for place in places.iter().skip(nth).take(2) {
                let at = *place as usize + 50;
                if case.device.image()[at] != image[at] {
                    case.device.flip_bit((place + 50) * 8);
                }
            }
        }
    }
}

#[test]
fn damaged_blocks_are_read_as_they_are_and_unreadable_ones_stay_so_when_they_are_copied() {
    let mut case = Case::new(zones_of(0, 7 * BLOCK), 6);
    for block in 0..6 {
        case.write(block * BLOCK, &[block as u8 + 1; BLOCK_BYTES]).unwrap();
    }
    case.flush().unwrap();
    let (garbled, unreadable) = {
        let map = shared(&case.area.map);
        (map[2], map[3])
    };
    case.device.flip_bit(garbled * 8);
    case.device.spoil(unreadable, 512, Bad::Unreadable);
    let half = case.area.log().end.half;
    for round in 0..2 {
        case.reopen();
        let mut bytes = [0; BLOCK_BYTES];
        case.area.read_at(&mut bytes, 2 * BLOCK).unwrap();
        assert_eq!((bytes[0], bytes[1]), (2, 3), "round {round}");
        assert!(case.area.read_at(&mut bytes, 3 * BLOCK).is_err(), "round {round}");
        case.area.read_at(&mut bytes, 4 * BLOCK).unwrap();
        assert_eq!(bytes, [5; BLOCK_BYTES]);
        while case.area.log().end.half == half {
            case.area.write_at(&[6; BLOCK_BYTES], 5 * BLOCK).unwrap();
        }
        case.area.flush().unwrap();
    }
    case.area.write_at(&[9; BLOCK_BYTES], 3 * BLOCK).unwrap();
    let mut bytes = [0; BLOCK_BYTES];
    case.area.read_at(&mut bytes, 3 * BLOCK).unwrap();
    assert_eq!(bytes, [9; BLOCK_BYTES]);
}

#[test]
fn a_torn_end_is_dropped_and_nothing_is_written_behind_it() {
    let mut case = Case::new(zones_of(0, 12 * BLOCK), 4);
    case.write(0, &[1; 2 * BLOCK_BYTES]).unwrap();
    case.flush().unwrap();
    case.write(BLOCK, &[2; 2 * BLOCK_BYTES]).unwrap();
    let place = shared(&case.area.map)[2];
    let half = case.area.log().end.half;
    case.device.flip_bit(place * 8);
    case.reopen();
    let mut bytes = [7; 4 * BLOCK_BYTES];
    case.area.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[BLOCK_BYTES], 1);
    assert_eq!(bytes[2 * BLOCK_BYTES..], [0; 2 * BLOCK_BYTES]);
    case.area.write_at(&[3; BLOCK_BYTES], 0).unwrap();
    assert_ne!(case.area.log().end.half, half);
}

#[test]
fn the_zones_behind_the_halves_are_shown_behind_the_area() {
    let case = Case::new(zones_of(2, 7 * BLOCK), 6);
    let (area, device) = (&case.area, &case.device);
    let shown = area.capabilities().zones.unwrap();
    let halves = 2 * area.layout.half_zones;
    assert_eq!(shown.conventional, 1);
    assert_eq!(shown.count, 1 + 64 - 2 - halves);
    assert_eq!(area.len(), shown.count * shown.zone_len);
    let (zone, below) = (shown.conventional_len(), (2 + halves) * shown.zone_len);
    assert_eq!(area.append(&[5; 512], zone).unwrap(), zone);
    assert_eq!(area.append(&[6; 512], zone).unwrap(), zone + 512);
    area.write_at(&[7; 512], zone + 1024).unwrap();
    assert_eq!(device.image()[below as usize + 512], 6);
    assert_eq!(area.zone_at(zone + 512).unwrap().write_pointer(), zone + 1536);
    assert!(area.zone_at(5).unwrap().conventional);
    // A read from the area into the first zone.
    let mut bytes = [9; 1024];
    area.read_at(&mut bytes, zone - 512).unwrap();
    assert_eq!((bytes[511], bytes[512]), (0, 5));
    area.reset_zone(zone).unwrap();
    assert_eq!(area.zone_at(zone).unwrap().written, 0);
    for request in [Request::Reset { zone: 0 }, Request::Write { offset: zone - 512, buf: &[0; 1024] }] {
        assert_eq!(area.run_one(request).unwrap_err().kind(), DeviceErrorKind::ZoneOrder);
    }
    let beyond = area.write_at(&[0; 512], 6 * BLOCK).unwrap_err();
    assert_eq!(beyond.kind(), DeviceErrorKind::OutOfRange);
}

#[test]
fn an_area_is_found_when_its_first_half_is_empty_and_is_gone_when_it_is_given_up() {
    let mut case = Case::new(zones_of(0, 7 * BLOCK), 6);
    assert!(TwoZones::find(Arc::new(MemoryDevice::new(4096)) as Arc<dyn Device>).unwrap().is_none());
    case.write(0, &[1; 5 * BLOCK_BYTES]).unwrap();
    while case.area.log().end.half == 0 {
        case.area.write_at(&[1; BLOCK_BYTES], 0).unwrap();
    }
    for zone in case.area.layout.starts(0) {
        case.device.reset_zone(zone).unwrap();
    }
    case.reopen();
    case.check(true, "half 0 emptied");
    case.find().unwrap().unwrap().forget().unwrap();
    assert!(case.find().unwrap().is_none());
}

#[test]
fn an_area_is_never_filled_beyond_what_it_was_made_for() {
    let device = MemoryDevice::zoned(&Power::new(), "zoned drive", zones_of(0, 3 * BLOCK));
    let area = TwoZones::format(&device as &dyn Device, 100 * BLOCK, 2 * BLOCK).unwrap();
    let most = area.layout.used_max();
    for block in 0..most {
        area.write_at(&[1; BLOCK_BYTES], block * BLOCK).unwrap();
    }
    let error = area.write_at(&[1; BLOCK_BYTES], most * BLOCK).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::NoSpace);
    for _ in 0..50 {
        area.write_at(&[2; BLOCK_BYTES], 0).unwrap();
    }
    let none = TwoZones::format(&device as &dyn Device, 100 * BLOCK, 100 * BLOCK).err().unwrap();
    assert!(none.to_string().contains("of its 64 sequential zones"), "{none}");
}

/// A mark at the end of a zone is torn after its first sector, and the rest of it is zeros, as is what fills
/// the zone: nothing is written there any more.
#[test]
fn what_fills_a_zone_completes_no_torn_mark() {
    let mut case = Case::new(zones_of(0, 5 * BLOCK), 4);
    case.write(0, &[1; BLOCK_BYTES]).unwrap();
    let before = MemoryDevice::zoned(&Power::new(), "zoned drive", zones_of(0, 5 * BLOCK));
    before.copy_from(&case.device);
    let end = case.area.log().end.clone();
    let place = case.area.layout.place(end.half, end.position);
    case.flush().unwrap();
    let mut mark = [0; BLOCK_BYTES];
    case.device.read_at(&mut mark, place).unwrap();
    assert!(record::Header::decode(&mark, place).is_some_and(|header| header.own.blocks.is_empty()));
    before.write_at(&mark[..512], place).unwrap();
    case.device.copy_from(&before);
    case.reopen();
    assert!(case.area.log().end.in_doubt);
    for round in 0..3 {
        case.write(BLOCK, &[7 + round; BLOCK_BYTES]).unwrap();
        case.flush().unwrap();
        case.reopen();
        case.check(true, "written behind a torn mark");
    }
}

/// A half was begun in vain, and power fails while it is emptied to be begun again, or the area is given up:
/// of the resets any may have happened. The other half is what counts.
#[test]
fn a_cut_while_a_half_is_emptied_that_was_begun_in_vain_costs_nothing() {
    let mut case = Case::new(zones_of(0, 5 * BLOCK), 12);
    for block in 0..12 {
        case.write(block * BLOCK, &[block as u8 + 1; BLOCK_BYTES]).unwrap();
    }
    case.flush().unwrap();
    let base = MemoryDevice::zoned(&Power::new(), "zoned drive", zones_of(0, 5 * BLOCK));
    let half = case.area.log().end.half;
    while case.area.log().end.half == half {
        base.copy_from(&case.device);
        case.write(0, &[77; BLOCK_BYTES]).unwrap();
    }
    case.device.copy_from(&base);
    case.device.flush().unwrap();
    case.reopen();
    let fault = Fault::Error(DeviceErrorKind::Io);
    case.device.inject(Injection { operation: Operation::Write, after: 8, count: 1, fault });
    case.write(0, &[77; BLOCK_BYTES]).unwrap_err();
    case.device.heal();
    case.device.flush().unwrap();
    base.copy_from(&case.device);
    let layout = case.area.layout;
    let begun = layout.starts(1 - half).filter(|zone| base.zone_at(*zone).unwrap().written > 0).count();
    assert!((4..layout.half_zones as usize).contains(&begun), "{begun} zones were begun");
    // The resets, and a flush behind the first of them and behind the last.
    let (mut partly, operations) = (0, layout.half_zones + 2);
    for (after, seed) in (1..=operations).flat_map(|after| (0..40).map(move |seed| (after, seed))) {
        for forgets in [false, true] {
            case.device.copy_from(&base);
            case.reopen();
            let other = case.find().unwrap().unwrap();
            case.device.power().crash_after(after);
            if forgets {
                other.forget().unwrap_err();
            } else {
                case.write(0, &[77; BLOCK_BYTES]).unwrap_err();
            }
            case.device.power_cut(seed);
            case.device.power().restore();
            let left = layout.starts(1 - half).filter(|zone| case.device.zone_at(*zone).unwrap().written > 0);
            partly += u64::from((1..begun).contains(&left.count()));
            case.reopen();
            case.check(false, "after a cut while a half was emptied");
        }
    }
    assert!(partly > 100, "a half was emptied in part {partly} times");
    case.write(BLOCK, &[78; BLOCK_BYTES]).unwrap();
    case.flush().unwrap();
    case.reopen();
    case.check(true, "written and opened again");
}
