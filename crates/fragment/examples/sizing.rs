//! How a cache would do if it were smaller or larger: `cargo run -p mezzanine-fragment --example sizing
//! [READS [GIB]]`.
//!
//! A host without devices reads a volume behind a cache of 8 GiB, or as many as are given, and an eighth of
//! the volume, 2,000 times a second: areas of 4 MiB, of which the first of all are read most. Then it asks
//! the cache for the table.

use mezzanine_fragment::{Cache, Config, Next, Sizing, SizingConfig};
use mezzanine_ground::random::Random;

const AREA: u64 = 4 << 20;
const BLOCK: u64 = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reads: u64 = std::env::args().nth(1).map_or(Ok(600_000), |text| text.parse())?;
    let gib: u64 = std::env::args().nth(2).map_or(Ok(8), |text| text.parse())?;
    let volume: u64 = (8 * gib) << 30;
    let geometry = Config::new(gib << 30, &[volume]).geometry()?;
    let sizing = Sizing::new(&geometry, &SizingConfig::of(&geometry))?;
    println!("sizing takes {} bytes of memory", sizing.memory_bytes());
    let cache = Cache::heap(geometry).with_sizing(sizing);
    let (mut random, mut pieces, mut due) = (Random::new(1), Vec::new(), 0);
    for number in 0..reads {
        let now = number * 500_000;
        while due <= now {
            due = match cache.next_population(due) {
                // Data are nobody's here.
                Next::Job(job) => {
                    cache.done(job, Ok(()));
                    due
                }
                Next::NotBefore(at) => at.max(due + 1000),
            };
        }
        // The fourth power of a number from 0 to 1: half of the reads are for a sixteenth of the areas.
        let part = (random.below(1 << 32) as f64 / (1_u64 << 32) as f64).powi(4);
        let area = (part * (volume / AREA) as f64) as u64;
        let offset = area * AREA + random.below(AREA / BLOCK) * BLOCK;
        cache.read(0, offset, BLOCK, &mut pieces)?;
    }
    println!("{}", cache.sizing_table().ok_or("the cache has no sizing")?);
    Ok(())
}
