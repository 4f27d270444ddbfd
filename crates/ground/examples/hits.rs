//! A cache of page numbers alone: how often each replacement policy finds what is asked for.

use std::collections::HashMap;

use mezzanine_ground::random::Random;
use mezzanine_ground::replacement::{PageKey, Policy, Replacement, Visitor};

const FRAMES: u32 = 1000;
const PAGES: u64 = 10_000;
const REQUESTS: u64 = 200_000;

/// Requests that are skewed: of two random pages the lower one.
fn requests() -> impl Iterator<Item = u64> {
    let mut random = Random::new(1);
    let mut page = move || random.below(PAGES);
    (0..REQUESTS).map(move |_| page().min(page()).min(page()))
}

struct Run;

impl Visitor for Run {
    type Output = u64;

    fn visit<P: Replacement>(self, policy: &P) -> u64 {
        let (mut frames, mut pages) = (HashMap::new(), vec![0; FRAMES as usize]);
        let mut hits = 0;
        for page in requests() {
            if let Some(&frame) = frames.get(&page) {
                policy.referenced(frame);
                hits += 1;
                continue;
            }
            policy.missed(PageKey(page));
            let frame = match frames.len() as u32 {
                free if free < FRAMES => free,
                _ if !policy.admits(PageKey(page)) => continue,
                _ => policy.victim().expect("all frames are in the order"),
            };
            frames.remove(&pages[frame as usize]);
            (pages[frame as usize], _) = (page, frames.insert(page, frame));
            policy.inserted(frame, PageKey(page));
        }
        hits
    }
}

fn main() {
    for policy in Policy::ALL {
        let config = policy.configured(FRAMES.into(), &[]).expect("a policy can order so many frames");
        let region = config.region();
        let hits = config.open(&region, 0).visit(Run);
        println!("{policy:12} {:5.1} %", 100.0 * hits as f64 / REQUESTS as f64);
    }
}
