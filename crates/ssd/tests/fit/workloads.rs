//! Twenty workloads that no probe runs: other sizes, depths, mixes and periods of flushes.

use std::sync::Arc;
use std::time::Duration;

use mezzanine_ssd::load::{Load, LoadKind, Tally, VirtualDrive};
use mezzanine_ssd::{Condition, Ssd, SsdConfig};

const KIB: u64 = 1024;
/// What those over a part of the drive use of it.
const PART_BYTES: u64 = 32 << 20;
const TIME: Duration = Duration::from_millis(300);
/// Of those over a whole drive, after as much again that does not count. In less, what is measured is how far
/// the buffer is from full, and where in a block each plane has got to: a drive that is drawn differs from
/// itself by a fifth from one half second to the next.
const TIME_WHOLE: Duration = Duration::from_secs(20);

/// Each with whether it is over a whole drive that has been written over for long.
pub(crate) fn all() -> Vec<(Load, bool)> {
    let write = |kib: u64, clients| Load::new(LoadKind::RandomWrite, kib * KIB, clients);
    let read = |kib: u64, clients| Load::new(LoadKind::RandomRead, kib * KIB, clients);
    let mixed = |reads_percent, kib: u64, clients| Load {
        reads_percent,
        ..Load::new(LoadKind::Mixed, kib * KIB, clients)
    };
    let part = vec![
        write(4, 2),
        write(8, 6),
        write(32, 3),
        write(128, 2),
        read(8, 3),
        read(16, 12),
        read(32, 24),
        read(128, 6),
        mixed(70, 8, 8),
        mixed(30, 4, 24),
        mixed(90, 16, 32),
        write(4, 1).fsync_after(2),
        write(8, 1).fsync_after(6),
        write(16, 1).fsync_after(24),
        write(4, 4).fsync_after(12),
        Load::new(LoadKind::GroupWrite, 512 * KIB, 1).fsync_after(1),
    ];
    let whole = vec![write(8, 16), write(16, 4), mixed(70, 4, 16), write(4, 8).fsync_after(100)];
    part.into_iter().map(|load| (load, false)).chain(whole.into_iter().map(|load| (load, true))).collect()
}

/// Requests a second of a drive.
pub(crate) fn rate(config: &SsdConfig, (load, is_whole): (Load, bool)) -> f64 {
    let condition = if is_whole { Condition::Steady } else { Condition::Fresh };
    let ssd = Ssd::new(config.clone()).unwrap().beginning(condition);
    let mut drive = VirtualDrive::new(Arc::new(ssd), true);
    let span = if is_whole { config.capacity_bytes } else { PART_BYTES };
    if !is_whole {
        drive.fill(span, &mut |_| {});
    }
    let mut tally = Tally::default();
    let time = if is_whole { TIME_WHOLE } else { TIME };
    let took = drive.run(Load { warm_up: is_whole, ..load }, span, time, 77, &mut tally);
    (tally.reads.0 + tally.writes.0) as f64 / took.as_secs_f64()
}
