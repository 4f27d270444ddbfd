//! A server whose data directory and flash device can be copied and put back apart from each other.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::SyncMode;
use mezzanine_engine::format::{Superblock, read_superblock, write_superblock};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::settings::Settings;
use mezzanine_ffi::startup::{Start, Started};

use crate::flash::Flash;
use crate::machine::{Kept, Machine, Relations, checkpoint, give_memory, read, start, write};

pub const FLASH_BYTES: u64 = 2 << 20;
pub const BLOCKS: u32 = 40;
pub const APART: &str = "not of the same moment";

/// What outlives a server: its data directory, which is its relations, its control file and its marker, and
/// its flash device.
pub struct Lasting {
    pub machine: Machine,
    pub flash: Arc<MemoryDevice>,
    pub marker: Kept,
}

/// A copy of a data directory.
#[derive(Clone)]
pub struct Directory {
    pub pages: BTreeMap<[u8; 20], Vec<u8>>,
    pub files_lack_pages: bool,
    pub marker: Option<String>,
}

impl Lasting {
    pub fn new(mode: SyncMode) -> Self {
        let flash = Arc::new(MemoryDevice::new(FLASH_BYTES));
        Self { machine: Machine::new(mode), flash, marker: Kept::default() }
    }

    pub fn try_start(&self, redo: u64) -> Result<(Host, Started), Refusal> {
        let settings = Settings { flash_bytes: FLASH_BYTES, group_pages: 2, ..self.machine.settings() };
        let flash: Arc<dyn Device> = Arc::<MemoryDevice>::clone(&self.flash);
        let server = Box::new(Relations(Arc::clone(&self.machine.disk)));
        let mut host = Host::on_device(settings, flash, Box::new(self.marker.clone()), server)?;
        give_memory(&mut host);
        let files_lack_pages = *self.machine.disk.marked.lock().unwrap();
        let started = host.start(&Start { files_lack_pages, ..start(redo) })?;
        Ok((host, started))
    }

    pub fn start(&self, redo: u64) -> Host {
        self.try_start(redo).unwrap().0
    }

    pub fn refusal(&self, redo: u64) -> Option<Refusal> {
        self.try_start(redo).err()
    }

    pub fn directory(&self) -> Directory {
        Directory {
            pages: self.machine.disk.pages.lock().unwrap().clone(),
            files_lack_pages: *self.machine.disk.marked.lock().unwrap(),
            marker: self.marker.0.lock().unwrap().clone(),
        }
    }

    pub fn put_back(&self, directory: &Directory) {
        *self.machine.disk.pages.lock().unwrap() = directory.pages.clone();
        *self.machine.disk.marked.lock().unwrap() = directory.files_lack_pages;
        (*self.marker.0.lock().unwrap()).clone_from(&directory.marker);
    }

    pub fn superblock(&self) -> Superblock {
        read_superblock(&mut Flash(&self.flash)).unwrap()
    }

    pub fn put_superblock(&self, superblock: &Superblock) {
        write_superblock(&mut Flash(&self.flash), superblock).unwrap();
    }

    /// The marker's line with this setting.
    pub fn marked(&self, setting: &str) -> Option<String> {
        let text = self.marker.0.lock().unwrap().clone()?;
        text.lines().find(|line| line.starts_with(setting)).map(str::to_owned)
    }

    /// The pages of which the server would read the version.
    pub fn with_version(&self, host: &Host, version: u8) -> usize {
        (0..BLOCKS).filter(|block| read(host, &self.machine, *block) == Some(version)).count()
    }
}

pub fn write_all(host: &Host, version: u8) {
    for block in 0..BLOCKS {
        let _ = write(host, block, version);
    }
    host.sync().unwrap();
}

/// A server with pages of version 1 in its tier and redo point 20, stopped by a crash.
pub fn in_use(mode: SyncMode) -> Lasting {
    let lasting = Lasting::new(mode);
    let host = lasting.start(10);
    write_all(&host, 1);
    checkpoint(&host, 20);
    drop(host);
    lasting
}
