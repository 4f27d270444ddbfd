//! A disk, or a RAID-0 of equal disks: operations are cut at stripe borders, each disk works on its own, and
//! all share the way to the host.

use super::disk::{Added, Disk, DiskState, Handle, Piece, Reached};
use super::few::Few;
use super::spec::DiskParameters;

/// The most disks in an array.
pub const DISKS_MAX: usize = 32;

/// State of all disks and of the way to the host. All zero is idle at time 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayState {
    pub(super) disks: [DiskState; DISKS_MAX],
    /// When the way to the host has carried everything that was submitted.
    host_free_at: u64,
}

impl ArrayState {
    /// For tests: the worst that a process could leave behind.
    #[cfg(test)]
    pub(super) fn leave_torn(&mut self) {
        self.host_free_at = u64::MAX;
        self.disks.iter_mut().for_each(DiskState::leave_torn);
    }
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    disk: Disk,
    disks: usize,
    stripe: u64,
    flush: u64,
    /// ns per byte on the way to the host, reading and writing; 0 = no limit.
    host_read: f64,
    host_write: f64,
}

/// A submitted operation that is not complete yet.
#[derive(Debug, Clone)]
pub(super) struct ArrayTicket {
    /// The completion is not before this, whatever the disks say.
    floor: u64,
    pieces: Few<(usize, Handle)>,
    /// Disks whose write caches are being flushed, and up to where.
    flushes: Vec<(usize, u64)>,
}

impl Array {
    /// An array of `capacity` bytes in all.
    pub(super) fn new(parameters: &DiskParameters, capacity: u64) -> Self {
        let per_byte = |limit: Option<f64>| limit.map_or(0.0, |mb_per_s| 1e3 / mb_per_s);
        Self {
            disk: Disk::new(parameters, capacity / u64::from(parameters.disks)),
            disks: parameters.disks as usize,
            stripe: parameters.stripe_bytes,
            flush: (parameters.flush_ms * 1e6) as u64,
            host_read: per_byte(parameters.array_read_mb_per_s_max),
            host_write: per_byte(parameters.array_write_mb_per_s_max),
        }
    }

    /// Submits a read or write of `[address, address + len)`, the arm position being `position`. If a disk
    /// has no room, nothing is submitted and the earliest time to try again is returned.
    pub(super) fn submit(&self, state: &mut ArrayState, now: u64, piece: Piece) -> Result<ArrayTicket, u64> {
        let pieces = self.split(piece);
        for &(index, _) in pieces.iter() {
            let disk = &mut state.disks[index];
            // Not up to and including `now`: what else arrives at this moment takes part in the choice.
            disk.advance(&self.disk, now, false);
            if !disk.has_room(now) {
                disk.advance(&self.disk, now, true);
                if !disk.has_room(now) {
                    return Err(disk.room_not_before(now));
                }
            }
        }
        let per_byte = if piece.write { self.host_write } else { self.host_read };
        let mut floor = now;
        if per_byte > 0.0 {
            state.host_free_at = state.host_free_at.max(now) + (piece.len as f64 * per_byte) as u64;
            floor = state.host_free_at;
        }
        let mut ticket = ArrayTicket { floor, pieces: Few::new(), flushes: Vec::new() };
        for &(index, piece) in pieces.iter() {
            match state.disks[index].add(&self.disk, now, piece) {
                Some(Added::Waits(handle)) => ticket.pieces.push((index, handle)),
                Some(Added::Cached(at)) => ticket.floor = ticket.floor.max(at),
                // Room was checked above, and pieces of one operation lie on different disks.
                None => debug_assert!(false, "a disk with room takes a request"),
            }
        }
        Ok(ticket)
    }

    pub(super) fn flush(&self, state: &mut ArrayState, now: u64) -> ArrayTicket {
        let disks = &mut state.disks[..self.disks];
        let flushes = disks
            .iter_mut()
            .enumerate()
            .map(|(index, disk)| (index, disk.want_flushed(&self.disk, now)))
            .collect();
        ArrayTicket { floor: now + self.flush, pieces: Few::new(), flushes }
    }

    /// How far an operation is. Once it answers `At`, the ticket is used up.
    pub(super) fn progress(&self, state: &mut ArrayState, now: u64, ticket: &mut ArrayTicket) -> Reached {
        let (mut floor, mut not_before) = (ticket.floor, 0);
        let mut keep = |reached: Reached| match reached {
            Reached::At(at) => {
                floor = floor.max(at);
                false
            }
            Reached::NotBefore(at) => {
                not_before = not_before.max(at);
                true
            }
        };
        ticket.pieces.retain(|&(index, handle)| keep(state.disks[index].collect(&self.disk, now, handle)));
        ticket.flushes.retain(|&(index, wanted)| keep(state.disks[index].flushed(&self.disk, now, wanted)));
        ticket.floor = floor;
        if ticket.pieces.is_empty() && ticket.flushes.is_empty() {
            Reached::At(floor)
        } else {
            Reached::NotBefore(not_before)
        }
    }

    /// Cuts an operation at stripe borders: at most one piece per disk, because the stripes of a disk that
    /// follow one another in the array are neighbours on the disk.
    fn split(&self, piece: Piece) -> Few<(usize, Piece)> {
        let mut pieces: Few<(usize, Piece)> = Few::new();
        if self.disks == 1 {
            pieces.push((0, piece));
            return pieces;
        }
        let (disks, end) = (self.disks as u64, piece.start + piece.len);
        let mut address = piece.start;
        while address < end {
            let unit = address / self.stripe;
            let within = address % self.stripe;
            let len = (self.stripe - within).min(end - address);
            let index = (unit % disks) as usize;
            match pieces.find_mut(|(disk, _)| *disk == index) {
                Some((_, earlier)) => earlier.len += len,
                None => {
                    let start = unit / disks * self.stripe + within;
                    pieces.push((index, Piece { start, len, ..piece }));
                }
            }
            address += len;
        }
        pieces
    }

    /// Time in ns that all disks together were busy.
    pub(super) fn busy(&self, state: &ArrayState) -> u64 {
        state.disks[..self.disks].iter().map(DiskState::busy).sum()
    }

    pub(super) fn reset(&self, state: &mut ArrayState, now: u64) {
        state.disks.iter_mut().for_each(|disk| disk.reset(now));
        state.host_free_at = now;
    }
}
