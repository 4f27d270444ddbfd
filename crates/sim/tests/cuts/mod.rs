//! Many power cuts in worlds of one kind.

use mezzanine_sim::crash::{CUTS_PER_WORLD, Kind, Options, Outcome, Report, Worlds, run};

use crate::replays::parsed;

/// Goes through `MEZZANINE_CUTS` power cuts, or so many as are given here, in the worlds of `kind` from
/// `MEZZANINE_SEED` on, with `MEZZANINE_THREADS` threads. Panics if an invariant was violated.
pub(crate) fn nothing_is_violated(kind: Kind, cuts: u64) -> Report {
    let cuts = parsed("CUTS").unwrap_or(cuts);
    let mut options =
        Options { worlds: Worlds::Only(kind), ..Options::new(parsed("SEED").unwrap_or(1), cuts) };
    options.threads = parsed("THREADS").unwrap_or(2);
    let started = std::time::Instant::now();
    let report = run(&options);
    let seconds = started.elapsed().as_secs_f64();
    println!("{} cuts in {seconds:.1} s, {:.0} cuts/s", report.cuts, report.cuts as f64 / seconds);
    println!("{} operations in {} worlds, {:?}", report.operations, report.worlds, report.coverage);
    for violation in &report.violations {
        println!("{violation}");
    }
    assert!(report.violations.is_empty());
    assert!(report.cuts >= cuts);
    report
}

/// Panics if a world of one of these seeds is another when it is run again.
pub(crate) fn each_leads_the_same_life(
    world: impl Fn(u64, u64) -> Outcome,
    seeds: impl IntoIterator<Item = u64>,
) {
    for seed in seeds {
        let [first, again] = [(); 2].map(|()| world(seed, CUTS_PER_WORLD));
        assert_eq!(
            (first.operations, first.cuts, first.coverage),
            (again.operations, again.cuts, again.coverage),
            "seed {seed}"
        );
    }
}
