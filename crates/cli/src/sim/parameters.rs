//! The parameters of all policies as options of the command line: what a policy lists is an option, without a
//! line here.

use clap::{Arg, ArgAction, ArgMatches, Command};
use mezzanine_engine::ConfigError;
use mezzanine_ground::replacement::{Parameter, ParameterDefault, ParameterKind};
use mezzanine_sim::policy::{Design, Setting};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Those that were given, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters(Vec<(&'static str, u64)>);

/// A parameter with several values.
#[derive(Debug, Clone)]
pub(super) struct Variation {
    name: &'static str,
    values: Vec<u64>,
}

impl std::str::FromStr for Variation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is no parameter with values; write group-pages=16,64"))?;
        let parameter = all().into_iter().find(|parameter| parameter.name == name).ok_or_else(|| {
            let known: Vec<_> = all().iter().map(|parameter| parameter.name).collect();
            format!("no design has a parameter '{name}'; there are {}", known.join(", "))
        })?;
        let number = |text: &str| match (text, parameter.kind) {
            ("on", ParameterKind::Switch) => Ok(1),
            ("off", ParameterKind::Switch) => Ok(0),
            (_, ParameterKind::Switch) => Err(format!("'{text}' is not on or off")),
            ("unlimited", ParameterKind::Pages) => Ok(UNLIMITED),
            _ => text.parse().map_err(|_| format!("'{text}' is no value of {name}")),
        };
        let values: Vec<u64> = values.split(',').map(number).collect::<Result<_, _>>()?;
        Ok(Self { name: parameter.name, values })
    }
}

/// All pages, however many there are.
const UNLIMITED: u64 = u64::MAX;

/// Every parameter of every policy once.
fn all() -> Vec<&'static Parameter> {
    let mut all: Vec<&Parameter> = Design::all().flat_map(|design| design.parameters()).collect();
    all.sort_by_key(|parameter| parameter.name);
    all.dedup_by_key(|parameter| parameter.name);
    all
}

/// Whether some policy has a parameter of this name.
pub(super) fn is_one(name: &str) -> bool {
    all().iter().any(|parameter| parameter.name == name)
}

fn has(design: Design, name: &str) -> bool {
    design.parameters().any(|parameter| parameter.name == name)
}

fn help(parameter: &Parameter) -> String {
    let of: Vec<_> = Design::all().filter(|design| has(*design, parameter.name)).map(Design::name).collect();
    let of = if of.len() == Design::all().count() { "all".to_owned() } else { of.join(", ") };
    let unlimited = if parameter.kind == ParameterKind::Pages { ", or 'unlimited'" } else { "" };
    let default = match (parameter.kind, parameter.default) {
        (ParameterKind::Switch, _) => String::new(),
        (_, ParameterDefault::FramesOver(1)) => "; default: as many as frames".to_owned(),
        (_, ParameterDefault::FramesOver(divisor)) => format!("; default: frames / {divisor}"),
        (_, ParameterDefault::Value(value)) => format!("; default: {value}"),
    };
    format!("{}{unlimited} ({of}{default})", parameter.help)
}

fn value(text: &str) -> Result<u64, String> {
    match text {
        "unlimited" => Ok(UNLIMITED),
        _ => text.parse().map_err(|_| format!("'{text}' is not a number of pages, nor 'unlimited'")),
    }
}

impl clap::Args for Parameters {
    fn augment_args(command: Command) -> Command {
        all().into_iter().fold(command, |command, parameter| {
            let arg = Arg::new(parameter.name).long(parameter.name).help(help(parameter));
            command.arg(match parameter.kind {
                ParameterKind::Switch => arg.action(ArgAction::SetTrue),
                ParameterKind::Pages => arg.value_name("PAGES").value_parser(value),
                ParameterKind::References | ParameterKind::Number(..) => {
                    arg.value_name("N").value_parser(clap::value_parser!(u64))
                }
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Parameters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |parameter: &&'static Parameter| {
            let value = match parameter.kind {
                ParameterKind::Switch => matches.get_flag(parameter.name).then_some(1),
                _ => matches.get_one::<u64>(parameter.name).copied(),
            };
            Some((parameter.name, value?))
        };
        Ok(Self(all().iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Parameters {
    /// Names and values.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Whether somebody must count the pages first.
    pub(super) fn is_unlimited(&self) -> bool {
        self.0.iter().any(|(_, value)| *value == UNLIMITED)
    }

    /// With a number of pages instead of all of them.
    pub(super) fn limited(self, pages: u64) -> Self {
        let limited = |value| if value == UNLIMITED { pages } else { value };
        Self(self.0.into_iter().map(|(name, value)| (name, limited(value))).collect())
    }

    /// Refuses a parameter that is both given and varied, and one that none of the designs has.
    pub(super) fn refuse_senseless(&self, vary: &[Variation], designs: &[Design]) -> Result<(), Failure> {
        if let Some((name, _)) =
            self.0.iter().find(|(name, _)| !designs.iter().any(|design| has(*design, name)))
        {
            return Err(foreign(name, designs));
        }
        for (index, variation) in vary.iter().enumerate() {
            let name = variation.name;
            let again = vary[..index].iter().any(|other| other.name == name);
            if again || self.0.iter().any(|(given, _)| *given == name) {
                let reason = format!("{name} is given more than once");
                return Err(Failure::usage("--vary", reason).next("give each parameter once"));
            }
            if !designs.iter().any(|design| has(*design, name)) {
                return Err(foreign(name, designs));
            }
        }
        Ok(())
    }

    /// With every combination of the values that are varied, of those parameters that a design has.
    pub(super) fn combinations(&self, vary: &[Variation], design: Design) -> Vec<Self> {
        let own = self.0.iter().copied().filter(|(name, _)| has(design, name)).collect();
        let mut combinations = vec![Self(own)];
        for variation in vary.iter().filter(|variation| has(design, variation.name)) {
            let with = |parameters: &Self, value| {
                let mut parameters = parameters.clone();
                parameters.0.push((variation.name, value));
                parameters
            };
            combinations = combinations
                .iter()
                .flat_map(|parameters| variation.values.iter().map(|value| with(parameters, *value)))
                .collect();
        }
        combinations
    }

    /// Every design with every number of frames, which the option of that name gives; each takes the
    /// parameters that it has.
    pub(super) fn points(
        &self,
        designs: &[Design],
        frames: &[u64],
        option: &str,
    ) -> Result<Vec<Setting>, Failure> {
        if let Some((name, _)) =
            self.0.iter().find(|(name, _)| !designs.iter().any(|design| has(*design, name)))
        {
            return Err(foreign(name, designs));
        }
        let mut points = Vec::new();
        for &design in designs {
            let given: Vec<_> = self.0.iter().copied().filter(|(name, _)| has(design, name)).collect();
            for &frames in frames {
                points.push(Setting::new(design, frames, &given).map_err(|error| usage(&error, option))?);
            }
        }
        Ok(points)
    }
}

fn foreign(name: &str, designs: &[Design]) -> Failure {
    let list = |designs: &[Design]| designs.iter().map(|design| design.name()).collect::<Vec<_>>().join(", ");
    let of: Vec<_> = Design::all().filter(|design| has(*design, name)).collect();
    let reason = format!("a parameter of {}, not of {}", list(&of), list(designs));
    Failure::usage(format!("--{name}"), reason).next("leave it out, or name a design that has it")
}

fn usage(error: &ConfigError, frames: &str) -> Failure {
    let option = match error.parameter {
        "frames" => frames.to_owned(),
        parameter => format!("--{}", parameter.replace('_', "-")),
    };
    Failure::usage(option, &error.reason).next(&error.advice)
}

/// Names and values, as JSON.
pub(super) fn as_json(setting: &Setting) -> Map<String, Value> {
    setting.parameters().into_iter().map(|(name, value)| (name.replace('-', "_"), value.into())).collect()
}

/// Names and values, in the order of the names.
pub(super) fn as_map(setting: &Setting) -> std::collections::BTreeMap<String, u64> {
    setting.parameters().into_iter().map(|(name, value)| (name.replace('-', "_"), value)).collect()
}

/// Names and values, for people.
pub(super) fn as_text(setting: &Setting) -> String {
    let parameters: Vec<_> =
        setting.parameters().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    if parameters.is_empty() { "none".to_owned() } else { parameters.join(", ") }
}
