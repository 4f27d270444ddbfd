//! The health of a volume: where changes go, and why.
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

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, Ordering};
use mezzanine_ground::region::states;

use crate::shared::plain::{Record, Typed, plain, words_of_bytes};

states! {
    /// See the module's diagram.
    pub(crate) enum Mode {
        /// The tier takes pages.
        Normal = 0,
        /// Somebody writes the tier's dirty pages to disk; writers and syncs wait, readers do not.
        Quiescing = 1,
        /// No tier: the disk is current.
        Bypass = 2,
        /// Changes are refused.
        ReadOnly = 3,
        /// Everything is refused.
        Closed = 4,
    }
}

/// The longest reason that is kept: of a longer one the beginning is. Errors name paths, of which Linux has
/// none that are longer.
pub(crate) const REASON_BYTES: usize = 4096;

plain! {
    /// The mode, and why it is what it is. It changes with the reason's lock held, and is read without.
    pub(crate) struct Condition {
        mode: Typed<Mode>,
        /// It was `Bypass` once. Whatever it is now, the disk may be newer than the tier.
        bypassed: AtomicBool,
        reason: Record<Vec<u8>, { words_of_bytes(REASON_BYTES) }>,
    }
}

/// As much of a reason as is kept.
fn kept(reason: &str) -> Vec<u8> {
    let end = (0..=REASON_BYTES.min(reason.len())).rev().find(|&end| reason.is_char_boundary(end));
    reason.as_bytes()[..end.unwrap_or(0)].to_vec()
}

impl Condition {
    /// The condition of a volume that nobody else has yet.
    pub(crate) fn begin(&self, mode: Mode, reason: &str) {
        self.reason.set(kept(reason));
        self.bypassed.store(mode == Mode::Bypass, Ordering::SeqCst);
        self.mode.set(mode);
    }

    pub(crate) fn mode(&self) -> Mode {
        // Sequentially consistent, as `TierHost::enter` needs it.
        self.mode.get()
    }

    /// Whether the tier was given up, or there never was one.
    pub(crate) fn has_bypassed(&self) -> bool {
        self.bypassed.load(Ordering::SeqCst)
    }

    /// Why the mode is what it is; empty for `Normal`.
    pub(crate) fn reason(&self) -> String {
        String::from_utf8(self.reason.get()).expect("a reason is cut where a character begins")
    }

    /// Moves to `mode` if the mode is one of `from`, and `still` says so. Returns whether it did.
    pub(crate) fn change_while(
        &self,
        still: impl FnOnce() -> bool,
        from: &[Mode],
        mode: Mode,
        reason: &str,
    ) -> bool {
        let mut current = self.reason.lock();
        if !from.contains(&self.mode()) || !still() {
            return false;
        }
        // Before the first write goes past the tier.
        self.bypassed.fetch_or(mode == Mode::Bypass, Ordering::SeqCst);
        self.mode.set(mode);
        *current = kept(reason);
        true
    }

    /// Another tier is in use, and what became of the last one counts no more. `retire` ends that one, before
    /// anybody sees the volume in order. False if the volume has become read-only meanwhile.
    pub(crate) fn renew(&self, retire: impl FnOnce()) -> bool {
        let mut current = self.reason.lock();
        if !matches!(self.mode(), Mode::Quiescing | Mode::Bypass) {
            return false;
        }
        retire();
        self.bypassed.store(false, Ordering::SeqCst);
        self.mode.set(Mode::Normal);
        current.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_up_to_the_last_character_that_finds_room() {
        let long = "ä".repeat(REASON_BYTES);
        assert_eq!(kept(&long), "ä".repeat(REASON_BYTES / 2).as_bytes());
        assert_eq!(kept(&format!("x{long}")).len(), REASON_BYTES - 1);
        assert_eq!((kept("a disk"), kept("")), (b"a disk".to_vec(), Vec::new()));
    }
}
