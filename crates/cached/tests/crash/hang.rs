//! A cache device that does not answer: writes wait for it once, for the voucher as long as it takes, and for
//! neither when the cache is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::{Health, Served, Settings, Survival};
use mezzanine_device::{Device, MemoryDevice, Request};

use crate::held::{IfItFails, Shared, Sticky, Stubborn, wait};
use crate::life::{self, BLOCK, Devices, FRAGMENT, FRAGMENTS, Opened, VOLUMES};

struct Held {
    flash: Arc<Sticky>,
    disks: Vec<Arc<MemoryDevice>>,
    devices: Devices,
    voucher: Arc<Stubborn>,
}

impl Held {
    fn new(settings: Settings) -> Held {
        let flash = Sticky::new(life::cache_bytes());
        let disks: Vec<Arc<MemoryDevice>> =
            (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT))).collect();
        let devices = Devices {
            flash: Arc::clone(&flash) as _,
            disks: disks.iter().map(|disk| Arc::clone(disk) as _).collect(),
            settings,
        };
        life::make(&*flash);
        Held { flash, disks, devices, voucher: Arc::default() }
    }

    fn open(&self, number: u64, is_vouched: bool) -> Opened {
        life::open(&self.devices, number, |_| is_vouched, |_| Box::new(Shared(Arc::clone(&self.voucher))))
    }

    /// Has nobody wait any more.
    fn let_go(&self) {
        self.voucher.refuses.store(false, SeqCst);
        self.flash.hold(false);
    }

    /// Has these fragments, each of a volume, in the cache, and settled.
    fn settle(&self, opened: &Opened, fragments: &[(usize, u64)]) {
        let all = fragments.len() as u64;
        wait("settled fragments", || {
            // A miss beside a worker that plans is not noted.
            for &(volume, fragment) in fragments {
                opened.volumes[volume].read_at(&mut [0; BLOCK as usize], fragment * FRAGMENT).unwrap();
            }
            let found = opened.cache.statistics().engine;
            found.slots_used == all && found.settled >= all && found.unstable == 0
        });
    }
}

fn marks_waited_for(opened: &Opened) -> u64 {
    let latencies = opened.cache.statistics().latencies;
    latencies.iter().find(|(served, _)| *served == Served::Mark).unwrap().1.count()
}

#[test]
fn a_cache_device_that_hangs_holds_a_write_up_once_and_only_until_its_map_is_void() {
    let within = Duration::from_millis(300);
    let held = Held::new(Settings { mark_within: within, ..Settings::default() });
    let Held { flash, disks, voucher, .. } = &held;
    let opened = held.open(1, false);
    // Also when it fails outside of the scope: the end of the cache waits for its threads.
    let _failed = IfItFails(|| held.let_go());
    held.settle(&opened, &[(0, 0)]);
    let device = &opened.volumes[0];
    // Nobody is told anything while the device hangs, and what needs no mark goes on.
    voucher.refuses.store(true, SeqCst);
    flash.hold(true);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _failed = IfItFails(|| held.let_go());
        let begun = Instant::now();
        scope.spawn(|| {
            device.write_at(&[7; BLOCK as usize], 0).unwrap();
            is_done.store(true, SeqCst);
        });
        wait("the end of the map", || voucher.asked.load(SeqCst) > 0);
        assert!(begun.elapsed() >= within, "{:?}", begun.elapsed());
        device.write_at(&[8; BLOCK as usize], 10 * FRAGMENT).unwrap();
        // However often that is tried.
        let asked = voucher.asked.load(SeqCst);
        wait("another try", || voucher.asked.load(SeqCst) > asked);
        assert!(!is_done.load(SeqCst), "without its mark it is not sent while the map counts");
        let found = opened.cache.statistics();
        assert_eq!((found.writes_waiting, found.health), (1, Health::Lost));
        let Survival::Nothing(why) = found.survival else { panic!("{:?}", found.survival) };
        assert!(why.contains("read-only") && why.contains("durable"), "{why}");
        assert_eq!(disks[0].image()[..8], [0; 8]);
        voucher.refuses.store(false, SeqCst);
    });
    assert!(voucher.is_revoked.load(SeqCst) && disks[0].image()[..8] == [7; 8]);
    // Nothing waits any more, although the device still hangs.
    let (asked, waited) = (voucher.asked.load(SeqCst), marks_waited_for(&opened));
    device.write_at(&[9; BLOCK as usize], 0).unwrap();
    let mut found = [0; BLOCK as usize];
    device.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [9; BLOCK as usize]);
    assert_eq!((voucher.asked.load(SeqCst), marks_waited_for(&opened)), (asked, waited));
    flash.hold(false);
}

#[test]
fn what_waits_in_vain_when_the_cache_is_closed_fails_and_was_not_sent() {
    let held = Held::new(Settings { mark_within: Duration::from_millis(50), ..Settings::default() });
    let Held { flash, disks, voucher, .. } = &held;
    let opened = held.open(1, false);
    let _failed = IfItFails(|| held.let_go());
    // Nobody writes to the third.
    held.settle(&opened, &[(0, 0), (1, 0), (1, 3)]);
    voucher.refuses.store(true, SeqCst);
    flash.hold(true);
    let far = 10 * FRAGMENT;
    thread::scope(|scope| {
        let _failed = IfItFails(|| held.let_go());
        let opened = &opened;
        let one = scope.spawn(|| opened.volumes[0].write_at(&[7; BLOCK as usize], 0));
        let discard = scope.spawn(|| opened.volumes[0].discard(BLOCK, BLOCK));
        let batch = scope.spawn(|| {
            let buf = &[8; BLOCK as usize];
            let mut read = [1; BLOCK as usize];
            let mut batch = [
                Request::WriteThrough { offset: far, buf },
                Request::WriteThrough { offset: 0, buf },
                Request::Read { offset: 2 * far, buf: &mut read },
                Request::Flush,
            ];
            let results = opened.volumes[1].run(&mut batch);
            (results, read)
        });
        wait("three that wait", || opened.cache.statistics().writes_waiting == 3);
        let closed = opened.cache.close(Duration::from_millis(200), |_| true);
        assert!(!closed.is_whole);
        let failed = |result: Result<(), mezzanine_device::DeviceError>| {
            let said = result.unwrap_err().to_string();
            assert!(said.contains("nothing was written") && said.contains("closed"), "{said}");
        };
        failed(one.join().unwrap());
        failed(discard.join().unwrap());
        let (results, read) = batch.join().unwrap();
        let [far, near, reading, flush] = <[_; 4]>::try_from(results).unwrap();
        failed(near);
        // The others needed no mark.
        assert!(far.is_ok() && reading.is_ok() && flush.is_ok() && read == [0; BLOCK as usize]);
    });
    let found = opened.cache.statistics();
    assert_eq!((found.host.writes_unmarked, found.writes_waiting), (3, 0));
    assert!(!voucher.is_revoked.load(SeqCst), "so the map still counts");
    assert_eq!((&disks[0].image()[..8], &disks[1].image()[..8]), (&[0; 8][..], &[0; 8][..]));
    assert_eq!(disks[1].image()[far as usize..][..8], [8; 8]);
    // And rightly so: the disks have what it says, be the marks on the cache device by then or not.
    flash.hold(false);
    drop(opened);
    let opened = held.open(2, true);
    assert!(opened.was_vouched && opened.found.fragments > 0, "{:?}", opened.found);
    opened.check(&held.devices, None, "after what waited in vain");
}
