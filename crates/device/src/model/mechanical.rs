//! The mechanisms that are here: disks, and drives with a table of figures.

use std::sync::Arc;

use super::array::{Array, ArrayState};
use super::disk::{Piece, Reached};
use super::spec::{Mechanism, Model};
use super::streams::Streams;
use super::table::{Placed, Table, TableState};
use super::timing::{Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing, Way};
use crate::{DeviceError, DeviceErrorKind};

/// Everything that a drive of one of the two remembers: whole words, without padding or pointers, and valid
/// whatever they are.
#[repr(C)]
struct State {
    table: TableState,
    array: ArrayState,
    read_streams: Streams,
    write_streams: Streams,
    table_busy: u64,
}

const WORDS: usize = size_of::<State>() / 8;
const _: () = assert!(size_of::<State>() % 8 == 0 && align_of::<State>() == 8);

impl State {
    /// The state that a row of words is.
    fn of(words: &mut [u64]) -> &mut Self {
        assert_eq!(words.len(), WORDS, "the words of a state");
        // SAFETY: there are as many words as the state has, aligned as it is (both asserted); every pattern
        // of bytes is a valid state, and the borrow of the words is passed on.
        unsafe { &mut *words.as_mut_ptr().cast::<Self>() }
    }

    /// The same, to look at.
    fn seen(words: &[u64]) -> &Self {
        assert_eq!(words.len(), WORDS, "the words of a state");
        // SAFETY: as in `of`.
        unsafe { &*words.as_ptr().cast::<Self>() }
    }
}

/// A model of one of the two kinds, made ready to compute with.
#[derive(Debug, Clone)]
struct Mechanical {
    engine: Engine,
    capacity: u64,
    servers: u32,
}

#[derive(Debug, Clone)]
enum Engine {
    Table(Table),
    Array(Box<Array>),
}

impl Model {
    /// The model made ready to compute with.
    ///
    /// # Errors
    /// `Unsupported` for a flash drive from the inside, whose times another crate computes.
    pub fn timing(&self) -> Result<Arc<dyn Timing>, DeviceError> {
        let engine = match &self.mechanism {
            Mechanism::Drive(parameters) => Engine::Table(Table::new(&self.figures, parameters)),
            Mechanism::Hdd(parameters) => {
                Engine::Array(Box::new(Array::new(parameters, self.capacity_bytes)))
            }
            Mechanism::Ssd(_) => {
                let device = format!("the drive model {}", self.name);
                let error = DeviceError::new(DeviceErrorKind::Unsupported, "use", device);
                let reason = "it is a flash drive from the inside, which is not modelled here; \
                     take one with a table of figures (`mezz device list`)";
                return Err(error.advise(reason.to_owned()));
            }
        };
        Ok(Arc::new(Mechanical { engine, capacity: self.capacity_bytes, servers: self.servers() }))
    }
}

impl Timing for Mechanical {
    fn state_words(&self) -> usize {
        WORDS
    }

    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full> {
        let state = State::of(state);
        let Operation { kind, address, len, position, .. } = operation;
        let ticket = match &self.engine {
            Engine::Table(table) => {
                let Placed { completion, busy, sequential } = match kind {
                    OperationKind::Read => table.read(&mut state.table, now, address, len),
                    OperationKind::Write => table.write(&mut state.table, now, address, len),
                    OperationKind::Flush => table.flush(&mut state.table, now),
                    OperationKind::Discard | OperationKind::Reset | OperationKind::Finish => {
                        Placed { completion: now, busy: 0, sequential: false }
                    }
                };
                state.table_busy = state.table_busy.wrapping_add(busy);
                return Ok(Submitted { sequential, ticket: Ticket(Way::Known(completion)) });
            }
            Engine::Array(_)
                if matches!(kind, OperationKind::Discard | OperationKind::Reset | OperationKind::Finish) =>
            {
                return Ok(Submitted { sequential: false, ticket: Ticket(Way::Known(now)) });
            }
            Engine::Array(array) if kind == OperationKind::Flush => array.flush(&mut state.array, now),
            Engine::Array(array) => {
                let piece = Piece { write: kind == OperationKind::Write, start: address, len, position };
                array.submit(&mut state.array, now, piece).map_err(|not_before| Full { not_before })?
            }
        };
        let sequential = match kind {
            OperationKind::Read => state.read_streams.note(address, len),
            OperationKind::Write => state.write_streams.note(address, len),
            OperationKind::Flush | OperationKind::Discard | OperationKind::Reset | OperationKind::Finish => {
                false
            }
        };
        Ok(Submitted { sequential, ticket: Ticket(Way::Array(ticket)) })
    }

    fn progress(&self, state: &mut [u64], now: u64, ticket: &mut Ticket) -> Progress {
        let state = State::of(state);
        match (&mut ticket.0, &self.engine) {
            (Way::Known(at), _) => Progress::At(*at),
            (Way::Array(ticket), Engine::Array(array)) => match array.progress(&mut state.array, now, ticket)
            {
                Reached::At(at) => Progress::At(at),
                Reached::NotBefore(at) => Progress::NotBefore(at),
            },
            (Way::Array(_), Engine::Table(_)) | (Way::Marked(_), _) => Progress::At(now),
        }
    }

    fn busy(&self, state: &[u64]) -> u64 {
        let state = State::seen(state);
        match &self.engine {
            Engine::Table(_) => state.table_busy,
            Engine::Array(array) => array.busy(&state.array),
        }
    }

    fn servers(&self) -> u32 {
        self.servers
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn repair(&self, state: &mut [u64], now: u64) {
        let state = State::of(state);
        state.table = TableState::EMPTY;
        if let Engine::Array(array) = &self.engine {
            array.reset(&mut state.array, now);
        }
        (state.read_streams, state.write_streams) = (Streams::EMPTY, Streams::EMPTY);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model;

    #[test]
    fn a_state_left_in_the_middle_of_a_change_is_usable_after_a_reset() {
        for model in model::catalogue() {
            let Ok(timing) = model.timing() else { continue };
            let mut state = timing.idle();
            let write = timing.operation(OperationKind::Write, 0, 4096);
            let mut lost: Vec<Ticket> =
                (0..100).map(|_| timing.submit(&mut state, 1_000, write).unwrap().ticket).collect();
            State::of(&mut state).array.leave_torn();
            timing.repair(&mut state, 5_000);
            for _ in 0..200 {
                let mut ticket = timing.submit(&mut state, 5_000, write).unwrap().ticket;
                let mut now = 5_000;
                let at = loop {
                    match timing.progress(&mut state, now, &mut ticket) {
                        Progress::At(at) => break at,
                        Progress::NotBefore(later) => now = later,
                    }
                };
                assert!(at < 100_000_000_000, "{}: complete at {at}", model.name);
            }
            // Whoever waited before the reset is let go.
            for ticket in &mut lost {
                assert!(
                    matches!(timing.progress(&mut state, 6_000, ticket), Progress::At(_)),
                    "{}",
                    model.name
                );
            }
        }
    }
}
