//! Reading an acknowledgement log.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::str::{FromStr, SplitWhitespace};

use super::{CommitId, MAGIC};
use crate::error::{Error, ErrorKind, Result};
use crate::transaction::Effect;

/// How far a district had come when the log was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DistrictStart {
    pub(super) next_order: u32,
    pub(super) first_undelivered: u32,
}

/// Where a logged commit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    InDoubt,
    Acknowledged,
    Withdrawn,
}

/// A log that was read back.
#[derive(Clone, Debug)]
pub struct AcknowledgementLog {
    pub(super) run_id: u32,
    pub(super) districts: BTreeMap<(u32, u32), DistrictStart>,
    pub(super) commits: Vec<(CommitId, Effect, Standing)>,
}

impl AcknowledgementLog {
    /// Reads a log. An incomplete last line counts as not written.
    ///
    /// # Errors
    /// [`ErrorKind::LogFormat`], naming the line, when this is no log, when it breaks off before its header
    /// ends, or when a client has a commit in doubt and goes on to another.
    pub fn read(mut from: impl Read) -> Result<Self> {
        let mut text = String::new();
        from.read_to_string(&mut text).map_err(|error| {
            Error::with_source(ErrorKind::LogFormat, "cannot read the acknowledgement log", error)
        })?;
        let complete = text.rfind('\n').map_or(0, |last| last + 1);
        let mut reader = Reader::default();
        for (index, line) in text[..complete].lines().enumerate() {
            reader.line(index, line).map_err(|reason| {
                Error::new(
                    ErrorKind::LogFormat,
                    format!("acknowledgement log, line {} ({line:?}): {reason}", index + 1),
                )
            })?;
        }
        let log = match (reader.run_id, reader.begun) {
            (Some(run_id), true) => Self { run_id, districts: reader.districts, commits: reader.commits },
            _ => {
                return Err(Error::new(
                    ErrorKind::LogFormat,
                    "the acknowledgement log breaks off before its header ends; nothing was run with it",
                ));
            }
        };
        Ok(log)
    }

    /// Commits that the database has acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.count(Standing::Acknowledged)
    }

    /// Commits of which nobody knows.
    pub fn in_doubt(&self) -> usize {
        self.count(Standing::InDoubt)
    }

    fn count(&self, wanted: Standing) -> usize {
        self.commits.iter().filter(|(_, _, standing)| *standing == wanted).count()
    }
}

#[derive(Default)]
struct Reader {
    run_id: Option<u32>,
    begun: bool,
    districts: BTreeMap<(u32, u32), DistrictStart>,
    commits: Vec<(CommitId, Effect, Standing)>,
    /// Where in `commits` the undecided commit of a client is.
    open: HashMap<u32, usize>,
}

type LineResult<T> = std::result::Result<T, &'static str>;

impl Reader {
    fn line(&mut self, index: usize, line: &str) -> LineResult<()> {
        if index == 0 {
            return if line == MAGIC { Ok(()) } else { Err("not an acknowledgement log of version 1") };
        }
        let mut words = line.split_whitespace();
        match (words.next(), self.begun) {
            (Some("run"), false) => self.run_id = Some(number(&mut words)?),
            (Some("district"), false) => {
                let district = (number(&mut words)?, number(&mut words)?);
                let start =
                    DistrictStart { next_order: number(&mut words)?, first_undelivered: number(&mut words)? };
                self.districts.insert(district, start);
            }
            (Some("begin"), false) => self.begun = true,
            (Some("?"), true) => {
                let id = commit_id(&mut words)?;
                let effect = effect(&mut words)?;
                if self.open.insert(id.client, self.commits.len()).is_some() {
                    return Err("the client's previous commit is still in doubt");
                }
                self.commits.push((id, effect, Standing::InDoubt));
            }
            (Some("+"), true) => self.decide(commit_id(&mut words)?, Standing::Acknowledged)?,
            (Some("-"), true) => self.decide(commit_id(&mut words)?, Standing::Withdrawn)?,
            _ => return Err("not a line of such a log, or not in this place"),
        }
        if words.next().is_some() { Err("more than expected") } else { Ok(()) }
    }

    fn decide(&mut self, id: CommitId, standing: Standing) -> LineResult<()> {
        let index = self.open.remove(&id.client).ok_or("the client has no commit in doubt")?;
        let commit = &mut self.commits[index];
        if commit.0 != id {
            return Err("another commit of this client is in doubt");
        }
        commit.2 = standing;
        Ok(())
    }
}

fn commit_id(words: &mut SplitWhitespace<'_>) -> LineResult<CommitId> {
    Ok(CommitId { client: number(words)?, sequence: number(words)? })
}

fn effect(words: &mut SplitWhitespace<'_>) -> LineResult<Effect> {
    match words.next() {
        Some("new-order") => Ok(Effect::NewOrder {
            warehouse: number(words)?,
            district: number(words)?,
            order: number(words)?,
            customer: number(words)?,
            entered: number(words)?,
            lines: number(words)?,
        }),
        Some("payment") => Ok(Effect::Payment {
            warehouse: number(words)?,
            district: number(words)?,
            customer_warehouse: number(words)?,
            customer_district: number(words)?,
            customer: number(words)?,
            amount: number(words)?,
            data: words.next().ok_or("the payment's tag is missing")?.to_owned(),
        }),
        Some("delivery") => {
            let (warehouse, carrier) = (number(words)?, number(words)?);
            let order = |word: &str| {
                let (district, order) = word.split_once(':')?;
                Some((district.parse().ok()?, order.parse().ok()?))
            };
            let orders = words.map(order).collect::<Option<_>>().ok_or("an order is not district:number")?;
            Ok(Effect::Delivery { warehouse, carrier, orders })
        }
        _ => Err("not a transaction that writes"),
    }
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> LineResult<T> {
    words.next().and_then(|word| word.parse().ok()).ok_or("a number is missing or wrong")
}
