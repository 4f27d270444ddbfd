//! How busy the disk is with what readers and writers wait for, so that stage-out takes the time that nobody
//! else wants (see [`mezzanine_engine::Tier::set_disk_utilisation`]).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mezzanine_engine::Tier;
use mezzanine_ground::interleave::now;

/// Over how long it is measured: long enough for some requests to a slow disk, short enough to follow a load.
pub(crate) const WINDOW: Duration = Duration::from_millis(250);

/// Measures nothing in a volume without workers, whose I/O depends on its calls alone.
pub(crate) struct Pacing {
    measures: bool,
    busy_ns: AtomicU64,
    /// Begin of the window, and what had been busy then.
    window: Mutex<(Instant, u64)>,
    permille: AtomicU32,
}

/// While it lives, a reader or writer waits for a disk.
pub(crate) struct Busy<'p>(&'p Pacing, Instant);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let spent = u64::try_from((now() - self.1).as_nanos()).unwrap_or(u64::MAX);
        self.0.busy_ns.fetch_add(spent, Ordering::Relaxed);
    }
}

impl Pacing {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            measures: workers > 0,
            busy_ns: AtomicU64::new(0),
            window: Mutex::new((now(), 0)),
            permille: AtomicU32::new(1000),
        }
    }

    /// Begins a request to a disk that somebody waits for.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        self.measures.then(|| Busy(self, now()))
    }

    /// Tells the tier how busy the disk was if a window has ended. Requests side by side count each, up to
    /// the whole time.
    pub(crate) fn tell(&self, tier: &Tier) {
        if !self.measures {
            return;
        }
        let Ok(mut window) = self.window.try_lock() else { return };
        let (begin, before) = *window;
        let passed = now() - begin;
        if passed < WINDOW {
            return;
        }
        let busy_ns = self.busy_ns.load(Ordering::Relaxed);
        let permille = u128::from(busy_ns - before) * 1000 / passed.as_nanos();
        let permille = permille.min(1000) as u32;
        *window = (now(), busy_ns);
        self.permille.store(permille, Ordering::Relaxed);
        tier.set_disk_utilisation(permille);
    }

    /// Thousandths of the last window's time; `None` if it is not measured.
    pub(crate) fn permille(&self) -> Option<u32> {
        self.measures.then(|| self.permille.load(Ordering::Relaxed))
    }
}
