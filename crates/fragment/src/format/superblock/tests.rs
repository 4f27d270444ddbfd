#![allow(clippy::unwrap_used)]

use mezzanine_ground::random::Random;

use super::*;

fn resealed(mut bytes: Vec<u8>, volumes: usize) -> Vec<u8> {
    let checksum = checksum(&bytes[..HEADER_BYTES + volumes * ENTRY_BYTES]);
    put_at(&mut bytes, CHECKSUM_AT, checksum);
    bytes
}

#[test]
fn what_is_written_is_read() {
    let superblock = Superblock::example();
    let bytes = superblock.encode();
    assert_eq!(bytes.len(), 8192);
    assert_eq!(Superblock::decode(&bytes), Ok(superblock.clone()));
    let full = Superblock {
        volumes: (1..=1024).map(VolumeEntry::example).collect(),
        next_volume: 1025,
        ..superblock
    };
    // Of so many volumes the last are of a thousand gibibytes each.
    let bytes = full.encode();
    assert_eq!(bytes.len(), SUPERBLOCK_BYTES_MAX.next_multiple_of(4096));
    assert!(bytes.len() as u64 <= SUPERBLOCK_OFFSETS[1]);
    assert!(Superblock::decode(&bytes) == Ok(full));
}

#[test]
fn every_damaged_bit_is_noticed() {
    let superblock = Superblock::example();
    let bytes = superblock.encode();
    let used = HEADER_BYTES + 3 * ENTRY_BYTES;
    for at in 0..used {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(Superblock::decode(&damaged).is_err(), "byte {at}");
    }
    for length in (0..used).step_by(97) {
        assert!(Superblock::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
}

/// Bytes that somebody has sealed: any error will do, or a superblock that is written as it was read.
#[test]
fn hostile_bytes_never_panic() {
    let mut random = Random::new(1);
    let bytes = Superblock::example().encode();
    let mut accepted = 0;
    for _ in 0..30_000 {
        let mut hostile = bytes.clone();
        for _ in 0..random.between(1, 3) {
            let at = match random.below(3) {
                0 => random.below(176),
                1 => HEADER_BYTES as u64 + random.below(3 * ENTRY_BYTES as u64),
                _ => 48 + random.below(52),
            } as usize;
            let any = random.below(256) as u8;
            hostile[at] = *random.pick(&[0, 1, 0x7F, 0xFF, any]);
        }
        let volumes = field_at::<u32>(&hostile, COUNT_AT).min(5) as usize;
        let hostile = resealed(hostile, volumes);
        if let Ok(read) = Superblock::decode(&hostile) {
            assert_eq!(Superblock::decode(&read.encode()), Ok(read.clone()));
            let _ = read.opened().encode();
            accepted += 1;
        }
    }
    assert!(accepted > 1000, "{accepted} were accepted: identities and what is the host's may be anything");
}

#[test]
fn errors_name_the_field() {
    let said = |change: &dyn Fn(&mut Superblock)| {
        let mut superblock = Superblock::example();
        change(&mut superblock);
        Superblock::decode(&superblock.encode()).unwrap_err().to_string()
    };
    let cases = [
        (said(&|s| s.sequence = u64::MAX), "damaged: sequence number: 18446744073709551615 is beyond"),
        (said(&|s| s.epoch = 1 << 32), "damaged: epoch: 4294967296 is beyond"),
        (said(&|s| s.layout.fragment_bytes = 5), "damaged: fragment_bytes: 5 is not a power of two"),
        (said(&|s| s.layout.cache_bytes = 5), "damaged: cache_bytes: 5 bytes have no room"),
        (said(&|s| s.layout.slots += 1), "damaged: slots: it is 1048512, and 1048511 by the sizes"),
        (said(&|s| s.slots_limit += 1), "damaged: slots in use: 1048512 are more than the 1048511 slots"),
        (said(&|s| s.layout.map_bytes = 0), "damaged: length of the map: it is 0, and"),
        (said(&|s| s.next_volume = 3), "damaged: volume number: 3 of volume volume-3 was not given yet"),
        (said(&|s| s.volumes[0].number = 0), "damaged: volume number: it is 0"),
        (said(&|s| s.volumes[1].number = 1), "damaged: volume id or number: volume volume-2 has that of"),
        (said(&|s| s.volumes[0].bytes = 7), "damaged: volume size: volume volume-1 has 7 bytes"),
        (said(&|s| s.volumes[0].bytes = u64::MAX), "damaged: volumes: 17592186"),
        (said(&|s| s.volumes[0].name = "a\nb".into()), "damaged: volume name: 'a\\nb' is not 1 to 64"),
    ];
    for (said, wanted) in cases {
        assert!(said.starts_with(wanted), "{said}\n{wanted}");
    }
    let mut newer = Superblock::example().encode();
    put_at(&mut newer, VERSION_AT, 2u32);
    assert_eq!(Superblock::decode(&resealed(newer.clone(), 3)), Err(FormatError::NewerFormat(2)));
    assert!(matches!(Superblock::decode(&newer), Err(FormatError::Damaged { field: "checksum", .. })));
    assert_eq!(Superblock::decode(&[0; 8192]), Err(FormatError::Unrecognised));
}

#[test]
fn the_newer_whole_copy_counts() {
    let old = Superblock::example();
    let new = old.opened();
    let (old_bytes, new_bytes) = (old.encode(), new.encode());
    let found = |first: Option<&[u8]>, second: Option<&[u8]>| {
        Superblocks::read([first, second]).map(|found| (found.newest.sequence, found.write_first))
    };
    assert_eq!(found(Some(&old_bytes), Some(&new_bytes)), Ok((10, 0)));
    assert_eq!(found(Some(&new_bytes), Some(&old_bytes)), Ok((10, 1)));
    assert_eq!(found(Some(&old_bytes), Some(&old_bytes)), Ok((9, 1)));
    assert_eq!(found(None, Some(&old_bytes)), Ok((9, 0)));
    // Torn by a power cut: sectors of the newer one over the older.
    let mut torn = old_bytes.clone();
    torn[..512].copy_from_slice(&new_bytes[..512]);
    assert_eq!(found(Some(&torn), Some(&old_bytes)), Ok((9, 0)));
    assert_eq!(found(Some(&torn), None), Err(FormatError::Unreadable));
    assert_eq!(found(Some(&[0; 8192]), Some(&[1; 8192])), Err(FormatError::Unrecognised));
    let mut newer = new_bytes.clone();
    put_at(&mut newer, VERSION_AT, 2u32);
    assert_eq!(found(Some(&resealed(newer, 3)), Some(&old_bytes)), Err(FormatError::NewerFormat(2)));
}

#[test]
fn volumes_come_and_go_under_numbers_of_their_own() {
    let empty = Superblock::new([1; 16], 64 << 20, 1 << 20).unwrap();
    assert_eq!(Superblock::decode(&empty.encode()), Ok(empty.clone()));
    let one = empty.with_volume([5; 16], "one", 8 << 20, [0; 64]).unwrap();
    let two = one.with_volume([6; 16], "two", 4 << 20, [0; 64]).unwrap();
    assert_eq!(two.config().volumes, [8 << 20, 4 << 20]);
    let geometry = two.config().geometry().unwrap();
    assert_eq!(
        (geometry.data_offset(), u64::from(geometry.slots())),
        (two.layout.data_offset, two.layout.slots)
    );
    assert!(two.with_volume([6; 16], "three", 4 << 20, [0; 64]).unwrap_err().to_string().contains("detach"));
    assert!(two.with_volume([7; 16], "", 4 << 20, [0; 64]).is_err());
    let again = two.without_volume(&[5; 16]).unwrap().with_volume([5; 16], "one", 8 << 20, [0; 64]).unwrap();
    let numbers: Vec<u32> = again.volumes.iter().map(|volume| volume.number).collect();
    assert_eq!((numbers, again.sequence), (vec![2, 3], 5));
    assert_eq!(again.without_volume(&[9; 16]), None);
    let anew = again.reattached(&[6; 16]).or_else(|| again.reattached(&again.volumes[0].id)).unwrap();
    let numbers: Vec<u32> = anew.volumes.iter().map(|volume| volume.number).collect();
    assert_eq!((numbers, anew.next_volume, anew.sequence), (vec![4, 3], 5, 6), "its place stays");
    assert_eq!(again.reattached(&[9; 16]), None);
    let anew = again.opened().reinitialised([2; 16]);
    assert_eq!((anew.epoch, anew.sequence, anew.volumes.len()), (0, 7, 2));
}

#[test]
fn a_size_stands_in_the_superblock_and_a_volume_of_another_length_begins_anew() {
    let all = Superblock::example();
    assert_eq!(all.size(), 1 << 40);
    let third = all.resized(all.layout.end_of(3) + 4096).unwrap();
    assert_eq!((third.slots_limit, third.size(), third.sequence), (3, all.layout.end_of(3), 10));
    assert_eq!(Superblock::decode(&third.encode()), Ok(third.clone()));
    assert_eq!(third.config().geometry().unwrap().slots_limit(), 3);
    assert_eq!(third.resized(1 << 40).unwrap().slots_limit, all.slots_limit);
    // A build that knew one size alone has written zeros there.
    let mut older = third.encode();
    put_at(&mut older, 168, 0u64);
    let older = Superblock::decode(&resealed(older, 3)).unwrap();
    assert_eq!(older, Superblock { slots_limit: all.slots_limit, ..third.clone() });
    let (id, number) = (third.volumes[1].id, third.volumes[1].number);
    let grown = third.reattached_with(&id, 1 << 31).unwrap().unwrap();
    assert_eq!((grown.volumes[1].bytes, grown.volumes[1].number), (1 << 31, third.next_volume));
    assert!(grown.volumes[1].number != number && grown.next_volume == third.next_volume + 1);
    assert_eq!(third.reattached_with(&[99; 16], 1 << 31), Ok(None));
    assert!(third.reattached_with(&id, u64::MAX).is_err());
}

/// Power fails at any moment while a superblock is written: any sectors of the copy that is under way are
/// new. The old one counts or the new one, and from the first flush on the new one.
#[test]
fn a_change_has_happened_or_not() {
    let mut random = Random::new(2);
    let start = Superblock::example();
    let mut places = [start.encode(), start.encode()];
    let mut sequence = start.sequence;
    for change in 0..2000u32 {
        let found = Superblocks::read([Some(&places[0]), Some(&places[1])]).unwrap();
        assert_eq!(found.newest.sequence, sequence);
        let new = match change % 3 {
            0 => found.newest.opened(),
            1 => found.newest.reinitialised(u128::from(change).to_le_bytes()),
            _ => found.newest.without_volume(&[9; 16]).unwrap_or_else(|| found.newest.opened()),
        };
        let bytes = new.encode();
        let steps = random.below(3);
        for step in 0..=steps {
            let place = if step == 0 { found.write_first } else { 1 - found.write_first };
            let is_cut = step == steps;
            for (old, new) in places[place].chunks_exact_mut(512).zip(bytes.chunks_exact(512)) {
                if step < 2 && (!is_cut || random.chance(1, 2)) {
                    old.copy_from_slice(new);
                }
            }
        }
        let read = Superblocks::read([Some(&places[0]), Some(&places[1])]).unwrap();
        let is_new = read.newest == new;
        assert!(is_new || (steps == 0 && read.newest == found.newest), "change {change}, step {steps}");
        sequence = read.newest.sequence;
    }
}
