//! A server gives the tier memory that was used before: by a tier, by a recovery that failed half way, by
//! whatever else. Nothing of that is part of the tier that is recovered in it.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use machine::{Machine, checkpoint, id, page, read, start, write};
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{GroupSummary, SegmentHeader};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

mod machine;

const BLOCKS: u32 = 1400;

/// Damages the records of a metadata segment in the middle and the summary of a group that it stands for.
fn damage_a_segment(machine: &Machine) {
    let path = machine.root.join("flash");
    let flash = std::fs::read(&path).unwrap();
    let blocks = || flash.chunks_exact(4096).enumerate().map(|(index, block)| (index as u64 * 4096, block));
    let mut segments: Vec<_> =
        blocks().filter_map(|(at, block)| Some((at, SegmentHeader::decode(block).ok()?))).collect();
    segments.sort_by_key(|(_, header)| header.number);
    assert!(segments.len() > 3, "{} segments", segments.len());
    let (at, header) = &segments[segments.len() / 2];
    let of_it = |group: &GroupSummary| (header.first_sequence..header.end_sequence).contains(&group.sequence);
    let summary = blocks().find_map(|(at, _)| {
        let bytes = flash.get(at as usize..at as usize + 2 * 8192)?;
        GroupSummary::decode(bytes).ok().filter(|(group, _)| of_it(group)).map(|_| at)
    });
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for damaged in [at + 4096 + 100, summary.unwrap() + 400] {
        file.write_all_at(&[0x5A; 16], damaged).unwrap();
    }
}

/// The blocks that the tier answers for.
fn held(host: &Host) -> Vec<u32> {
    let mut out = page(0);
    (0..BLOCKS).filter(|block| !matches!(host.read(&id(*block), &mut out), Found::OnDisk)).collect()
}

/// It was so once that a recovery which found damage had linked the pages of the segments before; then the
/// tier was discarded and recovered in the same memory, and answered with those pages. Two damaged blocks
/// sufficed, and disk had newer versions.
#[test]
fn a_tier_that_is_discarded_for_damage_answers_nothing() {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..BLOCKS {
        write(&host, block, 1);
    }
    checkpoint(&host, 20);
    drop(host);
    damage_a_segment(&machine);
    machine.disk.pages.lock().unwrap().values_mut().for_each(|on_disk| *on_disk = page(2));

    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Discarded);
    assert_eq!(held(&host), [], "these blocks are answered by a discarded tier");
    assert!((0..BLOCKS).all(|block| read(&host, &machine, block) == Some(2)));
    host.tier().check();
}

/// Memory that outlives servers, as shared memory may: given to one after the other.
struct Lasting(&'static mut [u8]);

impl Lasting {
    fn start(&mut self, machine: &Machine, redo: u64, fresh: bool) -> (Host, Adoption) {
        let relations = machine::Relations(machine.disk.clone());
        let mut host = Host::open(machine.settings(), None, Box::new(relations)).unwrap();
        host.lock_device().unwrap();
        assert!(self.0.len() >= host.memory_bytes());
        // SAFETY: leaked, and used by one server after the other.
        unsafe { host.use_memory(NonNull::from(&mut *self.0).cast(), self.0.len(), fresh) };
        let adoption = host.start(&start(redo)).unwrap().adoption;
        (host, adoption)
    }
}

/// A server's backend dies, all others with it, and the server starts again in the same shared memory.
/// `fresh` is a host's error, and does no harm.
#[test]
fn a_server_starts_again_in_the_memory_of_the_one_before() {
    for (fresh, fill) in [(false, 0xFF), (false, 0x5A), (true, 0)] {
        for mode in [SyncMode::Through, SyncMode::Drained, SyncMode::Durable] {
            let machine = Machine::new(mode);
            let mut memory = Lasting(vec![fill; 64 << 20].leak());
            let (host, adoption) = memory.start(&machine, 10, fresh);
            assert_eq!(adoption, Adoption::Formatted, "{mode:?}");
            for block in 0..BLOCKS {
                write(&host, block, 1);
            }
            checkpoint(&host, 20);
            drop(host);
            let (host, adoption) = memory.start(&machine, 20, fresh);
            host.tier().check();
            let expected = if mode == SyncMode::Through { Adoption::Discarded } else { Adoption::Adopted };
            assert_eq!(adoption, expected, "{mode:?}");
            assert_eq!(held(&host).is_empty(), expected == Adoption::Discarded, "{mode:?}");
            // Another server's: it has none of that.
            drop(host);
            let other = Machine::new(mode);
            let (host, adoption) = memory.start(&other, 10, fresh);
            assert_eq!((adoption, held(&host)), (Adoption::Formatted, vec![]), "{mode:?}");
        }
    }
}

/// Whatever a start comes to, what was published in this memory before is not joined any more.
#[test]
fn a_start_that_is_refused_leaves_no_tier_to_be_joined() {
    let machine = Machine::new(SyncMode::Durable);
    let mut memory = Lasting(vec![0; 64 << 20].leak());
    let (host, _) = memory.start(&machine, 10, true);
    write(&host, 1, 1);
    checkpoint(&host, 20);
    drop(host);
    let relations = machine::Relations(machine.disk.clone());
    let mut host = Host::open(machine.settings(), None, Box::new(relations)).unwrap();
    host.lock_device().unwrap();
    // SAFETY: as above.
    unsafe { host.use_memory(NonNull::from(&mut *memory.0).cast(), memory.0.len(), false) };
    assert!(host.start(&start(15)).unwrap_err().message.contains("not of the same moment"));
    let refused = host.attach(2).unwrap_err();
    assert!(refused.message.contains("not set up yet"), "{refused}");
}
