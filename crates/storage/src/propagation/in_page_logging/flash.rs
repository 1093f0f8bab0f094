//! The chips as in-page logging asks them: reads and programs of flash pages of units.
//!
//! 1. Every command that was begun here is waited for once.

use super::Layout;
use super::record::{Found, SPARE_BYTES, Spare};
use crate::StorageError;
use crate::propagation::FlashIo;
use nandu_base::{Cause, Ppn, to_u32};
use nandu_device::IoBuffer;
use nandu_device::raw_flash::{FlashCommand, FlashError, FlashInfo, FlashPart};

/// The chips, and how they are asked.
pub(super) struct Flash {
    chips: FlashIo,
}

/// Bytes of a flash page: where they begin, and how many.
pub(super) type Extent = (u32, usize);

impl Flash {
    pub(super) const fn new(chips: FlashIo) -> Self {
        Self { chips }
    }

    pub(super) fn info(&self) -> &FlashInfo {
        self.chips.info()
    }

    /// Whether a unit has an erase block that is bad.
    pub(super) fn is_bad(&self, layout: &Layout, unit: u32) -> bool {
        layout.erase_blocks(unit).any(|block| self.chips.is_bad(block))
    }

    /// Begins to read bytes of the data of a flash page.
    pub(super) fn begin_read(
        &self,
        cause: Cause,
        flash_page: Ppn,
        (first, count): Extent,
    ) -> Result<u64, StorageError> {
        let data = Some(FlashPart::room(first, to_u32(count as u64)));
        self.submit("read", cause, FlashCommand::Read { flash_page, data, spare: None })
    }

    /// Waits for a read of data; `None` where a power cut left the bytes torn.
    pub(super) fn end_read(&self, ticket: u64) -> Result<Option<IoBuffer>, StorageError> {
        let done = self.chips.wait(ticket);
        match done.result {
            Ok(()) => {}
            Err(FlashError::Torn { .. }) => return Ok(None),
            Err(error) => return Err(self.told("read", &error)),
        }
        let FlashCommand::Read { data: Some(part), .. } = done.command else {
            unreachable!("it was a read of data")
        };
        Ok(Some(part.buffer))
    }

    /// Begins to read the spare area of a flash page.
    pub(super) fn begin_spare_read(&self, flash_page: Ppn) -> Result<u64, StorageError> {
        let spare = Some(FlashPart::room(0, SPARE_BYTES));
        let read = FlashCommand::Read { flash_page, data: None, spare };
        self.submit("read", Cause::Recovery, read)
    }

    /// Waits for a spare area.
    pub(super) fn end_spare_read(&self, ticket: u64) -> Result<Found<Spare>, StorageError> {
        let done = self.chips.wait(ticket);
        match (done.result, done.command) {
            (Ok(()), FlashCommand::Read { spare: Some(part), .. }) => {
                Ok(Spare::decode(&part.buffer))
            }
            (Err(FlashError::Torn { .. }), _) => Ok(Found::Damaged),
            (Err(error), _) => Err(self.told("read", &error)),
            (Ok(()), _) => unreachable!("it was a read of a spare area"),
        }
    }

    /// Begins to program bytes of a flash page, with its spare area if it is the first time.
    pub(super) fn begin_program(
        &self,
        cause: Cause,
        flash_page: Ppn,
        (first, bytes): (u32, &[u8]),
        spare: Option<&Spare>,
    ) -> Result<u64, StorageError> {
        let data = Some(FlashPart::copy_of(first, bytes));
        let spare = spare.map(|spare| FlashPart::copy_of(0, &spare.encode()));
        self.submit("program", cause, FlashCommand::Program { flash_page, data, spare })
    }

    /// Waits for a program.
    pub(super) fn end_program(&self, ticket: u64) -> Result<(), StorageError> {
        self.chips.wait(ticket).result.map_err(|error| self.told("program", &error))
    }

    /// Erases the erase blocks of a unit, the first one first: without it none of the others counts.
    /// False if one stands no more and is bad now.
    pub(super) fn erase(
        &self,
        cause: Cause,
        layout: &Layout,
        unit: u32,
    ) -> Result<bool, StorageError> {
        for erase_block in layout.erase_blocks(unit) {
            let ticket = self.submit("erase", cause, FlashCommand::Erase { erase_block })?;
            if !self.end_erase(ticket)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Erases erase blocks side by side; which of them can be.
    pub(super) fn erase_blocks(&self, blocks: &[u32]) -> Result<Vec<bool>, StorageError> {
        let begin = |&erase_block: &u32| {
            self.submit("erase", Cause::Host, FlashCommand::Erase { erase_block })
        };
        let tickets = blocks.iter().map(begin).collect::<Result<Vec<u64>, _>>()?;
        let ends: Vec<_> = tickets.into_iter().map(|ticket| self.end_erase(ticket)).collect();
        ends.into_iter().collect()
    }

    /// Waits for an erase; false if the erase block stands no more.
    fn end_erase(&self, ticket: u64) -> Result<bool, StorageError> {
        match self.chips.wait(ticket).result {
            Ok(()) => Ok(true),
            Err(FlashError::WornOut { .. }) => Ok(false),
            Err(error) => Err(self.told("erase", &error)),
        }
    }

    fn submit(&self, verb: &str, cause: Cause, command: FlashCommand) -> Result<u64, StorageError> {
        let begun = self.chips.submit(cause, command);
        begun.map_err(|rejected| self.told(verb, &rejected.error))
    }

    /// That something on the chips is not as it has to be.
    pub(super) fn corrupt(&self, what: String) -> StorageError {
        StorageError::Corrupt { place: self.info().name.clone(), what }
    }

    fn told(&self, verb: &str, error: &FlashError) -> StorageError {
        self.corrupt(format!("cannot {verb}: {error}"))
    }
}
