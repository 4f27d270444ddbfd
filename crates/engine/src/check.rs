//! The whole-structure checker.

use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

use crate::control::Control;
use crate::core::Tier;
use crate::directory::{DIRTY, REFERENCED, VALID, is_lost};
use crate::groups::ends::Passed;
use crate::ids::{EntryNumber, IdRange, PageId, Position};
use crate::stage_out::bad_list::BadFrames;

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

    /// All that the tier keeps, in lines that are the same for tiers which go on in the same way. For tests: a
    /// pass over its memory, while nothing else uses it.
    ///
    /// Of the directory, and of what a recovery may bring in another order, it is what they say of each
    /// position, and not where in memory they say so. The rest are the words that are not zero, whatever they
    /// mean, so that nothing is left out which a later build keeps.
    pub fn described(&self) -> Vec<String> {
        let (control, directory) = (self.control(), self.directory());
        let mut summary_end = Position::ZERO;
        let mut lines: Vec<String> = Position::each(control.passed.durable_front()..control.ends.rear())
            .filter_map(|position| {
                let (at, entry) = (position.number(), self.entry_of(position));
                let (state, id) = (directory.state(entry), directory.id(entry));
                if let Some(head) = directory.head(entry) {
                    summary_end = position + self.geometry.summary_frames();
                    return Some(format!("{at}: {head:?}"));
                }
                if position < summary_end {
                    return None;
                }
                let one = IdRange { start: id, count: 1, shift: 0 };
                let found = self.any_appended_of(&one, |_, at| at == position);
                let has = |flags: u32, word: &'static str| if state & flags == 0 { "" } else { word };
                let page = match state & VALID {
                    0 if self.is_bad(entry.frame_in_queue()) => return Some(format!("{at}: bad")),
                    0 => "gone".to_owned(),
                    _ => format!(
                        "checksum {:08x}{}{}{}",
                        directory.checksum(entry),
                        has(DIRTY, ", dirty"),
                        has(REFERENCED, ", referenced"),
                        if is_lost(state) { ", lost" } else { "" }
                    ),
                };
                let known = format!("may return {}, found {found}", self.may_have(&id));
                Some(format!("{at}: {id:?}: {page}; {known}"))
            })
            .collect();
        let frames = 0..u32::try_from(self.geometry.entries()).unwrap_or(u32::MAX);
        let bad = frames.filter(|frame| control.bad.has(*frame));
        lines.extend(bad.map(|frame| format!("frame {frame} is bad")));
        lines.push(format!("pages that are gone may return before {}", self.returning().number()));
        lines.extend(self.other_words());
        lines
    }

    /// The words of the tier's memory that [`Self::described`] shows as they are.
    fn other_words(&self) -> Vec<String> {
        let layout = &self.geometry.layout;
        // The counters count from the beginning of a life, offers of one included; then comes the directory.
        let in_directory = layout.thread_counters..layout.clean.begin();
        let end = layout.control + offset_of!(Control, passed) + Passed::INVALIDATED_END;
        let bad = layout.control + offset_of!(Control, bad);
        let bad = bad..bad + size_of::<BadFrames>();
        // Pages that are lost are counted by their records at a recovery, of which one may have several.
        let lost = layout.control + offset_of!(Control, lost);
        let shown = |at: &usize| !in_directory.contains(at) && !bad.contains(at) && *at != end && *at != lost;
        let mut bytes = vec![0; self.region.bytes()];
        self.region.copy_out(0, &mut bytes);
        let words =
            bytes.chunks_exact(8).filter_map(<[u8]>::first_chunk).map(|word| u64::from_le_bytes(*word));
        let words = (0..).step_by(8).zip(words).filter(|(at, word)| *word != 0 && shown(at));
        words.map(|(at, word)| format!("word {at:#x}: {word:#x}")).collect()
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
