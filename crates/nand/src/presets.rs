//! Named chips with their sources, and profiles that name one and override fields.
//!
//! The figures are those of the flash reference 1.3. Marks in a source: \[S\] printed in one of the
//! five papers, \[V\] checked in public material, \[C\] computed from those, \[M\] recalled from a
//! document that was not at hand, and so never a published value.
//!
//! Energies are computed \[C\] from times and supply currents, which are all recalled \[M\]: no
//! energy of these presets may be called published.

use crate::{Energy, Geometry, NandConfig, NandError, PageTypes, Rules, Supply, Timing};
use nandu_base::{Nanos, Picojoules};
use serde::{Deserialize, Serialize};

/// A chip without the array around it.
#[derive(Clone, Copy, Debug)]
pub struct ChipPreset {
    /// Its name in profiles.
    pub name: &'static str,
    /// Where the figures come from, with marks.
    pub source: &'static str,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Flash pages of an erase block.
    pub flash_pages_per_erase_block: u32,
    /// Data bytes of a flash page.
    pub flash_page_bytes: u32,
    /// Spare bytes of a flash page.
    pub spare_bytes: u32,
    /// Times of the chip's commands and the speed of its bus.
    pub timing: Timing,
    /// What current it draws while it does these.
    pub supply: Supply,
    /// Where the supply's figures come from, with marks.
    pub supply_source: &'static str,
    /// Erases that an erase block stands.
    pub endurance: u32,
    /// Programs of a flash page between erases.
    pub programs_per_erase: u8,
    /// Whether flash pages share cells.
    pub paired_pages: bool,
}

const fn timing(read_ns: u64, program_ns: u64, erase_ns: u64, bus: u64, cache: bool) -> Timing {
    Timing {
        read_ns: Nanos(read_ns),
        program_ns: Nanos(program_ns),
        program_type_ns: PageTypes::ALIKE,
        erase_ns: Nanos(erase_ns),
        command_ns: Nanos::ZERO,
        bus_bytes_per_second: bus,
        cache_register: cache,
    }
}

const fn supply(millivolts: u64, plane_microamperes: u64, transfer: u64) -> Supply {
    let transfer_picojoules_per_byte = Picojoules(transfer as u128);
    Supply { millivolts, plane_microamperes, transfer_picojoules_per_byte }
}

const MYERS: ChipPreset = ChipPreset {
    name: "myers_slc",
    source: "S000 section 8.4 [S]: 20/200/1500 us, 2048-byte pages, 64 per erase block, transfer \
             folded; spare 64 bytes and endurance 1e5 from the part family K9XXG08UXM [V]",
    planes_per_die: 1,
    flash_pages_per_erase_block: 64,
    flash_page_bytes: 2048,
    spare_bytes: 64,
    timing: timing(20_000, 200_000, 1_500_000, 0, false),
    supply: supply(3300, 25_000, 0),
    supply_source: "3.3 V and typically 25 mA in read, program and erase, as data sheets of large-page \
                    SLC parts (K9F1G08U0A, K9F2G08U0C and their kin) have it [M:mid]; transfer folded",
    endurance: 100_000,
    programs_per_erase: 4,
    paired_pages: false,
};

static PRESETS: &[ChipPreset] = &[
    MYERS,
    ChipPreset {
        name: "k9xxg08uxm_bus",
        source: "K9K8G08U0M family, 2005 [V]: 25 ns per byte; read 20 to 25 us, program 200 us and \
                 erase 1.5 ms typical [M:hi]",
        timing: timing(20_000, 200_000, 1_500_000, 40_000_000, false),
        supply: supply(3300, 25_000, 2062),
        supply_source: "3.3 V and typically 25 mA in every operation [M:mid], so also while a byte \
                        crosses the bus in 25 ns: 2062 pJ [C]",
        ..MYERS
    },
    ChipPreset {
        name: "ipl_slc",
        source: "in-page logging paper [M:hi]: read 80 us including the transfer, 200 us, 1.5 ms",
        timing: timing(80_000, 200_000, 1_500_000, 0, false),
        ..MYERS
    },
    ChipPreset {
        name: "dftl_slc",
        source: "constants of the DFTL authors' simulator [V]: 130.9 and 405.9 us with transfer",
        timing: timing(130_900, 405_900, 1_500_000, 0, false),
        ..MYERS
    },
    ChipPreset {
        name: "flashsim_slc",
        source: "extended FlashSim ssd.conf [V]: 25/300/2000 us; its page size is configurable, \
                 4096 here, and its bus delays of 12 us a page are folded into read and program [C]",
        flash_page_bytes: 4096,
        spare_bytes: 128,
        timing: timing(37_000, 312_000, 2_000_000, 0, false),
        ..MYERS
    },
    ChipPreset {
        name: "pdl_mlc",
        source: "page-differential logging paper, K9L8G08U0M [M:hi]: 110/1010/1500 us, folded",
        timing: timing(110_000, 1_010_000, 1_500_000, 0, false),
        supply: supply(3300, 25_000, 0),
        supply_source: "3.3 V and 25 mA as for the SLC parts of its time [M:lo]; transfer folded",
        endurance: 10_000,
        programs_per_erase: 1,
        paired_pages: true,
        ..MYERS
    },
    ChipPreset {
        name: "mqsim_mlc",
        source: "MQSim ssdconfig.xml [V]: 8192+448 bytes, 256 pages, 75/750/3800 us, 333 MT/s, 2 planes",
        planes_per_die: 2,
        flash_pages_per_erase_block: 256,
        flash_page_bytes: 8192,
        spare_bytes: 448,
        timing: timing(75_000, 750_000, 3_800_000, 333_000_000, false),
        supply: supply(3300, 15_000, 80),
        supply_source: "30 mA of a die at 3.3 V, shared by its 2 planes [M:lo]; bus of 1.8 V, 10 pJ a \
                        bit [M:lo]",
        endurance: 10_000,
        programs_per_erase: 1,
        paired_pages: true,
    },
    TLC,
    ChipPreset {
        name: "qlc_2026",
        source: "suggested QLC die [M:mid]: 4 planes, 85 to 110 us, 1.8 ms per 256 KiB shot of 4 pages \
                 = 450 us a page [C], erase 8 to 10 ms, 1 to 1.5 k erases, 2.4 GT/s",
        flash_pages_per_erase_block: 2048,
        timing: timing(95_000, 450_000, 9_000_000, 2_400_000_000, true),
        endurance: 1_500,
        ..TLC
    },
    ChipPreset {
        name: "slc_cache_2026",
        source: "the TLC die in SLC mode [M:lo]: a third of the pages, 25 us, 150 us, 5 ms, 30 k",
        flash_pages_per_erase_block: 512,
        timing: timing(25_000, 150_000, 5_000_000, 2_400_000_000, true),
        endurance: 30_000,
        paired_pages: false,
        ..TLC
    },
];

const TLC: ChipPreset = ChipPreset {
    name: "tlc_2026",
    source: "suggested TLC die: 16 KiB pages, 4 planes, read 40 to 58 us [V, ISSCC 2021]; 1.1 ms per \
             192 KiB shot of 3 pages = 367 us a page [C]; erase 5 ms, 3 to 5 k erases, 2.4 GT/s [M:mid]",
    planes_per_die: 4,
    flash_pages_per_erase_block: 1536,
    flash_page_bytes: 16_384,
    spare_bytes: 2048,
    timing: timing(45_000, 367_000, 5_000_000, 2_400_000_000, true),
    supply: supply(2500, 12_500, 40),
    supply_source: "50 mA of a die at 2.5 V, shared by its 4 planes [M:lo]; bus of 1.2 V, 5 pJ a bit \
                    [M:lo]",
    endurance: 3_000,
    programs_per_erase: 1,
    paired_pages: true,
};

/// Every chip preset that is known by name.
#[must_use]
pub fn presets() -> &'static [ChipPreset] {
    PRESETS
}

/// The preset of that name.
///
/// # Errors
/// [`NandError::Configuration`] lists the names that there are.
pub fn preset(name: &str) -> Result<&'static ChipPreset, NandError> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        let text = format!("preset: no chip is called `{name}`; there are {}", names.join(", "));
        NandError::Configuration(text)
    })
}

/// Figures that replace those of the preset; the preset's where absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChipOverrides {
    /// Flash pages of an erase block.
    pub flash_pages_per_erase_block: Option<u32>,
    /// Data bytes of a flash page.
    pub flash_page_bytes: Option<u32>,
    /// Spare bytes of a flash page.
    pub spare_bytes: Option<u32>,
    /// How long the array takes to read a flash page, without its transfer.
    pub read_ns: Option<Nanos>,
    /// How long the array takes to program a flash page, without its transfer.
    pub program_ns: Option<Nanos>,
    /// Array program by type of flash page; its mean stands in for `program_ns`, empty has no types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_type_ns: Option<PageTypes>,
    /// How long the erase of an erase block takes.
    pub erase_ns: Option<Nanos>,
    /// How long the command and address cycles take.
    pub command_ns: Option<Nanos>,
    /// Speed of a channel; 0 folds the transfer into the array times.
    pub bus_bytes_per_second: Option<u64>,
    /// Whether a die takes the next transfer while its array works.
    pub cache_register: Option<bool>,
    /// The laws as a whole; what they leave out is not the preset's but the default.
    pub rules: Option<Rules>,
    /// Erases that an erase block stands; 0 = without limit.
    pub endurance: Option<u32>,
    /// Erase blocks that leave the factory bad, per million.
    pub factory_bad_ppm: Option<u32>,
    /// The energy as a whole, instead of what supply and times give; all zero does not model it.
    pub energy: Option<Energy>,
}

/// An array as a profile describes it: a preset, how many of it, and what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandProfile {
    /// The name of a [`ChipPreset`].
    pub preset: String,
    /// Channels of the array, each a bus of its own.
    pub channel_count: u32,
    /// Dies of a channel.
    pub dies_per_channel: u32,
    /// Erase blocks of a plane.
    pub erase_blocks_per_plane: u32,
    /// Planes of a die, if not as many as the preset has.
    pub planes_per_die: Option<u32>,
    /// What differs from the preset otherwise.
    #[serde(default)]
    pub overrides: ChipOverrides,
    /// Logical units that share a flash page; 1 where absent.
    pub units_per_flash_page: Option<u32>,
}

impl NandProfile {
    /// The preset with the overrides in place. Content and journal are off.
    ///
    /// # Errors
    /// [`NandError::Configuration`] for an unknown preset or a shape that cannot be.
    pub fn resolve(&self) -> Result<NandConfig, NandError> {
        let chip = preset(&self.preset)?;
        let overrides = &self.overrides;
        let pages =
            overrides.flash_pages_per_erase_block.unwrap_or(chip.flash_pages_per_erase_block);
        let geometry = Geometry {
            channel_count: self.channel_count,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die.unwrap_or(chip.planes_per_die),
            erase_blocks_per_plane: self.erase_blocks_per_plane,
            flash_pages_per_erase_block: pages,
            flash_page_bytes: overrides.flash_page_bytes.unwrap_or(chip.flash_page_bytes),
            spare_bytes: overrides.spare_bytes.unwrap_or(chip.spare_bytes),
        };
        geometry.validate()?;
        let bus = overrides.bus_bytes_per_second.unwrap_or(chip.timing.bus_bytes_per_second);
        let program_type_ns = overrides.program_type_ns.unwrap_or(chip.timing.program_type_ns);
        let program_ns = program_type_ns.mean().unwrap_or(chip.timing.program_ns);
        let timing = Timing {
            read_ns: overrides.read_ns.unwrap_or(chip.timing.read_ns),
            program_ns: overrides.program_ns.unwrap_or(program_ns),
            program_type_ns,
            erase_ns: overrides.erase_ns.unwrap_or(chip.timing.erase_ns),
            command_ns: overrides.command_ns.unwrap_or(chip.timing.command_ns),
            bus_bytes_per_second: bus,
            cache_register: overrides.cache_register.unwrap_or(chip.timing.cache_register),
        };
        let laws = overrides.rules.unwrap_or(Rules {
            programs_per_erase: chip.programs_per_erase,
            endurance: chip.endurance,
            paired_pages: chip.paired_pages,
            ..Rules::default()
        });
        let rules = Rules {
            endurance: overrides.endurance.unwrap_or(laws.endurance),
            factory_bad_ppm: overrides.factory_bad_ppm.unwrap_or(laws.factory_bad_ppm),
            ..laws
        };
        Ok(NandConfig {
            geometry,
            timing,
            energy: overrides.energy.unwrap_or(chip.supply.energy(&timing)),
            rules,
            units_per_flash_page: self.units_per_flash_page.unwrap_or(1),
            keep_content: false,
            power_cut_journal: false,
        })
    }
}
