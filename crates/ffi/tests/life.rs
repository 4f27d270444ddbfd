//! A server's life with the tier, from one start to the next: what is adopted, what is discarded, what is
//! refused.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use machine::{Machine, Relations, checkpoint, give_memory, id, page, read, start, write};
use mezzanine_engine::{Failure, IdRange, Position, RedoPoint, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Written;
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::{Adoption, Start};

mod machine;

#[test]
fn what_a_checkpoint_covered_is_there_after_a_crash() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, started) = machine.start(10).unwrap();
    assert_eq!(started.adoption, Adoption::Formatted);
    assert!(*machine.disk.marked.lock().unwrap(), "the disk alone does not suffice from now on");
    for block in 0..200 {
        assert_eq!(write(&host, block, 1), Written::Taken);
    }
    checkpoint(&host, 20);
    drop(host);
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Adopted);
    assert!((0..200).all(|block| read(&host, &machine, block) == Some(1)));
    assert!(machine.disk.pages.lock().unwrap().is_empty(), "the checkpoint wrote to flash only");
}

#[test]
fn a_crash_between_superblock_and_control_file_is_survived_either_way() {
    for redo in [20, 30] {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = machine.start(10).unwrap();
        write(&host, 1, 1);
        checkpoint(&host, 20);
        host.checkpoint_marked();
        host.checkpoint_written(false).unwrap();
        host.checkpoint_synced(RedoPoint { redo: 30, timeline: 1 }).unwrap();
        drop(host);
        let (host, started) = machine.start(redo).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted, "redo {redo}");
        assert_eq!(read(&host, &machine, 1), Some(1));
    }
}

#[test]
fn drained_checkpoints_need_no_flash() {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    assert!(!*machine.disk.marked.lock().unwrap());
    for block in 0..50 {
        write(&host, block, 1);
    }
    checkpoint(&host, 20);
    drop(host);
    fs::remove_file(machine.root.join("flash")).unwrap();
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Formatted);
    assert!((0..50).all(|block| read(&host, &machine, block) == Some(1)));
}

#[test]
fn a_drained_checkpoint_writes_to_disk_from_its_beginning_on() {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..200 {
        write(&host, block, 1);
    }
    host.checkpoint_marked();
    while host.work() {}
    let on_disk = |block| machine.disk.pages.lock().unwrap().get(id(block).as_bytes()).map(|page| page[0]);
    assert!((0..200).all(|block| on_disk(block) == Some(1)), "the workers drain while the pool is written");
    // Changed since the mark: not this checkpoint's. Written out by it: to be on disk at its end.
    write(&host, 1, 2);
    host.write(&id(2), &page(2), 2, None).unwrap();
    host.checkpoint_written(false).unwrap();
    assert_eq!((on_disk(1), on_disk(2)), (Some(1), Some(2)));
}

#[test]
fn a_drained_stop_leaves_a_warm_tier_and_a_current_disk() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..50 {
        write(&host, block, 1);
    }
    checkpoint(&host, 20);
    assert!(host.close(true).unwrap().current);
    assert!(!*machine.disk.marked.lock().unwrap());
    assert_eq!(machine.disk.pages.lock().unwrap().len(), 50);
    drop(host);
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(
        (started.adoption, started.recovery.valid, started.recovery.dirty),
        (Adoption::Adopted, 50, 0)
    );
    assert!(host.holds(&id(3)));
}

/// `pg_checksums --enable` writes checksums into the files of a server that was shut down. The redo pointer
/// stays as it was, and so the tier was adopted with pages that have none: the server found every one of them
/// damaged.
#[test]
fn pages_from_before_checksums_were_enabled_are_not_used() {
    let machine = Machine::new(SyncMode::Durable);
    let host = machine.open().unwrap();
    host.start(&Start { checksums: false, ..start(10) }).unwrap();
    write(&host, 1, 1);
    checkpoint(&host, 20);
    assert!(host.close(true).unwrap().current);
    drop(host);
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Formatted);
    assert!(!host.holds(&id(1)));
    assert_eq!(read(&host, &machine, 1), Some(1));
}

#[test]
fn what_is_dropped_or_overwritten_does_not_come_back() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..50 {
        write(&host, block, 1);
    }
    host.drop_range(&IdRange::fork_blocks(5, 1663, 1000, 0, 10, u64::MAX)).unwrap();
    host.overwrite(&id(3)).unwrap();
    assert_eq!(read(&host, &machine, 3), Some(1), "the version before the overwrite went to disk");
    checkpoint(&host, 20);
    drop(host);
    let (host, _) = machine.start(20).unwrap();
    assert!((10..50).all(|block| read(&host, &machine, block).is_none()));
    assert!(!host.holds(&id(3)));
    assert_eq!(read(&host, &machine, 4), Some(1));
}

#[test]
fn a_needed_tier_that_is_missing_foreign_or_older_is_refused() {
    let machine = Machine::new(SyncMode::Durable);
    let flash = machine.root.join("flash");
    let (host, _) = machine.start(10).unwrap();
    write(&host, 1, 1);
    checkpoint(&host, 20);
    drop(host);
    let whole = fs::read(&flash).unwrap();

    fs::remove_file(&flash).unwrap();
    let missing = machine.refusal(&start(20));
    assert!(missing.message.contains("is not on"), "{missing}");
    assert!(missing.hint.contains("mezzanine.flash_path"), "{missing}");

    let other = Machine::new(SyncMode::Durable);
    drop(other.start(10).unwrap());
    fs::copy(other.root.join("flash"), &flash).unwrap();
    let foreign = machine.refusal(&start(20));
    assert!(foreign.message.contains("not the one of this cluster"), "{foreign}");

    fs::write(&flash, &whole).unwrap();
    let older = machine.refusal(&start(99));
    assert!(older.message.contains("not of the same moment"), "{older}");
    assert!(machine.start(20).is_ok(), "a refusal has changed nothing");
}

/// A marker that somebody has removed took the knowledge with it that the files lack pages, though the
/// control file says so too: the server started on them with a new tier.
#[test]
fn a_tier_that_cannot_be_written_is_given_up_and_not_valid_again() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..200 {
        write(&host, block, 1);
    }
    checkpoint(&host, 20);
    write(&host, 1, 2);
    assert!(machine.disk.pages.lock().unwrap().is_empty());
    host.tier().report_failure(Failure::FlashWrite);
    assert_eq!(host.give_up().unwrap(), 200);
    let disk = |block| machine.disk.pages.lock().unwrap()[id(block).as_bytes()][0];
    assert_eq!((disk(0), disk(1)), (1, 2), "flash and staging memory were read");
    assert!(machine.disk.syncs.load(Ordering::SeqCst) > 0);
    assert!(!*machine.disk.marked.lock().unwrap(), "the disk alone suffices");
    drop(host);

    // The same redo point: no checkpoint has come between.
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Formatted, "{}", started.reason);
    assert!(!host.holds(&id(1)));
}

#[test]
fn a_failed_sync_ends_the_server_unless_the_disk_has_everything() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let machine = Machine::new(mode);
        let (host, _) = machine.start(10).unwrap();
        write(&host, 1, 1);
        host.drain_all().unwrap();
        host.tier().report_failure(Failure::FlashSync);
        assert_eq!(host.give_up().unwrap(), 0);
        drop(host);
        let (host, started) = machine.start(10).unwrap();
        assert_eq!(started.adoption, Adoption::Formatted);

        write(&host, 1, 2);
        checkpoint(&host, 20);
        write(&host, 1, 3);
        host.tier().report_failure(Failure::FlashSync);
        let refusal = host.give_up().unwrap_err();
        assert!(!refusal.hint.is_empty() && !refusal.detail.is_empty(), "{refusal}");
        drop(host);
        let adoption = machine.start(20).unwrap().1.adoption;
        let expected = if mode == SyncMode::Durable { Adoption::Adopted } else { Adoption::Formatted };
        assert_eq!(adoption, expected, "{mode:?}");
    }
}

#[test]
fn a_page_that_stage_out_cannot_read_ends_the_server() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let machine = Machine::new(mode);
        let (host, _) = machine.start(10).unwrap();
        checkpoint(&host, 20);
        write(&host, 1, 1);
        host.tier().report_failure(Failure::FlashRead { position: Position::ZERO.next() });
        let refusal = host.give_up().unwrap_err();
        let restart = if mode == SyncMode::Durable { "what is durable there" } else { "No page was lost" };
        assert!(refusal.detail.contains(restart), "{refusal}");
        drop(host);
        let adoption = machine.start(20).unwrap().1.adoption;
        let expected = if mode == SyncMode::Durable { Adoption::Adopted } else { Adoption::Formatted };
        assert_eq!(adoption, expected, "{mode:?}");
    }
}

#[test]
fn a_position_in_the_log_is_one_of_a_timeline() {
    let on = |timeline| Start { redo: RedoPoint { redo: 20, timeline }, ..start(20) };
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let machine = Machine::new(mode);
        let (host, _) = machine.start(10).unwrap();
        write(&host, 1, 1);
        checkpoint(&host, 20);
        drop(host);
        if mode == SyncMode::Durable {
            let other = machine.refusal(&on(2));
            assert!(other.message.contains("not of the same moment"), "{other}");
            assert!(other.detail.contains("0/14 on timeline 2"), "{other}");
            assert!(other.detail.contains("0/14 on timeline 1"), "{other}");
            assert_eq!(machine.start(20).unwrap().1.adoption, Adoption::Adopted);
        } else {
            let host = machine.open().unwrap();
            assert_eq!(host.start(&on(2)).unwrap().adoption, Adoption::Discarded);
        }
    }
}

#[test]
fn a_tier_of_before_timelines_were_stored_is_compared_by_position_alone() {
    let machine = Machine::new(SyncMode::Durable);
    let host = machine.open().unwrap();
    host.start(&Start { redo: RedoPoint { redo: 10, timeline: 0 }, ..start(10) }).unwrap();
    drop(host);
    assert_eq!(machine.start(10).unwrap().1.adoption, Adoption::Adopted);
    assert!(machine.refusal(&start(11)).message.contains("not of the same moment"));
}

#[test]
fn the_control_file_knows_without_the_marker() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    write(&host, 1, 1);
    checkpoint(&host, 20);
    drop(host);
    let flash = machine.root.join("flash");
    fs::rename(&flash, machine.root.join("away")).unwrap();
    fs::remove_file(machine.settings().data_directory.join("mezzanine.tier")).unwrap();
    let lacking = Start { files_lack_pages: true, ..start(20) };
    let refused = machine.refusal(&lacking);
    assert!(refused.message.contains("does not have the pages"), "{refused}");
    assert!(refused.hint.contains("mezzanine.tier"), "{refused}");
    let restored = Start { from_backup: true, ..lacking };
    assert_eq!(machine.open().unwrap().start(&restored).unwrap().adoption, Adoption::Formatted);
}

#[test]
fn a_restored_backup_does_not_use_or_destroy_the_tier_of_before() {
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    write(&host, 1, 1);
    checkpoint(&host, 20);
    drop(host);
    // Where redo of the backup begins where the tier was last used, too.
    let restored = Start { from_backup: true, ..start(15) };
    for restored in [restored, Start { from_backup: true, ..start(20) }] {
        let refused = machine.refusal(&restored);
        assert!(refused.message.contains("may hold the only copy"), "{refused}");
    }
    fs::remove_file(machine.root.join("flash")).unwrap();
    let host = machine.open().unwrap();
    assert_eq!(host.start(&restored).unwrap().adoption, Adoption::Formatted);
}

#[test]
fn a_path_that_cannot_be_used_is_refused_before_anything_is_touched() {
    let machine = Machine::new(SyncMode::Durable);
    let with = |path: PathBuf| {
        let settings = Settings { flash_path: path, ..machine.settings() };
        match Host::open(settings, None, Box::new(Relations(Arc::default()))) {
            Ok(_) => panic!("a path that must not be used"),
            Err(refusal) => refusal,
        }
    };
    assert!(with("flash".into()).message.contains("not absolute"));
    assert!(with(machine.root.join("data/flash")).message.contains("in the data directory"));
    assert!(with(machine.root.join("nowhere/flash")).message.contains("cannot be used"));
    let open = machine.root.join("open");
    fs::write(&open, b"").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(with(open.clone()).message.contains("by group or others"));
    let link = machine.root.join("link");
    std::os::unix::fs::symlink(&open, &link).unwrap();
    assert!(with(link).message.contains("symbolic link"));
    let other = machine.root.join("letter");
    fs::write(&other, [b'x'; 9000]).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = Settings { flash_path: other.clone(), ..machine.settings() };
    let mut host = Host::open(settings, None, Box::new(Relations(Arc::default()))).unwrap();
    host.lock_device().unwrap();
    give_memory(&mut host);
    let refused = host.start(&start(1)).unwrap_err();
    assert!(refused.message.contains("no flash tier"), "{refused}");
    assert_eq!(fs::read(&other).unwrap(), [b'x'; 9000]);
}

#[test]
fn a_path_in_a_tablespace_or_beside_the_log_is_refused() {
    let machine = Machine::new(SyncMode::Durable);
    let with = |path: PathBuf| Settings { flash_path: path, ..machine.settings() }.check_path();
    for (link, place) in [("data/pg_tblspc/16384", "space"), ("data/pg_wal", "wal")] {
        let real = machine.root.join(place);
        fs::create_dir(&real).unwrap();
        assert!(with(real.join("flash")).is_ok());
        let link = machine.root.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&real, link).unwrap();
        let refused = with(real.join("flash")).unwrap_err();
        assert!(refused.message.contains("lies in the"), "{refused}");
        assert!(refused.hint.contains("all tablespaces"), "{refused}");
    }
    assert!(with(machine.root.join("flash")).is_ok());
}

#[test]
fn sizes_that_cannot_be_used_say_which_can() {
    let machine = Machine::new(SyncMode::Durable);
    let with = |flash_mb: u64, group_pages: u32, page_bytes: u32| {
        Settings { flash_bytes: flash_mb << 20, group_pages, page_bytes, ..machine.settings() }.tier_config()
    };
    for page_bytes in [4096, 8192, 32_768] {
        for group_pages in [0, 1, 2, 64, 255, 256] {
            let Some(least) = (1..600).find(|flash_mb| with(*flash_mb, group_pages, page_bytes).is_ok())
            else {
                panic!("600 MB are too little for groups of {group_pages} pages of {page_bytes} bytes")
            };
            let told = format!("{least}MB");
            for less in 1..least {
                let refused = with(less, group_pages, page_bytes).unwrap_err();
                assert!(refused.message.contains("mezzanine.flash_size is too small"), "{refused}");
                assert!(refused.to_string().contains(&told), "{refused}, but {told} suffice");
            }
            for flash_mb in [least, 2 * least, 1000, 10_000] {
                let config = with(flash_mb, group_pages, page_bytes).unwrap();
                let flash_bytes = config.geometry().unwrap().flash_bytes();
                assert!(flash_bytes <= flash_mb << 20, "{flash_bytes} bytes are used of {flash_mb} MB");
                let unused = (flash_mb << 20) - flash_bytes;
                assert!(unused < 9 << 20, "{unused} bytes are not used of {flash_mb} MB: {config:?}");
                assert!(group_pages == 0 || config.group_pages == group_pages);
            }
        }
    }
    let refused = with(1 << 40, 0, 8192).unwrap_err();
    assert!(refused.message.contains("larger than a flash tier can be"), "{refused}");
}

#[test]
fn a_new_tier_has_all_of_its_space() {
    use std::os::unix::fs::MetadataExt;
    let machine = Machine::new(SyncMode::Durable);
    let (host, _) = machine.start(10).unwrap();
    let flash = fs::metadata(machine.root.join("flash")).unwrap();
    assert_eq!(flash.len(), host.geometry().flash_bytes());
    assert!(flash.blocks() * 512 >= flash.len(), "{} blocks of {} bytes", flash.blocks(), flash.len());
}

/// Writes versions of 1,500 pages until the resize has taken effect; returns the last version.
fn turn(host: &Host) -> u8 {
    for version in 1..100 {
        for block in 0..1500 {
            write(host, block, version);
        }
        if host.tier().resize_progress().is_none() {
            return version;
        }
    }
    panic!("the queue has come round many times, and the resize waits: {:?}", host.tier().resize_progress());
}

#[test]
fn a_tier_grows_and_shrinks_and_keeps_what_it_has() {
    use std::os::unix::fs::MetadataExt;
    let mut machine = Machine::new(SyncMode::Durable);
    (machine.flash_mb, machine.flash_mb_max) = (16, 64);
    let (host, _) = machine.start(10).unwrap();
    let taken = || fs::metadata(machine.root.join("flash")).unwrap().blocks() * 512;
    let (small, taken_small) = (host.tier().frames(), taken());
    assert!(taken_small < 18 << 20, "{taken_small} bytes are taken");

    let refused = host.resize(65 << 20).unwrap_err();
    assert!(
        refused.message.contains("cannot grow to 65MB") && refused.hint.contains("flash_size_max"),
        "{refused}"
    );
    let refused = host.resize(2 << 20).unwrap_err();
    assert!(refused.message.contains("cannot shrink to 2MB"), "{refused}");
    assert!(host.resize(1).is_err());

    host.resize(64 << 20).unwrap();
    assert!(taken() >= 63 << 20, "{} bytes are taken before they are used", taken());
    let version = turn(&host);
    let large = host.tier().frames();
    assert!(large > 3 * small, "{small} frames became {large}");
    assert!((0..1500).all(|block| read(&host, &machine, block) == Some(version)));
    checkpoint(&host, 20);
    drop(host);

    // After a crash the tier is as large as it was made, whatever is configured: it has the only copies.
    let (host, started) = machine.start(20).unwrap();
    assert_eq!((started.adoption, host.tier().frames()), (Adoption::Adopted, large));
    assert!((0..1500).all(|block| read(&host, &machine, block) == Some(version)));

    host.resize(32 << 20).unwrap();
    let version = turn(&host);
    let middle = host.tier().frames();
    assert!(small < middle && middle < large, "{middle} frames");
    assert!(taken() < 40 << 20, "{} bytes are still taken", taken());
    assert!((0..1500).all(|block| read(&host, &machine, block) == Some(version)));
    checkpoint(&host, 30);
    assert!(host.close(true).unwrap().current);
    drop(host);

    // With the new size configured it stays warm; with another it is made anew.
    machine.flash_mb = 32;
    let (host, started) = machine.start(30).unwrap();
    assert_eq!((started.adoption, host.tier().frames()), (Adoption::Adopted, middle));
    assert!((0..1500).all(|block| read(&host, &machine, block) == Some(version)));
    assert!(host.close(true).unwrap().current);
    drop(host);
    machine.flash_mb = 16;
    let (host, started) = machine.start(30).unwrap();
    assert_eq!((started.adoption, host.tier().frames()), (Adoption::Formatted, small));
    assert!((0..1500).all(|block| read(&host, &machine, block) == Some(version)));
}

#[test]
fn a_resize_that_was_not_finished_is_forgotten() {
    let mut machine = Machine::new(SyncMode::Durable);
    machine.flash_mb_max = 32;
    let (host, _) = machine.start(10).unwrap();
    let frames = host.tier().frames();
    write(&host, 1, 1);
    host.resize(32 << 20).unwrap();
    write(&host, 1, 2);
    checkpoint(&host, 20);
    assert!(host.tier().resize_progress().is_some());
    assert!(host.close(true).unwrap().current);
    drop(host);
    let (host, started) = machine.start(20).unwrap();
    assert_eq!((started.adoption, host.tier().frames()), (Adoption::Adopted, frames));
    assert_eq!(read(&host, &machine, 1), Some(2));
}

#[test]
fn a_device_in_use_is_refused() {
    let machine = Machine::new(SyncMode::Durable);
    let (_host, _) = machine.start(10).unwrap();
    let refused = machine.open().err().expect("a device in use");
    assert!(refused.hint.contains("Another server"), "{refused}");
}

#[test]
fn a_device_that_another_server_has_changed_meanwhile_is_refused() {
    let mut machine = Machine::new(SyncMode::Durable);
    let relations = Box::new(Relations(Arc::clone(&machine.disk)));
    let mut looked = Host::open(machine.settings(), None, relations).unwrap();
    machine.flash_mb = 32;
    drop(machine.start(10).unwrap());
    let refused = looked.lock_device().unwrap_err();
    assert!(refused.message.contains("was changed while the server started"), "{refused}");
}

/// The old size was taken silently once, and the new one was missed when somebody asked for it.
#[test]
fn a_tier_that_keeps_its_size_after_a_crash_says_so_and_works_on() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        for (flash_mb, flash_mb_max) in [(32, 0), (8, 0), (16, 64)] {
            let mut machine = Machine::new(mode);
            let (host, started) = machine.start(10).unwrap();
            assert_eq!(started.sizes_kept, "");
            let frames = host.tier().frames();
            write(&host, 1, 1);
            checkpoint(&host, 20);
            drop(host);

            (machine.flash_mb, machine.flash_mb_max) = (flash_mb, flash_mb_max);
            let (host, started) = machine.start(20).unwrap();
            assert_eq!((started.adoption, host.tier().frames()), (Adoption::Adopted, frames));
            let told = &started.sizes_kept;
            assert!(told.starts_with("It has 16MB, at most 16MB in groups of "), "{told}");
            let most = flash_mb.max(flash_mb_max);
            assert!(told.ends_with(&format!("configured are {flash_mb}MB, at most {most}MB.")), "{told}");
            // It does all that a tier of its size does, and says what to do for more.
            for block in 0..3000 {
                write(&host, block, 2);
            }
            let refused = host.resize(64 << 20).unwrap_err();
            assert_eq!(refused.hint.starts_with("Shut"), flash_mb_max == 64, "{refused}");
            checkpoint(&host, 30);
            assert!(host.close(true).unwrap().current);
            drop(host);
            let (host, started) = machine.start(30).unwrap();
            assert_eq!((started.adoption, started.sizes_kept.as_str()), (Adoption::Formatted, ""));
            assert!((0..3000).all(|block| read(&host, &machine, block) == Some(2)));
        }
    }
}
