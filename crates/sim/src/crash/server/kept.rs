//! What is kept aside of a machine while something else lies in its place.

use mezzanine_device::memory::Image;

use super::machine::Control;
use crate::crash::database::history::History;
use crate::crash::database::log::{Log, Lsn};

/// A copy of a data directory, and what is known of it.
pub(super) struct Directory {
    pub(super) disk: Image,
    pub(super) log: Log,
    pub(super) control: Control,
    pub(super) marker: Option<String>,
    /// The marker says that the server has gone on without the tier.
    pub(super) given_up: bool,
    pub(super) history: History,
    pub(super) acknowledged: Lsn,
    pub(super) dropped: Vec<Lsn>,
}

/// The machine as it was, and whether a refusal is in order.
pub(super) struct Tampered {
    pub(super) flash: Image,
    pub(super) marker: Option<String>,
    /// Where an older one was put in its place.
    pub(super) directory: Option<Directory>,
    pub(super) needed: bool,
}
