//! Designs, how many frames they have, and their parameters.

use std::fmt;
use std::str::FromStr;

use mezzanine_engine::{
    ConfigError, FRAMES_MAX, GROUP_PAGES_MAX, Geometry, PAGE_SIZE_MIN, SecondTouch, TierConfig,
};
use mezzanine_ground::replacement::{Parameter, ParameterDefault, ParameterKind, Policy, PolicyConfig};

/// A design whose replacement can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// One that writes a page into any frame.
    InPlace(Policy),
    /// Oracle's Exadata Smart Flash Cache: LRU. What else it is, admission on entry to memory and the choice
    /// by kinds of objects, a replacement alone has not.
    Exadata,
    /// One whose queue on flash is its replacement.
    Queue(mezzanine_engine::Design),
}

impl Design {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        let queues = mezzanine_engine::Design::ALL
            .iter()
            .copied()
            .filter(|design| !design.writes_in_place())
            .map(Self::Queue);
        Policy::ALL.iter().copied().map(Self::InPlace).chain([Self::Exadata]).chain(queues)
    }

    /// The policy of a design that writes in place.
    pub fn policy(self) -> Option<Policy> {
        match self {
            Self::InPlace(policy) => Some(policy),
            Self::Exadata => Some(Policy::Lru),
            Self::Queue(_) => None,
        }
    }

    /// The name used in configuration and output: that of the design, where one is known by more than its
    /// replacement.
    pub fn name(self) -> &'static str {
        match self {
            Self::InPlace(Policy::LruK) => "lc",
            Self::InPlace(Policy::GreedyDual) => "cac",
            Self::InPlace(Policy::Temperature) => "tac",
            Self::InPlace(policy) => policy.name(),
            Self::Exadata => "exadata",
            Self::Queue(design) => design.name(),
        }
    }

    /// The name of its replacement.
    pub fn replacement(self) -> &'static str {
        match self {
            Self::InPlace(policy) => policy.name(),
            Self::Exadata => Policy::Lru.name(),
            Self::Queue(mezzanine_engine::Design::FaceGsc) => "multi-version FIFO with group second chance",
            Self::Queue(_) => "multi-version FIFO",
        }
    }

    /// The parameters that it has: its own, and those of admission, which all have.
    pub fn parameters(self) -> impl Iterator<Item = &'static Parameter> {
        self.own_parameters().into_iter().chain(OF_ADMISSION)
    }

    fn own_parameters(self) -> Vec<&'static Parameter> {
        match self {
            Self::InPlace(policy) => policy.parameters(),
            Self::Exadata => Policy::Lru.parameters(),
            Self::Queue(mezzanine_engine::Design::FaceGsc) => vec![&GROUP_PAGES, &SURVIVORS_MAX],
            Self::Queue(_) => vec![&GROUP_PAGES],
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Design {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::all().find(|design| design.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::all().map(Self::name).collect();
            format!("unknown design '{text}'; known: {}", known.join(", "))
        })
    }
}

const GROUP_PAGES: Parameter = Parameter {
    name: "group-pages",
    help: "Pages that are written together; fewer by default in small queues",
    kind: ParameterKind::Number(1, GROUP_PAGES_MAX as u64),
    default: ParameterDefault::Value(64),
};

const SURVIVORS_MAX: Parameter = Parameter {
    name: "survivors-max",
    help: "Most pages of a group that get a second chance; half of them by default",
    kind: ParameterKind::Number(0, GROUP_PAGES_MAX as u64 - 1),
    default: ParameterDefault::Value(32),
};

const RETURNING_ONLY: Parameter = Parameter {
    name: "returning-only",
    help: "Of the clean pages take in only those that return: that were missed before, not long ago",
    kind: ParameterKind::Switch,
    default: ParameterDefault::Value(0),
};

const REMEMBERED_PAGES: Parameter = Parameter {
    name: "remembered-pages",
    help: "With --returning-only: pages whose first miss is remembered",
    kind: ParameterKind::Pages,
    default: ParameterDefault::FramesOver(2),
};

/// What says which pages come in, whatever the replacement.
const OF_ADMISSION: &[Parameter] = &[RETURNING_ONLY, REMEMBERED_PAGES];

/// A design with its frames and parameters: checked.
#[derive(Clone, Debug)]
pub struct Setting {
    design: Design,
    sizes: Sizes,
    /// Missed pages that are remembered; 0 if all come in.
    remembered: u64,
}

/// What follows from frames and parameters.
#[derive(Clone, Debug)]
pub(super) enum Sizes {
    InPlace(PolicyConfig),
    Queue(Box<Geometry>),
}

impl Setting {
    /// A design with so many frames, parameters that are given, and defaults for all others.
    ///
    /// # Errors
    /// Names the parameter that is unknown to the design or out of range, or `frames`, with the reason and
    /// what to do.
    pub fn new(design: Design, frames: u64, given: &[(&'static str, u64)]) -> Result<Self, ConfigError> {
        let remembered = remembered(frames, given)?;
        let of_admission = |name: &str| OF_ADMISSION.iter().any(|parameter| parameter.name == name);
        let own: Vec<_> = given.iter().copied().filter(|(name, _)| !of_admission(name)).collect();
        let sizes = match design {
            Design::Queue(queue) => Sizes::Queue(Box::new(queue_of(queue, frames, &own, remembered)?)),
            Design::InPlace(policy) => Sizes::InPlace(policy.configured(frames, &own)?),
            Design::Exadata => Sizes::InPlace(Policy::Lru.configured(frames, &own)?),
        };
        Ok(Self { design, sizes, remembered })
    }

    /// Missed pages that are remembered, so that only those come in which return; 0 if all do.
    pub fn remembered(&self) -> u64 {
        self.remembered
    }

    /// The design.
    pub fn design(&self) -> Design {
        self.design
    }

    /// The frames: for a queue those of group summaries, and those that are kept free, among them.
    pub fn frames(&self) -> u64 {
        match &self.sizes {
            Sizes::InPlace(policy) => policy.frames().into(),
            Sizes::Queue(geometry) => geometry.frames(),
        }
    }

    /// The names and values of the design's parameters; those of admission only if it chooses.
    pub fn parameters(&self) -> Vec<(&'static str, u64)> {
        let value = |name| match &self.sizes {
            Sizes::InPlace(policy) => {
                policy.parameters().iter().find(|(known, _)| known.name == name).map(|found| found.1)
            }
            Sizes::Queue(geometry) if name == GROUP_PAGES.name => Some(geometry.group_pages()),
            Sizes::Queue(geometry) => Some(geometry.config().survivors_max.into()),
        };
        let own = self.design.own_parameters().into_iter();
        let mut values: Vec<_> = own.filter_map(|known| Some((known.name, value(known.name)?))).collect();
        if self.remembered > 0 {
            values.extend([(RETURNING_ONLY.name, 1), (REMEMBERED_PAGES.name, self.remembered)]);
        }
        values
    }

    /// Bytes that the replacement itself keeps: for a queue all of the tier's memory, staging apart.
    pub fn policy_bytes(&self) -> u64 {
        match &self.sizes {
            Sizes::InPlace(policy) => (policy.bytes() + SecondTouch::bytes(self.remembered)) as u64,
            Sizes::Queue(geometry) => (geometry.region_bytes() - geometry.staging_bytes()) as u64,
        }
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}

/// Missed pages that are to be remembered.
fn remembered(frames: u64, given: &[(&'static str, u64)]) -> Result<u64, ConfigError> {
    let value = |name| given.iter().find(|(given, _)| *given == name).map(|given| given.1);
    let on = value(RETURNING_ONLY.name).unwrap_or(0) != 0;
    let refused = |reason: String, advice: &str| {
        Err(ConfigError { parameter: REMEMBERED_PAGES.name, reason, advice: advice.to_owned() })
    };
    match value(REMEMBERED_PAGES.name) {
        None if on => Ok((frames / 2).max(1)),
        None => Ok(0),
        Some(_) if !on => refused("every page comes in without --returning-only".to_owned(), "leave it out"),
        Some(pages) if (1..=FRAMES_MAX).contains(&pages) => Ok(pages),
        Some(pages) => {
            refused(format!("{pages} is not between 1 and {FRAMES_MAX}"), "leave it out for the default")
        }
    }
}

/// The geometry of a tier with pages of the smallest size, which are as good as any here.
fn queue_of(
    design: mezzanine_engine::Design,
    frames: u64,
    given: &[(&'static str, u64)],
    remembered: u64,
) -> Result<Geometry, ConfigError> {
    let known = Design::Queue(design).own_parameters();
    if let Some((name, _)) =
        given.iter().find(|(name, _)| known.iter().all(|parameter| parameter.name != *name))
    {
        let reason = format!("no parameter of {design}");
        return Err(ConfigError { parameter: name, reason, advice: "leave it out".to_owned() });
    }
    let geometry = |frames| {
        let mut config = config_of(design, frames, given);
        (config.returning_only, config.remembered_pages) =
            (remembered > 0, (remembered > 0).then_some(remembered));
        config.geometry()
    };
    geometry(frames).map_err(|error| {
        // What is wrong may be a size that nobody has named, because it follows from the frames.
        let named = known.iter().any(|parameter| parameter.name.replace('-', "_") == error.parameter);
        let least = || (frames..=FRAMES_OF_SMALLEST_MAX).find(|frames| geometry(*frames).is_ok());
        match least() {
            Some(least) if !named => ConfigError {
                parameter: "frames",
                reason: format!("{frames} are too few for a queue of groups"),
                advice: format!("use at least {least}"),
            },
            _ => error,
        }
    })
}

/// The smallest queue has no more frames, whatever its groups.
const FRAMES_OF_SMALLEST_MAX: u64 = 1 << 14;

fn config_of(design: mezzanine_engine::Design, frames: u64, given: &[(&'static str, u64)]) -> TierConfig {
    let value =
        |parameter: &Parameter| given.iter().find(|(name, _)| *name == parameter.name).map(|given| given.1);
    let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
    let mut config = TierConfig { design, ..TierConfig::new(PAGE_SIZE_MIN, frames) };
    if let Some(pages) = value(&GROUP_PAGES) {
        config.group_pages = number(pages);
        config.survivors_max = config.group_pages / 2;
    }
    if let Some(pages) = value(&SURVIVORS_MAX) {
        config.survivors_max = number(pages);
    }
    config
}
