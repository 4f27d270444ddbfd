//! Makes a life in which something went wrong shorter and simpler, as far as the same invariant still breaks.
//!
//! Sessions are left out, then operations, in halves, quarters and so on down to single ones (Zeller and
//! Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), and features of the world one by
//! one, until nothing more can be left out or the world was run [`RUNS_MAX`] times.

use super::excerpt::Excerpt;
use super::life::Seeded;
use super::report::Violation;
use super::terms::{Feature, Terms};

/// How often the world is run again for one violation: some seconds at most.
const RUNS_MAX: u32 = 400;

struct Shrinking<K> {
    kind: K,
    runs: u32,
    terms: Terms,
    /// The shortest life so far.
    lived: Excerpt,
    violation: Violation,
}

/// A shorter way to the violation that `lived`, the life of the world of these terms, ended with.
pub(crate) fn shrink(kind: impl Seeded, terms: &Terms, violation: Violation, lived: Excerpt) -> Violation {
    let terms = terms.clone();
    let mut shrinking = Shrinking { kind, runs: 0, terms, lived, violation };
    if shrinking.attempt(&shrinking.terms.without.clone(), shrinking.lived.clone()) {
        while shrinking.sessions() | shrinking.operations() | shrinking.features() {}
    }
    shrinking.violation
}

impl<K: Seeded> Shrinking<K> {
    /// Runs the world so; if the same invariant breaks, that is the new shortest life.
    fn attempt(&mut self, without: &[Feature], only: Excerpt) -> bool {
        if self.runs == RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let terms = Terms { without: without.to_vec(), only: Some(only), ..self.terms.clone() };
        let outcome = self.kind.run(self.violation.seed, u64::MAX, &terms);
        match outcome.violation {
            Some(violation) if violation.invariant == self.violation.invariant => {
                // What took place is no longer than what was asked for; and it is what has to be asked for.
                self.lived = outcome.lived;
                self.terms = Terms { only: Some(self.lived.clone()), ..terms };
                let replay = self.terms.replay(self.kind, violation.seed, violation.cut + 1);
                self.violation = Violation { replay, ..violation };
                true
            }
            _ => false,
        }
    }

    /// Leaves out parts of a row of `len` things, if `shorter` can make do without the numbers from one to
    /// another. Returns whether any could be left out.
    fn parts(
        &mut self,
        len: impl Fn(&Self) -> usize,
        shorter: impl Fn(&Self, usize, usize) -> Excerpt,
    ) -> bool {
        let mut any = false;
        let mut size = len(self).div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < len(self) {
                let only = shorter(self, from, from + size);
                if self.attempt(&self.terms.without.clone(), only) {
                    any = true;
                } else {
                    from += size;
                }
                if self.runs == RUNS_MAX {
                    return any;
                }
            }
            size /= 2;
        }
        any
    }

    fn sessions(&mut self) -> bool {
        self.parts(
            |this| this.lived.sessions.len(),
            |this, from, to| {
                let kept = this.lived.sessions.iter().enumerate();
                let kept = kept.filter(|(number, _)| !(from..to).contains(number));
                Excerpt { sessions: kept.map(|(_, lived)| lived.clone()).collect() }
            },
        )
    }

    fn operations(&mut self) -> bool {
        self.parts(
            |this| this.lived.operations(),
            |this, from, to| this.lived.without_operations(|number| (from..to).contains(&number)),
        )
    }

    fn features(&mut self) -> bool {
        let mut any = false;
        for feature in Feature::ALL {
            let mut without = self.terms.without.clone();
            if without.contains(feature) || !self.kind.has(self.violation.seed, &self.terms, *feature) {
                continue;
            }
            without.push(*feature);
            any |= self.attempt(&without, self.lived.clone());
        }
        any
    }
}
