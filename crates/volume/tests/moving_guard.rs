//! The head of a file takes its place on disk again while somebody looks there.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::slow::{Held, Slow};
use common::{Backing, durable, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_engine::planted::{self, Bug, only_with, set};
use mezzanine_volume::{AttachOptions, SyncMode};

/// A database that was opened beside a switch of the sync mode was refused as written over by another
/// program: the head was on disk, and the sync of it not done yet.
#[test]
fn head_and_guard_are_looked_at_together() {
    only_with(&[Bug::MovingGuardSeen], || {
        let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
        let guard = backing.guard.clone().unwrap().bytes;
        let disk = Slow::new(&backing.disk);
        backing.disk.write_at(&page(0, 1), 0).unwrap();
        let volume = open(&flash, &durable());
        let options = AttachOptions { guard: backing.guard.clone() };
        let file = volume.attach(&backing.path, disk.clone(), backing.sidecar.clone(), options).unwrap();
        file.write_at(&page(0, 2), 0).unwrap();
        file.sync().unwrap();
        let head = || {
            let mut head = vec![0; guard.len()];
            backing.disk.read_at(&mut head, 0).unwrap();
            head
        };
        assert!(file.is_guarded() && head() == guard);

        disk.hold(Held::Flushes);
        let bug = planted::is(Bug::MovingGuardSeen).then_some(Bug::MovingGuardSeen);
        std::thread::scope(|scope| {
            let switch = scope.spawn(|| volume.set_sync_mode(SyncMode::Through).unwrap());
            while head() == guard {
                assert!(!switch.is_finished(), "the head was never seen");
                disk.wait_until_one_hangs();
                disk.let_one_go();
                while !disk.hangs() && !switch.is_finished() {
                    std::thread::yield_now();
                }
            }
            // The head is on disk, and its sync hangs.
            let (told, hears) = mpsc::channel();
            let (file, head) = (&file, &head);
            let look = scope.spawn(move || {
                set(bug);
                let seen = file.look_at_head(head);
                set(None);
                let _ = told.send(());
                seen
            });
            let _ = hears.recv_timeout(Duration::from_millis(100));
            disk.hold(Held::Nothing);
            let (seen, guarded) = look.join().unwrap();
            (seen == guard) == guarded
        })
    });
}
