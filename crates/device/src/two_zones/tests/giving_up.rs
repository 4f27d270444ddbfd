//! Halves that are emptied, areas that are given up, formatted over or wiped.

use super::*;

/// How an area ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Forgotten,
    Wiped,
    FormattedOver,
}

/// What every block of the area says at its end, and of the one that is formatted over it.
const LAST: u8 = 2;

/// An area whose halves are both whole, of which that which does not count says something else. Behind the
/// halves may lie what begins one of an earlier layout.
fn with_an_older_half(random: &mut Random) -> Case {
    let zones = zones_of(random.below(2), random.between(5, 9) * BLOCK);
    let mut earlier = Case::new(zones, 40);
    earlier.write(0, &[9; 8 * BLOCK_BYTES]).unwrap();
    while earlier.area.log().end.half == 0 {
        earlier.write(0, &[9; BLOCK_BYTES]).unwrap();
    }
    earlier.flush().unwrap();
    let mut case = Case::new(zones, random.between(2, 6));
    let all = case.bytes() as usize;
    case.write(0, &vec![LAST - 1; all]).unwrap();
    case.flush().unwrap();
    for _ in 0..random.between(1, 3) {
        let half = case.area.log().end.half;
        while case.area.log().end.half == half {
            case.write(0, &[LAST - 1; BLOCK_BYTES]).unwrap();
        }
    }
    case.write(0, &vec![LAST; all]).unwrap();
    case.flush().unwrap();
    let behind = case.area.layout.behind().start;
    for start in earlier.area.layout.starts(1).filter(|start| *start >= behind && random.chance(1, 2)) {
        let zone = earlier.device.zone_at(start).unwrap();
        let bytes = &earlier.device.image()[start as usize..zone.write_pointer() as usize];
        case.device.append(bytes, start).unwrap();
    }
    case.device.flush().unwrap();
    case
}

/// Power fails while an area is given up, wiped or formatted over, and of the resets any may have happened:
/// what is found is that area as it was at its end, the new one, or none.
#[test]
pub(super) fn no_older_area_is_found_after_a_cut_while_one_ends() {
    let (mut whole, mut new, mut none) = (0, 0, 0);
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let case = with_an_older_half(&mut random);
        let damaged = random.chance(1, 4);
        if damaged {
            let begins = case.area.layout.zone(case.area.log().end.half, 0);
            (0..2).for_each(|nth| case.device.flip_bit((begins + nth * BLOCK + 40) * 8));
        }
        let (base, copy) = (MemoryDevice::new(0), Arc::new(MemoryDevice::new(0)));
        base.copy_from(&case.device);
        let blocks = case.held.len() as u64;
        let end = |ends: Ends| -> Result<(), DeviceError> {
            let device: Arc<dyn Device> = Arc::<MemoryDevice>::clone(&copy);
            match ends {
                Ends::Forgotten => TwoZones::find(device)?.unwrap().forget(),
                Ends::Wiped => wipe(&*device),
                Ends::FormattedOver => {
                    TwoZones::format(device, (blocks + 1) * BLOCK, random_used(blocks)).map(drop)
                }
            }
        };
        for ends in [Ends::Forgotten, Ends::Wiped, Ends::FormattedOver] {
            if damaged && ends == Ends::Forgotten {
                continue;
            }
            copy.copy_from(&base);
            let before = copy.power().operations();
            end(ends).unwrap();
            let operations = copy.power().operations() - before;
            for _ in 0..60 {
                copy.copy_from(&base);
                copy.power().crash_after(operations - random.below(operations.min(120)));
                end(ends).unwrap_err();
                copy.power_cut(random.next_u64());
                copy.power().restore();
                let device: Arc<dyn Device> = Arc::<MemoryDevice>::clone(&copy);
                let area = match TwoZones::find(device) {
                    Ok(Some(area)) => area,
                    Ok(None) => {
                        none += 1;
                        continue;
                    }
                    Err(error) => {
                        assert!(damaged || ends == Ends::FormattedOver, "{ends:?}: {error}");
                        continue;
                    }
                };
                let is_new = area.layout.area_blocks == blocks + 1;
                let mut bytes = vec![9; (area.layout.area_blocks * BLOCK) as usize];
                area.read_at(&mut bytes, 0).unwrap();
                let says = if is_new { 0 } else { LAST };
                assert!(
                    bytes.iter().all(|byte| *byte == says),
                    "seed {seed}, {ends:?}: an older area is found"
                );
                assert!(is_new || !damaged, "seed {seed}, {ends:?}: the older half counts");
                *(if is_new { &mut new } else { &mut whole }) += 1;
            }
        }
    }
    assert!(whole > 100 && none > 100, "{whole} were whole, {new} were new, {none} times there was none");
}

/// Another layout, or the same.
fn random_used(blocks: u64) -> u64 {
    if blocks % 2 == 0 { blocks * BLOCK } else { 20 * BLOCK }
}

#[test]
pub(super) fn an_area_is_found_when_its_first_half_is_empty_and_is_gone_when_it_is_given_up() {
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

/// A half was begun in vain, and power fails while it is emptied to be begun again: of the resets any may
/// have happened. The other half is what counts.
#[test]
pub(super) fn a_cut_while_a_half_is_emptied_that_was_begun_in_vain_costs_nothing() {
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
    for (after, seed) in (1..=operations).flat_map(|after| (0..80).map(move |seed| (after, seed))) {
        case.device.copy_from(&base);
        case.reopen();
        case.device.power().crash_after(after);
        case.write(0, &[77; BLOCK_BYTES]).unwrap_err();
        case.device.power_cut(seed);
        case.device.power().restore();
        let left = layout.starts(1 - half).filter(|zone| case.device.zone_at(*zone).unwrap().written > 0);
        partly += u64::from((1..begun).contains(&left.count()));
        case.reopen();
        case.check(false, "after a cut while a half was emptied");
    }
    assert!(partly > 100, "a half was emptied in part {partly} times");
    case.write(BLOCK, &[78; BLOCK_BYTES]).unwrap();
    case.flush().unwrap();
    case.reopen();
    case.check(true, "written and opened again");
}
