//! A data directory or a flash device of an earlier moment is put back, or those of two clones are exchanged,
//! with no checkpoint in between: identifiers and redo points are the same in all of them.
#![allow(clippy::unwrap_used, missing_docs)]

use lasting::{APART, BLOCKS, Directory, in_use, write_all};
use machine::checkpoint;
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::startup::Adoption;

mod flash;
mod lasting;
mod machine;

const MODES: [SyncMode; 3] = [SyncMode::Durable, SyncMode::Drained, SyncMode::Through];

/// The rules without which this is not noticed in a mode. A tier that never has only copies is emptied after
/// every crash.
fn needed_in(mode: SyncMode) -> &'static [Bug] {
    if mode == SyncMode::Through { &[] } else { &[Bug::SessionUnchecked] }
}

/// The directory is copied while the server is down, the server writes version 2, and the directory is put
/// back: whether that is refused where flash may have the only copies, and else the tier is emptied.
fn a_cold_copy_is_noticed(mode: SyncMode) -> bool {
    let lasting = in_use(mode);
    let copy = lasting.directory();
    let host = lasting.start(20);
    write_all(&host, 2);
    drop(host);
    let newest = lasting.directory();
    lasting.put_back(&copy);
    let noticed = match lasting.try_start(20) {
        Err(refusal) => {
            assert!(refusal.message.contains(APART), "{refusal}");
            assert!(
                refusal
                    .detail
                    .contains("the data directory is the older one, for the tier was used in a later"),
                "{refusal}"
            );
            assert!(refusal.message.contains("flash") && !refusal.hint.is_empty(), "{refusal}");
            mode == SyncMode::Durable
        }
        Ok((host, started)) => {
            started.adoption == Adoption::Discarded
                && mode != SyncMode::Durable
                && lasting.with_version(&host, 2) == 0
        }
    };
    if mode == SyncMode::Durable && noticed {
        // Put right again, it starts as if nothing had happened.
        lasting.put_back(&newest);
        let (host, started) = lasting.try_start(20).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted);
        assert_eq!(lasting.with_version(&host, 2), BLOCKS as usize);
    }
    noticed
}

#[test]
fn an_older_directory_is_noticed_without_a_checkpoint_in_between() {
    for mode in MODES {
        only_with(needed_in(mode), || a_cold_copy_is_noticed(mode));
    }
}

#[test]
fn older_flash_of_another_session_is_noticed() {
    only_with(&[Bug::SessionUnchecked], || {
        let lasting = in_use(SyncMode::Durable);
        let copy = lasting.flash.image();
        let host = lasting.start(20);
        write_all(&host, 2);
        host.drain_all().unwrap();
        drop(host);
        lasting.flash.load(&copy);
        let refusal = lasting.refusal(20);
        refusal.is_some_and(|refusal| refusal.detail.contains("the tier is the older one, or was used with"))
    });
}

#[test]
fn clones_that_have_exchanged_their_flash_are_noticed() {
    for mode in MODES {
        only_with(needed_in(mode), || {
            let [one, other] = [0, 1].map(|_| in_use(mode));
            other.flash.load(&one.flash.image());
            other.put_back(&one.directory());
            // Each goes on, as often as the other.
            for (lasting, version) in [(&one, 2), (&other, 3)] {
                let host = lasting.start(20);
                write_all(&host, version);
                drop(host);
            }
            let (images, disks) = ([one.flash.image(), other.flash.image()], [2, 3]);
            one.flash.load(&images[1]);
            other.flash.load(&images[0]);
            [&one, &other].into_iter().zip(disks).all(|(lasting, own)| match lasting.try_start(20) {
                Err(refusal) => {
                    assert!(refusal.detail.contains("that the other does not know"), "{refusal}");
                    mode == SyncMode::Durable
                }
                Ok((host, started)) => {
                    started.adoption == Adoption::Discarded && lasting.with_version(&host, 5 - own) == 0
                }
            })
        });
    }
}

/// A copy from before the last shutdown, which brought the files up to date.
#[test]
fn a_drained_tier_is_emptied_unless_the_directory_lacks_pages() {
    for lacks in [false, true] {
        let lasting = in_use(SyncMode::Durable);
        let lacking = lasting.directory();
        assert!(lasting.start(20).close(true).unwrap().current);
        let complete = lasting.directory();
        let host = lasting.start(20);
        write_all(&host, 2);
        assert!(host.close(true).unwrap().current);
        drop(host);
        lasting.put_back(if lacks { &lacking } else { &complete });
        if lacks {
            // The control file may be without the mark.
            *lasting.machine.disk.marked.lock().unwrap() = false;
            let refusal = lasting.refusal(20).unwrap();
            assert!(refusal.message.contains(APART), "{refusal}");
        } else {
            let (host, started) = lasting.try_start(20).unwrap();
            assert_eq!(started.adoption, Adoption::Discarded, "{}", started.reason);
            assert_eq!(lasting.with_version(&host, 1), BLOCKS as usize);
        }
    }
}

/// The redo point alone is enough to tell, and the directory lacks pages that no tier has any more.
#[test]
fn a_directory_that_lacks_pages_is_not_started_with_a_drained_tier_of_later() {
    let lasting = in_use(SyncMode::Durable);
    let lacking = lasting.directory();
    let host = lasting.start(20);
    checkpoint(&host, 30);
    assert!(host.close(true).unwrap().current);
    drop(host);
    let session = |text: &str| text.lines().find(|line| line.starts_with("session")).map(str::to_owned);
    let newest = lasting.marker.0.lock().unwrap().clone().unwrap();
    let older = lacking.marker.clone().unwrap();
    let mixed = machine::editable(&older).replace(&session(&older).unwrap(), &session(&newest).unwrap());
    lasting.put_back(&Directory { marker: Some(mixed), files_lack_pages: false, ..lacking });
    let refusal = lasting.refusal(20).unwrap();
    assert!(refusal.message.contains(APART) && refusal.detail.contains("redo begins at"), "{refusal}");
}

/// Directory and tier were last used by a server that drew no nonces.
#[test]
fn a_directory_and_a_tier_without_sessions_fit_each_other_alone() {
    let lasting = in_use(SyncMode::Durable);
    let without = |text: &str| {
        let text = machine::editable(text);
        let lines = text.lines().filter(|line| !line.starts_with("session") && !line.starts_with("epoch"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let newest = lasting.directory();
    let before = Directory { marker: newest.marker.as_deref().map(without), ..newest.clone() };
    lasting.put_back(&before);
    let refusal = lasting.refusal(20).unwrap();
    assert!(refusal.detail.contains("its marker names no session"), "{refusal}");

    let superblock = lasting.superblock();
    let unnamed = Superblock { sessions: Default::default(), nonces: Default::default(), ..superblock };
    lasting.put_superblock(&unnamed);
    let host = lasting.start(20);
    assert_eq!(lasting.with_version(&host, 1), BLOCKS as usize);
    drop(host);
    assert_ne!(lasting.superblock().sessions, unnamed.sessions);
    lasting.put_back(&before);
    assert!(lasting.refusal(20).is_some());

    let again = in_use(SyncMode::Durable);
    again.put_superblock(&Superblock { sessions: Default::default(), ..again.superblock() });
    assert!(again.refusal(20).unwrap().message.contains(APART));
}

/// Starts that are cut off never part a directory from its tier, however many there are, and never let an
/// older directory pass.
#[test]
fn starts_that_fail_keep_directory_and_tier_together() {
    let lasting = in_use(SyncMode::Durable);
    let copy = lasting.directory();
    for operation in (1..12).chain(1..12).rev() {
        lasting.flash.power().crash_after(operation);
        let _ = lasting.try_start(20);
        lasting.flash.power_cut(operation);
        lasting.flash.power().restore();
    }
    let host = lasting.start(20);
    assert_eq!(lasting.with_version(&host, 1), BLOCKS as usize);
    drop(host);
    lasting.put_back(&copy);
    assert!(lasting.refusal(20).unwrap().message.contains(APART));
}
