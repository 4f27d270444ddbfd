//! What a power cut could undo, and a choice of what it does: for those who try every possibility instead of
//! drawing one.

/// One change that a power cut may still undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unflushed {
    /// Which change of the device it is, as [`super::MemoryDevice::changes`] counts them. Never used twice.
    pub number: u64,
    /// First byte that was written.
    pub offset: u64,
    /// How many bytes were written; 0 if only the length grew.
    pub len: u64,
    /// Whether the length of the device changed with it.
    pub resizes: bool,
    /// Whether the device became shorter.
    pub shortens: bool,
}

/// What a power cut does to the bytes of one unflushed change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// They survive.
    Kept,
    /// They vanish.
    Lost,
    /// Sectors for which this pattern of 64 sectors, repeated, has a bit survive; the lowest bit is the first
    /// sector.
    Torn(u64),
}

/// What survives a power cut on one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survival {
    /// A fate for each unflushed change, oldest first. That of a change that shortens the device is not
    /// looked at: it happened or not with its resizing.
    pub fates: Vec<Fate>,
    /// How many changes of the length survive. They are journalled: only later ones than these are lost.
    /// More than there are means all.
    pub resizes: u64,
}
