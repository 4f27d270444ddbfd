//! Writes without data go the way of writes with data.
#![allow(clippy::unwrap_used)]

mod host;

use host::{BLOCK, Host, small};
use mezzanine_fragment::{Job, ReadKind, WriteToken};

/// What a host sees of writes that `begin` begins: what is to be copied where, and the counters.
fn seen(begin: impl Fn(&Host, u64, u64) -> WriteToken) -> (Vec<(u64, usize)>, String) {
    let mut host = Host::new(&small(2, &[2]));
    host.populate(0, 0);
    // Whole blocks, a part of one, one of a fragment that is not in the cache, and one over the edge.
    let requests = [(0, BLOCK), (8 * BLOCK, 3 * BLOCK + 512), (31 * BLOCK, 2 * BLOCK), (40 * BLOCK, BLOCK)];
    let mut copies = Vec::new();
    for (offset, bytes) in requests {
        let token = begin(&host, offset, bytes);
        host.cache.write_end(token, Ok(()));
        assert_ne!(host.kind(0, offset, BLOCK), ReadKind::Hit, "{offset}: it is on its way");
        while host.statistics().copy_blocks_used > 0 {
            let job = host.copy();
            let Job::WriteBlocks(write) = &job else { panic!("a copy is one of blocks") };
            copies.extend(write.writes().map(|(at, bytes)| (at, bytes.len())));
            host.cache.done(job, Ok(()));
        }
    }
    host.cache.check();
    (copies, format!("{:?}", host.statistics()))
}

#[test]
fn a_write_without_data_is_like_one_with() {
    let hollow = seen(|host, offset, bytes| host.cache.write_begin_hollow(0, offset, bytes).unwrap());
    let full =
        seen(|host, offset, bytes| host.cache.write_begin(0, offset, &vec![0; bytes as usize]).unwrap());
    assert_eq!(hollow, full);
    assert_eq!(hollow.0, [(0, 4096), (8 * 4096, 3 * 4096), (31 * 4096, 4096)]);
}

#[test]
fn a_write_without_data_lies_in_its_volume() {
    let host = Host::new(&small(2, &[2]));
    let refused = host.cache.write_begin_hollow(0, 64 * BLOCK, 1).unwrap_err().to_string();
    assert!(refused.contains("end behind its 262144 bytes"), "{refused}");
}
