//! Faults of dump and recovery are planted, and noticed by what is lost.
#![allow(clippy::unwrap_used)]

use drives::{Ranges, SMALL, drawn};
use lives::{Life, Trust, first_wrong};
use mezzanine_ssd::power::PlantedFault;
use mezzanine_ssd::{CacheKind, PowerLossConfig};

mod drives;
mod lives;

fn wrong_of_durable(fault: PlantedFault, ranges: &Ranges, cuts_max: u64) -> Option<(u64, String)> {
    first_wrong(cuts_max, |seed| {
        let durable = |random: &mut _| drawn(random, ranges, CacheKind::Durable);
        let mut life = Life::new(seed, Trust::InAcknowledgements, durable);
        life.recorder.plant(Some(fault));
        life
    })
}

fn assert_noticed(fault: PlantedFault, wrong: Option<(u64, String)>) {
    match wrong {
        Some((cuts, what)) => println!("{fault:?}: {cuts} cuts, {what}"),
        None => panic!("{fault:?} went unnoticed"),
    }
}

#[test]
fn faults_of_dump_and_recovery_are_noticed() {
    use PlantedFault as Fault;
    for fault in [
        Fault::DumpWithoutEntries,
        Fault::DumpWithoutFramesUnderWay,
        Fault::DumpOfOlderVersion,
        Fault::RestoredInReverse,
        Fault::ClearedTooEarly,
        Fault::JournalUnread,
        Fault::JournalAhead,
    ] {
        assert_noticed(fault, wrong_of_durable(fault, &SMALL, 200_000));
    }
}

#[test]
fn programs_under_way_have_to_be_carried_to_their_end_where_pages_share_cells() {
    let fault = PlantedFault::ProgramsCutOff;
    // All that is under way is in the dump as well: without partners nothing is lost.
    let alone = wrong_of_durable(fault, &SMALL, 5_000);
    assert!(alone.is_none(), "{alone:?}");
    let paired = Ranges { paired_distances: &[1, 2], ..SMALL };
    assert_noticed(fault, wrong_of_durable(fault, &paired, 20_000));
}

#[test]
fn writes_that_a_start_left_out_are_noticed_when_the_next_brings_them_back() {
    let fault = PlantedFault::LeftOutReturns;
    let in_order = |seed| {
        let mut life = Life::new(seed, Trust::InFlushes, |random| {
            let mut config = drawn(random, &SMALL, CacheKind::Volatile);
            config.power_loss = Some(PowerLossConfig { anomalies: Vec::new() });
            config
        });
        life.recorder.plant(Some(fault));
        life
    };
    assert_noticed(fault, first_wrong(100_000, in_order));
}

#[test]
fn a_start_that_is_not_journalled_is_noticed_when_what_it_found_is_given_up() {
    let fault = PlantedFault::StartUnjournalled;
    let volatile = |seed| {
        let new = |random: &mut _| drawn(random, &SMALL, CacheKind::Volatile);
        let mut life = Life::new(seed, Trust::InFlushes, new);
        life.recorder.plant(Some(fault));
        life
    };
    assert_noticed(fault, first_wrong(100_000, volatile));
}
