//! A small database with a log, which may leave out what it should do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Device, MemoryDevice};
use mezzanine_ground::random::Random;
use mezzanine_recording::{Cut, History, Recorder, Verdict};

pub(crate) const LOG_AT: u64 = 4096;
pub(crate) const PAGES_AT: u64 = 64 << 10;
const RECORD: usize = 512;
const PAGE: usize = 4096;
const PAGES: u64 = 8;
const LOG_RECORDS: u64 = 40;
pub(crate) const LEN: u64 = PAGES_AT + PAGES * PAGE as u64;

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omission {
    Nothing,
    /// A commit is acknowledged before its record is flushed.
    LogFlush,
    /// The log is emptied before the pages that it was for are flushed.
    PageFlush,
    /// A page is written in place before its record is flushed.
    LogFirst,
    /// Redo trusts the first word of a page, though its write may be torn.
    TornPages,
    /// Redo trusts the last word of a page.
    TornPageEnds,
}

struct Ledger<'d> {
    device: &'d dyn Device,
    omission: Omission,
    generation: u64,
    records: u64,
    pages: BTreeMap<u64, u64>,
    value: u64,
}

fn sealed(words: [u64; 4]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(RECORD, 0);
    bytes
}

fn opened(bytes: &[u8]) -> Option<[u64; 4]> {
    let sum = u32::from_le_bytes(bytes[32..36].try_into().unwrap());
    (crc32c::crc32c(&bytes[..32]) == sum)
        .then(|| std::array::from_fn(|at| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap())))
}

fn page_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

impl Ledger<'_> {
    fn flush_unless(&self, omission: Omission) {
        if self.omission != omission {
            self.device.flush().unwrap();
        }
    }

    fn commit(&mut self, page: u64) {
        self.value += 1;
        let record = sealed([self.generation, self.records, page, self.value]);
        self.device.write_at(&record, LOG_AT + self.records * RECORD as u64).unwrap();
        self.records += 1;
        if self.omission == Omission::LogFirst {
            self.device.write_at(&page_of(self.value), PAGES_AT + page * PAGE as u64).unwrap();
        }
        self.flush_unless(Omission::LogFlush);
        self.pages.insert(page, self.value);
    }

    fn checkpoint(&mut self) {
        for (page, value) in &self.pages {
            self.device.write_at(&page_of(*value), PAGES_AT + page * PAGE as u64).unwrap();
        }
        self.flush_unless(Omission::PageFlush);
        self.generation += 1;
        self.device.write_at(&sealed([self.generation, 0, 0, 0]), 0).unwrap();
        self.device.flush().unwrap();
        (self.records, self.pages) = (0, BTreeMap::new());
    }
}

/// Has the database work, and records it.
pub(crate) fn record(path: &Path, omission: Omission, seed: u64) -> History {
    let device = Arc::new(MemoryDevice::new(LEN));
    device.write_at(&sealed([1, 0, 0, 0]), 0).unwrap();
    device.flush().unwrap();
    let recorder = Recorder::begin(device, path).unwrap();
    let mut random = Random::new(seed);
    let mut ledger =
        Ledger { device: &recorder, omission, generation: 1, records: 0, pages: BTreeMap::new(), value: 0 };
    for _ in 0..200 {
        let page = random.below(PAGES);
        ledger.commit(page);
        recorder.mark(&format!("{page} {}", ledger.value)).unwrap();
        if ledger.records + 2 > LOG_RECORDS || random.chance(1, 15) {
            ledger.checkpoint();
        }
    }
    recorder.save().unwrap();
    History::open(path).unwrap()
}

/// Recovers the database, and compares it with what was acknowledged.
pub(crate) fn judge(history: &History, omission: Omission, cut: &Cut, image: &Path) -> Verdict {
    history.make(cut, image).unwrap();
    let contents = fs::read(image).unwrap();
    let Some([generation, ..]) = opened(&contents[..RECORD]) else {
        return Verdict::Broken("no head".to_owned());
    };
    let mut pages: Vec<Vec<u8>> =
        contents[PAGES_AT as usize..].chunks_exact(PAGE).map(<[u8]>::to_vec).collect();
    for number in 0..LOG_RECORDS + 2 {
        let at = LOG_AT as usize + number as usize * RECORD;
        let Some([of, index, page, value]) = opened(&contents[at..at + RECORD]) else { break };
        if of != generation || index != number {
            break;
        }
        let word_at = if omission == Omission::TornPageEnds { PAGE - 8 } else { 0 };
        let there = u64::from_le_bytes(pages[page as usize][word_at..][..8].try_into().unwrap());
        let trusts = matches!(omission, Omission::TornPages | Omission::TornPageEnds);
        if !trusts || there < value {
            pages[page as usize] = page_of(value);
        }
    }
    let mut acknowledged = BTreeMap::new();
    for (_, mark) in history.marks(cut.at).unwrap() {
        let (page, value) = mark.split_once(' ').unwrap();
        acknowledged.insert(page.parse::<u64>().unwrap(), value.parse::<u64>().unwrap());
    }
    for (number, page) in pages.iter().enumerate() {
        let value = u64::from_le_bytes(page[..8].try_into().unwrap());
        if *page != page_of(value) {
            return Verdict::Broken(format!("page {number} is torn"));
        }
        let least = acknowledged.get(&(number as u64)).copied().unwrap_or(0);
        if value < least {
            return Verdict::Broken(format!("page {number} has {value}, and {least} was acknowledged"));
        }
    }
    Verdict::InOrder
}
