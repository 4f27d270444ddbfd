//! How many orders are tried, and how one of them is replayed.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::orders::Orders;
use crate::{COST, planted};

/// Orders tried of every model of [`COST`] 1, unless `MEZZANINE_ORDERS` says otherwise.
const ORDERS: u64 = 1000;
/// A model that takes more points than this does not end.
const POINTS_MAX: usize = 1_000_000;
/// Of each thread.
const STACK_BYTES: usize = 256 * 1024;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Runs `model` once for each seed; the first seed at which it panicked, and the panic.
fn run(model: fn(), seeds: Range<u64>) -> Result<(), (u64, Box<dyn std::any::Any + Send>)> {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    // The seed says the same in fewer digits.
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(POINTS_MAX);
    let seed = Arc::new(AtomicU64::new(seeds.start));
    let next = Arc::clone(&seed);
    let runner = Runner::new(Orders::new(seeds), config);
    let counted = move || {
        model();
        next.fetch_add(1, Ordering::Relaxed);
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| runner.run(counted)));
    outcome.map(|_| ()).map_err(|panic| (seed.load(Ordering::Relaxed), panic))
}

/// Runs `model` in many orders: from seed 1 on, or from `MEZZANINE_ORDER_SEED`.
pub(crate) fn check(model: fn()) {
    let first = number("MEZZANINE_ORDER_SEED").unwrap_or(1);
    let count = number("MEZZANINE_ORDERS").unwrap_or(ORDERS).div_ceil(COST);
    planted::set(None);
    if let Err((seed, panic)) = run(model, first..first + count) {
        eprintln!("order {seed}: replay with MEZZANINE_ORDER_SEED={seed} MEZZANINE_ORDERS=1 and this test");
        resume_unwind(panic);
    }
}

/// Checks that `model` notices a planted fault within `at_most` orders.
pub(crate) fn finds(bug: planted::Bug, model: fn(), at_most: u64) {
    planted::set(Some(bug));
    let outcome = run(model, 1..1 + at_most);
    planted::set(None);
    match outcome {
        Ok(()) => panic!("{bug:?} went unnoticed in {at_most} orders"),
        Err((seed, _)) => println!("{bug:?}: noticed in order {seed}"),
    }
}
