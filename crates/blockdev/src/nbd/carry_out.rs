//! Requests carried out on the device.

use mezzanine_device::{AlignedBuf, Device, DeviceError, DeviceErrorKind};

use super::export::Export;
use super::request::Command;
use super::wire::{BASE_ALLOCATION_ID, ErrorNumber, STATE_HOLE, STATE_ZERO};
use crate::zeroes::{PIECE_BYTES, give_up, pieces, write_zeroes};

/// Ranges of one answer about allocation, at most.
const EXTENTS_MAX: usize = 1024;

/// What a request brings back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The bytes are in the buffer.
    Read {
        offset: u64,
        len: u32,
    },
    /// The payload of the answer.
    BlockStatus(Vec<u8>),
}

/// Memory of one thread for payloads; it grows with them, and shrinks behind those that are large.
pub(super) struct Buffer(AlignedBuf);

impl Buffer {
    pub(super) const KEPT_BYTES: usize = PIECE_BYTES as usize;

    pub(super) fn new() -> Self {
        Self(AlignedBuf::zeroed(0))
    }

    /// So many bytes, whatever they hold.
    pub(super) fn take(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            self.0 = AlignedBuf::zeroed(len.next_power_of_two().max(4096));
        }
        &mut self.0[..len]
    }

    pub(super) fn filled(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }

    /// Gives back what only a large request needs.
    pub(super) fn shrink(&mut self) {
        if self.0.len() > Self::KEPT_BYTES {
            self.0 = AlignedBuf::zeroed(0);
        }
    }
}

/// Does what a client asks for; the payload of a write is in the buffer.
pub(super) fn carry_out(
    export: &Export,
    command: Command,
    buffer: &mut Buffer,
) -> Result<Outcome, DeviceError> {
    let device = &*export.device;
    match command {
        Command::Read { offset, len } => {
            device.read_at(buffer.take(len as usize), offset)?;
            return Ok(Outcome::Read { offset, len });
        }
        Command::Write { offset, len, durable: true } => {
            device.write_through(buffer.filled(len as usize), offset)?;
        }
        Command::Write { offset, len, durable: false } => {
            device.write_at(buffer.filled(len as usize), offset)?;
        }
        Command::WriteZeroes { offset, len, durable, may_punch } => {
            write_zeroes(device, offset, u64::from(len), may_punch && export.zeroes_are_holes)?;
            flush_if(device, durable)?;
        }
        Command::Trim { offset, len, durable } => {
            give_up(device, offset, u64::from(len))?;
            flush_if(device, durable)?;
        }
        Command::Cache { offset, len } => {
            for (offset, len) in pieces(offset, u64::from(len)) {
                device.read_at(buffer.take(len), offset)?;
            }
        }
        Command::BlockStatus { offset, len, one } => {
            return block_status(device, offset, u64::from(len), one).map(Outcome::BlockStatus);
        }
        Command::Flush => device.flush()?,
        Command::Disconnect => {}
    }
    Ok(Outcome::Done)
}

/// The error number of a failed request.
pub(super) fn error_number(error: &DeviceError) -> ErrorNumber {
    match error.kind() {
        DeviceErrorKind::NoSpace => ErrorNumber::NoSpace,
        DeviceErrorKind::ReadOnly | DeviceErrorKind::PermissionDenied => ErrorNumber::NotPermitted,
        DeviceErrorKind::Misaligned => ErrorNumber::Invalid,
        DeviceErrorKind::Unsupported => ErrorNumber::NotSupported,
        // Also of a device that has become shorter than clients were told: they asked for nothing wrong.
        _ => ErrorNumber::Io,
    }
}

fn flush_if(device: &dyn Device, durable: bool) -> Result<(), DeviceError> {
    if durable { device.flush() } else { Ok(()) }
}

/// The payload of an answer about allocation: ranges from `offset` on, each with its state.
fn block_status(device: &dyn Device, offset: u64, len: u64, one: bool) -> Result<Vec<u8>, DeviceError> {
    let mut payload = BASE_ALLOCATION_ID.to_be_bytes().to_vec();
    let mut tell = |from: u64, to: u64, state: u32| {
        payload.extend_from_slice(&((to - from) as u32).to_be_bytes());
        payload.extend_from_slice(&state.to_be_bytes());
    };
    let (mut at, end) = (offset, offset + len);
    let mut told = 0;
    while at < end && told < if one { 1 } else { EXTENTS_MAX } {
        let data = device.data_from(at)?.filter(|data| data.start < end && data.end > at);
        let (to, state) = match data {
            Some(data) if data.start <= at => (data.end.min(end), 0),
            Some(data) => (data.start, STATE_HOLE | STATE_ZERO),
            None => (end, STATE_HOLE | STATE_ZERO),
        };
        tell(at, to, state);
        (at, told) = (to, told + 1);
    }
    Ok(payload)
}

#[cfg(test)]
#[path = "carry_out_tests.rs"]
mod tests;
