//! Which simulated SSD a seed stands for.
//!
//! Seeds in a row go through all translation layers in turn; what else the drive is made of is
//! drawn. Chips have small erase blocks, so that a short history erases many.

use nandu_base::{Rng, to_index};
use nandu_drives::ssd::SsdConfig;
use nandu_ftl::FtlKind;

/// A simulated SSD under a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Controller, link, buffer, translation layer and chips.
    pub config: SsdConfig,
    /// Bytes of a mapping unit, which its layer writes whole.
    pub unit_bytes: u32,
    /// Whether every unit is mapped from the start, as on a drive in use.
    pub is_full: bool,
    /// How often at most each recovery is cut before one gets to its end.
    pub recovery_cuts_max: u64,
}

/// A translation layer over chips with parameters of its own.
struct Layer {
    chip: &'static str,
    planes_per_die: u32,
    unit_bytes: u32,
    ftl: &'static str,
}

/// What stands besides the layer of each kind. Layers but page mapping are over chips whose pages do not
/// share cells: no other one takes care of pairs (docs/fault-model.md).
const VARIANTS: [Layer; 5] = [
    slc(512, "kind = \"page\", unit_bytes = 512, victim = \"cost_benefit\""),
    mlc(2048, 1, "kind = \"page\", victim = \"fifo\""),
    mlc(
        1024,
        1,
        "kind = \"page\", unit_bytes = 1024, checkpoint_interval_rows = 50, \
         trim_durability = \"journaled\"",
    ),
    mlc(2048, 2, "kind = \"page\", multi_plane = true, victim = \"d_choices\""),
    Layer { planes_per_die: 2, ..slc(2048, "kind = \"dftl\", cached_entry_count = 512") },
];

/// How many seeds in a row have each layer once.
pub const LAYER_COUNT: u64 = (FtlKind::ALL.len() + VARIANTS.len()) as u64;

/// Flash pages of an erase block.
const ERASE_BLOCK_PAGES: u32 = 16;

const fn slc(unit_bytes: u32, ftl: &'static str) -> Layer {
    Layer { chip: "myers_slc", planes_per_die: 1, unit_bytes, ftl }
}

const fn mlc(unit_bytes: u32, planes_per_die: u32, ftl: &'static str) -> Layer {
    Layer { chip: "pdl_mlc", planes_per_die, unit_bytes, ftl }
}

impl Drive {
    /// The drive of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let number = to_index(seed % LAYER_COUNT);
        let kind = FtlKind::ALL.get(number);
        let plain = slc(2048, "kind = \"page\"");
        let layer = kind.map_or_else(|| &VARIANTS[number - FtlKind::ALL.len()], |_| &plain);
        let mut rng = Rng::for_part(seed, "drive");
        let mut one_of = |choices: &[u64]| choices[to_index(rng.below(choices.len() as u64))];
        let Layer { chip, planes_per_die, unit_bytes, ftl } = *layer;
        let text = format!(
            "chip = \"{chip}\"\nplanes_per_die = {planes_per_die}\nchannel_count = {}\n\
             dies_per_channel = {}\nover_provisioning_ppm = {}\nnative_queue_depth = {}\n\
             read_command_ns = 10000\nwrite_command_ns = 20000\n\
             link_bytes_per_second = 100000000\nread_ahead_bytes = {}\nwrite_buffer_bytes = {}\n\
             open_unit_count = {}\npower_loss_protected = {}\npower_cut_journal = true\n\
             [chip_overrides]\nflash_pages_per_erase_block = {ERASE_BLOCK_PAGES}\nfactory_bad_ppm = {}\n\
             [ftl]\n{}\n",
            one_of(&[1, 2]),
            one_of(&[1, 2]),
            one_of(&[150_000, 300_000]),
            one_of(&[1, 8, 32]),
            one_of(&[0, 16 << 10]),
            one_of(&[0, 32 << 10, 256 << 10]),
            one_of(&[1, 2, 16]),
            one_of(&[0, 0, 0, 0, 0, 1]) == 1,
            one_of(&[0, 0, 20_000]),
            ftl.replace(", ", "\n"),
        );
        let mut config: SsdConfig =
            toml::from_str(&text).expect("a text of this module is a configuration");
        if let Some(kind) = kind {
            config.ftl = kind.small(u64::from(ERASE_BLOCK_PAGES) * u64::from(unit_bytes));
        }
        Self {
            config,
            unit_bytes,
            is_full: one_of(&[0, 1]) == 1,
            recovery_cuts_max: one_of(&[0, 0, 2]),
        }
    }
}
