//! Ranges made zeros, and ranges given up.

use mezzanine_device::{Device, DeviceError, DeviceErrorKind};

/// What is read or written at once where a request moves no payload, in bytes.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// Zeros to be written.
static ZEROS: Aligned = Aligned([0; PIECE_BYTES as usize]);

/// Direct transfers take it without a copy.
#[repr(align(4096))]
struct Aligned([u8; PIECE_BYTES as usize]);

pub(crate) fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    let end = offset + len;
    (0..len.div_ceil(PIECE_BYTES)).map(move |number| {
        let start = offset + number * PIECE_BYTES;
        (start, (end - start).min(PIECE_BYTES) as usize)
    })
}

/// Makes a range zeros. What a device gives up reads as anything, so that alone does not do: zeros are
/// written wherever the device does not say that there are only zeros.
pub(crate) fn write_zeroes(
    device: &dyn Device,
    offset: u64,
    len: u64,
    punch: bool,
) -> Result<(), DeviceError> {
    let end = offset + len;
    if !punch {
        return write_zeros_over(device, offset, end);
    }
    give_up(device, offset, len)?;
    let mut at = offset;
    while let Some(data) = device.data_from(at)?.filter(|data| data.start < end) {
        let (from, to) = (data.start.max(at), data.end.min(end));
        if to <= from {
            // A device that says so would be asked for ever.
            return write_zeros_over(device, at, end);
        }
        write_zeros_over(device, from, to)?;
        at = to;
        if at >= end {
            break;
        }
    }
    Ok(())
}

/// Gives up a range. Who asks for that need not be told where the device goes on holding it.
pub(crate) fn give_up(device: &dyn Device, offset: u64, len: u64) -> Result<(), DeviceError> {
    match device.discard(offset, len) {
        Err(error) if error.kind() == DeviceErrorKind::Unsupported => Ok(()),
        discarded => discarded,
    }
}

fn write_zeros_over(device: &dyn Device, from: u64, to: u64) -> Result<(), DeviceError> {
    pieces(from, to - from).try_for_each(|(offset, len)| device.write_at(&ZEROS.0[..len], offset))
}
