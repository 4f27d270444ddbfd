//! Hosts without data: simulators, for which a write is an offset and a length. Everything but the bytes is
//! as with data, down to the memory that copies take.

use crate::cache::Cache;
use crate::geometry::RequestError;
use crate::statistics::Event;
use crate::write::{Contents, WriteToken};

impl Cache {
    /// [`Cache::write_begin`] of so many bytes that nobody keeps: jobs name what is to be written where, and
    /// the bytes that they show are of no meaning. A host that does this for one write does it for all.
    ///
    /// # Errors
    /// If the write does not lie in the volume. Then nothing has begun.
    pub fn write_begin_hollow(
        &self,
        volume: usize,
        offset: u64,
        bytes: u64,
    ) -> Result<WriteToken, RequestError> {
        let token = self.begin(volume, offset, bytes, Contents::Hollow)?;
        self.count(Event::Write);
        Ok(token)
    }
}
