//! The real tier in a real region, devices that forget what was not flushed, and what was promised about each
//! page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{Blank, Design, Lookup, PageId, ReadError, ReadFlash, Tier, TierConfig, Token};
use mezzanine_ground::interleave::explore;
use shuttle::sync::RwLock;

pub(crate) const PAGE: usize = 4096;
/// Names the process in the tier's locks and jobs.
pub(crate) const OWNER: u32 = 1;

/// One of several threads that run side by side.
pub(crate) type Thread = fn(&World);

/// A flash device and what of it would survive a power cut.
pub(crate) struct Flash {
    pub(crate) now: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) unflushed: Vec<(usize, Vec<u8>)>,
}

/// The versions of pages on disk, and those that are synced.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) now: BTreeMap<PageId, u64>,
    pub(crate) synced: BTreeMap<PageId, u64>,
}

/// What was promised about a page: its versions only grow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    /// The newest version that some thread has begun to write.
    pub(crate) issued: u64,
    /// The newest version that was taken or read: whoever begins to read now finds nothing older.
    pub(crate) seen: u64,
    /// Versions up to this one were dropped: they must not return.
    pub(crate) gone: u64,
}

/// A page and what is known of it at some moment.
pub(crate) type Promise = (PageId, Known);

pub(crate) struct World {
    pub(crate) tier: Tier,
    /// The durable one.
    pub(crate) superblock: Mutex<Superblock>,
    // Standard locks: none is held at a point, so no thread of shuttle's ever waits for one.
    pub(crate) flash: Mutex<Flash>,
    pub(crate) disk: Mutex<Disk>,
    pub(crate) known: Mutex<BTreeMap<PageId, Known>>,
    /// The version of a page that has left the host's pool and is about to be offered, and its token.
    pub(crate) given_up: Mutex<Option<(u64, Token)>>,
    pub(crate) finished: AtomicBool,
    /// Readers of pages against writers past the tier.
    pub(crate) host_lock: RwLock<()>,
    /// The same page by page, for designs with a slot directory: see `page_lock`.
    pub(crate) page_locks: Vec<RwLock<()>>,
    /// Those who are about to write a page to disk against those who sync the disk.
    pub(crate) disk_lock: RwLock<()>,
}

/// Pages whose numbers are equal modulo this share a lock.
const PAGE_LOCKS: u64 = 8;

/// What a power cut leaves.
pub(crate) struct Durable<'f>(pub(crate) &'f [u8]);

impl ReadFlash for Durable<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let offset = offset as usize;
        bytes.copy_from_slice(&self.0[offset..offset + bytes.len()]);
        Ok(())
    }
}

/// The smallest tier with groups of `group_pages` pages.
pub(crate) fn tiny(group_pages: u32) -> TierConfig {
    tiny_of(Design::FaceGsc, group_pages)
}

/// The same of a design.
pub(crate) fn tiny_of(design: Design, group_pages: u32) -> TierConfig {
    let mut config = TierConfig::of(design, PAGE as u32, 1024);
    config.group_pages = group_pages;
    config.survivors_max = group_pages - 1;
    config.staging_groups = 2;
    config.segment_frames = 8;
    config.band_frames = 1;
    config.ahead_frames = 0;
    config.shards = 2;
    config.frames = 8;
    // No more than those.
    config.frames_max = 0;
    while config.geometry().is_err() {
        config.frames += 1;
    }
    config
}

pub(crate) fn page_of(id: &PageId, version: u64) -> Vec<u8> {
    let words = [id.file() << 32 | id.block(), version];
    words.map(u64::to_le_bytes).concat().repeat(PAGE / 16)
}

/// The version of a whole page of `id`.
pub(crate) fn version_of(id: &PageId, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8..16]);
    let version = u64::from_le_bytes(word);
    assert!(bytes == page_of(id, version), "{id:?} is torn, or another page's");
    version
}

impl World {
    pub(crate) fn new(config: &TierConfig) -> Self {
        explore(false);
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        let zeros = vec![0; geometry.flash_bytes() as usize];
        let flash = Flash { now: zeros.clone(), durable: zeros, unflushed: Vec::new() };
        let region = Blank::heap(geometry.region_bytes());
        let recovered = Tier::recover(region, &superblock, OWNER, &mut Durable(&flash.durable)).unwrap();
        Self {
            tier: recovered.tier,
            superblock: Mutex::new(recovered.superblock),
            flash: Mutex::new(flash),
            disk: Mutex::default(),
            known: Mutex::default(),
            given_up: Mutex::default(),
            finished: AtomicBool::new(false),
            host_lock: RwLock::new(()),
            page_locks: (0..PAGE_LOCKS).map(|_| RwLock::new(())).collect(),
            disk_lock: RwLock::new(()),
        }
    }

    /// Runs `threads` side by side, and `workers` threads that carry out jobs until those have returned. Then
    /// checks the tier, as it is and as it would be after a power cut.
    pub(crate) fn run(self, workers: usize, threads: &[Thread]) {
        let world = Arc::new(self);
        let spawn = |thread: Thread| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || thread(&world))
        };
        let work: Thread = |world| {
            while !world.finished.load(Ordering::Relaxed) {
                world.work_or_wait(OWNER);
            }
        };
        explore(true);
        let workers: Vec<_> = (0..workers).map(|_| spawn(work)).collect();
        let threads: Vec<_> = threads.iter().copied().map(spawn).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        world.finished.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        explore(false);
        world.settle();
    }

    /// Makes everything durable and checks that each page has its newest version: now, and after a power cut.
    fn settle(&self) {
        let ticket = self.sync_begin();
        self.sync_end(&ticket);
        if self.tier.geometry().config().design.has_slots() {
            self.sync_disk();
        }
        self.tier.check();
        let promised = self.promised(None);
        for (id, known) in &promised {
            let newest = if known.issued == known.gone { 0 } else { known.issued };
            assert_eq!(self.read(id), newest, "{id:?} at the end");
        }
        self.after_power_cut(&promised);
    }

    /// What is known of every page, or of those of one file.
    pub(crate) fn promised(&self, file: Option<u64>) -> Vec<Promise> {
        let known = self.known.lock().unwrap();
        let wanted = known.iter().filter(|(id, _)| file.is_none_or(|file| id.file() == file));
        wanted.map(|(id, known)| (*id, *known)).collect()
    }

    /// Recovers from what is durable at this moment and checks that it keeps the promises.
    pub(crate) fn after_power_cut(&self, promised: &[Promise]) {
        let before = explore(false);
        let flash = self.flash.lock().unwrap();
        let superblock = self.superblock.lock().unwrap().clone();
        let region = Blank::heap(self.tier.geometry().region_bytes());
        let recovered = Tier::recover(region, &superblock, OWNER, &mut Durable(&flash.durable)).unwrap();
        recovered.tier.check();
        for (id, known) in promised {
            let found = match recovered.tier.lookup(id, &mut vec![0; PAGE]) {
                Lookup::Flash(found) => {
                    let bytes = &flash.durable[found.offset as usize..][..PAGE];
                    assert!(recovered.tier.verify(&found, bytes), "{id:?} is damaged after the power cut");
                    version_of(id, bytes)
                }
                Lookup::Miss(_) => self.disk.lock().unwrap().synced.get(id).copied().unwrap_or(0),
                Lookup::Memory => unreachable!("staging memory is empty after a recovery"),
            };
            assert!(found >= known.seen, "{id:?} fell from version {} to {found} with the power", known.seen);
            assert!(found == 0 || found > known.gone, "{id:?} was dropped and returned with the power");
        }
        explore(before);
    }
}
