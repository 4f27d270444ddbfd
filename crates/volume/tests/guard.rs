//! While a guarded file is not current on disk, others find the guard there; readers of the volume never do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_device::Device;
use mezzanine_volume::{SidecarStore, Volume};

fn begins_with_guard(backing: &Backing) -> bool {
    let guard = backing.guard.clone().unwrap().bytes;
    backing.disk.inspect(|disk| disk.starts_with(&guard))
}

#[test]
fn it_stands_exactly_while_the_file_is_not_current() {
    let flash = formatted(&durable());
    let backing = Backing::guarded("a");
    backing.disk.write_at(&page(0, 1), 0).unwrap();
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(!begins_with_guard(&backing), "reading alone changes nothing");
    file.write_at(&page(1, 1), PAGE as u64).unwrap();
    assert!(begins_with_guard(&backing));
    file.read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1));
    volume.close().unwrap();
    assert!(begins_with_guard(&backing), "a closed tier still holds the newest pages");
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1));
    volume.close_drained().unwrap();
    backing.disk.inspect(|disk| assert!(disk == [page(0, 1), page(1, 1)].concat()));
    assert!(backing.sidecar.read().unwrap().is_none());
}

#[test]
fn the_first_page_goes_to_disk_under_the_guard_and_comes_back_whole() {
    let flash = formatted(&durable());
    let backing = Backing::guarded("a");
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 7), 0).unwrap();
    file.sync().unwrap();
    // The first page leaves the queue, and its disk copy is all that is left.
    for n in 1..400 {
        file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    assert!(begins_with_guard(&backing));
    backing.disk.inspect(|disk| assert!(disk[100..PAGE] == page(0, 7)[100..], "it was not staged out"));
    drop(volume);
    flash.power_cut(1);
    backing.disk.power_cut(2);
    let volume = open(&flash, &durable());
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 7));
    assert_eq!(volume.statistics().page_misses, 1, "it must come from disk and sidecar");
}

#[test]
fn through_needs_none() {
    let flash = formatted(&through());
    let backing = Backing::guarded("a");
    let volume = open(&flash, &through());
    backing.attach(&volume).unwrap().write_at(&page(0, 1), 0).unwrap();
    assert!(!begins_with_guard(&backing));
    drop(volume);
    let volume = Volume::without_tier();
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1));
}
