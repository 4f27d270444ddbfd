//! Requests of a life, and what hosts do besides.

use mezzanine_fragment::{Job, Piece, Source};

use super::{Change, Life, Under};
use crate::Outcome;
use crate::devices::HALF;

impl Life<'_, '_> {
    /// Some halves of a volume: mostly the same ones.
    fn place(&mut self) -> (usize, u64, u64) {
        let volume = (self.random.magnitude(1 << 20) % self.devices.backing.len() as u64) as usize;
        let size = self.devices.backing[volume].sectors().len() as u64;
        let start = self.random.below(size) & if self.random.chance(3, 4) { !1 } else { !0 };
        let length = match self.random.below(8) {
            0 => 1,
            1 => size,
            2 => 64,
            _ => 2 * self.random.between(1, 2),
        };
        (volume, start, length.min(size - start))
    }

    pub(super) fn write(&mut self) {
        let (volume, start, halves) = self.place();
        *self.next_value += 1;
        let mut data = vec![0; (halves * HALF) as usize];
        let mut left = Vec::new();
        for (at, half) in data.chunks_exact_mut(HALF as usize).enumerate() {
            let value = *self.next_value << 8 | at as u64 & 0xFF;
            half[..8].copy_from_slice(&value.to_le_bytes());
            left.push((start as usize + at, value));
        }
        let before = self.before(volume, start..start + halves);
        let token = self.cache.write_begin(volume, start * HALF, &data).unwrap();
        self.under_way.push(Under::Write { volume, token, left, before });
    }

    pub(super) fn discard(&mut self) {
        let (volume, start, halves) = self.place();
        *self.next_value += 1;
        let value = *self.next_value << 8;
        let token = self.cache.discard_begin(volume, start * HALF, halves * HALF).unwrap();
        let left = (start..start + halves).map(|half| (half as usize, value)).collect();
        let before = self.before(volume, start..start + halves);
        self.under_way.push(Under::Write { volume, token, left, before });
    }

    /// What the backing device has of some halves.
    fn before(&self, volume: usize, halves: std::ops::Range<u64>) -> Vec<Change> {
        let sectors = self.devices.backing[volume].sectors();
        halves.map(|half| (half as usize, sectors[half as usize])).collect()
    }

    pub(super) fn flush(&mut self) -> Outcome {
        let volume = self.random.below(self.devices.backing.len() as u64) as usize;
        let token = self.cache.flush_begin(volume).unwrap();
        let until = self.devices.backing[volume].flush_begin();
        self.under_way.push(Under::Flush { volume, token, until });
        Ok(())
    }

    /// Reads at once, and compares.
    pub(super) fn read(&mut self) -> Outcome {
        let (volume, start, halves) = self.place();
        let mut pieces = Vec::new();
        self.cache.read(volume, start * HALF, halves * HALF, &mut pieces).unwrap();
        for piece in &pieces {
            let Source::Cache(offset) = piece.source else {
                assert!(self.cache.confirm(piece));
                continue;
            };
            if self.random.chance(1, 60) {
                self.cache.read_failed(piece);
                self.cache.was_read(volume, piece.offset, piece.bytes).unwrap();
                continue;
            }
            if self.cache.confirm(piece) {
                self.judge(volume, piece, offset)?;
            }
        }
        Ok(())
    }

    fn judge(&self, volume: usize, piece: &Piece, offset: u64) -> Outcome {
        for half in 0..piece.bytes / HALF {
            let cached = self.devices.slots.sectors()[self.devices.slot_half(offset + half * HALF)];
            let at = (piece.offset / HALF + half) as usize;
            let there = self.devices.backing[volume].sectors()[at];
            if !self.may_be_read(volume, at, cached) {
                return Err(format!("half {at} of volume {volume} was read as {cached:#x} for {there:#x}"));
            }
        }
        Ok(())
    }

    /// The superblock says another size, and then the cache has it, unless a crash comes in between.
    pub(super) fn resize(&mut self) {
        let bytes = self.devices.resize(self.random);
        if self.random.chance(3, 4) {
            self.cache.resize(bytes).unwrap();
        }
    }

    /// What happens once in many lives.
    pub(super) fn rare(&mut self) -> Outcome {
        let volume = self.random.below(self.devices.backing.len() as u64) as usize;
        match self.random.below(8) {
            0 => {
                self.cache.invalidate_all();
            }
            1 | 2 => {
                self.cache.forget(volume).unwrap();
            }
            3 | 4 => {
                // Power of a backing device fails while nothing else does; its host says so.
                let is_written = |under: &Under<'_>| match under {
                    Under::Write { volume: other, .. } | Under::Flush { volume: other, .. } => {
                        *other == volume
                    }
                    Under::FlushBacking { job, .. } | Under::Fill { job, .. } => {
                        matches!(job, Job::FlushBacking(flush) if flush.volume() == volume)
                            || matches!(job, Job::ReadFragment(read) if read.volume() == volume)
                    }
                    _ => false,
                };
                if !self.under_way.iter().any(is_written) {
                    self.devices.backing[volume].power_fails(self.random);
                    self.cache.forget(volume).unwrap();
                    self.compare("after a backing device has lost power")?;
                }
            }
            5 | 6 => {
                // The note that it is void: the next cache has another id.
                self.devices.reinitialise();
                self.cache.go_offline();
            }
            _ => self.cache.quiesce(),
        }
        if self.random.chance(3, 4) {
            self.cache.resume();
        }
        Ok(())
    }
}
