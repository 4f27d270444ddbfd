//! The figures that a shipped model states of itself come out of it.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, ClosedLoop, Operation, OperationKind, Timing, closed_loop};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Condition, Ssd};

const OPERATIONS: u64 = 20_000;

#[test]
fn models_reproduce_their_figures() {
    let inside = model::catalogue().into_iter().filter_map(|model| {
        // A read of what was never written asks no flash.
        let full = Ssd::of_model(&model).unwrap()?.config().with_blocks_per_plane(32).unwrap();
        Some((model, Ssd::new(full).unwrap().beginning(Condition::Filled)))
    });
    let mut models = 0;
    for (model, ssd) in inside {
        models += 1;
        let figures = &model.figures;
        let run = |next: &mut dyn FnMut(u64) -> Operation| {
            let clients = figures.queue_depth as usize;
            closed_loop(&ssd, ClosedLoop { clients, warm_up: OPERATIONS / 4, operations: OPERATIONS }, next)
        };
        let random = |kind| {
            let (mut random, bytes) = (Random::new(1), figures.random_request_bytes);
            let places = ssd.capacity() / bytes;
            run(&mut |_| ssd.operation(kind, random.below(places) * bytes, bytes)).per_second
        };
        let sequential = |kind| {
            let bytes = figures.sequential_request_bytes;
            run(&mut |number| ssd.operation(kind, number * bytes, bytes)).mb_per_s
        };
        for (what, stated, found) in [
            ("random reads", figures.read_random_iops, random(OperationKind::Read)),
            ("random writes", figures.write_random_iops, random(OperationKind::Write)),
            ("sequential reads", figures.read_sequential_mb_per_s, sequential(OperationKind::Read)),
            ("sequential writes", figures.write_sequential_mb_per_s, sequential(OperationKind::Write)),
        ] {
            println!("{}: {what} {found:.0}, stated {stated}", model.name);
            assert!((found / stated - 1.0).abs() < 0.05, "{}: {what} {found} and not {stated}", model.name);
        }
    }
    assert_eq!(models, 3);
}

#[test]
fn a_drive_that_was_prepared_takes_its_first_writes_like_a_fresh_one() {
    let config = Ssd::of_model(&model::find("durassd").unwrap()).unwrap().unwrap().config().clone();
    let ssd = Ssd::new(config.with_blocks_per_plane(16).unwrap()).unwrap();
    let first = |condition| {
        let ssd = ssd.clone().beginning(condition);
        let mut state = ssd.idle();
        let write = |number: u64| ssd.operation(OperationKind::Write, 4096 * number, 4096);
        let mut done =
            |number| ssd.submit(&mut state, 0, write(number)).unwrap().ticket.completion().unwrap();
        (done(0), done(1))
    };
    // What was done to prepare it took no time.
    assert_eq!(first(Condition::Filled), first(Condition::Fresh));
    assert_eq!(first(Condition::Steady), first(Condition::Fresh));
}
