//! Harm that is done to a flash device in the middle of a life: bits flip, writes change, go elsewhere or are
//! lost, sectors go bad and stay so.

use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation, Random, SECTOR_BYTES};

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    /// Bits have flipped, or writes gone wrong.
    pub(crate) damaged: bool,
    /// Only sectors go bad.
    pub(crate) sectors: bool,
    /// No more is done.
    pub(crate) over: bool,
    /// Sectors that are bad for good.
    pub(crate) bad_sectors: Vec<(u64, Bad)>,
}

impl Harm {
    /// Lets writes to come change, go elsewhere or be lost. Returns what.
    pub(crate) fn plan_bad_writes(&mut self, flash: &MemoryDevice, random: &mut Random) -> Injection {
        let fault = *random.pick(&[Fault::FlipBit, Fault::Misdirect, Fault::Lie]);
        let (after, count) = (random.magnitude(16) - 1, random.magnitude(3));
        let injection = Injection { operation: Operation::Write, after, count, fault };
        flash.inject(injection);
        self.damaged = true;
        injection
    }

    /// Inverts one bit of so many bytes. Returns which.
    pub(crate) fn flip_bit(&mut self, flash: &MemoryDevice, bytes: u64, random: &mut Random) -> u64 {
        let bit = random.below(bytes * 8);
        flash.flip_bit(bit);
        self.damaged = true;
        bit
    }

    /// Makes one sector of so many bytes bad. Returns where, and how.
    pub(crate) fn spoil_sector(
        &mut self,
        flash: &MemoryDevice,
        bytes: u64,
        random: &mut Random,
    ) -> (u64, Bad) {
        let sector = random.below(bytes / SECTOR_BYTES) * SECTOR_BYTES;
        let bad = *random.pick(&[Bad::Unreadable, Bad::Unreadable, Bad::UnreadableUntilWritten]);
        flash.spoil(sector, SECTOR_BYTES, bad);
        self.bad_sectors.push((sector, bad));
        (sector, bad)
    }

    /// Forgets what was planned; what is bad stays so.
    pub(crate) fn forget_planned(&self, flash: &MemoryDevice) {
        flash.heal();
        for (sector, bad) in &self.bad_sectors {
            flash.spoil(*sector, SECTOR_BYTES, *bad);
        }
    }
}
