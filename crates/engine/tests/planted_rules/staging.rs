//! Staging memory, while others stage in, read and stop admission.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mezzanine_engine::planted::{Bug, at_points, only_with};
use mezzanine_engine::{Lookup, StageIn, StageKind};

use crate::common::{Host, page};
use crate::{id, pairs};

/// A page is on its way into the tier while another thread stops admission in order to change what that
/// means.
#[test]
fn admission_has_stopped_when_pages_on_their_way_are_in() {
    only_with(&[Bug::AdmissionStopsAtOnce], || {
        let host = Host::new(&pairs(), 1);
        let (on_its_way, stopping) = std::sync::mpsc::channel();
        let (stopped, staging) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|threads| {
            let tier = &host.tier;
            let stage_in = threads.spawn(move || {
                let stopped_meanwhile = Rc::new(Cell::new(false));
                let seen = stopped_meanwhile.clone();
                at_points(Some(Rc::new(move |point| {
                    if point == "stage-in: place given out" {
                        on_its_way.send(()).unwrap();
                        seen.set(staging.recv_timeout(Duration::from_millis(500)).is_ok());
                    }
                })));
                let staged = tier.stage_in(&id(0), &page(4096, 1), StageKind::Dirty, 0);
                at_points(None);
                assert_eq!(staged, StageIn::Staged { also_disk: false });
                stopped_meanwhile.get()
            });
            stopping.recv().unwrap();
            tier.stop_admission();
            // Nobody waits for it any more if all is well.
            let _ = stopped.send(());
            assert_eq!(tier.stage_in(&id(0), &page(4096, 2), StageKind::Dirty, 0), StageIn::Refused);
            !stage_in.join().unwrap()
        })
    });
}

/// A reader looks for a page that lies in the second of two groups in staging memory. It has just read where
/// the first one lies, which is short, when that leaves and its memory is given to a third, longer one. Does
/// it get its page all the same?
fn a_page_comes_from_its_own_group() -> bool {
    let mut config = pairs();
    (config.group_pages, config.staging_groups) = (8, 2);
    let mut host = Host::new(&config, 1);
    host.write(id(100), &page(4096, 100));
    host.sync();
    // The first group was one page long, so the pages of the second lie less than a group behind its first.
    for block in 0..8 {
        host.write(id(block), &page(4096, block));
    }
    let host = Rc::new(host);
    let (other, done) = (Rc::clone(&host), Cell::new(false));
    at_points(Some(Rc::new(move |point| {
        if point == "staged copy: position of a group read" && !done.replace(true) {
            for block in 200..207 {
                let staged = other.tier.stage_in(&id(block), &page(4096, block), StageKind::Dirty, 0);
                assert!(matches!(staged, StageIn::Staged { .. }), "{staged:?}");
            }
        }
    })));
    let whole = (0..3).all(|block| {
        let mut found = vec![0; 4096];
        match host.tier.lookup(&id(block), &mut found) {
            Lookup::Memory => found == page(4096, block),
            Lookup::Flash(_) => true,
            Lookup::Miss(_) => false,
        }
    });
    at_points(None);
    whole
}

/// It did not: it had the position of the first group, the number of pages of the third, and so a place in
/// memory at which another page lay. That its own page was in staging memory all the time was what it looked
/// at afterwards (order 843 of a model of the volume).
#[test]
fn a_reader_of_staging_memory_mixes_no_groups() {
    only_with(&[Bug::StagedGroupMixed, Bug::StagedCopyUnconfirmed], a_page_comes_from_its_own_group);
}
