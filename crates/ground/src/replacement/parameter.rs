//! What a policy's configuration is where it comes from outside: parameters that have names and whose values
//! are numbers. Inside, each policy has a `Config` of its own, with a field for each of them.

use std::ops::RangeInclusive;

use crate::config::{ConfigError, FRAMES_MAX};

/// A parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As it is written in configurations.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// What its value is.
    pub kind: ParameterKind,
    /// The value where none is given.
    pub default: ParameterDefault,
}

/// What the value of a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// On (1) or off (0).
    Switch,
    /// A number of pages to remember. More than there are is as good as all of them.
    Pages,
    /// A number of references.
    References,
    /// A number of something else, between these two.
    Number(u64, u64),
}

/// The value of a parameter that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterDefault {
    /// This value.
    Value(u64),
    /// The number of frames, divided by this.
    FramesOver(u64),
}

impl ParameterKind {
    /// The smallest and the largest value.
    pub fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Switch => 0..=1,
            Self::Pages => 0..=FRAMES_MAX,
            Self::References => 0..=u64::MAX / 4,
            Self::Number(least, most) => least..=most,
        }
    }
}

impl Parameter {
    /// The value where none is given and the policy orders so many frames.
    pub(super) fn default_of(&self, frames: u32) -> u64 {
        match self.default {
            ParameterDefault::Value(value) => value,
            ParameterDefault::FramesOver(divisor) => u64::from(frames) / divisor,
        }
    }

    /// The value, if the parameter may have it.
    pub(super) fn checked(&self, value: u64) -> Result<u64, ConfigError> {
        in_range(self.name, value, self.kind.range())
    }
}

/// The number of frames, if a policy can order so many.
pub(super) fn checked_frames(frames: u64) -> Result<u32, ConfigError> {
    Ok(in_range("frames", frames, 1..=FRAMES_MAX)? as u32)
}

fn in_range(name: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = range.into_inner();
    let reason = format!("{value} is not between {least} and {most}");
    Err(ConfigError::new(name, reason, format!("use {}", value.clamp(least, most))))
}

/// Which field of a policy's configuration a parameter is.
pub(super) struct Field<C> {
    pub(super) parameter: Parameter,
    /// The field's value.
    pub(super) get: fn(&C) -> u64,
    /// The configuration with another value, which is checked.
    pub(super) with: fn(C, u64) -> Result<C, ConfigError>,
}

/// The values of all parameters.
pub(super) fn values<C: 'static>(config: &C, fields: &'static [Field<C>]) -> Vec<(&'static Parameter, u64)> {
    fields.iter().map(|field| (&field.parameter, (field.get)(config))).collect()
}

/// A configuration with another value of the parameter that has this name; `None` if none has it.
pub(super) fn with<C>(
    config: C,
    fields: &[Field<C>],
    name: &str,
    value: u64,
) -> Option<Result<C, ConfigError>> {
    let field = fields.iter().find(|field| field.parameter.name == name)?;
    Some((field.with)(config, value))
}
