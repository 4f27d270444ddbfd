//! A volume tells a drive with write streams what belongs together: its queue, and its metadata.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use common::{Backing, PAGE, config, formatted, page};
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};
use mezzanine_volume::{Admission, Design, SyncMode, Volume};

/// Notes where is written in which stream.
struct Watched {
    inner: Arc<MemoryDevice>,
    writes: Mutex<Vec<(u8, u64)>>,
}

impl Device for Watched {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut writes = self.writes.lock().unwrap();
        writes.extend(batch.iter().filter_map(|request| match request {
            Request::Write { offset, stream, .. } => Some((*stream, *offset)),
            _ => None,
        }));
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn queue_and_metadata_are_told_apart() {
    for design in [Design::FaceGsc, Design::Lru, Design::Lc] {
        let config = config(design, Admission::Both, SyncMode::Durable, 0);
        let geometry = config.tier.geometry().unwrap();
        let queue = geometry.flash_bytes() - geometry.frames_max() * PAGE as u64;
        let flash = Arc::new(Watched { inner: formatted(&config), writes: Mutex::default() });
        let volume = Volume::open(flash.clone(), config).unwrap();
        let file = Backing::new("a").attach(&volume).unwrap();
        for step in 0..3000 {
            let block = step * 7 % 400;
            file.write_at(&page(block, step), block * PAGE as u64).unwrap();
        }
        file.sync().unwrap();
        let writes = flash.writes.lock().unwrap();
        let metadata = writes.iter().filter(|(stream, _)| *stream == 2).count();
        assert!(metadata > 10 && writes.len() > 2 * metadata, "{design:?}: {metadata} of {}", writes.len());
        for (stream, offset) in &*writes {
            assert_eq!(*stream == 1, *offset >= queue, "{design:?}: {offset} in {stream}");
        }
    }
}
