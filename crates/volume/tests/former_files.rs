//! A tier that was drained and closed has let its files go, and does not ask for them when it takes others.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{PAGE, durable, formatted, open, page};
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{
    AttachOptions, SidecarStore, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
};

/// The sidecars of all files, by their paths.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>);

struct Sidecar {
    shelf: Shelf,
    path: PathBuf,
}

impl SidecarStore for Sidecar {
    fn describe(&self) -> String {
        format!("{}.mezzanine", self.path.display())
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.shelf.0.lock().unwrap().get(&self.path).cloned())
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.shelf.0.lock().unwrap().insert(self.path.clone(), bytes.to_vec());
        Ok(())
    }
    fn remove(&self) -> io::Result<()> {
        self.shelf.0.lock().unwrap().remove(&self.path);
        Ok(())
    }
    fn sibling(&self, path: &Path) -> Option<Box<dyn SidecarStore>> {
        Some(Box::new(Self { shelf: self.shelf.clone(), path: path.to_owned() }))
    }
}

impl Shelf {
    fn attach(
        &self,
        volume: &Volume,
        path: &str,
        disk: &Arc<MemoryDevice>,
    ) -> Result<VolumeFile, VolumeError> {
        let sidecar = Sidecar { shelf: self.clone(), path: path.into() };
        volume.attach(Path::new(path), disk.clone(), Arc::new(sidecar), AttachOptions::default())
    }
}

/// Two files are in a tier, which is then closed, drained or not. Where the sidecar of one of them was,
/// something lies later that cannot be read as one. Another file, current in a tier of its own, comes:
/// whether it is taken.
fn another_file_is_taken(drained: bool) -> Result<(), VolumeError> {
    let shelf = Shelf::default();
    let another = VolumeConfig { identity_seed: Some(77), ..durable() };
    let (flash, other) = (formatted(&durable()), formatted(&another));
    let disks = [(); 3].map(|()| Arc::new(MemoryDevice::file(0)));
    let volume = open(&flash, &durable());
    for (path, disk) in ["/then/a", "/then/b"].into_iter().zip(&disks) {
        let file = shelf.attach(&volume, path, disk).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
    }
    if drained {
        volume.close_drained().unwrap()
    } else {
        volume.close().unwrap()
    }

    let volume = open(&other, &another);
    let file = shelf.attach(&volume, "/now/c", &disks[2]).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    volume.close_drained().unwrap();
    let volume = open(&other, &another);
    shelf.attach(&volume, "/now/c", &disks[2]).unwrap();
    volume.close().unwrap();

    shelf.0.lock().unwrap().insert("/then/a".into(), b"not a sidecar".to_vec());
    let volume = open(&flash, &durable());
    let file = shelf.attach(&volume, "/now/c", &disks[2])?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 2));
    if drained {
        file.write_at(&page(0, 3), 0).unwrap();
        file.sync().unwrap();
    }
    Ok(())
}

/// It was so once that the tier knew their paths for good, and took no other file while what lay there could
/// not be read.
#[test]
fn a_tier_that_was_drained_and_closed_does_not_ask_for_its_former_files() {
    only_with(&[Bug::DrainedPathTableKept], || another_file_is_taken(true).is_ok());
}

/// A tier that has their pages asks.
#[test]
fn a_tier_that_was_closed_with_its_pages_asks_for_its_files() {
    assert_eq!(another_file_is_taken(false).unwrap_err().kind(), VolumeErrorKind::Damaged);
}
