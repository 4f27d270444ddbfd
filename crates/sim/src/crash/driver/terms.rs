//! What is asked of a world beside its seed.

use std::fmt;
use std::str::FromStr;

use mezzanine_engine::{Design, SyncMode, TierConfig};

use super::drives::DriveAnomaly;
use super::excerpt::Excerpt;

/// A sync mode or a design to concentrate on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Focus {
    /// Every tier has this sync mode.
    pub sync_mode: Option<SyncMode>,
    /// Every tier has this design.
    pub design: Option<Design>,
}

impl Focus {
    /// Replaces what a tier's policy was drawn to be.
    pub fn apply(self, tier: &mut TierConfig) {
        tier.sync_mode = self.sync_mode.unwrap_or(tier.sync_mode);
        tier.design = self.design.unwrap_or(tier.design);
    }
}

macro_rules! features {
    ($($feature:ident = $name:literal $text:literal),+ $(,)?) => {
        /// Something that makes a world more difficult and can be left out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Feature { $(#[doc = $text] $feature),+ }

        impl Feature {
            /// Every feature.
            pub const ALL: &'static [Self] = &[$(Self::$feature),+];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$feature => $name),+ }
            }
        }
    };
}

features! {
    Errors = "errors" "Devices that report errors.",
    Files = "files" "More than one file.",
    Guards = "guards" "Guards at the heads of files.",
    Fingerprints = "fingerprints" "Sidecars that notice changes of their files.",
    Owners = "owners" "More than one process that carries out jobs.",
    Swaps = "swaps" "Other flash devices in the place of the right one.",
    Pulling = "pulling" "Pages pulled from the pool by the tier.",
    Resizes = "resizes" "A queue that grows and shrinks.",
    Switches = "switches" "Switches of the sync mode, and stops and starts of admission.",
    Replacements = "replacements" "Replacements of the flash device in use.",
    Spares = "spares" "Devices that fail, and spare ones that come to harm, while one takes the place of another.",
    Ahead = "ahead" "Stage-out ahead of need.",
    Holes = "holes" "Files with a hole, behind which offsets are beyond 4 GiB.",
    Later = "later" "Flash that is damaged in the middle of a life, with power cuts after that.",
    Sectors = "sectors" "Sectors of flash that go bad in the middle of a life and stay so.",
    Runners = "runners" "Threads that carry out jobs beside the operations, and half a job at a time.",
    Ages = "ages" "Tiers whose numbers begin near a bound, as if they had lived long.",
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|feature| feature.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|feature| feature.name()).collect();
            format!("there is no '{text}' to leave out; known: {}", known.join(", "))
        })
    }
}

/// What is asked of a world beside its seed. The default is the world as its seed draws it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// A sync mode or a design to concentrate on.
    pub focus: Focus,
    /// What is left out of the world.
    pub without: Vec<Feature>,
    /// What its modelled drives, if it has some, do wrong when their power is cut.
    pub anomalies: Vec<DriveAnomaly>,
    /// What alone takes place in it.
    pub only: Option<Excerpt>,
}

impl Terms {
    /// The command that shows the first `cuts` cuts of a world of this kind again.
    pub(crate) fn replay(&self, kind: impl fmt::Display, seed: u64, cuts: u64) -> String {
        format!("mezz sim crash --world {kind} --seed {seed} --cuts {cuts}{self}")
    }
}

/// The options that ask for the same, each with a space before it.
impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mode) = self.focus.sync_mode {
            write!(f, " --sync-mode {mode}")?;
        }
        if let Some(design) = self.focus.design {
            write!(f, " --design {design}")?;
        }
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(|feature| feature.name()).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        if !self.anomalies.is_empty() {
            let names: Vec<_> = self.anomalies.iter().map(DriveAnomaly::to_string).collect();
            write!(f, " --anomalies {}", names.join(","))?;
        }
        self.only.as_ref().map_or(Ok(()), |only| write!(f, " --only {only}"))
    }
}
