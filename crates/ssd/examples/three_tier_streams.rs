//! Which streams bring BL, LPD and NFA near what is published of them ("Towards an Efficient Flash-Based
//! Mid-Tier Cache", sections 4.1 and 4.2), at the published size:
//!
//! ```sh
//! cargo run --release -p mezzanine-ssd --example three_tier_streams -- A B
//! ```
//!
//! runs the streams of these names, or all without one.
//!
//! A stream has hot pages and others, each drawn evenly. `docs/decisions/0029-three-tier-caches.md` says what
//! follows.

use mezzanine_ground::random::Random;
use mezzanine_ssd::ConfigError;
use mezzanine_ssd::three_tier::{Approach, Comparison, Costs, FlashConfig, Outcome, TopTier};

/// Shares are of this many.
const UNIT: u64 = 10_000;
/// Blocks that NFA collects before a stream ends, as published.
const COLLECTIONS: u64 = 22_106;
/// Pages dropped with each replacement, the first and the last as published.
const DROPS: [u32; 6] = [0, 1024, 4096, 16_384, 32_768, 65_536];

/// References to pages of two kinds.
struct Stream {
    name: &'static str,
    hot_pages: u64,
    /// Of [`UNIT`] references, those to hot pages.
    hot_share: u64,
    /// Of [`UNIT`] references to hot pages, those that change their page.
    hot_written: u64,
    other_pages: u64,
    /// Of [`UNIT`] references to the others, those that change their page.
    other_written: u64,
}

const STREAMS: [Stream; 5] = [
    Stream {
        name: "A: 0.81 to 37,000 hot pages, 0.0005 written; others 1,000,000, 0.7 written",
        hot_pages: 37_000,
        hot_share: 8_100,
        hot_written: 5,
        other_pages: 1_000_000,
        other_written: 7_000,
    },
    Stream {
        name: "B: 0.85 to 40,000 hot pages, none written; others 400,000, 0.1 written",
        hot_pages: 40_000,
        hot_share: 8_500,
        hot_written: 0,
        other_pages: 400_000,
        other_written: 1_000,
    },
    Stream {
        name: "C: 0.84 to 36,000 hot pages, none written; others 2,000,000, 0.6 written",
        hot_pages: 36_000,
        hot_share: 8_400,
        hot_written: 0,
        other_pages: 2_000_000,
        other_written: 6_000,
    },
    Stream {
        name: "D: as A, but hot pages 0.1 written and others 0.1",
        hot_pages: 37_000,
        hot_share: 8_100,
        hot_written: 1_000,
        other_pages: 1_000_000,
        other_written: 1_000,
    },
    Stream {
        name: "E: 76,000 pages, all alike, 0.1 written",
        hot_pages: 0,
        hot_share: 0,
        hot_written: 0,
        other_pages: 76_000,
        other_written: 1_000,
    },
];

impl Stream {
    fn is_called(&self, name: &str) -> bool {
        self.name.split(':').next() == Some(name)
    }

    fn outcomes(&self) -> Result<Vec<Outcome>, ConfigError> {
        let lpd = DROPS.into_iter().map(|d| Approach::Lpd { d });
        let approaches: Vec<_> = lpd.chain([Approach::Nfa]).collect();
        let mut comparison = Comparison::new(&approaches, FlashConfig::default(), TopTier::PUBLISHED_FRAMES)?;
        let mut random = Random::new(1);
        while comparison.collections(Approach::Nfa) < Some(COLLECTIONS) {
            let (page, written) = if random.chance(self.hot_share, UNIT) {
                (random.below(self.hot_pages), self.hot_written)
            } else {
                (self.hot_pages + random.below(self.other_pages), self.other_written)
            };
            comparison.refer(page as u32, random.chance(written, UNIT));
        }
        Ok(comparison.outcomes())
    }
}

/// Of the blocks that were collected those of which so many pages were moved, in per cent.
fn moved(of: &Outcome, pages: std::ops::Range<usize>) -> f64 {
    100.0 * of.collected.by_moved[pages].iter().sum::<u64>() as f64 / of.counts.collections as f64
}

fn per_second(of: &Outcome) -> f64 {
    Costs::PUBLISHED.times(&of.counts).per_second(of.counts.requests())
}

fn freed(of: &Outcome) -> f64 {
    128.0 - of.counts.collection.programs as f64 / of.counts.collections as f64
}

fn main() -> Result<(), ConfigError> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = names.iter().find(|name| STREAMS.iter().all(|stream| !stream.is_called(name))) {
        eprintln!("no stream is called '{name}'; there are A, B, C, D and E");
        std::process::exit(2);
    }
    println!(
        "published: hits of NFA 74.4 %, of BL + 5.84; collections over NFA's: BL 5.0, LPD of d = 65,536 1.21"
    );
    println!(
        "with 0.631 of its hits; speed of NFA over BL 1.66, over LPD of d = 1,024 1.43; the majority of"
    );
    println!("NFA's blocks has fewer than 96 pages to move, few have more; no d is better in both\n");
    let asked = |stream: &&Stream| names.is_empty() || names.iter().any(|name| stream.is_called(name));
    for stream in STREAMS.iter().filter(asked) {
        let outcomes = stream.outcomes()?;
        let (nfa, lpd) = outcomes.split_last().expect("NFA is the last approach");
        let hits = |of: &Outcome| of.counts.hit_ratio() / nfa.counts.hit_ratio();
        let collections = |of: &Outcome| of.counts.collections as f64 / nfa.counts.collections as f64;
        let (bl, all) = (&lpd[0], &lpd[DROPS.len() - 1]);
        println!("{}", stream.name);
        println!(
            "  hits of NFA {:.1} %, of BL {:+.2}; collections over NFA's: BL {:.2}, LPD of d = 65,536 {:.2} \
             with {:.3} of its hits",
            100.0 * nfa.counts.hit_ratio(),
            100.0 * (hits(bl) - 1.0),
            collections(bl),
            collections(all),
            hits(all)
        );
        println!(
            "  speed of NFA over BL {:.2}, over LPD of d = 1,024 {:.2}; of NFA's blocks {:.1} % have fewer \
             than 96 pages to move ({:.1} % from 64), {:.1} % more; a block frees {:.1} pages (BL), {:.1} \
             (d = 65,536), {:.1} (NFA)",
            per_second(nfa) / per_second(bl),
            per_second(nfa) / per_second(&lpd[1]),
            moved(nfa, 0..96),
            moved(nfa, 64..96),
            moved(nfa, 96..128),
            freed(bl),
            freed(all),
            freed(nfa)
        );
        let by_d =
            lpd.iter().zip(DROPS).map(|(of, d)| format!("{d}: {:.2}, {:.3}", collections(of), hits(of)));
        println!("  by d, collections and hits over NFA's: {}", by_d.collect::<Vec<_>>().join("; "));
        let better = lpd.iter().filter(|of| collections(of) < 1.0 && hits(of) > 1.0).count();
        println!("  values of d with fewer collections and more hits than NFA: {better}\n");
    }
    Ok(())
}
