//! Histories: a cluster's directory and flash are copied at some moments and put back at others, together or
//! apart, and bytes rot in its flash.
//!
//! What is drawn for a cycle is drawn by its seed, apart from what is drawn without histories. Each step is
//! written to the file `histories` beside the journal, and a failure prints those of its life. Judged is
//! 1. what became of a start: whether the table in docs/postgresql.md allows it ([`outcome`]), and for rot
//!    the one in docs/reliability.md ([`rot`]);
//! 2. what a server that has started holds: exactly what its directory's moment and log say, by all checkers;
//! 3. that a refusal has changed nothing: with the right parts the server has everything.

pub(crate) mod moment;

pub(crate) mod outcome;

pub(crate) mod copies;

mod blocks;
mod flash;
mod rot;
pub(crate) mod trouble;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::failure::Checked;
use crate::random::Random;
use moment::Moment;
use outcome::Tally;
use trouble::Trouble;

/// Moments of a life that are kept at a time.
const KEPT_MAX: usize = 3;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Directory, flash or both are copied and put back later.
    Copies,
    /// Bytes rot in the flash while the server is down.
    Rot,
    /// A relation's file goes away under load, and comes back.
    Absent,
    /// Relation files cannot grow for a while (needs --faults).
    Full,
}

/// When a copy is made in a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the load, of a server that was shut down.
    Cold,
    /// Under load.
    Running,
    /// After the kill.
    Crashed,
}

/// What is done to a server that was killed, before it is started in earnest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    PutBack,
    Rot,
}

/// What is drawn for a cycle.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) copy: Option<When>,
    pub(crate) deed: Option<Deed>,
    /// What comes over the server under load; then there is nothing else.
    pub(crate) trouble: Option<Trouble>,
    /// Whether the deed comes after starts that were cut off, if there are any, and not before.
    pub(crate) after_cut_starts: bool,
    pub(crate) random: Random,
}

impl Plan {
    /// The plan of a cycle; nothing if no histories are asked for.
    fn draw(kinds: &[Kind], mut random: Random) -> Self {
        let copies = kinds.contains(&Kind::Copies);
        let copy = match random.below(8) {
            0 | 1 => Some(When::Cold),
            2..=4 => Some(When::Running),
            5 | 6 => Some(When::Crashed),
            _ => None,
        };
        let rots = kinds.contains(&Kind::Rot);
        let deed = match random.below(8) {
            0..=4 if copies => Some(Deed::PutBack),
            0..=6 if rots => Some(Deed::Rot),
            _ => None,
        };
        let after_cut_starts = random.below(2) == 0;
        let trouble = match random.below(6) {
            0 if kinds.contains(&Kind::Absent) => Some(Trouble::Absent),
            1 if kinds.contains(&Kind::Full) => Some(Trouble::Full),
            _ => None,
        };
        let (copy, deed) = (copy.filter(|_| copies && trouble.is_none()), deed.filter(|_| trouble.is_none()));
        Self { copy, deed, trouble, after_cut_starts, random }
    }

    /// Whether nothing is left of it for a server that is down.
    pub(crate) fn is_over(&self) -> bool {
        self.copy != Some(When::Crashed) && self.deed.is_none()
    }
}

/// The histories of one life.
pub(crate) struct Histories {
    kinds: Vec<Kind>,
    place: PathBuf,
    kept: Vec<Moment>,
    /// Numbers of the last moment, branch and tier.
    moments: u64,
    branches: u64,
    tiers: u64,
    /// Which of them what is there now belongs to.
    branch: u64,
    tier: u64,
    session: Option<u64>,
    /// What was read of each block on rotten flash; to be compared once the flash is put right again.
    rotten: Option<blocks::Blocks>,
    /// What was done, in words.
    pub(crate) steps: Vec<String>,
    pub(crate) tally: Tally,
}

impl Histories {
    /// Of a life whose directory this is.
    pub(crate) fn new(kinds: &[Kind], directory: &Path) -> Self {
        Self {
            kinds: kinds.to_vec(),
            place: directory.to_path_buf(),
            kept: Vec::new(),
            moments: 0,
            branches: 0,
            tiers: 0,
            branch: 0,
            tier: 0,
            session: None,
            rotten: None,
            steps: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub(crate) fn plan(&self, random: Random) -> Plan {
        Plan::draw(&self.kinds, random)
    }

    /// The server came to accept connections in this session.
    pub(crate) fn started(&mut self, session: u64) {
        self.session = Some(session);
    }

    /// A start was cut off: nobody knows whether its session has begun.
    pub(crate) fn start_was_cut(&mut self) {
        self.session = None;
    }

    /// The flash was removed: the next start makes a tier anew.
    pub(crate) fn flash_was_lost(&mut self) {
        self.tiers += 1;
        self.tier = self.tiers;
    }

    /// Writes down what is about to be done, or what became of it.
    pub(crate) fn note(&mut self, step: String) -> Checked {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let mut file = OpenOptions::new().create(true).append(true).open(self.place.join("histories"))?;
        writeln!(file, "{step}")?;
        self.steps.push(step);
        Ok(())
    }

    fn keep(&mut self, moment: Moment) -> Checked {
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0).remove()?;
        }
        self.kept.push(moment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_drawn() {
        for number in 0..200 {
            let draw = |kinds: &[Kind]| Plan::draw(kinds, Random::new(1, number));
            assert!(draw(&[]).copy.is_none() && draw(&[]).deed.is_none());
            assert!(draw(&[Kind::Copies, Kind::Rot]).trouble.is_none());
            let all = draw(&[Kind::Copies, Kind::Rot, Kind::Absent, Kind::Full]);
            assert!(all.trouble.is_none() || all.copy.is_none() && all.deed.is_none());
            assert!(draw(&[Kind::Copies]).deed != Some(Deed::Rot));
            assert!(draw(&[Kind::Rot]).copy.is_none() && draw(&[Kind::Rot]).deed != Some(Deed::PutBack));
        }
    }
}
