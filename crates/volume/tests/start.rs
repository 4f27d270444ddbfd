//! The start of an opening: what changes nothing writes and syncs nothing, and what comes before the first
//! change.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::one_file::{WRITE_BACK, read, write};
use common::{Backing, PAGE, durable, every_configuration, formatted, one_file, open, page, through};
use mezzanine_device::memory::{Bad, Fate, Fault, Injection, MemoryDevice, Operation, Survival};
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{
    AttachOptions, SidecarStore, TierConfig, Volume, VolumeConfig, VolumeErrorKind, VolumeFile, VolumeState,
};

/// A device that counts everything but reads; and those by how often it was waited for.
struct Watched {
    device: Arc<MemoryDevice>,
    touched: AtomicU64,
    waits: AtomicU64,
}

impl Watched {
    fn over(device: &Arc<MemoryDevice>) -> Arc<Self> {
        Arc::new(Self { device: Arc::clone(device), touched: AtomicU64::new(0), waits: AtomicU64::new(0) })
    }

    fn touched(&self) -> u64 {
        self.touched.load(Ordering::SeqCst)
    }

    fn see(&self, request: &Request<'_>) {
        self.touched.fetch_add(u64::from(!matches!(request, Request::Read { .. })), Ordering::SeqCst);
    }
}

impl Device for Watched {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }
    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        batch.iter().for_each(|request| self.see(request));
        self.device.run(batch)
    }
    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        self.see(&request);
        self.device.run_one(request)
    }
    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.touched.fetch_add(1, Ordering::SeqCst);
        self.device.set_len(len)
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}

const PAGES: u64 = 12;

/// A tier with two files.
struct Machine {
    config: VolumeConfig,
    flash: Arc<MemoryDevice>,
    files: [Backing; 2],
}

impl Machine {
    fn new(config: &VolumeConfig) -> Self {
        let files = [Backing::guarded("a"), Backing::new("b")];
        Self { config: config.clone(), flash: formatted(config), files }
    }

    fn open(&self) -> (Volume, Vec<VolumeFile>) {
        let volume = open(&self.flash, &self.config);
        let files = self.files.iter().map(|file| file.attach(&volume).unwrap()).collect();
        (volume, files)
    }

    /// Writes both files and closes the tier.
    fn used(&self, version: u64) {
        let (volume, files) = self.open();
        files.iter().for_each(|file| (0..PAGES).for_each(|block| write(file, block, version)));
        files.iter().for_each(|file| file.sync().unwrap());
        volume.close().unwrap();
    }

    fn sidecars(&self) -> [Option<Vec<u8>>; 2] {
        [0, 1].map(|at| self.files[at].sidecar.read().unwrap())
    }
}

#[test]
fn what_changes_nothing_writes_and_syncs_nothing() {
    for (design, admission, sync_mode) in every_configuration() {
        let machine = Machine::new(&common::config(design, admission, sync_mode, 0));
        machine.used(1);
        let flash = Watched::over(&machine.flash);
        let disks = [0, 1].map(|at| Watched::over(&machine.files[at].disk));
        let before = (machine.flash.image(), machine.sidecars());
        let volume = Volume::open(flash.clone(), machine.config.clone()).unwrap();
        for (backing, disk) in machine.files.iter().zip(&disks) {
            let options = AttachOptions { guard: backing.guard.clone() };
            let file = volume.attach(&backing.path, disk.clone(), backing.sidecar.clone(), options).unwrap();
            assert_eq!(file.len(), PAGES * PAGE as u64);
            // Fewer than are worth a start.
            assert_eq!(read(&file, 3), Ok(page(3, 1)), "{design:?} {admission:?} {sync_mode:?}");
            file.sync().unwrap();
            file.hand_over().unwrap();
        }
        while volume.step() {}
        volume.close().unwrap();
        assert_eq!([flash.touched(), disks[0].touched(), disks[1].touched()], [0; 3]);
        assert!(before == (machine.flash.image(), machine.sidecars()));
        machine.used(2);
        let (_volume, files) = machine.open();
        files.iter().for_each(|file| assert_eq!(read(file, 1), Ok(page(1, 2))));
    }
}

/// After a crash only what may still be in the cache is flushed.
#[test]
fn what_changes_nothing_after_a_crash_writes_nothing() {
    for design in WRITE_BACK {
        let machine = Machine::new(&one_file::durable(design));
        let (volume, files) = machine.open();
        files.iter().for_each(|file| (0..PAGES).for_each(|block| write(file, block, 1)));
        files[1].sync().unwrap();
        drop((volume, files));
        // Leaves nothing to be put right on disk.
        machine.open().0.forget(&[]).unwrap();
        let before = (machine.flash.image(), machine.sidecars());
        for _ in 0..3 {
            let (volume, files) = machine.open();
            files.iter().for_each(|file| assert_eq!(read(file, 5), Ok(page(5, 1))));
            volume.close().unwrap();
        }
        assert!(before == (machine.flash.image(), machine.sidecars()));
        let (_volume, files) = machine.open();
        files.iter().for_each(|file| write(file, 5, 2));
    }
}

/// The epoch is durable before the first change: a sidecar must not be ahead of it.
fn the_first_change_comes_after_the_start() -> bool {
    let machine = Machine::new(&durable());
    machine.used(1);
    let (volume, files) = machine.open();
    write(&files[0], 0, 2);
    files[0].sync().unwrap();
    drop((volume, files));
    let volume = open(&machine.flash, &machine.config);
    let attached: Vec<_> = machine.files.iter().map(|file| file.attach(&volume)).collect();
    let Ok(files) = attached.into_iter().collect::<Result<Vec<_>, _>>() else { return false };
    read(&files[0], 0) == Ok(page(0, 2)) && read(&files[1], 0) == Ok(page(0, 1))
}

#[test]
fn the_epoch_is_durable_before_the_first_change() {
    only_with(&[Bug::EpochUnwritten], the_first_change_comes_after_the_start);
}

/// A file that was attached before the start is known to be newer than a copy from before it.
fn an_older_copy_of_a_file_that_waited_is_refused() -> bool {
    let machine = Machine::new(&durable());
    machine.used(1);
    let older = (machine.files[0].disk.image(), machine.sidecars()[0].clone().unwrap());
    machine.used(2);
    machine.files[0].disk.load(&older.0);
    machine.files[0].sidecar.replace(&older.1).unwrap();
    let volume = open(&machine.flash, &machine.config);
    machine.files[0].attach(&volume).is_err_and(|error| error.kind() == VolumeErrorKind::NewerTier)
}

#[test]
fn files_that_waited_for_the_start_are_taken_up() {
    assert!(an_older_copy_of_a_file_that_waited_is_refused());
}

/// A process died when it had closed a tier but for the flush behind the first of both superblocks, which is
/// in the device's cache alone. The next one changes something, and power fails while that writes its own.
/// Whether the tier goes on with what was synced.
fn goes_on_after_half_a_closing(cut: u64) -> bool {
    let machine = Machine::new(&durable());
    let power = machine.flash.power();
    let (volume, files) = machine.open();
    // So few that there is no metadata to be written, and flushed, before a superblock.
    files.iter().for_each(|file| (0..2).for_each(|block| write(file, block, 3)));
    let superblocks = machine.flash.inspect(|flash| flash[..2 * SUPERBLOCK_BYTES].to_vec());
    volume.close().unwrap();
    drop((volume, files));
    let closed = machine.flash.inspect(|flash| flash[..SUPERBLOCK_BYTES].to_vec());
    machine.flash.write_at(&superblocks, 0).unwrap();
    machine.flash.flush().unwrap();
    machine.flash.write_at(&closed, 0).unwrap();
    let (volume, files) = machine.open();
    power.crash_after(cut);
    let _ = files[0].write_at(&page(0, 4), 0);
    drop((volume, files));
    // Of all that was not flushed by then the first sector is kept.
    let fates = machine.flash.window().iter().map(|_| Fate::Torn(1)).collect();
    machine.flash.power_cut_as(&Survival { fates, resizes: 0 });
    power.restore();
    let Ok(volume) = Volume::open(machine.flash.clone(), machine.config.clone()) else { return false };
    machine.files.iter().all(|file| {
        let Ok(file) = file.attach(&volume) else { return false };
        read(&file, 1) == Ok(page(1, 3))
    })
}

#[test]
fn a_tier_goes_on_whose_closing_was_left_in_the_cache() {
    only_with(&[Bug::SuperblockUnflushed], || (1..8).all(goes_on_after_half_a_closing));
}

/// Clean pages are worth a start when there are enough of them: a program that only reads has the tier fill.
#[test]
fn pages_that_are_read_from_disk_have_the_opening_start() {
    for config in [through(), durable()] {
        let machine = Machine::new(&config);
        machine.used(1);
        let (volume, files) = machine.open();
        volume.stop_admission().unwrap();
        // On disk alone.
        (100..120).for_each(|block| write(&files[1], block, 1));
        volume.close().unwrap();
        let group = u64::from(config.tier.group_pages);
        let before = machine.flash.image();
        let (volume, files) = machine.open();
        (100..100 + group).for_each(|block| assert_eq!(read(&files[1], block), Ok(page(block, 1))));
        while volume.step() {}
        assert!(before == machine.flash.image(), "a few pages are not worth it");
        (100..120).for_each(|block| assert_eq!(read(&files[1], block), Ok(page(block, 1))));
        while volume.step() {}
        assert!(before != machine.flash.image());
        let misses = volume.statistics().page_misses;
        (110..120).for_each(|block| assert_eq!(read(&files[1], block), Ok(page(block, 1))));
        assert!(volume.statistics().page_misses < misses + 10, "the tier has some of them now");
    }
}

/// The newer copy of the superblock cannot be read for a while, and the other one is of the opening before:
/// what the power left of a start. Whether nobody is told to put another tier in its place.
fn is_in_doubt(newer: usize) -> bool {
    let machine = Machine::new(&durable());
    machine.used(1);
    let before = machine.flash.inspect(|flash| flash[..2 * SUPERBLOCK_BYTES].to_vec());
    let (volume, files) = machine.open();
    write(&files[0], 1, 2);
    files[0].sync().unwrap();
    drop((volume, files));
    let older = SUPERBLOCK_OFFSETS[1 - newer];
    let bytes = &before[older as usize..][..SUPERBLOCK_BYTES];
    machine.flash.write_at(bytes, older).unwrap();
    machine.flash.spoil(SUPERBLOCK_OFFSETS[newer], 512, Bad::Unreadable);
    let volume = open(&machine.flash, &machine.config);
    let refused = machine.files[0].attach(&volume).unwrap_err();
    drop(volume);
    machine.flash.heal();
    let (_volume, files) = machine.open();
    assert_eq!(read(&files[0], 1), Ok(page(1, 2)));
    refused.kind() == VolumeErrorKind::Io && refused.to_string().contains("may be newer")
}

#[test]
fn a_tier_with_a_copy_that_cannot_be_read_is_not_called_older() {
    [0, 1].into_iter().for_each(|newer| only_with(&[Bug::UnreadCopyTakenForOld], || is_in_doubt(newer)));
}

/// Power fails when an opening has started and done this, of the flash device's cache nothing is left, and
/// one copy of the superblock rots. The time of a file's last change may be lost as well, which a sync of its
/// data does not bring along, so the sidecar does not tell that the file was changed. Whether the tier is
/// used again, and these pages are what was written and synced last.
fn outlives_a_rotten_copy(
    config: &VolumeConfig,
    rotten: usize,
    start: impl Fn(&[VolumeFile]),
    expected: &[(u64, u64)],
) -> bool {
    let machine = Machine::new(config);
    let (volume, files) = machine.open();
    volume.stop_admission().unwrap();
    // On disk alone.
    (100..120).for_each(|block| write(&files[0], block, 1));
    volume.close().unwrap();
    drop(files);
    machine.used(1);
    let (volume, files) = machine.open();
    start(&files);
    drop((volume, files));
    let fates = machine.flash.window().iter().map(|_| Fate::Lost).collect();
    machine.flash.power_cut_as(&Survival { fates, resizes: 0 });
    machine.flash.power().restore();
    machine.flash.spoil(SUPERBLOCK_OFFSETS[rotten], 512, Bad::Garbled);
    let Ok(volume) = Volume::open(machine.flash.clone(), machine.config.clone()) else { return false };
    let Ok(file) = machine.files[0].attach(&volume) else { return false };
    expected.iter().all(|&(block, version)| read(&file, block) == Ok(page(block, version)))
}

/// A tier that writes through waits for its flash device at no change: an old superblock would have it
/// believe pages that are older than the disk.
#[test]
fn either_copy_tells_of_a_start_for_a_change_that_flash_is_not_needed_for() {
    only_with(&[Bug::CleanStartInPassing], || {
        let change = |files: &[VolumeFile]| {
            write(&files[0], 1, 2);
            files[0].sync().unwrap();
        };
        [0, 1].iter().all(|&rotten| outlives_a_rotten_copy(&through(), rotten, change, &[(1, 2), (2, 1)]))
    });
}

/// The sidecars say that the opening has started: with an old superblock the tier would be refused.
#[test]
fn either_copy_tells_of_a_start_for_reads() {
    only_with(&[Bug::ReadStartUnflushed], || {
        let reads = |files: &[VolumeFile]| {
            (100..106).for_each(|block| assert_eq!(read(&files[0], block), Ok(page(block, 1))));
        };
        [0, 1].iter().all(|&rotten| outlives_a_rotten_copy(&durable(), rotten, reads, &[(1, 1), (100, 1)]))
    });
}

/// The flash cannot be written when the first change comes: the tier is given up with all that it has, and
/// never believed again, though nothing on flash says so, or half of its superblock does.
#[test]
fn a_tier_that_cannot_start_is_given_up() {
    for config in [through(), durable()] {
        for (operation, after) in
            [(Operation::Write, 0), (Operation::Write, 1), (Operation::Flush, 0), (Operation::Flush, 1)]
        {
            let machine = Machine::new(&config);
            machine.used(1);
            let (volume, files) = machine.open();
            let fault = Fault::Error(DeviceErrorKind::Io);
            machine.flash.inject(Injection { operation, after, count: u64::MAX, fault });
            assert_eq!(read(&files[0], 4), Ok(page(4, 1)));
            write(&files[0], 4, 2);
            files[0].sync().unwrap();
            assert!(matches!(volume.state(), VolumeState::Bypass { .. }), "{:?}", volume.state());
            let disk = machine.files[0].disk.image();
            assert!(disk[..PAGE] == page(0, 1) && disk[4 * PAGE..5 * PAGE] == page(4, 2));
            volume.close().unwrap();
            drop((volume, files));
            machine.flash.heal();
            machine.flash.power_cut(1);
            let (_volume, files) = machine.open();
            for file in &files {
                let fourth = if file.path() == files[0].path() { 2 } else { 1 };
                (0..PAGES).for_each(|block| {
                    assert_eq!(read(file, block), Ok(page(block, if block == 4 { fourth } else { 1 })));
                });
                write(file, 5, 2);
            }
        }
    }
}

/// A change that comes when the volume is closed is refused, and writes nothing: somebody else may use the
/// tier.
fn a_change_that_comes_too_late_writes_nothing() -> bool {
    [through(), durable()].into_iter().all(|config| {
        let machine = Machine::new(&config);
        machine.used(1);
        let before = (machine.flash.image(), machine.sidecars());
        let (volume, files) = machine.open();
        volume.close().unwrap();
        let late = [files[0].write_at(&page(4, 2), 4 * PAGE as u64), files[1].set_len(0), volume.begin()];
        for late in late {
            assert!(late.is_err_and(|error| error.kind() == VolumeErrorKind::Closed));
        }
        let mut found = vec![0; 9 * PAGE];
        assert!(files[0].read_at(&mut found, 0).is_err());
        before == (machine.flash.image(), machine.sidecars())
    })
}

#[test]
fn a_closed_volume_does_not_start() {
    only_with(&[Bug::StartedWhenClosed], || {
        // Without the rule the change is refused later, or not at all.
        std::panic::catch_unwind(a_change_that_comes_too_late_writes_nothing).unwrap_or(false)
    });
}

/// Giving a tier up that could not start fails as well, when the header of a file is to take its place on
/// disk. Nothing more is written then: the sidecar has the only copy of the header.
#[test]
fn a_header_outlives_two_failures() {
    for after in 0..12 {
        let machine = Machine::new(&durable());
        machine.used(1);
        let (volume, files) = machine.open();
        let fault = Fault::Error(DeviceErrorKind::Io);
        machine.flash.inject(Injection { operation: Operation::Write, after: 0, count: 1, fault });
        machine.files[0].disk.inject(Injection { operation: Operation::Write, after, count: 1, fault });
        let _ = files[0].write_at(&page(5, 2), 5 * PAGE as u64);
        let _ = files[0].write_at(&page(6, 2), 6 * PAGE as u64);
        let _ = files[1].write_at(&page(6, 2), 6 * PAGE as u64);
        drop((volume, files));
        machine.files.iter().for_each(|file| file.disk.heal());
        machine.flash.heal();
        let (_volume, files) = machine.open();
        for file in &files {
            assert_eq!(read(file, 0), Ok(page(0, 1)), "after {after} writes");
            assert_eq!(read(file, 7), Ok(page(7, 1)), "after {after} writes");
        }
    }
}

/// How often the device is waited for when a tier is opened that was closed after so many commits, of these
/// pages each.
fn waits_after(commits: u64, pages: u64) -> u64 {
    let mut config = VolumeConfig { identity_seed: Some(7), ..durable() };
    let (group_pages, staging_groups, survivors_max) = (16, 2, 8);
    config.tier =
        TierConfig { group_pages, staging_groups, survivors_max, ..TierConfig::new(PAGE as u32, 8192) };
    let (flash, backing) = (formatted(&config), Backing::guarded("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    for commit in 0..commits {
        (0..pages).for_each(|block| write(&file, block, commit));
        file.sync().unwrap();
    }
    volume.close().unwrap();
    let watched = Watched::over(&flash);
    let volume = Volume::open(watched.clone(), config.clone()).unwrap();
    let waits = watched.waits.load(Ordering::SeqCst);
    let file = backing.attach(&volume).unwrap();
    (0..pages).for_each(|block| assert_eq!(read(&file, block), Ok(page(block, commits - 1))));
    waits
}

/// Each commit ends a group early, and then the next one is not where it would be after a full one: they were
/// read one at a time.
#[test]
fn groups_of_small_commits_are_read_together() {
    let none = waits_after(1, 2);
    for (commits, pages) in [(400, 2), (200, 7), (100, 40), (10, 300)] {
        let waits = waits_after(commits, pages) - none;
        let groups = commits * pages.div_ceil(16);
        assert!(waits <= 4 + groups / 4 && waits < 70, "{commits} of {pages}: {waits} for {groups} groups");
    }
}
