//! The smallest host of a tier: flash and disk are memory, and whoever waits carries out the jobs.
//! `cargo run -p mezzanine-engine --example host`

use std::collections::HashMap;
use std::error::Error;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, Job, Lookup, PageId, ReadError, ReadFlash, StageIn, StageKind, SyncMode, Tier, TierConfig,
};

const PAGE: usize = 4096;
const PAGES: u64 = 2000;

struct Flash(Vec<u8>);

impl Flash {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.0[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
        Ok(())
    }
}

/// Does what the tier asks for, if it asks for anything.
fn step(tier: &Tier, flash: &mut Flash, disk: &mut HashMap<PageId, Vec<u8>>) -> bool {
    let Some(mut job) = tier.next_job(1) else { return false };
    match &mut job {
        Job::WriteGroup(group) => group.writes().for_each(|(offset, bytes)| flash.write(offset, bytes)),
        Job::WriteSegment(segment) => {
            let (offset, bytes) = segment.write();
            flash.write(offset, bytes);
        }
        Job::ReadFront(front) => {
            for (offset, bytes) in front.reads() {
                bytes.copy_from_slice(&flash.0[offset as usize..][..bytes.len()]);
            }
        }
        Job::WriteDisk(write) => disk.extend(write.pages().map(|(id, bytes)| (id, bytes.to_vec()))),
        // Memory is durable enough for an example.
        Job::FlushFlash(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
    tier.complete(job, Ok(()));
    true
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = TierConfig { sync_mode: SyncMode::Durable, ..TierConfig::new(PAGE as u32, 1024) };
    let geometry = config.geometry()?;
    println!("{} bytes of flash, {} of memory", geometry.flash_bytes(), geometry.region_bytes());
    let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
    let mut disk = HashMap::new();
    let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
    let tier = Tier::recover(Blank::heap(geometry.region_bytes()), &superblock, 1, &mut flash)?.tier;

    // Twice as many pages as the tier has frames: the older ones leave for the disk.
    for block in 0..PAGES {
        let page = vec![block as u8; PAGE];
        while let StageIn::Full = tier.stage_in(&PageId::volume(1, block), &page, StageKind::Dirty, 0) {
            step(&tier, &mut flash, &mut disk);
        }
    }
    while step(&tier, &mut flash, &mut disk) {}

    let (mut on_flash, mut page) = (0, vec![0; PAGE]);
    for block in 0..PAGES {
        let id = PageId::volume(1, block);
        match tier.lookup(&id, &mut page) {
            Lookup::Memory => on_flash += 1,
            Lookup::Flash(found) => {
                flash.read(found.offset, &mut page).map_err(|error| error.0)?;
                // With threads beside this one the frame may have become another page's meanwhile.
                assert!(tier.verify(&found, &page) && tier.confirm(&found));
                on_flash += 1;
            }
            Lookup::Miss(_) => page.clone_from(&disk[&id]),
        }
        assert_eq!(page, vec![block as u8; PAGE]);
    }
    println!("{PAGES} pages: {on_flash} in the tier, {} written to disk", disk.len());
    Ok(())
}
