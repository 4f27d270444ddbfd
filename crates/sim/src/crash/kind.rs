//! The kinds of world that a run is made of.

use std::fmt;
use std::str::FromStr;

use mezzanine_engine::SyncMode;
use mezzanine_ground::random::splitmix;

use super::driver::Focus;

/// What lives in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Files on a volume, with syncs.
    Volume,
    /// A database with a pool, a log and a redo pointer, on the engine alone.
    Database,
    /// A server written in C, with processes, a marker and a control file, by the code that ships for
    /// PostgreSQL.
    Server,
    /// Files on a volume whose flash, disks and sidecars are put back to earlier moments, together and apart.
    Histories,
    /// Files on a volume, and threads that carry out its jobs beside the operations, a device's request at a
    /// time.
    Runners,
    /// A database as in [`Self::Database`], whose flash has zones. Drawn only where asked for.
    Zones,
    /// Files as in [`Self::Volume`], on flash that has zones. Drawn only where asked for.
    ZonedVolume,
    /// Files as in [`Self::Volume`], on flash drives modelled from the inside. Drawn only where asked for.
    Drives,
    /// A database as in [`Self::Database`], whose flash and disk are such drives. Drawn only where asked for.
    DriveDatabase,
}

/// Make the seeds of draws of their own.
const OF_SERVERS: u64 = 0x7365_7276_6572;
const OF_HISTORIES: u64 = 0x6869_7374_6f72_7973;
const OF_RUNNERS: u64 = 0x6a6f_6273_5f62_6573;

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Volume,
        Self::Database,
        Self::Server,
        Self::Histories,
        Self::Runners,
        Self::Zones,
        Self::ZonedVolume,
        Self::Drives,
        Self::DriveDatabase,
    ];

    /// The kind that a seed draws where all are wanted.
    pub fn drawn(seed: u64) -> Self {
        if splitmix(seed ^ OF_HISTORIES) % 16 == 0 {
            return Self::Histories;
        }
        match splitmix(seed) % 2 {
            0 if splitmix(seed ^ OF_RUNNERS) % 8 == 0 => Self::Runners,
            0 => Self::Volume,
            _ if splitmix(seed ^ OF_SERVERS) % 4 == 0 => Self::Server,
            _ => Self::Database,
        }
    }

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Database => "database",
            Self::Server => "server",
            Self::Histories => "histories",
            Self::Runners => "runners",
            Self::Zones => "zones",
            Self::ZonedVolume => "zoned-volume",
            Self::Drives => "drives",
            Self::DriveDatabase => "drive-database",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which kinds of world a run is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Worlds {
    /// Each as its seed draws it.
    #[default]
    All,
    /// Those of one kind.
    Only(Kind),
}

impl Worlds {
    /// The kind of the world of a seed. A volume has no sync mode `drained`.
    pub fn kind(self, seed: u64, focus: Focus) -> Kind {
        match self {
            Self::All if focus.sync_mode == Some(SyncMode::Drained) => Kind::Database,
            Self::All => Kind::drawn(seed),
            Self::Only(kind) => kind,
        }
    }
}

impl FromStr for Worlds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let only = Kind::ALL.into_iter().find(|kind| kind.name() == text).map(Self::Only);
        let only = only.or((text == "all").then_some(Self::All));
        only.ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            format!("unknown kind of world '{text}'; known: all, {known}")
        })
    }
}
