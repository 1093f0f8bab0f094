//! Why raw flash refused a request or could not do it; each names the law.
//!
//! 1. In completions come `WornOut`, `PowerLost` and the `Torn` of a read; at submission come all
//!    others and the `Torn` of a program.

use std::fmt;

/// Trouble with raw flash or a request to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashError {
    /// An address past the end.
    OutOfRange {
        /// What was addressed: `flash page`, `erase block`, `byte`, `spare byte`.
        what: &'static str,
        /// The address, counted from 0.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// The request covers no bytes, or one of its buffers is empty.
    EmptyRequest,
    /// Too many requests are in flight.
    QueueFull {
        /// The most that may be.
        queue_depth_max: u32,
    },
    /// The flash page holds a bit that the program would have to set, which an erase alone does.
    NotErased {
        /// The flash page.
        flash_page: u64,
    },
    /// The flash page lies below one that was programmed already.
    ProgramOrder {
        /// The flash page.
        flash_page: u64,
        /// The lowest index inside the erase block that may be programmed next.
        next_index: u32,
    },
    /// The flash page was programmed as often as it may be between two erases.
    ProgramLimit {
        /// The flash page.
        flash_page: u64,
        /// How often it may be.
        limit: u8,
    },
    /// The erase block is bad.
    BadEraseBlock {
        /// The erase block.
        erase_block: u32,
    },
    /// The erase block could not be erased any more and is bad from now on.
    WornOut {
        /// The erase block.
        erase_block: u32,
    },
    /// A power cut left bytes of the flash page undefined.
    Torn {
        /// The flash page.
        flash_page: u64,
    },
    /// A power cut interrupted the erase of the erase block.
    TornEraseBlock {
        /// The erase block.
        erase_block: u32,
    },
    /// The power is off, or went before the request was done.
    PowerLost,
    /// The chips broke one of their own rules: our mistake, not the user's.
    Internal {
        /// The rule that was broken, in words.
        what: String,
    },
}

impl fmt::Display for FlashError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { what, index, count } => {
                write!(formatter, "there is no {what} {index}, there are {count}")
            }
            Self::EmptyRequest => formatter.write_str("the request covers no bytes"),
            Self::QueueFull { queue_depth_max } => {
                write!(formatter, "the queue is full at {queue_depth_max} requests")
            }
            Self::NotErased { flash_page } => write!(
                formatter,
                "flash page {flash_page} holds bits that only an erase sets again; erase first"
            ),
            Self::ProgramOrder { flash_page, next_index } => write!(
                formatter,
                "flash page {flash_page} lies below index {next_index}, the next that its erase \
                 block may program"
            ),
            Self::ProgramLimit { flash_page, limit } => write!(
                formatter,
                "flash page {flash_page} was programmed {limit} times since its erase, as often as it \
                 may be"
            ),
            Self::BadEraseBlock { erase_block } => {
                write!(formatter, "erase block {erase_block} is bad; take another")
            }
            Self::WornOut { erase_block } => write!(
                formatter,
                "erase block {erase_block} is worn out, its erase failed; take another"
            ),
            Self::Torn { flash_page } => write!(
                formatter,
                "a power cut interrupted a program of flash page {flash_page} or the erase of its \
                 erase block"
            ),
            Self::TornEraseBlock { erase_block } => write!(
                formatter,
                "a power cut interrupted the erase of erase block {erase_block}; erase it again"
            ),
            Self::PowerLost => formatter.write_str("the power is off"),
            Self::Internal { what } => write!(formatter, "internal rule broken: {what}"),
        }
    }
}

impl std::error::Error for FlashError {}
