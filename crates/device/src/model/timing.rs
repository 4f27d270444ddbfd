//! The model as a function of state, time and operation.

use super::array::{Array, ArrayState, ArrayTicket};
use super::disk::{Piece, Reached};
use super::spec::{Mechanism, Model};
use super::streams::Streams;
use super::table::{Placed, Table, TableState};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes completed writes durable.
    Flush,
}

/// An operation on a modelled drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// First byte on the drive.
    pub address: u64,
    /// Number of bytes.
    pub len: u64,
    /// Where the arm of a disk has to go, as a fraction of the full stroke.
    pub position: f64,
}

impl Operation {
    /// A flush.
    pub const FLUSH: Self = Self { kind: OperationKind::Flush, address: 0, len: 0, position: 0.0 };
}

/// Everything a modelled drive remembers. The same for all kinds, of fixed size, without pointers, and valid
/// whatever its bytes are, so that it can live in memory that processes share. All zero is an idle drive at
/// time 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct State {
    table: TableState,
    array: ArrayState,
    read_streams: Streams,
    write_streams: Streams,
    table_busy: u64,
}

impl State {
    const EMPTY: Self = Self {
        table: TableState::EMPTY,
        array: ArrayState::EMPTY,
        read_streams: Streams::EMPTY,
        write_streams: Streams::EMPTY,
        table_busy: 0,
    };

    /// An idle drive at time 0.
    pub fn new() -> Box<Self> {
        // Through a vector, because the state is too large to pass over the stack of a small thread.
        let states = vec![Self::EMPTY; 1].into_boxed_slice();
        let states: Result<Box<[Self; 1]>, _> = states.try_into();
        let [state] = *states.expect("the slice has one element");
        Box::new(state)
    }
}

/// The drive has no room for another operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// When to try again, at the earliest.
    pub not_before: u64,
}

/// A submitted operation.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Whether it begins where a recent operation of its kind ended.
    pub sequential: bool,
    /// To ask for its completion with.
    pub ticket: Ticket,
}

/// Stands for an operation under way. To be passed to [`Timing::progress`] until that answers
/// [`Progress::At`].
#[derive(Debug, Clone)]
pub struct Ticket(Way);

#[derive(Debug, Clone)]
enum Way {
    Known(u64),
    Array(ArrayTicket),
}

impl Ticket {
    /// The ticket of an operation whose completion is known: to keep in place of one that has answered
    /// [`Progress::At`] with a time to come.
    pub fn known(at: u64) -> Self {
        Self(Way::Known(at))
    }

    /// Whether the completion was known at submission.
    pub fn is_known(&self) -> bool {
        matches!(self.0, Way::Known(_))
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is complete at this time, past or future.
    At(u64),
    /// Its completion cannot be known before this time, and lies later.
    NotBefore(u64),
}

/// A model made ready to compute with.
#[derive(Debug, Clone)]
pub struct Timing {
    engine: Engine,
    capacity: u64,
    servers: u32,
}

#[derive(Debug, Clone)]
enum Engine {
    Table(Table),
    Array(Box<Array>),
}

impl Timing {
    /// The timing of a model.
    pub fn new(model: &Model) -> Self {
        let engine = match &model.mechanism {
            Mechanism::Drive(parameters) => Engine::Table(Table::new(&model.figures, parameters)),
            Mechanism::Hdd(parameters) => {
                Engine::Array(Box::new(Array::new(parameters, model.capacity_bytes)))
            }
        };
        Self { engine, capacity: model.capacity_bytes, servers: model.servers() }
    }

    /// An operation on `[address, address + len)` whose arm position is that of its address. Addresses beyond
    /// the capacity start again at its beginning.
    pub fn operation(&self, kind: OperationKind, address: u64, len: u64) -> Operation {
        let address = address % self.capacity;
        Operation { kind, address, len, position: address as f64 / self.capacity as f64 }
    }

    /// Enters an operation that arrives at `now`.
    ///
    /// `now` should not run backwards; an operation that does is treated as if it had arrived with its
    /// predecessor.
    ///
    /// # Errors
    /// [`Full`] if no room is left for it; nothing has changed then.
    pub fn submit(&self, state: &mut State, now: u64, operation: Operation) -> Result<Submitted, Full> {
        let Operation { kind, address, len, position } = operation;
        let ticket = match &self.engine {
            Engine::Table(table) => {
                let Placed { completion, busy, sequential } = match kind {
                    OperationKind::Read => table.read(&mut state.table, now, address, len),
                    OperationKind::Write => table.write(&mut state.table, now, address, len),
                    OperationKind::Flush => table.flush(&mut state.table, now),
                };
                state.table_busy = state.table_busy.wrapping_add(busy);
                return Ok(Submitted { sequential, ticket: Ticket(Way::Known(completion)) });
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
            OperationKind::Flush => false,
        };
        Ok(Submitted { sequential, ticket: Ticket(Way::Array(ticket)) })
    }

    /// How far an operation is at `now`. After `At` the ticket is used up.
    pub fn progress(&self, state: &mut State, now: u64, ticket: &mut Ticket) -> Progress {
        match (&mut ticket.0, &self.engine) {
            (Way::Known(at), _) => Progress::At(*at),
            (Way::Array(ticket), Engine::Array(array)) => match array.progress(&mut state.array, now, ticket)
            {
                Reached::At(at) => Progress::At(at),
                Reached::NotBefore(at) => Progress::NotBefore(at),
            },
            (Way::Array(_), Engine::Table(_)) => Progress::At(now),
        }
    }

    /// Time in ns that all servers together were busy.
    pub fn busy(&self, state: &State) -> u64 {
        match &self.engine {
            Engine::Table(_) => state.table_busy,
            Engine::Array(array) => array.busy(&state.array),
        }
    }

    /// Spindles or channels that work at the same time.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Addressable bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Makes a state usable again that a process left in the middle of a change: what was under way is over.
    pub fn reset(&self, state: &mut State, now: u64) {
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
            let timing = Timing::new(&model);
            let mut state = State::new();
            let write = timing.operation(OperationKind::Write, 0, 4096);
            let mut lost: Vec<Ticket> =
                (0..100).map(|_| timing.submit(&mut state, 1_000, write).unwrap().ticket).collect();
            state.array.leave_torn();
            timing.reset(&mut state, 5_000);
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
