//! A cache that gets another size while it is not open, with a power cut at any operation; and one that is
//! open and shrinks beside a write that does not come to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use mezzanine_cached::{CachedErrorKind, Settings, read_superblocks, resize_at_rest};
use mezzanine_device::{Device, MemoryDevice};

use crate::held::{IfItFails, Shared, Sticky, Stubborn, wait};
use crate::life::{self, BLOCK, Devices, FRAGMENT, FRAGMENTS, Opened, SLOTS, VOLUMES};

/// A cache on a device that may lose its power, and disks.
struct World {
    flash: Arc<MemoryDevice>,
    devices: Devices,
}

impl World {
    fn new() -> World {
        let flash = Arc::new(MemoryDevice::new(life::cache_bytes()));
        let disk = |volume: usize| -> Arc<dyn Device> {
            let disk = MemoryDevice::new(FRAGMENTS * FRAGMENT);
            for block in 0..FRAGMENTS * life::BLOCKS {
                disk.write_at(&version(volume, block).to_le_bytes(), block * BLOCK).unwrap();
            }
            Arc::new(disk)
        };
        let disks = (0..VOLUMES).map(disk).collect();
        let devices = Devices { flash: Arc::clone(&flash) as _, disks, settings: Settings::default() };
        life::make(&*flash);
        World { flash, devices }
    }

    fn open(&self, number: u64) -> Opened {
        let opened = life::open(&self.devices, number, |_| true, |_| Box::new(Shared(Arc::default())));
        opened.check(&self.devices, None, "opened");
        opened
    }

    /// Has so many fragments in the cache, and closes it.
    fn fill(&self, number: u64, fragments: u64) {
        let opened = self.open(number);
        fill(&opened, fragments);
        assert!(opened.cache.close(Duration::from_secs(60), |_| true).is_whole);
    }

    fn size(&self) -> u64 {
        read_superblocks(&*self.flash).unwrap().newest.slots_limit
    }

    fn resize(&self, slots: u64) -> Result<(), mezzanine_cached::CachedError> {
        let found = read_superblocks(&*self.flash).unwrap();
        let bytes = found.newest.layout.end_of(slots);
        resize_at_rest(&*self.flash, &found, bytes).map(|_| ())
    }
}

/// What a block of a disk begins with.
fn version(volume: usize, block: u64) -> u64 {
    ((1 + volume as u64) << 32) | block
}

fn fill(opened: &Opened, fragments: u64) {
    let all = (0..FRAGMENTS).flat_map(|fragment| [(0, fragment), (1, fragment)]);
    let all: Vec<(usize, u64)> = all.take(fragments as usize).collect();
    wait("a full cache", || {
        for &(volume, fragment) in &all {
            opened.volumes[volume].read_at(&mut [0; BLOCK as usize], fragment * FRAGMENT).unwrap();
        }
        // A slot is used from the beginning of a population on, which the end of the cache ends.
        let found = opened.cache.statistics().engine;
        let ended = found.populations_done + found.populations_aborted + found.populations_failed;
        found.slots_used == fragments && ended == found.populations_begun
    });
}

/// Of the old size or of the new one, whatever is cut and whenever; and with the records behind the smaller
/// one gone if it is the new one, however it grows afterwards.
#[test]
fn a_power_cut_leaves_a_cache_at_rest_with_one_size_or_the_other() {
    let (small, mut seen) = (SLOTS / 2, [0; 2]);
    for (from, to) in [(SLOTS, small), (small, SLOTS)] {
        for (number, operations) in (1..).enumerate() {
            let world = World::new();
            world.resize(from).unwrap();
            world.fill(1, from);
            let found = read_superblocks(&*world.flash).unwrap();
            world.flash.power().crash_after(operations);
            let done = resize_at_rest(&*world.flash, &found, found.newest.layout.end_of(to));
            world.flash.power_cut(number as u64);
            world.flash.power().restore();
            let size = world.size();
            assert!(size == from || size == to, "{from} to {to}, {operations} operations: {size}");
            seen[usize::from(size == to)] += 1;
            if size == small && from == SLOTS {
                // Whoever has the room behind it meanwhile writes there.
                let behind = world.flash.len() - (SLOTS - small) * FRAGMENT;
                world.flash.write_at(&vec![0xEE; ((SLOTS - small) * FRAGMENT) as usize], behind).unwrap();
                world.resize(SLOTS).unwrap();
            }
            let opened = world.open(2);
            let found = opened.found;
            assert_eq!((found.lost, found.behind_limit), (0, 0), "{found:?}");
            // What has been erased before the cut is all that is lost.
            assert!(found.fragments >= from.min(to) && found.fragments <= from, "{from} to {to}: {found:?}");
            fill(&opened, if from == SLOTS && size == small { SLOTS } else { size });
            opened.check(&world.devices, None, "filled");
            if done.is_ok() {
                assert_eq!(size, to);
                break;
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 1), "{seen:?}");
}

/// What was shrunk and is opened, and has grown again, has none of what lay behind its end.
#[test]
fn what_lay_behind_a_size_does_not_come_back() {
    let world = World::new();
    world.fill(1, SLOTS);
    world.resize(SLOTS / 4).unwrap();
    let opened = world.open(2);
    assert_eq!((opened.found.fragments, opened.found.behind_limit), (SLOTS / 4, 0));
    // Nothing of these is marked: they are not in the cache.
    for volume in &opened.volumes {
        (0..FRAGMENTS)
            .for_each(|fragment| volume.write_at(&[7; BLOCK as usize], fragment * FRAGMENT).unwrap());
    }
    assert!(opened.cache.close(Duration::from_secs(60), |_| true).is_whole);
    drop(opened);
    world.resize(SLOTS).unwrap();
    let opened = world.open(3);
    assert_eq!(opened.found.fragments, SLOTS / 4);
    fill(&opened, SLOTS);
    opened.check(&world.devices, None, "grown again");
}

#[test]
fn what_cannot_be_the_size_changes_nothing() {
    let mut world = World::new();
    world.fill(1, SLOTS);
    for slots in [0, SLOTS + 1] {
        assert_eq!(world.resize(slots).unwrap_err().kind(), CachedErrorKind::Size);
    }
    // A device that was cut off has room for a smaller cache, whose fragments are all there, and no larger
    // one.
    let image = world.flash.image();
    let shorter = &image[..image.len() - FRAGMENT as usize];
    world.flash = Arc::new(MemoryDevice::new(shorter.len() as u64));
    world.flash.write_at(shorter, 0).unwrap();
    world.devices.flash = Arc::clone(&world.flash) as _;
    world.resize(SLOTS - 1).unwrap();
    let opened = world.open(2);
    assert_eq!(opened.found.fragments, SLOTS - 1);
    let failed = opened.cache.resize(SLOTS as u32, Duration::ZERO, |_| true).unwrap_err();
    assert_eq!((failed.kind(), world.size()), (CachedErrorKind::Length, SLOTS - 1));
    assert!(failed.to_string().contains("make the device larger"), "{failed}");
    assert_eq!(opened.cache.engine().slots_limit(), SLOTS as u32 - 1);
}

/// A cache that shrinks waits for the device as long as it is told to, and says what is left.
#[test]
fn what_does_not_leave_in_time_is_said_and_leaves_later() {
    let flash = Sticky::new(life::cache_bytes());
    let disks = (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT)) as _).collect();
    let settings = Settings { mark_within: Duration::from_secs(600), ..Settings::default() };
    let devices = Devices { flash: Arc::clone(&flash) as _, disks, settings };
    life::make(&*flash);
    let voucher = Arc::new(Stubborn::default());
    let opened = life::open(&devices, 1, |_| false, |_| Box::new(Shared(Arc::clone(&voucher))));
    fill(&opened, SLOTS);
    wait("settled fragments", || opened.cache.statistics().engine.unstable == 0);
    let _failed = IfItFails(|| flash.hold(false));
    flash.hold(true);
    // None leaves before its record says so, which the device does not take.
    let (mut told, half) = (Vec::new(), SLOTS / 2);
    let resized = opened.cache.resize(half as u32, Duration::from_secs(600), |left| {
        told.push(left);
        // Who has no more patience is not kept.
        told.len() < 3
    });
    let resized = resized.unwrap();
    assert_eq!((resized.fragments_left, resized.is_done), (half, false));
    assert_eq!(told, [half; 3]);
    let late = opened.cache.resize(half as u32, Duration::ZERO, |_| panic!("there is no time to go on"));
    assert_eq!(late.map(|late| (late.fragments_left, late.is_done)).unwrap(), (half, false));
    thread::scope(|scope| {
        let _failed = IfItFails(|| flash.hold(false));
        let again = scope.spawn(|| opened.cache.resize(half as u32, Duration::from_secs(100), |_| true));
        flash.hold(false);
        assert_eq!(again.join().unwrap().unwrap().fragments_left, 0);
    });
    let found = opened.cache.statistics().engine;
    assert_eq!((found.slots, found.slots_used, found.fragments_shrunk), (half, half, half));
    opened.check(&devices, None, "shrunk");
}

/// Giving room back is part of what is waited for, so it ends when the time is up.
#[test]
fn room_is_given_back_while_there_is_time() {
    let flash = Sticky::new(life::cache_bytes());
    let disks = (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT)) as _).collect();
    let devices = Devices { flash: Arc::clone(&flash) as _, disks, settings: Settings::default() };
    life::make(&*flash);
    let opened = life::open(&devices, 1, |_| false, |_| Box::new(Shared(Arc::default())));
    let (half, room) = (SLOTS / 2, SLOTS / 2 * FRAGMENT);
    let resized = |within| {
        let resized = opened.cache.resize(half as u32, within, |_| true).unwrap();
        (resized.is_done, resized.not_given_back, flash.discarded.load(SeqCst))
    };
    assert_eq!(resized(Duration::from_secs(100)), (true, 0, room));
    assert_eq!(resized(Duration::ZERO), (true, room, room));
    assert_eq!(resized(Duration::from_secs(100)), (true, 0, 2 * room));
}
