//! The server, as clients of all kinds meet it.
#![allow(missing_docs, clippy::unwrap_used)]

mod bad_clients;
mod client;
mod durability;
mod encryption;
mod programs;
mod serving;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mezzanine_blockdev::nbd::{Export, Limits, Server};
use mezzanine_device::{Device, MemoryDevice};

/// A server of a test, at a socket of its own.
pub(crate) struct Served {
    pub(crate) server: Option<Server>,
    pub(crate) socket: PathBuf,
    /// What it has told, a line each.
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    directory: PathBuf,
}

impl Served {
    pub(crate) fn new(exports: Vec<Export>, limits: Limits) -> Served {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("mezzanine-nbd-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (socket, told) = (directory.join("socket"), Arc::new(Mutex::new(Vec::new())));
        let lines = Arc::clone(&told);
        let mut server = Server::new(exports, limits, None, move |event| {
            lines.lock().unwrap().push(event.to_string());
        });
        server.listen_unix(&socket).unwrap();
        Served { server: Some(server), socket, told, directory }
    }

    pub(crate) fn of(device: Arc<dyn Device>) -> Served {
        Served::new(vec![Export::new(device)], Limits::default())
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn has_told(&self, text: &str) -> bool {
        self.told.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// Waits until that is so, or fails.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.told.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn memory(len: u64) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(len))
}
