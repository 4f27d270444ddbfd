//! Files of relations are changed while the server is down: the tier's clean pages of them do not answer.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use machine::{Kept, Machine, Relations, checkpoint, editable, give_memory, offer, page, start};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{IdRange, PageId, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::pages::Written;
use mezzanine_ffi::relation_files::RelationFiles;
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::{Adoption, Start, Started};

mod machine;

const FLASH_BYTES: u64 = 4 << 20;
const MODES: [SyncMode; 3] = [SyncMode::Durable, SyncMode::Drained, SyncMode::Through];
const SEGMENT_BLOCKS: u32 = 512;
/// The files of a database, and the first block of each: two of one relation, and another one's.
const FILES: [(&str, u32, u32); 3] =
    [("base/5/1000", 1000, 0), ("base/5/1000.1", 1000, SEGMENT_BLOCKS), ("base/5/1001", 1001, 0)];
/// Pages of each file that the tier has: consecutive ones, and one apart.
const BLOCKS: [u32; 5] = [0, 1, 2, 3, 300];

struct Resting {
    machine: Machine,
    flash: Arc<MemoryDevice>,
    marker: Powered,
}

/// A marker on the machine of the flash device, whose power may have failed.
#[derive(Clone)]
struct Powered(Kept, Arc<MemoryDevice>);

impl MarkerStore for Powered {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn read(&self) -> io::Result<Option<String>> {
        self.0.read()
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if !self.1.power().is_on() {
            return Err(io::Error::other("the power has failed"));
        }
        self.0.replace(text)
    }
}

impl Resting {
    /// A server that has been in use, and was not left yet.
    fn in_use(mode: SyncMode) -> (Self, Host) {
        let machine = Machine::new(mode);
        let flash = Arc::new(MemoryDevice::new(FLASH_BYTES));
        let marker = Powered(Kept::default(), Arc::clone(&flash));
        let resting = Self { machine, flash, marker };
        fs::create_dir_all(resting.path("base/5")).unwrap();
        for (file, ..) in FILES {
            fs::write(resting.path(file), "as it was").unwrap();
        }
        let host = resting.start().0;
        for (_, relation, first) in FILES {
            resting.write(&host, relation, first, 1);
        }
        checkpoint(&host, 20);
        (resting, host)
    }

    /// A server that was left in order, with everything on disk.
    fn left(mode: SyncMode) -> Self {
        let (resting, host) = Self::in_use(mode);
        assert!(host.close(true).unwrap().current);
        resting
    }

    fn path(&self, file: &str) -> PathBuf {
        self.machine.root.join("data").join(file)
    }

    fn try_start(&self) -> Result<(Host, Started), Refusal> {
        let relation_files =
            Some(RelationFiles { segment_blocks: SEGMENT_BLOCKS, tablespace_directory: "PG_17".into() });
        let settings =
            Settings { flash_bytes: FLASH_BYTES, group_pages: 4, relation_files, ..self.machine.settings() };
        let flash: Arc<dyn Device> = Arc::<MemoryDevice>::clone(&self.flash);
        let server = Box::new(Relations(Arc::clone(&self.machine.disk)));
        let mut host = Host::on_device(settings, flash, Box::new(self.marker.clone()), server)?;
        give_memory(&mut host);
        let files_lack_pages = *self.machine.disk.marked.lock().unwrap();
        let redo = if self.marker.read().unwrap().is_some() { 20 } else { 10 };
        let started = host.start(&Start { files_lack_pages, ..start(redo) })?;
        Ok((host, started))
    }

    fn start(&self) -> (Host, Started) {
        self.try_start().unwrap()
    }

    fn write(&self, host: &Host, relation: u32, first: u32, version: u8) {
        for block in BLOCKS {
            let id = PageId::relation(5, 1663, relation, 0, first + block);
            let mark = host.tier().mark();
            match host.write(&id, &page(version), version.into(), Some(mark)).unwrap() {
                Written::Taken => {}
                Written::AlsoDisk => {
                    self.machine.disk.pages.lock().unwrap().insert(*id.as_bytes(), page(version));
                }
                Written::Refused => panic!("the tier takes pages"),
            }
        }
    }

    fn change(&self, file: &str) {
        fs::write(self.path(file), "as somebody else wants it").unwrap();
    }

    /// Puts another moment into the marker.
    fn edit_note(&self, edit: impl Fn((i64, i64)) -> (i64, i64)) {
        let text = self.marker.read().unwrap().unwrap();
        let at = text.find("\"base/5 ").unwrap() + 1;
        let end = at + text[at..].find('"').unwrap();
        let mut words = text[at..end].split(' ').skip(1);
        let mut word = || words.next().unwrap().parse::<i64>().unwrap();
        let (inode, seconds, nanoseconds) = (word() as u64, word(), word());
        let (seconds, nanoseconds) = edit((seconds, nanoseconds));
        let edited = format!("{}base/5 {inode} {seconds} {nanoseconds}{}", &text[..at], &text[end..]);
        self.marker.replace(&editable(&edited)).unwrap();
    }

    fn noted_moment(&self) -> (i64, i64) {
        let noted = std::cell::Cell::new((0, 0));
        let text = self.marker.read().unwrap();
        self.edit_note(|moment| {
            noted.set(moment);
            moment
        });
        *self.marker.0.0.lock().unwrap() = text;
        noted.get()
    }
}

/// How many pages of each of the files the tier has.
fn held(host: &Host) -> [usize; 3] {
    FILES.map(|(_, relation, first)| {
        let held = |block: &&u32| host.holds(&PageId::relation(5, 1663, relation, 0, first + **block));
        BLOCKS.iter().filter(held).count()
    })
}

const ALL: [usize; 3] = [BLOCKS.len(); 3];

#[test]
fn a_server_whose_files_nobody_has_changed_finds_its_tier_warm() {
    for mode in MODES {
        let resting = Resting::left(mode);
        for _ in 0..3 {
            let (host, started) = resting.start();
            assert_eq!((held(&host), started.changed_pages), (ALL, 0), "{mode:?}");
            host.close(true).unwrap();
        }
    }
}

#[test]
fn the_moment_that_is_noted_lies_behind_every_change_of_the_server() {
    for _ in 0..20 {
        let (resting, host) = Resting::in_use(SyncMode::Drained);
        // As its shutdown's checkpoint does.
        resting.change("base/5/1001");
        host.close(true).unwrap();
        let last = fs::metadata(resting.path("base/5/1001")).unwrap();
        assert!(resting.noted_moment() > (last.ctime(), last.ctime_nsec()));
    }
}

/// Whether the pages of one changed file are gone, for good, and all others are there.
fn changes_are_noticed(mode: SyncMode, changed: usize) -> bool {
    let resting = Resting::left(mode);
    resting.change(FILES[changed].0);
    let mut expected = ALL;
    expected[changed] = 0;
    let (host, started) = resting.start();
    if held(&host) != expected {
        return false;
    }
    assert_eq!((started.adoption, started.changed_files), (Adoption::Adopted, 1), "{mode:?}");
    assert_eq!(started.changed_pages, BLOCKS.len() as u64, "{mode:?}");
    assert_eq!(started.recovery.valid, 2 * BLOCKS.len() as u64, "{mode:?}");
    // A crash: the pages do not come back.
    drop(host);
    let (host, started) = resting.start();
    let expected = if mode == SyncMode::Through { [0; 3] } else { expected };
    assert_eq!((held(&host), started.changed_files), (expected, 0), "{mode:?}");
    true
}

#[test]
fn clean_pages_of_a_changed_file_are_dropped() {
    for mode in MODES {
        for changed in 0..FILES.len() {
            only_with(&[Bug::ChangedFilesTrusted], || changes_are_noticed(mode, changed));
        }
    }
}

#[test]
fn so_are_those_of_a_file_that_is_gone_or_was_replaced() {
    for replaced in [false, true] {
        only_with(&[Bug::ChangedFilesTrusted], || {
            let resting = Resting::left(SyncMode::Durable);
            fs::write(resting.path("copy"), "as it was").unwrap();
            fs::remove_file(resting.path(FILES[2].0)).unwrap();
            if replaced {
                fs::rename(resting.path("copy"), resting.path(FILES[2].0)).unwrap();
            }
            held(&resting.start().0) == [BLOCKS.len(), BLOCKS.len(), 0]
        });
    }
}

#[test]
fn a_directory_in_the_place_of_another_one_is_another_one() {
    only_with(&[Bug::ReplacedDirectoryTrusted, Bug::ChangedFilesTrusted], || {
        let (resting, host) = Resting::in_use(SyncMode::Durable);
        fs::create_dir(resting.path("spare")).unwrap();
        for (file, ..) in FILES {
            fs::write(resting.path(&file.replace("base/5", "spare")), "of another day").unwrap();
        }
        host.close(true).unwrap();
        fs::rename(resting.path("base/5"), resting.path("aside")).unwrap();
        // Its files keep their times.
        fs::rename(resting.path("spare"), resting.path("base/5")).unwrap();
        held(&resting.start().0) == [0; 3]
    });
}

#[test]
fn a_change_at_the_moment_that_was_noted_counts() {
    only_with(&[Bug::RestTickTrusted, Bug::ChangedFilesTrusted], || {
        let resting = Resting::left(SyncMode::Durable);
        let changed = fs::metadata(resting.path(FILES[0].0)).unwrap();
        resting.edit_note(|_| (changed.ctime(), changed.ctime_nsec()));
        held(&resting.start().0)[0] == 0
    });
}

#[test]
fn a_clock_that_was_set_back_says_nothing() {
    only_with(&[Bug::ClockTrusted, Bug::ChangedFilesTrusted], || {
        let resting = Resting::left(SyncMode::Durable);
        resting.edit_note(|(seconds, nanoseconds)| (seconds + 86_400, nanoseconds));
        let (host, started) = resting.start();
        let emptied =
            started.adoption == Adoption::Discarded && started.reason.contains("every file of which");
        held(&host) == [0; 3] && emptied
    });
}

/// The file system of a tablespace is put back to an earlier moment, with all times that it had then.
#[test]
fn a_directory_that_was_not_there_when_it_was_noted_is_an_older_one() {
    only_with(&[Bug::OlderDirectoryTrusted, Bug::ChangedFilesTrusted], || {
        let resting = Resting::left(SyncMode::Durable);
        let noted = resting.noted_moment();
        let clock = || {
            fs::write(resting.path("clock"), "").unwrap();
            let metadata = fs::metadata(resting.path("clock")).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        while clock() <= noted {}
        resting.edit_note(|_| clock());
        held(&resting.start().0) == [0; 3]
    });
}

#[test]
fn what_is_newer_than_a_changed_file_stays() {
    let (resting, host) = Resting::in_use(SyncMode::Durable);
    host.drop_range(&IdRange::relation(5, 1663, 1000)).unwrap();
    resting.write(&host, 1000, 0, 2);
    for block in BLOCKS {
        assert!(offer(&host, &PageId::relation(5, 1663, 1000, 0, SEGMENT_BLOCKS + block), &page(1), 1));
    }
    checkpoint(&host, 20);
    assert!(!host.close(false).unwrap().current);
    resting.change(FILES[0].0);
    resting.change(FILES[1].0);
    let (host, started) = resting.start();
    assert_eq!(held(&host), [BLOCKS.len(), 0, BLOCKS.len()]);
    assert_eq!((started.changed_pages, started.changed_files), (BLOCKS.len() as u64, 1));
    let mut out = page(0);
    host.read(&PageId::relation(5, 1663, 1000, 0, 0), &mut out);
    assert_eq!(out[0], 2);
}

#[test]
fn after_a_crash_nothing_was_noted() {
    let (resting, host) = Resting::in_use(SyncMode::Durable);
    drop(host);
    resting.change(FILES[0].0);
    let (host, started) = resting.start();
    assert_eq!((held(&host), started.changed_pages), (ALL, 0));
}

/// The power fails in each operation of flash in a start that drops the pages of so many files, and leaves
/// what it may; whether the next one drops them.
fn every_cut_is_survived(files: usize) -> bool {
    let changed = || {
        let resting = Resting::left(SyncMode::Durable);
        FILES[..files].iter().for_each(|(file, ..)| resting.change(file));
        resting
    };
    let mut expected = ALL;
    expected[..files].fill(0);
    let whole = changed();
    let before = whole.flash.power().operations();
    drop(whole.start());
    for operation in 1..=whole.flash.power().operations() - before {
        let resting = changed();
        resting.flash.power().crash_after(operation);
        drop(resting.try_start());
        resting.flash.power_cut(operation);
        resting.flash.power().restore();
        let (host, _) = resting.start();
        if held(&host) != expected {
            return false;
        }
        // Nor are they dropped twice: what comes in stays.
        resting.write(&host, 1000, 0, 3);
        checkpoint(&host, 20);
        drop(host);
        assert_eq!(held(&resting.start().0)[0], BLOCKS.len(), "{operation}");
    }
    true
}

#[test]
fn a_start_that_is_cut_off_is_made_up_for() {
    only_with(&[Bug::RestForgottenEarly, Bug::CurrentPageKept], || every_cut_is_survived(1));
}

#[test]
fn so_is_one_that_empties_the_tier() {
    only_with(&[Bug::RestForgottenEarly], || every_cut_is_survived(FILES.len()));
}
