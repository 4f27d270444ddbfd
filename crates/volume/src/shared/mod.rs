//! What the threads of a volume share: plain structs without pointers, strings or locks of this process, so
//! that they can lie in memory that several processes map. README.md beside this file has the order of locks
//! and the access rules.

use std::ops::Deref;

use mezzanine_ground::region::{Arrayed, Region};

pub(crate) mod changes;
pub(crate) mod files;
pub(crate) mod guards;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod lengths;
pub(crate) mod marks;
pub(crate) mod plain;
pub(crate) mod progress;
pub(crate) mod start;
pub(crate) mod tier;

use crate::shared::files::{FileShared, Files};
use crate::shared::health::Condition;
use crate::shared::plain::plain;
use crate::shared::progress::Progress;
use crate::shared::start::Start;
use crate::shared::tier::TierShared;
use crate::statistics::Counters;

plain! {
    /// The shared side of one volume. All zeros in new memory.
    pub(crate) struct Shared {
        pub(crate) progress: Progress,
        pub(crate) condition: Condition,
        pub(crate) start: Start,
        pub(crate) counters: Counters,
        pub(crate) files: Files,
    }
}

// The bounds that README.md states.
const _: () = assert!(size_of::<Shared>() < 64 << 10);
const _: () = assert!(size_of::<FileShared>() < 4 << 10 && size_of::<TierShared>() < 4 << 10);

#[allow(unsafe_code, reason = "the one promise that the compiler does not check")]
mod regions {
    // Each is `repr(C)` and made of atomics and lock words: `plain!` has it asked of every field.
    mezzanine_ground::region::arrayed!(super::Shared = 0, super::TierShared = 1, super::FileShared = 2);
}

/// A shared struct in memory of its own.
pub(crate) struct Placed<T> {
    region: Region,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: Arrayed> Placed<T> {
    /// One that is all zeros.
    pub(crate) fn new() -> Self {
        let mut region = Region::heap(size_of::<T>());
        region.place::<T>(0, 1);
        Self { region, of: std::marker::PhantomData }
    }
}

impl<T: Arrayed> Deref for Placed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.region.at(0).expect("placed when the memory was taken")
    }
}
