//! Several processes on one tier, of which one is killed at every point that the engine has (invariant 12).
//!
//! A survivor works on a tier in shared memory, over files. Beside it a second process does the same with its
//! own mapping and descriptors, and kills itself at the n-th passage of a point. Invariants checked:
//! - outside of critical sections nothing happens: the dead process's jobs are handed out again, the
//!   survivor's work goes on (each of its syncs ends), the structure is sound, and every page is as new as it
//!   must be;
//! - a range is forgotten as a whole or not at all;
//! - inside a critical section everyone is told: the survivor ends, nobody can attach, and a tier rebuilt
//!   from flash holds everything that a sync has acknowledged to either process;
//! - the same after deaths at random moments, and in recoveries.
//!
//! Either process asks for resizes and switches the sync mode, and the survivor finishes or takes back what
//! the dead left of them.
#![allow(clippy::unwrap_used, missing_docs)]

mod files;
mod host;
mod ledger;
mod points;
mod slots;
mod state;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use files::{DESIGN, Files, config};
use host::{PATIENCE, Worker, is_drop};
use ledger::{BLOCKS, Field, PROCESSES};
use mezzanine_device::SharedMemory;
use mezzanine_engine::format::{Superblock, read_superblock, write_superblock};
use mezzanine_engine::planted::{Bug, at_points, outside, set};
use mezzanine_engine::{AttachError, Design, Region, Tier};
use points::Point;
use std::os::unix::fs::FileExt;

const SURVIVOR: u32 = 1;
/// Steps after which a process that did not come to its point ends by itself.
const STEPS_MAX: u64 = 40_000;

/// The folder of one run, gone when it ends.
struct Scratch(PathBuf, #[allow(dead_code)] MutexGuard<'static, ()>);

impl Scratch {
    fn new(name: &str, design: Design) -> Self {
        // One run at a time: a child that another thread has just forked has all descriptors of this process
        // until it becomes what it is to be, and the region seems to be in use by others as long.
        static RUNS: Mutex<()> = Mutex::new(());
        let alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        let shm = Path::new("/dev/shm");
        let parent = if shm.is_dir() { shm } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
        let directory = parent.join(format!("mezz-processes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(DESIGN), design.to_string()).unwrap();
        Self(directory, alone)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn kill_myself() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

/// The second process: started by the test below, and nothing when run by itself.
#[test]
fn child_process() {
    let Ok(directory) = std::env::var("MEZZ_PROCESSES_CHILD") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (point, nth) = (std::env::var("MEZZ_POINT").unwrap(), number("MEZZ_NTH"));
    let (owner, seed) = (number("MEZZ_OWNER") as u32, number("MEZZ_SEED"));
    let directory = Path::new(&directory);
    let passed = Cell::new(0);
    let at_point = move |at: &str| {
        if at == point {
            passed.set(passed.get() + 1);
            if passed.get() == nth {
                kill_myself();
            }
        }
    };
    at_points(Some(Rc::new(at_point)));
    if number("MEZZ_RECOVERS") == 1 {
        recover(directory);
        return;
    }
    let memory = SharedMemory::join(&directory.join("region")).unwrap();
    mezzanine_device::sleep_at_locks();
    let tier = Tier::attach(Region::owning(memory), owner).unwrap();
    let files = Files::open(directory);
    let mut worker = Worker::new(&tier, &files, 1, owner, seed);
    for _ in 0..STEPS_MAX {
        worker.step();
    }
}

/// Points that are passed by whoever sets the tier up, before anybody else can join.
fn is_in_recovery(point: &str) -> bool {
    point.starts_with("recovery: ")
}

fn spawn(directory: &Path, point: &str, nth: u64, owner: u32, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture", "--quiet"])
        .env("MEZZ_PROCESSES_CHILD", directory)
        .env("MEZZ_POINT", point)
        .env("MEZZ_NTH", nth.to_string())
        .env("MEZZ_RECOVERS", u8::from(is_in_recovery(point)).to_string())
        .env("MEZZ_OWNER", owner.to_string())
        .env("MEZZ_SEED", seed.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the child; true if it was killed, false if it ended by itself.
fn was_killed(mut child: Child) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() || status.signal() == Some(9), "the second process: {status}");
            return !status.success();
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the second process gets nowhere");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The survivor is told by panics; they are expected, and looked at where they arrive.
fn expect_poison() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.to_string().contains("poisoned") {
                default(panic);
            }
        }));
    });
}

/// What the survivor and the test tell each other.
#[derive(Default)]
struct Turn {
    /// Held by the survivor for each of its steps.
    step: Mutex<()>,
    /// Somebody else wants it.
    pause: AtomicBool,
    stop: AtomicBool,
    syncs: AtomicU64,
}

/// Sets the tier up in new memory from what is on flash, and lets others join.
fn recover(directory: &Path) -> (Tier, Files) {
    let files = Files::open(directory);
    let geometry = config(directory).geometry().unwrap();
    let (memory, setup) = SharedMemory::create(&directory.join("region"), geometry.region_bytes()).unwrap();
    let found = read_superblock(&mut &files);
    let superblock = found.unwrap_or_else(|_| Superblock::new(&geometry, [7; 16], [9; 16]));
    mezzanine_device::sleep_at_locks();
    let recovered = Tier::recover(Region::owning(memory), &superblock, SURVIVOR, &mut &files).unwrap();
    for (offset, bytes) in &recovered.writes {
        files.flash.write_all_at(bytes, *offset).unwrap();
    }
    outside("recovery: superblock not written");
    write_superblock(&mut &files, &recovered.superblock).unwrap();
    outside("recovery: superblock written");
    recovered.tier.publish(&recovered.superblock);
    outside("recovery: published, not shared");
    setup.share().unwrap();
    (recovered.tier, files)
}

/// A tier in shared memory and the survivor at work on it.
struct World {
    tier: Arc<Tier>,
    files: Arc<Files>,
    turn: Arc<Turn>,
    survivor: JoinHandle<Result<(), String>>,
}

impl World {
    /// Sets the tier up in new memory from what is on flash.
    fn recover(directory: &Path, seed: u64) -> Self {
        expect_poison();
        let (tier, files) = recover(directory);
        let (tier, files, turn) = (Arc::new(tier), Arc::new(files), Arc::new(Turn::default()));
        for process in 0..PROCESSES {
            Worker::new(&tier, &files, process, SURVIVOR, 1).settle_through();
        }
        settle(&tier, &files, Field::Synced);
        // With a slot directory a page that is pulled while another is written would be that one's newer
        // version, now and then.
        tier.set_pulling(!tier.geometry().config().design.has_slots());
        let survivor = {
            let (tier, files, turn) = (tier.clone(), files.clone(), turn.clone());
            std::thread::spawn(move || survive(&tier, &files, &turn, seed))
        };
        Self { tier, files, turn, survivor }
    }

    /// The survivor must get on: its next sync ends.
    fn sees_progress(&self, after: &str) {
        let (before, end) = (self.turn.syncs.load(Ordering::Acquire), Instant::now() + PATIENCE);
        while self.turn.syncs.load(Ordering::Acquire) < before + 2 {
            assert!(!self.survivor.is_finished(), "{after}: the survivor has ended");
            assert!(Instant::now() < end, "{after}: the survivor gets nowhere");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// The dead process did no harm: the structure is sound and its pages are right.
    fn is_sound(&self, after: &str) {
        let end = Instant::now() + PATIENCE;
        self.turn.pause.store(true, Ordering::Release);
        let _step = loop {
            match self.turn.step.try_lock() {
                Ok(step) => break step,
                Err(_) => assert!(Instant::now() < end, "{after}: the survivor gets nowhere"),
            }
            std::thread::sleep(Duration::from_micros(50));
        };
        self.tier.check();
        let mut heir = Worker::new(&self.tier, &self.files, 1, SURVIVOR, 1);
        heir.settle_through();
        settle_process(&heir, Field::Acknowledged);
        heir.drains_end();
        heir.is_drained();
        if heir.has_slots() {
            heir.writes_again(after);
        }
        self.turn.pause.store(false, Ordering::Release);
    }

    /// Ends the survivor in order.
    fn stop(self) {
        self.turn.stop.store(true, Ordering::Release);
        assert_eq!(self.end(), Ok(()));
    }

    /// Waits for the survivor's end.
    fn end(self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while !self.survivor.is_finished() {
            assert!(Instant::now() < end, "the survivor hangs");
            std::thread::sleep(Duration::from_micros(100));
        }
        self.survivor.join().unwrap()
    }
}

/// The survivor's life: work, with a sync now and then. Returns the panic that ended it, if one did.
fn survive(tier: &Tier, files: &Files, turn: &Turn, seed: u64) -> Result<(), String> {
    let work = || {
        let mut worker = Worker::new(tier, files, 0, SURVIVOR, seed);
        while !turn.stop.load(Ordering::Acquire) {
            if turn.pause.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(20));
                continue;
            }
            let _step = turn.step.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for _ in 0..20 {
                worker.step();
            }
            worker.sync();
            turn.syncs.fetch_add(1, Ordering::Release);
        }
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("an odd panic").to_owned()
    })
}

/// Looks at every page when nobody is at work on it: it is as new as `at_least`, and from now on it is what
/// was found.
fn settle(tier: &Tier, files: &Files, at_least: Field) {
    for process in 0..PROCESSES {
        settle_process(&Worker::new(tier, files, process, SURVIVOR, 1), at_least);
    }
}

fn settle_process(worker: &Worker<'_>, at_least: Field) {
    let (ledger, process) = (&worker.files.ledger, worker.process);
    // Of each range that may have been dropped: pages that are gone, and pages that are there.
    let mut ranges = BTreeMap::<u64, [u64; 2]>::new();
    for block in 0..BLOCKS {
        let low = ledger.get(process, block, at_least);
        ledger.set(process, block, Field::Acknowledged, low);
        let (found, _) = worker.read(process, block);
        let dropped = ledger.get(process, block, Field::Dropped);
        let gone = found.missed && found.version < low;
        // After a crash a page may be gone by an earlier change that no sync had covered.
        if at_least == Field::Acknowledged && dropped > low && !is_drop(low) {
            ranges.entry(dropped).or_default()[usize::from(!found.missed)] +=
                u64::from(gone || !found.missed);
        }
        let version = if gone { dropped } else { found.version };
        ledger.set(process, block, Field::Acknowledged, version);
        if at_least == Field::Synced {
            // A drain is forgotten with the region.
            ledger.set(process, 0, Field::Draining, 0);
            ledger.set(process, block, Field::Synced, version);
        }
    }
    for (version, [gone, there]) in ranges {
        assert!(gone == 0 || there == 0, "drop {version}: {gone} pages are gone, {there} are there");
    }
}

/// One death: kills a second process, and looks at what is left. Returns whether the process was killed.
fn die(world: &mut Option<World>, directory: &Path, point: Option<&Point>, nth: u64, seed: u64) -> bool {
    let owner = 2 + (seed % 1000) as u32;
    let name = point.map_or("a random moment", |point| point.name.as_str());
    if is_in_recovery(name) {
        // Nobody has joined yet, so there is nobody to be told: the next one begins from the same flash.
        let before = world.take().unwrap();
        before.sees_progress(name);
        before.stop();
        let killed = was_killed(spawn(directory, name, nth, owner, seed));
        *world = Some(World::recover(directory, seed));
        return killed;
    }
    let at = world.as_ref().unwrap();
    // At other times the survivor writes so many slots that blocks which the dead has left out are soon there
    // all the same.
    let rests = nth > 1 && point.is_some_and(|point| point.slots);
    at.turn.pause.store(rests, Ordering::Release);
    let mut child = spawn(directory, name, nth, owner, seed);
    if point.is_none() {
        std::thread::sleep(Duration::from_micros(3000 + seed * 7919 % 9000));
        child.kill().unwrap();
    }
    let killed = was_killed(child);
    // The system has reaped it: it is dead, and every call that it made has ended.
    let outcome = at.tier.abandon(owner);
    let inside = killed && point.map_or(outcome.is_err(), |point| point.inside);
    assert_eq!(outcome.is_err(), inside, "killed at {name:?}, passage {nth}");
    if !inside {
        at.is_sound(name);
        at.sees_progress(name);
        return killed;
    }
    at.turn.pause.store(false, Ordering::Release);
    assert!(at.tier.is_poisoned());
    let memory = SharedMemory::join(&directory.join("region")).unwrap();
    let refused = Tier::attach(Region::owning(memory), owner + 1).err();
    assert_eq!(refused, Some(AttachError::Poisoned));
    let end = world.take().unwrap().end().expect_err("the survivor must be told");
    assert!(end.contains("poisoned"), "{name:?} ended the survivor with: {end}");
    *world = Some(World::recover(directory, seed));
    killed
}

#[test]
fn a_process_may_be_killed_anywhere() {
    kill_everywhere(Scratch::new("anywhere", Design::FaceGsc), |point| !point.in_place);
}

#[test]
fn a_process_may_be_killed_where_pages_are_written_in_place() {
    // Others find the pages that leave clean here: checkpoints come too often.
    for design in [Design::Fifo, Design::Lc] {
        kill_everywhere(Scratch::new(&format!("{design}"), design), |point| point.in_place && !point.slots);
    }
}

/// It goes with one sync mode alone, which nobody switches, and nothing is dirty.
#[test]
fn a_process_may_be_killed_where_there_is_a_slot_directory() {
    let is_one = |point: &Point| point.slots || point.name.starts_with("evict: ");
    kill_everywhere(Scratch::new("slots", Design::Tac), is_one);
}

/// Kills a process at each of some points, and at random moments.
fn kill_everywhere(scratch: Scratch, is_one: fn(&Point) -> bool) {
    let began = Instant::now();
    // More passages, and only points whose names contain a text: for the nightly run and for the search of a
    // bug.
    let passages = std::env::var("MEZZANINE_PASSAGES").map_or(2, |passages| passages.parse().unwrap());
    let only = std::env::var("MEZZANINE_POINT").unwrap_or_default();
    let mut points = points::all();
    points.retain(|point| is_one(point) && point.name.contains(&only));
    let mut world = Some(World::recover(&scratch.0, 1));
    let (mut seed, mut inside, mut beside) = (1, 0, 0);
    let mut kills = BTreeMap::new();
    for point in &points {
        for nth in 0..passages {
            seed += 1;
            let nth = if nth < 2 { 1 + nth * (1 + seed % 5) } else { 2 + seed * 37 % 200 };
            let mut killed = die(&mut world, &scratch.0, Some(point), nth, seed);
            // Some points are passed rarely, and not by every process that looks for them; or, in recoveries,
            // not in every sync mode.
            let more = if is_in_recovery(&point.name) { 40 } else { 4 };
            for _ in 0..more * u32::from(nth == 1 && !killed) {
                seed += 1;
                killed = killed || die(&mut world, &scratch.0, Some(point), nth, seed);
            }
            assert!(killed || nth > 1, "no process ever comes to {:?}", point.name);
            *if point.inside { &mut inside } else { &mut beside } += u64::from(killed);
            *kills.entry(point.name.as_str()).or_insert(0) += u64::from(killed);
        }
    }
    let random = 15 * passages.min(20);
    for _ in 0..random {
        seed += 1;
        die(&mut world, &scratch.0, None, 0, seed);
    }
    world.unwrap().stop();
    for (point, kills) in kills {
        eprintln!("{kills:3} kills at {point:?}");
    }
    eprintln!(
        "{} points: {inside} kills inside critical sections, {beside} outside, {random} at random moments, {:.1} s",
        points.len(),
        began.elapsed().as_secs_f64()
    );
}

/// A process dies while it changes the directory: is nobody told?
fn death_inside_goes_unnoticed(bug: Option<Bug>) -> bool {
    let scratch = Scratch::new(if bug.is_some() { "forgotten" } else { "told" }, Design::FaceGsc);
    let world = World::recover(&scratch.0, 1);
    assert!(was_killed(spawn(&scratch.0, "stage-in: older version unlinked", 1, 2, 1)));
    set(bug);
    let unnoticed = world.tier.abandon(2).is_ok();
    set(None);
    // The survivor ends in any case.
    world.tier.abandon(2).unwrap_err();
    world.end().unwrap_err();
    unnoticed
}

/// Processes die with blocks of slots in hand: does nobody find a page that flash should have forgotten?
fn lost_blocks_go_unnoticed(bug: Option<Bug>) -> bool {
    let name = if bug.is_some() { "blocks-lost" } else { "blocks-kept" };
    let scratch = Scratch::new(name, Design::Tac);
    let world = World::recover(&scratch.0, 1);
    world.sees_progress(name);
    let unnoticed = (1..=12).all(|nth| {
        world.turn.pause.store(true, Ordering::Release);
        assert!(was_killed(spawn(&scratch.0, "slots: blocks in hand", nth, 2, nth)));
        set(bug);
        world.tier.abandon(2).unwrap();
        set(None);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.is_sound(name))).is_ok()
    });
    world.turn.stop.store(true, Ordering::Release);
    let ended = world.end();
    assert!(bug.is_some() || ended.is_ok(), "{ended:?}");
    unnoticed
}

#[test]
fn blocks_of_slots_that_a_dead_process_did_not_write_are_noticed() {
    assert!(lost_blocks_go_unnoticed(None));
    assert!(!lost_blocks_go_unnoticed(Some(Bug::DeadWriteCounts)), "the planted fault went unnoticed");
}

#[test]
fn a_death_inside_that_is_forgotten_is_noticed() {
    assert!(!death_inside_goes_unnoticed(None));
    assert!(death_inside_goes_unnoticed(Some(Bug::DeadHolderForgotten)), "the planted fault went unnoticed");
}
