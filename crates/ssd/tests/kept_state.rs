//! A drive that is made ready, or was switched off in order, begins at time 0 with what it holds.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, OperationKind, Timing};
use mezzanine_ssd::{Condition, Ssd};

fn small(blocks: u32) -> Ssd {
    let ssd = Ssd::of_model(&model::find("durassd").unwrap()).unwrap().unwrap();
    Ssd::new(ssd.config().with_blocks_per_plane(blocks).unwrap()).unwrap()
}

#[test]
fn nothing_of_the_time_before_is_waited_for() {
    let ssd = small(24);
    let write = |state: &mut [u64], now: u64| {
        ssd.submit(state, now, ssd.operation(OperationKind::Write, 0, 4096))
            .unwrap()
            .ticket
            .completion()
            .unwrap()
    };
    let mut fresh = ssd.idle();
    let expected = write(&mut fresh, 0);
    for condition in [Condition::Filled, Condition::Steady] {
        let mut state = ssd.idle();
        ssd.prepare(&mut state, condition, 1);
        assert_eq!(write(&mut state, 0), expected, "{condition:?}");
        for number in 1..5000 {
            write(&mut state, number);
        }
        ssd.rest(&mut state);
        assert_eq!(write(&mut state, 0), expected, "{condition:?}, switched off and on");
        ssd.check(&mut state).unwrap();
    }
}
