//! A cache of page numbers alone: how often each replacement policy finds what is asked for.

use std::collections::HashMap;

use mezzanine_ground::replacement::{PageKey, Policy, Replacement, Visitor};

const FRAMES: u32 = 1000;
const PAGES: u64 = 10_000;
const REQUESTS: u64 = 200_000;

/// Requests that are skewed: of two random pages the lower one.
fn requests() -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % PAGES
    };
    (0..REQUESTS).map(move |_| random().min(random()).min(random()))
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
