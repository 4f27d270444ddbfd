//! What drives are asked to do wrong when their power is cut.

use std::fmt;
use std::str::FromStr;

use mezzanine_ssd::Anomaly;

/// What a drive without a durable cache does beyond losing what was not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveAnomaly {
    /// One of those of "Understanding the Robustness of SSDs under Power Fault" (FAST 2013).
    Of(Anomaly),
    /// A program that is cut off takes along the page that shares its cells, which may have been flushed.
    PairedPages,
}

impl DriveAnomaly {
    /// Every one, with its name on the command line.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Of(Anomaly::Reordered), "reordered"),
        (Self::Of(Anomaly::Shorn), "shorn"),
        (Self::Of(Anomaly::BitCorruption), "bit_corruption"),
        (Self::Of(Anomaly::Lost), "lost"),
        (Self::Of(Anomaly::CorruptMap), "corrupt_map"),
        (Self::Of(Anomaly::Dead), "dead"),
        (Self::PairedPages, "paired_pages"),
    ];

    /// The one that is a drive's own.
    pub(super) fn of_drive(self) -> Option<Anomaly> {
        match self {
            Self::Of(anomaly) => Some(anomaly),
            Self::PairedPages => None,
        }
    }

    /// Whether something may be gone that was flushed, so that an error is what is left to say. The others
    /// strike what was under way, and cost a host nothing that it had been promised.
    pub(super) fn takes_flushed(self) -> bool {
        matches!(self, Self::Of(Anomaly::Lost | Anomaly::CorruptMap | Anomaly::Dead) | Self::PairedPages)
    }

    /// Whether an older version of what was flushed may pass for it: a flush that was reported and not done,
    /// as far as a host can tell. A drive whose start does not look at flash may have one of a unit that
    /// collection was moving (decision 30).
    pub(super) fn passes_older(self) -> bool {
        matches!(self, Self::Of(Anomaly::Lost | Anomaly::CorruptMap | Anomaly::Dead))
    }
}

impl fmt::Display for DriveAnomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(anomaly, _)| anomaly == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

impl FromStr for DriveAnomaly {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(anomaly, _)| anomaly).ok_or_else(|| {
            let known = Self::ALL.map(|(_, name)| name).join(", ");
            format!("no drive has the anomaly '{text}'; known: {known}")
        })
    }
}
