//! Every kind of device: a flush that fails is seen by all who waited for it, and nothing counts as durable
//! after it. Files, whose failures need a look inside, are tested beside their code.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Barrier};

use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Attachment, Device, DeviceErrorKind, Drive, Request, model};

/// Two threads write and flush; the first flush to come fails, as the kernel reports a lost write: once.
fn seen_by_both(device: &dyn Device, memory: &MemoryDevice) {
    memory.inject(Injection {
        operation: Operation::Flush,
        after: 0,
        count: 1,
        fault: Fault::Error(DeviceErrorKind::Io),
    });
    let written = Barrier::new(2);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let flush = |caller: u64| {
            let written = &written;
            scope.spawn(move || {
                device.write_at(&[7; 4096], caller * 4096).unwrap();
                written.wait();
                if caller == 0 { device.flush() } else { device.run(&mut [Request::Flush]).remove(0) }
            })
        };
        [flush(0), flush(1)].map(|caller| caller.join().unwrap()).into()
    });
    let name = device.describe();
    assert!(outcomes.iter().all(Result::is_err), "{name}: {outcomes:?}");
    for later in [device.flush(), device.write_at(&[8; 4096], 0)] {
        assert_eq!(later.unwrap_err().kind(), DeviceErrorKind::FlushFailed, "{name}");
    }
    let mut back = [0; 4096];
    device.read_at(&mut back, 0).unwrap();
    assert_eq!(back, [7; 4096], "{name}");
}

#[test]
fn a_simulated_drive() {
    for _ in 0..50 {
        let memory = MemoryDevice::new(1 << 16);
        seen_by_both(&memory, &memory);
    }
}

#[test]
fn a_modelled_drive_that_passes_flushes_on() {
    let memory = Arc::new(MemoryDevice::new(1 << 16));
    let drive = Drive::open_shared(model::find("nvme-local").unwrap(), None, 1e-5).unwrap();
    let attached = drive.attach_as(memory.clone(), Attachment { pass_flush: true, ..Attachment::default() });
    seen_by_both(&*attached, &memory);
}
