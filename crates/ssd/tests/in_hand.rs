//! A state that is taken in hand for many operations answers as one that is taken apart for each, whatever is
//! said of operations to come.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, Condition, Ssd};

mod drives;

fn operation(ssd: &Ssd, random: &mut Random) -> Operation {
    let kind = match random.below(12) {
        0 => OperationKind::Flush,
        1 => OperationKind::Discard,
        2..=4 => OperationKind::Read,
        _ => OperationKind::Write,
    };
    // Past the end of the drive as well: it begins again there.
    let address = random.below(2 * ssd.capacity());
    ssd.operation(kind, address, 4096 * random.between(1, 5))
}

#[test]
fn a_state_in_hand_answers_as_one_that_is_taken_apart_each_time() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]);
        let ssd = Ssd::new(drives::drawn(&mut random, &drives::ALL, kind)).unwrap();
        let condition = *random.pick(&[Condition::Fresh, Condition::Steady]);
        // One of them is brought into its condition by its first operation.
        let ssd = ssd.beginning(condition);
        let (mut by_submit, mut by_hand) = (ssd.idle(), ssd.idle());
        ssd.prepare(&mut by_hand, condition, 1);
        for _ in 0..20 {
            let start = random.below(1 << 30);
            let operations: Vec<Operation> = (0..50).map(|_| operation(&ssd, &mut random)).collect();
            let mut hand = ssd.in_hand(&mut by_hand);
            for (index, operation) in operations.iter().enumerate() {
                let now = start + 100_000 * index as u64;
                hand.expect(*random.pick(&operations));
                let ticket = ssd.submit(&mut by_submit, now, *operation).unwrap().ticket;
                assert_eq!(Some(hand.submit(now, *operation)), ticket.completion(), "seed {seed}");
            }
            assert_eq!(by_submit, by_hand, "seed {seed}");
        }
    }
}
