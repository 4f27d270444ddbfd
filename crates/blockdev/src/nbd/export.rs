//! What is served, and what clients may take of it.

use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::Device;

use super::wire::transmission;

/// A device under a name.
#[derive(Clone)]
pub struct Export {
    /// What clients ask for; the empty name is asked for by those that name none, and means the first export.
    pub name: String,
    /// One line for people who list the exports.
    pub description: String,
    /// What is served. Its length is that of the export, as of the moment at which a client connects.
    pub device: Arc<dyn Device>,
    /// Writes, discards and zeroes are refused.
    pub read_only: bool,
    /// The smallest request, in bytes; a power of two. Offsets and lengths are multiples of it, and others
    /// are answered with an error. Devices take any themselves, so 1 unless clients are to see larger
    /// sectors. If the device is no multiple of it long, its end is not served.
    pub minimum_block: u32,
    /// Zeroes are made by giving up the range where that leaves zeros, as in files.
    pub zeroes_are_holes: bool,
    /// Clients are told that seeks cost something.
    pub rotational: bool,
}

/// What one client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time; more are closed at once.
    pub connections: usize,
    /// Requests under way on a connection; each has a thread once it is needed.
    pub in_flight: usize,
    /// Largest read or write in bytes; clients are told.
    pub request_bytes: u32,
    /// How long a client may negotiate.
    pub haggling: Duration,
    /// How long a shutdown waits for what is under way, and for clients to take their replies.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            in_flight: 16,
            // What clients may assume without being told.
            request_bytes: 32 << 20,
            haggling: Duration::from_secs(30),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// What clients are told of an export at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) description: String,
    /// Bytes.
    pub(super) len: u64,
    pub(super) read_only: bool,
    /// Bytes.
    pub(super) minimum: u32,
    pub(super) preferred: u32,
    pub(super) maximum: u32,
    pub(super) rotational: bool,
}

impl Export {
    /// A whole device, readable and writable, by the empty name.
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self {
            name: String::new(),
            description: device.describe(),
            device,
            read_only: false,
            minimum_block: 1,
            zeroes_are_holes: false,
            rotational: false,
        }
    }

    pub(super) fn offer(&self, limits: &Limits) -> Offer {
        let capabilities = self.device.capabilities();
        let minimum = self.minimum_block.clamp(1, 64 << 10);
        Offer {
            name: self.name.clone(),
            description: self.description.clone(),
            len: capabilities.len - capabilities.len % u64::from(minimum),
            read_only: self.read_only,
            minimum,
            preferred: capabilities.block_size.max(minimum).max(4096),
            maximum: limits.request_bytes - limits.request_bytes % minimum,
            rotational: self.rotational,
        }
    }
}

impl Offer {
    /// The transmission flags.
    pub(super) fn flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let when = |condition: bool, flags: u16| if condition { flags } else { 0 };
        // Rule 1 of `nbd` is why several connections are one device.
        HAS_FLAGS
            | SEND_FLUSH
            | SEND_FUA
            | CAN_MULTI_CONN
            | SEND_CACHE
            | when(self.read_only, READ_ONLY)
            | when(!self.read_only, SEND_TRIM | SEND_WRITE_ZEROES)
            | when(self.rotational, ROTATIONAL)
            | when(structured, SEND_DF)
    }
}
