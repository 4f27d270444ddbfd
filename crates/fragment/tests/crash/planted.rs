//! Every fault of the map that can be planted is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mezzanine_fragment::planted::{Bug, set};

use crate::{Sums, run};

/// The invariants of the map begin with this one.
const OF_MAP: u32 = 10;
/// Seeds within which each is noticed.
const SEEDS_MAX: u64 = 600;

/// The seed at which a fault is noticed, and how.
fn noticed(bug: Bug) -> Option<(u64, String)> {
    // An assertion of the cache's own is as good.
    std::panic::set_hook(Box::new(|_| {}));
    set(Some(bug));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        match catch_unwind(AssertUnwindSafe(|| run(seed, &mut Sums::default()))) {
            Ok(Ok(())) => None,
            Ok(Err(broken)) => Some((seed, broken)),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Some((seed, format!("panic: {}", text.unwrap_or_default())))
            }
        }
    });
    set(None);
    let _ = std::panic::take_hook();
    found
}

#[test]
fn every_fault_is_noticed() {
    let mut unnoticed = Vec::new();
    for &bug in Bug::ALL.iter().filter(|bug| bug.invariant() >= OF_MAP) {
        match noticed(bug) {
            Some((seed, how)) => println!("{bug:?} (invariant {}): seed {seed}: {how}", bug.invariant()),
            None => unnoticed.push(bug),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?} went unnoticed in {SEEDS_MAX} seeds");
}
