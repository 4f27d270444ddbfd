//! Numbers that are not to be mixed up.

/// A fragment of a volume: numbered through all volumes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fragment(pub(crate) u32);

/// A fragment-sized place on the cache device, and the descriptor of what lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

/// One of the flights: a part of a write whose copy is on its way to the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlightNumber(pub(crate) u32);

/// One of the population workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerNumber(pub(crate) u32);
