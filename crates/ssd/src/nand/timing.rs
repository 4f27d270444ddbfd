//! Channels and planes as resources: each has a time from which on it is free.
//!
//! A channel is taken for the length of a transfer when an operation is entered, not when its plane comes to
//! it: a plane that is busy for long does not keep a channel from the others.

use crate::geometry::{Geometry, NandTimings};

use super::Plane;

/// The times of a drive's flash in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NandTimes {
    pub(crate) read: u64,
    pub(crate) program: u64,
    pub(crate) erase: u64,
    /// Of a page over a channel.
    pub(crate) page_transfer: u64,
    /// Of a mapping unit over a channel.
    pub(crate) unit_transfer: u64,
}

impl NandTimes {
    pub(crate) fn new(timings: &NandTimings, geometry: &Geometry) -> Self {
        let ns = |us: f64| (us * 1e3).round() as u64;
        let transfer = |bytes: u32| (f64::from(bytes) * 1e3 / timings.channel_mb_per_s).round() as u64;
        Self {
            read: ns(timings.read_us),
            program: ns(timings.program_us),
            erase: ns(timings.erase_us),
            page_transfer: transfer(geometry.page_bytes),
            unit_transfer: transfer(geometry.unit_bytes),
        }
    }
}

/// The times from which on channels are free, and which plane is free first.
#[derive(Debug)]
pub(crate) struct NandClock<'s> {
    pub(crate) times: &'s NandTimes,
    channels: &'s mut [u64],
    /// A tournament of the planes by when they are free: the winner of all at 1, the leaves from the first
    /// power of two on.
    tournament: &'s mut [u32],
}

impl<'s> NandClock<'s> {
    /// Words of the tournament of so many planes.
    pub(crate) fn tournament_words(planes: u32) -> usize {
        2 * planes.next_power_of_two() as usize
    }

    pub(crate) fn new(times: &'s NandTimes, channels: &'s mut [u64], tournament: &'s mut [u32]) -> Self {
        Self { times, channels, tournament }
    }

    /// Makes the tournament of planes that are all free at once.
    pub(crate) fn format(&mut self, planes: &[Plane]) {
        let leaves = self.tournament.len() / 2;
        for leaf in 0..leaves {
            self.tournament[leaves + leaf] = (leaf as u32).min(planes.len() as u32 - 1);
        }
        for node in (1..leaves).rev() {
            self.tournament[node] = self.tournament[2 * node];
        }
    }

    /// All channels are free at once.
    pub(crate) fn settle(&mut self) {
        self.channels.fill(0);
    }

    /// The plane that is free first.
    #[inline]
    pub(crate) fn first_free(&self) -> u32 {
        self.tournament[1]
    }

    /// To be called whenever the time of a plane has changed.
    #[inline]
    pub(crate) fn changed(&mut self, planes: &[Plane], plane: u32) {
        // Of those that are free at the same time the one that was used less: all get their share.
        let when = |plane: u32| {
            let plane = &planes[plane as usize];
            u128::from(plane.free_at) << 64 | u128::from(plane.programs)
        };
        let mut node = self.tournament.len() / 2 + plane as usize;
        let (mut first, mut first_when) = (plane, when(plane));
        while node > 1 {
            let other = self.tournament[node ^ 1];
            let other_when = when(other);
            // Of equals the left one.
            let is_other = other_when < first_when + u128::from(node as u64 & 1);
            first = if is_other { other } else { first };
            first_when = if is_other { other_when } else { first_when };
            node /= 2;
            self.tournament[node] = first;
        }
    }

    /// A page goes over the channel into the register, and into the cells. Returns when it is there.
    #[inline]
    pub(crate) fn program(&mut self, plane: &mut Plane, channel: u32, not_before: u64) -> u64 {
        let free = &mut self.channels[channel as usize];
        *free = not_before.max(*free) + self.times.page_transfer;
        plane.free_at = plane.free_at.max(*free) + self.times.program;
        plane.programs += 1;
        plane.free_at
    }

    /// A page comes from the cells, and `units` of it go over the channel. Returns when they are here.
    #[inline]
    pub(crate) fn read(&mut self, plane: &mut Plane, channel: u32, not_before: u64, units: u32) -> u64 {
        let loaded = not_before.max(plane.free_at) + self.times.read;
        let free = &mut self.channels[channel as usize];
        let from = not_before.max(*free);
        let transfer = u64::from(units) * self.times.unit_transfer;
        *free = from + transfer;
        plane.free_at = loaded.max(from) + transfer;
        plane.free_at
    }
}
