//! The atomics that shared memory is made of, and the places where a test lets another thread run.
//!
//! In shipped builds the types are the standard library's and `point` is nothing. With the feature
//! `interleave` every access to them is preceded by a `point`, at which the scheduler of the crate
//! `shuttle` decides who goes on: so a test explores orders of the accesses of the real code, and each
//! order can be replayed. `shuttle` has one thread run at a time, so it finds what a wrong order of
//! accesses does, not what a weak memory order would; see the crate's README for what looks at that.

#[cfg(not(feature = "interleave"))]
mod plain {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Nothing.
    #[inline(always)]
    pub(crate) fn point() {}

    /// Passes a moment in a loop that waits for another thread.
    #[inline(always)]
    pub(crate) fn spin() {
        std::hint::spin_loop();
    }

    /// Gives the processor away in a loop that waits for another thread.
    #[inline(always)]
    pub(crate) fn rest() {
        std::thread::yield_now();
    }
}

#[cfg(not(feature = "interleave"))]
pub(crate) use plain::{AtomicU32, AtomicU64, point, rest, spin};

#[cfg(feature = "interleave")]
mod explored {
    use std::cell::Cell;
    use std::ops::Deref;
    use std::time::Duration;

    thread_local! {
        // Of the thread that shuttle runs on: its own threads are coroutines there.
        static EXPLORING: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether other threads may run at every point from now on. Off at first, so that a test can set a tier up
    /// quickly and spend its schedules on what comes then.
    ///
    /// Returns whether they might before.
    pub fn explore(on: bool) -> bool {
        EXPLORING.with(|exploring| exploring.replace(on))
    }

    fn exploring() -> bool {
        EXPLORING.with(Cell::get) && !std::thread::panicking()
    }

    /// Lets the scheduler choose who goes on.
    pub fn point() {
        if exploring() {
            // A sleep of shuttle's is a switch and nothing else, without the hint that a yield gives.
            shuttle::thread::sleep(Duration::ZERO);
        }
    }

    /// Tells the scheduler that this thread can only wait for another.
    pub(crate) fn spin() {
        if exploring() { shuttle::thread::yield_now() } else { std::hint::spin_loop() }
    }

    pub(crate) fn rest() {
        if exploring() { shuttle::thread::yield_now() } else { std::thread::yield_now() }
    }

    macro_rules! atomic {
        ($name:ident) => {
            /// The standard library's, with a point before every access: all of them go through `deref`.
            #[repr(transparent)]
            pub(crate) struct $name(std::sync::atomic::$name);

            impl Deref for $name {
                type Target = std::sync::atomic::$name;

                fn deref(&self) -> &Self::Target {
                    point();
                    &self.0
                }
            }
        };
    }

    atomic!(AtomicU32);
    atomic!(AtomicU64);

    #[cfg(test)]
    impl AtomicU32 {
        pub(crate) const fn new(value: u32) -> Self {
            Self(std::sync::atomic::AtomicU32::new(value))
        }
    }
}

#[cfg(feature = "interleave")]
pub(crate) use explored::{AtomicU32, AtomicU64, rest, spin};
#[cfg(feature = "interleave")]
pub use explored::{explore, point};
