//! A cache gets another size, while it is open and while it is not.
//!
//! Whoever resizes an open cache first makes room on its device ([`make_room`]), then writes the superblock
//! with the new size ([`Superblock::resized`](mezzanine_fragment::format::Superblock::resized)), and then has
//! the cache follow ([`BlockCache::resize`]). A power cut in between leaves the old size or the new one;
//! records behind the size that is found are written over when the cache is opened. A cache that is not open
//! has them erased before its superblock says another size: what lies behind it may be anybody's by the time
//! that it grows again.

use std::time::{Duration, Instant};

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_fragment::format::{DeviceLayout, MAP_BLOCK_BYTES, Superblock, Superblocks};
use mezzanine_fragment::{ConfigError, Health};

use crate::error::{CachedError, CachedErrorKind};
use crate::host::{BlockCache, LOOK_EVERY, TELL_EVERY, until};
use crate::superblocks::write_superblock;

/// Bytes of the map that are erased at a time.
const ERASED_AT_ONCE: u64 = 1 << 20;
/// Bytes that are given back to the device at a time: a drive may answer nothing else meanwhile.
const GIVEN_BACK_AT_ONCE: u64 = 256 << 20;

/// How far an open cache has come to its new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Fragments that still lie behind it. They leave in the background, and none of them is there again when
    /// the cache is opened the next time.
    pub fragments_left: u64,
    /// Nothing lies behind it any more, and nothing is written there.
    pub is_done: bool,
    /// Bytes behind it that were not given back to the device, as there was no time left.
    pub not_given_back: u64,
}

impl BlockCache {
    /// Has the cache use so many slots from now on, and waits until what lies behind them has left: so long
    /// at most, and as long as `go_on` says, which is told every now and then how many fragments are left.
    /// Then the room behind them is given back to the device, if that takes it and there is time left. With
    /// the size that it has the cache goes on with a resize that was not waited for, and gives back anew.
    ///
    /// # Errors
    /// If there are no such slots, or the device is too short for them. Nothing has changed then.
    pub fn resize(
        &self,
        slots: u32,
        within: Duration,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<Resized, CachedError> {
        let shared = self.shared();
        let _one_at_a_time = shared.resizing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let geometry = shared.cache.geometry();
        check_length(&*shared.flash, geometry.end_of(slots.min(geometry.slots())))?;
        let bytes = u64::from(slots) * geometry.config().fragment_bytes;
        let grows = slots > shared.cache.slots_limit();
        shared.cache.resize(bytes).map_err(|error| refused(&*shared.flash, &error))?;
        shared.offer_work();
        let (mut late, mut told) = (until(within), Instant::now());
        let mut has_time = |left: &dyn Fn() -> u64| {
            if late() {
                return false;
            }
            let is_due = told.elapsed() >= TELL_EVERY;
            if is_due {
                told = Instant::now();
            }
            !is_due || go_on(left())
        };
        loop {
            // Of a cache that is used no more nothing leaves, and nothing of it counts.
            let is_used = !shared.health.is_lost() && shared.cache.health() == Health::Serving;
            if shared.cache.is_resized() {
                let behind = geometry.end_of(slots)..geometry.end_of(geometry.slots());
                let not_given_back =
                    if grows { 0 } else { give_back(&*shared.flash, behind, || has_time(&|| 0)) };
                return Ok(Resized { fragments_left: 0, is_done: true, not_given_back });
            }
            let left = || u64::from(shared.cache.fragments_behind_limit());
            if !is_used || !has_time(&left) {
                return Ok(Resized { fragments_left: left(), is_done: false, not_given_back: 0 });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Gives a cache that nobody has open another size, in bytes of its device; its superblock then.
///
/// # Errors
/// If the cache cannot have that size, or the device is too short for it: nothing has changed then. If the
/// device fails, the size may be the old one or the new one.
pub fn resize_at_rest(
    device: &dyn Device,
    found: &Superblocks,
    bytes: u64,
) -> Result<Superblock, CachedError> {
    let old = &found.newest;
    let new = old.resized(bytes).map_err(|error| refused(device, &error))?;
    let end = |superblock: &Superblock| superblock.layout.end_of(superblock.slots_limit);
    let grows = new.slots_limit > old.slots_limit;
    if grows {
        make_room(device, end(&new))?
    } else {
        check_length(device, end(&new))?
    }
    let failed = |error| CachedError::of_device(device.describe(), error);
    erase_records(device, &new.layout, new.slots_limit.min(old.slots_limit)).map_err(failed)?;
    write_superblock(device, &new, found.write_first).map_err(failed)?;
    if !grows {
        let behind = end(&new)..new.layout.end_of(new.layout.slots);
        give_back(device, behind, || true);
    }
    Ok(new)
}

/// Makes a device long enough for a cache of so many bytes, and takes the space for it, where it is a file.
///
/// # Errors
/// If it is none and shorter, or its file system has not the space.
pub fn make_room(device: &dyn Device, bytes: u64) -> Result<(), CachedError> {
    if device.capabilities().can_resize {
        return device.reserve(bytes).map_err(|error| CachedError::of_device(device.describe(), error));
    }
    check_length(device, bytes)
}

fn check_length(device: &dyn Device, bytes: u64) -> Result<(), CachedError> {
    if device.len() >= bytes {
        return Ok(());
    }
    let reason = format!("it has {} bytes, and the cache would use {bytes}", device.len());
    let next = "make the device larger first, and attach it anew; or ask for a smaller size";
    Err(CachedError::new(CachedErrorKind::Length, device.describe(), reason, next))
}

fn refused(device: &dyn Device, error: &ConfigError) -> CachedError {
    let next = "ask for a size that it was laid out for";
    CachedError::new(CachedErrorKind::Size, device.describe(), error.to_string(), next)
}

/// Erases the records of all slots from this one on, durably. One that cannot be read goes with those before
/// it in its block.
fn erase_records(device: &dyn Device, layout: &DeviceLayout, from: u64) -> Result<(), DeviceError> {
    let end = layout.map_offset + layout.map_bytes;
    let first = layout.map_offset + from * layout.record_bytes();
    let mut at = first / MAP_BLOCK_BYTES * MAP_BLOCK_BYTES;
    if at < first {
        let mut block = AlignedBuf::zeroed(MAP_BLOCK_BYTES as usize);
        if device.read_at(&mut block, at).is_err() {
            block.fill(0);
        }
        block[(first - at) as usize..].fill(0);
        device.write_at(&block, at)?;
        at += MAP_BLOCK_BYTES;
    }
    let zeros = AlignedBuf::zeroed(ERASED_AT_ONCE as usize);
    while at < end {
        let bytes = ERASED_AT_ONCE.min(end - at);
        device.write_at(&zeros[..bytes as usize], at)?;
        at += bytes;
    }
    device.flush()
}

/// Nothing of value lies there. Whether the device has a use for that is its own affair. `has_time` is asked
/// before each piece; false ends it. The bytes that were left for want of time.
fn give_back(device: &dyn Device, range: std::ops::Range<u64>, mut has_time: impl FnMut() -> bool) -> u64 {
    let (mut at, end) = (range.start, range.end.min(device.len()));
    while at < end {
        if !has_time() {
            return end - at;
        }
        let bytes = GIVEN_BACK_AT_ONCE.min(end - at);
        if device.discard(at, bytes).is_err() {
            break;
        }
        at += bytes;
    }
    0
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use mezzanine_device::{Capabilities, Request};

    use super::*;

    /// A device of any length that notes what is given back to it.
    struct Discards(u64, Mutex<Vec<(u64, u64)>>);

    impl Device for Discards {
        fn capabilities(&self) -> Capabilities {
            Capabilities { len: self.0, ..mezzanine_device::MemoryDevice::new(0).capabilities() }
        }

        fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
            let note = |request: &mut Request<'_>| match *request {
                Request::Discard { offset, len } => {
                    self.1.lock().expect("nobody has failed").push((offset, len));
                    Ok(())
                }
                _ => panic!("nothing else is asked of it"),
            };
            batch.iter_mut().map(note).collect()
        }

        fn set_len(&self, _: u64) -> Result<(), DeviceError> {
            panic!("nothing else is asked of it")
        }

        fn describe(&self) -> String {
            "discards".to_owned()
        }
    }

    #[test]
    fn room_is_given_back_in_pieces_until_time_is_up() {
        let (piece, end) = (GIVEN_BACK_AT_ONCE, 4096 + 3 * GIVEN_BACK_AT_ONCE + 8192);
        let given = |pieces: usize| {
            let (device, mut asked) = (Discards(end, Mutex::default()), 0);
            let left = give_back(&device, 4096..2 * end, || {
                asked += 1;
                asked <= pieces
            });
            (device.1.into_inner().expect("nobody has failed"), left)
        };
        assert_eq!(given(0), (vec![], end - 4096));
        assert_eq!(given(2), (vec![(4096, piece), (4096 + piece, piece)], piece + 8192));
        let (all, left) = given(9);
        assert_eq!((all.len(), all[3], left), (4, (4096 + 3 * piece, 8192), 0), "as far as the device goes");
    }
}
