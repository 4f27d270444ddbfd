//! The placement of a tier: one of the two, as long as it lives.

use std::ops::Deref;

use super::QueuePlacement;
#[cfg(test)]
use super::scattered;
use crate::core::Tier;
use crate::in_place::InPlace;
use crate::queue::Queue;

/// The placement of a tier.
#[expect(clippy::large_enum_variant, reason = "it is made for one call, where it is used")]
pub(crate) enum Chosen<'t> {
    Queue(Queue<'t>),
    InPlace(InPlace<'t>),
    #[cfg(test)]
    Scattered(scattered::Scattered<'t>),
}

impl<'t> Deref for Chosen<'t> {
    type Target = dyn QueuePlacement + 't;

    fn deref(&self) -> &(dyn QueuePlacement + 't) {
        match self {
            Self::Queue(placement) => placement,
            Self::InPlace(placement) => placement,
            #[cfg(test)]
            Self::Scattered(placement) => placement,
        }
    }
}

/// Runs an expression compiled for the placement of a tier.
macro_rules! placed {
    ($tier:expr, $placement:ident => $run:expr) => {
        match $tier.placement() {
            $crate::placement::chosen::Chosen::Queue($placement) => $run,
            $crate::placement::chosen::Chosen::InPlace($placement) => $run,
            #[cfg(test)]
            $crate::placement::chosen::Chosen::Scattered($placement) => $run,
        }
    };
}

pub(crate) use placed;

impl Tier {
    /// Where pages lie and which leave.
    #[inline(always)]
    pub(crate) fn placement(&self) -> Chosen<'_> {
        #[cfg(test)]
        if let Some(places) = &self.geometry.places {
            return Chosen::Scattered(scattered::Scattered::of(self, places));
        }
        match &self.geometry.placed {
            None => Chosen::Queue(Queue::of(self)),
            Some(geometry) => Chosen::InPlace(InPlace::of(self, geometry)),
        }
    }
}
