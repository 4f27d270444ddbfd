//! `mezz sim three-tier`: BL, LPD and NFA between a buffer pool and a disk, on flash with erase blocks.

mod outcome;
mod page;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mezzanine_ground::random::Random;
use mezzanine_sim::three_tier::{BufferTrace, HotPages, PAGE_BYTES, PUBLISHED_COLLECTIONS, Race};
use mezzanine_ssd::ConfigError;
use mezzanine_ssd::three_tier::{Approach, Comparison, FlashConfig, PAGES_MAX, TopTier};
use mezzanine_trace::{Format, Generate, Op, Request, Shape, open};

use crate::failure::Failure;
use crate::output;
use crate::size::Size;
use crate::trace::{REQUESTS_A_LOOK, page_bytes, page_size, refused};

use outcome::Outcome;

pub(super) const EXAMPLES: &str = "Examples:
  mezz sim three-tier                                            BL, LPD and NFA under the shape of TPC-C, until NFA has collected 22,106 blocks
  mezz sim three-tier --approach lpd,nfa --drops 0,1024,65536    LPD with several d
  mezz sim three-tier --shape tpch --collections 5000 --json
  mezz sim three-tier --trace buffer.mezztrace --format mezzanine --blocks 256 --block-pages 64 --top-frames 2000
  mezz sim three-tier --also-written 0.3 --report three-tier.html    three in ten reads change their page as well
  mezz sim three-tier --shape uniform --pages 1000000 --also-written 0.7 --hot-pages 37000 --hot-share 0.81 --hot-written 0.0005    what comes back is hardly ever written

A database refers to pages through a buffer pool in memory; what that lacks, and the dirty pages that leave it, a cache on flash is asked \
for, over one disk. `bl` is a cache over a translation layer, `lpd` tells the translation layer which cold pages it has dropped, `nfa` \
manages the flash itself. Times are sums of what operations cost (a flash page read 0.035 ms, programmed 0.35 ms, a block erased 1.5 ms, \
a disk access 5.5 ms): only ratios mean something. Reads and writes of a trace are references; its evictions, commits and checkpoints are not.

`mezz experiment run nfa.fig5` and the others put what comes out beside what was published; docs/experiments.md has the test bed.";

/// Pages of a database whose shape has no published size.
const PAGES: u32 = 451_166;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Bl,
    Lpd,
    Nfa,
}

#[derive(Debug, Args)]
pub(crate) struct ThreeTierArgs {
    /// A trace of the pages that a database refers to.
    #[arg(long, value_name = "FILE", requires = "format", conflicts_with_all = ["shape", "pages", "warehouses", "seed"])]
    trace: Option<PathBuf>,

    /// Format of the trace: plain, lis, oracle-general, vscsi or mezzanine.
    #[arg(long, value_name = "NAME", requires = "trace")]
    format: Option<Format>,

    /// References without a trace: tpcc, tpce, tpch, zipf or uniform (default: tpcc).
    #[arg(long)]
    shape: Option<Shape>,

    /// Size of the shape's database in pages (default: that of the paper's trace; zipf and uniform: 451,166).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pages: Option<u32>,

    /// Warehouses of tpcc (default: as many as fit).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    warehouses: Option<u32>,

    /// Seed of the shape (default: 1).
    #[arg(long)]
    seed: Option<u64>,

    /// Size of a page: how many rows fit one, and how large requests of a trace are divided.
    #[arg(long, value_name = "SIZE", default_value_t = Size(PAGE_BYTES.into()), value_parser = page_size)]
    page_size: Size,

    /// Share of the reads that change their page as well, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    also_written: f64,

    /// Hot pages beside those of the shape, all referred to equally often.
    #[arg(long, value_name = "N", requires = "hot_share", conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    hot_pages: Option<u32>,

    /// Share of all references that are to hot pages, from 0 to less than 1.
    #[arg(long, value_name = "SHARE", requires = "hot_pages", value_parser = share_below_1)]
    hot_share: Option<f64>,

    /// Share of the references to hot pages that change their page, from 0 to 1 (default: 0; --also-written
    /// is of the shape alone).
    #[arg(long, value_name = "SHARE", requires = "hot_pages", value_parser = share)]
    hot_written: Option<f64>,

    /// End after so many references (default: at the end of a trace; with a shape, if nfa runs, when it has
    /// collected enough).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    references: Option<u64>,

    /// End when nfa has collected so many blocks (default: 22,106 with a shape, as often as published).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    collections: Option<u64>,

    /// What runs, with commas in between: bl, lpd, nfa.
    #[arg(long, value_delimiter = ',', default_value = "bl,lpd,nfa")]
    approach: Vec<Kind>,

    /// Pages that lpd drops with each replacement (d), with commas in between; 0 is bl.
    #[arg(long, value_name = "PAGES", value_delimiter = ',', default_value = "1024")]
    drops: Vec<u32>,

    /// Frames of the buffer pool.
    #[arg(long, value_name = "PAGES", default_value_t = TopTier::PUBLISHED_FRAMES)]
    top_frames: u32,

    /// Erase blocks of the flash.
    #[arg(long, value_name = "N", default_value_t = 512)]
    blocks: u32,

    /// Pages of an erase block.
    #[arg(long, value_name = "PAGES", default_value_t = 128)]
    block_pages: u32,

    /// Collection starts at so many free blocks (default: 5 % of them, rounded down).
    #[arg(long, value_name = "BLOCKS")]
    low_watermark: Option<u32>,

    /// Collection stops at so many free blocks, which are the reserve (default: 10 %, rounded down).
    #[arg(long, value_name = "BLOCKS")]
    high_watermark: Option<u32>,

    /// Write a page with plots as well.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}

fn share_below_1(text: &str) -> Result<f64, String> {
    match share(text) {
        Ok(value) if value < 1.0 => Ok(value),
        _ => Err("not a number from 0 to less than 1".to_owned()),
    }
}

/// The error of a parameter, by the option that it came from.
fn wrong(error: &ConfigError) -> Failure {
    let option = match error.key() {
        "blocks" | "blocks_per_plane" => "--blocks",
        "pages_per_block" => "--block-pages",
        "low_watermark" => "--low-watermark",
        "high_watermark" => "--high-watermark",
        _ => "--top-frames",
    };
    Failure::usage(option, error).next(format!("give {option} another value"))
}

impl ThreeTierArgs {
    fn flash(&self) -> FlashConfig {
        let usual = FlashConfig::with_blocks(self.blocks, self.block_pages);
        FlashConfig {
            low_watermark: self.low_watermark.unwrap_or(usual.low_watermark),
            high_watermark: self.high_watermark.unwrap_or(usual.high_watermark),
            ..usual
        }
    }

    /// Each once, in the order bl, lpd by d, nfa.
    fn approaches(&self) -> Vec<Approach> {
        let has = |kind| self.approach.contains(&kind);
        let mut drops = self.drops.clone();
        drops.sort_unstable();
        drops.dedup();
        let lpd = drops.into_iter().filter(|_| has(Kind::Lpd)).map(|d| Approach::Lpd { d });
        let bl = has(Kind::Bl).then_some(Approach::Bl);
        bl.into_iter().chain(lpd).chain(has(Kind::Nfa).then_some(Approach::Nfa)).collect()
    }

    /// How many blocks NFA is to collect, if that is what ends the run.
    fn collections(&self) -> Result<Option<u64>, Failure> {
        let has_nfa = self.approach.contains(&Kind::Nfa);
        if self.collections.is_some() && !has_nfa {
            let reason = "it counts blocks that nfa collects, which does not run";
            return Err(
                Failure::usage("--collections", reason).next("add nfa to --approach, or leave it out")
            );
        }
        if self.trace.is_some() || self.references.is_some() {
            return Ok(self.collections);
        }
        if !has_nfa {
            let reason = "required: a shape has no end, and without nfa there are no collections to count";
            return Err(
                Failure::usage("--references", reason).next("give --references N, or add nfa to --approach")
            );
        }
        Ok(Some(self.collections.unwrap_or(PUBLISHED_COLLECTIONS)))
    }

    fn generate(&self) -> Generate {
        let shape = self.shape.unwrap_or(Shape::Tpcc);
        let published = BufferTrace::ALL.into_iter().find(|trace| trace.shape() == shape);
        let pages = self.pages.unwrap_or_else(|| published.map_or(PAGES, BufferTrace::database_pages));
        Generate {
            page_bytes: page_bytes(self.page_size),
            warehouses: self.warehouses,
            ..Generate::new(shape, pages, u64::MAX, self.seed.unwrap_or(1))
        }
    }

    /// Refuses options that the shape has no use for.
    fn check_shape(&self) -> Result<(), Failure> {
        let shape = self.shape.unwrap_or(Shape::Tpcc);
        if self.warehouses.is_some() && shape != Shape::Tpcc {
            let reason = "only tpcc has warehouses";
            return Err(Failure::usage(format!("--warehouses with --shape {shape}"), reason)
                .next("leave --warehouses out"));
        }
        Ok(())
    }

    /// Has the references made.
    fn refer(&self, race: &mut Race) -> Result<(), Failure> {
        let until = self.collections()?;
        let bar = match until {
            Some(collections) => output::progress(collections, "blocks that nfa collects"),
            None => output::spinner("referring to pages"),
        };
        let seed = self.seed.unwrap_or(1);
        let (mut random, mut hot_random) = (Random::new(seed), Random::new(!seed));
        let also_written = (self.also_written * f64::from(1 << 30)) as u64;
        let mut left = self.references.unwrap_or(u64::MAX);
        let mut refer = |page: u64, changes: bool| -> Result<bool, Failure> {
            if race.distinct_pages() >= u64::from(PAGES_MAX) {
                return Err(Failure::refused(
                    "pages",
                    format!("there are more than {PAGES_MAX} distinct ones"),
                )
                .next("use larger pages, or fewer --references"));
            }
            race.refer(page, changes);
            left -= 1;
            if left % REQUESTS_A_LOOK == 0 && until.is_some() {
                bar.set_position(race.collections());
            }
            Ok(left > 0 && until.is_none_or(|collections| race.collections() < collections))
        };
        let hot = self.hot();
        let mut refer = |request: &Request| -> Result<bool, Failure> {
            if !matches!(request.op, Op::Read | Op::Write) {
                return Ok(true);
            }
            while let Some((page, changes)) = hot.and_then(|hot| hot.draw(&mut hot_random)) {
                if !refer(page, changes)? {
                    return Ok(false);
                }
            }
            let changes = request.op == Op::Write || random.chance(also_written, 1 << 30);
            refer(request.page, changes)
        };
        if let (Some(path), Some(format)) = (&self.trace, self.format) {
            for request in open(path, format, page_bytes(self.page_size)).map_err(refused)? {
                if !refer(&request.map_err(refused)?)? {
                    break;
                }
            }
        } else {
            self.check_shape()?;
            let generate = self.generate();
            let generator = generate.generate();
            let generator =
                generator.map_err(|reason| Failure::usage(format!("--shape {}", generate.shape), reason))?;
            for request in generator {
                if !refer(&request)? {
                    break;
                }
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn hot(&self) -> Option<HotPages> {
        let (pages, share) = (self.hot_pages?, self.hot_share?);
        Some(HotPages { pages, share, written: self.hot_written.unwrap_or(0.0) })
    }

    /// What the references come from.
    fn source(&self) -> String {
        match &self.trace {
            Some(path) => path.display().to_string(),
            None => {
                let generate = self.generate();
                let hot = self.hot().map_or_else(String::new, |HotPages { pages, share, written }| {
                    format!(", {share} of the references to {pages} hot pages, {written} of them writes")
                });
                format!("shape {}, {} pages, seed {}{hot}", generate.shape, generate.pages, generate.seed)
            }
        }
    }
}

pub(super) fn run(args: &ThreeTierArgs, json: bool) -> Result<(), Failure> {
    if let Some(path) = &args.report {
        page::check_place(path)?;
    }
    let flash = args.flash();
    let comparison = Comparison::new(&args.approaches(), flash, args.top_frames);
    let mut race = Race::new(comparison.map_err(|error| wrong(&error))?);
    args.refer(&mut race)?;
    let outcome = Outcome::new(args.source(), args.top_frames, args.also_written, flash, &race.finish());
    if let Some(path) = &args.report {
        page::write(path, &outcome)?;
    }
    if json { output::json(&outcome) } else { output::print(&outcome.text()) }
}
