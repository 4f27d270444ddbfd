//! Faults that can be switched on to prove that tests would notice them.
//!
//! Each switch takes out one rule behind an invariant, at the line where the rule stands. They exist only in
//! builds with the feature `planted` of the crate that lists them, which no shipped build turns on, and in
//! that crate's own unit tests; elsewhere every switch is a constant `false`.

/// Makes the list of faults of a crate, and what switches them: an enum `Bug` whose variants are listed under
/// the number of the invariant that each breaks, and `is`, `only_with` and, where there are switches, `set`.
///
/// ```
/// mezzanine_ground::planted_bugs! {
///     /// A rule that a test can take out.
///     1: {
///         /// The total is not checked.
///         TotalUnchecked,
///     }
/// }
/// assert_eq!((Bug::ALL, Bug::TotalUnchecked.invariant()), (&[Bug::TotalUnchecked][..], 1));
/// only_with(&[Bug::TotalUnchecked], || !is(Bug::TotalUnchecked));
/// ```
#[macro_export]
macro_rules! planted_bugs {
    ($(#[$about:meta])+ parts: $($part:ident),+) => {
        $crate::planted_bugs! { @parts [$($part)+] [$(#[$about])+] }
    };
    (@parts [] [$($about:tt)+] $($bugs:tt)+) => {
        $crate::planted_bugs! { $($about)+ $($bugs)+ }
    };
    // The part adds its faults to those before it, and comes back here with the parts that are left.
    (@parts [$part:ident $($later:ident)*] $($so_far:tt)+) => {
        $part! { [$($later)*] $($so_far)+ }
    };
    ($(#[$about:meta])+ $($invariant:literal: { $($(#[$doc:meta])+ $bug:ident,)+ })+) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($($(#[$doc])+ $bug,)+)+
        }

        impl Bug {
            /// Every switch, in the order of the invariants.
            pub const ALL: &[Self] = &[$($(Self::$bug,)+)+];

            /// The invariant that the switch breaks.
            pub const fn invariant(self) -> u32 {
                match self {
                    $($(Self::$bug)|+ => $invariant,)+
                }
            }
        }

        #[cfg(any(test, feature = "planted"))]
        mod switch {
            use super::Bug;

            ::std::thread_local! {
                // Per thread, so that tests which plant different faults can run side by side.
                static CURRENT: ::std::cell::Cell<Option<Bug>> = const { ::std::cell::Cell::new(None) };
            }

            /// Switches one fault on for this thread, or all off.
            pub fn set(bug: Option<Bug>) {
                CURRENT.set(bug);
            }

            /// Whether a fault is switched on for this thread.
            pub fn is(bug: Bug) -> bool {
                CURRENT.get() == Some(bug)
            }

            /// Checks that `good` holds, and does not with any of these faults switched on.
            ///
            /// # Panics
            ///
            /// If one of them goes unnoticed, or if `good` does not hold without any.
            pub fn only_with(bugs: &[Bug], good: impl Fn() -> bool) {
                assert!(good(), "with all rules in place");
                for &bug in bugs {
                    set(Some(bug));
                    let held = good();
                    set(None);
                    assert!(!held, "{bug:?} went unnoticed");
                }
            }
        }

        #[cfg(any(test, feature = "planted"))]
        pub use switch::{is, only_with, set};

        /// Whether a fault is switched on: never, without the feature `planted`.
        #[cfg(not(any(test, feature = "planted")))]
        #[inline(always)]
        pub const fn is(_bug: Bug) -> bool {
            false
        }

        /// Checks that `good` holds; that it does so with none of `bugs` only builds with the feature
        /// `planted` check.
        ///
        /// # Panics
        ///
        /// If it does not hold.
        #[cfg(not(any(test, feature = "planted")))]
        pub fn only_with(_bugs: &[Bug], good: impl Fn() -> bool) {
            assert!(good(), "with all rules in place");
        }
    };
}

/// A part of the list of faults of a crate, in a module of its own: a name, and faults as [`planted_bugs!`]
/// takes them. The module has `#[macro_use]`, and `planted_bugs!` names the parts in their order.
///
/// ```
/// #[macro_use]
/// mod totals {
///     mezzanine_ground::planted_part! {
///         totals,
///         1: {
///             /// The total is not checked.
///             TotalUnchecked,
///         }
///     }
/// }
///
/// mezzanine_ground::planted_bugs! {
///     /// A rule that a test can take out.
///     parts: totals
/// }
/// assert_eq!((Bug::ALL, Bug::TotalUnchecked.invariant()), (&[Bug::TotalUnchecked][..], 1));
/// ```
#[macro_export]
macro_rules! planted_part {
    ($name:ident, $($bugs:tt)+) => {
        $crate::planted_part! { @($) $name $($bugs)+ }
    };
    // A macro that makes a macro has no other way to write its dollar signs.
    (@($d:tt) $name:ident $($bugs:tt)+) => {
        macro_rules! $name {
            ([$d($d later:ident)*] $d($d so_far:tt)+) => {
                $crate::planted_bugs! { @parts [$d($d later)*] $d($d so_far)+ $($bugs)+ }
            };
        }
    };
}

#[cfg(test)]
mod tests {
    #![allow(missing_docs, unreachable_pub)]
    use std::panic::{AssertUnwindSafe, catch_unwind};

    crate::planted_bugs! {
        /// A rule.
        1: {
            /// The first.
            First,
        }
        4: {
            /// The second.
            Second,
        }
    }

    #[test]
    fn one_fault_is_on_at_a_time_and_one_that_goes_unnoticed_is_told() {
        assert_eq!(Bug::ALL.iter().map(|bug| bug.invariant()).collect::<Vec<_>>(), [1, 4]);
        only_with(Bug::ALL, || !is(Bug::First) && !is(Bug::Second));
        let unnoticed = catch_unwind(AssertUnwindSafe(|| only_with(Bug::ALL, || !is(Bug::First))));
        let text = *unnoticed.err().and_then(|panic| panic.downcast::<String>().ok()).unwrap_or_default();
        assert_eq!(text, "Second went unnoticed");
        assert!(!is(Bug::First) && !is(Bug::Second));
        set(Some(Bug::First));
        assert!(is(Bug::First) && !std::thread::spawn(|| is(Bug::First)).join().unwrap_or(true));
        set(None);
    }
}
