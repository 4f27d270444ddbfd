//! First in, first out. The yardstick: what a policy is worth that looks at nothing.
//!
//! 1. `order` has the frames in the order in which their pages came.

use super::list::List;
use super::{Laid, Memory, PageKey, Parameter, Replacement, Shape};

/// Pages leave in the order in which they came.
pub struct Fifo<'r> {
    order: List<'r>,
}

impl<'r> Laid<'r> for Fifo<'r> {
    const PARAMETERS: &'static [Parameter] = &[];

    fn bytes(shape: &Shape) -> usize {
        List::bytes(shape.frames, 1)
    }

    fn laid(memory: &mut Memory<'r>, shape: &Shape) -> Self {
        Self { order: List::laid(memory, shape.frames, 1) }
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
