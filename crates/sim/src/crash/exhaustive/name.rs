//! The name of a case, as it is printed with a violation and taken on the command line.

use std::fmt;
use std::str::FromStr;

use super::stage::Case;
use super::subject::{Grammar, Scene, Subject};
use crate::crash::world::World as Volume;
use crate::database::World as Database;

/// One case: setting, trace, stop, choice, and the stop and the choice inside of the recovery. Written
/// `used/durable/face-gsc/both/1:wsj:5.12+3.0`. What is left out at the end stands for all of it.
pub(super) struct Name<S: Subject> {
    pub(super) setting: S::Setting,
    pub(super) trace: Vec<S::Step>,
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

/// The name of a case, of a volume or of a database.
#[derive(Debug, Clone)]
pub struct CaseName(pub(super) Of);

/// What a case is of.
#[derive(Debug, Clone)]
pub(super) enum Of {
    Volume(Name<Volume>),
    Database(Name<Database>),
}

impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Of::Volume(name) => name.fmt(f),
            Of::Database(name) => name.fmt(f),
        }
    }
}

impl FromStr for CaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let setting = text.split(':').next().unwrap_or_default();
        if <Database as Subject>::Setting::named(setting).is_some() {
            return text.parse().map(|name| Self(Of::Database(name)));
        }
        if <Volume as Subject>::Setting::named(setting).is_some() {
            return text.parse().map(|name| Self(Of::Volume(name)));
        }
        let mut known = names::<Volume>();
        known.extend(names::<Database>());
        Err(format!("there is no setting '{setting}'; known: {}", known.join(", ")))
    }
}

fn names<S: Subject>() -> Vec<String> {
    S::Setting::all(None, None).iter().map(S::Setting::to_string).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in [
            "used/durable/face-gsc/both/1:wsj:5.12+3.0",
            "new/through/face-gr/both/2::4.0",
            "new/durable/face-basic/both/1:z:7",
            "used/durable/face-gsc/clean/2:kk",
            "database/used/drained/face-gsc/both/1:pk:3.1+2.0",
        ] {
            assert_eq!(text.parse::<CaseName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_what_there_is() {
        let complaint = |text: &str| text.parse::<CaseName>().err().unwrap_or_default();
        assert!(complaint("old/durable").contains("used/durable/face-gsc/both/1"));
        assert!(complaint("old/durable").contains("database/new/drained/face-gr/both/2"));
        assert!(complaint("used/durable/face-gsc/both/1:q").contains("w write the first page"));
        assert!(complaint("used/durable/face-gsc/both/1:w:x").contains("'x' is not a number"));
        assert!(complaint("used/durable/face-gsc/both/1:w:1.2:3").contains(":3"));
    }
}
