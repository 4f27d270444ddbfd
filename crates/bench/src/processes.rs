//! Two processes on one tier against one: lookups and stage-ins on a region in shared memory.
//!
//! The first process sets the region up and starts this same program a second time; both work for the same
//! time on their own accesses. Throughput is what both get done in it.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mezzanine_device::{SharedMemory, sleep_at_locks};
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, Design, Job, PageId, ReadError, ReadFlash, Region, StageIn, StageKind, Tier, TierConfig,
};
use mezzanine_ground::random::Random;

use crate::report::{Outcome, Row, Scale, median};
use crate::workload::zipf_page;

const PAGE: usize = 4096;
const ROUNDS: usize = 5;

/// What a process does all the time.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    Lookup,
    StageIn,
}

/// The second process; started by the first.
#[derive(Args)]
pub(crate) struct Second {
    #[arg(long)]
    region: PathBuf,
    #[arg(long)]
    load: Load,
    #[arg(long)]
    pages: u64,
    #[arg(long)]
    milliseconds: u64,
}

struct Nothing;

impl ReadFlash for Nothing {
    fn read(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.fill(0);
        Ok(())
    }
}

/// The figures of both loads, with one process and with two.
pub(crate) fn run(scale: Scale, frames: u64) -> Outcome {
    let frames = scale.pick(frames, 4096);
    let time = Duration::from_millis(scale.pick(500, 10));
    let mut rows = Vec::new();
    for (load, name) in [(Load::Lookup, "lookup"), (Load::StageIn, "stage-in of 4 KiB")] {
        let pages = if load == Load::Lookup { frames * 8 / 10 } else { frames * 3 };
        let (alone, both) = scaling(load, frames, pages, time)?;
        let size = format!("{:.1} M frames", frames as f64 / 1e6);
        rows.push(Row::new(format!("{name}, one process ({size})"), 1e3 / alone, "ns"));
        rows.push(Row::new(format!("{name}, two processes against one"), both / alone, "times"));
    }
    Ok(rows)
}

/// Operations per microsecond of one process alone, and of two together: medians.
fn scaling(load: Load, frames: u64, pages: u64, time: Duration) -> Result<(f64, f64), Box<dyn Error>> {
    let shm = Path::new("/dev/shm");
    let folder = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    let path = folder.join(format!("mezz-bench-{}", std::process::id()));
    let measured = (|| {
        let tier = shared_tier(&path, frames)?;
        if load == Load::Lookup {
            (0..pages).for_each(|block| stage_in(&tier, &PageId::volume(1, block)));
            while step(&tier) {}
        }
        let mut second = Process::start(&path, load, pages, time)?;
        let (mut alone, mut both) = (Vec::new(), Vec::new());
        let mut seed = 1;
        for _ in 0..ROUNDS {
            alone.push(work(&tier, load, pages, seed, time));
            second.go(seed + 1)?;
            let mine = work(&tier, load, pages, seed + 2, time);
            both.push(mine + second.result()?);
            seed += 3;
        }
        Ok((median(alone), median(both)))
    })();
    let _ = std::fs::remove_file(&path);
    measured
}

fn shared_tier(path: &Path, frames: u64) -> Result<Tier, Box<dyn Error>> {
    // Flash holds nothing here: pages of zeros, and no second chances.
    let config = TierConfig { design: Design::FaceGr, ..TierConfig::new(PAGE as u32, frames) };
    let geometry = config.geometry()?;
    let (memory, setup) = SharedMemory::create(path, geometry.region_bytes())?;
    let superblock = Superblock::new(&geometry, [1; 16], [2; 16]);
    sleep_at_locks();
    let recovered = Tier::recover(Blank::fresh(Region::owning(memory)), &superblock, 1, &mut Nothing)?;
    recovered.tier.publish(&recovered.superblock);
    setup.share()?;
    Ok(recovered.tier)
}

fn step(tier: &Tier) -> bool {
    let Some(mut job) = tier.next_job(tier.owner()) else { return false };
    if let Job::ReadFront(job) = &mut job {
        job.reads().into_iter().for_each(|(_, bytes)| bytes.fill(0));
    }
    tier.complete(job, Ok(()));
    true
}

fn stage_in(tier: &Tier, id: &PageId) {
    while tier.stage_in(id, &[0; PAGE], StageKind::Dirty, 0) == StageIn::Full {
        if !step(tier) {
            std::hint::spin_loop();
        }
    }
}

/// Operations per microsecond.
fn work(tier: &Tier, load: Load, pages: u64, seed: u64, time: Duration) -> f64 {
    let mut random = Random::new(seed);
    let ids: Vec<PageId> = (0..100_000).map(|_| zipf_page(&mut random, pages)).collect();
    let mut out = vec![0; PAGE];
    let (start, mut operations) = (Instant::now(), 0u64);
    loop {
        for ids in ids.chunks(100) {
            for id in ids {
                match load {
                    Load::Lookup => _ = black_box(tier.lookup(id, &mut out)),
                    Load::StageIn => stage_in(tier, id),
                }
            }
            operations += ids.len() as u64;
            let elapsed = start.elapsed();
            if elapsed >= time {
                return operations as f64 / elapsed.as_secs_f64() / 1e6;
            }
        }
    }
}

/// The second process, waiting for the word to go.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(region: &Path, load: Load, pages: u64, time: Duration) -> Result<Self, Box<dyn Error>> {
        let load = load.to_possible_value().ok_or("a load has a name")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["second-process", "--load", load.get_name(), "--pages", &pages.to_string()])
            .args(["--milliseconds", &time.as_millis().to_string(), "--region"])
            .arg(region)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut process = Self { child, input, output };
        process.line()?;
        Ok(process)
    }

    fn go(&mut self, seed: u64) -> Result<(), Box<dyn Error>> {
        Ok(writeln!(self.input, "{seed}")?)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn result(&mut self) -> Result<f64, Box<dyn Error>> {
        Ok(self.line()?.parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The second process's whole life: a seed in, a figure out, until its input ends.
pub(crate) fn second(second: &Second) -> Outcome {
    sleep_at_locks();
    let tier = Tier::attach(Region::owning(SharedMemory::join(&second.region)?), 2)?;
    let time = Duration::from_millis(second.milliseconds);
    println!("ready");
    for line in std::io::stdin().lines() {
        let seed = line?.trim().parse()?;
        println!("{}", work(&tier, second.load, second.pages, seed, time));
    }
    Ok(Vec::new())
}
