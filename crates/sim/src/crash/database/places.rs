//! Where pages live: a few databases of a few relations with their forks and blocks, each page with its place
//! on the disk.
//!
//! Places are numbered in the order of their ids, so that a run of blocks, a fork, a relation and a database
//! are each one run of places.

use std::ops::Range;

use mezzanine_engine::{IdRange, PageId};

/// The number of a page's place: on the disk it begins at this many pages.
pub type Place = u32;

/// The tablespace of every relation here.
const TABLESPACE: u32 = 1663;

/// How many of each there can be.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    /// Databases.
    pub databases: u32,
    /// Relations of a database.
    pub relations: u32,
    /// Forks of a relation.
    pub forks: u32,
    /// Blocks of a fork.
    pub blocks: u32,
}

/// What is dropped at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// One page.
    Page,
    /// Some blocks of a fork.
    Blocks,
    /// The end of a fork.
    Tail,
    /// A fork.
    Fork,
    /// A relation.
    Relation,
    /// A database.
    Database,
}

/// A run of places that is dropped at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// What it is.
    pub unit: Unit,
    /// The first place.
    pub first: Place,
    /// How many.
    pub count: u32,
}

impl Extent {
    /// The places.
    pub fn places(&self) -> Range<Place> {
        self.first..self.first + self.count
    }

    /// Whether `place` is one of them.
    pub fn contains(&self, place: Place) -> bool {
        self.places().contains(&place)
    }
}

impl Space {
    /// How many places there are.
    pub fn places(&self) -> u32 {
        self.databases * self.relation_places() * self.relations
    }

    fn relation_places(&self) -> u32 {
        self.forks * self.blocks
    }

    /// How many relations there are in all databases.
    pub fn all_relations(&self) -> u32 {
        self.databases * self.relations
    }

    /// The number of a place's relation, counted through all databases.
    pub fn relation_of(&self, place: Place) -> u32 {
        place / self.relation_places()
    }

    /// The id of the page at `place`.
    pub fn id(&self, place: Place) -> PageId {
        let block = place % self.blocks;
        let fork = place / self.blocks % self.forks;
        let relation = place / self.relation_places() % self.relations;
        let database = place / (self.relation_places() * self.relations);
        PageId::relation(database, TABLESPACE, relation, fork, block)
    }

    /// The place of a page id, if it is one of this space's.
    pub fn place(&self, id: &PageId) -> Option<Place> {
        let [database, _, relation, fork, block] = id.relation_parts();
        if database >= self.databases
            || relation >= self.relations
            || fork >= self.forks
            || block >= self.blocks
        {
            return None;
        }
        let place = ((database * self.relations + relation) * self.forks + fork) * self.blocks + block;
        (self.id(place) == *id).then_some(place)
    }

    /// The whole relation of this number, counted through all databases.
    pub fn relation(&self, number: u32) -> Extent {
        let count = self.relation_places();
        Extent { unit: Unit::Relation, first: number * count, count }
    }

    /// The unit of this kind around `place`; for blocks `count` of them at most.
    pub fn extent(&self, unit: Unit, place: Place, count: u32) -> Extent {
        let fork_first = place / self.blocks * self.blocks;
        let fork_end = fork_first + self.blocks;
        let whole = |size: u32| Extent { unit, first: place / size * size, count: size };
        match unit {
            Unit::Page => Extent { unit, first: place, count: 1 },
            Unit::Blocks => Extent { unit, first: place, count: count.clamp(1, fork_end - place) },
            Unit::Tail => Extent { unit, first: place, count: fork_end - place },
            Unit::Fork => whole(self.blocks),
            Unit::Relation => whole(self.relation_places()),
            Unit::Database => whole(self.relation_places() * self.relations),
        }
    }

    /// The ids of an extent, as the engine is told them: the unit itself, which may name more pages than
    /// there are places.
    pub fn ids(&self, extent: &Extent) -> IdRange {
        let [database, tablespace, relation, fork, block] = self.id(extent.first).relation_parts();
        match extent.unit {
            Unit::Page | Unit::Blocks => {
                IdRange::fork_blocks(database, tablespace, relation, fork, block, extent.count.into())
            }
            Unit::Tail => IdRange::fork_blocks(database, tablespace, relation, fork, block, u64::MAX),
            Unit::Fork => IdRange::fork(database, tablespace, relation, fork),
            Unit::Relation => IdRange::relation(database, tablespace, relation),
            Unit::Database => IdRange::database(database),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space { databases: 2, relations: 3, forks: 2, blocks: 5 };

    #[test]
    fn places_are_found_again_by_their_ids_and_lie_in_their_order() {
        for place in 0..SPACE.places() {
            assert_eq!(SPACE.place(&SPACE.id(place)), Some(place));
            assert!(place == 0 || SPACE.id(place - 1) < SPACE.id(place));
        }
        assert_eq!(SPACE.place(&PageId::from_bytes([9; 20])), None);
    }

    #[test]
    fn an_extent_and_its_ids_name_the_same_places() {
        for unit in [Unit::Page, Unit::Blocks, Unit::Tail, Unit::Fork, Unit::Relation, Unit::Database] {
            for place in 0..SPACE.places() {
                let extent = SPACE.extent(unit, place, 3);
                let ids = SPACE.ids(&extent);
                assert!(extent.contains(place));
                for other in 0..SPACE.places() {
                    assert_eq!(ids.contains(&SPACE.id(other)), extent.contains(other), "{extent:?} {other}");
                }
            }
        }
    }
}
