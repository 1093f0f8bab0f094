//! What a unit looks like on certain chips: which flash pages, how large a log sector is.
//!
//! ```text
//!   flash pages of a unit, programmed upwards
//!   │ slot │ slot │ slot │ log │ slot │ log │ blank …    log pages: `log_page_count_max` at most
//!                          ├ sector │ sector │ …         as many as a flash page takes programs
//! ```
//!
//! 1. Slots are taken only as long as the log pages that there may be have room behind them.
//! 2. Where an interrupted program of an odd flash page destroys the even one before it, a log page is
//!    an even one, and the odd one behind it stays blank.

use super::InPageLoggingSettings;
use super::record::{SECTOR_HEADER_BYTES, SPARE_BYTES};
use crate::StorageError;
use nandu_base::Ppn;
use nandu_device::raw_flash::{FlashGeometry, FlashInfo};

/// How flash pages of a unit are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    geometry: FlashGeometry,
    pub(super) page_bytes: u32,
    pub(super) blocks_per_unit: u32,
    /// Units of all chips, bad ones included.
    pub(super) unit_count: u32,
    /// Flash pages of a unit.
    pub(super) flash_page_count: u32,
    /// Flash pages of a slot, which holds a page.
    pub(super) slot_pages: u32,
    pub(super) log_page_count_max: u32,
    pub(super) sector_bytes: u32,
    pub(super) sectors_per_page: u32,
    pub(super) is_paired: bool,
}

impl Layout {
    /// The layout for pages of `page_bytes`.
    ///
    /// # Errors
    /// If the chips do not suit, with what would do.
    pub(super) fn new(
        info: &FlashInfo,
        page_bytes: u32,
        settings: &InPageLoggingSettings,
    ) -> Result<Self, StorageError> {
        let geometry = info.geometry;
        let flash_page_bytes = geometry.flash_page_bytes;
        let wanted_count = flash_page_bytes / settings.log_sector_bytes;
        let sectors_per_page = wanted_count.clamp(1, u32::from(info.programs_per_erase).max(1));
        let layout = Self {
            geometry,
            page_bytes,
            blocks_per_unit: settings.erase_blocks_per_unit,
            unit_count: geometry.erase_block_count / settings.erase_blocks_per_unit,
            flash_page_count: geometry
                .flash_pages_per_erase_block
                .saturating_mul(settings.erase_blocks_per_unit),
            slot_pages: page_bytes.div_ceil(flash_page_bytes),
            log_page_count_max: settings.log_region_bytes.div_ceil(flash_page_bytes),
            sector_bytes: flash_page_bytes / sectors_per_page,
            sectors_per_page,
            is_paired: info.has_paired_pages,
        };
        layout.check(info, settings)?;
        Ok(layout)
    }

    fn check(
        &self,
        info: &FlashInfo,
        settings: &InPageLoggingSettings,
    ) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        let (name, geometry) = (&info.name, &self.geometry);
        if geometry.spare_bytes < SPARE_BYTES {
            return invalid(format!(
                "{name} has spare areas of {} bytes, and in-page logging needs {SPARE_BYTES}; take \
                 other chips or another propagation",
                geometry.spare_bytes
            ));
        }
        if self.sector_bytes < 4 * SECTOR_HEADER_BYTES {
            return invalid(format!(
                "flash pages of {name} have {} bytes, which is too few for a log sector",
                geometry.flash_page_bytes
            ));
        }
        let region_bytes = settings.log_region_bytes;
        if self.log_page_count_max.saturating_mul(self.sectors_per_page) < 2 {
            return invalid(format!(
                "log_region_bytes {region_bytes} is one log sector of {name}: a flash page of {} bytes \
                 takes {} programs between two erases, so a log sector has {} bytes; choose {} at least",
                geometry.flash_page_bytes,
                info.programs_per_erase,
                self.sector_bytes,
                geometry.flash_page_bytes + 1
            ));
        }
        if self.slot_count() == 0 {
            return invalid(format!(
                "a log region of {region_bytes} bytes leaves no room for a page of {} bytes in a unit of \
                 {} flash pages of {} bytes; choose fewer log_region_bytes or more erase_blocks_per_unit",
                self.page_bytes, self.flash_page_count, geometry.flash_page_bytes
            ));
        }
        if self.slot_count() > u32::from(u16::MAX) {
            return invalid(format!(
                "a unit has {} pages of {} bytes, and may have {}; choose fewer erase_blocks_per_unit",
                self.slot_count(),
                self.page_bytes,
                u16::MAX
            ));
        }
        Ok(())
    }

    /// Pages that a unit holds at most.
    pub(super) fn slot_count(&self) -> u32 {
        let fits = |count: &u32| self.has_slot_behind(count.saturating_sub(1) * self.slot_pages, 0);
        let mut count = self.flash_page_count / self.slot_pages;
        while count > 0 && !fits(&count) {
            count -= 1;
        }
        count
    }

    /// Bytes of a record that a log sector holds.
    pub(super) const fn payload_bytes(&self) -> usize {
        (self.sector_bytes - SECTOR_HEADER_BYTES) as usize
    }

    /// Bytes of a page in each flash page of its slot, the last perhaps fewer.
    pub(super) const fn part_bytes(&self) -> usize {
        self.geometry.flash_page_bytes as usize
    }

    /// Erase blocks of a unit.
    pub(super) const fn erase_blocks(&self, unit: u32) -> std::ops::Range<u32> {
        unit * self.blocks_per_unit..(unit + 1) * self.blocks_per_unit
    }

    /// The erase block of a unit's flash page.
    pub(super) const fn erase_block(&self, unit: u32, index: u32) -> u32 {
        unit * self.blocks_per_unit + index / self.geometry.flash_pages_per_erase_block
    }

    /// The flash page at `index` of a unit.
    pub(super) const fn flash_page(&self, unit: u32, index: u32) -> Ppn {
        let in_block = index % self.geometry.flash_pages_per_erase_block;
        self.geometry.flash_page(self.erase_block(unit, index), in_block)
    }

    /// The first index from `index` on whose interrupted program destroys nothing before it.
    pub(super) const fn aligned(&self, index: u32) -> u32 {
        let in_block = index % self.geometry.flash_pages_per_erase_block;
        if self.is_paired && in_block % 2 == 1 { index + 1 } else { index }
    }

    /// Flash pages that a log page takes, with one that stays blank behind it.
    const fn log_page_step(&self) -> u32 {
        if self.is_paired { 2 } else { 1 }
    }

    /// Whether a slot fits at `next` and behind it the log pages that there may be beyond `log_used`.
    pub(super) const fn has_slot_behind(&self, next: u32, log_used: u32) -> bool {
        let left = self.log_page_count_max.saturating_sub(log_used) as u64;
        let end = self.aligned(next + self.slot_pages) as u64;
        end + left * self.log_page_step() as u64 <= self.flash_page_count as u64
    }

    /// Log pages that may still be taken.
    pub(super) fn log_pages_left(&self, next: u32, log_used: u32) -> u32 {
        let left = self.flash_page_count.saturating_sub(self.aligned(next));
        let behind = left / self.log_page_step();
        behind.min(self.log_page_count_max.saturating_sub(log_used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flash_page_bytes: u32, programs_per_erase: u8, is_paired: bool) -> FlashInfo {
        FlashInfo {
            name: "chips".into(),
            geometry: FlashGeometry {
                erase_block_count: 64,
                flash_pages_per_erase_block: 64,
                flash_page_bytes,
                spare_bytes: 64,
                die_count: 1,
            },
            programs_per_erase,
            is_ascending: true,
            has_paired_pages: is_paired,
            endurance: 0,
            queue_depth_max: 64,
        }
    }

    fn layout(
        info: &FlashInfo,
        page_bytes: u32,
        region_bytes: u32,
    ) -> Result<Layout, StorageError> {
        let settings =
            InPageLoggingSettings { log_region_bytes: region_bytes, ..Default::default() };
        Layout::new(info, page_bytes, &settings)
    }

    #[test]
    fn a_unit_of_the_paper_has_fifteen_pages_and_sixteen_log_sectors() {
        for (region_bytes, slot_count) in
            [(8 << 10, 15), (16 << 10, 14), (32 << 10, 12), (64 << 10, 8)]
        {
            let layout = layout(&info(2048, 4, false), 8192, region_bytes).unwrap();
            assert_eq!(layout.slot_count(), slot_count);
            assert_eq!((layout.slot_pages, layout.sector_bytes), (4, 512));
            assert_eq!(layout.log_page_count_max * layout.sectors_per_page, region_bytes / 512);
        }
    }

    #[test]
    fn a_log_sector_is_what_a_flash_page_takes_in_one_program() {
        let sector_bytes = |flash_page_bytes, programs_per_erase| {
            let info = info(flash_page_bytes, programs_per_erase, false);
            layout(&info, 4096, 64 << 10).unwrap().sector_bytes
        };
        assert_eq!(sector_bytes(2048, 8), 512);
        assert_eq!(sector_bytes(2048, 4), 512);
        assert_eq!(sector_bytes(2048, 3), 682);
        assert_eq!(sector_bytes(4096, 4), 1024);
        assert_eq!(sector_bytes(4096, 1), 4096);
        assert_eq!(sector_bytes(16 << 10, 1), 16 << 10);
    }

    #[test]
    fn small_settings_suit_all_chips_of_crashes() {
        for page_bytes in [512, 4096, 65_536] {
            for seed in 0..40_u32 {
                let settings = InPageLoggingSettings::small(page_bytes, seed.into());
                let flash_page_bytes = 512 << (seed % 4);
                let mut info =
                    info(flash_page_bytes, 1 + 3 * u8::from(seed / 4 % 2 == 1), seed / 8 % 2 == 0);
                info.geometry.flash_pages_per_erase_block = 16;
                let layout = Layout::new(&info, page_bytes, &settings).unwrap();
                assert!(layout.slot_count() > 1, "{layout:?}");
            }
        }
    }

    #[test]
    fn log_pages_of_paired_chips_take_two_and_begin_on_even_ones() {
        let layout = layout(&info(2048, 1, true), 4096, 8 << 10).unwrap();
        assert_eq!(layout.slot_count(), 28, "eight flash pages are for the log");
        assert_eq!((layout.aligned(6), layout.aligned(7)), (6, 8));
        assert_eq!(layout.log_pages_left(57, 1), 3);
        assert_eq!(layout.log_pages_left(63, 0), 0);
    }

    #[test]
    fn chips_that_do_not_suit_are_refused_with_what_would() {
        let told = |info: &FlashInfo, page_bytes, region_bytes| {
            layout(info, page_bytes, region_bytes).unwrap_err().to_string()
        };
        let mut without_spare = info(2048, 4, false);
        without_spare.geometry.spare_bytes = 16;
        assert!(told(&without_spare, 4096, 8192).contains("spare areas of 16 bytes"));
        let coarse = told(&info(16 << 10, 1, false), 4096, 8192);
        assert!(coarse.contains("a log sector has 16384 bytes; choose 16385 at least"), "{coarse}");
        let full = told(&info(2048, 4, false), 4096, 128 << 10);
        assert!(full.contains("leaves no room for a page of 4096 bytes"), "{full}");
    }
}
