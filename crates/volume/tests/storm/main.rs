//! A storm of real threads over three files: writers and readers, and an operator who truncates, discards,
//! drains, switches the sync mode, stops and resumes admission, resizes the tier, breaks its flash device and
//! replaces it meanwhile; then a power cut, in the middle of all that or after it, or a closing, and the same
//! again with what is left.
//!
//! Invariants checked:
//! 1. A read finds, sector by sector, what was there at some moment between its call and its return
//!    (`model`), and never what is older than what another read has found before. No page is a mixture of two
//!    writes.
//! 2. After a crash each sector is what the last acknowledged sync had made durable, or newer.
//! 3. Nobody is told of an error that nobody has caused, and everybody comes to an end.
//!
//! What the threads do follows from a seed, when they do it does not: a failure names the seed of its world,
//! which then has to be tried again and again: `MEZZANINE_STORM_SEED=n`. `MEZZANINE_STORM_SECONDS=3600` goes
//! on for an hour.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod scene;
mod threads;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mezzanine_ground::random::Random;

use model::Model;
use scene::Scene;
use threads::{Life, Outcome};

const LIVES: u64 = 3;

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The power fails while everybody is at work.
    CutInTheMiddle,
    /// It fails when all is quiet.
    Cut,
    Closed,
    ClosedDrained,
}

fn live(scene: &mut Scene, model: &Model, random: &mut Random, steps: u64, context: &str) {
    let (volume, files) = scene.open(context);
    for (number, file) in files.iter().enumerate() {
        model.recover(number, file, context);
    }
    let end = [End::CutInTheMiddle, End::CutInTheMiddle, End::Cut, End::Closed, End::ClosedDrained]
        [random.below(5) as usize];
    let context = &format!("{context}, to be {end:?}");
    let stop = AtomicBool::new(false);
    let outcome = Outcome { flashes: scene.flashes.clone(), ..Outcome::default() };
    if end == End::CutInTheMiddle {
        scene.power.crash_after(1 + random.below(40 * steps));
    }
    let life = Life {
        scene,
        model,
        volume: &volume,
        files: &files,
        context,
        stop: &stop,
        outcome: Mutex::new(outcome),
    };
    let mut seed = || random.below(u64::MAX);
    std::thread::scope(|scope| {
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        let life = &life;
        let changers: Vec<_> = (0..3)
            .map(|at| {
                let seed = seed();
                scope.spawn(
                    move || if at == 0 { life.operate(seed, steps / 4) } else { life.write(seed, steps) },
                )
            })
            .collect();
        for reader in 0..2 {
            let seed = seed();
            scope.spawn(move || life.read(reader, seed));
        }
        for changer in changers {
            if let Err(panic) = changer.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let outcome = life.outcome.into_inner().unwrap();
    let ended = match end {
        _ if !scene.power.is_on() => Ok(()),
        End::Cut | End::CutInTheMiddle => Ok(()),
        End::Closed => volume.close().map(|()| model.all_durable()),
        End::ClosedDrained => volume.close_drained().map(|()| model.all_durable()),
    };
    ended.unwrap_or_else(|error| panic!("{context}: {error}"));
    drop((files, volume));
    (scene.flashes, scene.given_up) = (outcome.flashes, outcome.given_up);
    // Every life begins with a cut, as far as the devices go: what a closing left must outlive one.
    scene.power_cut(random);
}

/// Some lives of one configuration.
fn world(seed: u64, steps: u64) {
    let mut random = Random::new(seed);
    let all = common::every_configuration();
    let design = &all[(seed % all.len() as u64) as usize];
    let model = Model::new(3);
    let mut scene = Scene::new(design, &mut random);
    for number in 0..LIVES {
        let context = format!(
            "MEZZANINE_STORM_SEED={seed} ({design:?}, {} workers), life {number}",
            scene.config.workers
        );
        live(&mut scene, &model, &mut random, steps, &context);
    }
    let (_volume, files) = scene.open(&format!("seed {seed}, at last"));
    for (number, file) in files.iter().enumerate() {
        model.recover(number, file, &format!("seed {seed}, at last"));
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Ends the process if nothing goes on any more: threads that wait for one another cannot be ended otherwise.
/// `now` is the seed of the world under way and the number of worlds that have begun.
fn watch(now: &'static (AtomicU64, AtomicU64)) {
    std::thread::spawn(move || {
        let mut last = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let worlds = now.1.load(Ordering::Relaxed);
            if worlds != last.0 {
                last = (worlds, Instant::now());
            } else if last.1.elapsed() > Duration::from_secs(180) {
                eprintln!("MEZZANINE_STORM_SEED={} does not come to an end", now.0.load(Ordering::Relaxed));
                std::process::abort();
            }
        }
    });
}

#[test]
fn nothing_is_lost_or_goes_back_in_a_storm() {
    static NOW: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));
    watch(&NOW);
    let configurations = common::every_configuration().len() as u64;
    let seconds = setting("MEZZANINE_STORM_SECONDS");
    let pasted = setting("MEZZANINE_STORM_SEED");
    // A long storm has other worlds each time.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let first = seconds.map_or(1, |_| since % 1_000_000 * 1000);
    let begin = Instant::now();
    let mut worlds = 0;
    for seed in first.. {
        let goes_on = match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => worlds < configurations,
        };
        if !goes_on {
            break;
        }
        let seed = pasted.unwrap_or(seed);
        // Where there is time, some lives are long.
        let steps = if seconds.is_some() && seed % 4 == 3 { 1000 } else { 120 };
        NOW.0.store(seed, Ordering::Relaxed);
        NOW.1.fetch_add(1, Ordering::Relaxed);
        world(seed, steps);
        worlds += 1;
    }
    println!("{worlds} worlds of {LIVES} lives in {} s", begin.elapsed().as_secs());
}
