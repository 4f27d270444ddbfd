//! What a start came to, by the server's log, and what the table in docs/postgresql.md allows it to come to.

use std::collections::BTreeMap;

use super::moment::{Origin, Taken};

/// What a start came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The tier is used as it was found.
    Adopted,
    /// What the tier held is not used, for this reason.
    Emptied(String),
    /// A new tier was made, for this reason.
    Formatted(String),
    /// The server did not start, with these words.
    Refused(String),
    /// None of these: the log does not say what became of the tier.
    Silent,
}

/// The words of a refusal of parts that do not belong together.
const APART: &str = "and the data directory are not of the same moment";

/// The words of a refusal of a tier that the directory does not know.
const OTHERS: &str = "is another server's";

const NOT_IN_TABLE: &str = "these words are not in the table";

/// Why one of them is found older, without numbers and names.
const REASONS: [&str; 7] = [
    "for its marker names no session of the server",
    "for the tier was used in a later session of the server",
    "the tier is the older one, or was used with another copy of the data directory",
    "each was used in a session of the server that the other does not know",
    "redo begins at",
    "for the disk was synced",
    "for the tier has pages from behind the end of its log",
];

/// Why a tier that can hold no only copies is emptied after a crash, with whatever directory.
const NOT_CLOSED: &str = "it was not left in order, and the disk is newer";

/// Why a tier is emptied with a copy of a directory that was left in order: a copied file has changed since.
const CHANGED: &str = "every file of which it held pages was changed while the server was down";

/// The words of a refusal of damaged metadata.
pub(super) const DAMAGED: &str = "cannot be recovered";

impl Outcome {
    /// What the log of a start says. `ended` if it did not come to accept connections.
    pub(crate) fn read(log: &str, ended: bool) -> Self {
        let detail_after = |words: &str| {
            let mut lines = log.lines().skip_while(|line| !line.contains(words));
            lines.next()?;
            // The detail may be the line of another process: it follows at once where there is one.
            Some(
                lines
                    .next()
                    .and_then(|line| line.split_once("DETAIL:  "))
                    .map_or("", |(_, what)| what)
                    .to_owned(),
            )
        };
        if ended {
            // Whoever connects meanwhile is told that it is early.
            let of_server = log.lines().filter(|line| !line.contains("client backend"));
            let is_end = |line: &&str| line.contains("FATAL:") || line.contains("PANIC:");
            let said: Vec<&str> = of_server.skip_while(|line| !is_end(line)).take(2).collect();
            return Self::Refused(said.join(" "));
        }
        if log.contains("flash tier adopted") {
            return Self::Adopted;
        }
        if let Some(reason) = detail_after("flash tier emptied") {
            return Self::Emptied(reason);
        }
        detail_after("new flash tier on").map_or(Self::Silent, Self::Formatted)
    }

    /// In the words of the summary: which outcome, and by which reason of the table.
    pub(crate) fn summary(&self) -> String {
        let reason = |text: &str| {
            let known = REASONS
                .iter()
                .chain([&NOT_CLOSED, &CHANGED, &OTHERS, &DAMAGED])
                .filter(|reason| text.contains(**reason));
            known.copied().collect::<Vec<_>>().join("; ")
        };
        match self {
            Self::Adopted => "adopted".into(),
            Self::Emptied(why) => format!("emptied ({})", reason(why)),
            Self::Formatted(_) => "made anew".into(),
            Self::Refused(why) => format!("refused ({})", reason(why)),
            Self::Silent => "nothing said".into(),
        }
    }
}

/// What a life's configuration says of its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holds {
    /// It may hold the only copy of pages: sync mode `durable`, and not clean pages alone.
    pub(crate) only_copies: bool,
    /// It never holds a page that is newer than on disk.
    pub(crate) clean_alone: bool,
}

/// Why the table does not allow what a start with this directory and this flash came to. `None` if it does.
pub(crate) fn objection(
    outcome: &Outcome,
    directory: &Origin,
    flash: &Origin,
    holds: Holds,
) -> Option<String> {
    let together = directory.number == flash.number;
    let apart_for_sure =
        matches!((directory.session, flash.session), (Some(one), Some(other)) if one != other);
    match outcome {
        Outcome::Silent => Some("the log does not say what became of the tier".into()),
        Outcome::Adopted if apart_for_sure => {
            Some("they are of different sessions, and the tier is used".into())
        }
        Outcome::Adopted if directory.tier != flash.tier => Some("it is another tier, and it is used".into()),
        Outcome::Adopted => None,
        Outcome::Emptied(why) if why.contains(CHANGED) => {
            let copied = directory.stopping && directory.taken != Taken::Now;
            let files_suffice = directory.drained || !holds.only_copies;
            (!copied || !files_suffice)
                .then(|| "its files are no copies, or the tier may have the only copy of pages".into())
        }
        Outcome::Emptied(why) | Outcome::Formatted(why) if together => {
            (!holds.clean_alone || why != NOT_CLOSED_SENTENCE).then(|| "they are of one moment".into())
        }
        Outcome::Emptied(why) => emptied(why, directory, flash, holds),
        Outcome::Formatted(why) => {
            let other = why.contains("it belonged to another cluster, or to another state of this one");
            (directory.tier == flash.tier || !other || holds.only_copies)
                .then(|| "the tier is its own, or may have the only copy of pages".into())
        }
        Outcome::Refused(_) if together => Some("they are of one moment".into()),
        Outcome::Refused(why) => refused(why, directory, flash, holds),
    }
}

/// [`NOT_CLOSED`] as the server writes it.
const NOT_CLOSED_SENTENCE: &str = "it was not left in order, and the disk is newer.";

fn emptied(why: &str, directory: &Origin, flash: &Origin, holds: Holds) -> Option<String> {
    let known = directory.session.is_some() && flash.session.is_some();
    if holds.only_copies && known && !(directory.drained && flash.drained) {
        return Some("one of them may have the only copy of pages".into());
    }
    let crashed = holds.clean_alone && why.contains(NOT_CLOSED);
    if crashed { None } else { misjudged(why, directory, flash) }
}

fn refused(why: &str, directory: &Origin, flash: &Origin, holds: Holds) -> Option<String> {
    if holds.only_copies {
        let is_said = why.contains(APART) && why.contains("One of them is an older copy: ");
        return if is_said { misjudged(why, directory, flash) } else { Some(NOT_IN_TABLE.into()) };
    }
    // A tier that was made anew since: the directory does not know the other, which was not drained.
    let of_before = directory.tier != flash.tier && why.contains(OTHERS);
    (!of_before).then(|| "the files and the log suffice".into())
}

/// Whether a reason is one of the table's, and says the right one of the two to be older.
fn misjudged(why: &str, directory: &Origin, flash: &Origin) -> Option<String> {
    if !REASONS.iter().any(|reason| why.contains(reason)) {
        return Some("this reason is not in the table".into());
    }
    let one_history = directory.branch == flash.branch && directory.tier == flash.tier;
    let (by_directory, by_tier) =
        (why.contains("the data directory is the older one"), why.contains("the tier is the older one"));
    let wrong = if directory.number < flash.number { by_tier } else { by_directory };
    (one_history && wrong).then(|| "it says the wrong one to be older".into())
}

/// How many histories of each kind came to what.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally(BTreeMap<(String, String), u64>);

impl Tally {
    pub(crate) fn count(&mut self, kind: &str, outcome: &str) {
        *self.0.entry((kind.to_owned(), outcome.to_owned())).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, more) in &other.0 {
            *self.0.entry(what.clone()).or_default() += more;
        }
    }

    /// A table of them all; nothing if there were none.
    pub(crate) fn lines(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let head = ["| history | what became of it | times |", "|---|---|---|"].map(str::to_owned);
        let rows = self.0.iter().map(|((kind, outcome), times)| format!("| {kind} | {outcome} | {times} |"));
        head.into_iter().chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURABLE: Holds = Holds { only_copies: true, clean_alone: false };
    const DRAINED: Holds = Holds { only_copies: false, clean_alone: false };
    const THROUGH: Holds = Holds { only_copies: false, clean_alone: true };

    fn of(number: u64, session: u64) -> Origin {
        let (stopping, drained) = (false, false);
        Origin {
            number,
            taken: Taken::Crashed,
            stopping,
            drained,
            session: Some(session),
            branch: 0,
            tier: 0,
        }
    }

    fn refusal(why: &str) -> Outcome {
        Outcome::Refused(format!(
            "FATAL:  the flash tier on \"/flash\" {APART} DETAIL:  One of them is an older copy: {why}."
        ))
    }

    const OLDER_DIRECTORY: &str =
        "the data directory is the older one, for the tier was used in a later session of the server";

    #[test]
    fn a_log_says_what_became_of_the_tier() {
        let read = |log, ended| Outcome::read(log, ended);
        assert_eq!(read("x LOG:  flash tier adopted: 7 pages\n", false), Outcome::Adopted);
        let emptied = "x LOG:  flash tier emptied\nx DETAIL:  it was.\n";
        assert_eq!(read(emptied, false), Outcome::Emptied("it was.".into()));
        assert_eq!(
            read("x LOG:  new flash tier on \"f\"\nx LOG:  y\n", false),
            Outcome::Formatted(String::new())
        );
        let refused = "x LOG:  y\nx client backend FATAL:  early\nx FATAL:  no\nx DETAIL:  one\nx LOG:  z\n";
        assert_eq!(read(refused, true), Outcome::Refused("x FATAL:  no x DETAIL:  one".into()));
        assert_eq!(read("", false), Outcome::Silent);
    }

    #[test]
    fn parts_of_different_sessions_are_never_used_together() {
        for holds in [DURABLE, DRAINED, THROUGH] {
            assert!(objection(&Outcome::Adopted, &of(1, 1), &of(2, 2), holds).is_some());
        }
        assert!(objection(&refusal(OLDER_DIRECTORY), &of(1, 1), &of(2, 2), DURABLE).is_none());
        assert!(objection(&refusal(OLDER_DIRECTORY), &of(1, 1), &of(2, 2), DRAINED).is_some());
        let emptied = Outcome::Emptied(OLDER_DIRECTORY.into());
        assert!(objection(&emptied, &of(1, 1), &of(2, 2), DURABLE).is_some());
        assert!(objection(&emptied, &of(1, 1), &of(2, 2), DRAINED).is_none());
        assert!(
            objection(&Outcome::Adopted, &of(1, 1), &Origin { session: None, ..of(2, 2) }, DURABLE).is_none()
        );
    }

    #[test]
    fn parts_of_one_moment_go_on() {
        for holds in [DURABLE, DRAINED, THROUGH] {
            assert!(objection(&Outcome::Adopted, &of(3, 1), &of(3, 1), holds).is_none());
            assert!(objection(&refusal(OLDER_DIRECTORY), &of(3, 1), &of(3, 1), holds).is_some());
        }
        let crashed = Outcome::Emptied(NOT_CLOSED_SENTENCE.into());
        assert!(objection(&crashed, &of(3, 1), &of(3, 1), THROUGH).is_none());
        assert!(objection(&crashed, &of(3, 1), &of(3, 1), DRAINED).is_some());
    }

    #[test]
    fn copied_files_count_as_changed_where_they_were_left_in_order() {
        let changed = Outcome::Emptied(format!("{CHANGED}."));
        let cold = Origin { taken: Taken::Cold, stopping: true, drained: true, ..of(3, 1) };
        for holds in [DURABLE, DRAINED, THROUGH] {
            assert!(objection(&changed, &cold, &cold, holds).is_none());
            assert!(objection(&changed, &of(3, 1), &of(3, 1), holds).is_some());
            let in_place = Origin { taken: Taken::Now, ..cold };
            assert!(objection(&changed, &in_place, &in_place, holds).is_some());
        }
        let undrained = Origin { drained: false, ..cold };
        assert!(objection(&changed, &undrained, &undrained, DURABLE).is_some());
        assert!(objection(&changed, &undrained, &undrained, DRAINED).is_none());
    }

    #[test]
    fn a_refusal_in_other_words_or_of_the_wrong_part_is_noticed() {
        let damaged = Outcome::Refused("FATAL:  the flash tier on \"/flash\" cannot be recovered".into());
        assert!(objection(&damaged, &of(1, 1), &of(2, 2), DURABLE).is_some());
        assert!(objection(&refusal("it is Tuesday"), &of(1, 1), &of(2, 2), DURABLE).is_some());
        assert!(objection(&refusal(OLDER_DIRECTORY), &of(2, 2), &of(1, 1), DURABLE).is_some());
        let parted = Origin { branch: 1, ..of(2, 2) };
        assert!(objection(&refusal(OLDER_DIRECTORY), &parted, &of(1, 1), DURABLE).is_none());
    }

    #[test]
    fn a_tier_of_before_the_flash_was_lost_may_be_refused_where_nobody_needs_it() {
        let before = Origin { tier: 1, ..of(2, 2) };
        let others = Outcome::Refused("FATAL:  the flash tier on \"/flash\" is another server's".into());
        assert!(objection(&others, &before, &of(1, 1), DRAINED).is_none());
        assert!(objection(&others, &of(2, 2), &of(1, 1), DRAINED).is_some());
        assert!(objection(&others, &before, &of(1, 1), DURABLE).is_some());
        assert!(objection(&Outcome::Adopted, &before, &of(1, 2), DRAINED).is_some());
    }

    #[test]
    fn a_tally_counts_what_is_the_same_together() {
        let mut tally = Tally::default();
        assert!(tally.lines().is_empty());
        tally.count("copy", "adopted");
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!(sum.lines()[2..], ["| copy | adopted | 2 |"]);
    }
}
