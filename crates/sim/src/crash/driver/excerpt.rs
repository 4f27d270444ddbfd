//! A part of a life, as it stands on a command line.

use std::fmt;
use std::str::FromStr;

/// The sessions of a life that take place, in order, with nothing in between. Written `3:0-4+9!9.2,7:`, which
/// is: of session 3 the operations 0 to 4 and 9, with the power failing in the second device operation after
/// operation 9 has begun; of session 7 none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    pub(crate) sessions: Vec<Lived>,
}

/// What takes place of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lived {
    pub(crate) session: u64,
    /// Ranges of operations, both ends included, ascending.
    operations: Vec<(u64, u64)>,
    /// The operation in which power failed, and the device operation counted from its beginning; `None` if
    /// there was no cut, or one before the first operation.
    pub(crate) cut: Option<(u64, u64)>,
}

impl Lived {
    pub(crate) fn new(session: u64) -> Self {
        Self { session, operations: Vec::new(), cut: None }
    }

    /// The same session with nothing but its cut.
    pub(crate) fn without_operations(&self) -> Self {
        Self { operations: Vec::new(), ..*self }
    }

    pub(crate) fn has(&self, operation: u64) -> bool {
        self.operations.iter().any(|(first, last)| (*first..=*last).contains(&operation))
    }

    /// Adds an operation after all that there are.
    pub(crate) fn add(&mut self, operation: u64) {
        match self.operations.last_mut() {
            Some((_, last)) if *last + 1 == operation => *last = operation,
            _ => self.operations.push((operation, operation)),
        }
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.operations.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl Excerpt {
    /// How many operations take place.
    pub(crate) fn operations(&self) -> usize {
        self.sessions.iter().map(|lived| lived.all().count()).sum()
    }

    /// This without the operations that `left_out` is true for, counted over all sessions.
    pub(crate) fn without_operations(&self, left_out: impl Fn(usize) -> bool) -> Self {
        let mut number = 0;
        let session = |lived: &Lived| {
            let mut shorter = lived.without_operations();
            for operation in lived.all() {
                if !left_out(number) {
                    shorter.add(operation);
                }
                number += 1;
            }
            shorter
        };
        Self { sessions: self.sessions.iter().map(session).collect() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, lived) in self.sessions.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{}:", lived.session)?;
            for (number, (first, last)) in lived.operations.iter().enumerate() {
                let plus = if number > 0 { "+" } else { "" };
                match first == last {
                    true => write!(f, "{plus}{first}")?,
                    false => write!(f, "{plus}{first}-{last}")?,
                }
            }
            if let Some((operation, after)) = lived.cut {
                write!(f, "!{operation}.{after}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Excerpt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sessions: Vec<Lived> = Vec::new();
        for part in text.split(',') {
            let lived = lived(part).ok_or_else(|| {
                format!("'{part}' is not session:operations!cut, such as 3:0-4+9!9.2 or 7:")
            })?;
            if sessions.last().is_some_and(|before| before.session >= lived.session) {
                return Err(format!("session {} is not behind the one before it", lived.session));
            }
            sessions.push(lived);
        }
        Ok(Self { sessions })
    }
}

fn lived(text: &str) -> Option<Lived> {
    let (session, rest) = text.split_once(':')?;
    let (operations, cut) = rest.split_once('!').map_or((rest, None), |(all, cut)| (all, Some(cut)));
    let mut lived = Lived::new(session.parse().ok()?);
    for range in operations.split('+').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let ascends = lived.operations.last().is_none_or(|(_, before)| *before < first);
        if first > last || !ascends {
            return None;
        }
        lived.operations.push((first, last));
    }
    if let Some((operation, after)) = cut.map(|cut| cut.split_once('.')).unwrap_or_default() {
        lived.cut = Some((operation.parse().ok()?, after.parse().ok().filter(|after| *after > 0)?));
    } else if cut.is_some() {
        return None;
    }
    Some(lived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_read_as_it_is_written() {
        for text in ["3:0-4+9!9.2,7:", "0:5", "1:!0.1", "2:0-1000000+1000002"] {
            assert_eq!(text.parse::<Excerpt>().map(|excerpt| excerpt.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "3", "x:1", "3:4-2", "3:4+4", "3:1!2", "3:1!2.0", "3:,3:", "4:,3:"] {
            assert!(text.parse::<Excerpt>().is_err(), "{text}");
        }
    }

    #[test]
    fn operations_are_left_out_by_their_place_in_all_sessions() -> Result<(), String> {
        let whole: Excerpt = "3:0-4!4.1,7:2".parse()?;
        assert_eq!(whole.operations(), 6);
        assert_eq!(
            whole.without_operations(|number| number == 1 || number == 5).to_string(),
            "3:0+2-4!4.1,7:"
        );
        Ok(())
    }
}
