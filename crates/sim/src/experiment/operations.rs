//! What operations cost the three-tier caches ("Towards an Efficient Flash-Based Mid-Tier Cache", sections
//! 1.1, 1.2 and 4.1): taken as printed, and looked for again in the time of single requests.

use mezzanine_ground::random::Random;
use mezzanine_ssd::three_tier::{Approach, Comparison, Costs, Counts, Driver, FlashConfig, Outcome, Request};

use super::answers::Answers;
use super::published::Source;
use super::three_tier::THREE;
use super::verdict::{Ours, Part};

/// Blocks of the flash that single requests are made to, and pages of a block.
const FLASH: (u32, u32) = (64, 16);
/// Frames above the caches whose collection is added up, pages of the database, and references to it.
const POOL: (u32, u32, u32) = (100, 4_000, 200_000);

/// A cache, and the time that it has taken.
struct Timed(Driver);

impl Timed {
    fn new(approach: Approach) -> Self {
        let flash = FlashConfig::with_blocks(FLASH.0, FLASH.1);
        Self(Driver::new(approach.tier(flash).expect("the flash can be")))
    }

    /// What a request takes, in ms, and what was counted before and after it.
    fn request(&mut self, request: Request) -> (f64, [Counts; 2]) {
        let before = self.0.tier().counts();
        self.0.make(request);
        let after = self.0.tier().counts();
        let ms = |counts: &Counts| Costs::PUBLISHED.times(counts).all_ms();
        (ms(&after) - ms(&before), [before, after])
    }
}

/// What a read, a program, an erase and a disk access cost, in ms, as far as requests show.
fn costs_of(approach: Approach) -> [f64; 4] {
    let mut cache = Timed::new(approach);
    // With free slots and free blocks there is nothing to evict and nothing to collect.
    let program = cache.request(Request::write(0)).0;
    let read = cache.request(Request::read(0)).0;
    let disk = cache.request(Request::read(1)).0 - program;
    // One page that is written over and over makes blocks of which nothing is valid.
    let erase = loop {
        let (ms, [before, after]) = cache.request(Request::write(0));
        let collections = after.collections - before.collections;
        if collections > 0 && after.collection.programs == before.collection.programs {
            break (ms - program) / collections as f64;
        }
    };
    [read, program, erase, disk]
}

/// A run with collections, of each approach.
fn collected() -> Vec<Outcome> {
    let (frames, pages, references) = POOL;
    let flash = FlashConfig::with_blocks(FLASH.0, FLASH.1);
    let approaches = [Approach::Bl, Approach::Lpd { d: 16 }, Approach::Nfa];
    let mut comparison = Comparison::new(&approaches, flash, frames).expect("the flash and the pool can be");
    let mut random = Random::new(1);
    for _ in 0..references {
        let within = if random.below(10) < 9 { pages / 10 } else { pages };
        comparison.refer(random.below(within.into()) as u32, random.below(3) == 0);
    }
    comparison.outcomes()
}

/// The time of collection in ms, and what section 1.2 reckons for the blocks that were collected.
fn reckoned(outcome: &Outcome) -> [f64; 2] {
    let costs = Costs::PUBLISHED;
    let block = |moved: f64| (costs.read_ms + costs.program_ms) * moved + costs.erase_ms;
    let by_moved = outcome.collected.by_moved.iter().enumerate();
    let formula = by_moved.map(|(moved, blocks)| *blocks as f64 * block(moved as f64)).sum();
    [costs.times(&outcome.counts).collection_ms, formula]
}

/// Of the time of collection: what a sum of so many figures may be off.
const ROUNDING: f64 = 1e-9;

pub(super) fn table_2(_: &Source, answers: &mut Answers) {
    let of = THREE.map(costs_of);
    for (cost, key) in ["read", "program", "erase", "disk"].into_iter().enumerate() {
        answers.set(key, Ours::Row(of.iter().map(|costs| costs[cost]).collect()));
    }
    let [read, program, erase, _] = of[0];
    answers.set("program-over-read", Ours::Value(program / read));
    answers.set("erase-over-program", Ours::Value(erase / program));
    let part = |outcome: &Outcome| {
        let [ours, formula] = reckoned(outcome);
        Part {
            said: format!("{}: {ours:.1} ms, {formula:.1} ms by the formula", outcome.approach),
            holds: (ours / formula - 1.0).abs() < ROUNDING,
        }
    };
    answers.set("collection", Ours::Shape(collected().iter().map(part).collect()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_what_its_operations_cost() {
        for approach in THREE {
            for (cost, printed) in costs_of(approach).into_iter().zip([0.035, 0.350, 1.5, 5.5]) {
                assert!((cost - printed).abs() < 1e-9, "{approach}: {cost} ms and not {printed}");
            }
        }
    }

    #[test]
    fn collection_costs_what_the_formula_says_and_nfa_reads_what_it_writes_back() {
        let outcomes = collected();
        for outcome in &outcomes[..2] {
            let [ours, formula] = reckoned(outcome);
            assert!(outcome.counts.collections > 1_000, "{}: nothing was collected", outcome.approach);
            assert!((ours / formula - 1.0).abs() < ROUNDING, "{}: {ours} {formula}", outcome.approach);
        }
        let nfa = &outcomes[2];
        let [ours, formula] = reckoned(nfa);
        let written_back = nfa.counts.write_backs as f64 * Costs::PUBLISHED.read_ms;
        assert!(written_back > 0.0 && (ours - formula - written_back).abs() < 1e-3, "{ours} {formula}");
    }
}
