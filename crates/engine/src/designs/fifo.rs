//! A yardstick: pages enter when they leave the host's memory, and leave in the order in which they came. FaCE-Basic's order with one version of
//! each page, written in place: what FaCE gains by appending shows beside it.

use super::{InPlace, any, none};
use crate::replacement::Policy;

pub(crate) const FIFO: InPlace = InPlace {
    policy: Policy::Fifo,
    parameters: none,
    on_entry: false,
    cleaner: None,
    selective: false,
    slots: false,
    check: any,
};
