//! What a server that does not start tells people to do: nobody is sent to a backup who needs none.
#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::Arc;

use machine::{Kept, Machine, Relations, checkpoint, give_memory, start, write};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::SyncMode;
use mezzanine_ffi::host::Host;
use mezzanine_ffi::marker::MarkerStore;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::startup::{Start, Started};

mod machine;

/// A data directory whose disk gives nothing back.
struct Unread;

impl MarkerStore for Unread {
    fn describe(&self) -> String {
        "mezzanine.tier".to_owned()
    }

    fn read(&self) -> io::Result<Option<String>> {
        Err(io::Error::from_raw_os_error(5))
    }

    fn replace(&self, _text: &str) -> io::Result<()> {
        Ok(())
    }
}

fn host(machine: &Machine, flash: &Arc<MemoryDevice>, marker: Box<dyn MarkerStore>) -> Host {
    let server = Box::new(Relations(Arc::clone(&machine.disk)));
    let mut host = Host::on_device(machine.settings(), flash.clone(), marker, server).unwrap();
    give_memory(&mut host);
    host
}

fn started(
    machine: &Machine,
    flash: &Arc<MemoryDevice>,
    marker: Box<dyn MarkerStore>,
) -> Result<Started, Refusal> {
    let files_lack_pages = *machine.disk.marked.lock().unwrap();
    host(machine, flash, marker).start(&Start { files_lack_pages, ..start(20) })
}

#[test]
fn a_marker_that_cannot_be_read_just_now_needs_no_backup() {
    let machine = Machine::new(SyncMode::Durable);
    let flash = Arc::new(MemoryDevice::new(16 << 20));
    let refusal = started(&machine, &flash, Box::new(Unread)).unwrap_err();
    assert!(refusal.message.contains("cannot be read"), "{refusal}");
    assert!(refusal.hint.contains("start the server again") && !refusal.hint.contains("backup"), "{refusal}");
}

#[test]
fn a_device_that_fails_needs_a_backup_only_if_it_holds_what_is_needed() {
    for needed in [false, true] {
        let machine = Machine::new(SyncMode::Durable);
        let (flash, marker) = (Arc::new(MemoryDevice::new(16 << 20)), Kept::default());
        if needed {
            let host = host(&machine, &flash, Box::new(marker.clone()));
            host.start(&start(10)).unwrap();
            write(&host, 1, 1);
            checkpoint(&host, 20);
        }
        for operation in 1..6 {
            flash.power().crash_after(operation);
            let refusal = started(&machine, &flash, Box::new(marker.clone())).unwrap_err();
            flash.power_cut(1);
            flash.power().restore();
            assert!(refusal.hint.contains("start the server again"), "{operation}: {refusal}");
            assert_eq!(refusal.hint.contains("backup"), needed, "{operation}: {refusal}");
        }
    }
}

/// The marker of a directory may be another server's, as after `pg_rewind`. Where the control file is not
/// marked the files have everything, and it is the marker that is to go.
#[test]
fn a_directory_that_lacks_no_pages_needs_no_backup() {
    let tier = |redo| {
        let machine = Machine::new(SyncMode::Durable);
        let (flash, marker) = (Arc::new(MemoryDevice::new(16 << 20)), Kept::default());
        let host = host(&machine, &flash, Box::new(marker.clone()));
        host.start(&start(10)).unwrap();
        write(&host, 1, 1);
        checkpoint(&host, redo);
        drop(host);
        (machine, flash, marker)
    };
    for lack_pages in [false, true] {
        let (machine, _, marker) = tier(20);
        let (_, anothers, _) = tier(20);
        *machine.disk.marked.lock().unwrap() = lack_pages;
        for flash in [Arc::new(MemoryDevice::new(16 << 20)), anothers] {
            let refusal = started(&machine, &flash, Box::new(marker.clone())).unwrap_err();
            assert!(refusal.message.contains("of this cluster"), "{refusal}");
            assert_eq!(refusal.hint.contains("backup"), lack_pages, "{refusal}");
            assert_eq!(refusal.hint.contains("remove \"mezzanine.tier\""), !lack_pages, "{refusal}");
        }
    }
}
