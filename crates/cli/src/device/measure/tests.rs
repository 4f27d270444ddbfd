//! Measuring devices: the figures make sense, and nothing is written that was not released.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mezzanine_device::{DeviceErrorKind, Drive, FileDevice, MemoryDevice, OpenOptions, model};

use super::*;

/// A folder that is gone when the test is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mezzanine-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn short() -> Setup {
    Setup { time: Duration::from_millis(60), queue_depth: 4, ..Setup::default() }
}

#[test]
fn a_device_is_only_read_unless_its_contents_may_be_lost() {
    let scratch = Scratch::new("bench");
    let path = scratch.path("precious");
    let contents: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    fs::write(&path, &contents).unwrap();
    let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
    let mut phases = Vec::new();
    let measured = measure(&device, &short(), &mut |phase| phases.push(phase)).unwrap();
    assert_eq!(phases, [Phase::RandomRead, Phase::SequentialRead]);
    assert_eq!(measured.iter().map(|one| one.phase).collect::<Vec<_>>(), phases);
    assert!(fs::read(&path).unwrap() == contents);
    for one in &measured {
        assert!(one.operations > 0 && one.per_second > 0.0, "{one:?}");
        assert!(one.latency_us_p50 <= one.latency_us_p99 && one.latency_us_p99 <= one.latency_us_max);
        let mb = one.per_second * one.request_bytes as f64 / 1e6;
        assert!((one.mb_per_s / mb - 1.0).abs() < 1e-6);
    }
    let destroy = Setup { writes: Writes::DestroyContents, ..short() };
    assert_eq!(measure(&device, &destroy, &mut |_| {}).unwrap().len(), 5);
    assert!(fs::read(&path).unwrap() != contents, "now it was allowed");
}

#[test]
fn a_new_file_is_measured_and_removed_and_an_old_one_refused() {
    let scratch = Scratch::new("bench-new");
    let path = scratch.path("new");
    let options = OpenOptions::default();
    let measured = measure_new_file(&path, 1 << 20, &options, &short(), &mut |_| {}).unwrap();
    assert_eq!(measured.len(), 5);
    assert!(!path.exists());
    fs::write(&path, [1; 100]).unwrap();
    let error = measure_new_file(&path, 1 << 20, &options, &short(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), [1; 100]);
}

#[test]
fn a_modelled_drive_measures_as_its_model_says() {
    let drive = Drive::open_shared(model::find("cloud-volume").unwrap(), None, 1.0).unwrap();
    let device = drive.attach(std::sync::Arc::new(MemoryDevice::new(8 << 20)), 0);
    let setup = Setup { time: Duration::from_millis(300), queue_depth: 16, ..Setup::default() };
    let measured = measure(&*device, &setup, &mut |_| {}).unwrap();
    // Never faster than the model; how much slower depends on the machine.
    let random = &measured[0];
    assert!(random.per_second < 3_100.0 && random.per_second > 100.0, "{random:?}");
    assert!(random.latency_us_p50 > 990.0, "{random:?}");
    assert!(measured[1].mb_per_s < 130.0, "{:?}", measured[1]);
}

#[test]
fn a_device_without_room_for_a_request_is_refused() {
    let error = measure(&MemoryDevice::new(1024), &short(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::OutOfRange);
}
