//! The shape of a chip array and how its erase blocks are numbered.
//!
//! Consecutive erase blocks lie on different dies, consecutive dies on different channels:
//!
//! ```text
//! die     = erase_block mod die_count          die_count = channel_count * dies_per_channel
//! channel = die mod channel_count
//! plane   = (erase_block / die_count) mod planes_per_die
//! row     = erase_block / (die_count * planes_per_die)
//!
//! 2 channels, 1 die each, 2 planes:   row 0          row 1
//!   channel 0 die 0  plane 0            0              4
//!                    plane 1            2              6
//!   channel 1 die 1  plane 0            1              5
//!                    plane 1            3              7
//! ```
//!
//! 1. Flash page = erase block * flash pages per erase block + index.
//! 2. The erase blocks of one (die, row) form a plane group: one multi-plane command reaches them all.

use crate::NandError;
use nandu_base::{Ppn, to_index, to_u32};
use serde::{Deserialize, Serialize};

/// Division by a number that is usually a power of two, without the cost of a division then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    value: u64,
    shift: Option<u32>,
}

impl Divisor {
    /// A divisor of 1 or more.
    ///
    /// # Panics
    /// If `value` is zero.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        assert!(value > 0, "nothing is divided by zero");
        let shift = if value.is_power_of_two() { Some(value.trailing_zeros()) } else { None };
        Self { value, shift }
    }

    /// The quotient and the remainder of `number` by this divisor.
    #[inline]
    #[must_use]
    pub const fn div_rem(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.value - 1)),
            None => (number / self.value, number % self.value),
        }
    }

    /// The divisor as a number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.value
    }
}

/// How many of everything. All counts are 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels, each with a bus of its own.
    pub channel_count: u32,
    /// Dies that share a channel.
    pub dies_per_channel: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub erase_blocks_per_plane: u32,
    /// Flash pages of an erase block.
    pub flash_pages_per_erase_block: u32,
    /// Data bytes of a flash page, a power of two.
    pub flash_page_bytes: u32,
    /// Spare bytes of a flash page, moved over the bus in proportion to the data.
    pub spare_bytes: u32,
}

impl Geometry {
    /// Checks that the array can be built: counts of 1 or more, at most 32 planes, a power of two as
    /// page size, fewer than 2^32 erase blocks and fewer than 2^63 bytes.
    ///
    /// # Errors
    /// [`NandError::Configuration`] names the field and what it may be.
    pub fn validate(&self) -> Result<(), NandError> {
        let fail = |text: String| Err(NandError::Configuration(text));
        for (name, value) in [
            ("channel_count", self.channel_count),
            ("dies_per_channel", self.dies_per_channel),
            ("planes_per_die", self.planes_per_die),
            ("erase_blocks_per_plane", self.erase_blocks_per_plane),
            ("flash_pages_per_erase_block", self.flash_pages_per_erase_block),
            ("flash_page_bytes", self.flash_page_bytes),
        ] {
            if value == 0 {
                return fail(format!("geometry: {name} is 0, must be at least 1"));
            }
        }
        if !self.flash_page_bytes.is_power_of_two() {
            let bytes = self.flash_page_bytes;
            return fail(format!("geometry: flash_page_bytes is {bytes}, must be a power of two"));
        }
        if self.planes_per_die > 32 {
            let planes = self.planes_per_die;
            return fail(format!("geometry: planes_per_die is {planes}, must be at most 32"));
        }
        let erase_blocks = u64::from(self.channel_count)
            .checked_mul(u64::from(self.dies_per_channel))
            .and_then(|count| count.checked_mul(u64::from(self.planes_per_die)))
            .and_then(|count| count.checked_mul(u64::from(self.erase_blocks_per_plane)))
            .filter(|&count| count < u64::from(u32::MAX));
        let bytes = erase_blocks
            .and_then(|count| count.checked_mul(u64::from(self.flash_pages_per_erase_block)))
            .and_then(|count| count.checked_mul(u64::from(self.flash_page_bytes)))
            .filter(|&count| count < 1 << 63);
        if bytes.is_none() {
            return fail("geometry: more than 2^32 erase blocks or 2^63 bytes".into());
        }
        Ok(())
    }

    /// Dies of all channels.
    #[must_use]
    pub const fn die_count(&self) -> u32 {
        self.channel_count * self.dies_per_channel
    }

    /// Erase blocks of the whole array, bad ones included.
    #[must_use]
    pub const fn erase_block_count(&self) -> u32 {
        self.die_count() * self.planes_per_die * self.erase_blocks_per_plane
    }

    /// Flash pages of the whole array.
    #[must_use]
    pub const fn flash_page_count(&self) -> u64 {
        self.erase_block_count() as u64 * self.flash_pages_per_erase_block as u64
    }

    /// Data bytes of the whole array.
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.flash_page_count() * self.flash_page_bytes as u64
    }

    /// Data bytes of an erase block.
    #[must_use]
    pub const fn erase_block_bytes(&self) -> u64 {
        self.flash_pages_per_erase_block as u64 * self.flash_page_bytes as u64
    }

    /// The flash page at `index` of `erase_block` (invariant 1).
    #[inline]
    #[must_use]
    pub const fn flash_page(&self, erase_block: u32, index: u32) -> Ppn {
        Ppn(erase_block as u64 * self.flash_pages_per_erase_block as u64 + index as u64)
    }

    /// Erase block and index of a flash page inside the range.
    #[must_use]
    pub fn locate(&self, flash_page: Ppn) -> (u32, u32) {
        let pages = u64::from(self.flash_pages_per_erase_block);
        (to_u32(flash_page.0 / pages), to_u32(flash_page.0 % pages))
    }

    /// The die of an erase block.
    #[must_use]
    pub const fn die_of(&self, erase_block: u32) -> u32 {
        erase_block % self.die_count()
    }

    /// The channel of a die.
    #[must_use]
    pub const fn channel_of(&self, die: u32) -> u32 {
        die % self.channel_count
    }

    /// The plane of an erase block, inside its die.
    #[must_use]
    pub const fn plane_of(&self, erase_block: u32) -> u32 {
        erase_block / self.die_count() % self.planes_per_die
    }

    /// The row of an erase block inside its plane.
    #[must_use]
    pub const fn row_of(&self, erase_block: u32) -> u32 {
        erase_block / (self.die_count() * self.planes_per_die)
    }

    /// The erase block at (die, plane, row); the inverse of the three functions above.
    #[must_use]
    pub const fn erase_block_at(&self, die: u32, plane: u32, row: u32) -> u32 {
        (row * self.planes_per_die + plane) * self.die_count() + die
    }

    /// Bytes that cross the bus with `data_bytes` of a flash page: the spare bytes that hold the error
    /// correction of that part come along.
    #[must_use]
    pub const fn bus_bytes(&self, data_bytes: u32) -> u64 {
        let spare = data_bytes as u64 * self.spare_bytes as u64;
        data_bytes as u64 + spare.div_ceil(self.flash_page_bytes as u64)
    }

    pub(crate) fn page_slots(&self, units_per_flash_page: u32) -> usize {
        to_index(self.flash_page_count() * u64::from(units_per_flash_page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry {
        channel_count: 2,
        dies_per_channel: 3,
        planes_per_die: 2,
        erase_blocks_per_plane: 5,
        flash_pages_per_erase_block: 4,
        flash_page_bytes: 2048,
        spare_bytes: 64,
    };

    #[test]
    fn numbering_is_a_bijection_and_neighbours_lie_on_different_dies() {
        for erase_block in 0..SMALL.erase_block_count() {
            let (die, plane) = (SMALL.die_of(erase_block), SMALL.plane_of(erase_block));
            let row = SMALL.row_of(erase_block);
            assert_eq!(SMALL.erase_block_at(die, plane, row), erase_block);
            assert!(die < 6 && plane < 2 && row < 5);
            assert_ne!(die, SMALL.die_of(erase_block + 1));
            assert_eq!(SMALL.locate(SMALL.flash_page(erase_block, 3)), (erase_block, 3));
        }
    }

    #[test]
    fn unusable_geometry_is_refused_by_field() {
        let broken = |change: fn(&mut Geometry)| {
            let mut geometry = SMALL;
            change(&mut geometry);
            geometry.validate().unwrap_err().to_string()
        };
        assert!(broken(|g| g.channel_count = 0).contains("channel_count is 0"));
        assert!(broken(|g| g.flash_page_bytes = 0).contains("flash_page_bytes is 0"));
        assert!(broken(|g| g.flash_page_bytes = 3000).contains("power of two"));
        assert!(broken(|g| g.planes_per_die = 64).contains("at most 32"));
        assert!(broken(|g| g.erase_blocks_per_plane = u32::MAX).contains("2^32"));
        assert!(
            broken(|g| (g.channel_count, g.dies_per_channel) = (u32::MAX, u32::MAX))
                .contains("2^32")
        );
        assert_eq!(SMALL.validate(), Ok(()));
    }

    #[test]
    fn spare_bytes_travel_in_proportion() {
        assert_eq!(SMALL.bus_bytes(2048), 2112);
        assert_eq!(SMALL.bus_bytes(512), 528);
        assert_eq!(SMALL.bus_bytes(1), 2);
        assert_eq!(SMALL.bus_bytes(0), 0);
    }

    #[test]
    fn divisors_divide() {
        for value in [1, 2, 3, 64, 96] {
            for number in [0, 1, 63, 64, 65, 1_000_003] {
                assert_eq!(Divisor::new(value).div_rem(number), (number / value, number % value));
            }
        }
    }
}
