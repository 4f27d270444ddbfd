//! An error that one of a machine's two devices is to report, once.

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};

/// The device that is to report an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    Flash,
    Disk,
}

/// An error that a device is to report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) failing: Failing,
    pub(crate) operation: Operation,
    /// How many of these had failed before.
    before: u64,
}

impl Planned {
    /// Lets this device fail in one of these operations, after so many of them.
    pub(crate) fn on(device: &MemoryDevice, failing: Failing, operation: Operation, after: u64) -> Self {
        let before = device.faults_struck_in(operation);
        device.inject(Injection { operation, after, count: 1, fault: Fault::Error(DeviceErrorKind::Io) });
        Self { failing, operation, before }
    }

    /// Whether the device has reported it.
    pub(crate) fn has_struck(self, device: &MemoryDevice) -> bool {
        device.faults_struck_in(self.operation) > self.before
    }
}
