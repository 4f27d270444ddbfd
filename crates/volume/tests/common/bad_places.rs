//! Places of a device that stay bad.

use mezzanine_device::memory::{Bad, MemoryDevice};

use super::PAGE;

/// Spoils every place of the device that holds these bytes; says how many there are.
pub fn spoil(flash: &MemoryDevice, bytes: &[u8], bad: Bad) -> usize {
    let image = flash.image();
    let places: Vec<usize> =
        (0..image.len() / PAGE).filter(|at| image[at * PAGE..(at + 1) * PAGE] == *bytes).collect();
    for at in &places {
        // One sector of the page is enough.
        flash.spoil((at * PAGE + 1024) as u64, 512, bad);
    }
    places.len()
}
