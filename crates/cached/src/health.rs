//! What is known of the cache device: whether it can be used, and what it has refused.
//!
//! ```text
//!            refusals_max reads refused in a row             suspended_for is over
//!   Working ─────────────────────────────────────► Suspended ─────────────────────► Working
//!      │                                               │
//!      └────── it is gone, shorter, or refuses the map ┴──► Lost, for good
//! ``` (`refused` on the edges to the right and down, `lose` on that for the map; `use_for_reads` on the one
//! back.)

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mezzanine_device::{DeviceError, DeviceErrorKind};

/// Whether the cache device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is.
    Working,
    /// It has refused several reads in a row, and reads go past it for a while.
    Suspended,
    /// It was gone, or is shorter than it was, and may have lost what it had acknowledged; or it has refused
    /// a block of the map or a flush. It is not used again.
    Lost,
}

impl Health {
    /// The name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Suspended => "suspended",
            Self::Lost => "lost",
        }
    }
}

/// What the cache device has refused, of one operation and for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFailures {
    /// The operation: "read" or "write".
    pub operation: &'static str,
    /// The kind of error.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The device's own words, of the last one.
    pub last: String,
}

/// How often, and the last words.
type Reasons = BTreeMap<(&'static str, String), (u64, String)>;

#[derive(Default)]
pub(crate) struct CacheHealth {
    refusals_max: u32,
    suspended_for_ns: u64,
    in_a_row: AtomicU32,
    /// On the host's clock; 0: it is not.
    suspended_until: AtomicU64,
    lost: AtomicBool,
    reasons: Mutex<Reasons>,
}

impl CacheHealth {
    pub(crate) fn new(refusals_max: u32, suspended_for: Duration) -> Self {
        let suspended_for_ns = u64::try_from(suspended_for.as_nanos()).unwrap_or(u64::MAX);
        Self { refusals_max: refusals_max.max(1), suspended_for_ns, ..Self::default() }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// The device is not used again.
    pub(crate) fn lose(&self) {
        self.lost.store(true, SeqCst);
    }

    pub(crate) fn now(&self, now: u64) -> Health {
        match (self.is_lost(), self.suspended_until.load(SeqCst)) {
            (true, _) => Health::Lost,
            (false, until) if until > now => Health::Suspended,
            _ => Health::Working,
        }
    }

    /// The same, for who is about to read: once the time is over, reads are tried again, and one that is
    /// refused is enough for the next suspension.
    pub(crate) fn use_for_reads(&self, clock: impl Fn() -> u64) -> Health {
        if self.is_lost() {
            return Health::Lost;
        }
        if self.suspended_until.load(SeqCst) == 0 {
            return Health::Working;
        }
        self.now(clock())
    }

    /// A read was served.
    pub(crate) fn served(&self) {
        if self.in_a_row.load(SeqCst) != 0 {
            self.in_a_row.store(0, SeqCst);
            self.suspended_until.store(0, SeqCst);
        }
    }

    /// The device has refused something.
    pub(crate) fn refused(&self, error: &DeviceError, is_read: bool, now: u64) {
        let operation = if is_read { "read" } else { "write" };
        let mut reasons = self.reasons();
        let noted = reasons.entry((operation, reason(error.kind()))).or_default();
        noted.0 += 1;
        noted.1 = error.to_string();
        drop(reasons);
        if is_gone(error) {
            self.lose();
        }
        if is_read {
            let in_a_row = self.in_a_row.load(SeqCst).saturating_add(1);
            self.in_a_row.store(in_a_row, SeqCst);
            if in_a_row >= self.refusals_max {
                self.suspended_until.store(now.saturating_add(self.suspended_for_ns).max(1), SeqCst);
            }
        }
    }

    pub(crate) fn failures(&self) -> Vec<DeviceFailures> {
        let of = |((operation, reason), (count, last)): (&(&'static str, String), &(u64, String))| {
            DeviceFailures { operation, reason: reason.clone(), count: *count, last: last.clone() }
        };
        self.reasons().iter().map(of).collect()
    }

    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name for a kind of error, as metrics write such names.
fn reason(kind: DeviceErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Whether a device that answers so may come back with less than it had acknowledged. `ENODEV` (19), `ENXIO`
/// (6) and `ESHUTDOWN` (108) are what the kernel says of a drive that was taken away.
fn is_gone(error: &DeviceError) -> bool {
    use DeviceErrorKind::{FlushFailed, NotFound, PoweredOff, UnexpectedEnd};
    matches!(error.kind(), PoweredOff | NotFound | UnexpectedEnd | FlushFailed)
        || matches!(error.raw_os_error(), Some(6 | 19 | 108))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: DeviceErrorKind) -> DeviceError {
        DeviceError::new(kind, "read", "flash")
    }

    #[test]
    fn refusals_in_a_row_suspend_reads_for_a_while() {
        let health = CacheHealth::new(3, Duration::from_nanos(100));
        for _ in 0..2 {
            health.refused(&error(DeviceErrorKind::Io), true, 10);
        }
        health.served();
        for _ in 0..2 {
            health.refused(&error(DeviceErrorKind::Io), true, 10);
            assert_eq!(health.use_for_reads(|| 10), Health::Working);
        }
        // Writes that are refused say nothing of reads.
        health.refused(&error(DeviceErrorKind::NoSpace), false, 10);
        assert_eq!(health.use_for_reads(|| 10), Health::Working);
        health.refused(&error(DeviceErrorKind::Io), true, 10);
        assert_eq!((health.use_for_reads(|| 109), health.now(109)), (Health::Suspended, Health::Suspended));
        assert_eq!(health.use_for_reads(|| 110), Health::Working);
        health.refused(&error(DeviceErrorKind::Io), true, 200);
        assert_eq!(health.use_for_reads(|| 299), Health::Suspended);
        health.served();
        assert_eq!(health.use_for_reads(|| 299), Health::Working);
        let failures: Vec<_> =
            health.failures().into_iter().map(|one| (one.operation, one.reason, one.count)).collect();
        assert_eq!(failures, [("read", "io".to_owned(), 6), ("write", "no_space".to_owned(), 1)]);
    }

    #[test]
    fn a_device_that_was_gone_stays_lost() {
        use DeviceErrorKind::{NotFound, PoweredOff, UnexpectedEnd};
        for kind in [PoweredOff, NotFound, UnexpectedEnd] {
            let health = CacheHealth::new(3, Duration::ZERO);
            health.refused(&error(kind), false, 0);
            health.served();
            assert_eq!(health.use_for_reads(|| u64::MAX), Health::Lost);
        }
        let gone = DeviceError::from_io("read", "flash", std::io::Error::from_raw_os_error(19));
        let health = CacheHealth::new(3, Duration::ZERO);
        health.refused(&gone, true, 0);
        assert!(health.is_lost());
    }
}
