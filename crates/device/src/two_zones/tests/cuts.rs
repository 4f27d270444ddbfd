//! What a power cut at any operation leaves.

use super::*;

#[test]
pub(super) fn what_was_flushed_is_there_after_a_cut_at_any_operation() {
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
