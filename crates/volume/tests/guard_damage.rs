//! One byte of a file's first sector rots, or the sector cannot be read: what it costs, by how the file was
//! left and by where its first page is.
//!
//! Under a guard the disk has none of the file's bytes there, so a rotten one costs nothing. It was so that a
//! guard with one bit that was another was none: the file was refused for good as a replaced one, and where a
//! crash had left the guard over a header that was in the sidecar alone, the header was dropped. Where no
//! guard stands, a rotten byte costs what it costs without a tier.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::one_file::{PAGES, durable, go_round, read, write};
use common::{Backing, PAGE, formatted, open, page, through};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, GUARD_NAME_BYTES, SidecarStore, VolumeConfig, VolumeErrorKind, VolumeState};

const SECTOR: usize = 512;

/// How the file was left, each of its pages in version 2.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    ByACrash,
    Closed,
    /// Everything is on disk, but the head is in the sidecar and the guard in its place.
    UnderItsGuard,
    /// The flash device failed: everything is on disk.
    GivenUp,
    /// The device failed, and then the power, when everything was on disk but the head.
    HalfGivenUp,
    /// The tier held clean pages only, and was closed.
    Through,
}

impl Left {
    const ALL: [Self; 6] =
        [Self::ByACrash, Self::Closed, Self::UnderItsGuard, Self::GivenUp, Self::HalfGivenUp, Self::Through];

    fn is_guarded(self) -> bool {
        !matches!(self, Self::GivenUp | Self::Through)
    }

    fn is_dirty(self) -> bool {
        matches!(self, Self::ByACrash | Self::Closed)
    }

    fn config(self) -> VolumeConfig {
        if self == Self::Through { through() } else { durable(Design::FaceGsc) }
    }
}

/// What outlives a volume.
struct Remains {
    left: Left,
    flash: Vec<u8>,
    disk: Vec<u8>,
    sidecar: Option<Vec<u8>>,
    guard_len: usize,
}

/// What a sidecar says, as somebody reads it who opens it with an editor.
fn field(sidecar: &[u8], name: &str) -> String {
    let text = std::str::from_utf8(sidecar).unwrap();
    let mut fields = text.lines().filter_map(|line| line.split_once(' '));
    fields.find(|(field, _)| *field == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
}

fn fails(device: &MemoryDevice, after: u64) {
    let fault = Fault::Error(DeviceErrorKind::Io);
    device.inject(Injection { operation: Operation::Write, after, count: u64::MAX, fault });
}

/// A file that was left so; `on_flash` if the newest version of its first page is there, and not only on
/// disk.
fn remains(left: Left, on_flash: bool) -> Remains {
    let config = left.config();
    let (flash, backing) = (formatted(&config), Backing::guarded("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..PAGES).for_each(|block| write(&file, block, 1));
    volume.drain().unwrap();
    (0..PAGES).for_each(|block| write(&file, block, 2));
    file.sync().unwrap();
    if !on_flash {
        go_round(&file, &volume, 8).unwrap();
        assert_eq!(volume.statistics().page_misses, 0);
        assert!(read(&file, 0) == Ok(page(0, 2)));
        assert_eq!(volume.statistics().page_misses, 1, "the first page is on disk alone");
        // What a miss brings may enter the tier.
        go_round(&file, &volume, 8).unwrap();
    }
    match left {
        Left::ByACrash => {}
        Left::Closed | Left::Through => volume.close().unwrap(),
        Left::UnderItsGuard => {
            volume.drain().unwrap();
            fails(&backing.disk, 0);
            volume.close_drained().unwrap_err();
            backing.disk.heal();
        }
        Left::GivenUp | Left::HalfGivenUp => {
            volume.drain().unwrap();
            if left == Left::HalfGivenUp {
                // The page goes to disk, and the head does not.
                fails(&backing.disk, 1);
            }
            fails(&flash, 0);
            let written = file.write_at(&page(PAGES - 1, 2), (PAGES - 1) * PAGE as u64);
            let _ = written.and_then(|()| file.sync());
            assert_ne!(volume.state(), VolumeState::Ok);
            backing.disk.heal();
            flash.heal();
        }
    }
    let sidecar = backing.sidecar.read().unwrap();
    drop((file, volume));
    flash.power_cut(1);
    backing.disk.power_cut(1);
    let guard = backing.guard.clone().unwrap().bytes;
    let disk = backing.disk.image();
    assert_eq!(disk.starts_with(&guard), left.is_guarded(), "{left:?}");
    let said = sidecar.as_deref().map(|bytes| field(bytes, "state"));
    assert_eq!(said.as_deref() == Some("dirty"), left.is_dirty(), "{left:?}: {said:?}");
    Remains { left, flash: flash.image(), disk, sidecar, guard_len: guard.len() + GUARD_NAME_BYTES }
}

impl Remains {
    fn put_back(&self) -> (Arc<MemoryDevice>, Backing) {
        let flash = Arc::new(MemoryDevice::new(self.flash.len() as u64));
        flash.load(&self.flash);
        let backing = Backing::guarded("a");
        backing.disk.load(&self.disk);
        if let Some(bytes) = &self.sidecar {
            backing.sidecar.replace(bytes).unwrap();
        }
        (flash, backing)
    }

    /// Whether every page is right: read through the volume, and on disk when it was drained. Where no guard
    /// stands the byte at `rotten` may be another.
    fn is_whole(&self, flash: &Arc<MemoryDevice>, backing: &Backing, rotten: usize) -> bool {
        let volume = open(flash, &self.left.config());
        let Ok(file) = backing.attach(&volume) else { return false };
        let mut right = (0..PAGES).all(|block| match read(&file, block) {
            Ok(found) => self.is_right(block, found, rotten),
            Err(_) => false,
        });
        right &= volume.close_drained().is_ok() && backing.sidecar.read().unwrap().is_none();
        let disk = backing.disk.image();
        let on_disk = |block: u64| disk[block as usize * PAGE..][..PAGE].to_vec();
        right && (0..PAGES).all(|block| self.is_right(block, on_disk(block), rotten))
    }

    fn is_right(&self, block: u64, mut found: Vec<u8>, rotten: usize) -> bool {
        let should = page(block, 2);
        if block == 0 && !self.left.is_guarded() {
            found[rotten] = should[rotten];
        }
        found == should
    }

    /// Whether a rotten byte there may have made the guard another file's: it makes the number in it one of
    /// those that the tier may have given.
    fn names_another_file(&self, at: usize, bit: u32) -> bool {
        let number_at = self.guard_len - 4;
        if !self.left.is_guarded() || !(number_at..self.guard_len).contains(&at) {
            return false;
        }
        let mut bytes: [u8; 4] = self.disk[number_at..self.guard_len].try_into().unwrap();
        let number = u32::from_le_bytes(bytes);
        bytes[at - number_at] ^= 1 << bit;
        u32::from_le_bytes(bytes) < number.next_power_of_two()
    }
}

/// Every byte of the guard, and some of what is behind it, in the sector and in the page.
fn places(guard_len: usize) -> impl Iterator<Item = usize> {
    (0..guard_len).chain((guard_len..SECTOR).step_by(61)).chain([SECTOR - 1])
}

/// Is the file whole with each of these bytes rotten, one at a time?
fn rots(remains: &Remains, places: impl Iterator<Item = usize>) -> bool {
    places.into_iter().all(|at| {
        let bit = at as u32 % 8;
        let (flash, backing) = remains.put_back();
        backing.disk.flip_bit((at * 8) as u64 + u64::from(bit));
        if !remains.names_another_file(at, bit) {
            return remains.is_whole(&flash, &backing, at);
        }
        // Refused with a way out, and nothing is lost by the try.
        let refused = backing.attach(&open(&flash, &remains.left.config())).unwrap_err();
        assert_eq!(refused.kind(), VolumeErrorKind::ChangedFile);
        assert!(refused.to_string().contains("calls `guard`") || !remains.left.is_dirty(), "{refused}");
        backing.disk.flip_bit((at * 8) as u64 + u64::from(bit));
        remains.is_whole(&flash, &backing, at)
    })
}

#[test]
fn a_rotten_byte_costs_at_most_itself() {
    for left in Left::ALL {
        for on_flash in [true, false] {
            let remains = remains(left, on_flash);
            for at in places(remains.guard_len) {
                assert!(rots(&remains, [at].into_iter()), "left {left:?}, on flash: {on_flash}, byte {at}");
            }
        }
    }
    for left in [Left::ByACrash, Left::Closed, Left::UnderItsGuard, Left::HalfGivenUp] {
        let remains = remains(left, true);
        for at in [3, remains.guard_len - GUARD_NAME_BYTES + 5] {
            only_with(&[Bug::RottenGuardMissed], || rots(&remains, [at].into_iter()));
        }
    }
}

/// A file with a rotten guard is used and closed, and then another byte rots.
fn rots_again(left: Left) -> bool {
    let remains = remains(left, false);
    let (flash, backing) = remains.put_back();
    for at in [3, 9] {
        backing.disk.flip_bit(at * 8);
        let volume = open(&flash, &left.config());
        let Ok(file) = backing.attach(&volume) else { return false };
        write(&file, 1, 2);
        volume.close().unwrap();
    }
    remains.is_whole(&flash, &backing, 0)
}

#[test]
fn a_rotten_guard_is_written_anew() {
    assert!(rots_again(Left::UnderItsGuard));
    for left in [Left::ByACrash, Left::Closed] {
        only_with(&[Bug::RottenGuardLeft], || rots_again(left));
    }
}

/// Two files of one tier change their disks, and their guards differ in one byte.
fn changed_places_are_refused() -> bool {
    let config = durable(Design::FaceGsc);
    let flash = formatted(&config);
    let files = [Backing::guarded("a"), Backing::guarded("b")];
    let volume = open(&flash, &config);
    for (version, backing) in (1..).zip(&files) {
        write(&backing.attach(&volume).unwrap(), 3, version);
    }
    volume.close().unwrap();
    let images = files.each_ref().map(|backing| backing.disk.image());
    let others = images[0].iter().zip(&images[1]).filter(|(a, b)| a != b);
    assert_eq!(others.count(), 1);
    files[0].disk.load(&images[1]);
    files[1].disk.load(&images[0]);
    let volume = open(&flash, &config);
    files.iter().all(|backing| {
        backing.attach(&volume).is_err_and(|error| error.kind() == VolumeErrorKind::ChangedFile)
    })
}

#[test]
fn another_files_guard_is_no_rotten_one() {
    only_with(&[Bug::OtherGuardTakenForRotten], changed_places_are_refused);
}

/// The error says which file, where and what to do; what it says is done, and the file is whole.
fn unreadable_is_named(left: Left, on_flash: bool) -> bool {
    let remains = remains(left, on_flash);
    let (flash, backing) = remains.put_back();
    backing.disk.spoil(0, SECTOR as u64, Bad::Unreadable);
    let before = (flash.image(), backing.sidecar.read().unwrap());
    let error = backing.attach(&open(&flash, &left.config())).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Io, "{left:?}");
    assert!((flash.image(), backing.sidecar.read().unwrap()) == before, "{left:?}: something changed");
    let text = error.to_string();
    let digits = remains.sidecar.as_deref().map(|bytes| field(bytes, "guard"));
    let guard = digits.filter(|digits| !digits.is_empty()).map(|digits| hex::decode(&digits).unwrap());
    assert_eq!(guard.is_some(), left.is_guarded(), "{left:?}");
    // The copy has nothing where nothing could be read.
    let (flash, copy) = remains.put_back();
    let mut image = remains.disk.clone();
    image[..SECTOR].fill(0);
    let named = match guard {
        Some(guard) => {
            image[..guard.len()].copy_from_slice(&guard);
            text.contains("calls `guard`") && text.contains("test.mezzanine")
        }
        None => {
            image[..SECTOR].copy_from_slice(&page(0, 2)[..SECTOR]);
            text.contains("own header from a backup")
        }
    };
    copy.disk.load(&image);
    assert!(remains.is_whole(&flash, &copy, 0), "{left:?}: what the error advises does not help");
    named && text.contains("attach a at offset 0: ")
}

#[test]
fn a_sector_that_cannot_be_read_is_named_with_a_way_out() {
    for left in Left::ALL {
        for on_flash in [true, false] {
            assert!(unreadable_is_named(left, on_flash), "{left:?}, on flash: {on_flash}");
        }
    }
    only_with(&[Bug::UnreadGuardUnnamed], || unreadable_is_named(Left::Closed, true));
    only_with(&[Bug::UnreadGuardUnnamed], || unreadable_is_named(Left::GivenUp, true));
}

/// The sector goes bad while the file is in use: it costs reads of the first page from disk, until the page
/// is written or the file leaves the tier, and nothing else. The error says so.
fn bad_in_use_costs_one_page(on_flash: bool) -> bool {
    let remains = remains(Left::Closed, on_flash);
    let (flash, backing) = remains.put_back();
    let volume = open(&flash, &remains.left.config());
    let file = backing.attach(&volume).unwrap();
    backing.disk.spoil(0, SECTOR as u64, Bad::UnreadableUntilWritten);
    let mut first = vec![0; PAGE];
    let mut all = vec![0; PAGES as usize * PAGE];
    let together = file.read_at(&mut all, 0);
    let named = match (file.read_at(&mut first, 0), on_flash) {
        (Ok(()), true) => first == page(0, 2) && together.is_ok(),
        (Err(error), false) => [error, together.unwrap_err()].iter().all(|error| {
            let text = error.to_string();
            text.contains("read a at offset 0: ") && text.contains("drain and close the tier")
        }),
        _ => false,
    };
    (1..PAGES).for_each(|block| assert!(read(&file, block) == Ok(page(block, 2))));
    write(&file, 5, 3);
    write(&file, 5, 2);
    volume.close_drained().unwrap();
    named && backing.disk.inspect(|disk| disk[..PAGE] == page(0, 2))
}

#[test]
fn a_sector_that_goes_bad_in_use_costs_no_other_page_and_no_writing() {
    assert!(bad_in_use_costs_one_page(true));
    only_with(&[Bug::UnreadGuardUnnamed], || bad_in_use_costs_one_page(false));
}

/// No guard stands yet, and the place goes bad that one is to stand for: the file is read as before, and the
/// error of the first change says where it failed and what to do.
fn unread_header_is_named() -> bool {
    let remains = remains(Left::GivenUp, false);
    let (flash, backing) = remains.put_back();
    let volume = open(&flash, &remains.left.config());
    let file = backing.attach(&volume).unwrap();
    backing.disk.spoil(0, SECTOR as u64, Bad::Unreadable);
    let text = file.write_at(&page(5, 2), 5 * PAGE as u64).unwrap_err().to_string();
    (1..PAGES).for_each(|block| assert!(read(&file, block) == Ok(page(block, 2))));
    backing.disk.heal();
    write(&file, 5, 2);
    drop((file, volume));
    assert!(remains.is_whole(&flash, &backing, 0));
    text.contains("guard the header of a at offset 0: ") && text.contains("see to the disk and try again")
}

#[test]
fn a_header_that_cannot_be_read_is_named_and_nothing_is_changed() {
    assert!(unread_header_is_named());
}
