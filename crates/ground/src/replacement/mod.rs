//! Replacement in place: which frame gives up its page.
//!
//! The queue of the FaCE designs says by itself what leaves next. Designs that write a page into any frame
//! need an order of their frames. Each file here is one such policy, to be read beside the paper that it
//! names; `list`, `lazy_heap`, `bucket_queue` and `history` are what they are made of. A new policy is a file
//! and its lines in the list at the end of this one.
//!
//! A policy knows frames by their numbers, `0..frames`, and pages by a key. It has no room for the pages,
//! does no I/O and does not look anything up. What it is told once is a `Config` of its own, which is checked
//! when it is made; `parameter` is how its fields are called where they come from outside. Its state has a
//! fixed size, which [`PolicyConfig::bytes`] tells beforehand, and lies in a [`Region`]: indexes instead of
//! pointers, and valid when all its bytes are zero.
//!
//! What every policy keeps to:
//!
//! 1. A frame is *in the order* from [`Replacement::inserted`] until [`Replacement::victim`] returns it or
//!    [`Replacement::removed`] names it. No call names a frame for which that is not so, and `inserted` none
//!    for which it is.
//! 2. `victim` returns a frame as long as one is in the order.
//! 3. The same calls give the same victims: a policy has no clock but the references that it is told of, and
//!    no randomness.
//! 4. The calls are made under one lock of the host's. It orders them, so loads and stores are relaxed.
//!    [`Clock::referenced`](Replacement::referenced) alone may be called without it; see there.
//!
//! What a policy need not know it is told all the same: pages that are not there ([`Replacement::missed`],
//! [`Replacement::admits`]), and which pages are dirty ([`Replacement::dirtied`], [`Replacement::cleaned`]).
//! Where that is nothing to a policy it costs nothing.

mod parameter;

mod bucket_queue;
mod history;
mod lazy_heap;
mod list;

pub mod fifo;

pub mod lru;

pub mod clock;

pub mod lru_k;

pub mod greedy_dual;

pub mod temperature;

use std::fmt;

pub use clock::Clock;
pub use fifo::Fifo;
pub use greedy_dual::GreedyDual;
pub use lru::Lru;
pub use lru_k::LruK;
use parameter::Field;
pub use parameter::{Parameter, ParameterDefault, ParameterKind};
pub use temperature::Temperature;

use crate::config::ConfigError;
pub use crate::region::prefetch;
use crate::region::{REGION_ALIGNMENT, Region, Shared};

/// What a policy is told, and what it answers.
pub trait Replacement {
    /// The page will be referenced soon; it is in this frame now, or in none. Changes nothing: who goes
    /// through many pages tells some in advance, so that what they need is in the processor's cache when
    /// their turn comes. One call for both, since the processor cannot foretell which it is: a policy that
    /// can do without a branch does.
    #[inline(always)]
    fn will_be_referenced(&self, _frame: Option<u32>, _page: PageKey) {}

    /// The page was referenced, and no frame holds it. If it is inserted for that, this comes before, and
    /// before [`Self::admits`].
    #[inline(always)]
    fn missed(&self, _page: PageKey) {}

    /// Whether the page, which is not there, is worth the frame that [`Self::victim`] would return. To be
    /// asked when no frame is free; a page that comes in all the same does no harm.
    #[inline(always)]
    fn admits(&self, _page: PageKey) -> bool {
        true
    }

    /// The frame holds this page from now on, which has just been referenced.
    ///
    /// The key tells pages apart while they are away, if the policy remembers any. Two pages that share one
    /// cost it accuracy and nothing else.
    fn inserted(&self, frame: u32, page: PageKey);

    /// The frame's page was referenced.
    fn referenced(&self, frame: u32);

    /// The frame, which is in the order, has a newer version of its page than disk from now on. Of a page
    /// that is written, before the reference that this is; of one that comes in, after it was inserted.
    /// Until then a page that comes in is clean.
    #[inline(always)]
    fn dirtied(&self, _frame: u32) {}

    /// Disk has the version of the frame, which is in the order.
    #[inline(always)]
    fn cleaned(&self, _frame: u32) {}

    /// The frame that gives up its page for a page that is about to be inserted. It leaves the order, and the
    /// policy remembers its page if that is its way. `None` if no frame is in the order.
    fn victim(&self) -> Option<u32>;

    /// The frame's page is gone for good: dropped, not replaced. Nothing of it is remembered.
    fn removed(&self, frame: u32);

    /// Whether the frame is in the order.
    fn contains(&self, frame: u32) -> bool;

    /// Checks the invariants at the head of the policy's file. For tests: it looks at everything.
    ///
    /// # Panics
    /// If one does not hold.
    fn check(&self);
}

/// Names a page beyond its stay. Policies for which [`Policy::looks_at_neighbours`] demand that consecutive
/// pages have consecutive keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey(pub u64);

/// A policy as a structure in memory.
trait Laid<'r>: Replacement + Sized {
    /// What it is told once, when it is made: checked, so that what it follows from it fits.
    type Config: Copy + 'static;

    /// The configuration's fields that have a name outside, in the order in which they are listed.
    const FIELDS: &'static [Field<Self::Config>];

    /// Whether pages with consecutive keys are neighbours to it.
    const LOOKS_AT_NEIGHBOURS: bool = false;

    /// Bytes of its state.
    fn bytes(config: &Self::Config) -> usize;

    /// Takes [`Self::bytes`] of memory and finds there what others have put in order, or nothing if all is
    /// zero.
    fn laid(memory: &mut Memory<'r>, config: &Self::Config) -> Self;
}

impl Policy {
    /// Its configuration for so many frames: the `given` parameters, by their names, and defaults for all
    /// others.
    ///
    /// # Errors
    /// Names the parameter that is unknown to the policy or out of range, or `frames`, with the reason and
    /// what to do.
    pub fn configured(self, frames: u64, given: &[(&'static str, u64)]) -> Result<PolicyConfig, ConfigError> {
        let defaults = self.defaults(frames)?;
        given.iter().try_fold(defaults, |config, &(name, value)| config.with(name, value))
    }

    /// What to say of a parameter that the policy does not have.
    fn foreign(self, name: &'static str) -> ConfigError {
        let of = |policy: &Self| policy.parameters().iter().any(|parameter| parameter.name == name);
        let others: Vec<_> =
            Self::ALL.iter().filter(|policy| of(policy)).map(|policy| policy.name()).collect();
        let advice = match self.parameters().as_slice() {
            [] => "leave it out".to_owned(),
            own => {
                let own: Vec<_> = own.iter().map(|parameter| parameter.name).collect();
                format!("leave it out; {self} has {}", own.join(", "))
            }
        };
        let reason = match others.as_slice() {
            [] => "no policy has this parameter".to_owned(),
            others => format!("a parameter of {}, not of {self}", others.join(", ")),
        };
        ConfigError::new(name, reason, advice)
    }
}

impl PolicyConfig {
    /// The structure at `offset` in a region: what is there already, or an empty one if all is zero.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 64 or the region ends before [`Self::bytes`] from there on.
    pub fn open<'r>(&self, region: &'r Region, offset: usize) -> Order<'r> {
        let mut memory = Memory { region, next: offset };
        let order = self.laid(&mut memory);
        assert_eq!(memory.next - offset, self.bytes(), "the size that was computed is the size that is used");
        order
    }

    /// A region for one structure alone.
    pub fn region(&self) -> Region {
        Region::heap(self.bytes().next_multiple_of(REGION_ALIGNMENT))
    }
}

/// Does something with a policy whatever it is; each policy gets code of its own.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Replacement>(self, policy: &P) -> Self::Output;
}

/// Gives out a region's memory, piece after piece.
struct Memory<'r> {
    region: &'r Region,
    next: usize,
}

/// Where each piece begins: no two share a cache line.
const PIECE_ALIGNMENT: usize = 64;

/// Bytes that `count` values of a type take of [`Memory`].
const fn piece<T>(count: usize) -> usize {
    (count * size_of::<T>()).next_multiple_of(PIECE_ALIGNMENT)
}

impl<'r> Memory<'r> {
    fn take<T: Shared>(&mut self, count: usize) -> &'r [T] {
        let values = self.region.slice(self.next, count);
        self.next += piece::<T>(count);
        values
    }

    fn one<T: Shared>(&mut self) -> &'r T {
        &self.take(1)[0]
    }
}

/// Declares the list of policies.
macro_rules! policies {
    ($($(#[$what:meta])+ $policy:ident($module:ident::$structure:ident) = $name:literal),+ $(,)?) => {
        /// The policies that there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Policy {
            $($(#[$what])+ $policy),+
        }

        /// A policy with its configuration, from which the size of its structure follows: checked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyConfig {
            $($(#[$what])+ $policy($module::Config)),+
        }

        /// A policy's structure in memory.
        pub enum Order<'r> {
            $($(#[$what])+ $policy($module::$structure<'r>)),+
        }

        $(impl From<$module::Config> for PolicyConfig {
            fn from(config: $module::Config) -> Self {
                Self::$policy(config)
            }
        })+

        impl Policy {
            /// Every policy.
            pub const ALL: &'static [Self] = &[$(Self::$policy),+];

            /// The name used in configuration and output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$policy => $name),+ }
            }

            /// The parameters that it has.
            pub fn parameters(self) -> Vec<&'static Parameter> {
                match self {
                    $(Self::$policy => {
                        let fields = <$module::$structure<'static> as Laid<'static>>::FIELDS;
                        fields.iter().map(|field| &field.parameter).collect()
                    })+
                }
            }

            /// Whether it matters to it that consecutive pages have consecutive keys. To others a key is a
            /// name.
            pub fn looks_at_neighbours(self) -> bool {
                match self { $(Self::$policy => <$module::$structure<'_> as Laid<'_>>::LOOKS_AT_NEIGHBOURS),+ }
            }

            fn defaults(self, frames: u64) -> Result<PolicyConfig, ConfigError> {
                match self { $(Self::$policy => $module::Config::new(frames).map(PolicyConfig::$policy)),+ }
            }
        }

        impl PolicyConfig {
            /// The policy.
            pub const fn policy(&self) -> Policy {
                match self { $(Self::$policy(_) => Policy::$policy),+ }
            }

            /// The frames that the policy orders.
            pub const fn frames(&self) -> u32 {
                match self { $(Self::$policy(config) => config.frames),+ }
            }

            /// The parameters and their values.
            pub fn parameters(&self) -> Vec<(&'static Parameter, u64)> {
                match self {
                    $(Self::$policy(config) => {
                        parameter::values(config, <$module::$structure<'static> as Laid<'static>>::FIELDS)
                    })+
                }
            }

            /// With another value of the parameter that has this name.
            fn with(self, name: &'static str, value: u64) -> Result<Self, ConfigError> {
                match self {
                    $(Self::$policy(config) => {
                        let fields = <$module::$structure<'static> as Laid<'static>>::FIELDS;
                        let changed = parameter::with(config, fields, name, value);
                        changed.ok_or_else(|| self.policy().foreign(name))?.map(Self::$policy)
                    })+
                }
            }

            /// Bytes of memory that the policy's structure takes.
            pub fn bytes(&self) -> usize {
                match self {
                    $(Self::$policy(config) => <$module::$structure<'_> as Laid<'_>>::bytes(config)),+
                }
            }

            fn laid<'r>(&self, memory: &mut Memory<'r>) -> Order<'r> {
                match self { $(Self::$policy(config) => Order::$policy(Laid::laid(memory, config))),+ }
            }
        }

        impl Order<'_> {
            /// Has the visitor do its work with the policy.
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self { $(Self::$policy(policy) => visitor.visit(policy)),+ }
            }
        }
    };
}
policies! {
    /// Pages leave in the order in which they came.
    Fifo(fifo::Fifo) = "fifo",
    /// The page leaves that was not referenced for the longest time.
    Lru(lru::Lru) = "lru",
    /// Second chance: a hand passes over the frames and takes a page that was not referenced since it passed
    /// last.
    Clock(clock::Clock) = "clock",
    /// LRU-2: the page leaves whose last reference but one is the oldest.
    LruK(lru_k::LruK) = "lru-2",
    /// Greedy-Dual: LRU for pages that cost unequally much to do without.
    GreedyDual(greedy_dual::GreedyDual) = "greedy-dual",
    /// TAC: the coldest extent gives up a page, and only hotter ones come in.
    Temperature(temperature::Temperature) = "temperature",
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|policy| policy.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|policy| policy.name()).collect();
            format!("unknown policy '{text}'; known: {}", known.join(", "))
        })
    }
}
