//! A geometry, and what follows from it: computed once, for it is asked for with every unit.

use std::ops::Deref;

use crate::divisor::Divisor;
use crate::geometry::Geometry;

/// A [`Geometry`] whose products and quotients are at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dimensions {
    geometry: Geometry,
    planes: u32,
    units_per_page: u32,
    units_per_block: u32,
    gain_units_min: u32,
    by_units_per_page: Divisor,
    by_units_per_block: Divisor,
    by_blocks_per_plane: Divisor,
    by_channels: Divisor,
}

impl Dimensions {
    /// Of a geometry that was checked.
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self {
            planes: geometry.planes(),
            units_per_page: geometry.units_per_page(),
            units_per_block: geometry.units_per_block(),
            gain_units_min: geometry.units_per_page(),
            by_units_per_page: Divisor::new(geometry.units_per_page()),
            by_units_per_block: Divisor::new(geometry.units_per_block()),
            by_blocks_per_plane: Divisor::new(geometry.blocks_per_plane),
            by_channels: Divisor::new(geometry.channels),
            geometry,
        }
    }

    /// The same, where collecting a block is to free so many units at least.
    pub(crate) fn with_gain(self, gain_units_min: u32) -> Self {
        Self { gain_units_min, ..self }
    }

    /// Units that collecting a block has to free at least.
    #[inline]
    pub(crate) fn gain_units_min(&self) -> u32 {
        self.gain_units_min
    }

    /// As [`Geometry::planes`].
    #[inline]
    pub(crate) fn planes(&self) -> u32 {
        self.planes
    }

    /// As [`Geometry::units_per_page`].
    #[inline]
    pub(crate) fn units_per_page(&self) -> u32 {
        self.units_per_page
    }

    /// As [`Geometry::units_per_block`].
    #[inline]
    pub(crate) fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    /// The flash page that a unit is in.
    #[inline]
    pub(crate) fn page_of(&self, unit: u32) -> u32 {
        self.by_units_per_page.quotient(unit)
    }

    /// Pages that so many units take.
    #[inline]
    pub(crate) fn pages_for(&self, units: u32) -> u32 {
        self.by_units_per_page.quotient(units + self.units_per_page - 1)
    }

    /// The block that a unit is in.
    #[inline]
    pub(crate) fn block_of(&self, unit: u32) -> u32 {
        self.by_units_per_block.quotient(unit)
    }

    /// The plane that a block is on.
    #[inline]
    pub(crate) fn plane_of(&self, block: u32) -> u32 {
        self.by_blocks_per_plane.quotient(block)
    }

    /// The channel that a plane is on. Neighbouring planes are on different ones.
    #[inline]
    pub(crate) fn channel_of(&self, plane: u32) -> u32 {
        self.by_channels.remainder(plane)
    }
}

impl Deref for Dimensions {
    type Target = Geometry;

    fn deref(&self) -> &Geometry {
        &self.geometry
    }
}
