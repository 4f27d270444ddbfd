#![allow(clippy::unwrap_used)]

use mezzanine_engine::planted::only_with;

use super::*;

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
            free += u32::from(OfProcess::here().registry_is_free());
        });
        drop(held);
        fs::remove_file(&path).unwrap();
        assert!(opened.is_err_and(|error| error.to_string().contains("in use by")) && waits > 1);
        free == waits
    });
}
