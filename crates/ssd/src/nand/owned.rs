//! A flash array with memory of its own.

use crate::ConfigError;
use crate::geometry::Geometry;

use super::{Array, Block, Dimensions, Plane};

/// What an [`Array`] is made of, kept here; of a drive the caller keeps it.
#[derive(Debug, Clone)]
pub struct OwnedArray {
    geometry: Dimensions,
    planes: Box<[Plane]>,
    blocks: Box<[Block]>,
    heads: Box<[u32]>,
    spare: Box<[u32]>,
    vouched: Box<[u64]>,
    closings: u64,
}

fn zeroed<T: bytemuck::Zeroable>(count: usize) -> Box<[T]> {
    std::iter::repeat_with(T::zeroed).take(count).collect()
}

impl OwnedArray {
    /// An array with all of its blocks erased.
    ///
    /// # Errors
    /// The first number of the geometry that cannot be.
    pub fn new(geometry: Geometry) -> Result<Self, ConfigError> {
        geometry.check()?;
        let planes = geometry.planes() as usize;
        let mut owned = Self {
            geometry: Dimensions::new(geometry),
            planes: zeroed(planes),
            blocks: zeroed(geometry.blocks() as usize),
            heads: zeroed(planes * (geometry.units_per_block() as usize + 1)),
            spare: zeroed(geometry.units() as usize),
            vouched: zeroed((geometry.units() as usize).div_ceil(64)),
            closings: 0,
        };
        owned.array().format(|_| false);
        Ok(owned)
    }

    /// The array.
    #[inline]
    pub fn array(&mut self) -> Array<'_> {
        Array::new(
            &self.geometry,
            &mut self.planes,
            &mut self.blocks,
            &mut self.heads,
            &mut self.spare,
            &mut self.vouched,
            &mut self.closings,
        )
    }

    /// How its flash is laid out.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// As [`Array::erased`].
    #[inline]
    pub fn erased(&self, plane: u32) -> u32 {
        self.planes[plane as usize].erased
    }

    /// As [`Array::spare`].
    #[inline]
    pub fn spare(&self, unit: u32) -> u32 {
        self.spare[unit as usize]
    }

    /// How often each block was erased.
    pub fn erases(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.erases).collect()
    }
}
