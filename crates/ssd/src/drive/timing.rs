//! The drive as a mechanism: when commands are complete.

use std::ptr::NonNull;

use mezzanine_device::model::{Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing};

use mezzanine_device::prefer_huge_pages;

use super::Ssd;
use crate::power::Recorder;
use crate::state::Parts;

impl Ssd {
    /// [`Timing::submit`], and has what flash and buffer hold kept. Returns when the operation is complete.
    pub fn submit_recorded(
        &self,
        state: &mut [u64],
        recorder: &mut Recorder,
        now: u64,
        operation: Operation,
    ) -> u64 {
        let mut parts = self.ready(state);
        recorder.settle(now.max(parts.words.now));
        parts.ftl.record = Some(recorder);
        self.enter(&mut parts, now, operation).0
    }

    /// Takes a state in hand for many operations, one after the other: what each of them would else do anew
    /// is done once.
    ///
    /// # Panics
    /// If the state is that of another drive.
    pub fn in_hand<'s>(&'s self, state: &'s mut [u64]) -> InHand<'s> {
        InHand { ssd: self, parts: self.ready(state) }
    }

    /// When an operation is complete that arrives now, and whether it begins where one of its kind ended.
    fn enter(&self, parts: &mut Parts<'_>, now: u64, operation: Operation) -> (u64, bool) {
        let span = self.span(operation.address, operation.len);
        // What the host needs of the map comes while the drive catches up with the time.
        parts.ftl.prefetch(span.first, 0);
        let now = now.max(parts.words.now);
        parts.words.now = now;
        self.start_waiting(parts.words, &mut parts.ftl, now);
        self.release(parts.words, &mut parts.ftl, now);
        // A command begins when it has a place in the queue.
        let place = parts.queue.place(parts.words.commands, now);
        let begins = now.max(parts.queue.done[place]);
        let end = operation.address.saturating_add(operation.len);
        let (mut done, sequential) = match operation.kind {
            OperationKind::Read => {
                let before = std::mem::replace(&mut parts.words.read_to, end);
                (self.read(parts, begins, span), before == operation.address)
            }
            OperationKind::Write => {
                let before = std::mem::replace(&mut parts.words.written_to, end);
                let stream = u32::from(operation.stream);
                let done = self.write(parts, begins, span, stream, operation.through);
                (done, before == operation.address)
            }
            OperationKind::Flush => (self.flush(parts, begins), false),
            OperationKind::Discard => (self.discard(parts, begins, operation), false),
            // It has no zones.
            OperationKind::Reset | OperationKind::Finish => (begins, false),
        };
        if self.config.host.ordered {
            done = done.max(parts.words.completed_at);
        }
        parts.words.completed_at = parts.words.completed_at.max(done);
        parts.queue.done[place] = done;
        parts.words.commands += 1;
        (done, sequential)
    }
}

/// A drive whose state somebody has in hand.
#[derive(Debug)]
pub struct InHand<'s> {
    ssd: &'s Ssd,
    parts: Parts<'s>,
}

impl InHand<'_> {
    /// As [`Timing::submit`]. Returns when the operation is complete, in ns of model time.
    #[inline]
    pub fn submit(&mut self, now: u64, operation: Operation) -> u64 {
        self.enter(now, operation).0
    }

    /// Says which operation comes soon, best three or four before it: what the drive's map says of its first
    /// unit is fetched from memory meanwhile. Nothing but the time that the computation takes depends on it.
    #[inline]
    pub fn expect(&self, operation: Operation) {
        let span = self.ssd.span(operation.address, operation.len);
        self.parts.ftl.prefetch(span.first, 0);
    }

    #[inline]
    fn enter(&mut self, now: u64, operation: Operation) -> (u64, bool) {
        self.ssd.enter(&mut self.parts, now, operation)
    }
}

impl Timing for Ssd {
    fn state_words(&self) -> usize {
        self.layout.len()
    }

    fn idle(&self) -> Box<[u64]> {
        let mut state = vec![0; self.state_words()].into_boxed_slice();
        // Writes at random places touch it at random places.
        prefer_huge_pages(NonNull::from(bytemuck::cast_slice_mut::<u64, u8>(&mut state)));
        state
    }

    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full> {
        let (done, sequential) = self.in_hand(state).enter(now, operation);
        Ok(Submitted { sequential, ticket: Ticket::known(done) })
    }

    fn progress(&self, _state: &mut [u64], _now: u64, ticket: &mut Ticket) -> Progress {
        Progress::At(ticket.completion().unwrap_or(0))
    }

    fn busy(&self, state: &[u64]) -> u64 {
        self.layout.counters(state).busy_ns
    }

    fn servers(&self) -> u32 {
        self.config.geometry.planes()
    }

    fn capacity(&self) -> u64 {
        self.config.capacity_bytes
    }

    fn repair(&self, state: &mut [u64], now: u64) {
        self.repair_state(state, now);
    }
}
