//! A durable tier that has lived so long that one of its numbers comes to its end takes no more pages: the
//! volume goes on without it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, PAGE, durable, formatted, page};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::{Age, SUPERBLOCK_OFFSETS, read_superblock};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_volume::{Volume, VolumeError, VolumeState};

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

/// Writes until well behind the number's reserve. Then everything is there, also without the tier, and in
/// another opening.
fn lives_on(age: &Age) -> Result<(), VolumeError> {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let new = read_superblock(&mut Flash(&flash)).unwrap();
    let (grown, segment) = age.of(&new, &durable().tier.geometry().unwrap());
    let (offset, bytes) = segment.unwrap();
    flash.write_at(&bytes, offset).unwrap();
    SUPERBLOCK_OFFSETS.iter().for_each(|offset| flash.write_at(&grown.encode(), *offset).unwrap());
    let volume = Volume::open(flash.clone(), durable())?;
    let file = backing.attach(&volume)?;
    assert_eq!(volume.statistics().used_up, None);
    for version in 0..3 {
        for block in 0..200 {
            file.write_at(&page(block, version), block * PAGE as u64)?;
        }
        file.sync()?;
    }
    let VolumeState::Bypass { reason } = volume.state() else { panic!("{:?}", volume.state()) };
    assert!(reason.contains("the tier has used up its "), "{reason}");
    let used_up = volume.statistics().used_up.unwrap_or_default();
    assert!(used_up.starts_with("the tier has used up its "), "statistics say so as well: {used_up}");
    drop((file, volume));
    for block in 0..200 {
        let mut found = vec![0; PAGE];
        backing.disk.read_at(&mut found, block * PAGE as u64).unwrap();
        assert!(found == page(block, 2), "block {block}");
    }
    let volume = Volume::open(flash, durable())?;
    let file = backing.attach(&volume)?;
    file.write_at(&page(3, 9), 3 * PAGE as u64)?;
    file.sync()?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 3 * PAGE as u64)?;
    assert!(found == page(3, 9));
    volume.close()
}

/// Its writers waited for room that never came, since they took it for a tier that somebody was quiescing.
#[test]
fn writes_go_to_disk_when_a_number_comes_to_its_end() {
    // Not far in epochs: numbers of files come to their end long before those.
    let (near, far) = (Age::before_reserve(150), Age { epoch: 3, ..Age::before_reserve(1 << 20) });
    for age in [Age { position: near.position, ..far }, Age { version: near.version, ..far }] {
        lives_on(&age).unwrap();
    }
    set(Some(Bug::UsedUpAwaited));
    let stuck = lives_on(&Age { version: near.version, ..far });
    set(None);
    assert!(stuck.unwrap_err().to_string().contains("has no job to offer"));
}
