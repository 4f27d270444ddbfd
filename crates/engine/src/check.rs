//! The whole-structure checker.

use std::collections::{HashMap, HashSet};

use crate::core::Tier;
use crate::directory::VALID;
use crate::ids::{EntryNumber, IdRange, PageId, Position};

impl Tier {
    /// Checks everything that must hold between operations. For tests: a pass over the directory, while
    /// nothing else uses the tier.
    ///
    /// # Panics
    /// If a rule does not hold.
    pub fn check(&self) {
        let control = self.control();
        let directory = self.directory();
        let (front, rear) = (control.ends.front(), control.ends.rear());
        assert!(control.passed.durable_front() <= front, "the durable front is behind the front");
        let (releasable, cleaned) = (control.passed.releasable(), control.passed.cleaned());
        assert!(front <= releasable, "invariant 5: frames leave only when disk has their pages");
        assert!(releasable <= cleaned, "invariant 5: disk is synced after it was written");
        assert!(control.passed.cleaned() <= control.ends.staged_from(), "only durable groups are staged out");
        assert!(control.ends.staged_from() <= rear);
        assert!(!self.is_rest(front), "the front stands where the rest of a zone begins");
        assert!(control.groups.retired() <= control.groups.flushed());
        assert!(control.groups.flushed() <= control.groups.composed());
        assert!(control.groups.composed() <= control.groups.next());
        assert!(rear - front <= self.ring().frames + 1, "the queue overlaps itself");
        assert!(control.append.open().is_none_or(|open| open + 1 == control.groups.next()));

        let mut seen: HashMap<PageId, EntryNumber> = HashMap::new();
        for entry in EntryNumber::all(self.geometry.entries()) {
            if directory.state(entry) & VALID == 0 {
                continue;
            }
            let position = self.position_of(entry);
            assert!(position >= front, "a valid frame has left the queue");
            let id = directory.id(entry);
            assert_eq!(seen.insert(id, entry), None, "invariant 2: one valid frame per page");
            let shard = directory.lock(directory.hashed(&id), self.owner);
            assert_eq!(shard.find(&id), Some(entry), "a valid frame is linked in its bucket");
        }
        self.check_appearances(seen.keys());
        self.placement().check();
        assert_eq!(self.groups_meet(front, control.ends.staged_from()), Ok(()), "groups follow one another");
    }

    /// Every page is found by the beginning of its id (invariant 14).
    fn check_appearances<'p>(&self, pages: impl Iterator<Item = &'p PageId>) {
        let relation_of = |id: &PageId| IdRange { start: id.without_last(8), count: 1, shift: 64 };
        let mut found: HashMap<PageId, HashSet<(PageId, Position)>> = HashMap::new();
        for id in pages {
            let range = relation_of(id);
            let of_relation = found.entry(range.start).or_insert_with(|| {
                let mut of_relation = HashSet::new();
                self.any_appended_of(&range, |id, position| {
                    of_relation.insert((id, position));
                    false
                });
                of_relation
            });
            let shard = self.directory().lock(self.directory().hashed(id), self.owner);
            let linked = shard.find(id).map(|entry| (*id, self.position_of(entry)));
            let known = linked.is_some_and(|linked| of_relation.contains(&linked));
            assert!(known, "invariant 14: a page is found by its relation");
            assert!(self.may_have(id), "invariant 14: what is in the queue may come back");
        }
    }
}
