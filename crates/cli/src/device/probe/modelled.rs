//! A modelled drive under the loads, in virtual time: figures do not depend on the machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::DeviceError;
use mezzanine_device::model::{Operation, OperationKind, Progress, Ticket, Timing};
use mezzanine_ground::random::Random;

use super::load::{Load, LoadKind, Seen};
use super::subject::{FILL_BYTES, Subject};

/// A modelled drive with its state and its clock.
pub(super) struct ModelledDrive {
    timing: Arc<dyn Timing>,
    state: Box<[u64]>,
    now: u64,
    span_bytes: u64,
    /// Whether it carries writes through its cache by itself; for others the host flushes after them.
    has_fua: bool,
}

impl ModelledDrive {
    pub(super) fn new(timing: Arc<dyn Timing>, span_bytes: u64, has_fua: bool) -> ModelledDrive {
        ModelledDrive { state: timing.idle(), timing, now: 0, span_bytes, has_fua }
    }

    /// Submits an operation when there is room for it.
    fn submit(&mut self, operation: Operation) -> Ticket {
        loop {
            match self.timing.submit(&mut self.state, self.now, operation) {
                Ok(submitted) => return submitted.ticket,
                Err(full) => self.now = full.not_before.max(self.now + 1),
            }
        }
    }

    /// Lets time go by until an operation that is alone is complete; returns how long it took.
    fn carry_out(&mut self, operation: Operation) -> Duration {
        let began = self.now;
        let mut ticket = self.submit(operation);
        loop {
            match self.timing.progress(&mut self.state, self.now, &mut ticket) {
                Progress::At(at) => {
                    self.now = self.now.max(at);
                    return Duration::from_nanos(self.now - began);
                }
                Progress::NotBefore(at) => self.now = at.max(self.now + 1),
            }
        }
    }

    fn operation(&self, load: Load, place: u64) -> Operation {
        let kind = if load.kind == LoadKind::RandomRead { OperationKind::Read } else { OperationKind::Write };
        let operation = self.timing.operation(kind, place * load.request_bytes, load.request_bytes);
        Operation { through: load.kind == LoadKind::LogDsync, ..operation }
    }

    fn one_client(&mut self, load: Load, until: u64, seed: u64) -> Seen {
        let (mut seen, mut random) = (Seen::default(), Random::new(seed));
        let places = self.span_bytes / load.request_bytes;
        let began = self.now;
        let mut number = 0;
        while self.now < until || load.writes_per_fsync.is_some_and(|writes| number % writes != 0) {
            let place = if load.is_random() { random.below(places) } else { number % places };
            let operation = self.operation(load, place);
            let mut took = self.carry_out(operation);
            if load.kind == LoadKind::LogDsync && !self.has_fua {
                took += self.carry_out(Operation::FLUSH);
            }
            seen.requests.record(took);
            number += 1;
            if load.writes_per_fsync.is_some_and(|writes| number % writes == 0) {
                seen.fsyncs.record(self.carry_out(Operation::FLUSH));
            }
        }
        seen.time = Duration::from_nanos(self.now - began);
        seen
    }

    /// Clients that submit their next request when the one before is complete.
    fn many_clients(&mut self, load: Load, until: u64, seed: u64) -> Seen {
        let (mut seen, mut random) = (Seen::default(), Random::new(seed));
        let places = self.span_bytes / load.request_bytes;
        let began = self.now;
        // When to look at which client next; a client without a ticket has yet to submit.
        let mut look: BinaryHeap<_> = (0..load.clients).map(|client| Reverse((began, client))).collect();
        let mut clients: Vec<(u64, Option<Ticket>)> = vec![(began, None); load.clients];
        while let Some(Reverse((now, client))) = look.pop() {
            self.now = self.now.max(now);
            let (since, ticket) = &mut clients[client];
            let Some(under_way) = ticket else {
                if now >= until {
                    continue;
                }
                let operation = self.operation(load, random.below(places));
                match self.timing.submit(&mut self.state, self.now, operation) {
                    Ok(submitted) => {
                        *ticket = Some(submitted.ticket);
                        look.push(Reverse((self.now, client)));
                    }
                    Err(full) => look.push(Reverse((full.not_before.max(self.now + 1), client))),
                }
                continue;
            };
            match self.timing.progress(&mut self.state, self.now, under_way) {
                Progress::At(at) if at <= self.now => {
                    seen.requests.record(Duration::from_nanos(self.now - *since));
                    (*since, *ticket) = (self.now, None);
                    look.push(Reverse((self.now, client)));
                }
                Progress::At(at) => {
                    *ticket = Some(Ticket::known(at));
                    look.push(Reverse((at, client)));
                }
                Progress::NotBefore(at) => look.push(Reverse((at.max(self.now + 1), client))),
            }
        }
        seen.time = Duration::from_nanos(self.now - began);
        seen
    }
}

impl Subject for ModelledDrive {
    fn fill(&mut self, filled: &mut dyn FnMut(u64)) -> Result<(), DeviceError> {
        let mut offset = 0;
        while offset < self.span_bytes {
            let len = FILL_BYTES.min(self.span_bytes - offset);
            let operation = self.timing.operation(OperationKind::Write, offset, len);
            self.carry_out(operation);
            offset += len;
            filled(offset);
        }
        self.settle()
    }

    fn run(&mut self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError> {
        let until = self.now + time.as_nanos() as u64;
        Ok(if load.clients == 1 {
            self.one_client(load, until, seed)
        } else {
            self.many_clients(load, until, seed)
        })
    }

    fn settle(&mut self) -> Result<(), DeviceError> {
        self.carry_out(Operation::FLUSH);
        Ok(())
    }

    fn flushes_counted(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::model;

    use super::super::load::{Row, Rows, loads};
    use super::super::subject::measure;
    use super::*;

    fn probe(name: &str) -> Vec<Row> {
        let span = 64 << 20;
        let timing = mezzanine_ssd::timing(&model::find(name).unwrap()).unwrap();
        let mut drive = ModelledDrive::new(timing, span, name == "durassd");
        drive.fill(&mut |_| {}).unwrap();
        let time = Duration::from_millis(300);
        loads(128).into_iter().map(|load| measure(&mut drive, load, time, 1).unwrap()).collect()
    }

    /// Tables 1 and 2 of the DuraSSD paper: both ends are fitted, so no more than that is asked for here.
    #[test]
    fn the_drive_of_the_paper_has_the_figures_of_the_paper() {
        let rows = probe("durassd");
        let rows = Rows(&rows);
        for (found, printed) in [
            (rows.writes(4096, Some(1)), 225.0),
            (rows.writes(4096, None), 15_319.0),
            (rows.reads(4096), 89_083.0),
            (rows.reads(16_384), 29_870.0),
            (rows.many_writes(4096), 49_009.0),
        ] {
            let found = found.unwrap().per_second;
            assert!((found / printed - 1.0).abs() < 0.05, "{found} where {printed} is printed");
        }
    }

    #[test]
    fn a_disk_takes_its_time_and_keeps_the_order_of_figures() {
        let rows = probe("cheetah-15k-cached");
        let rows = Rows(&rows);
        let each = rows.writes(4096, Some(1)).unwrap();
        assert!(each.per_second < 500.0, "half a revolution takes 2 ms: {each:?}");
        let dsync = rows.find(LoadKind::LogDsync, 8192, None).unwrap();
        assert!(dsync.per_second < 1000.0, "each of these reaches the platter: {dsync:?}");
        assert!(rows.writes(4096, None).unwrap().per_second > each.per_second);
    }
}
