//! BL, LPD and NFA ([`mezzanine_ssd::three_tier`]) under requests shaped like the buffer traces of the paper.
//!
//! The traces themselves are not public: the authors recorded those of TPC-C and TPC-H, and were given that
//! of TPC-E. What stands for them are streams of page references of this project's generators, over databases
//! of the published sizes. A stream goes on until NFA has collected as many blocks as the paper says it did,
//! so that all approaches have to do with as much as theirs had.

use mezzanine_ground::random::Random;
use mezzanine_ssd::ConfigError;
use mezzanine_ssd::three_tier::{Approach, Comparison, FlashConfig, Outcome, TopTier};
use mezzanine_trace::{Generate, Op, Shape};

/// Blocks that NFA collected under TPC-C (section 4.2).
pub const PUBLISHED_COLLECTIONS: u64 = 22_106;

/// Bytes of a page: what the paper reckons with (section 3.2).
pub const PAGE_BYTES: u32 = 8192;

/// What a buffer trace of the paper is called, and what stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferTrace {
    /// TPC-C.
    Tpcc,
    /// TPC-H.
    Tpch,
    /// TPC-E.
    Tpce,
}

impl BufferTrace {
    /// All of them, in the order of Table 1.
    pub const ALL: [Self; 3] = [Self::Tpcc, Self::Tpch, Self::Tpce];

    /// The benchmark's name.
    pub fn name(self) -> &'static str {
        ["TPC-C", "TPC-H", "TPC-E"][self as usize]
    }

    /// Pages of its database: the largest page number of the trace (Table 1).
    pub fn database_pages(self) -> u32 {
        [451_166, 1_051_590, 441_138_522][self as usize]
    }

    /// The shape that stands for it.
    pub fn shape(self) -> Shape {
        [Shape::Tpcc, Shape::Tpch, Shape::Tpce][self as usize]
    }
}

/// Hot pages that are referred to beside those of a shape, all of them equally often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HotPages {
    /// How many there are.
    pub pages: u32,
    /// Share of all references that are theirs; from 0, and below 1.
    pub share: f64,
    /// Share of these references that change their page, from 0 to 1.
    pub written: f64,
}

impl HotPages {
    /// Shapes have fewer pages than this: hot pages are numbered from here.
    const FIRST: u64 = 1 << 32;
    const UNIT: u64 = 1 << 30;

    /// The hot page that is referred to before the shape's next one, and whether it is changed; `None` once
    /// it is the shape's turn.
    ///
    /// # Panics
    /// If there are no pages.
    pub fn draw(&self, random: &mut Random) -> Option<(u64, bool)> {
        let of_unit = |share: f64| (share * Self::UNIT as f64) as u64;
        if !random.chance(of_unit(self.share), Self::UNIT) {
            return None;
        }
        let page = Self::FIRST + random.below(self.pages.into());
        Some((page, random.chance(of_unit(self.written), Self::UNIT)))
    }
}

/// How long a comparison goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// Blocks that NFA is to collect.
    pub collections: u64,
    /// References of the database at most.
    pub references: u64,
}

impl Until {
    /// As far as the paper's TPC-C run went; with a bound that none of the shapes comes near.
    pub const PUBLISHED: Self = Self { collections: PUBLISHED_COLLECTIONS, references: 1_000_000_000 };
}

/// What came of the approaches under a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// References of the database.
    pub references: u64,
    /// Requests that they made of each middle tier.
    pub requests: u64,
    /// Different pages that were referred to.
    pub distinct_pages: u64,
    /// By approach, in the order in which they were asked for.
    pub outcomes: Vec<Outcome>,
}

/// Runs the approaches, of which NFA is one, on flash and with a top tier of the published size.
///
/// # Errors
/// If one of the numbers cannot be, which the published ones can.
pub fn compare(
    trace: BufferTrace,
    seed: u64,
    approaches: &[Approach],
    until: Until,
) -> Result<Compared, ConfigError> {
    let comparison = Comparison::new(approaches, FlashConfig::default(), TopTier::PUBLISHED_FRAMES)?;
    let references = until.references;
    let generate = Generate {
        page_bytes: PAGE_BYTES,
        ..Generate::new(trace.shape(), trace.database_pages(), references, seed)
    };
    let generator = generate.generate().expect("the published databases can be generated");
    let changes = generator.filter(|request| matches!(request.op, Op::Read | Op::Write));
    let mut race = Race::new(comparison);
    for request in changes {
        race.refer(request.page, request.op == Op::Write);
        if race.collections() >= until.collections {
            break;
        }
    }
    Ok(race.finish())
}

/// A comparison whose pages have any numbers.
pub struct Race {
    comparison: Comparison,
    numbers: mezzanine_trace::Dense,
    collections: u64,
}

impl Race {
    /// Nothing was referred to yet.
    pub fn new(comparison: Comparison) -> Self {
        Self { comparison, numbers: mezzanine_trace::Dense::new(), collections: 0 }
    }

    /// The database refers to a page, and perhaps changes it.
    pub fn refer(&mut self, page: u64, changes: bool) {
        let page = self.numbers.number(page);
        if self.comparison.refer(page, changes) {
            self.collections = self.comparison.collections(Approach::Nfa).unwrap_or(0);
        }
    }

    /// Blocks that NFA has collected; 0 if it is not among the approaches.
    pub fn collections(&self) -> u64 {
        self.collections
    }

    /// Different pages that were referred to.
    pub fn distinct_pages(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// What came of it.
    pub fn finish(self) -> Compared {
        Compared {
            references: self.comparison.references(),
            requests: self.comparison.requests(),
            distinct_pages: self.distinct_pages(),
            outcomes: self.comparison.outcomes(),
        }
    }
}
