//! A pool of pages in memory, for a tier that has none of its own: CLOCK in shards, as a database's buffer
//! pool in front of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::PAGE;

const SHARDS: usize = 64;

pub struct Pool {
    shards: Vec<Mutex<Shard>>,
}

struct Shard {
    places: HashMap<u32, usize>,
    frames: Vec<Frame>,
    hand: usize,
    most: usize,
}

struct Frame {
    page: u32,
    referenced: bool,
    dirty: bool,
    bytes: Box<[u8]>,
}

impl Pool {
    pub fn new(bytes: u64) -> Pool {
        let most = (bytes as usize / PAGE / SHARDS).max(1);
        let shard = || Shard { places: HashMap::new(), frames: Vec::new(), hand: 0, most };
        Pool { shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect() }
    }

    fn shard(&self, page: u32) -> std::sync::MutexGuard<'_, Shard> {
        let at = (page.wrapping_mul(0x9E37_79B1) >> 16) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a page if it is there.
    pub fn read(&self, page: u32, out: &mut [u8]) -> bool {
        let mut shard = self.shard(page);
        let Some(&place) = shard.places.get(&page) else { return false };
        let frame = &mut shard.frames[place];
        frame.referenced = true;
        out.copy_from_slice(&frame.bytes);
        true
    }

    /// Takes a page in. If another has to leave that was written, `write` gets it before it is gone.
    pub fn put<E>(
        &self,
        page: u32,
        bytes: &[u8],
        dirty: bool,
        mut write: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut guard = self.shard(page);
        let shard = &mut *guard;
        if let Some(&place) = shard.places.get(&page) {
            let frame = &mut shard.frames[place];
            (frame.referenced, frame.dirty) = (true, frame.dirty || dirty);
            frame.bytes.copy_from_slice(bytes);
            return Ok(());
        }
        if shard.frames.len() < shard.most {
            shard.places.insert(page, shard.frames.len());
            shard.frames.push(Frame { page, referenced: false, dirty, bytes: bytes.into() });
            return Ok(());
        }
        loop {
            let place = shard.hand;
            shard.hand = (place + 1) % shard.frames.len();
            let frame = &mut shard.frames[place];
            if std::mem::take(&mut frame.referenced) {
                continue;
            }
            if frame.dirty {
                write(frame.page, &frame.bytes)?;
            }
            shard.places.remove(&frame.page);
            shard.places.insert(page, place);
            (frame.page, frame.dirty) = (page, dirty);
            frame.bytes.copy_from_slice(bytes);
            return Ok(());
        }
    }
}
