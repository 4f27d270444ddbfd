//! Whether a fault that is planted is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use mezzanine_fragment::planted::{Bug, set};

/// Plants each of some faults alone, and runs a world from seeds until something is wrong, or the cache's own
/// assertions stop it. Says at which seed, and how.
///
/// # Panics
/// With those that went unnoticed.
pub(crate) fn all_are_noticed(
    bugs: impl Iterator<Item = Bug>,
    seeds: u64,
    run: impl Fn(u64) -> Result<(), String>,
) {
    let mut unnoticed = Vec::new();
    for bug in bugs {
        set_hook(Box::new(|_| {}));
        set(Some(bug));
        let found = (1..=seeds).find_map(|seed| match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Ok(())) => None,
            Ok(Err(broken)) => Some((seed, broken)),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Some((seed, format!("panic: {}", text.unwrap_or_default())))
            }
        });
        set(None);
        let _ = take_hook();
        match found {
            Some((seed, how)) => println!("{bug:?} (invariant {}): seed {seed}: {how}", bug.invariant()),
            None => unnoticed.push(bug),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?} went unnoticed in {seeds} seeds");
}
