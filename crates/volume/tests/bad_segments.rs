//! A place that cannot be read under a metadata segment of a tier whose pages are written in place: it costs
//! the opening where flash has only copies and the segment is an older one, and nothing elsewhere
//! (docs/reliability.md).

#![allow(clippy::unwrap_used)]

mod common;

use common::config;
use common::one_file::{InUse, PAGES, begin, go_round, read, write};
use common::page;
use mezzanine_device::memory::Bad;
use mezzanine_volume::{Admission, Design, SyncMode, Volume, VolumeErrorKind, VolumeState};

const BLOCK: usize = 4096;

/// What an opening came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// Every page is there.
    Whole,
    Refused,
    /// The life has no such segment.
    NoSegment,
}

/// A life in which the segments have come round, closed in order or left, and then the `index`th place on
/// flash that has a segment is bad.
fn opened(design: Design, admission: Admission, mode: SyncMode, close: bool, index: usize) -> Opened {
    let config = config(design, admission, mode, 0);
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..PAGES).for_each(|block| write(&file, block, 1));
    go_round(&file, &volume, 3).unwrap();
    // Where only clean pages come in, a read brings them.
    (0..60).for_each(|block| assert!(read(&file, 200 + block) == Ok(page(200 + block, 102))));
    file.sync().unwrap();
    while volume.step() {}
    drop(file);
    if close {
        volume.close().unwrap();
    } else {
        drop(volume);
    }
    let image = flash.image();
    let is_segment = |at: &usize| image[at * BLOCK..][..8] == *b"MEZZSEG1";
    let Some(block) = (0..image.len() / BLOCK).filter(is_segment).nth(index) else {
        return Opened::NoSegment;
    };
    let place = (block * BLOCK) as u64;
    flash.spoil(place, 512, Bad::Unreadable);
    let refused = match Volume::open(flash.clone(), config.clone()) {
        Ok(volume) => {
            let file = backing.attach(&volume).unwrap();
            (0..PAGES).for_each(|block| assert!(read(&file, block) == Ok(page(block, 1))));
            (200..330).for_each(|block| assert!(read(&file, block) == Ok(page(block, 102))));
            go_round(&file, &volume, 2).unwrap();
            assert_eq!(volume.state(), VolumeState::Ok);
            return Opened::Whole;
        }
        Err(refused) => refused,
    };
    assert_eq!(refused.kind(), VolumeErrorKind::Io);
    let said = refused.to_string();
    assert!(said.contains(&format!("damaged at byte {place}: a metadata segment")), "{said}");
    assert!(said.contains("copy it whole to a good one; nothing was changed"), "{said}");
    // On a device that has what this one does not give back all of it is there.
    flash.heal();
    let volume = Volume::open(flash, config).unwrap();
    let file = backing.attach(&volume).unwrap();
    (200..330).for_each(|block| assert!(read(&file, block) == Ok(page(block, 102))));
    Opened::Refused
}

/// How many places have a segment, and how many cost the opening.
fn each_segment(design: Design, admission: Admission, mode: SyncMode, close: bool) -> (usize, usize) {
    let all = (0..).map(|index| opened(design, admission, mode, close, index));
    let all: Vec<Opened> = all.take_while(|opened| *opened != Opened::NoSegment).collect();
    (all.len(), all.iter().filter(|opened| **opened == Opened::Refused).count())
}

#[test]
fn an_older_segment_in_place_costs_the_opening_of_a_durable_tier() {
    for design in [Design::Lru, Design::Lc] {
        for close in [false, true] {
            let (segments, refused) = each_segment(design, Admission::Both, SyncMode::Durable, close);
            assert!(0 < refused && refused < segments, "{design}: {refused} of {segments}");
        }
    }
}

#[test]
fn it_costs_nothing_where_disk_has_everything_or_the_groups_still_have_summaries() {
    let nothing = [
        (Design::Lc, Admission::Both, SyncMode::Through),
        (Design::Lc, Admission::Clean, SyncMode::Durable),
        (Design::FaceGsc, Admission::Both, SyncMode::Durable),
    ];
    for (design, admission, mode) in nothing {
        for close in [false, true] {
            let (segments, refused) = each_segment(design, admission, mode, close);
            assert!(segments > 2 && refused == 0, "{design} {admission:?} {mode:?}: {refused} of {segments}");
        }
    }
}
