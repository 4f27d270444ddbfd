//! What holds for every model whatever it is asked: an outcome belongs to the arrivals, not to who asks when.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, OperationKind, Progress, Ticket, Timing};
use mezzanine_ground::random::Random;

/// Arrivals at random moments: kind, address, length.
fn arrivals(timing: &dyn Timing, seed: u64, count: usize) -> Vec<(u64, model::Operation)> {
    let (mut numbers, mut now) = (Random::new(seed), 1_000);
    (0..count)
        .map(|_| {
            now += 1 + numbers.below(3_000_001);
            let kind = match numbers.below(8) {
                0 => return (now, model::Operation::FLUSH),
                1..=4 => OperationKind::Read,
                _ => OperationKind::Write,
            };
            let len = 512 << numbers.below(10);
            (now, timing.operation(kind, numbers.next_u64(), len))
        })
        .collect()
}

/// Completions when callers look whenever something may have changed, as far as `patience` lets them, and at
/// the end.
fn completions(timing: &dyn Timing, arrivals: &[(u64, model::Operation)], patience: u64) -> Vec<u64> {
    let mut state = timing.idle();
    let mut open: Vec<(usize, u64, Ticket)> = Vec::new();
    let mut done = vec![0; arrivals.len()];
    let mut look = |state: &mut [u64], open: &mut Vec<(usize, u64, Ticket)>, until: u64| {
        loop {
            let Some(at) = open.iter().map(|(_, again, _)| *again).min().filter(|at| *at < until) else {
                return;
            };
            open.retain_mut(|(index, again, ticket)| {
                if *again > at {
                    return true;
                }
                match timing.progress(state, at, ticket) {
                    Progress::At(completion) => {
                        done[*index] = completion;
                        false
                    }
                    Progress::NotBefore(later) => {
                        assert!(later > at, "asking again must be later");
                        *again = later + patience;
                        true
                    }
                }
            });
        }
    };
    for (index, (now, operation)) in arrivals.iter().enumerate() {
        look(&mut state, &mut open, *now);
        let submitted = timing.submit(&mut state, *now, *operation).unwrap();
        open.push((index, now + 1 + patience, submitted.ticket));
    }
    look(&mut state, &mut open, u64::MAX);
    done
}

#[test]
fn an_outcome_does_not_depend_on_who_asks_when() {
    for model in model::catalogue() {
        // Flash drives from the inside are timed by their own crate.
        let Ok(timing) = model.timing() else { continue };
        for seed in 0..20 {
            let arrivals = arrivals(&*timing, seed, 60);
            let eager = completions(&*timing, &arrivals, 0);
            for ((now, _), completion) in arrivals.iter().zip(&eager) {
                assert!(completion >= now, "{}: complete before it arrived", model.name);
            }
            for patience in [1_234_567, 1_000_000_000_000] {
                let patient = completions(&*timing, &arrivals, patience);
                for (index, (_, operation)) in arrivals.iter().enumerate() {
                    // With a write cache a flush that is asked for late may be told the time of one that came
                    // after it.
                    let vague = operation.kind == OperationKind::Flush && model.name == "cheetah-15k-cached";
                    let same = eager[index] == patient[index] || vague && eager[index] <= patient[index];
                    assert!(same, "{} seed {seed} patience {patience} operation {index}", model.name);
                }
            }
        }
    }
}

#[test]
fn requests_at_the_edges_of_arithmetic_are_timed_and_not_panicked_at() {
    for model in model::catalogue() {
        // Flash drives from the inside are timed by their own crate.
        let Ok(timing) = model.timing() else { continue };
        let mut state = timing.idle();
        for address in [0, 1, model.capacity_bytes - 1, model.capacity_bytes, u64::MAX] {
            for len in [0, 1, 1 << 30] {
                for kind in [OperationKind::Read, OperationKind::Write] {
                    let operation = timing.operation(kind, address, len);
                    assert!(operation.address < model.capacity_bytes);
                    let mut ticket = timing.submit(&mut state, 5, operation).unwrap().ticket;
                    let mut now = 5;
                    while let Progress::NotBefore(later) = timing.progress(&mut state, now, &mut ticket) {
                        now = later;
                    }
                }
            }
        }
    }
}
