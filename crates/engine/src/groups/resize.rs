//! Growing and shrinking the queue while it is in use.
//!
//! The ring of frames can be cut or extended only where the rear stands at the cut: then every position in
//! the queue keeps its frame. So a resize is asked for, takes effect when the rear next comes to the end of
//! the ring (when it grows) or to its new end (when it shrinks, once the queue is short enough), and needs
//! one superblock to be written in between:
//!
//! ```text
//!       begin_resize          the rear is at the cut         resized            superblock durable, finish_resize
//!   IDLE -----------> SEEKING ----------------------> AT_CUT -------> STATED ---------------------------------> IDLE
//! ```
//!
//! - SEEKING: a group that would cross the cut is made short, so that it ends there. When shrinking,
//!   stage-out works for the new length, and new groups get half of the frames that leave, so that the queue
//!   gets shorter under load, too.
//! - AT_CUT: no group is opened; stage-in finds the tier full for the moment of one superblock write. Reads
//!   go on.
//! - STATED: the same, and a superblock with the new ring may be on flash, whoever was writing it. A recovery
//!   would believe it, so the queue does not go on in the old ring any more: the resize cannot be forgotten,
//!   and if its process dies another one finishes it.
//!
//! What does not fit the new length goes to disk as always, by stage-out. A stop before the cut forgets the
//! request.

use crate::config::{ConfigError, RESERVED_GROUPS, TierConfig};
use crate::core::Tier;
use crate::format::Superblock;
use crate::groups::resizing::Stage;
use crate::groups::ring::Ring;
use crate::planted::{self, Bug};

/// The configuration with another number of frames; what depends on it by default follows, and the room
/// stays.
fn with_frames(config: &TierConfig, frames: u64) -> TierConfig {
    // Fewer than the frames count as so many: of a smaller queue they would be fewer, and flash is laid out
    // for as many as before.
    let most = config.frames_max.max(config.frames);
    let frames_max = if planted::is(Bug::RoomForgotten) { config.frames_max } else { most };
    TierConfig { frames, frames_max, ahead_frames: config.ahead_frames.min(frames / 2), ..config.clone() }
}

impl Tier {
    #[inline]
    pub(crate) fn ring(&self) -> Ring {
        self.control().ends.ring()
    }

    /// Frames of the queue now. [`crate::Geometry::frames`] says what they were when the tier was opened.
    pub fn frames(&self) -> u64 {
        self.placement().frames()
    }

    /// Asks for a queue of `frames` frames. Carry out jobs as always; when [`Self::resize_waits`], make
    /// [`Self::resized`] durable and call [`Self::finish_resize`].
    ///
    /// # Errors
    /// `frames` cannot be used with the other parameters, or is more than `frames_max`; or another resize is
    /// just taking effect.
    pub fn begin_resize(&self, frames: u64) -> Result<(), ConfigError> {
        if !self.placement().can_resize() && frames != self.geometry.frames() {
            let config = self.geometry.config();
            let reason = match config.zones {
                Some(_) => "a tier on zones keeps its size: its queue is a ring of whole zones".to_owned(),
                None => format!(
                    "a tier of design {} keeps its size: its pages lie where they were written",
                    config.design
                ),
            };
            let advice = format!("use {}, or format another tier", self.geometry.frames());
            return Err(ConfigError::new("frames", reason, advice));
        }
        let most = self.geometry.frames_max();
        if frames > most {
            let reason = format!("{frames} frames are more than the {most} that the tier was laid out for");
            return Err(ConfigError::new("frames", reason, format!("use at most {most}")));
        }
        with_frames(self.geometry.config(), frames).geometry()?;
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if control.resize.is_stated() {
            let reason = format!("a resize to {} frames is just taking effect", control.resize.frames.get());
            return Err(ConfigError::new("frames", reason, "try again in a moment".into()));
        }
        control.resize.frames.set(frames);
        planted::inside("resize: frames set, not asked for");
        control.resize.base.set(self.kept_from().number());
        control.resize.change(if frames == self.frames() { Stage::Idle } else { Stage::Seeking });
        Ok(())
    }

    /// Forgets a resize, unless it is just taking effect: once [`Self::resized`] was asked for, it is
    /// finished.
    pub fn cancel_resize(&self) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if !control.resize.is_stated() {
            control.resize.change(Stage::Idle);
            planted::inside("resize: forgotten");
        }
    }

    /// The frames asked for, and how many may still be appended before the rear stands at the cut; `None` if
    /// no resize is under way.
    pub fn resize_progress(&self) -> Option<(u64, u64)> {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        (control.resize.stage.get() != Stage::Idle)
            .then(|| (control.resize.frames.get(), self.frames_to_cut()))
    }

    /// Whether the rear stands at the cut and waits for the host.
    pub fn resize_waits(&self) -> bool {
        matches!(self.control().resize.stage.get(), Stage::AtCut | Stage::Stated)
    }

    /// The superblock of the tier with the frames asked for. The host makes it durable as it does every
    /// superblock, one process at a time. `superblock` is the newest on flash, also if a process died
    /// while it wrote that.
    ///
    /// # Panics
    /// If the tier does not wait for it.
    pub fn resized(&self, superblock: &Superblock) -> Superblock {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        assert!(self.resize_waits(), "a ring is cut only where the rear stands");
        control.resize.stage.set(Stage::Stated);
        planted::inside("resize: stated");
        let ring = self.ring_after_cut();
        Superblock {
            generation: superblock.generation + 1,
            front: self.front_to_state(),
            ring_shift: ring.shift as u32,
            config: with_frames(&superblock.config, ring.frames),
            ..superblock.clone()
        }
    }

    /// [`Self::resized`] is durable: the queue goes on with the frames asked for.
    ///
    /// # Panics
    /// If the tier did not wait for it.
    pub fn finish_resize(&self) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        assert!(
            control.resize.stage.get() == Stage::Stated,
            "a ring is cut only where the rear stands and flash says so"
        );
        // Before the rear moves on: who reads a rear beyond the cut finds the new ring (see `position_of`).
        control.ends.ring_is(self.ring_after_cut());
        planted::inside("resize: ring cut, not over");
        control.resize.change(Stage::Idle);
    }

    fn ring_after_cut(&self) -> Ring {
        let control = self.control();
        let (old, frames) = (self.ring(), control.resize.frames.get());
        let cut = if frames > old.frames { old.frames } else { 0 };
        Ring::with(frames, control.ends.rear(), cut)
    }

    /// Frames that may be appended before the rear stands at the cut.
    fn frames_to_cut(&self) -> u64 {
        let control = self.control();
        let (ring, frames) = (self.ring(), control.resize.frames.get());
        let at = u64::from(ring.entry_of(control.ends.rear()).0);
        match () {
            () if frames > ring.frames => (ring.frames - at) % ring.frames,
            () if at <= frames => frames - at,
            () => ring.frames - at + frames,
        }
    }

    /// Whether so many frames end the queue at the cut of a resize that waits for it. Under the control lock.
    pub(crate) fn reaches_cut(&self, frames: u64) -> bool {
        self.control().resize.stage.get() == Stage::Seeking && self.frames_to_cut() == frames
    }

    /// Frames that the queue may have now: those of the ring, or fewer while it shrinks.
    pub(crate) fn frames_allowed(&self) -> u64 {
        let control = self.control();
        let frames = self.ring().frames;
        if control.resize.stage.get() == Stage::Idle || control.resize.frames.get() > frames {
            return frames;
        }
        // Half of the frames that have become free since are given out again, so this end never moves back.
        let left = (self.kept_from() - control.resize.base()) / 2;
        control.resize.frames.get().max(frames.saturating_sub(left))
    }

    /// Frames that stage-out works for: while the ring shrinks those that it will have.
    pub(crate) fn frames_wanted(&self) -> u64 {
        let control = self.control();
        let frames = self.ring().frames;
        if control.resize.stage.get() == Stage::Idle {
            frames
        } else {
            frames.min(control.resize.frames.get())
        }
    }

    /// How many frames a group that is opened now may have at most; `None` while the cut waits for the host.
    /// Under the control lock, while no group is open.
    pub(crate) fn group_frames_allowed(&self) -> Option<u64> {
        let control = self.control();
        let most = self.geometry.group_frames;
        debug_assert_eq!(control.append.open(), None);
        match control.resize.stage.get() {
            Stage::Idle => return Some(most),
            Stage::AtCut | Stage::Stated => return None,
            Stage::Seeking => {}
        }
        let (distance, least) = (self.frames_to_cut(), self.geometry.summary_frames());
        if distance == 0 && self.queue_fits_cut() {
            control.resize.stage.set(Stage::AtCut);
            planted::inside("resize: at the cut");
            return None;
        }
        // A rest too short for a summary would leave the rear before the cut for good.
        Some(match distance {
            0 => most,
            distance if distance <= most => {
                if distance < least {
                    most
                } else {
                    distance
                }
            }
            distance if distance - most < least => distance - least,
            _ => most,
        })
    }

    /// Whether what recovery needs lies within the frames that will be, and leaves room for the groups by
    /// which the front moves on.
    fn queue_fits_cut(&self) -> bool {
        let frames = self.control().resize.frames.get();
        let room = (RESERVED_GROUPS + 1) * self.geometry.group_frames + self.placement().names_room();
        let grows = frames > self.ring().frames;
        grows || self.control().ends.rear() + room <= self.kept_from() + frames
    }
}
