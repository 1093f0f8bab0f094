//! What every translation layer offers, and why it refuses.
//!
//! 1. A unit that was never written, or was trimmed, reads without content and without a flash read.
//! 2. Errors of the chip are the layer's own mistakes, except wear: a layer knows the laws.
//! 3. A layer changes its tables when it is called and never learns the time: it issues commands, says
//!    what each waits for, and answers the ticket of the last. So what it does does not depend on time,
//!    unless it asks how much work a die has.

use crate::MapCacheCounts;
use nandu_base::{Lpn, Nanos};
use nandu_nand::{Content, NandArray, NandError, Ticket};
use std::fmt;

/// A read that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Ends when the data are out of the chips.
    pub done: Ticket,
    /// What the unit holds, where the array keeps content; none reads as zeros.
    pub content: Content,
}

/// Merges by kind, since the layer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// All pages went to a fresh erase block, or chunk.
    pub full_count: u64,
    /// The pages behind those that the host wrote were copied there.
    pub partial_count: u64,
    /// Nothing was copied: what the host wrote took the place of the old data.
    pub switch_count: u64,
}

impl MergeCounts {
    /// The counts of what was done after `earlier` was taken.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            full_count: self.full_count - earlier.full_count,
            partial_count: self.partial_count - earlier.partial_count,
            switch_count: self.switch_count - earlier.switch_count,
        }
    }
}

/// Why a layer refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FtlError {
    /// The configuration does not fit the array; the text says which field and why.
    Configuration(String),
    /// A logical page behind the last one was asked for.
    OutOfRange {
        /// The logical page that was asked for, from 0.
        lpn: u64,
        /// How many logical pages there are.
        unit_count: u64,
    },
    /// Cleaning cannot gain space: the logical space is too large for what is left of the array.
    DeviceFull,
    /// Only a fresh device can be initialised at once.
    NotFresh,
    /// This layer cannot rebuild its map.
    NoRecovery,
    /// The chip refused a command.
    Nand(NandError),
}

impl fmt::Display for FtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(text) => f.write_str(text),
            Self::OutOfRange { lpn, unit_count } => {
                write!(f, "out of range: unit {lpn} of {unit_count}")
            }
            Self::DeviceFull => f.write_str("device full: cleaning finds no space to gain"),
            Self::NotFresh => {
                f.write_str("only a device that was never written can be filled at once")
            }
            Self::NoRecovery => f.write_str("this translation layer does not rebuild its map"),
            Self::Nand(error) => write!(f, "chip: {error}"),
        }
    }
}

impl std::error::Error for FtlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Nand(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NandError> for FtlError {
    fn from(error: NandError) -> Self {
        Self::Nand(error)
    }
}

/// What one of several streams holds beside the share that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHold {
    /// Erase blocks that it holds, in parts per million of all.
    pub held_ppm: u32,
    /// Its share, likewise.
    pub share_ppm: u32,
}

/// A translation layer. A unit ([`Lpn`]) is what it maps: `unit_bytes` bytes.
pub trait Ftl: fmt::Debug + Send {
    /// Bytes of a logical page, the unit of the map.
    fn unit_bytes(&self) -> u32;

    /// How many logical pages the host sees.
    fn unit_count(&self) -> u64;

    /// Reads `bytes` of a unit once `after` has ended.
    ///
    /// # Errors
    /// Past the end, or if the flash page is torn.
    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError>;

    /// What a unit holds, without a command and without time, for a controller that has it in memory.
    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content;

    /// Writes a whole unit once `after` has ended. The ticket ends when the unit is on flash: one that
    /// waits in an open row for others, when that row is programmed, for which [`Self::flush`] or
    /// [`Self::complete_rows`] may be needed. A single server does not wait for the row.
    ///
    /// # Errors
    /// Past the end, or if there is no space to be gained.
    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError>;

    /// Writes a whole unit of a stream: units of one stream are expected to die together. A layer that
    /// keeps no streams apart ignores it.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_to_stream(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
        _stream: u8,
    ) -> Result<Ticket, FtlError> {
        self.write(nand, after, lpn, content)
    }

    /// Writes whole units of a stream that carry no content one after the other, each issued when the
    /// one before is done. Appends their tickets to `done`; after an error, for those before it.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_in_turn(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpns: &[Lpn],
        stream: u8,
        done: &mut Vec<Ticket>,
    ) -> Result<(), FtlError> {
        let mut after = after;
        for &lpn in lpns {
            after = self.write_to_stream(nand, after, lpn, None, stream)?;
            done.push(after);
        }
        Ok(())
    }

    /// Whether a write of this unit now would have the layer move what the host did not write: a
    /// controller may hold it back, because a neighbour may come and be written with it.
    fn moves_others(&self, _lpn: Lpn) -> bool {
        false
    }

    /// Says which units are read and written next, so that what the look-ups need is fetched for all of
    /// them at once. Changes nothing.
    fn touch(&self, _nand: &NandArray, _read: &[Lpn], _written: &[Lpn]) {}

    /// Forgets `count` units from `first` on. A recovery may bring them back, unless the
    /// layer journals trims and a flush came after.
    ///
    /// # Errors
    /// Past the end.
    fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError>;

    /// Programs what waits in memory once `after` has ended, which must not wait for a row that waits.
    ///
    /// # Errors
    /// If the chip refuses.
    fn flush(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError>;

    /// Programs the rows in which units wait for others, padded: whoever writes without a buffer and has
    /// nothing more to write would wait for ever. Answers whether there was one.
    ///
    /// # Errors
    /// If the chip refuses.
    fn complete_rows(&mut self, _nand: &mut NandArray) -> Result<bool, FtlError> {
        Ok(false)
    }

    /// Work in the background between `now` and `until`, while nothing else is in flight: lets time pass
    /// on the array as it goes, but not past `until`: a step once begun is left in flight.
    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos);

    /// Maps every unit as if the device had been written in order, without time and without counts.
    ///
    /// # Errors
    /// [`FtlError::NotFresh`] if something was written before.
    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError>;

    /// Maps every unit as a long run of uniform random writes leaves it, without time and without
    /// counts; in order, where the layer has no closed form for that.
    ///
    /// # Errors
    /// As [`Self::initialise_sequential`].
    fn initialise_steady(&mut self, nand: &mut NandArray, _seed: u64) -> Result<(), FtlError> {
        self.initialise_sequential(nand)
    }

    /// Streams that the layer keeps apart, so that what one of them writes lies with what it wrote
    /// before.
    fn stream_count(&self) -> u8 {
        1
    }

    /// Maps every unit as if the device had been written in order, each unit to its stream in
    /// `streams`, without time and without counts. A layer that keeps no streams apart ignores them.
    ///
    /// # Errors
    /// As [`Self::initialise_sequential`].
    fn initialise_by_stream(
        &mut self,
        nand: &mut NandArray,
        _streams: &[u8],
    ) -> Result<(), FtlError> {
        self.initialise_sequential(nand)
    }

    /// What each stream holds, from a layer that gives streams shares; empty from any other.
    fn stream_holds(&self) -> Vec<StreamHold> {
        Vec::new()
    }

    /// Rebuilds the map from the spare areas after a power cut; everything in memory is lost.
    ///
    /// # Errors
    /// If the layer cannot, or the chip refuses.
    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError>;

    /// Flash-page-sized amounts that the host read and wrote.
    fn host_pages(&self) -> (u64, u64);

    /// Merges so far; none from a layer that does not merge.
    fn merges(&self) -> Option<MergeCounts> {
        None
    }

    /// What a cached map did so far; none from a layer whose map is in memory.
    fn map_cache(&self) -> Option<MapCacheCounts> {
        None
    }

    /// Slots of rows that were programmed without a unit so far.
    fn padded_units(&self) -> u64 {
        0
    }

    /// Bytes of controller memory that the map takes.
    fn map_bytes(&self) -> u64;

    /// Memory of this process that grows with the drive, as a controller's would not: all tables.
    fn memory_bytes(&self) -> u64 {
        self.map_bytes()
    }

    /// Asserts the layer's invariants against the cells.
    ///
    /// # Panics
    /// If one is broken.
    fn audit(&self, nand: &NandArray);
}

/// Refuses a range of units past the end.
pub(crate) fn check_range(first: Lpn, count: u64, unit_count: u64) -> Result<(), FtlError> {
    match first.0.checked_add(count) {
        Some(end) if end <= unit_count => Ok(()),
        _ => Err(FtlError::OutOfRange { lpn: first.0.max(unit_count), unit_count }),
    }
}
