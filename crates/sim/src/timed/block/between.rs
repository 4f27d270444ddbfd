//! What stands between block requests and the devices: the one interface of the fragment cache, its rivals
//! and nothing at all.
//!
//! A request, and a job in the background, is a row of *rounds*: operations of devices that are entered at
//! once. When the last of a round is complete whoever stands between is asked for the next one, and a round
//! without operations ends the request or the job. The host has the clock and the devices; whoever stands
//! between has neither.
//!
//! 1. A request is answered once, after the last of its rounds.
//! 2. A number names one job from when it is handed out until its last round.

use mezzanine_device::model::OperationKind;
use serde::Serialize;

/// A device of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// The slow one, that has everything.
    Backing,
    /// The fast one.
    Cache,
}

/// An operation that a device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) device: Device,
    pub(super) kind: OperationKind,
    /// In bytes, as the length.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Ask {
    pub(super) fn read(device: Device, offset: u64, bytes: u64) -> Self {
        Self { device, kind: OperationKind::Read, offset, bytes }
    }

    pub(super) fn write(device: Device, offset: u64, bytes: u64) -> Self {
        Self { device, kind: OperationKind::Write, offset, bytes }
    }
}

/// A request of a client, of one block or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) is_write: bool,
    /// In bytes, as the length.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Work in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A job begins; its first round was asked for.
    Job(u32),
    /// None before this time in ns, unless something happens; `u64::MAX`: none at all.
    NotBefore(u64),
}

/// What was counted since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Reads, and those of them that the cache device answered whole.
    pub(super) reads: u64,
    pub(super) reads_hit: u64,
    /// Bytes written to the cache device to bring in what was read, with what was brought in beside it.
    pub(super) populated_bytes: u64,
    /// Bytes written there because clients wrote them.
    pub(super) written_bytes: u64,
    /// Bytes written there so that the map survives.
    pub(super) index_bytes: u64,
}

/// Whoever stands between.
pub(super) trait Between {
    /// Client `who`, who has no other request, makes one: its first round is added to `round`.
    fn begin(&mut self, who: u32, request: Request, now: u64, round: &mut Vec<Ask>);

    /// Whether the request that the client has just made, or that has just gone on, waits for another one or
    /// for room: it has no round until [`Self::released`] says so.
    fn is_waiting(&self, _who: u32) -> bool {
        false
    }

    /// A client whose request has waited and goes on now: its first round is added to `round`.
    fn released(&mut self, _now: u64, _round: &mut Vec<Ask>) -> Option<u32> {
        None
    }

    /// When [`Self::released`] is to be asked at the latest.
    fn released_by(&self) -> Option<u64> {
        None
    }

    /// A round of a client's request is complete: adds the next one. Without one it is answered.
    fn go_on(&mut self, who: u32, now: u64, round: &mut Vec<Ask>);

    /// Whether [`Self::next_job`] may have one now: a quick look.
    fn may_have_job(&self, now: u64) -> bool;

    /// The next job, with its first round.
    fn next_job(&mut self, now: u64, round: &mut Vec<Ask>) -> Next;

    /// A round of a job is complete: adds the next one. Without one the job is over.
    fn job_goes_on(&mut self, job: u32, now: u64, round: &mut Vec<Ask>);

    /// Why something went past the cache, was held back or not brought in: names and counts, as far as
    /// whoever stands between counts such.
    fn reasons(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What was counted.
    fn tally(&self) -> Tally;

    /// Bytes of memory that the map takes, as whoever stands between reckons it.
    fn memory_bytes(&self) -> u64;

    /// The rules that hold when nothing is under way and at any other time.
    fn check(&self);
}

/// Nobody: every request goes to one device, which has everything.
pub(super) struct Nobody {
    device: Device,
    tally: Tally,
}

impl Nobody {
    /// All on this device.
    pub(super) fn new(device: Device) -> Self {
        Self { device, tally: Tally::default() }
    }
}

impl Between for Nobody {
    fn begin(&mut self, _who: u32, request: Request, _now: u64, round: &mut Vec<Ask>) {
        let Request { is_write, offset, bytes } = request;
        if is_write {
            round.push(Ask::write(self.device, offset, bytes));
            self.tally.written_bytes += if self.device == Device::Cache { bytes } else { 0 };
            return;
        }
        self.tally.reads += 1;
        self.tally.reads_hit += u64::from(self.device == Device::Cache);
        round.push(Ask::read(self.device, offset, bytes));
    }

    fn go_on(&mut self, _who: u32, _now: u64, _round: &mut Vec<Ask>) {}

    fn may_have_job(&self, _now: u64) -> bool {
        false
    }

    fn next_job(&mut self, _now: u64, _round: &mut Vec<Ask>) -> Next {
        Next::NotBefore(u64::MAX)
    }

    fn job_goes_on(&mut self, job: u32, _now: u64, _round: &mut Vec<Ask>) {
        unreachable!("job {job}: nobody has any")
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn check(&self) {}
}
