//! What every page must be: worked out from the log alone, by rules that a person can check.
//!
//! Every change has a version of its own, never used again, even when its record is lost. So a page that is
//! found says which record made it, and whether that record survived.

use super::contents::{Content, VERSION_MAX};
use super::log::{Change, Log, Lsn};
use super::places::{Place, Space};

/// The version of each place after some prefix of the log; 0 where no page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State(Vec<u32>);

impl State {
    /// No pages at all.
    pub fn empty(space: &Space) -> Self {
        Self(vec![0; space.places() as usize])
    }

    /// The version of the page at `place`, if there is one.
    pub fn version(&self, place: Place) -> Option<u32> {
        Some(self.0[place as usize]).filter(|&version| version != 0)
    }

    /// The places that hold a page.
    pub fn existing(&self) -> impl Iterator<Item = Place> {
        (0..).zip(&self.0).filter(|(_, version)| **version != 0).map(|(place, _)| place)
    }

    /// Takes one more record.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Drop(extent) => self.0[extent.first as usize..][..extent.count as usize].fill(0),
            change => {
                if let Some((place, version)) = change.page() {
                    self.0[place as usize] = version;
                }
            }
        }
    }
}

/// What redo does with a page that it finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The page is what the record expects: it becomes the record's version.
    Apply,
    /// The page has the change already.
    Skip,
    /// The page is of no use, and a later record drops or replaces it.
    Doomed,
    /// The page is newer than the durable log.
    TooNew,
    /// The page is older than the redo pointer promises, or rubbish.
    Broken,
}

/// Everything that was ever logged and survived, and what follows from it.
#[derive(Debug, Clone)]
pub struct History {
    now: State,
    /// The state at the redo pointer, from where states after it are worked out.
    base: State,
    base_lsn: Lsn,
    /// The LSN of each version's record; 0 if it has none, or lost it.
    lsns: Vec<u32>,
}

impl History {
    /// The history of an empty database.
    pub fn new(space: &Space) -> Self {
        let empty = State::empty(space);
        Self { now: empty.clone(), base: empty, base_lsn: 0, lsns: vec![0] }
    }

    /// What the pages must be now.
    pub fn now(&self) -> &State {
        &self.now
    }

    /// A version that was never used.
    ///
    /// # Panics
    /// When a world lives so long that they run out.
    pub fn new_version(&mut self) -> u32 {
        let version = self.lsns.len() as u32;
        assert!(version < VERSION_MAX, "a world has a limited number of changes");
        self.lsns.push(0);
        version
    }

    /// Leaves out the numbers of the versions that another history has given, which this one then lost.
    pub fn number_on_from(&mut self, other: &Self) {
        let given = self.lsns.len().max(other.lsns.len());
        self.lsns.resize(given, 0);
    }

    /// The LSN of a version's record: `None` if it has none.
    pub fn lsn(&self, version: u32) -> Option<Lsn> {
        self.lsns.get(version as usize).copied().filter(|&lsn| lsn != 0).map(Lsn::from)
    }

    /// Appends a record to the log and to the history.
    pub fn append(&mut self, log: &mut Log, change: Change) -> Lsn {
        let lsn = log.append(change);
        if let Some((_, version)) = change.page() {
            self.lsns[version as usize] = lsn as u32;
        }
        self.now.apply(&change);
        lsn
    }

    /// The redo pointer has moved to `redo`, and never moves back.
    pub fn redo_moved(&mut self, log: &Log, redo: Lsn) {
        self.base = self.state_at(log, redo);
        self.base_lsn = redo;
    }

    /// The log has lost its end.
    pub fn log_cut(&mut self, log: &Log) {
        for lsn in &mut self.lsns {
            if Lsn::from(*lsn) > log.end() {
                *lsn = 0;
            }
        }
        self.now = self.state_at(log, log.end());
    }

    /// The state at `lsn`, at or after the redo pointer.
    pub fn state_at(&self, log: &Log, lsn: Lsn) -> State {
        let mut state = self.base.clone();
        for (_, change) in log.records_from(self.base_lsn).take_while(|(at, _)| *at <= lsn) {
            state.apply(change);
        }
        state
    }

    /// What redo makes of `found` when it comes to the record at `lsn`, which gives `place` a version.
    pub fn judge(&self, log: &Log, lsn: Lsn, place: Place, found: Content) -> Verdict {
        let change = log.record(lsn);
        if matches!(change, Change::Init { .. } | Change::Image { .. }) {
            return Verdict::Apply;
        }
        let known = match found {
            Content::Version(version) => self.lsn(version).map(|lsn| (version, lsn)),
            Content::Zeros | Content::Other => None,
        };
        match (known, change) {
            (Some((_, found_lsn)), _) if found_lsn >= lsn => Verdict::Skip,
            (Some((version, _)), Change::Update { previous, .. }) if previous == version => Verdict::Apply,
            _ if Self::is_replaced(log, lsn, place, &change) => Verdict::Doomed,
            (None, _) if matches!(found, Content::Version(_)) => Verdict::TooNew,
            _ => Verdict::Broken,
        }
    }

    /// Whether a later record drops the page, or makes it without looking at it; only redo of a load, which
    /// looks at the page to see whether its promise was kept, can come before the latter.
    fn is_replaced(log: &Log, lsn: Lsn, place: Place, change: &Change) -> bool {
        let loaded = matches!(change, Change::Load { .. });
        log.records_from(lsn).any(|(_, later)| match *later {
            Change::Drop(extent) => extent.contains(place),
            Change::Init { place: made, .. } | Change::Image { place: made, .. } => loaded && made == place,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezzanine_device::memory::Power;

    const SPACE: Space = Space { databases: 1, relations: 1, forks: 1, blocks: 4 };

    #[test]
    fn redo_takes_a_page_from_its_promise_to_the_end_of_the_log_and_no_other() {
        let (mut log, mut history) = (Log::on(&Power::new()), History::new(&SPACE));
        let [first, second, third, lost] = std::array::from_fn(|_| history.new_version());
        history.append(&mut log, Change::Init { place: 2, version: first });
        history.append(&mut log, Change::Update { place: 2, previous: first, version: second });
        let lsn = history.append(&mut log, Change::Update { place: 2, previous: second, version: third });
        let judge = |history: &History, log: &Log, found| history.judge(log, lsn, 2, found);
        assert_eq!(judge(&history, &log, Content::Version(second)), Verdict::Apply);
        assert_eq!(judge(&history, &log, Content::Version(third)), Verdict::Skip);
        assert_eq!(judge(&history, &log, Content::Version(lost)), Verdict::TooNew);
        assert_eq!(judge(&history, &log, Content::Version(first)), Verdict::Broken);
        assert_eq!(judge(&history, &log, Content::Zeros), Verdict::Broken);
        let whole = SPACE.relation(0);
        history.append(&mut log, Change::Drop(whole));
        assert_eq!(judge(&history, &log, Content::Version(first)), Verdict::Doomed);
        assert_eq!(history.now().existing().count(), 0);
        assert_eq!(history.state_at(&log, lsn).version(2), Some(third));
    }
}
