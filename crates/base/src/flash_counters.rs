//! What flash did and why: one cell per (operation, cause).
//!
//! 1. Every chip command increments exactly one cell.
//! 2. Write amplification = all programs / host pages written (0 where the host wrote nothing).

use serde::{Deserialize, Serialize};

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$item_doc])* $item),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$item),+];

            /// The name used in tables and JSON.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$item => $label),+ }
            }
        }
    };
}

vocabulary!(
    /// A chip command.
    FlashOperation {
        /// Read of a flash page, or part of one.
        Read = "read",
        /// Program of a flash page.
        Program = "program",
        /// A further program of a flash page that was already programmed since its erase.
        PartialProgram = "partial_program",
        /// Erase of an erase block.
        Erase = "erase",
        /// Move of a flash page inside a plane without a bus transfer.
        CopyBack = "copy_back",
        /// Read of the spare area alone.
        SpareRead = "spare_read",
    }
);

vocabulary!(
    /// Why a chip command was issued.
    Cause {
        /// The host asked for it.
        Host = "host",
        /// Garbage collection of page-mapped erase blocks.
        Cleaning = "cleaning",
        /// Full merge of a log block.
        MergeFull = "merge_full",
        /// Partial merge: the rest of a block or chunk is copied behind what was written.
        MergePartial = "merge_partial",
        /// Switch merge: the log block becomes the data block.
        MergeSwitch = "merge_switch",
        /// Read of mapping information.
        MapRead = "map_read",
        /// Write of mapping information.
        MapWrite = "map_write",
        /// Wear levelling: evens out how often erase blocks are erased.
        WearLevel = "wear_level",
        /// Rebuilding state after a power cut.
        Recovery = "recovery",
        /// Page-differential logging: what changed of a page is written for itself.
        Differential = "differential",
        /// In-page logging: changes go to a log in the same erase block.
        Log = "log",
        /// Second chance of a log page (FASTer).
        SecondChance = "second_chance",
        /// Isolation area (FASTer).
        Isolation = "isolation",
        /// Refresh of data that has aged.
        Refresh = "refresh",
    }
);

const OPERATION_COUNT: usize = FlashOperation::ALL.len();
const CAUSE_COUNT: usize = Cause::ALL.len();

/// Chip commands by operation and cause, with the host's own page counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounters {
    cells: [[u64; CAUSE_COUNT]; OPERATION_COUNT],
    /// Flash-page-sized units that the host wrote.
    pub host_write_pages: u64,
    /// Flash-page-sized units that the host read.
    pub host_read_pages: u64,
}

impl FlashCounters {
    /// Counts one command of `operation`, made on behalf of `cause`.
    #[inline]
    pub fn count(&mut self, operation: FlashOperation, cause: Cause) {
        self.add(operation, cause, 1);
    }

    /// Counts `count` commands of one kind.
    #[inline]
    pub fn add(&mut self, operation: FlashOperation, cause: Cause, count: u64) {
        self.cells[operation as usize][cause as usize] += count;
    }

    /// How often `operation` was issued for `cause`.
    #[must_use]
    pub const fn get(&self, operation: FlashOperation, cause: Cause) -> u64 {
        self.cells[operation as usize][cause as usize]
    }

    /// How often `operation` was issued for any cause.
    #[must_use]
    pub fn total(&self, operation: FlashOperation) -> u64 {
        self.cells[operation as usize].iter().sum()
    }

    /// Every page that was programmed in any way, copy-back included.
    #[must_use]
    pub fn programmed_pages(&self) -> u64 {
        self.total(FlashOperation::Program)
            + self.total(FlashOperation::PartialProgram)
            + self.total(FlashOperation::CopyBack)
    }

    /// Invariant 2, for reports.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_write_pages == 0 {
            return 0.0;
        }
        self.programmed_pages() as f64 / self.host_write_pages as f64
    }

    /// What happened since `earlier`, cell by cell.
    ///
    /// # Panics
    /// If `earlier` is not an earlier reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        let differ = |now: u64, then: u64| now.checked_sub(then).expect("counters only grow");
        for (row, old_row) in difference.cells.iter_mut().zip(&earlier.cells) {
            for (cell, old) in row.iter_mut().zip(old_row) {
                *cell = differ(*cell, *old);
            }
        }
        difference.host_write_pages = differ(self.host_write_pages, earlier.host_write_pages);
        difference.host_read_pages = differ(self.host_read_pages, earlier.host_read_pages);
        difference
    }

    /// What this and `other`, counters of other flash, counted together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut sum = *self;
        for (row, more) in sum.cells.iter_mut().zip(&other.cells) {
            for (cell, more) in row.iter_mut().zip(more) {
                *cell += more;
            }
        }
        sum.host_write_pages += other.host_write_pages;
        sum.host_read_pages += other.host_read_pages;
        sum
    }

    /// The cells that are not zero, in declaration order.
    pub fn cells(&self) -> impl Iterator<Item = (FlashOperation, Cause, u64)> + '_ {
        FlashOperation::ALL.iter().flat_map(move |&operation| {
            Cause::ALL.iter().filter_map(move |&cause| {
                let count = self.get(operation, cause);
                (count > 0).then_some((operation, cause, count))
            })
        })
    }
}

/// Erase counts over all erase blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearSummary {
    /// The least worn.
    pub erase_count_min: u64,
    /// The sum over all erase blocks.
    pub erase_count_sum: u64,
    /// The most worn.
    pub erase_count_max: u64,
    /// How many erase blocks there are, bad ones included.
    pub erase_block_count: u64,
    /// How many are bad.
    pub bad_erase_block_count: u64,
}

impl WearSummary {
    /// Mean erasures of an erase block, for reports.
    #[must_use]
    pub fn erase_count_mean(&self) -> f64 {
        self.erase_count_sum as f64 / self.erase_block_count.max(1) as f64
    }

    /// This and `other`, of other erase blocks, as one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            erase_count_min: self.erase_count_min.min(other.erase_count_min),
            erase_count_sum: self.erase_count_sum + other.erase_count_sum,
            erase_count_max: self.erase_count_max.max(other.erase_count_max),
            erase_block_count: self.erase_block_count + other.erase_block_count,
            bad_erase_block_count: self.bad_erase_block_count + other.bad_erase_block_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_fills_one_cell() {
        let mut counters = FlashCounters::default();
        counters.count(FlashOperation::Program, Cause::Cleaning);
        counters.add(FlashOperation::Program, Cause::Host, 2);
        counters.host_write_pages = 2;
        let cells: Vec<_> = counters.cells().collect();
        assert_eq!(
            cells,
            [
                (FlashOperation::Program, Cause::Host, 2),
                (FlashOperation::Program, Cause::Cleaning, 1)
            ]
        );
        assert!((counters.write_amplification() - 1.5).abs() < 1e-12);
        assert_eq!(counters.since(&counters), FlashCounters::default());
        let both = counters.with(&counters);
        assert_eq!((both.programmed_pages(), both.host_write_pages), (6, 4));
        assert_eq!(both.since(&counters), counters);
    }

    #[test]
    fn the_wear_of_two_is_that_of_all_their_erase_blocks() {
        let of = |min, sum, max, count| WearSummary {
            erase_count_min: min,
            erase_count_sum: sum,
            erase_count_max: max,
            erase_block_count: count,
            bad_erase_block_count: 1,
        };
        let both = of(2, 30, 7, 6).with(&of(1, 12, 5, 4));
        assert_eq!(both, WearSummary { bad_erase_block_count: 2, ..of(1, 42, 7, 10) });
    }
}
