//! A device that keeps nothing.

use crate::device::{Capabilities, Device, Request};
use crate::error::{DeviceError, DeviceErrorKind};

/// Forgets what is written to it and reads zeros: what a modelled drive is attached to when only its time is
/// wanted.
#[derive(Debug, Clone, Copy)]
pub struct NullDevice {
    /// Length in bytes that it claims.
    pub len: u64,
}

impl NullDevice {
    /// A device that no writer finds full.
    pub const ENDLESS: Self = Self { len: 1 << 50 };
}

impl Device for NullDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            len: self.len,
            block_size: 512,
            atomic_write: 512,
            volatile_cache: false,
            can_resize: false,
            write_through: true,
            zones: None,
        }
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let carry_out = |request: &mut Request<'_>| match request {
            Request::Read { buf, .. } => {
                buf.fill(0);
                Ok(())
            }
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                Err(request.unsupported(self.describe()))
            }
            _ => Ok(()),
        };
        batch.iter_mut().map(carry_out).collect()
    }

    fn set_len(&self, _len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(DeviceErrorKind::Unsupported, "resize", self.describe()))
    }

    fn describe(&self) -> String {
        "a device that keeps nothing".to_owned()
    }
}
