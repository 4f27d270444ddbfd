//! Tiers that have lived long: their numbers begin just below a bound, and a life of some thousand groups
//! passes it.

use mezzanine_device::Device as _;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::{Age, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use mezzanine_engine::{Position, Sequence, Version};
use mezzanine_ground::random::Random;

use super::at_rest::AtRest;

/// Where numbers of 64 bits outgrow a narrower type, or a field that shares its word with another one. The
/// last is half of what a version may reach in a record, which has 48 bits for it.
const BOUNDS: [u64; 5] = [1 << 16, 1 << 31, 1 << 32, 1 << 40, 1 << 47];
/// The same for epochs, which number the files of a volume from their 256-fold on.
const EPOCH_BOUNDS: [u32; 3] = [1 << 8, 1 << 16, 1 << 23];

/// The tiers of one world in four are old. From numbers of its own, so that the other draws of the seed stay
/// what they were.
pub(crate) fn draw_for(seed: u64) -> Option<Age> {
    let mut random = Random::new(seed ^ 0x6f6c_645f_6167_6573);
    random.chance(1, 4).then(|| draw(&mut random))
}

/// Draws how old the tiers of a world are: each number is near a bound of its own.
fn draw(random: &mut Random) -> Age {
    let epoch = *random.pick(&EPOCH_BOUNDS) - random.magnitude(64) as u32;
    let mut below = |distance_max| *random.pick(&BOUNDS) - random.magnitude(distance_max);
    Age {
        epoch,
        generation: below(64),
        sequence: Sequence::from_number(below(1024)),
        position: Position::from_number(below(4096)),
        version: Version::from_number(below(4096)),
        segment: below(64),
    }
}

/// Lets the tier that was just formatted on `flash` be of this age, durably, and as if nothing else had
/// happened: no operation is counted. Returns its superblock.
pub(crate) fn apply(age: &Age, flash: &MemoryDevice) -> Option<Superblock> {
    let at_rest = AtRest::of(&flash.snapshot(), flash.capabilities().zones)?;
    let new = Superblock::decode(&at_rest.bytes(0, SUPERBLOCK_BYTES)?).ok()?;
    let (superblock, segment) = age.of(&new, &new.config.geometry().ok()?);
    let copies = SUPERBLOCK_OFFSETS.map(|offset| (offset, superblock.encode().to_vec()));
    for (offset, bytes) in copies.into_iter().chain(segment) {
        at_rest.write(offset, &bytes).ok()?;
    }
    flash.put_back(&at_rest.into_image().ok()?);
    Some(superblock)
}
