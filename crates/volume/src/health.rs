//! The health of a volume: where changes go, and who waits while it is quiesced.
//!
//! ```text
//!            drain, close, or a failure being handled       done
//!   Normal ----------------------------------> Quiescing ---------> Normal | Bypass | Closed
//!     |                                            |
//!     | a sync failed, a disk failed               | a page could not be saved, or a change
//!     +--------------------> ReadOnly <------------+ that was waited for has failed
//!                               |
//!   Bypass ---------------------+---> Closed
//! ```
//!
//! Replacing the flash device is quiesced like a drain, or done while it is `Bypass`; `renew` ends it, and
//! then there is another tier.

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use mezzanine_ground::interleave::sync::{Condvar, Mutex, PoisonError};
use mezzanine_ground::interleave::turns;

use crate::error::{VolumeError, VolumeErrorKind};

/// See the module's diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// The tier takes pages.
    Normal,
    /// Somebody writes the tier's dirty pages to disk; writers and syncs wait, readers do not.
    Quiescing,
    /// No tier: the disk is current.
    Bypass,
    /// Changes are refused.
    ReadOnly,
    /// Everything is refused.
    Closed,
}

const MODES: [Mode; 5] = [Mode::Normal, Mode::Quiescing, Mode::Bypass, Mode::ReadOnly, Mode::Closed];

/// What writers may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the tier.
    Tier,
    /// To the disk.
    Disk,
}

pub(crate) struct Health {
    mode: AtomicU8,
    /// It was `Bypass` once. Whatever it is now, the disk may be newer than the tier.
    bypassed: AtomicBool,
    reason: Mutex<String>,
    quiesced: Condvar,
}

impl Health {
    pub(crate) fn new(mode: Mode, reason: &str) -> Self {
        Self {
            mode: AtomicU8::new(mode as u8),
            bypassed: AtomicBool::new(mode == Mode::Bypass),
            reason: Mutex::new(reason.to_owned()),
            quiesced: Condvar::new(),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        // Sequentially consistent, as `TierHost::enter` needs it.
        MODES[usize::from(self.mode.load(Ordering::SeqCst))]
    }

    /// Whether the tier was given up, or there never was one.
    pub(crate) fn has_bypassed(&self) -> bool {
        self.bypassed.load(Ordering::SeqCst)
    }

    /// Why the mode is what it is; empty for `Normal`.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let mut current = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if !from.contains(&self.mode()) || !still() {
            return false;
        }
        // Before the first write goes past the tier.
        self.bypassed.fetch_or(mode == Mode::Bypass, Ordering::SeqCst);
        self.mode.store(mode as u8, Ordering::SeqCst);
        reason.clone_into(&mut current);
        drop(current);
        self.quiesced.notify_all();
        true
    }

    /// Another tier is in use, and what became of the last one counts no more. `retire` ends that one, before
    /// anybody sees the volume in order. False if the volume has become read-only meanwhile.
    pub(crate) fn renew(&self, retire: impl FnOnce()) -> bool {
        let mut current = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(self.mode(), Mode::Quiescing | Mode::Bypass) {
            return false;
        }
        retire();
        self.bypassed.store(false, Ordering::SeqCst);
        self.mode.store(Mode::Normal as u8, Ordering::SeqCst);
        current.clear();
        drop(current);
        self.quiesced.notify_all();
        true
    }

    /// Waits until nobody quiesces anything.
    pub(crate) fn wait_quiesced(&self) {
        if turns::are_taken() {
            return turns::wait_while(|| self.mode() == Mode::Quiescing);
        }
        let mut guard = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
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
