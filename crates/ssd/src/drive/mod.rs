//! A drive: the link to the host, the write buffer, the translation layer and flash.

mod buffer;

mod condition;

mod repair;

mod timing;

use mezzanine_device::model::Operation;
use mezzanine_ground::random::splitmix;

use crate::ConfigError;
use crate::config::{CacheKind, FlushRule, SsdConfig};
use crate::counters::Counters;
use crate::ftl::Location;
use crate::link::Link;
use crate::nand::{Block, NandTimes};
use crate::power::Anomaly;
use crate::state::{Layout, Parts};

pub use condition::Condition;
pub use timing::InHand;

/// A modelled flash drive. Its state is kept by the caller ([`Timing`](mezzanine_device::model::Timing)).
#[derive(Debug, Clone)]
pub struct Ssd {
    name: String,
    config: SsdConfig,
    layout: Layout,
    nand: NandTimes,
    link: Link,
    condition: Condition,
    /// Mapping units of the host.
    logical_units: u32,
    /// Flash pages that the whole map takes.
    map_pages: u32,
    /// A mapping unit is 2 to this power bytes.
    unit_shift: u32,
    /// As [`SsdConfig::keeps_order`].
    keeps_order: bool,
}

/// What a write or a read covers, in mapping units.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u32,
    units: u32,
}

impl Ssd {
    /// # Errors
    /// The first parameter that cannot be.
    pub fn new(config: SsdConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let link = Link::new(&config.host, config.geometry.unit_bytes);
        let nand = NandTimes::new(&config.timings, &config.geometry);
        let condition = Condition::Fresh;
        Ok(Self {
            name: "the drive".to_owned(),
            layout: Layout::new(&config),
            nand,
            link,
            condition,
            logical_units: config.logical_units(),
            map_pages: config.map_pages(),
            unit_shift: config.geometry.unit_bytes.trailing_zeros(),
            keeps_order: config.keeps_order(),
            config,
        })
    }

    /// The same drive, which errors call by this name.
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same drive, which is brought into this condition before its first operation.
    pub fn beginning(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }

    /// What it is made of.
    pub fn config(&self) -> &SsdConfig {
        &self.config
    }

    /// Bytes of memory that a state takes.
    pub fn state_bytes(&self) -> u64 {
        8 * self.layout.len() as u64
    }

    /// What the drive has counted.
    pub fn counters(&self, state: &[u64]) -> Counters {
        self.layout.counters(state)
    }

    /// How often each erase block was erased.
    pub fn erases(&self, state: &[u64]) -> Vec<u32> {
        self.layout.blocks(state).iter().map(Block::erases).collect()
    }

    /// Looks at the whole state, and says what does not hold.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn check(&self, state: &mut [u64]) -> Result<(), String> {
        let parts = self.parts(state);
        if parts.words.made == 0 { Ok(()) } else { parts.ftl.check() }
    }

    #[inline]
    pub(crate) fn parts<'s>(&'s self, state: &'s mut [u64]) -> Parts<'s> {
        self.layout.parts(&self.config, &self.nand, state)
    }

    /// The state taken apart, and made ready if it was never used.
    fn ready<'s>(&'s self, state: &'s mut [u64]) -> Parts<'s> {
        if !self.layout.is_made(state) {
            self.prepare_unused(state);
        }
        self.parts(state)
    }

    /// Makes a drive that was never used of a state that is all zero.
    #[cold]
    fn make(&self, parts: &mut Parts<'_>) {
        // Which blocks are bad follows from their number alone: it is a model, not a lottery.
        let bad = u64::from(self.config.ftl.bad_blocks_per_thousand);
        let per_plane = self.config.geometry.blocks_per_plane;
        parts.ftl.array.format(|block| {
            let (plane, within) = (block / per_plane, block % per_plane);
            let turn = splitmix(u64::from(plane)) % 1000;
            // Evenly spread, so that no plane has more of them than its share.
            bad > 0
                && ((u64::from(within) + 1) * bad + turn) / 1000 != (u64::from(within) * bad + turn) / 1000
        });
        parts.ftl.clock.format(parts.ftl.array.planes);
        parts.words.made = 1;
    }

    /// The units that a range of bytes touches.
    fn span(&self, address: u64, len: u64) -> Span {
        let first = address >> self.unit_shift;
        let last = address.saturating_add(len.max(1) - 1) >> self.unit_shift;
        self.wrapped(first, last - first + 1)
    }

    /// An address past the end is that of a drive that begins again there.
    fn wrapped(&self, first: u64, units: u64) -> Span {
        let logical = u64::from(self.logical_units);
        let first = if first < logical { first } else { first % logical };
        Span { first: first as u32, units: units.min(logical) as u32 }
    }

    fn units(&self, span: Span) -> impl Iterator<Item = u32> + use<> {
        let logical = self.logical_units;
        (0..span.units).map(move |index| {
            let unit = span.first + index;
            if unit >= logical { unit - logical } else { unit }
        })
    }

    fn read(&self, parts: &mut Parts<'_>, now: u64, span: Span) -> u64 {
        let Parts { words, ftl, .. } = parts;
        let mut ready = now.max(words.flushed_at) + self.link.latency;
        if self.config.cache.reads_take_frames && words.filled - words.released >= ftl.frames.len() as u64 {
            let from = self.wait_for_frame(words, ftl, ready);
            if from > ready {
                ftl.counters.read_stalls += 1;
                ftl.counters.read_stall_ns += from - ready;
                ready = from;
            }
        }
        let mut done = ready;
        let mut run: Option<(u32, u32)> = None;
        for logical in self.units(span) {
            ftl.counters.units_read += 1;
            match ftl.location(logical) {
                Location::Nowhere => {}
                Location::Buffer(_) => ftl.counters.buffer_hits += 1,
                Location::Flash(unit) => {
                    let page = ftl.array.geometry.page_of(unit);
                    match &mut run {
                        Some((before, units)) if *before == page => *units += 1,
                        _ => {
                            if let Some((page, units)) = run.replace((page, 1)) {
                                done = done.max(ftl.read_page(page, units, ready));
                            }
                        }
                    }
                }
            }
        }
        if let Some((page, units)) = run {
            done = done.max(ftl.read_page(page, units, ready));
        }
        let over = self.link.over(&mut words.link_free_at, ready, span.units.into());
        over.max(done + self.link.transfer(span.units.into()))
    }

    fn write(&self, parts: &mut Parts<'_>, now: u64, span: Span, stream: u32, through: bool) -> u64 {
        let Parts { words, ftl, .. } = parts;
        let now = now.max(words.flushed_at) + self.link.latency;
        let here = self.link.over(&mut words.link_free_at, now, span.units.into())
            + u64::from(span.units) * self.link.write_unit;
        words.link_free_at = here;
        let stream = stream.min(self.config.ftl.streams - 1);
        let mut filled = here;
        for logical in self.units(span) {
            filled = filled.max(self.fill(words, ftl, filled, logical, stream));
        }
        self.start_waiting(words, ftl, filled);
        let waits = through || self.config.cache.kind == CacheKind::None;
        let in_flash = waits && !self.config.shows(Anomaly::Lost);
        words.units_since_flush += u64::from(span.units);
        if !in_flash {
            return filled;
        }
        let programmed = self.program_all(words, ftl, filled);
        // It is durable when the map says where it is, too.
        ftl.flush_journal(self.map_pages, self.logical_units, programmed)
    }

    /// Gives up the units that lie in the range as a whole. It may have to wait for the map's journal, as
    /// writes do: changed entries are bounded.
    fn discard(&self, parts: &mut Parts<'_>, now: u64, operation: Operation) -> u64 {
        let Parts { words, ftl, .. } = parts;
        let mut now = now.max(words.flushed_at) + self.link.latency;
        let done = self.link.over(&mut words.link_free_at, now, 0);
        let unit = u64::from(self.config.geometry.unit_bytes);
        let first = operation.address.div_ceil(unit);
        let units = (operation.address.saturating_add(operation.len) / unit).saturating_sub(first);
        let span = self.wrapped(first, units);
        for logical in self.units(span) {
            self.forget(words, ftl, logical, now);
            ftl.counters.units_discarded += 1;
            if ftl.has_changed_too_much() {
                now = ftl.keep_journal(self.map_pages, self.logical_units, now.max(*ftl.settled_at));
                // What comes after it must not be kept before it.
                words.flushed_at = words.flushed_at.max(now);
            }
        }
        done.max(now)
    }

    fn flush(&self, parts: &mut Parts<'_>, now: u64) -> u64 {
        let Parts { words, ftl, .. } = parts;
        let now = self.link.over(&mut words.link_free_at, now.max(words.flushed_at), 0);
        ftl.counters.flushes += 1;
        if self.config.cache.flush == FlushRule::OrderingPoint || self.config.shows(Anomaly::Lost) {
            return now;
        }
        let programmed = self.program_all(words, ftl, now);
        let kept = ftl.flush_journal(self.map_pages, self.logical_units, programmed);
        let firmware = self.config.cache.flush_us.after(std::mem::take(&mut words.units_since_flush));
        words.flushed_at = kept + (firmware * 1e3).round() as u64;
        words.flushed_at
    }
}
