//! First in, first out. The yardstick: what a policy is worth that looks at nothing.
//!
//! 1. `order` has the frames in the order in which their pages came.

use super::list::List;
use super::parameter::{Field, checked_frames};
use super::{Laid, Memory, PageKey, Replacement};
use crate::config::ConfigError;

/// Pages leave in the order in which they came.
pub struct Fifo<'r> {
    order: List<'r>,
}

/// What FIFO is configured by: nothing but its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) frames: u32,
}

impl Config {
    /// For so many frames.
    ///
    /// # Errors
    /// If there can be no policy of so many.
    pub fn new(frames: u64) -> Result<Self, ConfigError> {
        Ok(Self { frames: checked_frames(frames)? })
    }
}

impl<'r> Laid<'r> for Fifo<'r> {
    type Config = Config;
    const FIELDS: &'static [Field<Config>] = &[];

    fn bytes(config: &Config) -> usize {
        List::bytes(config.frames, 1)
    }

    fn laid(memory: &mut Memory<'r>, config: &Config) -> Self {
        Self { order: List::laid(memory, config.frames, 1) }
    }
}

impl Replacement for Fifo<'_> {
    #[inline]
    fn inserted(&self, frame: u32, _page: PageKey) {
        self.order.append(frame);
    }

    #[inline]
    fn referenced(&self, _frame: u32) {}

    #[inline]
    fn victim(&self) -> Option<u32> {
        let first = self.order.oldest()?;
        self.order.remove(first);
        Some(first)
    }

    fn removed(&self, frame: u32) {
        self.order.remove(frame);
    }

    fn contains(&self, frame: u32) -> bool {
        self.order.contains(frame)
    }

    fn check(&self) {
        self.order.check();
    }
}
