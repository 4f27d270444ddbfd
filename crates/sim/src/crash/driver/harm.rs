//! Harm that is done to a flash device in the middle of a life: bits flip, writes change, go elsewhere or are
//! lost, sectors go bad and stay so. And to one at rest: bits flip, pages become zeros or those of another
//! place, its superblocks another tier's.

use mezzanine_device::memory::{Bad, Fault, Image, Injection, MemoryDevice, Operation, SECTOR_BYTES};
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use mezzanine_ground::random::Random;

use super::report::Coverage;
use super::stop::Stop;

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
        let injection = bad_writes(16, random);
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
        let spoilt = spoil_sector(flash, bytes, random);
        self.bad_sectors.push(spoilt);
        spoilt
    }

    /// Forgets what was planned; what is bad stays so.
    pub(crate) fn forget_planned(&self, flash: &MemoryDevice) {
        flash.heal();
        for (sector, bad) in &self.bad_sectors {
            flash.spoil(*sector, SECTOR_BYTES, *bad);
        }
    }
}

/// Writes to come that change, go elsewhere or are lost: up to three, after at most so many others.
pub(crate) fn bad_writes(after_max: u64, random: &mut Random) -> Injection {
    let fault = *random.pick(&[Fault::FlipBit, Fault::Misdirect, Fault::Lie]);
    let (after, count) = (random.magnitude(after_max) - 1, random.magnitude(3));
    Injection { operation: Operation::Write, after, count, fault }
}

/// A flush to come that is reported and not done.
pub(crate) fn lying_flush(random: &mut Random) -> Injection {
    let after = random.magnitude(16);
    Injection { operation: Operation::Flush, after, count: 1, fault: Fault::Lie }
}

/// Makes one sector of so many bytes of a device bad. Returns where, and how.
pub(crate) fn spoil_sector(device: &MemoryDevice, bytes: u64, random: &mut Random) -> (u64, Bad) {
    let sector = random.below(bytes / SECTOR_BYTES) * SECTOR_BYTES;
    let bad = *random.pick(&[Bad::Unreadable, Bad::Unreadable, Bad::UnreadableUntilWritten]);
    device.spoil(sector, SECTOR_BYTES, bad);
    (sector, bad)
}

/// Up to eight times a bit flips, a page of a device at rest becomes zeros, or what another place holds.
/// Returns what, in words.
pub(crate) fn damage_at_rest(flash: &MemoryDevice, page_bytes: usize, random: &mut Random) -> Vec<String> {
    let mut image = flash.snapshot();
    let pages = (image.len() / page_bytes) as u64;
    let done = (0..random.magnitude(8))
        .map(|_| {
            let [to, from] = [0, 0].map(|_| random.below(pages) as usize * page_bytes);
            match random.below(3) {
                0 => {
                    let byte = to + random.below(page_bytes as u64) as usize;
                    image.flip(byte, 1 << random.below(8));
                    format!("a bit flips at {byte}")
                }
                1 => {
                    image.zero(to..to + page_bytes);
                    format!("the page at {to} becomes zeros")
                }
                _ => {
                    let page = image.range(from..from + page_bytes).into_owned();
                    image.write(to, &page);
                    format!("the page at {to} becomes that at {from}")
                }
            }
        })
        .collect();
    flash.put_back(&image);
    done
}

/// Whether a start on a damaged device may have ended so; counts what was noticed. `older` says that a page
/// was found as it was earlier in a way that the loss of the newest groups explains: after a crash damage to
/// them looks like a torn write (docs/reliability.md).
pub(crate) fn judge_start(
    ended: Result<(), Stop>,
    may_refuse: impl FnOnce() -> bool,
    older: bool,
    coverage: &mut Coverage,
) -> Result<(), Stop> {
    match ended {
        Ok(()) => {}
        Err(Stop::Lost) => coverage.damage_reported += 1,
        Err(Stop::Refused(_)) if may_refuse() => coverage.damage_refused += 1,
        Err(stop) if older && stop.is_of_older_page() => {}
        Err(stop) => return Err(stop.with_damaged_tier()),
    }
    Ok(())
}

/// Changes both superblocks of a device.
pub(crate) fn each_superblock(image: &mut Image, mut change: impl FnMut(&mut [u8])) {
    for offset in SUPERBLOCK_OFFSETS {
        let at = offset as usize;
        let mut superblock = image.range(at..at + SUPERBLOCK_BYTES).into_owned();
        change(&mut superblock);
        image.write(at, &superblock);
    }
}

/// The newer whole superblock of the two on a device.
pub(crate) fn newest_superblock(image: &Image) -> Option<Superblock> {
    let copies = SUPERBLOCK_OFFSETS.map(|offset| {
        let at = offset as usize;
        Superblock::decode(&image.range(at..at + SUPERBLOCK_BYTES)).ok()
    });
    copies.into_iter().flatten().max_by_key(|superblock| superblock.generation)
}

/// Makes a superblock that of another tier.
pub(crate) fn rename_tier(superblock: &mut [u8]) {
    if let Ok(found) = Superblock::decode(superblock) {
        superblock.copy_from_slice(&Superblock { tier_uuid: [0xAA; 16], ..found }.encode());
    }
}
