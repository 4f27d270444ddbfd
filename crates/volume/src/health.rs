//! Where changes go, and who waits while a volume is quiesced: the volume's condition, and this process's
//! threads that wait for it to change.

use mezzanine_ground::interleave::sync::{Arc, Condvar, Mutex, PoisonError};
use mezzanine_ground::interleave::turns;

use crate::error::{VolumeError, VolumeErrorKind};
pub(crate) use crate::shared::health::Mode;
use crate::shared::{Placed, Shared};

/// What writers may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the tier.
    Tier,
    /// To the disk.
    Disk,
}

pub(crate) struct Health {
    memory: Arc<Placed<Shared>>,
    /// Taken after a change of the mode, by who is about to wake others, and from the last look at it on by
    /// who is about to sleep: so nobody sleeps through a change.
    parking: Mutex<()>,
    quiesced: Condvar,
}

impl Health {
    pub(crate) fn new(memory: Arc<Placed<Shared>>) -> Self {
        Self { memory, parking: Mutex::new(()), quiesced: Condvar::new() }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.memory.condition.mode()
    }

    /// Whether the tier was given up, or there never was one.
    pub(crate) fn has_bypassed(&self) -> bool {
        self.memory.condition.has_bypassed()
    }

    /// Why the mode is what it is; empty for `Normal`.
    pub(crate) fn reason(&self) -> String {
        self.memory.condition.reason()
    }

    /// Moves to `mode` if the mode is one of `from`. Returns whether it did.
    pub(crate) fn change(&self, from: &[Mode], mode: Mode, reason: &str) -> bool {
        self.change_while(|| true, from, mode, reason)
    }

    /// As [`Self::change`], if `still` says so: for what a tier brings about that may be replaced meanwhile.
    pub(crate) fn change_while(
        &self,
        still: impl FnOnce() -> bool,
        from: &[Mode],
        mode: Mode,
        reason: &str,
    ) -> bool {
        let changed = self.memory.condition.change_while(still, from, mode, reason);
        if changed {
            self.wake();
        }
        changed
    }

    /// Another tier is in use, and what became of the last one counts no more. `retire` ends that one, before
    /// anybody sees the volume in order. False if the volume has become read-only meanwhile.
    pub(crate) fn renew(&self, retire: impl FnOnce()) -> bool {
        let renewed = self.memory.condition.renew(retire);
        if renewed {
            self.wake();
        }
        renewed
    }

    fn wake(&self) {
        drop(self.parking.lock().unwrap_or_else(PoisonError::into_inner));
        self.quiesced.notify_all();
    }

    /// Waits until nobody quiesces anything.
    pub(crate) fn wait_quiesced(&self) {
        if turns::are_taken() {
            return turns::wait_while(|| self.mode() == Mode::Quiescing);
        }
        let mut guard = self.parking.lock().unwrap_or_else(PoisonError::into_inner);
        while self.mode() == Mode::Quiescing {
            guard = self.quiesced.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Where changes go, waiting while the volume is being quiesced.
    pub(crate) fn route(&self, operation: &'static str, subject: &str) -> Result<Route, VolumeError> {
        loop {
            match self.mode() {
                Mode::Normal => return Ok(Route::Tier),
                Mode::Bypass => return Ok(Route::Disk),
                Mode::Quiescing => self.wait_quiesced(),
                Mode::ReadOnly => return Err(self.read_only(operation, subject)),
                Mode::Closed => return Err(closed(operation, subject)),
            }
        }
    }

    /// The error of a change that is refused since an earlier failure.
    pub(crate) fn read_only(&self, operation: &'static str, subject: &str) -> VolumeError {
        let reason = format!("the volume is read-only since a failure: {}", self.reason());
        VolumeError::new(VolumeErrorKind::ReadOnly, operation, subject, reason).advise(
            "close it, see to the device and open it again; what was synced before the failure is kept",
        )
    }

    /// Refuses everything on a closed volume.
    pub(crate) fn check_readable(&self, operation: &'static str, subject: &str) -> Result<(), VolumeError> {
        if self.mode() == Mode::Closed { Err(closed(operation, subject)) } else { Ok(()) }
    }
}

/// The error of whatever comes after the closing.
pub(crate) fn closed(operation: &'static str, subject: &str) -> VolumeError {
    VolumeError::new(VolumeErrorKind::Closed, operation, subject, "the volume was closed")
}
