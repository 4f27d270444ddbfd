//! Every two moments of random lives, and the lives of two copies, are put together.

#[cfg(feature = "planted")]
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{VolumeConfig, VolumeErrorKind};

use crate::common::{durable, through};
use crate::life::{continued, life};
use crate::machine::{Machine, Moment};

/// What is wrong with what is found when files and flash of two moments are put together.
fn mixed(machine: &Machine, guarded: bool, moments: &[Moment], at: (usize, usize)) -> Option<String> {
    let (files, flash) = (&moments[at.0], &moments[at.1]);
    let order = at.0.cmp(&at.1);
    let mix = Machine::of(&machine.config, guarded, &flash.flash, files);
    let what =
        |text: &str| Some(format!("files after \"{}\", flash after \"{}\": {text}", files.what, flash.what));
    let found = match mix.contents() {
        Ok(found) => found,
        Err(error) if order.is_eq() => return what(&error.to_string()),
        Err(error) => {
            let known = matches!(
                error.kind(),
                VolumeErrorKind::OlderTier
                    | VolumeErrorKind::NewerTier
                    | VolumeErrorKind::OtherCopy
                    | VolumeErrorKind::ChangedFile
                    | VolumeErrorKind::FileNotAttached
                    | VolumeErrorKind::SidecarMissing
            );
            let text = error.to_string();
            let told = known && text.contains(" a:") && text.contains("; ");
            return if told { None } else { what(&text) };
        }
    };
    let newest = if order.is_lt() { flash } else { files };
    let between = moments.get(at.1..=at.0).unwrap_or_default();
    let as_then = between.iter().any(|then| files.knows_no_more_than(then) && found == then.synced);
    let files_alone = flash.expendable && found == files.synced;
    if found == newest.synced || as_then || files_alone {
        None
    } else {
        what("accepted, and it has something else")
    }
}

/// Every two moments of a life put together.
fn every_mix(config: &VolumeConfig, guarded: bool, seed: u64) -> Result<u64, String> {
    let machine = Machine::new(config, guarded);
    let moments = life(&machine, seed, 4);
    let mut refused = 0;
    for i in 0..moments.len() {
        for j in 0..moments.len() {
            if let Some(wrong) = mixed(&machine, guarded, &moments, (i, j)) {
                return Err(format!("seed {seed}, {i} with {j}: {wrong}"));
            }
            refused += 1;
        }
    }
    Ok(refused)
}

fn every_life(config: &VolumeConfig, seeds: std::ops::Range<u64>) -> Result<u64, String> {
    let mut mixes = 0;
    for seed in seeds {
        for guarded in [false, true] {
            mixes += every_mix(config, guarded, seed)?;
        }
    }
    Ok(mixes)
}

#[test]
fn files_and_flash_of_two_moments_are_refused_or_right() {
    let mixes = every_life(&durable(), 1..7).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(mixes > 4000, "{mixes}");
}

/// From one moment on a copy of the machine leads a life of its own; then they exchange their flash devices.
fn exchanged(config: &VolumeConfig, guarded: bool, seed: u64) -> Result<u64, String> {
    let machine = Machine::new(config, guarded);
    let common = life(&machine, seed, 1).pop().unwrap();
    let lives = [1u64, 2].map(|copy| {
        let config = VolumeConfig { nonce_seed: Some(seed ^ copy << 20), ..config.clone() };
        let machine = Machine::of(&config, guarded, &common.flash, &common);
        let model = common.synced.clone();
        // The one does as the other does, at first, so that epochs, marks and groups agree.
        let mut moments = continued(&machine, seed + 100, 1, model.clone(), copy << 40);
        let model = moments.last().unwrap().synced.clone();
        moments.extend(continued(&machine, seed + 200 + copy, 1, model, copy << 50));
        moments
    });
    let mut mixes = 0;
    for files in &lives[0] {
        for flash in &lives[1] {
            let mix = Machine::of(config, guarded, &flash.flash, files);
            mixes += 1;
            let Ok(found) = mix.contents() else { continue };
            if found != files.synced || found != flash.synced && !flash.expendable {
                return Err(format!(
                    "seed {seed}: files of one copy after \"{}\" and flash of another after \"{}\" are accepted; found is of files: {}, of flash: {}",
                    files.what,
                    flash.what,
                    found == files.synced,
                    found == flash.synced
                ));
            }
        }
    }
    Ok(mixes)
}

#[test]
fn copies_that_were_both_opened_do_not_go_with_the_flash_of_each_other() {
    for config in [durable(), through()] {
        for seed in 1..7 {
            for guarded in [false, true] {
                exchanged(&config, guarded, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }
}

/// Each rule is taken out, and something wrong is accepted.
#[cfg(feature = "planted")]
#[test]
fn without_any_one_of_the_rules_something_wrong_is_accepted() {
    let mixes = || every_life(&durable(), 1..13);
    let copies =
        || (1..13).try_for_each(|seed| exchanged(&durable(), seed % 2 == 0, seed).map(drop)).map(|()| 0);
    type Check<'c> = &'c dyn Fn() -> Result<u64, String>;
    let rules: [(Bug, Check<'_>); 7] = [
        (Bug::NonceUnchecked, &copies),
        (Bug::MarkUnchecked, &mixes),
        (Bug::StageOutUnmarked, &mixes),
        (Bug::DiscardUnmarked, &mixes),
        (Bug::CutUnmarked, &mixes),
        (Bug::OlderFileForgotten, &mixes),
        (Bug::GroupsUnchecked, &mixes),
    ];
    for (bug, check) in rules {
        set(Some(bug));
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        set(None);
        assert!(!matches!(found, Ok(Ok(_))), "{bug:?} went unnoticed");
    }
}
