//! What the database does: one random operation at a time.

use mezzanine_engine::SyncMode;

use super::log::Change;
use super::logging::Logging;
use super::places::{Place, Unit};
use super::server::Server;
use crate::crash::driver::Stop;
use crate::crash::driver::weights;

impl Server<'_> {
    /// Draws one operation and carries it out.
    pub(super) fn operate(&mut self) -> Result<(), Stop> {
        self.world.life.operations += 1;
        self.world.waits = 0;
        match self.draw() {
            0 => self.change(),
            1 => self.read_any(),
            2 => self.commit(),
            3 => {
                let written = self.world.machine.log.write();
                self.world.done("write the log", written)
            }
            4 => self.victim().map_or(Ok(()), |victim| self.evict(victim)),
            5 => {
                self.tier.set_disk_utilisation(self.world.life.random.below(1001) as u32);
                self.work().map(|_| ())
            }
            6 => self.settle(),
            7 => match self.checkpoint.is_none() && self.world.life.random.chance(1, 4) {
                true => self.confirm_redo(),
                false => self.step_checkpoint(),
            },
            8 => self.drop_any(),
            9 => self.load(),
            10 => {
                match self.world.life.random.chance(1, 2) {
                    _ if !self.world.scenario.switches => {}
                    true => self.tier.stop_admission(),
                    false => self.tier.resume_admission(),
                }
                Ok(())
            }
            11 => self.worker_dies(),
            12 => {
                if self.world.scenario.resizes {
                    self.ask_for_resize();
                }
                Ok(())
            }
            _ => {
                let mode = *self.world.life.random.pick(SyncMode::ALL);
                let fixed = self.world.scenario.tier.design.has_slots();
                if self.world.scenario.switches && !fixed { self.switch_mode(mode) } else { Ok(()) }
            }
        }
    }

    fn draw(&mut self) -> usize {
        weights::draw(&self.world.scenario.weights.shares(), &mut self.world.life.random)
    }

    /// A place: most of the time a hot one.
    fn place(&mut self) -> Place {
        let scenario = &self.world.scenario;
        let hot = self.world.life.random.chance(scenario.hot_share, 16);
        let places = if hot { scenario.places_hot } else { scenario.space.places() };
        self.world.life.random.below(places.into()) as Place
    }

    fn read_any(&mut self) -> Result<(), Stop> {
        let place = self.place();
        match self.world.history.now().version(place) {
            Some(_) => self.fetch(place).map(|_| ()),
            None => self.check_absent(place),
        }
    }

    /// Changes a page, or makes it.
    fn change(&mut self) -> Result<(), Stop> {
        let place = self.place();
        self.change_page(place)
    }

    fn drop_any(&mut self) -> Result<(), Stop> {
        let units =
            [Unit::Page, Unit::Page, Unit::Blocks, Unit::Tail, Unit::Fork, Unit::Relation, Unit::Relation];
        let unit = match self.world.life.random.chance(1, 16) {
            true => Unit::Database,
            false => *self.world.life.random.pick(&units),
        };
        let place = self.place();
        let count = self.world.life.random.magnitude(8) as u32;
        let extent = self.world.scenario.space.extent(unit, place, count);
        self.drop_extent(extent)
    }

    /// Fills a relation without logging its pages, makes them durable by flushing its range, and only then
    /// logs that they are there.
    fn load(&mut self) -> Result<(), Stop> {
        let number = self.world.life.random.below(self.world.scenario.space.all_relations().into()) as u32;
        self.load_relation(number)
    }

    /// The same with the relation of this number, if it may be loaded.
    pub(super) fn load_relation(&mut self, number: u32) -> Result<(), Stop> {
        let relation = self.world.scenario.space.relation(number);
        // An older tier that knows the redo pointer does as well as the right one, but for pages that no log
        // knows.
        let older_tier = self.world.scenario.swaps && !self.disk_must_suffice();
        if older_tier || !self.world.may_load(number) {
            return Ok(());
        }
        self.world.orphaned[number as usize] = true;
        let mut pages = Vec::new();
        for place in relation.places() {
            if self.world.life.random.chance(1, 2) {
                let version = self.world.history.new_version();
                self.make_room()?;
                self.write_in_pool(place, version, 0);
                pages.push((place, version));
            }
        }
        self.flush_range(&relation)?;
        let world = &mut *self.world;
        for (place, version) in pages {
            let change = Change::Load { place, version };
            let lsn = world.history.append(&mut world.machine.log, change);
            world.life.tell(|| format!("record {lsn}: {change:?}"));
        }
        self.commit()?;
        self.world.orphaned[number as usize] = false;
        self.world.life.coverage.loads += 1;
        Ok(())
    }
}
