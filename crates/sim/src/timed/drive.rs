//! A modelled drive in virtual time: the timing code of `mezzanine_device`, asked at the times that it names.
//!
//! 1. An operation is complete once, at the time that the model gives it, and is then forgotten.
//! 2. What the model has no room for waits here, in the order in which it came.

use std::collections::VecDeque;
use std::sync::Arc;

use mezzanine_device::model::{Operation, OperationKind, Progress, Ticket, Timing};
use mezzanine_device::{DeviceError, Model, Zones};
use mezzanine_ssd::{Counters, DriveWork, Inside};

/// A drive with operations for somebody who is a `W`.
pub(super) struct Drive<W> {
    timing: Arc<dyn Timing>,
    /// The same, if it is a flash drive from the inside.
    inside: Option<Inside>,
    state: Box<[u64]>,
    operations: Vec<Slot<W>>,
    unused: Vec<u32>,
    /// Operations that the model had no room for.
    refused: VecDeque<u32>,
    load: DriveLoad,
    write_end: u64,
}

struct Slot<W> {
    operation: Operation,
    began: u64,
    ticket: Option<Ticket>,
    whose: W,
}

/// What a drive has done: counts, bytes, and sums of ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DriveLoad {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
    /// Writes that began where the write before, of whomever, ended.
    pub(super) writes_sequential: u64,
    pub(super) flushes: u64,
    pub(super) residence: u64,
}

/// When to look at an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LookAt {
    pub(super) at: u64,
    pub(super) operation: u32,
}

/// How an operation is.
pub(super) enum Look<W> {
    /// Complete, now.
    Done(W),
    /// To be looked at again.
    Again(u64),
}

impl<W: Copy> Drive<W> {
    /// A drive that nobody has used, or in the condition that its model says; or with this state.
    ///
    /// # Errors
    /// What is wrong with the model.
    ///
    /// # Panics
    /// If the state is that of another drive.
    pub(super) fn new(model: &Model, state: Option<Box<[u64]>>) -> Result<Self, DeviceError> {
        let inside = Inside::of_model(model)?;
        let timing = match &inside {
            Some(inside) => inside.timing(),
            None => model.timing()?,
        };
        Ok(Self {
            state: state.unwrap_or_else(|| timing.idle()),
            timing,
            inside,
            operations: Vec::new(),
            unused: Vec::new(),
            refused: VecDeque::new(),
            load: DriveLoad::default(),
            write_end: u64::MAX,
        })
    }

    /// The state of a flash drive with a translation layer, from the inside, that is switched off now; of
    /// others none.
    pub(super) fn switched_off(mut self) -> Option<Box<[u64]>> {
        let Inside::Mapped(ssd) = self.inside? else { return None };
        ssd.rest(&mut self.state);
        Some(self.state)
    }

    /// Of a flash drive without a translation layer.
    pub(super) fn zones(&self) -> Option<Zones> {
        self.inside.as_ref().and_then(Inside::zones)
    }

    /// What the inside of a flash drive has counted.
    pub(super) fn inside(&self) -> Option<Counters> {
        self.inside.as_ref().map(|inside| inside.counters(&self.state))
    }

    /// What it did between two looks, so many seconds apart.
    pub(super) fn work(
        &self,
        first: Option<&Counters>,
        last: Option<&Counters>,
        seconds: f64,
    ) -> Option<DriveWork> {
        Some(self.inside.as_ref()?.work(&self.state, first?, last?, seconds))
    }

    /// An operation whose arm is where its address lies, if `span` is the whole stroke: 1 for the drive as it
    /// is.
    pub(super) fn operation(&self, kind: OperationKind, address: u64, len: u64, span: f64) -> Operation {
        let operation = self.timing.operation(kind, address, len);
        Operation { position: (operation.position * span).min(1.0), ..operation }
    }

    /// Enters an operation that comes now.
    pub(super) fn submit(&mut self, now: u64, operation: Operation, whose: W) -> LookAt {
        let load = &mut self.load;
        match operation.kind {
            OperationKind::Read => {
                load.reads += 1;
                load.read_bytes += operation.len;
            }
            OperationKind::Write => {
                load.writes += 1;
                load.write_bytes += operation.len;
                load.writes_sequential += u64::from(operation.address == self.write_end);
                self.write_end = operation.address + operation.len;
            }
            OperationKind::Flush => load.flushes += 1,
            OperationKind::Discard | OperationKind::Reset | OperationKind::Finish => {}
        }
        let slot = Slot { operation, began: now, ticket: None, whose };
        let number = match self.unused.pop() {
            Some(number) => {
                self.operations[number as usize] = slot;
                number
            }
            None => {
                self.operations.push(slot);
                self.operations.len() as u32 - 1
            }
        };
        let at = if self.refused.is_empty() { self.enter(now, number) } else { Err(now) };
        match at {
            Ok(at) => LookAt { at, operation: number },
            Err(not_before) => {
                self.refused.push_back(number);
                LookAt { at: not_before.max(now + 1), operation: number }
            }
        }
    }

    /// Gives an operation to the model: when to look at it. If there is no room: when to try again.
    fn enter(&mut self, now: u64, number: u32) -> Result<u64, u64> {
        let slot = &mut self.operations[number as usize];
        let submitted =
            self.timing.submit(&mut self.state, now, slot.operation).map_err(|full| full.not_before)?;
        slot.ticket = Some(submitted.ticket);
        // A completion that is known is asked for at once; a choice that the drive has not made yet, once all
        // that comes at this moment is there.
        Ok(match slot.ticket.as_mut().filter(|ticket| ticket.is_known()) {
            Some(ticket) => match self.timing.progress(&mut self.state, now, ticket) {
                Progress::At(at) | Progress::NotBefore(at) => at,
            },
            None => now,
        })
    }

    /// How an operation is now.
    pub(super) fn look(&mut self, now: u64, number: u32) -> Look<W> {
        let slot = &mut self.operations[number as usize];
        let Some(ticket) = &mut slot.ticket else { return Look::Again(self.retry(now, number)) };
        let at = match self.timing.progress(&mut self.state, now, ticket) {
            Progress::At(at) if at <= now => {
                self.load.residence += now - slot.began;
                slot.ticket = None;
                self.unused.push(number);
                return Look::Done(slot.whose);
            }
            Progress::At(at) => {
                // The ticket is used up; what is known is kept in its place.
                slot.ticket = Some(Ticket::known(at));
                at
            }
            Progress::NotBefore(at) => at,
        };
        Look::Again(at)
    }

    /// Tries again to enter an operation that there was no room for, after those that came before it.
    fn retry(&mut self, now: u64, number: u32) -> u64 {
        if self.refused.front() != Some(&number) {
            return now + RETRY_NS;
        }
        match self.enter(now, number) {
            Ok(at) => {
                self.refused.pop_front();
                at
            }
            Err(not_before) => not_before.max(now + 1),
        }
    }

    pub(super) fn load(&self) -> DriveLoad {
        self.load
    }

    /// Time in ns that all spindles or channels together were busy.
    pub(super) fn busy(&self) -> u64 {
        self.timing.busy(&self.state)
    }

    /// Spindles or channels.
    pub(super) fn servers(&self) -> u32 {
        self.timing.servers()
    }

    pub(super) fn capacity(&self) -> u64 {
        self.timing.capacity()
    }
}

/// After which time an operation looks again whether its turn has come.
const RETRY_NS: u64 = 100_000;

impl DriveLoad {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            writes_sequential: self.writes_sequential - earlier.writes_sequential,
            flushes: self.flushes - earlier.flushes,
            residence: self.residence - earlier.residence,
        }
    }
}
