//! Requests made to a middle tier, and what it returns looked at.

use super::disk::slot_of;
use super::{MiddleTier, Request};

/// A middle tier, and what each page holds that was written to it.
#[derive(Debug)]
pub struct Driver {
    tier: Box<dyn MiddleTier>,
    /// Of each page, the number of the request that wrote it last.
    newest: Vec<u64>,
    made: u64,
}

impl Driver {
    /// Nothing was written yet.
    pub fn new(tier: Box<dyn MiddleTier>) -> Self {
        Self { tier, newest: Vec::new(), made: 0 }
    }

    /// Makes a request. Says whether the page was in the middle tier.
    ///
    /// # Panics
    /// If the page that is read is not what was written last: no version is lost, nor an older one returned.
    pub fn make(&mut self, request: Request) -> bool {
        self.made += 1;
        let newest = slot_of(&mut self.newest, request.page());
        if request.is_write() {
            *newest = self.made;
            return self.tier.write(request.page(), self.made);
        }
        let found = self.tier.read(request.page());
        assert_eq!(found.content, *newest, "page {} is not what was written last", request.page());
        found.is_hit
    }

    /// The middle tier.
    pub fn tier(&self) -> &dyn MiddleTier {
        &*self.tier
    }

    /// As [`MiddleTier::check`].
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn check(&mut self) -> Result<(), String> {
        self.tier.check()
    }
}
