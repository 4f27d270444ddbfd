//! Reads ahead of a device on a modelled drive: the drive's time passes from when they are begun.

use std::sync::Arc;

use super::{Attached, Pending};
use crate::ahead::{ReadLate, ReadsAhead};
use crate::model::OperationKind;

/// What was begun and is given up stays an operation that the drive has carried out.
pub(super) struct DriveAhead {
    attached: Arc<Attached>,
    bytes: usize,
    /// The bytes, with no time of the model.
    inner: Box<dyn ReadsAhead>,
    pending: Vec<Option<Pending>>,
}

impl DriveAhead {
    pub(super) fn new(attached: Arc<Attached>, places: usize, bytes: usize) -> Self {
        // What is under the model is its contents: where the system reads nothing ahead, they come late, and
        // the drive's time has passed all the same.
        let inner = Arc::clone(&attached.inner)
            .reads_ahead(places, bytes)
            .unwrap_or_else(|_| Box::new(ReadLate::new(Arc::clone(&attached.inner), places, bytes)));
        Self { attached, bytes, inner, pending: (0..places).map(|_| None).collect() }
    }
}

impl ReadsAhead for DriveAhead {
    fn begin(&mut self, place: usize, offset: u64) -> bool {
        self.pending[place] = None;
        if !self.inner.begin(place, offset) {
            return false;
        }
        let read = self.attached.placed(OperationKind::Read, offset, self.bytes as u64);
        self.pending[place] = self.attached.drive.enter(std::iter::once(read));
        true
    }

    fn finish(&mut self, place: usize) -> Option<&[u8]> {
        let read = self.inner.finish(place);
        if let Some(pending) = self.pending[place].take() {
            self.attached.drive.wait_from_now(pending);
        }
        read
    }

    fn is_under_way(&mut self, place: usize) -> bool {
        self.inner.is_under_way(place)
    }

    fn describe(&self) -> String {
        format!("the clock of a modelled {}", self.attached.drive.model.title)
    }
}
