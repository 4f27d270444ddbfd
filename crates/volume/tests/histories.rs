//! A file, its sidecar and a flash device from different moments of one life, or from the lives of two copies
//! (invariant 10).
//!
//! Invariants checked: whatever is put together is refused, or the file has what was synced last by either;
//! what belongs together is never refused. One exception: older flash of the same opening, since which
//! nothing was staged out, may not be told; the file then has what it had then.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, a_named_page_with_the_end_in_it, durable, formatted, page, through};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::read_superblock;
#[cfg(feature = "planted")]
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{ReadError, ReadFlash, Region, Tier};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    SidecarStore, SyncMode, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
};

/// A machine at one moment, and what the file has then.
#[derive(Clone)]
struct Moment {
    flash: Vec<u8>,
    disk: Vec<u8>,
    sidecar: Option<Vec<u8>>,
    /// What was synced last.
    synced: Vec<u8>,
    /// The disk has everything by itself: the flash counts for nothing, and files that are current go
    /// without it.
    expendable: bool,
    /// Groups that the tier has.
    groups: u64,
    what: String,
}

impl Moment {
    /// Whether the two are of one opening, and the tier had become no longer when the sidecar was written.
    fn knows_no_more_than(&self, other: &Self) -> bool {
        let groups = self.field("groups").and_then(|groups| groups.parse().ok()).unwrap_or(0);
        self.field("epoch") == other.field("epoch") && groups <= other.groups
    }

    fn field(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(self.sidecar.as_deref()?).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }
}

/// What a guard never covers.
fn beyond_head(disk: &[u8]) -> &[u8] {
    disk.get(512..).unwrap_or_default()
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

fn groups_on(flash: &MemoryDevice) -> u64 {
    let mut flash = Flash(flash);
    let superblock = read_superblock(&mut flash).unwrap();
    let region = Region::heap(superblock.config.geometry().unwrap().region_bytes());
    Tier::recover(region, &superblock, 1, &mut flash).unwrap().superblock.epoch_sequence.number()
}

struct Machine {
    config: VolumeConfig,
    flash: Arc<MemoryDevice>,
    backing: Backing,
}

/// A file whose fingerprint is another one when it has other bytes: where the tier is provably clean, nothing
/// else tells a file from one that was changed since the tier was closed.
fn backing(guarded: bool) -> Backing {
    let backing = if guarded { Backing::guarded("a") } else { Backing::new("a") };
    *backing.sidecar.file.lock().unwrap() = Some(backing.disk.clone());
    backing
}

impl Machine {
    fn new(config: &VolumeConfig, guarded: bool) -> Self {
        Self { config: config.clone(), flash: formatted(config), backing: backing(guarded) }
    }

    fn of(config: &VolumeConfig, guarded: bool, flash: &[u8], files: &Moment) -> Self {
        let backing = backing(guarded);
        let device = Arc::new(MemoryDevice::new(0));
        device.load(flash);
        backing.disk.load(&files.disk);
        if let Some(sidecar) = &files.sidecar {
            backing.sidecar.replace(sidecar).unwrap();
        }
        Self { config: config.clone(), flash: device, backing }
    }

    fn open(&self) -> Result<(Volume, VolumeFile), VolumeError> {
        let volume = Volume::open(self.flash.clone(), self.config.clone())?;
        let file = self.backing.attach(&volume)?;
        Ok((volume, file))
    }

    fn moment(&self, what: &str, synced: Vec<u8>) -> Moment {
        let disk = self.backing.disk.image();
        // The file may be longer by zeros than its disk.
        let mut whole = disk.clone();
        whole.resize(synced.len(), 0);
        Moment {
            expendable: beyond_head(&whole) == beyond_head(&synced),
            groups: groups_on(&self.flash),
            flash: self.flash.image(),
            disk,
            sidecar: self.backing.sidecar.read().unwrap(),
            synced,
            what: what.to_owned(),
        }
    }

    /// What the file has, if it may be used: also what a change finds.
    fn contents(&self) -> Result<Vec<u8>, VolumeError> {
        let (_volume, file) = self.open()?;
        contents_of(&file)
    }
}

fn contents_of(file: &VolumeFile) -> Result<Vec<u8>, VolumeError> {
    let mut found = vec![0; file.len() as usize];
    file.read_at(&mut found, 0)?;
    // What lies past the end must be zeros when the file grows.
    let len = file.len();
    file.set_len(len + 8 * PAGE as u64)?;
    let mut beyond = vec![1; 8 * PAGE];
    file.read_at(&mut beyond, len)?;
    assert!(beyond.iter().all(|&byte| byte == 0), "what was cut off is there again");
    file.set_len(len)?;
    Ok(found)
}

/// Life of a machine, and its moments.
struct Life<'m> {
    machine: &'m Machine,
    random: Random,
    model: Vec<u8>,
    version: u64,
    moments: Vec<Moment>,
    pages: u64,
}

impl Life<'_> {
    fn note(&mut self, what: &str) {
        let synced = self.model.clone();
        self.moments.push(self.machine.moment(what, synced));
    }

    fn write(&mut self, file: &VolumeFile, count: u64) {
        for _ in 0..count {
            self.version += 1;
            let block = self.random.below(self.pages);
            let bytes = page(block, self.version);
            file.write_at(&bytes, block * PAGE as u64).unwrap();
            let (from, to) = (block as usize * PAGE, (block as usize + 1) * PAGE);
            self.model.resize(self.model.len().max(to), 0);
            self.model[from..to].copy_from_slice(&bytes);
        }
        file.sync().unwrap();
    }

    fn set_len(&mut self, file: &VolumeFile, pages: u64) {
        let len = pages * PAGE as u64;
        file.set_len(len).unwrap();
        self.model.resize(len as usize, 0);
        file.sync().unwrap();
    }

    fn session(&mut self, steps: usize) {
        let (volume, file) = self.machine.open().unwrap();
        self.note("attached");
        for _ in 0..steps {
            match self.random.below(9) {
                0..=2 => {
                    let count = self.random.between(1, 12);
                    self.write(&file, count);
                    self.note("a few pages written");
                }
                3 => {
                    self.write(&file, 130);
                    self.note("many pages written");
                }
                4 => {
                    let pages = self.random.below(self.pages);
                    self.set_len(&file, pages);
                    self.note("cut or stretched");
                }
                5 => {
                    let pages = self.model.len() as u64 / PAGE as u64 + 9;
                    self.set_len(&file, pages);
                    self.note("stretched");
                }
                6 => {
                    let (first, count) = (self.random.below(self.pages), self.random.between(1, 20));
                    file.discard(first * PAGE as u64, count * PAGE as u64).unwrap();
                    file.sync().unwrap();
                    let end = (((first + count) as usize) * PAGE).min(self.model.len());
                    if first as usize * PAGE < end {
                        self.model[first as usize * PAGE..end].fill(0);
                    }
                    self.note("discarded");
                }
                7 => {
                    volume.drain().unwrap();
                    self.note("drained");
                }
                _ => {
                    volume.stop_admission().unwrap();
                    self.note("admission stopped");
                    self.write(&file, 5);
                    self.note("written to disk first");
                    volume.resume_admission().unwrap();
                    self.note("admission resumed");
                }
            }
        }
        if self.random.chance(1, 2) {
            volume.close().unwrap();
            self.note("closed");
        }
    }
}

fn life(machine: &Machine, seed: u64, sessions: usize) -> Vec<Moment> {
    continued(machine, seed, sessions, Vec::new(), seed << 32)
}

fn continued(machine: &Machine, seed: u64, sessions: usize, model: Vec<u8>, version: u64) -> Vec<Moment> {
    let mut life =
        Life { machine, random: Random::new(seed), model, version, moments: Vec::new(), pages: 70 };
    for _ in 0..sessions {
        life.session(5);
    }
    life.moments
}

/// What is wrong with what is found when files and flash of two moments are put together.
fn mixed(machine: &Machine, guarded: bool, moments: &[Moment], at: (usize, usize)) -> Option<String> {
    let (files, flash) = (&moments[at.0], &moments[at.1]);
    let order = at.0.cmp(&at.1);
    let mix = Machine::of(&machine.config, guarded, &flash.flash, files);
    let what =
        |text: &str| Some(format!("files after \"{}\", flash after \"{}\": {text}", files.what, flash.what));
    let found = match mix.contents() {
        Ok(found) => found,
        Err(error) if order.is_eq() => return what(&error.to_string()),
        Err(error) => {
            let known = matches!(
                error.kind(),
                VolumeErrorKind::OlderTier
                    | VolumeErrorKind::NewerTier
                    | VolumeErrorKind::OtherCopy
                    | VolumeErrorKind::ChangedFile
                    | VolumeErrorKind::FileNotAttached
                    | VolumeErrorKind::SidecarMissing
            );
            let text = error.to_string();
            let told = known && text.contains(" a:") && text.contains("; ");
            return if told { None } else { what(&text) };
        }
    };
    let newest = if order.is_lt() { flash } else { files };
    let between = moments.get(at.1..=at.0).unwrap_or_default();
    let as_then = between.iter().any(|then| files.knows_no_more_than(then) && found == then.synced);
    let files_alone = flash.expendable && found == files.synced;
    if found == newest.synced || as_then || files_alone {
        None
    } else {
        what("accepted, and it has something else")
    }
}

/// Every two moments of a life put together.
fn every_mix(config: &VolumeConfig, guarded: bool, seed: u64) -> Result<u64, String> {
    let machine = Machine::new(config, guarded);
    let moments = life(&machine, seed, 4);
    let mut refused = 0;
    for i in 0..moments.len() {
        for j in 0..moments.len() {
            if let Some(wrong) = mixed(&machine, guarded, &moments, (i, j)) {
                return Err(format!("seed {seed}, {i} with {j}: {wrong}"));
            }
            refused += 1;
        }
    }
    Ok(refused)
}

fn every_life(config: &VolumeConfig, seeds: std::ops::Range<u64>) -> Result<u64, String> {
    let mut mixes = 0;
    for seed in seeds {
        for guarded in [false, true] {
            mixes += every_mix(config, guarded, seed)?;
        }
    }
    Ok(mixes)
}

#[test]
fn files_and_flash_of_two_moments_are_refused_or_right() {
    let mixes = every_life(&durable(), 1..7).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(mixes > 4000, "{mixes}");
}

/// From one moment on a copy of the machine leads a life of its own; then they exchange their flash devices.
fn exchanged(config: &VolumeConfig, guarded: bool, seed: u64) -> Result<u64, String> {
    let machine = Machine::new(config, guarded);
    let common = life(&machine, seed, 1).pop().unwrap();
    let lives = [1u64, 2].map(|copy| {
        let config = VolumeConfig { nonce_seed: Some(seed ^ copy << 20), ..config.clone() };
        let machine = Machine::of(&config, guarded, &common.flash, &common);
        let model = common.synced.clone();
        // The one does as the other does, at first, so that epochs, marks and groups agree.
        let mut moments = continued(&machine, seed + 100, 1, model.clone(), copy << 40);
        let model = moments.last().unwrap().synced.clone();
        moments.extend(continued(&machine, seed + 200 + copy, 1, model, copy << 50));
        moments
    });
    let mut mixes = 0;
    for files in &lives[0] {
        for flash in &lives[1] {
            let mix = Machine::of(config, guarded, &flash.flash, files);
            mixes += 1;
            let Ok(found) = mix.contents() else { continue };
            if found != files.synced || found != flash.synced && !flash.expendable {
                return Err(format!(
                    "seed {seed}: files of one copy after \"{}\" and flash of another after \"{}\" are accepted; found is of files: {}, of flash: {}",
                    files.what,
                    flash.what,
                    found == files.synced,
                    found == flash.synced
                ));
            }
        }
    }
    Ok(mixes)
}

#[test]
fn copies_that_were_both_opened_do_not_go_with_the_flash_of_each_other() {
    for config in [durable(), through()] {
        for seed in 1..7 {
            for guarded in [false, true] {
                exchanged(&config, guarded, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }
}

/// The file alone is put back, without its sidecar: a copy of the disk from before something was staged out.
/// Says whether that is refused, and if not what is found wrong.
fn a_disk_alone_is_refused(device: bool) -> Result<bool, VolumeError> {
    let flash = formatted(&durable());
    let disk = Arc::new(if device { MemoryDevice::new(200 * PAGE as u64) } else { MemoryDevice::file(0) });
    let backing = Backing { disk, ..Backing::new("a") };
    let machine = Machine { config: durable(), flash, backing };
    let (volume, file) = machine.open()?;
    let round = |version: u64| {
        (0..200u64).try_for_each(|block| file.write_at(&page(block, version), block * PAGE as u64))?;
        file.sync()
    };
    round(1)?;
    let old = machine.backing.disk.image();
    round(2)?;
    let now = machine.backing.disk.image();
    drop((file, volume));
    // As it is, it goes on; and so it does after another opening.
    drop(machine.open()?);
    drop(machine.open()?);
    machine.backing.disk.load(&old);
    match machine.open() {
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::ChangedFile, "{error}");
            assert!(error.to_string().contains("put the newest file back"), "{error}");
            machine.backing.disk.load(&now);
            let (_volume, file) = machine.open()?;
            let mut found = vec![0; PAGE];
            (0..200u64).try_for_each(|block| {
                file.read_at(&mut found, block * PAGE as u64).map(|()| assert!(found == page(block, 2)))
            })?;
            Ok(true)
        }
        Ok((_volume, file)) => {
            let mut found = vec![0; PAGE];
            let old = (0..200u64).filter(|block| {
                file.read_at(&mut found, block * PAGE as u64).unwrap();
                found != page(*block, 2)
            });
            assert!(old.count() > 0);
            Ok(false)
        }
    }
}

#[test]
fn a_disk_that_was_put_back_alone_is_refused_also_a_device() {
    for device in [false, true] {
        assert!(a_disk_alone_is_refused(device).unwrap());
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::BatchUnchecked));
            let refused = a_disk_alone_is_refused(device);
            set(None);
            assert!(!refused.unwrap(), "the planted fault went unnoticed");
        }
    }
}

/// The file alone is from another moment than its sidecar, which names the page that the file's end cuts
/// through as stage-out wrote it, when the file was longer; and it ends before that page. Is it refused?
fn a_disk_that_ends_before_a_named_page_is_refused() -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let end = a_named_page_with_the_end_in_it(&flash, &backing);
    let now = backing.disk.image();
    let machine = Machine { config: durable(), flash, backing };
    machine.backing.disk.load(&now[..9 * PAGE]);
    let mut found = vec![0; end - 9 * PAGE];
    let refused = match machine.open() {
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::ChangedFile, "{error}");
            true
        }
        Ok((_volume, file)) => {
            file.read_at(&mut found, 9 * PAGE as u64).unwrap();
            assert!(found.iter().all(|&byte| byte == 0), "the page was in the tier");
            return false;
        }
    };
    // The newest is cut where its table says, and goes on.
    machine.backing.disk.load(&now);
    let (_volume, file) = machine.open().unwrap();
    assert_eq!(file.len(), end as u64);
    file.read_at(&mut found, 9 * PAGE as u64).unwrap();
    assert!(found == page(9, 2)[..found.len()]);
    refused
}

/// Found by worlds of histories (seed 714063245): the page was not compared, since an attachment that failed
/// might have cut it. What had been synced of it was gone.
#[test]
fn a_disk_that_lacks_the_page_that_its_end_cuts_through_is_refused() {
    assert!(a_disk_that_ends_before_a_named_page_is_refused());
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::CutPageUncompared));
        let refused = a_disk_that_ends_before_a_named_page_is_refused();
        set(None);
        assert!(!refused, "the planted fault went unnoticed");
    }
}

/// A disk on which a guard stands, and which is longer than the file of a sidecar that says `current` and
/// names a guard: of a later opening than sidecar and flash, or of an earlier moment of theirs. A tier that
/// knows nothing of a later opening takes the number in its guard for a rotten one. Is it refused?
fn a_guarded_disk_of_another_length_is_refused(later: bool) -> bool {
    let machine = Machine::new(&durable(), true);
    let device = machine.backing.disk.clone();
    let long = |file: &VolumeFile, version: u64| {
        (0..200u64).for_each(|block| file.write_at(&page(block, version), block * PAGE as u64).unwrap());
        file.sync().unwrap();
        device.image()
    };
    let (volume, file) = machine.open().unwrap();
    let mut disk = long(&file, 1);
    file.set_len(8 * PAGE as u64).unwrap();
    file.write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    volume.drain().unwrap();
    // The head takes its place, and the sidecar that says so fails.
    *machine.backing.sidecar.refuses_after.lock().unwrap() = Some(1);
    volume.set_sync_mode(SyncMode::Through).unwrap_err();
    *machine.backing.sidecar.refuses_after.lock().unwrap() = None;
    drop((file, volume));
    let now = machine.moment("current", Vec::new());
    assert_eq!((now.field("state"), now.disk.len()), (Some("current"), 8 * PAGE));
    let guard_len = now.field("guard").unwrap().len() / 2;
    assert!(guard_len > 0);
    let machine = Machine { config: through(), ..machine };
    if later {
        let (volume, file) = machine.open().unwrap();
        volume.set_sync_mode(SyncMode::Durable).unwrap();
        disk = long(&file, 3);
    }
    let mixed = Moment { disk: disk.clone(), ..now.clone() };
    let mix = Machine::of(&through(), true, &now.flash, &mixed);
    let refused = match mix.open() {
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::ChangedFile, "{error}");
            assert!(error.to_string().contains("put back the file and the sidecar"), "{error}");
            assert!(mix.backing.disk.image() == disk, "it was refused and changed");
            true
        }
        Ok((_volume, file)) => {
            assert_eq!(file.len(), 8 * PAGE as u64, "it was cut");
            false
        }
    };
    // The sidecar's own disk goes on, with its head in place or with its guard.
    let mut guarded = now.disk.clone();
    guarded[..guard_len].copy_from_slice(&disk[..guard_len]);
    assert!(guarded.starts_with(&machine.backing.guard.as_ref().unwrap().bytes));
    for disk in [now.disk.clone(), guarded] {
        let whole = Machine::of(&through(), true, &now.flash, &Moment { disk, ..now.clone() });
        let (_volume, file) = whole.open().unwrap();
        let mut found = vec![0; 8 * PAGE];
        file.read_at(&mut found, 0).unwrap();
        let pages: Vec<_> = (0..8).flat_map(|block| page(block, 1 + u64::from(block == 3))).collect();
        assert!(file.len() == 8 * PAGE as u64 && found == pages);
    }
    refused
}

/// Found by worlds of histories (seed 88117741949): such a disk was taken for the current one, whose head is
/// in the sidecar, and cut to the length there.
#[test]
fn a_disk_with_a_guard_and_another_length_than_its_current_sidecar_says_is_refused() {
    for later in [false, true] {
        assert!(a_guarded_disk_of_another_length_is_refused(later));
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::GuardedLengthUncompared));
            let refused = a_guarded_disk_of_another_length_is_refused(later);
            set(None);
            assert!(!refused, "the planted fault went unnoticed");
        }
    }
}

/// A write that failed, while writes went to disk first, has left the disk longer than the file. The file is
/// then to be changed in the tier alone, and the process dies when its guard stands and its sidecar says
/// `current`. What has become of it?
fn a_disk_that_a_failed_write_left_longer() -> Result<u64, VolumeError> {
    let machine = Machine::new(&through(), true);
    let (volume, file) = machine.open()?;
    (0..8u64).try_for_each(|block| file.write_at(&page(block, 1), block * PAGE as u64))?;
    let io = Fault::Error(DeviceErrorKind::Io);
    machine.backing.disk.inject(Injection { operation: Operation::Write, after: 0, count: 1, fault: io });
    machine.backing.disk.set_len(9 * PAGE as u64).unwrap();
    file.write_at(&page(8, 1), 8 * PAGE as u64).unwrap_err();
    assert_eq!(file.len(), 8 * PAGE as u64);
    volume.set_sync_mode(SyncMode::Durable)?;
    *machine.backing.sidecar.refuses_after.lock().unwrap() = Some(1);
    file.write_at(&page(0, 2), 0).unwrap_err();
    *machine.backing.sidecar.refuses_after.lock().unwrap() = None;
    drop((file, volume));
    assert!(machine.backing.disk.image().starts_with(&machine.backing.guard.as_ref().unwrap().bytes));
    let machine = Machine { config: durable(), ..machine };
    let (_volume, file) = machine.open()?;
    Ok(file.len())
}

#[test]
fn a_disk_that_a_failed_write_left_longer_is_that_of_its_sidecar() {
    assert_eq!(a_disk_that_a_failed_write_left_longer().unwrap(), 8 * PAGE as u64);
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::LongDiskGuarded));
        let refused = a_disk_that_a_failed_write_left_longer();
        set(None);
        assert_eq!(refused.unwrap_err().kind(), VolumeErrorKind::ChangedFile);
    }
}

/// A copy of file and sidecar from right after the file's first attachment: the process died before any group
/// of the tier had the number that it got, and the next opening gave it another one, under which it was
/// written.
fn a_file_from_before_its_number_is_refused() -> Result<bool, VolumeError> {
    let machine = Machine::new(&durable(), false);
    drop(machine.open()?);
    let before = machine.moment("attached", Vec::new());
    let (volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    file.sync()?;
    drop((file, volume));
    let mix = Machine::of(&machine.config, false, &machine.flash.image(), &before);
    let refused = match mix.open() {
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::NewerTier, "{error}");
            assert!(error.to_string().contains("put the newest file and sidecar back"), "{error}");
            true
        }
        Ok((_volume, file)) => {
            assert_eq!(file.len(), 0, "the file has what the older copy has");
            false
        }
    };
    // The newest goes on.
    let (_volume, file) = machine.open()?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0)?;
    assert!(found == page(0, 1));
    Ok(refused)
}

/// Found by worlds whose parts are put back to earlier moments (`mezz sim crash --world histories`, seed 51):
/// the number in the sidecar was one that the tier did not know, so the file was taken for a new one, and
/// read as it was before it was written.
#[test]
fn a_file_is_refused_though_it_had_another_number_when_it_was_copied() {
    assert!(a_file_from_before_its_number_is_refused().unwrap());
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::OlderNumberForgotten));
        let refused = a_file_from_before_its_number_is_refused();
        set(None);
        assert!(!refused.unwrap(), "the planted fault went unnoticed");
    }
}

/// File and sidecar from when the tier was `durable`, beside the tier after it went over to `through` and the
/// process died: by what it is refused.
fn a_file_from_before_the_switch() -> Result<VolumeErrorKind, VolumeError> {
    let machine = Machine::new(&durable(), false);
    let (volume, file) = machine.open()?;
    file.write_at(&page(5, 1), 5 * PAGE as u64)?;
    file.sync()?;
    let before = machine.moment("durable", Vec::new());
    assert_eq!(before.field("state"), Some("dirty"));
    volume.set_sync_mode(SyncMode::Through)?;
    file.write_at(&page(5, 2), 5 * PAGE as u64)?;
    drop((file, volume));
    let mix = Machine::of(&through(), false, &machine.flash.image(), &before);
    Ok(mix.open().map(drop).expect_err("the pages of the file are nowhere").kind())
}

/// A tier in `through` is emptied after a crash, its table of files as well: the file was told that the tier
/// is the older of the two, and to put a newer one back.
#[test]
fn a_file_is_older_than_a_tier_that_needs_none_of_its_files_any_more() {
    assert_eq!(a_file_from_before_the_switch().unwrap(), VolumeErrorKind::NewerTier);
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::DirtyFileOfCleanTier));
        let kind = a_file_from_before_the_switch();
        set(None);
        assert_eq!(kind.unwrap(), VolumeErrorKind::OlderTier, "the planted fault went unnoticed");
    }
}

/// A tier in sync mode `through` whose file comes with an older sidecar, or without one, and so gets another
/// number. Then the tier is opened as `durable`, with the file as it was or `changed` since, and the process
/// dies; the next opening writes to it.
fn a_file_that_got_another_number(sidecar_kept: bool, changed: bool) -> Result<(), VolumeError> {
    let machine = Machine::new(&through(), false);
    let close = || machine.open().and_then(|(volume, _file)| volume.close());
    let change = |now: u8| machine.backing.disk.write_at(&[now; PAGE], 0).unwrap();
    close()?;
    let first = machine.backing.sidecar.read().unwrap().unwrap();
    change(2);
    close()?;
    match sidecar_kept {
        true => machine.backing.sidecar.replace(&first).unwrap(),
        false => machine.backing.sidecar.inner_remove(),
    }
    close()?;
    if changed {
        change(3);
    }
    let machine = Machine { config: durable(), ..machine };
    drop(machine.open()?);
    let (_volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    file.sync()
}

/// Found by worlds of histories (seed 271828213083): the tier went on knowing the file by a number that its
/// sidecar did not name. Once it was `durable` it waited for that one and took no changes, and if a crash
/// came before the first it refused the file as an older copy of itself.
#[test]
fn a_tier_waits_for_no_other_copy_of_a_file_that_was_current() {
    for (sidecar_kept, changed) in [(true, true), (true, false), (false, true), (false, false)] {
        a_file_that_got_another_number(sidecar_kept, changed).unwrap();
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::OrphansAwaited));
            let refused = a_file_that_got_another_number(sidecar_kept, changed).map_err(|error| error.kind());
            set(None);
            assert_eq!(refused, Err(VolumeErrorKind::FileNotAttached), "{sidecar_kept}");
        }
    }
}

/// A tier that nobody needs is replaced while it knows a file, the file is drained from the one that took its
/// place, and comes back to it.
fn a_file_that_another_tier_let_go() -> Result<Vec<u8>, VolumeError> {
    let machine = Machine::new(&durable(), false);
    let (volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    volume.close_drained()?;
    let (volume, _file) = machine.open()?;
    volume.close()?;
    machine.backing.sidecar.inner_remove();
    let (_volume, file) = machine.open()?;
    file.write_at(&page(1, 2), PAGE as u64)?;
    file.sync()?;
    contents_of(&file)
}

/// Found by worlds of power cuts (seed 20270107823): the file had no sidecar, as after any drain, and the
/// tier, which had been drained and of which nobody needed anything, knew a file of this name and refused it.
#[test]
fn a_drained_tier_takes_a_file_back_that_was_drained_from_another() {
    let expected = [page(0, 1), page(1, 2)].concat();
    assert_eq!(a_file_that_another_tier_let_go().unwrap()[..2 * PAGE], expected);
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::OrphansAwaited));
        let refused = a_file_that_another_tier_let_go();
        set(None);
        assert_eq!(refused.unwrap_err().kind(), VolumeErrorKind::FileNotAttached);
    }
}

/// A tier that nobody needs knows two files, which come to it from elsewhere; the process dies when it has
/// taken the first.
fn files_that_another_tier_let_go(sidecars_kept: bool) -> Result<(), VolumeError> {
    let flash = formatted(&durable());
    let files = ["a", "b"].map(Backing::new);
    let open = || Volume::open(flash.clone(), durable());
    let used = || {
        let volume = open()?;
        files.iter().try_for_each(|file| file.attach(&volume).map(drop))?;
        volume.close()
    };
    used()?;
    let sidecars = files.each_ref().map(|file| file.sidecar.read().unwrap().unwrap());
    // The second opening finds other files than were closed, and gives them other numbers.
    files.iter().for_each(|file| file.sidecar.inner_remove());
    used()?;
    for (file, sidecar) in files.iter().zip(&sidecars) {
        match sidecars_kept {
            true => file.sidecar.replace(sidecar).unwrap(),
            false => file.sidecar.inner_remove(),
        }
    }
    drop(files[0].attach(&open()?)?);
    let volume = open()?;
    let attached = files.iter().map(|file| file.attach(&volume)).collect::<Result<Vec<_>, _>>()?;
    attached.iter().try_for_each(|file| file.write_at(&page(0, 1), 0))
}

/// Found by worlds of histories (seed 77001153786): the tier was in use again, so that it might have had the
/// only copies, and refused the other file as older than itself.
#[test]
fn a_drained_tier_takes_files_one_by_one_though_a_crash_comes_between() {
    for (sidecars_kept, kind) in
        [(true, VolumeErrorKind::NewerTier), (false, VolumeErrorKind::FileNotAttached)]
    {
        files_that_another_tier_let_go(sidecars_kept).unwrap();
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::DrainedEpochForgotten));
            let refused = files_that_another_tier_let_go(sidecars_kept);
            set(None);
            assert_eq!(refused.unwrap_err().kind(), kind);
        }
        #[cfg(not(feature = "planted"))]
        let _ = kind;
    }
}

/// Flash of a tier in sync mode `through` is put back to before the last opening, in which two files got
/// their numbers in another order.
fn older_flash_of_a_clean_tier_is_emptied() -> Result<(), VolumeError> {
    let flash = formatted(&through());
    let [a, b, before_them] = ["a", "b", "c"].map(Backing::new);
    let used = |files: &[&Backing], config: VolumeConfig, nonce_seed: u64| {
        let config = VolumeConfig { nonce_seed: Some(nonce_seed), ..config };
        let volume = Volume::open(flash.clone(), config)?;
        files.iter().try_for_each(|file| file.attach(&volume).map(drop))?;
        volume.close()
    };
    used(&[&before_them], through(), 1)?;
    let before = flash.image();
    // An opening as `durable`, so that the sidecars of current files have numbers as well.
    used(&[&before_them, &b, &a], durable(), 2)?;
    flash.load(&before);
    used(&[&before_them, &a, &b], through(), 3)
}

/// Found by the same worlds (seed 22): the second file's number had been given to the first one, in an
/// opening that this copy of the tier never saw, and the file was refused as a copy of the other.
#[test]
fn a_clean_tier_takes_files_whose_numbers_another_copy_of_it_gave() {
    older_flash_of_a_clean_tier_is_emptied().unwrap();
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::NumbersOfCopies));
        let refused = older_flash_of_a_clean_tier_is_emptied();
        set(None);
        assert_eq!(refused.unwrap_err().kind(), VolumeErrorKind::AlreadyAttached);
    }
}

/// Each rule is taken out, and something wrong is accepted.
#[cfg(feature = "planted")]
#[test]
fn without_any_one_of_the_rules_something_wrong_is_accepted() {
    let mixes = || every_life(&durable(), 1..13);
    let copies =
        || (1..13).try_for_each(|seed| exchanged(&durable(), seed % 2 == 0, seed).map(drop)).map(|()| 0);
    type Check<'c> = &'c dyn Fn() -> Result<u64, String>;
    let rules: [(Bug, Check<'_>); 7] = [
        (Bug::NonceUnchecked, &copies),
        (Bug::MarkUnchecked, &mixes),
        (Bug::StageOutUnmarked, &mixes),
        (Bug::DiscardUnmarked, &mixes),
        (Bug::CutUnmarked, &mixes),
        (Bug::OlderFileForgotten, &mixes),
        (Bug::GroupsUnchecked, &mixes),
    ];
    for (bug, check) in rules {
        set(Some(bug));
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        set(None);
        assert!(!matches!(found, Ok(Ok(_))), "{bug:?} went unnoticed");
    }
}
