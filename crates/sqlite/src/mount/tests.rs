#![allow(clippy::unwrap_used)]

use mezzanine_engine::planted::{Bug, only_with};

use super::opening::open_waiting;
use super::*;
use crate::database_file::Acquired;
use crate::params::Params;

/// Other databases of the process could not be opened or closed while one was waited for that another process
/// had, 63 ms in all, and for seconds where several threads asked for it.
#[test]
fn a_lock_is_awaited_with_nothing_in_hand() {
    only_with(&[Bug::LockAwaitedInRegistry], || {
        let path = std::env::temp_dir().join(format!("mezzanine-{}-held.db", std::process::id()));
        fs::write(&path, []).unwrap();
        let wish = Wish { writable: true, create: false, exclusive: false };
        // Of a descriptor of its own, like that of another process.
        let Ok(Acquired::Locked(held)) = ProcessLock::acquire(&path, wish) else { return false };
        let params = Params { flash: Some(path.with_extension("mezz")), ..Params::default() };
        let (mut waits, mut free) = (0, 0);
        let opened = open_waiting(&path, wish, None, &params, |_| {
            waits += 1;
            free += u32::from(OfProcess::here().registry_can_be_had());
        });
        drop(held);
        fs::remove_file(&path).unwrap();
        assert!(opened.is_err_and(|error| error.to_string().contains("in use by")) && waits > 1);
        free == waits
    });
}

/// Two databases on a tier, which is closed.
fn two_databases(name: &str) -> (PathBuf, [PathBuf; 2], Params) {
    let folder = std::env::temp_dir().join(format!("mezzanine-{}-{name}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let paths = ["app.db", "other.db"].map(|name| folder.join(name));
    let flash = Some(folder.join("flash.mezz"));
    let params = Params { flash, flash_bytes: Some(640 * 1024), ..Params::default() };
    let both = paths.each_ref().map(|path| open(path, MADE, None, &params).unwrap());
    for database in &both {
        let file = database.mount().volume.file(database.path()).unwrap();
        file.write_at(&[1; 4096], 0).unwrap();
    }
    both.into_iter().for_each(|database| close(database).unwrap());
    (folder, paths, params)
}

const MADE: Wish = Wish { writable: true, create: true, exclusive: false };

/// The lock of another process.
fn held(path: &Path) -> ProcessLock {
    match ProcessLock::acquire(path, MADE).unwrap() {
        Acquired::Locked(lock) => lock,
        Acquired::HeldElsewhere => panic!("nobody has it"),
    }
}

/// Nor while the other databases of a tier are waited for.
#[test]
fn nor_are_the_other_databases_of_a_tier() {
    let (folder, [app, other], params) = two_databases("others");
    let held = held(&other);
    let (mut waits, mut free) = (0, 0);
    let opened = open_waiting(&app, MADE, None, &params, |_| {
        waits += 1;
        free += u32::from(OfProcess::here().registry_can_be_had());
    });
    assert!(waits > 1 && free == waits, "{free} of {waits}");
    let opened = opened.unwrap();
    assert_eq!(opened.mount().volume.unattached(), [other]);
    drop(held);
    close(opened).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

/// A database that is new to a tier needs all others, and those are waited for as well.
#[test]
fn a_new_database_waits_for_the_others() {
    let (folder, [_, other], params) = two_databases("new");
    let new = folder.join("new.db");
    let refused = {
        let _held = held(&other);
        open_waiting(&new, MADE, None, &params, |_| ()).err().unwrap()
    };
    assert!(refused.to_string().contains("other.db") && !new.exists(), "{refused}");
    let mut held = Some(held(&other));
    let opened = open_waiting(&new, MADE, None, &params, |_| drop(held.take())).unwrap();
    assert!(opened.mount().volume.unattached().is_empty());
    close(opened).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}
