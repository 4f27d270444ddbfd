//! What is behind a device in memory: something that carries its requests out and decides what a power cut
//! leaves of them.
//!
//! The image of the device stays, and is what reads are compared with: it shows contents to those who look
//! past the software. Rules, numbered for reference:
//! 1. Until the power fails, what is behind reads as the image does; or, where it changes by itself, every
//!    read brings the image up to date.
//! 2. After a power cut the image is what is behind then. Places that cannot be read are zeros in it.
//! 3. Planned faults and bad places strike before a request comes through.

use super::{
    Capabilities, CutReport, DeviceErrorKind, Image, MemoryDevice, Operation, Power, Request, Spent, State,
};

/// What can be behind a [`MemoryDevice`], such as a drive from the inside.
pub trait Medium: Send {
    /// What it is like. Its length is not less than that of the device.
    fn capabilities(&self) -> Capabilities;

    /// Carries out a read, write, flush or discard, of which `spent` says what power it has. Power that has
    /// failed in a request and is there again in the next one, without a power cut in between, has not
    /// failed: a process was killed.
    ///
    /// # Errors
    /// What the drive says. Of a request in which the power fails nobody is told.
    fn request(&mut self, request: &mut Request<'_>, spent: Spent) -> Result<(), DeviceErrorKind>;

    /// Whether it may read otherwise than it was written, and otherwise from one time to the next.
    fn changes_by_itself(&self) -> bool;

    /// What the last error was about, for people.
    fn says(&self) -> Option<String>;

    /// What a read would find, without a request and without power. What cannot be read is zeros.
    fn peek(&self, offset: u64, buf: &mut [u8]);

    /// The power fails, if it has not failed in a request, and comes on again. `seed` decides what nothing
    /// else does.
    fn power_cut(&mut self, seed: u64) -> CutReport;

    /// Another one of its kind takes its place, and holds this, durably.
    fn replace(&mut self, image: &Image);
}

/// A medium, and how many changes it has been told since its last flush.
pub(super) struct Behind {
    medium: Box<dyn Medium>,
    unflushed: usize,
}

impl Behind {
    pub(super) fn capabilities(&self) -> Capabilities {
        self.medium.capabilities()
    }

    pub(super) fn unflushed(&self) -> usize {
        self.unflushed
    }

    pub(super) fn says(&self) -> Option<String> {
        self.medium.says()
    }

    fn request(&mut self, request: &mut Request<'_>) -> Result<(), DeviceErrorKind> {
        self.medium.request(request, Spent::On)
    }
}

/// Bytes that are looked at at a time.
const PIECE_BYTES: usize = 1 << 16;

impl MemoryDevice {
    /// A device of `len` zero bytes before a medium that was never used.
    ///
    /// # Panics
    /// When the medium is shorter.
    pub fn before(medium: Box<dyn Medium>, power: &Power, name: &'static str, len: u64) -> Self {
        assert!(medium.capabilities().len >= len, "what is behind {name} is shorter than {len} bytes");
        let device = Self::on(power, name, len, false);
        device.state().behind = Some(Behind { medium, unflushed: 0 });
        device
    }
}

impl State {
    /// A read went well as far as the device itself knows, and has found this in the image.
    pub(super) fn read_behind(&mut self, offset: u64, found: &mut [u8]) -> Result<(), DeviceErrorKind> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        let mut buf = vec![0; found.len()];
        if let Err(kind) = behind.request(&mut Request::Read { offset, buf: &mut buf }) {
            self.plan.count(Operation::Read);
            return Err(kind);
        }
        if behind.medium.changes_by_itself() && buf != found {
            found.copy_from_slice(&buf);
            self.image.write(offset as usize, &buf);
        }
        assert!(buf == found, "rule 1: what is behind reads as the image does from {offset} on");
        Ok(())
    }

    pub(super) fn write_behind(&mut self, offset: u64, buf: &[u8]) -> Result<(), DeviceErrorKind> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        behind.unflushed += 1;
        behind.request(&mut Request::write(buf, offset)).inspect_err(|_| self.plan.count(Operation::Write))
    }

    pub(super) fn discard_behind(&mut self, offset: u64, len: u64) -> Result<(), DeviceErrorKind> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        behind.unflushed += 1;
        behind.request(&mut Request::Discard { offset, len })?;
        self.changes += 1;
        self.show_behind(offset, len);
        Ok(())
    }

    pub(super) fn flush_behind(&mut self) -> Result<(), DeviceErrorKind> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        if let Err(kind) = behind.request(&mut Request::Flush) {
            self.plan.count(Operation::Flush);
            self.flush_failed = true;
            return Err(kind);
        }
        behind.unflushed = 0;
        Ok(())
    }

    /// The last write has to be durable. What is behind is told of a flush.
    pub(super) fn last_is_durable(&mut self) -> Result<(), DeviceErrorKind> {
        match &mut self.behind {
            Some(behind) => behind.request(&mut Request::Flush),
            None => {
                self.cache.last_is_durable();
                Ok(())
            }
        }
    }

    /// The power fails in a request, or in one beside it. What comes of it is told to nobody.
    pub(super) fn cut_behind(&mut self, request: &mut Request<'_>) -> DeviceErrorKind {
        let range = request.range().filter(|(offset, len)| self.range(*offset, *len).is_some());
        let changes = !matches!(request, Request::Read { .. } | Request::Flush);
        if let Some(behind) = &mut self.behind {
            if range.is_some() || matches!(request, Request::Flush) {
                let _ = behind.medium.request(request, Spent::Cut);
                behind.unflushed += usize::from(changes);
            }
        }
        if let Some((offset, len)) = range.filter(|_| changes) {
            self.show_behind(offset, len);
        }
        DeviceErrorKind::PoweredOff
    }

    /// What is behind loses power, if there is anything: what came of that.
    pub(super) fn behind_loses_power(&mut self, seed: u64) -> Option<CutReport> {
        let behind = self.behind.as_mut()?;
        let report = behind.medium.power_cut(seed);
        behind.unflushed = 0;
        self.flush_failed = false;
        self.show_behind(0, self.image.len() as u64);
        Some(report)
    }

    /// The image has been replaced.
    pub(super) fn behind_holds_image(&mut self) {
        if let Some(behind) = &mut self.behind {
            behind.medium.replace(&self.image);
            behind.unflushed = 0;
        }
    }

    /// Brings the image up to date (rule 2).
    fn show_behind(&mut self, offset: u64, len: u64) {
        let Some(behind) = &self.behind else { return };
        let (mut at, end) = (offset, offset + len);
        let mut buf = Vec::new();
        while at < end {
            buf.resize(PIECE_BYTES.min((end - at) as usize), 0);
            behind.medium.peek(at, &mut buf);
            let place = at as usize..at as usize + buf.len();
            // What is as it was is shared with snapshots.
            if *self.image.range(place) != *buf {
                self.image.write(at as usize, &buf);
            }
            at += buf.len() as u64;
        }
    }
}
