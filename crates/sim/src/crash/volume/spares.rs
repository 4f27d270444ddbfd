//! Devices that fail while one takes the place of another: the spare one while it is made ready, the old one
//! while its pages leave it, disks and sidecars at the switch, and what was the spare one once pages are on
//! it.
//!
//! Invariants checked: `no-unprovoked-error`: what fails of the spare device before it is in use costs the
//! replacement alone, whose error names the device ([`super::costs`]).

use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::{VolumeError, VolumeState};

use super::costs::Struck;
use super::failing::READS_OF_SILENCE;
use super::machine::SidecarFault;
use super::world::{Session, World, trace};
use crate::crash::driver::harm::spoil_sector;
use crate::crash::driver::{Invariant, Stop};

/// Operations of a device that may fail, as often as they are to.
const KINDS: [Operation; 6] = [
    Operation::Read,
    Operation::Write,
    Operation::Write,
    Operation::Flush,
    Operation::Flush,
    Operation::Discard,
];

/// To be called when a replacement begins: some are to meet devices that fail. No number is drawn that
/// anything else in the life would have drawn.
pub(super) fn plan(world: &mut World) {
    let mut random = Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x7370_6172_6573));
    if !world.scenario.spares || random.chance(1, 2) {
        return;
    }
    if !world.faults.planned {
        world.expect_faults();
    }
    for _ in 0..random.between(1, 2) {
        world.life.coverage.errors_planned += 1;
        let file = random.below(world.machine.disks.len() as u64) as usize;
        match random.below(8) {
            0..4 => plan_on(world, &mut random, true),
            4..6 => plan_on(world, &mut random, false),
            6 => {
                let (operation, after) = (*random.pick(&KINDS[1..5]), random.magnitude(16) - 1);
                let injection = Injection { operation, after, count: 1, fault: error(&mut random) };
                trace!(world, "to fail in the replacement, on disk {file}: {injection:?}");
                world.machine.disks[file].inject(injection);
            }
            _ => {
                let (after, no_space) = (random.magnitude(8) - 1, random.chance(1, 2));
                let fault = SidecarFault { after, count: *random.pick(&[1, 2, u64::MAX]), no_space };
                trace!(world, "sidecar {file} is to fail in the replacement: {fault:?}");
                world.machine.sidecars[file].inject(fault);
            }
        }
    }
}

fn error(random: &mut Random) -> Fault {
    Fault::Error(if random.chance(1, 4) { DeviceErrorKind::NoSpace } else { DeviceErrorKind::Io })
}

/// One of the two flash devices is to fail: in some operations of a kind, in all of any kind, or where
/// sectors are bad.
fn plan_on(world: &mut World, random: &mut Random, on_spare: bool) {
    let device = if on_spare { &world.machine.spare } else { &world.machine.flash };
    let name = if on_spare { "the spare device" } else { "the old device" };
    match random.below(4) {
        0 | 1 => {
            let (operation, after) = (*random.pick(&KINDS), random.magnitude(64) - 1);
            let count = *random.pick(&[1, 1, 2, u64::MAX]);
            let injection = Injection { operation, after, count, fault: error(random) };
            trace!(world, "to fail in the replacement, on {name}: {injection:?}");
            device.inject(injection);
            if operation == Operation::Read {
                world.faults.flash_reads = world.faults.flash_reads.saturating_add(count);
            }
        }
        2 => {
            let most = *random.pick(&[1, 8, 64]);
            trace!(world, "{name} is to fail wholly in the replacement, or soon after");
            for operation in &KINDS[1..] {
                let (after, fault) = (random.magnitude(most) - 1, Fault::Error(DeviceErrorKind::Io));
                device.inject(Injection { operation: *operation, after, count: u64::MAX, fault });
            }
            let (after, fault) = (random.magnitude(most) - 1, Fault::Error(DeviceErrorKind::Io));
            device.inject(Injection { operation: Operation::Read, after, count: u64::MAX, fault });
            world.faults.flash_reads = u64::MAX;
        }
        _ => {
            let sectors = random.magnitude(4);
            for _ in 0..sectors {
                let (sector, bad) = spoil(device, world.scenario.flash_bytes(), random);
                trace!(world, "in the replacement the sector at {sector} of {name} is bad: {bad:?}");
            }
            // A sector may be asked for again and again.
            world.faults.flash_reads = world.faults.flash_reads.saturating_add(READS_OF_SILENCE);
        }
    }
}

/// One bad sector of so many bytes, near the beginning in half of the cases: superblocks are there.
fn spoil(device: &MemoryDevice, bytes: u64, random: &mut Random) -> (u64, Bad) {
    let among = if random.chance(1, 2) { bytes.min(1 << 16) } else { bytes };
    spoil_sector(device, among, random)
}

/// A replacement has failed. `before` is what had failed before it. Returns whether the volume is as before.
pub(super) fn judge(
    world: &mut World,
    session: &Session,
    before: Struck,
    error: &VolumeError,
) -> Result<bool, Stop> {
    world.life.coverage.replacements_failed += 1;
    let struck = world.machine.struck().since(before);
    let spare = world.machine.spare.describe();
    let of_spare = struck != Struck::default() && world.has_spare_alone_failed();
    if of_spare && !error.to_string().contains(&spare) {
        let text = format!("{spare} alone failed in a replacement, and the error does not name it: {error}");
        return Err(Stop::Violated(Invariant::NoUnprovokedError, text));
    }
    Ok(session.volume.state() == VolumeState::Ok)
}
