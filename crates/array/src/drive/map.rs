//! Where stripes lie: extents of stripes, each with a shape, in cells of equal size.
//!
//! ```text
//!   sectors    │ extent 0 │ extent 1 │ extent 2 │            stripes_per_extent stripes each
//!                   │          │           └─► cell 0, one copy
//!                   │          └─► cell 3, stripe
//!   each member│ cell 0 │ cell 1 │ cell 2 │ cell 3 │          rows of slots, rotated by their number
//! ```
//!
//! 1. A fixed array is one extent of one shape; its one cell is as long as its members.
//! 2. A cell holds an extent in any of the shapes; no two extents lie in one cell.
//! 3. A stripe has the same sectors of data in every shape; where they do not divide, the last data
//!    fragment ends in zeros.

use super::record::RECORD_SECTOR_COUNT;
use super::{AdaptiveConfig, ArrayConfig, DECODER_COUNT_MAX};
use crate::{ArrayError, Layout};
use nandu_base::to_index;
use nandu_ida::{Code, Matrix, Reconstructor};

/// A layout with the length of its fragments and its code.
pub(super) struct Shape {
    pub(super) layout: Layout,
    pub(super) fragment_sector_count: u32,
    pub(super) reconstructor: Reconstructor,
}

/// Where an extent lies, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) shape: usize,
    pub(super) cell: u64,
}

pub(super) struct StripeMap {
    pub(super) shapes: Vec<Shape>,
    /// Data sectors of a stripe.
    pub(super) stripe_sectors: u64,
    pub(super) stripes_per_extent: u64,
    /// Sectors of a cell on each member.
    pub(super) cell_sectors: u64,
    pub(super) places: Vec<Place>,
}

impl Shape {
    pub(super) fn new(layout: Layout, fragment_sector_count: u32) -> Self {
        let (needed, written) = (layout.needed_count(), layout.written_count());
        let code = Code::new(usize::from(needed), usize::from(written), Matrix::Cauchy);
        let code = code.expect("a layout has 1 <= m <= f <= 24");
        let reconstructor = Reconstructor::new(code, DECODER_COUNT_MAX);
        Self { layout, fragment_sector_count, reconstructor }
    }

    /// Sectors of a fragment with its head.
    pub(super) const fn slot_sectors(&self) -> u64 {
        self.fragment_sector_count as u64 + 1
    }

    /// Sectors on each member of `stripe_count` stripes.
    pub(super) fn extent_sectors(&self, stripe_count: u64) -> u64 {
        let slots = stripe_count * u64::from(self.layout.written_count());
        slots.div_ceil(u64::from(self.layout.member_count())) * self.slot_sectors()
    }
}

impl StripeMap {
    /// One shape for all stripes.
    pub(super) fn fixed(shape: Shape, stripe_count: u64) -> Self {
        let data_sectors = u64::from(shape.layout.needed_count());
        Self {
            stripe_sectors: data_sectors * u64::from(shape.fragment_sector_count),
            stripes_per_extent: stripe_count,
            cell_sectors: shape.extent_sectors(stripe_count),
            places: vec![Place { shape: 0, cell: 0 }],
            shapes: vec![shape],
        }
    }

    /// The shapes of `config` and of `adaptive`, in as many extents as members of `member_sectors`
    /// hold beside one free cell.
    ///
    /// # Errors
    /// [`ArrayError::Value`] if they hold none.
    pub(super) fn adaptive(
        config: &ArrayConfig,
        adaptive: &AdaptiveConfig,
        member_sectors: u64,
    ) -> Result<Self, ArrayError> {
        let mut layouts = vec![config.layout];
        layouts.extend(adaptive.layouts.iter().filter(|layout| **layout != config.layout));
        let shape = |layout: Layout| {
            let needed = u32::from(layout.needed_count());
            Shape::new(layout, adaptive.stripe_sector_count.div_ceil(needed))
        };
        let shapes: Vec<Shape> = layouts.into_iter().map(shape).collect();
        let stripes_per_extent = u64::from(adaptive.extent_stripe_count);
        let needs = shapes.iter().map(|shape| shape.extent_sectors(stripes_per_extent));
        let cell_sectors = needs.max().expect("there is a shape");
        let cell_count = member_sectors.saturating_sub(RECORD_SECTOR_COUNT) / cell_sectors;
        if cell_count < 2 {
            let what =
                format!("need {} sectors or more each", RECORD_SECTOR_COUNT + 2 * cell_sectors);
            return Err(ArrayError::Value { name: "members", what });
        }
        let places = (0..cell_count - 1).map(|cell| Place { shape: 0, cell }).collect();
        let stripe_sectors = u64::from(adaptive.stripe_sector_count);
        Ok(Self { shapes, stripe_sectors, stripes_per_extent, cell_sectors, places })
    }

    pub(super) fn extent_of(&self, stripe: u64) -> usize {
        to_index(stripe / self.stripes_per_extent)
    }

    pub(super) fn place_of(&self, stripe: u64) -> Place {
        self.places[self.extent_of(stripe)]
    }

    /// Member and first sector of fragment `number` of `stripe` at `place`.
    pub(super) fn slot(&self, place: Place, stripe: u64, number: u8) -> (usize, u64) {
        let shape = &self.shapes[place.shape];
        let members = u64::from(shape.layout.member_count());
        let index = stripe % self.stripes_per_extent;
        let position = index * u64::from(shape.layout.written_count()) + u64::from(number);
        let row = position / members;
        let sector = place.cell * self.cell_sectors + row * shape.slot_sectors();
        (to_index((position + row) % members), sector)
    }

    /// Asserts invariants 1 and 2, and that fragments of a stripe lie on different members.
    pub(super) fn audit(&self) {
        let mut cells: Vec<u64> = self.places.iter().map(|place| place.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), self.places.len(), "invariant 2");
        for shape in &self.shapes {
            let extent_sectors = shape.extent_sectors(self.stripes_per_extent);
            assert!(extent_sectors <= self.cell_sectors, "invariant 2");
        }
        for stripe in 0..64 {
            let place = self.places[0];
            let fragments = 0..self.shapes[place.shape].layout.written_count();
            let mut members: Vec<usize> =
                fragments.clone().map(|number| self.slot(place, stripe, number).0).collect();
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len(), fragments.len(), "fragments lie on different members");
        }
    }
}
