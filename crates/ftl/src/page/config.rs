//! Parameters of the page map: what a profile may say under `[ftl]`.

use crate::config::LayerConfig;
use crate::stock::lost_erase_blocks;
use crate::{Ftl, FtlError, PageFtl, VictimPolicy};
use nandu_base::to_u32;
use nandu_nand::{Geometry, NandArray, NandConfig};
use serde::{Deserialize, Serialize};

/// Where copies of cleaning go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleaningFrontier {
    /// Behind the host's own writes of the same stream.
    Shared,
    /// To a frontier of their own: what survived a cleaning is likely to be cold.
    #[default]
    One,
    /// To a frontier for each stream: streams are never mixed (persistently isolated, in the words of
    /// NVMe flexible data placement).
    PerStream,
}

/// When a victim's units are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleaningMode {
    /// All at once, by the write that finds no free group.
    #[default]
    WholeVictim,
    /// A few behind each program of the host.
    Paced,
}

/// Which die takes the next row of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DieChoice {
    /// Each die in its turn.
    #[default]
    RoundRobin,
    /// The one that the logical address names: unit modulo dies, in the order of the dies.
    Static,
    /// The one to which least work was given so far; free of time.
    LeastWork,
    /// The one with the least work that is not done. What goes where then depends on time; a single
    /// server, which never has any, goes round.
    LeastBacklog,
}

/// The order of the dies, in which neighbours follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DieOrder {
    /// One die of every channel, then the next of every channel.
    #[default]
    ChannelFirst,
    /// All dies of a channel, then those of the next.
    WayFirst,
}

/// What a flushed trim is worth after a power cut (flash reference 2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimDurability {
    /// Nothing: an old copy may return until the unit is written again.
    #[default]
    Volatile,
    /// As much as a flushed write: trims are recorded on flash.
    Journaled,
}

/// Parameters of [`super::PageFtl`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageConfig {
    /// Bytes of a unit, a power of two up to the flash page; the flash page where absent.
    pub unit_bytes: Option<u32>,
    /// How victims are chosen.
    pub victim: VictimPolicy,
    /// Groups drawn by the policy `d_choices`.
    pub victim_choices: u32,
    /// Share of the closed groups, the oldest, among which `windowed` chooses, in parts per million.
    pub victim_window_ppm: u32,
    /// Free groups that every die keeps after a call, 1 or more; cleaning works with them.
    pub reserve_count: u32,
    /// Free groups above the reserve that cleaning in idle time aims at; 0 = none.
    pub idle_clean_count: u32,
    /// When a victim's units are moved.
    pub cleaning: CleaningMode,
    /// Groups of free rows at which a die opens a victim under paced cleaning, 2 or more.
    pub pace_start_groups: u32,
    /// Work of paced cleaning on a die, in ns, up to which copies let what the host wants of the die go
    /// first; from there on they insist. 0 = always.
    pub pace_put_off_ns: u64,
    /// Which die takes the next row.
    pub die_choice: DieChoice,
    /// In which order the dies follow each other.
    pub die_order: DieOrder,
    /// Whether the planes of a die are programmed and erased together.
    pub multi_plane: bool,
    /// Where copies of cleaning go.
    pub cleaning_frontier: CleaningFrontier,
    /// Streams that the host may tell apart, 1 to 64: each has a frontier of its own.
    pub stream_count: u8,
    /// Share of the erase blocks that each stream holds, in parts per million; cleaning takes from the
    /// stream that exceeds its share most. Empty = from all alike. Needs `per_stream` frontiers.
    pub stream_share_ppm: Vec<u32>,
    /// Whether free groups are taken by wear: the least worn for the host, the most worn for copies.
    pub dynamic_wear_levelling: bool,
    /// Erases between the most and the least worn group of a die above which the data of the least
    /// worn is moved; 0 = never. Includes dynamic wear levelling.
    pub static_wear_threshold: u32,
    /// Erases of a die between two such moves, 1 or more.
    pub static_wear_interval: u32,
    /// What a flushed trim is worth after a power cut.
    pub trim_durability: TrimDurability,
    /// Rows programmed between two checkpoints of the map, which make recovery shorter; 0 = none but
    /// those that the journal of trims needs.
    pub checkpoint_interval_rows: u64,
}

impl Default for PageConfig {
    fn default() -> Self {
        Self {
            unit_bytes: None,
            victim: VictimPolicy::Greedy,
            victim_choices: 10,
            victim_window_ppm: 50_000,
            reserve_count: 2,
            idle_clean_count: 0,
            cleaning: CleaningMode::WholeVictim,
            pace_start_groups: 3,
            pace_put_off_ns: 0,
            die_choice: DieChoice::RoundRobin,
            die_order: DieOrder::ChannelFirst,
            multi_plane: true,
            cleaning_frontier: CleaningFrontier::One,
            stream_count: 1,
            stream_share_ppm: Vec::new(),
            dynamic_wear_levelling: false,
            static_wear_threshold: 0,
            static_wear_interval: 16,
            trim_durability: TrimDurability::Volatile,
            checkpoint_interval_rows: 0,
        }
    }
}

impl PageConfig {
    /// Whether static wear levelling has a frontier of its own: cold data shares no group with copies
    /// of cleaning, which would soon move it again. Isolated streams use those of their own instead.
    pub(super) fn has_wear_frontier(&self) -> bool {
        let isolated = self.cleaning_frontier == CleaningFrontier::PerStream;
        self.static_wear_threshold > 0 && !isolated
    }

    /// Whether streams have victims of their own.
    pub(super) fn has_pools(&self) -> bool {
        self.stream_share_ppm.len() > 1
    }

    /// Frontiers of a die: the host's, those of cleaning, and that of static wear levelling.
    pub(super) fn frontier_count(&self) -> usize {
        let streams = usize::from(self.stream_count);
        let cleaning = match self.cleaning_frontier {
            CleaningFrontier::Shared => 0,
            CleaningFrontier::One => 1,
            CleaningFrontier::PerStream => streams,
        };
        streams + cleaning + usize::from(self.has_wear_frontier())
    }

    /// Groups of a die that the reserve and the frontiers take.
    pub(super) fn groups_aside(&self) -> u32 {
        let frontiers = u32::try_from(self.frontier_count()).unwrap_or(u32::MAX);
        // On paired pages paced cleaning keeps two.
        let least = if self.cleaning == CleaningMode::Paced { 2 } else { 1 };
        self.reserve_count.max(least).saturating_add(frontiers.max(2))
    }

    /// Whether the layer writes metadata: checkpoints, and with them a journal.
    pub(super) const fn writes_metadata(&self) -> bool {
        let journaled = matches!(self.trim_durability, TrimDurability::Journaled);
        journaled || self.checkpoint_interval_rows > 0
    }

    pub(super) const fn levels_by_wear(&self) -> bool {
        self.dynamic_wear_levelling || self.static_wear_threshold > 0
    }

    /// Checks the ranges; answers which field is wrong and what it may be.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.reserve_count == 0 {
            return Err("ftl: reserve_count is 0, must be at least 1: cleaning needs room".into());
        }
        if self.pace_start_groups < 2 {
            let count = self.pace_start_groups;
            return Err(format!("ftl: pace_start_groups is {count}, must be at least 2"));
        }
        let is_shared = self.cleaning_frontier == CleaningFrontier::Shared;
        if is_shared && self.cleaning == CleaningMode::Paced {
            return Err("ftl: cleaning = \"paced\" needs a frontier for its copies: \
                        cleaning_frontier = \"one\" or \"per_stream\", not \"shared\""
                .into());
        }
        if self.pace_put_off_ns > 0 && self.cleaning != CleaningMode::Paced {
            return Err("ftl: pace_put_off_ns needs cleaning = \"paced\"".into());
        }
        if self.stream_count == 0 || self.stream_count > 64 {
            return Err(format!("ftl: stream_count is {}, must be 1 to 64", self.stream_count));
        }
        if self.victim == VictimPolicy::DChoices && self.victim_choices == 0 {
            return Err("ftl: victim_choices is 0, must be at least 1".into());
        }
        if self.victim_window_ppm == 0 || self.victim_window_ppm > 1_000_000 {
            let ppm = self.victim_window_ppm;
            return Err(format!("ftl: victim_window_ppm is {ppm}, must be 1 to 1000000"));
        }
        if self.static_wear_interval == 0 {
            return Err("ftl: static_wear_interval is 0, must be at least 1".into());
        }
        let shares = &self.stream_share_ppm;
        if shares.is_empty() {
            return Ok(());
        }
        if self.cleaning_frontier != CleaningFrontier::PerStream {
            return Err("ftl: stream_share_ppm needs cleaning_frontier = \"per_stream\"".into());
        }
        let sum: u64 = shares.iter().map(|&share| u64::from(share)).sum();
        if shares.len() != usize::from(self.stream_count) || shares.contains(&0) || sum > 1_000_000
        {
            return Err(format!(
                "ftl: stream_share_ppm must hold {} shares above 0, together at most 1000000",
                self.stream_count
            ));
        }
        Ok(())
    }
}

impl LayerConfig for PageConfig {
    fn small(_: u64) -> Self {
        Self::default()
    }

    fn unit_bytes(&self, flash_page_bytes: u32) -> u32 {
        self.unit_bytes.unwrap_or(flash_page_bytes)
    }

    fn blocks_aside(&self, shape: &Geometry, logical_bytes: u64) -> u64 {
        let unit_bytes = u64::from(self.unit_bytes(shape.flash_page_bytes).max(1));
        let unit_count = logical_bytes.div_ceil(unit_bytes);
        let planes = if self.multi_plane { shape.planes_per_die.max(1) } else { 1 };
        let metadata = if self.writes_metadata() {
            let row_bytes = u64::from(shape.flash_page_bytes) * u64::from(planes);
            let rows = u64::from(shape.flash_pages_per_erase_block.max(1));
            // A group takes four bytes, and there are fewer of them than units.
            let groups = super::metadata::group_count(2 * unit_count, row_bytes, rows);
            to_u32(groups.div_ceil(u64::from(shape.die_count().max(1))))
        } else {
            0
        };
        let groups = self.groups_aside().saturating_add(metadata);
        let is_wide = self.multi_plane;
        u64::from(if is_wide { groups } else { groups.div_ceil(shape.planes_per_die.max(1)) })
    }

    fn lost_erase_blocks(&self, nand: &NandConfig) -> u64 {
        let dies = nand.geometry.die_count();
        let of_row = dies * nand.geometry.planes_per_die;
        if self.multi_plane {
            lost_erase_blocks(nand, |block| block / of_row * dies + block % dies)
        } else {
            lost_erase_blocks(nand, |block| block)
        }
    }

    fn build(
        &self,
        nand: &NandArray,
        unit_count: u64,
        seed: u64,
    ) -> Result<Box<dyn Ftl>, FtlError> {
        Ok(Box::new(PageFtl::new(self, nand, unit_count, seed)?))
    }
}
