//! The one chip of a comparison, what lies between it and a page, and what its commands take.
//!
//! 1. Whatever lies between, the chip has as many erase blocks: what pages and a layer leave of it is spare.

use crate::error::LabError;
use crate::kind::engine_set::EngineSet;
use crate::kind::site::{Site, SiteDrive};
use nandu::PropagationKind;
use nandu_base::{ByteCount, Cause, FlashCounters, FlashOperation};
use nandu_ftl::{FtlConfig, PageConfig};
use nandu_nand::{ChipOverrides, NandConfig, NandProfile, Rules};
use nandu_storage::Settings;
use nandu_storage::propagation::PropagationSettings;
use serde::{Deserialize, Serialize};

/// The drive whose chip is exchanged: one chip under a layer, without a controller.
pub(in crate::kind) const BASE: &str = "sim:myers-chip";
const NAME: &str = "chip";
/// Erase blocks beside those of the spare space, for what a layer or a propagation keeps aside.
const BLOCKS_ASIDE: u64 = 8;
/// Of the erase blocks of a drive so many parts of ten are addresses: what is not written is spare.
const TENTHS_OF_ADDRESSES: u64 = 9;
/// Spare space that makes sense, in percent of the pages.
const SPARE_PERCENT: std::ops::RangeInclusive<f64> = 30.0..=1000.0;
/// Sectors are no larger than this, whatever a page or a flash page is.
const SECTOR_BYTES_MAX: u32 = 65_536;

/// A way of placing pages, over a translation layer or on the chip itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Where a page goes when it is written.
    pub propagation: PropagationKind,
    /// The layer below it, where it has pages on a volume; the page map if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ftl: Option<FtlConfig>,
    /// Settings of the propagation, by the names that the engine has for them.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
    /// Whether it would mark flash pages that become obsolete, where nobody remembers them.
    #[serde(default)]
    pub marks: bool,
}

/// A chip by its preset, and what is another way.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kind) struct Chip {
    pub(in crate::kind) preset: String,
    /// Programs of a flash page between two erases, without any other law; those of the preset if absent.
    pub(in crate::kind) programs_per_erase: Option<u8>,
    /// Another flash page, in erase blocks that are as large.
    pub(in crate::kind) flash_page_bytes: Option<u32>,
}

/// Pages, and the chip that has so much more room than they need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kind) struct Room {
    pub(in crate::kind) page_bytes: u32,
    pub(in crate::kind) file_bytes: u64,
    pub(in crate::kind) spare_percent: f64,
}

/// Commands of the chip, for so many operations.
#[derive(Clone, Copy, Debug)]
pub(in crate::kind) struct Done {
    pub(in crate::kind) operation_count: u64,
    pub(in crate::kind) commands: FlashCounters,
}

impl Method {
    /// Settings of the engine with those of the propagation.
    pub(in crate::kind) fn settings(&self) -> Settings {
        self.set.apply(self.own_settings())
    }

    fn own_settings(&self) -> Settings {
        let propagation = PropagationSettings::from(self.propagation);
        Settings { propagation, ..Settings::default() }
    }

    /// The layer below.
    pub(in crate::kind) fn layer(&self) -> FtlConfig {
        self.ftl.clone().unwrap_or_else(|| FtlConfig::Page(PageConfig::default()))
    }

    /// Checks what is set, whatever the pages are.
    pub(in crate::kind) fn check(&self) -> Result<(), String> {
        self.set.check_of_propagation(&self.own_settings())?;
        if self.ftl.is_some() && !self.propagation.other_media().is_empty() {
            return Err("no `ftl` is below a propagation that has chips of its own".into());
        }
        Ok(())
    }
}

impl Chip {
    /// Its shape, its times and what it uses.
    pub(in crate::kind) fn nand(&self) -> Result<NandConfig, String> {
        let profile = NandProfile {
            preset: self.preset.clone(),
            channel_count: 1,
            dies_per_channel: 1,
            planes_per_die: Some(1),
            erase_blocks_per_plane: 1,
            overrides: self.overrides()?,
            ..NandProfile::default()
        };
        profile.resolve().map_err(|error| error.to_string())
    }

    /// What is another way than in the preset.
    fn overrides(&self) -> Result<ChipOverrides, String> {
        let preset = nandu_nand::preset(&self.preset).map_err(|error| error.to_string())?;
        let block_bytes = preset.flash_pages_per_erase_block * preset.flash_page_bytes;
        let rules = |programs_per_erase| Rules { programs_per_erase, ..Rules::default() };
        Ok(ChipOverrides {
            flash_page_bytes: self.flash_page_bytes,
            flash_pages_per_erase_block: self.flash_page_bytes.map(|it| block_bytes / it),
            rules: self.programs_per_erase.map(rules),
            ..ChipOverrides::default()
        })
    }

    /// Checks that it can be, with such pages on it.
    pub(in crate::kind) fn check(&self, room: &Room, method: &Method) -> Result<(), String> {
        if self.nand()?.timing.bus_bytes_per_second > 0 {
            return Err(format!("`{}` has a bus; take one whose transfer is folded", self.preset));
        }
        if !SPARE_PERCENT.contains(&room.spare_percent) {
            let (least, most) = (SPARE_PERCENT.start(), SPARE_PERCENT.end());
            return Err(format!("`spare_percent` must be from {least} to {most}"));
        }
        if self.programs_per_erase == Some(0) {
            return Err("`programs_per_erase` must be above 0".into());
        }
        let drive = self.drive(room, &method.layer())?;
        let whole = drive.profile(NAME)?.geometry.capacity();
        match drive.capacity.filter(|capacity| *capacity > whole) {
            Some(capacity) => Err(format!("pages and spare space are {capacity}, over {whole}")),
            None => Ok(()),
        }
    }

    /// The chip under a layer, as a drive.
    fn drive(&self, room: &Room, layer: &FtlConfig) -> Result<SiteDrive, String> {
        let shape = self.nand()?.geometry;
        let block_bytes = shape.erase_block_bytes();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some times the file, which is far below"
        )]
        let spare_bytes = (room.file_bytes as f64 * room.spare_percent / 100.0) as u64;
        let block_count = (room.file_bytes + spare_bytes).div_ceil(block_bytes);
        let number = |value: u64| toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let overrides = toml::Value::try_from(self.overrides()?).map_err(|it| it.to_string())?;
        let ssd = [
            ("chip".to_owned(), toml::Value::String(self.preset.clone())),
            ("planes_per_die".to_owned(), number(1)),
            ("physical_erase_blocks".to_owned(), number(block_count + BLOCKS_ASIDE)),
            ("ftl".to_owned(), toml::Value::try_from(layer).map_err(|it| it.to_string())?),
            ("chip_overrides".to_owned(), overrides),
        ];
        let sector_bytes = shape.flash_page_bytes.min(room.page_bytes).min(SECTOR_BYTES_MAX);
        let set = [
            ("sector_bytes".to_owned(), number(sector_bytes.into())),
            ("ssd".to_owned(), toml::Value::Table(ssd.into_iter().collect())),
        ];
        Ok(SiteDrive {
            base: BASE.to_owned(),
            set: set.into_iter().collect(),
            capacity: Some(ByteCount(block_count * TENTHS_OF_ADDRESSES / 10 * block_bytes)),
            member_count: 1,
            page_cache: None,
        })
    }

    /// Blank media for a method.
    pub(in crate::kind) fn site(
        &self,
        step: &str,
        room: &Room,
        (method, seed): (&Method, u64),
    ) -> Result<Site, LabError> {
        let wrong = |error: String| LabError::step(step, &error);
        let drive = self.drive(room, &method.layer()).map_err(wrong)?;
        let opened = drive.open(NAME, seed).map_err(wrong)?;
        Site::on(step, opened, None)?.with_media_of(method.propagation, (NAME, &drive), seed)
    }
}

impl Done {
    /// So many of all operations.
    fn of_one(&self, count: u64) -> f64 {
        count as f64 / self.operation_count.max(1) as f64
    }

    fn read_count(&self) -> u64 {
        self.commands.total(FlashOperation::Read)
    }

    /// Reads of an operation.
    pub(in crate::kind) fn reads(&self) -> f64 {
        self.of_one(self.read_count())
    }

    /// Programs of an operation.
    pub(in crate::kind) fn programs(&self) -> f64 {
        self.of_one(self.commands.programmed_pages())
    }

    /// Erases of an operation.
    pub(in crate::kind) fn erases(&self) -> f64 {
        self.of_one(self.commands.total(FlashOperation::Erase))
    }

    /// The commands of an operation by their times.
    pub(in crate::kind) fn counted_us(&self, nand: &NandConfig) -> f64 {
        let timing = &nand.timing;
        let us = |nanos: nandu_base::Nanos| nanos.0 as f64 / 1e3;
        us(timing.read_ns) * self.reads()
            + us(timing.program_ns) * self.programs()
            + us(timing.erase_ns) * self.erases()
    }

    /// What they use, in microjoules.
    pub(in crate::kind) fn energy_uj(&self, nand: &NandConfig) -> f64 {
        let energy = &nand.energy;
        let uj = |energy: nandu_base::Picojoules| energy.0 as f64 / 1e6;
        uj(energy.read_picojoules) * self.reads()
            + uj(energy.program_picojoules) * self.programs()
            + uj(energy.erase_picojoules) * self.erases()
    }

    /// What it would take to mark flash pages as obsolete: each that is programmed, but by cleaning, is so once,
    /// sooner or later.
    pub(in crate::kind) fn marks_us(&self, nand: &NandConfig, method: &Method) -> f64 {
        let count = self.commands.get(FlashOperation::Program, Cause::Host);
        let us = self.of_one(count) * nand.timing.program_ns.0 as f64 / 1e3;
        if method.marks { us } else { 0.0 }
    }
}

/// The time to copy an erase block and erase the old one, in microseconds.
pub(in crate::kind) fn conventional_us(nand: &NandConfig) -> f64 {
    let (timing, pages) = (&nand.timing, u64::from(nand.geometry.flash_pages_per_erase_block));
    let time = pages * (timing.read_ns.0 + timing.program_ns.0) + timing.erase_ns.0;
    time as f64 / 1e3
}
