//! The name of a case, as it is printed with a violation and taken on the command line.

use std::fmt;
use std::str::FromStr;

use super::stage::Case;
use super::subject::{Grammar, Scene, Subject};

/// One case: setting, trace, stop, choice, and the stop and the choice inside of the recovery. Written
/// `used/durable/face-gsc/both/1:wsj:5.12+3.0`. What is left out at the end stands for all of it.
pub(crate) struct Name<S: Subject> {
    pub(super) setting: S::Setting,
    pub(crate) trace: Vec<S::Step>,
    pub(super) case: Case,
}

impl<S: Subject> Name<S> {
    pub(super) fn new(setting: &S::Setting, trace: &[S::Step], case: Case) -> Self {
        Self { setting: setting.clone(), trace: trace.to_vec(), case }
    }

    /// Another case of the same trace.
    pub(super) fn at(&self, case: Case) -> Self {
        Self::new(&self.setting, &self.trace, case)
    }
}

impl<S: Subject> Clone for Name<S> {
    fn clone(&self) -> Self {
        self.at(self.case)
    }
}

impl<S: Subject> fmt::Debug for Name<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<S: Subject> fmt::Display for Name<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.setting)?;
        self.trace.iter().try_for_each(|step| write!(f, "{step}"))?;
        let Case { stop, choice, nested } = self.case;
        if stop > 0 {
            write!(f, ":{stop}")?;
        }
        if let Some(choice) = choice {
            write!(f, ".{choice}")?;
        }
        nested.map_or(Ok(()), |(stop, choice)| write!(f, "+{stop}.{choice}"))
    }
}

impl<S: Subject> FromStr for Name<S> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let setting = S::Setting::named(name).ok_or_else(|| format!("there is no setting '{name}'"))?;
        let step = |letter| {
            let known =
                || S::Step::ALL.iter().map(|step| format!("{step} {}", step.text())).collect::<Vec<_>>();
            S::Step::of(letter)
                .ok_or_else(|| format!("there is no step '{letter}'; known: {}", known().join(", ")))
        };
        let trace = parts.next().unwrap_or_default().chars().map(step).collect::<Result<_, _>>()?;
        let case = parts.next().map_or(Ok(Case::default()), case)?;
        match parts.next() {
            Some(more) => {
                Err(format!("':{more}' follows after the case; a case is setting:trace:stop.choice"))
            }
            None => Ok(Self { setting, trace, case }),
        }
    }
}

/// Reads `stop.choice+stop.choice`.
fn case(text: &str) -> Result<Case, String> {
    let number = |text: &str| {
        let wrong = |_| format!("'{text}' is not a number; a case is stop.choice or stop.choice+stop.choice");
        text.parse::<u64>().map_err(wrong)
    };
    let (outer, nested) = text.split_once('+').map_or((text, None), |(outer, nested)| (outer, Some(nested)));
    let (stop, choice) = outer.split_once('.').map_or((outer, None), |(stop, choice)| (stop, Some(choice)));
    let choice = choice.map(number).transpose()?.map(|choice| choice as usize);
    let nested = match nested.map(|nested| nested.split_once('.').unwrap_or((nested, ""))) {
        Some((stop, choice)) => Some((number(stop)?, number(choice)? as usize)),
        None => None,
    };
    Ok(Case { stop: number(stop)?, choice, nested })
}
