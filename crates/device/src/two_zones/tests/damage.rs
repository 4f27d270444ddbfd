//! Damaged headers and blocks.

use super::*;

/// Each header of the half that counts damaged, one after the other: nothing is lost but the end; two side by
/// side are an error that names the first of them.
#[test]
pub(super) fn the_next_record_says_what_a_damaged_header_said() {
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
pub(super) fn damaged_blocks_are_read_as_they_are_and_unreadable_ones_stay_so_when_they_are_copied() {
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
