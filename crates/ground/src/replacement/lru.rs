//! Least recently used. The replacement of block caches such as bcache, and of Exadata's flash cache.
//!
//! 1. `order` has the frames in the order of the last reference to their pages; coming in is one.

use super::list::List;
use super::{Laid, Memory, PageKey, Parameter, Replacement, Shape};

/// The page leaves that was not referenced for the longest time.
pub struct Lru<'r> {
    order: List<'r>,
}

impl<'r> Laid<'r> for Lru<'r> {
    const PARAMETERS: &'static [Parameter] = &[];

    fn bytes(shape: &Shape) -> usize {
        List::bytes(shape.frames, 1)
    }

    fn laid(memory: &mut Memory<'r>, shape: &Shape) -> Self {
        Self { order: List::laid(memory, shape.frames, 1) }
    }
}

impl Replacement for Lru<'_> {
    #[inline]
    fn inserted(&self, frame: u32, _page: PageKey) {
        self.order.append(frame);
    }

    #[inline]
    fn referenced(&self, frame: u32) {
        self.order.renew(frame);
    }

    #[inline]
    fn victim(&self) -> Option<u32> {
        let coldest = self.order.oldest()?;
        self.order.remove(coldest);
        Some(coldest)
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
