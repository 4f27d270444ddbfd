//! A volume without a tier reads and writes the backing device.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, Request};
use mezzanine_volume::{AttachOptions, MemorySidecar, Volume, VolumeErrorKind, VolumeState};

/// A growing array of bytes.
#[derive(Default)]
struct Bytes(Mutex<Vec<u8>>);

impl Device for Bytes {
    fn capabilities(&self) -> Capabilities {
        let len = self.0.lock().unwrap().len() as u64;
        Capabilities {
            len,
            block_size: 1,
            atomic_write: 0,
            volatile_cache: false,
            can_resize: true,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut bytes = self.0.lock().unwrap();
        let one = |request: &mut Request<'_>| {
            match request {
                Request::Read { offset, buf } => {
                    let from = *offset as usize;
                    let Some(found) = bytes.get(from..from + buf.len()) else {
                        return Err(DeviceError::new(DeviceErrorKind::UnexpectedEnd, "read", "bytes"));
                    };
                    buf.copy_from_slice(found);
                }
                Request::Write { offset, buf } => {
                    let end = *offset as usize + buf.len();
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[*offset as usize..end].copy_from_slice(buf);
                }
                Request::Flush | Request::Discard { .. } => {}
            }
            Ok(())
        };
        batch.iter_mut().map(one).collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn describe(&self) -> String {
        "bytes".to_owned()
    }
}

#[test]
fn reads_give_what_was_written_and_the_end_is_an_error() {
    let volume = Volume::without_tier();
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    let sidecar = Arc::new(MemorySidecar::new());
    let file =
        volume.attach(Path::new("a"), Arc::new(Bytes::default()), sidecar, AttachOptions::default()).unwrap();
    file.write_at(b"hello", 10).unwrap();
    assert_eq!(file.len(), 15);
    let mut buf = [1; 20];
    let error = file.read_at(&mut buf, 0).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::ShortRead { available: 15 });
    assert_eq!(&buf, b"\0\0\0\0\0\0\0\0\0\0hello\0\0\0\0\0");
    file.sync().unwrap();
    file.sync().unwrap();
    assert_eq!(volume.statistics().syncs_without_io, 1);
    file.set_len(12).unwrap();
    file.set_len(14).unwrap();
    let mut tail = [1; 4];
    file.read_at(&mut tail, 10).unwrap();
    assert_eq!(&tail, b"he\0\0");
    volume.close().unwrap();
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind(), VolumeErrorKind::Closed);
}
