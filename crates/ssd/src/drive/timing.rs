//! The drive as a mechanism: when commands are complete.

use mezzanine_device::model::{Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing};

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

    /// When an operation is complete that arrives now, and whether it begins where one of its kind ended.
    fn enter(&self, parts: &mut Parts<'_>, now: u64, operation: Operation) -> (u64, bool) {
        let now = now.max(parts.words.now);
        parts.words.now = now;
        self.start_waiting(parts.words, &mut parts.ftl, now);
        self.release(parts.words, &mut parts.ftl, now);
        // A command begins when the one that came a queue's length before it is complete.
        let begins = now.max(*parts.queue.of_command(parts.words.commands));
        let span = self.span(operation.address, operation.len);
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
        *parts.queue.of_command(parts.words.commands) = done;
        parts.words.commands += 1;
        (done, sequential)
    }
}

impl Timing for Ssd {
    fn state_words(&self) -> usize {
        self.layout.len()
    }

    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full> {
        let mut parts = self.ready(state);
        let (done, sequential) = self.enter(&mut parts, now, operation);
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
