//! A cache device that does not answer: writes wait for it once, and for the voucher as long as it takes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::{Health, Settings, Survival, Voucher};
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};

use crate::life::{self, BLOCK, Devices, FRAGMENT, FRAGMENTS, VOLUMES};

/// A device that keeps whoever comes until it is told to let go.
struct Sticky {
    inner: MemoryDevice,
    held: Mutex<bool>,
    let_go: Condvar,
}

impl Sticky {
    fn hold(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.let_go.notify_all();
    }
}

impl Device for Sticky {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut held = self.held.lock().unwrap();
        while *held {
            held = self.let_go.wait(held).unwrap();
        }
        drop(held);
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "sticky drive".to_owned()
    }
}

/// Refuses until it is told not to.
#[derive(Default)]
struct Stubborn {
    refuses: AtomicBool,
    asked: AtomicU64,
    is_revoked: AtomicBool,
}

/// The one that a cache has.
struct Shared(Arc<Stubborn>);

impl Voucher for Shared {
    fn revoke(&self) -> io::Result<()> {
        self.0.asked.fetch_add(1, SeqCst);
        if self.0.refuses.load(SeqCst) {
            return Err(io::Error::other("the folder is read-only"));
        }
        self.0.is_revoked.store(true, SeqCst);
        Ok(())
    }
}

#[test]
fn a_cache_device_that_hangs_holds_a_write_up_once_and_only_until_its_map_is_void() {
    let inner = MemoryDevice::new(life::cache_bytes());
    let flash = Arc::new(Sticky { inner, held: Mutex::new(false), let_go: Condvar::new() });
    let disks: Vec<Arc<MemoryDevice>> =
        (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT))).collect();
    let settings = Settings { mark_within: Duration::from_millis(300), ..Settings::default() };
    let devices = Devices {
        flash: Arc::clone(&flash) as _,
        disks: disks.iter().map(|disk| Arc::clone(disk) as _).collect(),
        settings,
    };
    life::make(&*flash);
    let voucher = Arc::new(Stubborn::default());
    let opened = life::open(&devices, 1, |_| false, |_| Box::new(Shared(Arc::clone(&voucher))));
    let (device, begun) = (&opened.volumes[0], Instant::now());
    device.read_at(&mut [0; BLOCK as usize], 0).unwrap();
    let is_settled = || {
        let found = opened.cache.statistics().engine;
        found.settled > 0 && found.unstable == 0
    };
    while !is_settled() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not settle");
        thread::sleep(Duration::from_millis(5));
    }
    // Nobody is told anything while the device hangs, and what needs no mark goes on.
    voucher.refuses.store(true, SeqCst);
    flash.hold(true);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            device.write_at(&[7; BLOCK as usize], 0).unwrap();
            is_done.store(true, SeqCst);
        });
        let begun = Instant::now();
        while voucher.asked.load(SeqCst) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "the map is not given up");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
        device.write_at(&[8; BLOCK as usize], 10 * FRAGMENT).unwrap();
        thread::sleep(Duration::from_millis(200));
        assert!(!is_done.load(SeqCst), "without its mark it is not sent while the map counts");
        let found = opened.cache.statistics();
        assert_eq!((found.writes_waiting, found.health), (1, Health::Lost));
        let Survival::Nothing(why) = found.survival else { panic!("{:?}", found.survival) };
        assert!(why.contains("read-only") && why.contains("durable"), "{why}");
        assert_eq!(disks[0].image()[..8], [0; 8]);
        voucher.refuses.store(false, SeqCst);
    });
    assert!(voucher.is_revoked.load(SeqCst) && disks[0].image()[..8] == [7; 8]);
    let begun = Instant::now();
    device.write_at(&[9; BLOCK as usize], 0).unwrap();
    let mut found = [0; BLOCK as usize];
    device.read_at(&mut found, 0).unwrap();
    assert!(found == [9; BLOCK as usize] && begun.elapsed() < Duration::from_millis(200));
    flash.hold(false);
}
