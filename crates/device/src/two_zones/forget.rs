//! Giving an area up, so that no older one takes its place at any moment (invariant 9).
//!
//! The half that does not count may hold an older state of the area, whole, and zones farther behind what
//! begins an area of an earlier layout. Resets that a power cut interrupts happen to any of the zones. So
//! what begins a half is reset one step after the other, that of the half which counts last.

use super::layout::Layout;
use super::log::reset;
use super::planted::{self, Bug};
use super::scan::{self, Beginning};
use crate::{Device, DeviceError, Zones};

/// Resets what an area could be found by: the first zone of each half, in whatever state it is. An area whose
/// version is not known counts for none.
pub(super) fn forget(device: &dyn Device, zones: Zones) -> Result<(), DeviceError> {
    let found = scan::beginnings(device, zones)?;
    // The first says where the area lies.
    let Some(layout) = found.first().map(|beginning| beginning.layout) else { return Ok(()) };
    let is_older = |beginning: &&Beginning| beginning.layout != layout;
    let older: Vec<u64> = found.iter().filter(is_older).map(|beginning| beginning.zone).collect();
    if !older.is_empty() && !planted::is(Bug::EarlierLayoutKept) {
        reset(device, older.into_iter())?;
    }
    let [first, last] = in_order(device, &layout).map(|half| layout.zone(half, 0));
    if planted::is(Bug::BeginningsResetAtOnce) {
        return reset(device, [first, last].into_iter());
    }
    reset(device, [first].into_iter())?;
    reset(device, [last].into_iter())
}

/// The halves, that which counts last. Where none can be told to, the one of the higher generation does, or
/// the one whose beginning is damaged.
fn in_order(device: &dyn Device, layout: &Layout) -> [u32; 2] {
    let counts = match scan::open(device, layout) {
        Ok((log, _)) => log.end.half,
        Err(_) => {
            let generation = |half| match scan::generation_of(device, layout, half) {
                Ok(generation) => generation.unwrap_or(0),
                Err(_) => u64::MAX,
            };
            u32::from(generation(1) > generation(0))
        }
    };
    if planted::is(Bug::CountingHalfForgottenFirst) { [counts, 1 - counts] } else { [1 - counts, counts] }
}
