//! Numbers and encodings of the kernel's interface (`linux/ublk_cmd.h`), in the byte order of the machine.

use std::io;

/// Bytes of a sector in all of the interface, whatever the device's own are.
pub(super) const SECTOR_BYTES: u64 = 512;

/// What `ioctl(2)` encodes of a command of the letter `u`: which way, and how long its argument is.
const fn encoded(direction: u32, argument_len: u32, number: u32) -> u32 {
    direction << 30 | argument_len << 16 | (b'u' as u32) << 8 | number
}
const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// Commands to /dev/ublk-control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ControlOp {
    Info = encoded(READ, CONTROL_COMMAND_BYTES as u32, 0x02),
    Add = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x04),
    Delete = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x05),
    Start = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x06),
    Stop = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x07),
    SetParameters = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x08),
    GetParameters = encoded(READ, CONTROL_COMMAND_BYTES as u32, 0x09),
    StartRecovery = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x10),
    EndRecovery = encoded(READ_WRITE, CONTROL_COMMAND_BYTES as u32, 0x11),
    /// As `Delete`, without waiting until the last who has the block device open closes it.
    DeleteLater = encoded(READ, CONTROL_COMMAND_BYTES as u32, 0x14),
}

/// Commands to /dev/ublkcN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum QueueOp {
    Fetch = encoded(READ_WRITE, QUEUE_COMMAND_BYTES as u32, 0x20),
    CommitAndFetch = encoded(READ_WRITE, QUEUE_COMMAND_BYTES as u32, 0x21),
}

pub(super) const CONTROL_COMMAND_BYTES: usize = 32;
pub(super) const QUEUE_COMMAND_BYTES: usize = 16;
pub(super) const INFO_BYTES: usize = 64;
pub(super) const PARAMETERS_BYTES: usize = 60;
pub(super) const DESCRIPTOR_BYTES: usize = 24;

/// Whoever adds a device leaves its number to the kernel.
pub(super) const ANY_DEVICE: u32 = u32::MAX;

/// Features of a device: it outlives its server, and what that had not answered is asked of the next one.
pub(super) const USER_RECOVERY: u64 = 1 << 3;
pub(super) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// The commands are encoded as those of `ioctl(2)`; the kernel says so of itself, from Linux 6.4 on.
pub(super) const IOCTL_ENCODE: u64 = 1 << 6;

/// A command to /dev/ublk-control (`ublksrv_ctrl_cmd`).
pub(super) fn control_command(
    device: u32,
    payload_at: u64,
    payload_len: usize,
    data: u64,
) -> [u8; CONTROL_COMMAND_BYTES] {
    let mut bytes = [0; CONTROL_COMMAND_BYTES];
    bytes[0..4].copy_from_slice(&device.to_ne_bytes());
    // The command is for no queue of its own.
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(payload_len as u16).to_ne_bytes());
    bytes[8..16].copy_from_slice(&payload_at.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes
}

/// A command to a queue (`ublksrv_io_cmd`): the result of the last request, and memory for the next one.
pub(super) fn queue_command(tag: u16, result: i32, buffer_at: u64) -> [u8; QUEUE_COMMAND_BYTES] {
    let mut bytes = [0; QUEUE_COMMAND_BYTES];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..16].copy_from_slice(&buffer_at.to_ne_bytes());
    bytes
}

/// How far the kernel has got with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Added and not started, or stopped.
    Dead,
    Live,
    /// Its server is gone, and requests wait for the next one.
    Quiesced,
    Other(u16),
}

/// What the kernel knows of a device (`ublksrv_ctrl_dev_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: State,
    /// Largest request, in bytes.
    pub(super) request_bytes: u32,
    pub(super) number: u32,
    /// The process of its server; below 1 if there is none.
    pub(super) server: i32,
    pub(super) features: u64,
    /// Ours: the kernel keeps it, and has no use for it.
    pub(super) identity: u64,
}

impl Info {
    pub(super) fn to_bytes(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.request_bytes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.server.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.identity.to_ne_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; INFO_BYTES]) -> Self {
        Self {
            queues: u16::from_ne_bytes(part(bytes, 0)),
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state: match u16::from_ne_bytes(part(bytes, 4)) {
                0 => State::Dead,
                1 => State::Live,
                2 => State::Quiesced,
                other => State::Other(other),
            },
            request_bytes: u32::from_ne_bytes(part(bytes, 8)),
            number: u32::from_ne_bytes(part(bytes, 12)),
            server: i32::from_ne_bytes(part(bytes, 16)),
            features: u64::from_ne_bytes(part(bytes, 24)),
            identity: u64::from_ne_bytes(part(bytes, 32)),
        }
    }
}

/// What the block device is to its users (`ublk_params`: the basic ones, and those of discards).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) read_only: bool,
    pub(super) rotational: bool,
    /// Bytes, powers of two.
    pub(super) logical_block: u32,
    pub(super) physical_block: u32,
    /// Bytes.
    pub(super) request_bytes: u32,
    pub(super) len: u64,
    /// Largest range that is made zeros or given up at once, in bytes.
    pub(super) range_bytes: u32,
}

impl Parameters {
    pub(super) fn to_bytes(&self) -> [u8; PARAMETERS_BYTES] {
        const BASIC: u32 = 1;
        const DISCARD: u32 = 1 << 1;
        const VOLATILE_CACHE_AND_FUA: u32 = 1 << 2 | 1 << 3;
        let sectors = |bytes: u32| (u64::from(bytes) / SECTOR_BYTES) as u32;
        let attributes = u32::from(self.read_only) | u32::from(self.rotational) << 1 | VOLATILE_CACHE_AND_FUA;
        let mut bytes = [0; PARAMETERS_BYTES];
        bytes[0..4].copy_from_slice(&(PARAMETERS_BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&BASIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&attributes.to_ne_bytes());
        bytes[12] = self.logical_block.trailing_zeros() as u8;
        // Of the physical block, the best request and the smallest good one.
        bytes[13..16].fill(self.physical_block.trailing_zeros() as u8);
        bytes[16..20].copy_from_slice(&sectors(self.request_bytes).to_ne_bytes());
        bytes[24..32].copy_from_slice(&(self.len / SECTOR_BYTES).to_ne_bytes());
        // The kernel refuses those of discards where they are all zeros.
        if !self.read_only {
            bytes[4..8].copy_from_slice(&(BASIC | DISCARD).to_ne_bytes());
            bytes[44..48].copy_from_slice(&self.physical_block.to_ne_bytes());
            bytes[48..52].copy_from_slice(&sectors(self.range_bytes).to_ne_bytes());
            bytes[52..56].copy_from_slice(&sectors(self.range_bytes).to_ne_bytes());
            bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        }
        bytes
    }
}

/// What is asked of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write { durable: bool },
    Flush,
    Discard,
    WriteZeroes { durable: bool, may_punch: bool },
    Unknown(u8),
}

/// A request (`ublksrv_io_desc`). Offset and length are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) operation: Operation,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Descriptor {
    /// # Errors
    /// If it ends past the last byte that can be addressed.
    pub(super) fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> io::Result<Self> {
        const FUA: u32 = 1 << 13;
        const NO_UNMAP: u32 = 1 << 15;
        let flags = u32::from_ne_bytes(part(bytes, 0));
        let durable = flags & FUA != 0;
        let operation = match flags as u8 {
            0 => Operation::Read,
            1 => Operation::Write { durable },
            2 => Operation::Flush,
            3 => Operation::Discard,
            5 => Operation::WriteZeroes { durable, may_punch: flags & NO_UNMAP == 0 },
            other => Operation::Unknown(other),
        };
        if operation == Operation::Flush {
            // The kernel leaves anything in place of its range.
            return Ok(Self { operation, offset: 0, len: 0 });
        }
        let len = u64::from(u32::from_ne_bytes(part(bytes, 4))) * SECTOR_BYTES;
        let offset = u64::from_ne_bytes(part(bytes, 8)).checked_mul(SECTOR_BYTES);
        match offset.filter(|offset| offset.checked_add(len).is_some()) {
            Some(offset) => Ok(Self { operation, offset, len }),
            None => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }
}

fn part<const LEN: usize>(bytes: &[u8], at: usize) -> [u8; LEN] {
    let mut part = [0; LEN];
    part.copy_from_slice(&bytes[at..at + LEN]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the macros of `linux/ioctl.h` make them.
    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        assert_eq!(ControlOp::Info as u32, 0x8020_7502);
        assert_eq!(ControlOp::Add as u32, 0xc020_7504);
        assert_eq!(ControlOp::EndRecovery as u32, 0xc020_7511);
        assert_eq!(ControlOp::DeleteLater as u32, 0x8020_7514);
        assert_eq!(QueueOp::Fetch as u32, 0xc010_7520);
        assert_eq!(QueueOp::CommitAndFetch as u32, 0xc010_7521);
    }

    #[test]
    fn what_the_kernel_knows_is_read_as_it_was_written() {
        let info = Info {
            queues: 1,
            depth: 64,
            state: State::Dead,
            request_bytes: 1 << 19,
            number: 7,
            server: -1,
            features: USER_RECOVERY,
            identity: 0x0102_0304_0506_0708,
        };
        let mut bytes = info.to_bytes();
        assert_eq!(Info::from_bytes(&bytes), info);
        for (number, state) in [(1, State::Live), (2, State::Quiesced), (9, State::Other(9))] {
            bytes[4] = number;
            assert_eq!(Info::from_bytes(&bytes), Info { state, ..info.clone() });
        }
    }

    #[test]
    fn parameters_stand_where_the_kernel_looks_for_them() {
        let parameters = Parameters {
            read_only: false,
            rotational: true,
            logical_block: 512,
            physical_block: 4096,
            request_bytes: 1 << 19,
            len: 1 << 30,
            range_bytes: 1 << 25,
        };
        let bytes = parameters.to_bytes();
        let word = |at: usize| u32::from_ne_bytes(part(&bytes, at));
        assert_eq!((word(0), word(4), word(8)), (60, 3, 0b1110));
        assert_eq!(bytes[12..16], [9, 12, 12, 12]);
        assert_eq!((word(16), word(20), u64::from_ne_bytes(part(&bytes, 24))), (1024, 0, 1 << 21));
        assert_eq!((word(40), word(44), word(48), word(52)), (0, 4096, 65536, 65536));
        let bytes = Parameters { read_only: true, ..parameters }.to_bytes();
        assert!(bytes[4] == 1 && bytes[8] == 0b1111 && bytes[40..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn requests_are_told_apart_and_those_past_all_bytes_are_none() {
        let descriptor = |flags: u32, sectors: u32, start: u64| {
            let mut bytes = [0; DESCRIPTOR_BYTES];
            bytes[0..4].copy_from_slice(&flags.to_ne_bytes());
            bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
            bytes[8..16].copy_from_slice(&start.to_ne_bytes());
            Descriptor::from_bytes(&bytes).ok()
        };
        for (flags, operation) in [
            (0, Operation::Read),
            (1 | 1 << 11, Operation::Write { durable: false }),
            (1 | 1 << 13, Operation::Write { durable: true }),
            (3, Operation::Discard),
            (5, Operation::WriteZeroes { durable: false, may_punch: true }),
            (5 | 1 << 13 | 1 << 15, Operation::WriteZeroes { durable: true, may_punch: false }),
            (15, Operation::Unknown(15)),
        ] {
            let expected = Descriptor { operation, offset: 16 << 9, len: 8 << 9 };
            assert_eq!(descriptor(flags, 8, 16), Some(expected), "{flags:#x}");
        }
        let flush = Descriptor { operation: Operation::Flush, offset: 0, len: 0 };
        assert_eq!(descriptor(2, 0, u64::MAX), Some(flush), "as Linux 6.12 asks for it");
        assert_eq!(descriptor(0, 8, u64::MAX), None);
        assert_eq!(descriptor(0, 8, (u64::MAX >> 9) - 3), None);
    }
}
