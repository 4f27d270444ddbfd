//! Numbers that only rise, near their ends: tiers that have been in use for longer than anybody can wait.
//!
//! Invariants checked:
//! 1. Far into its life a tier does what a new one does.
//! 2. Near the end of any number pages are refused, what is there stays readable, and the tier can be drained
//!    and closed.
//! 3. At the end there is an error or an assertion that names the number. None wraps.
//! 4. Numbers from a device that do not exist are damage.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Flash, Host, page};
use mezzanine_engine::format::{Age, Record, RecordKind, SegmentHeader, SlotEntry, SlotHead, Superblock};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{
    Design, Frame, HOST_METADATA_BYTES, IdRange, PageId, Position, RecoveryError, Sequence, StageIn,
    StageKind, SyncMode, TierConfig, Version,
};

mod common;

fn config(design: Design) -> TierConfig {
    let mut config = TierConfig::of(design, 4096, 512);
    (config.group_pages, config.survivors_max, config.staging_groups) = (8, 3, 4);
    (config.segment_frames, config.band_frames, config.shards) = (32, 16, 4);
    config
}

/// An empty tier of this age; none of a design that begins anew each time.
fn aged(config: &TierConfig, age: &Age) -> Option<(Flash, Superblock)> {
    let geometry = config.geometry().unwrap();
    let (superblock, segment) = age.of(&Superblock::new(&geometry, [7; 16], [9; 16]), &geometry);
    let (offset, bytes) = segment?;
    let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
    flash.write(offset, &bytes);
    Some((flash, superblock))
}

fn host((mut flash, superblock): (Flash, Superblock), seed: u64) -> Host {
    let recovered = flash.recover(&superblock).unwrap();
    let page_size = recovered.tier.geometry().page_size();
    let (tier, superblock) = (recovered.tier, recovered.superblock);
    Host {
        tier,
        superblock,
        flash,
        disk: HashMap::new(),
        page_size,
        numbers: mezzanine_ground::random::Random::new(seed),
    }
}

/// Pages and what they hold, as their writer knows them.
#[derive(Default)]
struct Model(HashMap<u64, u64>);

impl Model {
    fn live(&mut self, host: &mut Host, steps: u64) {
        for _ in 0..steps {
            let block = host.random(900);
            let id = PageId::volume(1, block);
            match host.random(20) {
                0..9 => {
                    let contents = host.random(1 << 60);
                    host.write(id, &page(4096, contents));
                    self.0.insert(block, contents);
                }
                9..18 => {
                    let wanted = self.0.get(&block).copied().unwrap_or(0);
                    assert_eq!(host.read(id), page(4096, wanted), "block {block}");
                }
                18 => drop(host.step()),
                _ => host.sync(),
            }
        }
        host.tier.check();
    }

    fn check(&self, host: &mut Host) {
        for (block, contents) in &self.0 {
            assert_eq!(host.read(PageId::volume(1, *block)), page(4096, *contents), "block {block}");
        }
    }
}

#[test]
fn an_old_tier_lives_as_a_new_one() {
    for &design in Design::ALL {
        for &mode in SyncMode::ALL {
            let config = TierConfig { sync_mode: mode, ..config(design) };
            if config.geometry().is_err() {
                continue;
            }
            let Some(aged) = aged(&config, &Age::before_reserve(1 << 20)) else { continue };
            let mut host = host(aged, 42);
            let mut model = Model::default();
            let mut pages_written = 0;
            for round in 0..6 {
                model.live(&mut host, 1500);
                host.sync();
                pages_written += host.tier.statistics().pages_written;
                host = host.reopen(round % 2 == 0);
                model.check(&mut host);
            }
            assert_eq!(host.tier.used_up(), None, "{design:?} {mode:?}");
            assert!(pages_written > config.frames, "the queue comes round: {pages_written} pages");
        }
    }
}

/// Ages at which one number alone is near its reserve.
fn near_each() -> Vec<(&'static str, Age)> {
    let (near, far) = (Age::before_reserve(150), Age::before_reserve(1 << 20));
    vec![
        ("positions", Age { position: near.position, ..far }),
        ("numbers of groups", Age { sequence: near.sequence, ..far }),
        ("versions", Age { version: near.version, ..far }),
        ("numbers of metadata segments", Age { segment: Age::before_reserve(5).segment, ..far }),
        ("epochs", Age { epoch: Age::before_reserve(0).epoch, ..far }),
    ]
}

/// Lives on until pages are refused; false if they are not.
fn ends_in_order(design: Design, what: &str, age: &Age) -> bool {
    let mut host = host(aged(&config(design), age).unwrap(), 7);
    let mut model = Model::default();
    for _ in 0..60 {
        if host.tier.used_up().is_some() && host.tier.work() > 0 {
            model.live(&mut host, 300);
            break;
        }
        model.live(&mut host, 100);
    }
    let why = host.tier.used_up().unwrap_or_else(|| panic!("{what} have no end")).to_string();
    assert!(why.starts_with(&format!("the tier has used up its {what} (")), "{why}");
    assert!(why.ends_with("drain it and format it anew"), "{why}");
    let refused = host.tier.stage_in(&PageId::volume(2, 1), &page(4096, 1), StageKind::Dirty, 0);
    if refused != StageIn::Refused {
        return false;
    }
    // A host that has admission resumed for reasons of its own changes nothing about that.
    host.tier.resume_admission();
    model.live(&mut host, 600);
    host.tier.check();
    model.check(&mut host);
    // Drained, closed and opened: everything is there and on disk.
    host.sync();
    host = host.reopen(false);
    model.check(&mut host);
    host.tier.begin_drain();
    while host.step() {}
    host.sync();
    let mut drained = mezzanine_engine::DrainCursor::default();
    loop {
        let pages = host.tier.drain_batch(&mut drained, 64);
        if pages.is_empty() {
            break;
        }
        for page in &pages {
            let bytes = host.read(page.id);
            host.disk.insert(page.id, bytes);
        }
        host.tier.mark_clean(&pages);
    }
    let mut host = host.reopen(true);
    model.check(&mut host);
    for (block, contents) in &model.0 {
        assert_eq!(
            host.disk.get(&PageId::volume(1, *block)),
            Some(&page(4096, *contents)),
            "block {block} on disk"
        );
    }
    true
}

#[test]
fn near_the_end_of_a_number_pages_are_refused_and_the_tier_can_be_left() {
    for design in [Design::FaceGsc, Design::FaceBasic, Design::Lru] {
        for (what, age) in near_each() {
            assert!(ends_in_order(design, what, &age), "{design:?}: {what}");
        }
    }
    for (what, age) in near_each() {
        set(Some(Bug::NumbersSpent));
        let refused = catch_unwind(|| ends_in_order(Design::FaceGsc, what, &age));
        set(None);
        assert!(!matches!(refused, Ok(true)), "NumbersSpent went unnoticed: {what}");
    }
}

#[test]
fn at_the_end_of_a_number_an_assertion_names_it() {
    let (end, far) = (Age::before_end(40), Age::before_reserve(1 << 20));
    let ages = [
        ("positions", Age { position: end.position, ..far }),
        ("numbers of groups", Age { sequence: Age::before_end(2).sequence, ..far }),
        ("versions", Age { version: end.version, ..far }),
    ];
    for (what, age) in ages {
        let why = refusal_to_open(Design::FaceGsc, &age).expect("next to nothing left");
        assert!(why.contains(&format!("used up its {what}")), "{why}");
        set(Some(Bug::LastNumbersOpened));
        let mut host = host(aged(&config(Design::FaceGsc), &age).unwrap(), 7);
        set(None);
        let died = catch_unwind(AssertUnwindSafe(|| {
            // Forgetting pages goes on in the reserve, and takes numbers.
            for block in 0..400 {
                let range = IdRange::blocks(1, block * 1000, 999);
                while host.tier.truncate(&range, &[block as u8; HOST_METADATA_BYTES]).is_err() {
                    assert!(host.step(), "a full tier must have a job");
                }
                host.sync();
            }
        }));
        let died = died.expect_err("numbers beyond the end");
        let message = died.downcast_ref::<String>().unwrap();
        assert!(message.contains(&format!("used up its {what}")), "{message}");
    }
}

/// A tier whose superblock has these numbers. What of them is used up, if it cannot be opened? One that can
/// is drained, closed and emptied.
fn refusal_to_open(design: Design, age: &Age) -> Option<String> {
    let (mut flash, superblock) = aged(&config(design), age).unwrap();
    let recovered = match flash.recover(&superblock) {
        Ok(recovered) => recovered,
        Err(RecoveryError::UsedUp(why)) => return Some(why.to_string()),
        Err(other) => panic!("{other}"),
    };
    let superblock = recovered.tier.closed(&recovered.superblock);
    assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), superblock);
    let emptied = superblock.discarded();
    assert_eq!(Superblock::decode(&emptied.encode()).unwrap(), emptied);
    None
}

/// The last epoch is for the superblock of a tier that is emptied: a drained close is what a refusal asks
/// for. It stopped with an assertion.
#[test]
fn a_tier_that_is_opened_can_be_left() {
    let far = Age::before_reserve(1 << 20);
    let epoch = |by| Age { epoch: Age::before_end(by).epoch, ..far };
    let generation = |by| Age { generation: Age::before_end(by).generation, ..far };
    for design in [Design::FaceGsc, Design::Lru] {
        assert_eq!(refusal_to_open(design, &epoch(3)), None);
        assert_eq!(refusal_to_open(design, &generation(1025)), None);
        for (age, what) in
            [(epoch(2), "epochs"), (epoch(1), "epochs"), (generation(1), "numbers of superblocks")]
        {
            let why = refusal_to_open(design, &age).unwrap();
            assert!(why.contains(&format!("used up its {what}")), "{why}");
            set(Some(Bug::LastNumbersOpened));
            let opened = catch_unwind(AssertUnwindSafe(|| refusal_to_open(design, &age)));
            set(None);
            let last = age.epoch == epoch(1).epoch;
            assert!(last || opened.is_err(), "LastNumbersOpened went unnoticed: {what}");
        }
    }
}

/// Whether numbers at their ends are refused, and those before them not.
fn impossible_numbers_are_damage() -> bool {
    let (last, end) = (Age::before_end(1), Age::before_end(0));
    let sound = |age: &Age| {
        let whole = |header: &SegmentHeader| SegmentHeader::decode(&header.encode()).is_ok();
        let group = |position, sequence| Record {
            kind: RecordKind::Group { position, sequence, pages: 1, records: 1, checksum: 1 },
            epoch: 1,
            version: Version::ZERO,
        };
        let tombstone =
            |version, epoch| Record { kind: RecordKind::Tombstone(IdRange::blocks(1, 2, 3)), epoch, version };
        let known = |record: Record| Record::decode(&record.encode()).is_some();
        let header = |age: &Age| SegmentHeader {
            tier_uuid: [7; 16],
            number: age.segment,
            epoch: age.epoch,
            records: 0,
            first_sequence: Sequence::from_number(1),
            first_position: Position::from_number(1),
            first_predecessor: 0,
            last_checksum: 0,
            end_sequence: age.sequence,
            end_position: age.position,
            front: Position::from_number(1),
            version_max: age.version,
            records_checksum: 0,
            share_rear: Position::from_number(1),
            share_first: 0,
            share_frames: 0,
            share_checksum: 0,
        };
        let slot =
            SlotEntry { id: PageId::volume(1, 2), checksum: 3, epoch: 1, version: age.version, lsn: 5 };
        let home = Frame::from_number(1);
        let head = SlotHead { epoch: 1, number: age.generation, host_metadata: [0; HOST_METADATA_BYTES] };
        [
            whole(&header(&Age { segment: age.segment, ..last })),
            whole(&header(&Age { sequence: age.sequence, ..last })),
            whole(&header(&Age { position: age.position, ..last })),
            whole(&header(&Age { version: age.version, ..last })),
            whole(&header(&Age { epoch: age.epoch, ..last })),
            known(group(age.position, Sequence::from_number(1))),
            known(group(Position::from_number(1), age.sequence)),
            known(tombstone(age.version, 1)),
            known(tombstone(Version::from_number(1), age.epoch)),
            SlotEntry::decode(&slot.encode(&[7; 16], home), &[7; 16], home).is_some(),
            SlotHead::decode(&head.encode(&[7; 16]), &[7; 16]).is_some(),
        ]
    };
    assert_eq!(sound(&last), [true; 11]);
    sound(&end) == [false; 11]
}

#[test]
fn numbers_that_do_not_exist_are_damage() {
    assert!(impossible_numbers_are_damage());
    set(Some(Bug::ImpossibleNumbersBelieved));
    let refused = impossible_numbers_are_damage();
    set(None);
    assert!(!refused, "ImpossibleNumbersBelieved went unnoticed");
}
