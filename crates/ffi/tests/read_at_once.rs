//! Several blocks in one call: from memory, from flash by one batch, or left to the disk; whatever is in
//! doubt is left open.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use machine::{Machine, PAGE, checkpoint, flash_offset, id, page, read, write};
use mezzanine_engine::{PageId, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::read_at_once::AtOnce;

const BLOCKS: u32 = 512;

fn at_once(host: &Host, blocks: &[u32]) -> (Vec<AtOnce>, Vec<u8>) {
    let ids: Vec<PageId> = blocks.iter().map(|block| id(*block)).collect();
    let mut bytes = vec![0; blocks.len() * PAGE];
    let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(PAGE).collect();
    let found = host.read_at_once(&ids, &mut buffers);
    (found, bytes.chunks_exact(PAGE).map(|page| page[PAGE - 1]).collect())
}

#[test]
fn blocks_on_flash_are_one_batch_and_what_is_damaged_is_left_open() {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    let reads = &machine.disk.flash_reads;
    for block in 0..BLOCKS {
        write(&host, block, (block % 251) as u8);
    }
    checkpoint(&host, 20);
    while host.work() {}
    // Staging memory has the last ones, and the tier none of these.
    let blocks: Vec<u32> = (100..116).chain([BLOCKS - 1, BLOCKS, BLOCKS + 1]).collect();
    let before = reads.load(Ordering::SeqCst);
    let (found, versions) = at_once(&host, &blocks);
    assert_eq!(reads.load(Ordering::SeqCst), before + 1, "one batch");
    assert_eq!(found[..16], [AtOnce::FromFlash; 16]);
    assert!(matches!(found[16], AtOnce::FromMemory | AtOnce::FromFlash), "{found:?}");
    assert_eq!(found[17..], [AtOnce::OnDisk; 2]);
    for (block, version) in blocks[..17].iter().zip(versions) {
        assert_eq!(u32::from(version), block % 251);
    }
    // In an order in which nothing lies side by side.
    let backwards: Vec<u32> = (100..116).rev().collect();
    let (found, versions) = at_once(&host, &backwards);
    assert_eq!(found, [AtOnce::FromFlash; 16]);
    assert!(backwards.iter().zip(versions).all(|(block, version)| block % 251 == u32::from(version)));
    // One of them is damaged: the others are not.
    let flash = fs::File::options().write(true).open(machine.settings().flash_path).unwrap();
    flash.write_all_at(&[0xA5; 8], flash_offset(&host, 107) + 100).unwrap();
    let (found, _) = at_once(&host, &(100..116).collect::<Vec<_>>());
    for (block, found) in (100..).zip(found) {
        let expected = if block == 107 { AtOnce::Undecided } else { AtOnce::FromFlash };
        assert_eq!(found, expected, "block {block}");
    }
    // By itself it is what it is: clean, and on disk as well; and gone from the tier then.
    assert_eq!(host.read(&id(107), &mut page(0)), Found::OnDisk);
    assert_eq!(at_once(&host, &[107]).0, [AtOnce::OnDisk]);
    assert_eq!(read(&host, &machine, 108), Some(108));
}
