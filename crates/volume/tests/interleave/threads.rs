//! What goes on beside an operator in most families: the first file is written and synced, and the queue goes
//! on.

use crate::world::{FILLER, Setup, Thread, World};

/// Blocks of the first file that [`begin`] writes.
pub(crate) const BLOCKS: u64 = 3;

/// Writes these blocks, reads each back, and syncs.
pub(crate) const WRITE: Thread = |world| {
    for block in [0, 1, 2, 0] {
        world.write((0, block))?;
        world.read((0, block))?;
    }
    world.sync(0)?;
    world.write((0, 1))?;
    world.read_run((0, 0), BLOCKS)
};

/// Reads them, and has others come into the tier.
pub(crate) const OTHERS: Thread = |world| {
    for block in 0..2 * BLOCKS {
        world.read((0, block % BLOCKS))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

/// The blocks are there, some on their way to the disk.
pub(crate) fn begin(setup: Setup) -> World {
    let world = World::new(setup);
    for block in 0..BLOCKS {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world
}
