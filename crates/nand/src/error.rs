//! Why a chip refused a command; every text names the law that was broken.
//!
//! 1. A refused command has changed nothing, except that the erase that finds an erase block worn out
//!    also marks it bad.

use std::fmt;

/// A refused chip command or configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NandError {
    /// The configuration cannot be built; the text says which field and what it may be.
    Configuration(String),
    /// An address past the end.
    OutOfRange {
        /// What was addressed: `flash page`, `erase block`, `plane`, `byte`.
        what: &'static str,
        /// The address, counted from 0.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// Erase before program: the flash page already holds data.
    NotErased {
        /// The flash page's number in the array, from 0.
        flash_page: u64,
    },
    /// Program order: a flash page below one that was already programmed in its erase block.
    ProgramOrder {
        /// The flash page's number in the array, from 0.
        flash_page: u64,
        /// The lowest index inside the erase block that may be programmed next.
        next_index: u32,
    },
    /// A flash page may be programmed only so often between erases.
    PartialProgramLimit {
        /// The flash page's number in the array, from 0.
        flash_page: u64,
        /// The limit (NOP).
        limit: u8,
    },
    /// A partial program of a flash page that was never programmed.
    NotProgrammed {
        /// The flash page's number in the array, from 0.
        flash_page: u64,
    },
    /// The erase block has reached its endurance.
    WornOut {
        /// The erase block's number in the array, from 0.
        erase_block: u64,
        /// Erases that it stood.
        endurance: u32,
    },
    /// The erase block is marked bad, by the factory or by a failed erase.
    BadEraseBlock {
        /// The erase block's number in the array, from 0.
        erase_block: u64,
    },
    /// A power cut interrupted the program or erase of this flash page: its content is undefined.
    Torn {
        /// The flash page's number in the array, from 0.
        flash_page: u64,
    },
    /// A power cut interrupted the erase of this erase block: erase it again before use.
    TornEraseBlock {
        /// The erase block's number in the array, from 0.
        erase_block: u64,
    },
    /// Copy-back does not leave its plane.
    DifferentPlane {
        /// Source flash page.
        from: u64,
        /// Destination flash page.
        to: u64,
    },
    /// A payload whose length does not fit the flash pages that it is for.
    PayloadLength {
        /// Tags that came.
        length: usize,
        /// Tags that one flash page takes.
        units_per_flash_page: u32,
    },
    /// Sequence numbers inside an erase block must not fall, nor span 2^32.
    Sequence {
        /// The flash page.
        flash_page: u64,
        /// The refused number.
        sequence: u64,
        /// The number of the first program since the erase.
        first_sequence: u64,
    },
    /// A power cut needs the journal of unfinished commands.
    NoJournal,
    /// The spare areas are asked for, but their sequence numbers were forgotten.
    NoSequences,
    /// The power is off.
    PowerLost,
}

impl fmt::Display for NandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(text) => f.write_str(text),
            Self::OutOfRange { what, index, count } => {
                write!(f, "out of range: {what} {index} of {count}")
            }
            Self::NotErased { flash_page } => {
                write!(f, "erase before program: flash page {flash_page} already holds data")
            }
            Self::ProgramOrder { flash_page, next_index } => write!(
                f,
                "program order: flash page {flash_page} lies below index {next_index}, the next \
                 that its erase block may program"
            ),
            Self::PartialProgramLimit { flash_page, limit } => write!(
                f,
                "partial program limit: flash page {flash_page} was programmed {limit} times since \
                 its erase"
            ),
            Self::NotProgrammed { flash_page } => {
                write!(f, "partial program: flash page {flash_page} was never programmed")
            }
            Self::WornOut { erase_block, endurance } => {
                write!(f, "endurance: erase block {erase_block} wore out after {endurance} erases")
            }
            Self::BadEraseBlock { erase_block } => {
                write!(f, "bad erase block: {erase_block} may not be used")
            }
            Self::Torn { flash_page } => {
                write!(f, "torn: a power cut interrupted flash page {flash_page}")
            }
            Self::TornEraseBlock { erase_block } => write!(
                f,
                "torn: a power cut interrupted the erase of erase block {erase_block}; erase it again"
            ),
            Self::DifferentPlane { from, to } => {
                write!(f, "copy-back: flash pages {from} and {to} lie in different planes")
            }
            Self::PayloadLength { length, units_per_flash_page } => write!(
                f,
                "payload: {length} tags do not fill planes of {units_per_flash_page} units each"
            ),
            Self::Sequence { flash_page, sequence, first_sequence } => write!(
                f,
                "sequence: {sequence} of flash page {flash_page} is not within 2^32 after \
                 {first_sequence}, the first of its erase block"
            ),
            Self::NoSequences => f.write_str(
                "no sequence numbers: they were forgotten, and without them nothing recovers",
            ),
            Self::NoJournal => f.write_str(
                "power cut: the array keeps no journal; set power_cut_journal in its configuration",
            ),
            Self::PowerLost => f.write_str("power lost: the chip is off until the power is back"),
        }
    }
}

impl std::error::Error for NandError {}
