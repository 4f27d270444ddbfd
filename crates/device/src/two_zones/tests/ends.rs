//! Ends that are torn.

use super::*;

#[test]
pub(super) fn a_torn_end_is_dropped_and_nothing_is_written_behind_it() {
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

/// A mark at the end of a zone is torn after its first sector, and the rest of it is zeros, as is what fills
/// the zone: nothing is written there any more.
#[test]
pub(super) fn what_fills_a_zone_completes_no_torn_mark() {
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

/// What says that a half is complete cannot be read for a moment, and nothing lies behind it: the other half
/// counts, and goes on counting when it can be read again.
#[test]
pub(super) fn a_half_that_was_not_complete_when_it_was_read_never_counts() {
    let mut case = Case::new(zones_of(0, 20 * BLOCK), 4);
    case.write(0, &[1; BLOCK_BYTES]).unwrap();
    case.flush().unwrap();
    let (half, base) = (case.area.log().end.half, MemoryDevice::new(0));
    base.copy_from(&case.device);
    // A write that fails has the next one go to the other half, though the one before has room. Power fails
    // as soon as that is complete.
    let zeros = [0; BLOCK_BYTES];
    (1..)
        .find(|after| {
            case.device.copy_from(&base);
            case.reopen();
            case.device.inject(Injection {
                operation: Operation::Write,
                after: 0,
                count: 1,
                fault: Fault::Lie,
            });
            case.area.write_at(&zeros, 3 * BLOCK).unwrap();
            case.area.write_at(&zeros, 3 * BLOCK).unwrap_err();
            case.device.power().crash_after(*after);
            let _ = case.area.write_at(&zeros, 3 * BLOCK);
            case.device.power_cut(*after);
            case.device.power().restore();
            case.reopen();
            case.area.log().end.half != half
        })
        .unwrap();
    let complete = case.area.log().end.before.place;
    case.device.spoil(complete, 512, Bad::Unreadable);
    case.reopen();
    assert_eq!(case.area.log().end.half, half);
    case.write(0, &[2; BLOCK_BYTES]).unwrap();
    case.flush().unwrap();
    case.device.heal();
    case.reopen();
    case.check(true, "what was not complete can be read again");
}
