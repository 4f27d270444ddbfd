//! Clean pages that leave the pool and are offered when others may have them already: the tier takes none
//! that is an older version by then, or one of a relation that was dropped.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use machine::{Machine, id, offer, page, write};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{IdRange, SyncMode};
use mezzanine_ffi::host::Host;

const RELATION: u32 = 1000;

/// Whether the tier refuses version 1 of a page that `meanwhile` changes or drops, but for a rule.
fn is_refused(machine: &Machine, meanwhile: impl Fn(&Host)) -> bool {
    let (host, _) = machine.start(10).unwrap();
    let token = host.token_unless_held(&id(1)).unwrap();
    meanwhile(&host);
    !host.offer(&id(1), &page(1), 1, token)
}

fn overwritten() -> bool {
    is_refused(&Machine::new(SyncMode::Drained), |host| host.overwrite(&id(1)).unwrap())
}

/// The newer version has been to the tier and left it.
fn written_and_gone() -> bool {
    let machine = Machine::new(SyncMode::Drained);
    is_refused(&machine, |host| {
        write(host, 1, 2);
        for block in (2..).take_while(|_| host.holds(&id(1))) {
            write(host, block, 2);
            while host.work() {}
        }
        assert!(!host.holds(&id(1)), "disk has it alone");
    })
}

fn dropped() -> bool {
    is_refused(&Machine::new(SyncMode::Drained), |host| {
        host.drop_range(&IdRange::relation(5, 1663, RELATION)).unwrap();
    })
}

#[test]
fn a_page_that_nobody_touches_is_taken() {
    let machine = Machine::new(SyncMode::Drained);
    assert!(!is_refused(&machine, |_| {}));
    // Others leave as well, and other relations are dropped, of which few share a counter with it.
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    let is_taken = |n: &u32| {
        let token = host.token_unless_held(&id(*n)).unwrap();
        assert!(offer(&host, &id(1000 + n), &page(1), 1));
        host.drop_range(&IdRange::relation(5, 1663, RELATION + 1 + n)).unwrap();
        host.offer(&id(*n), &page(1), 1, token)
    };
    assert!((0..64).filter(is_taken).count() > 32);
}

#[test]
fn a_page_that_the_tier_has_is_not_to_be_offered() {
    let machine = Machine::new(SyncMode::Drained);
    let (host, _) = machine.start(10).unwrap();
    write(&host, 1, 2);
    assert!(host.token_unless_held(&id(1)).is_none());
}

#[test]
fn a_page_that_is_written_past_the_tier_meanwhile() {
    only_with(&[Bug::InvalidationUncounted], overwritten);
}

#[test]
fn a_page_that_is_forgotten_meanwhile() {
    let forgotten = || {
        let machine = Machine::new(SyncMode::Drained);
        is_refused(&machine, |host| assert!(host.forget(&id(1)).unwrap()))
    };
    only_with(&[Bug::InvalidationUncounted], forgotten);
}

#[test]
fn a_page_whose_newer_version_has_left_already() {
    only_with(&[Bug::StaleOfferAdmitted], written_and_gone);
}

#[test]
fn a_page_whose_relation_is_dropped_meanwhile() {
    only_with(&[Bug::RangeUncounted], dropped);
    let truncated = |host: &Host| host.drop_range(&IdRange::fork(5, 1663, RELATION, 0)).unwrap();
    assert!(is_refused(&Machine::new(SyncMode::Drained), truncated));
    let database = |host: &Host| host.drop_range(&IdRange::database(5)).unwrap();
    assert!(is_refused(&Machine::new(SyncMode::Drained), database));
}
