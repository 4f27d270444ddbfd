//! Files that a tier is told to forget.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, durable, formatted, open, page};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_engine::planted::{self, Bug};

/// Whether a tier that could not write its device forgets a file when it is asked once more, and the others
/// go on.
fn can_be_repeated() -> bool {
    let flash = formatted(&durable());
    let (kept, gone) = (Backing::new("kept"), Backing::new("gone"));
    let volume = open(&flash, &durable());
    for backing in [&kept, &gone] {
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
        file.sync().unwrap();
    }
    drop(volume);
    let volume = open(&flash, &durable());
    let file = kept.attach(&volume).unwrap();
    let paths = volume.unattached();
    assert_eq!(paths.len(), 1);
    // The start of the opening, and then the names of files.
    volume.begin().unwrap();
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Write, after: 0, count: 1, fault });
    volume.forget(&paths).unwrap_err();
    if volume.unattached() != paths {
        return false;
    }
    volume.forget(&paths).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    file.sync().unwrap();
    volume.close().unwrap();
    true
}

/// Was found by reading: nobody waited for the file any more, no job was carried out, and the next sync never
/// ended.
#[test]
fn a_forgetting_that_fails_has_changed_nothing_and_can_be_repeated() {
    planted::only_with(&[Bug::ForgottenBeforeWritten], can_be_repeated);
}
