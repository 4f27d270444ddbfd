//! Flash without a translation layer: a drive of zones, read, programmed and erased as its host says.
//!
//! NFA ("Towards an Efficient Flash-Based Mid-Tier Cache", section 3.2) has its host manage erase blocks.
//! Here a host sees *zones* instead, each an erase block on every plane of a set: it programs them in order
//! and erases them as a whole, and there is no map, no collection and nothing held back. What a host of zones
//! writes over in place lies in a small conventional area, which is kept in two halves in turn (`area`).
//!
//! Invariants:
//! - *Z1*: a zone is programmed page by page in order, and only after an erase (N1).
//! - *Z2*: a write begins at the write pointer of its zone and ends within it.
//! - *Z3*: of the conventional area one half holds the newest version of every unit that was written; the
//!   other is erased when it becomes the one that is written.
//! - *Z4*: no more zones are written in part than the drive allows.

mod area;

mod layout;

use mezzanine_device::Zones;
use mezzanine_device::model::{Full, Operation, OperationKind, Progress, Submitted, Ticket, Timing};
use serde::Deserialize;

use crate::ConfigError;
use crate::config::SsdConfig;
use crate::counters::Counters;
use crate::link::Link;
use crate::nand::{Dimensions, NandTimes};
use layout::{Layout, Parts};

/// How the blocks of a drive make zones: the table `[ssd.zones]` of a model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesConfig {
    /// Planes that a zone has a block on.
    pub planes_per_zone: u32,
    /// Zones at the beginning that the host writes over in place. Each takes [`FLASH_PER_AREA`] zones of
    /// flash.
    pub conventional: u32,
    /// Zones that may be written in part at a time, neither empty nor full; 0 is no limit.
    #[serde(default)]
    pub max_active_zones: u32,
    /// Of these, those that may be open; 0 is no limit. Told to the host: a drive closes by itself what
    /// nothing is written to.
    #[serde(default)]
    pub max_open_zones: u32,
}

/// Zones of flash that a conventional one takes: two halves, each with as much room again as it holds.
pub const FLASH_PER_AREA: u32 = 4;

/// A modelled drive of zones. Its state is kept by the caller ([`Timing`]).
///
/// A unit that came without a partner for its page waits in a register, which capacitors carry through a
/// power cut, until the next one of its zone comes; so what is complete is durable, and a flush writes
/// nothing.
#[derive(Debug, Clone)]
pub struct ZonedSsd {
    config: SsdConfig,
    zones: ZonesConfig,
    layout: Layout,
    dimensions: Dimensions,
    nand: NandTimes,
    link: Link,
}

/// Where a run of units of the host lies.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u64,
    units: u64,
}

impl ZonedSsd {
    /// A drive of the flash and the link of `config`, whose translation layer and buffer it has not.
    ///
    /// # Errors
    /// The first parameter that cannot be.
    pub fn new(mut config: SsdConfig, zones: ZonesConfig) -> Result<Self, ConfigError> {
        // Nothing is held back.
        config.ftl.reserve_blocks_per_plane = 0;
        config.geometry.check()?;
        config.timings.check()?;
        config.check_host()?;
        let planes = config.geometry.planes();
        if zones.planes_per_zone == 0 || planes % zones.planes_per_zone != 0 {
            let reason = format!("must divide the {planes} planes, not {}", zones.planes_per_zone);
            return Err(ConfigError::new("planes_per_zone", reason));
        }
        let ZonesConfig { max_active_zones: active, max_open_zones: open, .. } = zones;
        if active > 0 && open > active {
            let reason = format!("must be no more than max_active_zones, {active}, not {open}");
            return Err(ConfigError::new("max_open_zones", reason));
        }
        let zone_bytes = u64::from(zones.planes_per_zone)
            * u64::from(config.geometry.units_per_block())
            * u64::from(config.geometry.unit_bytes);
        let (count, rest) = (config.capacity_bytes / zone_bytes, config.capacity_bytes % zone_bytes);
        let flash = u64::from(config.geometry.blocks() / zones.planes_per_zone);
        let taken = count + u64::from(zones.conventional) * u64::from(FLASH_PER_AREA - 1);
        if rest != 0 || count <= u64::from(zones.conventional) || taken > flash {
            let reason = format!(
                "must be whole zones of {zone_bytes} bytes, of which {} are conventional and take {FLASH_PER_AREA} \
                 times as much of the {flash} that flash has, not {}",
                zones.conventional, config.capacity_bytes
            );
            return Err(ConfigError::new("capacity_bytes", reason));
        }
        Ok(Self {
            layout: Layout::new(&config, &zones),
            dimensions: Dimensions::new(config.geometry),
            nand: NandTimes::new(&config.timings, &config.geometry),
            link: Link::new(&config.host, config.geometry.unit_bytes),
            zones,
            config,
        })
    }

    /// What it is made of; translation layer and buffer apart.
    pub fn config(&self) -> &SsdConfig {
        &self.config
    }

    /// Its zones, as a host sees them.
    pub fn zones(&self) -> Zones {
        let zone_len = self.zone_units() * u64::from(self.config.geometry.unit_bytes);
        Zones {
            zone_len,
            zone_capacity: zone_len,
            count: self.config.capacity_bytes / zone_len,
            conventional: self.zones.conventional.into(),
            open_max: self.zones.max_open_zones,
            active_max: self.zones.max_active_zones,
        }
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
        let zones = self.layout.erases(state);
        let sets = self.sets() as usize;
        let blocks = 0..self.config.geometry.blocks();
        let zone_of = |block: u32| {
            let (plane, within) = (
                block / self.config.geometry.blocks_per_plane,
                block % self.config.geometry.blocks_per_plane,
            );
            within as usize * sets + (plane / self.zones.planes_per_zone) as usize
        };
        blocks.map(|block| zones[zone_of(block)] as u32).collect()
    }

    /// Mapping units of a zone.
    fn zone_units(&self) -> u64 {
        u64::from(self.zones.planes_per_zone) * u64::from(self.config.geometry.units_per_block())
    }

    /// Sets of planes, over which neighbouring zones lie in turn.
    fn sets(&self) -> u32 {
        self.config.geometry.planes() / self.zones.planes_per_zone
    }

    /// Units of the conventional area.
    fn area_units(&self) -> u64 {
        u64::from(self.zones.conventional) * self.zone_units()
    }

    /// The zone of flash that the host's sequential zone with this number is.
    fn flash_zone(&self, zone: u64) -> u64 {
        let conventional = u64::from(self.zones.conventional);
        zone - conventional + conventional * u64::from(FLASH_PER_AREA)
    }

    fn span(&self, operation: &Operation) -> Span {
        let unit = u64::from(self.config.geometry.unit_bytes);
        let end = operation.address.saturating_add(operation.len.max(1)).div_ceil(unit);
        let first = operation.address / unit;
        Span { first, units: end - first }
    }

    /// The plane of a page of a zone of flash.
    fn plane_of(&self, zone: u64, page: u64) -> u32 {
        let set = (zone % u64::from(self.sets())) as u32;
        set * self.zones.planes_per_zone + (page % u64::from(self.zones.planes_per_zone)) as u32
    }

    /// Programs the next page of a zone of flash, and returns when it is there.
    ///
    /// # Panics
    /// If it is not the next one (Z1).
    fn program(&self, parts: &mut Parts<'_>, zone: u64, page: u64, not_before: u64) -> u64 {
        let programmed = &mut parts.pages[zone as usize];
        assert_eq!(*programmed, page, "Z1: pages of zone {zone} are programmed in order");
        *programmed += 1;
        let plane = self.plane_of(zone, page);
        let channel = self.dimensions.channel_of(plane);
        let done = parts.clock.program(&mut parts.planes[plane as usize], channel, not_before);
        parts.counters.pages_programmed += 1;
        parts.counters.busy_ns += self.nand.page_transfer + self.nand.program;
        done
    }

    /// Reads so many units of a page of a zone of flash, and returns when they are here.
    fn read_page(&self, parts: &mut Parts<'_>, zone: u64, page: u64, units: u32, not_before: u64) -> u64 {
        let plane = self.plane_of(zone, page);
        let channel = self.dimensions.channel_of(plane);
        parts.counters.pages_read += 1;
        parts.counters.busy_ns += self.nand.read + u64::from(units) * self.nand.unit_transfer;
        parts.clock.read(&mut parts.planes[plane as usize], channel, not_before, units)
    }

    /// Erases a zone of flash, on all of its planes at once, and returns when that is done. One that holds
    /// nothing is left as it is.
    fn erase(&self, parts: &mut Parts<'_>, zone: u64, not_before: u64) -> u64 {
        if std::mem::take(&mut parts.pages[zone as usize]) == 0 {
            return not_before;
        }
        parts.erases[zone as usize] += 1;
        let mut done = not_before;
        for page in 0..u64::from(self.zones.planes_per_zone) {
            let plane = &mut parts.planes[self.plane_of(zone, page) as usize];
            plane.free_at = plane.free_at.max(not_before) + self.nand.erase;
            done = done.max(plane.free_at);
            parts.counters.erases += 1;
            parts.counters.busy_ns += self.nand.erase;
        }
        done
    }

    fn write(&self, parts: &mut Parts<'_>, now: u64, span: Span) -> u64 {
        let here = self.link.over(&mut parts.words.link_free_at, now + self.link.latency, span.units);
        parts.counters.units_written += span.units;
        if span.first < self.area_units() {
            return self.write_area(parts, span, here);
        }
        let zone = span.first / self.zone_units();
        let (flash, from) = (self.flash_zone(zone), span.first % self.zone_units());
        let active_max = u64::from(self.zones.max_active_zones);
        if from == 0 && active_max > 0 {
            let active = self.active(parts);
            assert!(active < active_max, "Z4: zone {zone} is begun while {active} are written in part");
        }
        let written = &mut parts.units[flash as usize];
        assert_eq!(*written, from, "Z2: a write to zone {zone} begins at its write pointer");
        assert!(from + span.units <= self.zone_units(), "Z2: a write to zone {zone} ends within it");
        *written += span.units;
        // A page is programmed when all of its units are here.
        let (end, per_page) = (from + span.units, u64::from(self.config.geometry.units_per_page()));
        let mut done = here;
        for page in from / per_page..end / per_page {
            done = done.max(self.program(parts, flash, page, here));
            parts.counters.units_programmed += per_page;
        }
        done
    }

    fn read(&self, parts: &mut Parts<'_>, now: u64, span: Span) -> u64 {
        let ready = now + self.link.latency;
        parts.counters.units_read += span.units;
        let per_page = u64::from(self.config.geometry.units_per_page());
        let mut pages: Vec<(u64, u64, u32)> = Vec::new();
        for unit in span.first..span.first + span.units {
            let place = if unit < self.area_units() {
                self.area_place(parts, unit)
            } else {
                let flash = self.flash_zone(unit / self.zone_units());
                Some((flash, unit % self.zone_units()))
            };
            // What was never written is nowhere, and a unit without a partner is in the register.
            let Some((zone, at)) = place else { continue };
            let page = at / per_page;
            if page >= parts.pages[zone as usize] {
                // Of a zone that was finished nothing waits.
                let waits = at < parts.units[zone as usize] && page == parts.pages[zone as usize];
                let is_finished = parts.units[zone as usize] == self.zone_units();
                parts.counters.buffer_hits += u64::from(waits && !is_finished);
                continue;
            }
            match pages.last_mut() {
                Some((same, before, units)) if (*same, *before) == (zone, page) => *units += 1,
                _ => pages.push((zone, page, 1)),
            }
        }
        let mut done = ready;
        for (zone, page, units) in pages {
            done = done.max(self.read_page(parts, zone, page, units, ready));
        }
        let over = self.link.over(&mut parts.words.link_free_at, ready, span.units);
        over.max(done + self.link.transfer(span.units))
    }

    /// How many sequential zones are written in part.
    fn active(&self, parts: &Parts<'_>) -> u64 {
        let host = u64::from(self.zones.conventional)..self.zones().count;
        let written = |zone: &u64| parts.units[self.flash_zone(*zone) as usize];
        host.filter(|zone| (1..self.zone_units()).contains(&written(zone))).count() as u64
    }

    /// Has a zone full: a unit that waits for its partner is programmed without one.
    fn finish(&self, parts: &mut Parts<'_>, now: u64, address: u64) -> u64 {
        let here = self.link.over(&mut parts.words.link_free_at, now + self.link.latency, 0);
        let zone = address / u64::from(self.config.geometry.unit_bytes) / self.zone_units();
        assert!(
            zone >= u64::from(self.zones.conventional),
            "Z2: a zone that is finished is a sequential one"
        );
        let flash = self.flash_zone(zone);
        let per_page = u64::from(self.config.geometry.units_per_page());
        let written = std::mem::replace(&mut parts.units[flash as usize], self.zone_units());
        if written % per_page == 0 {
            return here;
        }
        parts.counters.units_programmed += written % per_page;
        parts.counters.units_padded += per_page - written % per_page;
        self.program(parts, flash, written / per_page, here)
    }

    fn reset(&self, parts: &mut Parts<'_>, now: u64, address: u64) -> u64 {
        let here = self.link.over(&mut parts.words.link_free_at, now + self.link.latency, 0);
        let zone = address / u64::from(self.config.geometry.unit_bytes) / self.zone_units();
        assert!(zone >= u64::from(self.zones.conventional), "Z2: a zone that is reset is a sequential one");
        let flash = self.flash_zone(zone);
        // A unit without a partner is gone with its zone.
        parts.units[flash as usize] = 0;
        self.erase(parts, flash, here)
    }
}

impl Timing for ZonedSsd {
    fn state_words(&self) -> usize {
        self.layout.len()
    }

    /// # Panics
    /// If a write, reset or finish breaks the rules of zones (Z2, Z4): a device that keeps what is written
    /// refuses it.
    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full> {
        let mut parts = self.layout.parts(&self.nand, state);
        let now = now.max(parts.words.now);
        parts.words.now = now;
        // A command begins when it has a place in the queue.
        let place = parts.queue.place(parts.words.commands, now);
        let begins = now.max(parts.queue.done[place]);
        let (span, end) = (self.span(&operation), operation.address.saturating_add(operation.len));
        let (done, sequential) = match operation.kind {
            OperationKind::Read => {
                let before = std::mem::replace(&mut parts.words.read_to, end);
                (self.read(&mut parts, begins, span), before == operation.address)
            }
            OperationKind::Write => {
                let before = std::mem::replace(&mut parts.words.written_to, end);
                (self.write(&mut parts, begins, span), before == operation.address)
            }
            OperationKind::Flush => {
                parts.counters.flushes += 1;
                (self.link.over(&mut parts.words.link_free_at, begins, 0), false)
            }
            OperationKind::Reset => (self.reset(&mut parts, begins, operation.address), false),
            OperationKind::Finish => (self.finish(&mut parts, begins, operation.address), false),
            OperationKind::Discard => (self.link.over(&mut parts.words.link_free_at, begins, 0), false),
        };
        parts.queue.done[place] = done;
        parts.words.commands += 1;
        Ok(Submitted { sequential, ticket: Ticket::known(done) })
    }

    fn progress(&self, _state: &mut [u64], _now: u64, ticket: &mut Ticket) -> Progress {
        Progress::At(ticket.completion().unwrap_or(0))
    }

    fn busy(&self, state: &[u64]) -> u64 {
        self.layout.counters(state).busy_ns
    }

    fn servers(&self) -> u32 {
        self.config.geometry.planes()
    }

    fn capacity(&self) -> u64 {
        self.config.capacity_bytes
    }

    /// What the drive holds is not known from anything but its state, so one that was left in the middle of a
    /// change is that of a new drive.
    fn repair(&self, state: &mut [u64], now: u64) {
        state.fill(0);
        self.layout.parts(&self.nand, state).words.now = now;
    }
}
