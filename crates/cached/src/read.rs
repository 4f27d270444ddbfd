//! Reads: what the engine says comes from the cache device is read there and confirmed, and everything else,
//! and what does not count, from the backing device.

use std::cell::RefCell;
use std::time::Instant;

use mezzanine_device::{DeviceError, DeviceErrorKind, Request};
use mezzanine_fragment::{Piece, RequestError, Source};

use crate::health::Health;
use crate::host::Shared;
use crate::latency::Served;
use crate::statistics::count;

/// A piece of a read: where its bytes go, and whose request it is of.
pub(crate) struct Wanted<'b> {
    pub(crate) request: usize,
    pub(crate) piece: Option<Piece>,
    pub(crate) offset: u64,
    pub(crate) buf: &'b mut [u8],
}

thread_local! {
    /// Kept between reads, for its memory.
    static PIECES: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    /// One read, without the memory that several take where it comes from one place.
    pub(crate) fn read(&self, volume: usize, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let since = Instant::now();
        let mut pieces = PIECES.take();
        let planned = self.plan(volume, offset, buf.len() as u64, &mut pieces);
        let served = planned.and_then(|()| match pieces.as_slice() {
            [] if buf.is_empty() => Ok(Served::Backing),
            [] => self.read_backing(volume, offset, buf).map(|()| Served::Backing),
            [one] if one.source == Source::Backing => {
                self.read_backing(volume, offset, buf).map(|()| Served::Backing)
            }
            [one] => match self.try_cached(one, buf) {
                true => Ok(Served::Cache),
                false => self.read_backing(volume, offset, buf).map(|()| Served::Backing),
            },
            _ => self.read_pieces(volume, &pieces, buf),
        });
        PIECES.set(pieces);
        let served = served?;
        if matches!(served, Served::Cache) {
            self.cache_was_read(since);
        }
        self.has_served(volume, served, buf.len(), since);
        Ok(())
    }

    /// What of a read comes from where; no pieces: all of it from the backing device.
    pub(crate) fn plan(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), DeviceError> {
        pieces.clear();
        let reason = match self.use_for_reads() {
            Health::Working => {
                let planned = self.cache.read(volume, offset, bytes, pieces);
                return planned
                    .map(|_| ())
                    .map_err(|error| self.refused(volume, "read", (offset, bytes), error));
            }
            Health::Suspended => &self.counters.bypass_read_suspended,
            Health::Lost => &self.counters.bypass_read_lost,
        };
        count(reason);
        // The engine was not asked whether it lies in the volume.
        let size = self.cache.geometry().config().volumes[volume];
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => {
                let error =
                    DeviceError::new(DeviceErrorKind::UnexpectedEnd, "read", self.backing(volume).describe());
                Err(error.at(offset, bytes))
            }
        }
    }

    /// The answer to a request that does not lie in its volume.
    pub(crate) fn refused(
        &self,
        volume: usize,
        operation: &'static str,
        (offset, bytes): (u64, u64),
        _: RequestError,
    ) -> DeviceError {
        let kind =
            if operation == "read" { DeviceErrorKind::UnexpectedEnd } else { DeviceErrorKind::OutOfRange };
        DeviceError::new(kind, operation, self.backing(volume).describe()).at(offset, bytes)
    }

    fn read_backing(&self, volume: usize, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let read = self.backing(volume).read_at(buf, offset);
        self.was_read(volume, offset, buf.len(), &read);
        read
    }

    /// What a backing device has said to a read. Of one that has given something the engine knows before the
    /// guest does, however it came to be asked (the engine's invariant 14): the cache device may be suspended
    /// for the time being, and come back.
    pub(crate) fn was_read(&self, volume: usize, offset: u64, bytes: usize, read: &Result<(), DeviceError>) {
        if read.is_err() {
            count(&self.counters.backing_reads_failed);
        } else if !self.is_past() {
            self.cache.was_read(volume, offset, bytes as u64).expect("what was read lies in its volume");
        }
    }

    /// Reads a piece from the cache device; whether that counts.
    fn try_cached(&self, piece: &Piece, buf: &mut [u8]) -> bool {
        let Source::Cache(at) = piece.source else { return false };
        let read = self.flash.read_at(buf, at);
        self.counts(piece, &read)
    }

    /// Whether what the cache device has given back of a piece counts (the engine's invariant 7, and rule 3).
    pub(crate) fn counts(&self, piece: &Piece, read: &Result<(), DeviceError>) -> bool {
        if let Err(error) = read {
            self.health.refused(error, true, self.now());
            self.cache.read_failed(piece);
            return false;
        }
        if self.health.is_lost() {
            // It was lost meanwhile, and may be back with something older.
            count(&self.counters.bypass_read_disbelieved);
            return false;
        }
        self.health.served();
        self.cache.confirm(piece)
    }

    fn read_pieces(&self, volume: usize, pieces: &[Piece], buf: &mut [u8]) -> Result<Served, DeviceError> {
        let mut wanted = Vec::with_capacity(pieces.len());
        divide(0, pieces, buf, &mut wanted);
        let all = wanted.len();
        let left = self.read_cached(wanted);
        let served = match left.len() {
            0 => Served::Cache,
            some if some == all => Served::Backing,
            _ => Served::Both,
        };
        let mut reads: Vec<_> =
            left.into_iter().map(|one| Request::Read { offset: one.offset, buf: one.buf }).collect();
        if !reads.is_empty() {
            let results = self.backing(volume).run(&mut reads);
            for (read, result) in reads.iter().zip(results) {
                if let Request::Read { offset, buf } = read {
                    self.was_read(volume, *offset, buf.len(), &result);
                }
                result?;
            }
        }
        Ok(served)
    }

    /// Reads from the cache device what is to come from there, as one batch, and gives back what is still to
    /// be read from the backing device.
    pub(crate) fn read_cached<'b>(&self, mut wanted: Vec<Wanted<'b>>) -> Vec<Wanted<'b>> {
        let place = |one: &Wanted<'_>| match one.piece.map(|piece| piece.source) {
            Some(Source::Cache(at)) => Some(at),
            Some(Source::Backing) | None => None,
        };
        let mut reads: Vec<_> = wanted
            .iter_mut()
            .filter_map(|one| place(one).map(|offset| Request::Read { offset, buf: &mut *one.buf }))
            .collect();
        if reads.is_empty() {
            return wanted;
        }
        let mut results = self.flash.run(&mut reads).into_iter();
        wanted.retain(|one| match (place(one), &one.piece) {
            (Some(_), Some(piece)) => {
                let result = results.next().expect("a device answers each request of a batch");
                !self.counts(piece, &result)
            }
            _ => true,
        });
        wanted
    }
}

/// Gives each piece its part of the buffer. Without pieces all of it comes from the backing device.
pub(crate) fn divide<'b>(
    request: usize,
    pieces: &[Piece],
    mut buf: &'b mut [u8],
    wanted: &mut Vec<Wanted<'b>>,
) {
    for piece in pieces {
        let (part, rest) = buf.split_at_mut(piece.bytes as usize);
        wanted.push(Wanted { request, piece: Some(*piece), offset: piece.offset, buf: part });
        buf = rest;
    }
    assert!(pieces.is_empty() || buf.is_empty(), "the pieces of a read are all of it");
}
