//! What holds for every placement: the two that ship, and a third one (`scattered`). The host is that of the
//! other tests; what it is asked to do is drawn from a seed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::scattered::Places;
use crate::answers::{FlashPage, Lookup, StageKind};
use crate::config::{Design, TierConfig};
use crate::directory::{HOMED, VALID};
use crate::format::{GroupSummary, Record, RecordKind};
use crate::ids::{EntryNumber, Frame, IdRange, PageId, Sequence};
use crate::jobs::{Job, Written};
use common::{Host, carry_out, page};

#[path = "../../tests/common/mod.rs"]
mod common;

const PAGE: usize = 4096;
const FRAMES: u64 = 64;
/// More than any placement has room for.
const PAGES: u64 = 120;
const STEPS: u64 = 1500;
const SEEDS: u64 = 12;

fn config(design: Design) -> TierConfig {
    TierConfig {
        group_pages: 2,
        staging_groups: 2,
        survivors_max: 1,
        band_frames: 2,
        segment_frames: 8,
        ..TierConfig::of(design, PAGE as u32, FRAMES)
    }
}

/// A tier with pages scattered over `places`.
fn scattered(places: Places) -> Host {
    let mut host = Host::new(&config(Design::FaceBasic), 1);
    host.tier.geometry.places = Some(Arc::new(places));
    let end = host.tier.geometry.offset_of_frame(Frame(2 * FRAMES as u32));
    host.flash.0.resize(end as usize, 0);
    host
}

/// One of each placement.
fn hosts() -> Vec<(&'static str, Host)> {
    vec![
        ("queue", Host::new(&config(Design::FaceBasic), 1)),
        ("queue with second chances", Host::new(&config(Design::FaceGsc), 1)),
        ("in place", Host::new(&config(Design::Lc), 1)),
        ("scattered", scattered(Places::new(FRAMES, FRAMES))),
    ]
}

/// Byte offset on flash and version of a page.
type Copy = (u64, u64);

/// A host, and what it knows of each page.
struct Watched {
    host: Host,
    /// The version that was written last.
    newest: HashMap<PageId, u64>,
    /// That of disk, synced.
    synced: HashMap<PageId, u64>,
    /// The newest one that is durable on flash: where, and which. Of a page that was dropped, or has left,
    /// none, once that is durable.
    durable: HashMap<PageId, Copy>,
    /// What groups say that are written and not flushed.
    written: BTreeMap<Sequence, Vec<(Record, Option<Copy>)>>,
    seen: Vec<FlashPage>,
    version: u64,
}

impl Watched {
    fn new(host: Host) -> Self {
        Self {
            host,
            newest: HashMap::new(),
            synced: HashMap::new(),
            durable: HashMap::new(),
            written: BTreeMap::new(),
            seen: Vec::new(),
            version: 0,
        }
    }

    fn version_on(bytes: &[u8]) -> u64 {
        bytes.first_chunk().map_or(0, |version| u64::from_le_bytes(*version))
    }

    /// What the host does next, of its own accord.
    fn act(&mut self) {
        let id = PageId::volume(1, self.host.random(PAGES));
        match self.host.random(10) {
            0..4 => self.write(id),
            4..7 => self.read(id),
            7 => self.drop_page(id),
            _ => {
                self.step();
            }
        }
    }

    fn write(&mut self, id: PageId) {
        self.version += 1;
        let bytes = page(PAGE, self.version);
        while self.host.tier.stage_in(&id, &bytes, StageKind::Dirty, 0) == crate::answers::StageIn::Full {
            assert!(self.step(), "a full tier must have a job");
        }
        self.newest.insert(id, self.version);
    }

    fn read(&mut self, id: PageId) {
        let mut bytes = vec![0; PAGE];
        match self.host.tier.lookup(&id, &mut bytes) {
            Lookup::Memory => {}
            Lookup::Flash(found) => {
                bytes.copy_from_slice(self.on_flash(found.offset));
                assert!(self.host.tier.verify(&found, &bytes), "flash has what was staged in");
                assert!(self.host.tier.confirm(&found), "nothing has come between");
                self.seen.push(found);
            }
            Lookup::Miss(token) => {
                bytes = self.host.disk.get(&id).cloned().unwrap_or(vec![0; PAGE]);
                self.host.tier.stage_in(&id, &bytes, StageKind::Clean(Some(token)), 0);
            }
        }
        let expected = self.newest.get(&id).copied().unwrap_or(0);
        assert_eq!(Self::version_on(&bytes), expected, "invariant 2: the newest version is found");
    }

    /// The host writes the page elsewhere, and says so.
    fn drop_page(&mut self, id: PageId) {
        self.version += 1;
        self.host.disk.insert(id, page(PAGE, self.version));
        self.synced.insert(id, self.version);
        while self.host.tier.invalidate(&id).is_err() {
            assert!(self.step(), "a full tier must have a job");
        }
        while self.host.tier.stage_out_touches(&IdRange { start: id, count: 1, shift: 0 }) {
            assert!(self.step(), "stage-out under way must have a job");
        }
        self.host.disk.insert(id, page(PAGE, self.version));
        self.newest.insert(id, self.version);
    }

    fn on_flash(&self, offset: u64) -> &[u8] {
        &self.host.flash.0[offset as usize..][..PAGE]
    }

    fn step(&mut self) -> bool {
        let Some(mut job) = self.host.tier.next_job(1) else { return false };
        if let Job::WriteGroup(job) = &job {
            if let Written::Group(sequence) = job.what {
                self.written.insert(sequence, self.records_of(sequence));
            }
            for (offset, bytes) in job.writes() {
                for frame in (offset..offset + bytes.len() as u64).step_by(PAGE) {
                    Self::may_overwrite(&self.host, &self.durable, &self.synced, frame);
                }
            }
        }
        let (flushes, syncs) = (matches!(job, Job::FlushFlash(_)), matches!(job, Job::SyncDisk(_)));
        let disk: Vec<_> = match syncs {
            true => self.host.disk.iter().map(|(id, bytes)| (*id, Self::version_on(bytes))).collect(),
            false => Vec::new(),
        };
        carry_out(&mut self.host.flash, &mut self.host.disk, &mut job);
        self.host.tier.complete(job, Ok(()));
        self.synced.extend(disk);
        if flushes {
            self.note_durable();
        }
        true
    }

    /// Invariant 5: nothing lies there that a crash would need.
    fn may_overwrite(
        host: &Host,
        durable: &HashMap<PageId, Copy>,
        synced: &HashMap<PageId, u64>,
        offset: u64,
    ) {
        for (id, (_, version)) in durable.iter().filter(|(_, (at, _))| *at == offset) {
            let on_disk = synced.get(id).copied().unwrap_or(0);
            assert!(
                on_disk >= *version,
                "the only durable copy of {id:?} is overwritten: version {version}, disk has {on_disk}"
            );
        }
        let directory = host.tier.directory();
        for entry in EntryNumber::all(host.tier.geometry.entries()) {
            let flash_has = host.tier.position_of(entry) < host.tier.control().ends.staged_from()
                || directory.state(entry) & HOMED != 0;
            let lies_there =
                host.tier.geometry.offset_of_frame(host.tier.placement().frame_at(entry)) == offset;
            let linked = directory.state(entry) & VALID != 0;
            assert!(!(linked && flash_has && lies_there), "a page that readers find there is overwritten");
        }
    }

    /// What a group that is about to be written says: its records, and the place of each page.
    fn records_of(&self, sequence: Sequence) -> Vec<(Record, Option<Copy>)> {
        let tier = &self.host.tier;
        let group = tier.group_of(sequence);
        let summary_bytes = tier.geometry.summary_frames() as usize * PAGE;
        let summary = tier.staged_bytes(tier.group_memory(sequence), summary_bytes);
        let apart = tier.placement().writes(sequence).is_some();
        let mut index = 0;
        let records = (0..group.records() as usize).filter_map(|at| GroupSummary::record(summary, at));
        records
            .map(|record| {
                let RecordKind::Page { home, second_chance, .. } = record.kind else {
                    index += u64::from(matches!(record.kind, RecordKind::Void));
                    return (record, None);
                };
                let position = group.position() + tier.geometry.summary_frames() + index;
                let frame = if apart { home.0 } else { tier.entry_of(position).0 };
                let bytes = tier.staged_bytes(tier.staged_page(group, index), PAGE);
                index += 1;
                // One that stays where it is was only named again.
                let written = !(apart && second_chance);
                let place = (tier.geometry.offset_of_frame(Frame(frame)), Self::version_on(bytes));
                (record, written.then_some(place))
            })
            .collect()
    }

    /// A flush is done: so are the groups that it covers.
    fn note_durable(&mut self) {
        let flushed = self.host.tier.control().groups.flushed();
        let rest = self.written.split_off(&flushed);
        for (record, place) in std::mem::replace(&mut self.written, rest).into_values().flatten() {
            match (record.kind, place) {
                (RecordKind::Page { id, .. }, Some(place)) => {
                    self.durable.insert(id, place);
                }
                (RecordKind::Tombstone(range), _) => self.durable.retain(|id, _| !range.contains(id)),
                _ => {}
            }
        }
    }

    /// A page that was seen on flash before is confirmed only if its bytes are still there.
    fn check_seen(&mut self) {
        for found in self.seen.drain(..) {
            let bytes = &self.host.flash.0[found.offset as usize..][..PAGE];
            let right = crc32c::crc32c(bytes) == found.checksum;
            assert!(right || !self.host.tier.confirm(&found), "what is confirmed is what was seen");
        }
    }
}

fn conforms(host: Host, seed: u64) {
    let mut watched = Watched::new(host);
    watched.host.numbers = mezzanine_ground::random::Random::new(seed);
    for step in 0..STEPS {
        watched.act();
        if step % 16 == 0 {
            watched.host.tier.check();
        }
        // Seldom, so that the queue has come round meanwhile.
        if step % 500 == 499 {
            watched.check_seen();
        }
    }
    for block in 0..PAGES {
        watched.read(PageId::volume(1, block));
        watched.step();
    }
}

#[test]
fn every_placement_keeps_pages_and_frames_apart() {
    for seed in 0..SEEDS {
        for (name, host) in hosts() {
            let run = std::panic::AssertUnwindSafe(|| conforms(host, seed));
            assert!(std::panic::catch_unwind(run).is_ok(), "{name}, seed {seed}");
        }
    }
}

#[test]
#[should_panic(expected = "is overwritten")]
fn frames_that_are_free_too_early_are_noticed() {
    for seed in 0..SEEDS {
        conforms(scattered(Places::hasty(FRAMES, FRAMES)), seed);
    }
}

/// Planted faults of the two that ship are noticed, each by what it breaks.
#[cfg(feature = "planted")]
#[test]
fn planted_faults_of_placements_are_noticed() {
    use crate::planted::{self, Bug};

    let faults = [
        (Bug::HomeReusedEarly, Design::Lc, "the only durable copy"),
        (Bug::DirtyEvicted, Design::Lc, "invariant 2: the newest version is found"),
        (Bug::ReadUnconfirmed, Design::Lc, "what is confirmed is what was seen"),
        (Bug::ReadUnconfirmed, Design::FaceBasic, "what is confirmed is what was seen"),
    ];
    for (fault, design, breaks) in faults {
        let noticed = (0..SEEDS).any(|seed| {
            planted::set(Some(fault));
            let run = std::panic::AssertUnwindSafe(|| conforms(Host::new(&config(design), 1), seed));
            let outcome = std::panic::catch_unwind(run);
            planted::set(None);
            let said = outcome.err().and_then(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            });
            said.is_some_and(|said| said.contains(breaks))
        });
        assert!(noticed, "{fault:?} of {design}");
    }
}
