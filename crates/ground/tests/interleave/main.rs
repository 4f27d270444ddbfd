//! Threads that sleep at a lock, in explored orders: only one has it, each sleeper is woken, and poison wakes
//! all. An order in which somebody sleeps for ever is a deadlock, which the scheduler reports; without the
//! bound of a sleep, which there is for processes that die.

#![allow(clippy::unwrap_used, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use mezzanine_ground::interleave::{explore, point};
use mezzanine_ground::lock::{RegionLock, Sleeping, sleep_by};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

fn orders() -> usize {
    std::env::var("MEZZANINE_ORDERS").map_or(500, |orders| orders.parse().unwrap())
}

/// In every order of two kinds of scheduler.
fn in_orders(model: fn()) {
    // Who sleeps in an order is not in the kernel.
    sleep_by(Sleeping { sleep: |_, _, _| {}, wake: |_, _| {} });
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(move || {
            explore(true);
            model();
            explore(false);
        });
    };
    run(Box::new(RandomScheduler::new_from_seed(1, orders())));
    run(Box::new(PctScheduler::new_from_seed(2, 3, orders())));
}

#[test]
fn one_has_the_lock_and_nobody_sleeps_for_ever() {
    in_orders(|| {
        let (lock, inside) = (Arc::new(RegionLock::default()), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (1..=3)
            .map(|owner| {
                let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                shuttle::thread::spawn(move || {
                    for _ in 0..3 {
                        let guard = lock.lock(owner);
                        assert_eq!(inside.fetch_add(1, Relaxed), 0, "two have it");
                        // Longer than anybody spins.
                        (0..250).for_each(|_| point());
                        assert_eq!(lock.holder(), Some(owner));
                        inside.fetch_sub(1, Relaxed);
                        drop(guard);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(lock.holder(), None);
    });
}

#[test]
fn poison_wakes_all() {
    in_orders(|| {
        let lock = Arc::new(RegionLock::default());
        let guard = lock.lock(9);
        let threads: Vec<_> = (1..=3)
            .map(|owner| {
                let lock = Arc::clone(&lock);
                shuttle::thread::spawn(move || {
                    let refused = catch_unwind(AssertUnwindSafe(|| drop(lock.lock(owner))));
                    assert!(refused.is_err(), "it has the lock of a region that is poisoned");
                })
            })
            .collect();
        (0..1000).for_each(|_| point());
        lock.poison();
        drop(guard);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
