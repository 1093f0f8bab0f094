//! Parts of flash pages, as who manages raw flash programs and reads them, with what they hold
//! (S000 section 2.1, S002 section 3.1).
//!
//! ```text
//!   flash page   │ data                          │ spare area      │
//!   one program        │ some bytes of it │    and │ some of it │
//! ```
//!
//! 1. Bytes that were not programmed since the erase hold ones. A program clears bits and sets
//!    none.
//! 2. The programs of a flash page between two erases count together, whole or in part.
//! 3. A power cut tears the bytes that were being programmed. The others of the flash page stay.
//! 4. What is moved crosses the bus, and with data at least the spare bytes that hold the error
//!    correction of that much data.

use super::Span;
use crate::array::{JournalEntry, SavedPart};
use crate::events::Kind;
use crate::power::Power;
use crate::{Content, NO_LPN, NandArray, NandError, Payload, Ticket};
use nandu_base::{Cause, FlashOperation, Nanos, Ppn, to_index, to_u32};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a flash page that are programmed, side by side in one of its areas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece<'a> {
    /// Where they begin in the area, from 0.
    pub first_byte: u32,
    /// What they shall hold; empty leaves the area alone.
    pub bytes: &'a [u8],
}

/// Which bytes of a flash page; an empty range has none of the area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// Bytes of the data.
    pub data: Range<u32>,
    /// Bytes of the spare area.
    pub spare: Range<u32>,
}

impl Piece<'_> {
    fn range(&self) -> Range<u32> {
        let count = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.first_byte..self.first_byte.saturating_add(count)
    }
}

impl PagePart {
    /// The whole flash page.
    pub(crate) const WHOLE: Self = Self { data: 0..u32::MAX, spare: 0..u32::MAX };

    fn touches(&self, other: &Self) -> bool {
        let overlap =
            |one: &Range<u32>, two: &Range<u32>| one.start.max(two.start) < one.end.min(two.end);
        overlap(&self.data, &other.data) || overlap(&self.spare, &other.spare)
    }
}

impl NandArray {
    /// Programs a flash page again without an erase, at most `programs_per_erase` times in all; the
    /// caller merges old and new content, `bytes` cross the bus.
    ///
    /// # Errors
    /// If it was never programmed, or programmed too often.
    pub fn partial_program(
        &mut self,
        after: Ticket,
        page: Ppn,
        bytes: u32,
        content: Content,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        self.check_planes(page, 1)?;
        self.check_torn(page.0)?;
        if !self.is_programmed(page.0) {
            return Err(NandError::NotProgrammed { flash_page: page.0 });
        }
        self.check_program_count(page.0)?;
        let transfer_ns = self.transfer_ns(bytes);
        let ticket =
            self.program_again(after, page, (content, PagePart::WHOLE), transfer_ns, cause)?;
        self.transferred_bytes += u64::from(bytes);
        Ok(ticket)
    }

    /// Programs some bytes of a flash page, of its data and of its spare area in one command. The
    /// array keeps content, one unit a flash page; its reads are [`Self::read_part`].
    ///
    /// # Errors
    /// If a law forbids it: the order of first programs, the number of programs, a bit that would
    /// have to be set.
    ///
    /// # Panics
    /// If the array keeps no content or divides its flash pages into units.
    pub fn program_part(
        &mut self,
        after: Ticket,
        page: Ppn,
        (data, spare): (Piece<'_>, Piece<'_>),
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        assert!(self.config.keep_content, "parts are programmed where content is kept");
        assert_eq!(self.units, 1, "a flash page is one unit");
        let place = self.check_planes(page, 1)?;
        let part = PagePart { data: data.range(), spare: spare.range() };
        self.check_part(&part)?;
        let is_first = !self.is_programmed(page.0);
        if is_first {
            self.check_programs(page.0, 1, (0, 0))?;
        } else {
            self.check_again(page.0)?;
        }
        let cells = self.cells_after(page, data, spare)?;
        let transfer_ns = self.part_transfer_ns(&part);
        let moved = data.bytes.len() as u64 + spare.bytes.len() as u64;
        if !is_first {
            let ticket =
                self.program_again(after, page, (Some(cells), part), transfer_ns, cause)?;
            self.transferred_bytes += moved;
            return Ok(ticket);
        }
        let power = self.draw_power()?;
        let (_, index) = self.pages.div_rem(page.0);
        let times = (self.program_ns_at(to_u32(index)), transfer_ns);
        let span = self.issue(after, &self.command(Kind::Program, cause, place, times));
        let payload = Payload { lpns: &[NO_LPN], sequence: 0, contents: &[Some(cells)] };
        self.store(span, page.0, (1, 1), payload);
        let saved = SavedPart { torn: part, content: None, is_first };
        if let Some(entry) = self.journal.last_mut() {
            entry.part = Some(Box::new(saved.clone()));
        }
        if power == Power::FailsInside {
            self.tear_part(page.0, &saved);
            return Err(NandError::PowerLost);
        }
        self.schedule.count(FlashOperation::Program, cause, 1);
        self.transferred_bytes += moved;
        Ok(span.ticket)
    }

    /// Takes the time of a read of some bytes of a flash page, whatever they hold. What it delivers
    /// is [`Self::content`], data before spare area, unless [`Self::is_torn`] says that it is
    /// nothing.
    ///
    /// # Errors
    /// If the address is out of range or the power off.
    pub fn read_part(
        &mut self,
        after: Ticket,
        page: Ppn,
        part: &PagePart,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let place = self.check_planes(page, 1)?;
        self.check_part(part)?;
        self.check_power()?;
        let (kind, operation) = match (cause, part.data.is_empty()) {
            (_, true) => (Kind::Read, FlashOperation::SpareRead),
            (Cause::Host, false) => (Kind::UrgentRead, FlashOperation::Read),
            (_, false) => (Kind::Read, FlashOperation::Read),
        };
        let times = (self.config.timing.read_ns.0, self.part_transfer_ns(part));
        let command = self.command(kind, cause, place, times);
        let ticket = self.schedule.issue(after, &command);
        self.schedule.count(operation, cause, 1);
        self.transferred_bytes += u64::from(part.data.end - part.data.start);
        self.transferred_bytes += u64::from(part.spare.end - part.spare.start);
        Ok(ticket)
    }

    /// Erases one erase block; answers whether it did. Where the erase block is worn out, as
    /// [`Self::erase`] finds it, the command takes its time all the same.
    ///
    /// # Errors
    /// If it is bad already or out of range, or the power off.
    pub fn erase_or_wear_out(
        &mut self,
        after: Ticket,
        erase_block: u32,
        cause: Cause,
    ) -> Result<(Ticket, bool), NandError> {
        match self.erase(after, erase_block, cause) {
            Ok(ticket) => Ok((ticket, true)),
            Err(NandError::WornOut { .. }) => {
                let place = self.place_of(erase_block.into());
                let times = (self.config.timing.erase_ns.0, 0);
                let command = self.command(Kind::Erase, cause, place, times);
                Ok((self.issue(after, &command).ticket, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a power cut left a byte of this part undefined.
    #[must_use]
    pub fn is_torn(&self, page: Ppn, part: &PagePart) -> bool {
        let (erase_block, _) = self.pages.div_rem(page.0);
        self.blocks[to_index(erase_block)].torn
            || self.torn_pages.get(&page.0).is_some_and(|torn| torn.touches(part))
    }

    /// A flash page that was programmed before is programmed again.
    fn program_again(
        &mut self,
        after: Ticket,
        page: Ppn,
        (content, part): (Content, PagePart),
        transfer_ns: u64,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let power = self.draw_power()?;
        let (erase_block, index) = self.pages.div_rem(page.0);
        let times = (self.program_ns_at(to_u32(index)), transfer_ns);
        let place = self.place_of(erase_block);
        let Span { ticket, begun_at } =
            self.issue(after, &self.command(Kind::Program, cause, place, times));
        let saved = SavedPart { torn: part, content: self.content(page, 0), is_first: false };
        if power == Power::FailsInside {
            self.tear_part(page.0, &saved);
            return Err(NandError::PowerLost);
        }
        if self.config.power_cut_journal {
            let before = self.blocks[to_index(erase_block)];
            self.journal.push(JournalEntry {
                ticket,
                begun_at,
                erase_block: to_u32(erase_block),
                before,
                page: Some(to_u32(index)),
                saved: None,
                part: Some(Box::new(saved)),
            });
        }
        self.partial_counts[to_index(page.0)] += 1;
        if let (true, Some(content)) = (self.config.keep_content, content) {
            self.contents.insert(page.0 * self.units as u64, content);
        }
        self.schedule.count(FlashOperation::PartialProgram, cause, 1);
        Ok(ticket)
    }

    /// Checks that a flash page that was programmed takes one more program.
    fn check_again(&self, page: u64) -> Result<(), NandError> {
        let (erase_block, _) = self.pages.div_rem(page);
        if self.blocks[to_index(erase_block)].bad {
            return Err(NandError::BadEraseBlock { erase_block });
        }
        self.check_torn(page)?;
        self.check_program_count(page)
    }

    fn check_program_count(&self, page: u64) -> Result<(), NandError> {
        let limit = self.config.rules.programs_per_erase;
        let count = self.partial_counts.get(to_index(page));
        match count.is_none_or(|count| count + 1 >= limit) {
            true => Err(NandError::PartialProgramLimit { flash_page: page, limit }),
            false => Ok(()),
        }
    }

    /// Checks that the bytes lie in their areas.
    fn check_part(&self, part: &PagePart) -> Result<(), NandError> {
        let geometry = &self.config.geometry;
        for (what, range, count) in [
            ("byte", &part.data, geometry.flash_page_bytes),
            ("spare byte", &part.spare, geometry.spare_bytes),
        ] {
            if range.end > count {
                let (index, count) = (range.end.into(), count.into());
                return Err(NandError::OutOfRange { what, index, count });
            }
        }
        Ok(())
    }

    /// What the flash page holds after the program (invariant 1).
    fn cells_after(
        &self,
        page: Ppn,
        data: Piece<'_>,
        spare: Piece<'_>,
    ) -> Result<Arc<[u8]>, NandError> {
        let geometry = &self.config.geometry;
        let data_bytes = to_index(geometry.flash_page_bytes.into());
        let mut cells = match self.content(page, 0) {
            Some(content) => content.to_vec(),
            None => vec![u8::MAX; data_bytes + to_index(geometry.spare_bytes.into())],
        };
        for (area, piece) in [(0, data), (data_bytes, spare)] {
            let first = area + to_index(piece.first_byte.into());
            for (cell, &byte) in cells[first..].iter_mut().zip(piece.bytes) {
                if byte & !*cell != 0 {
                    return Err(NandError::NotErased { flash_page: page.0 });
                }
                *cell = byte;
            }
        }
        Ok(cells.into())
    }

    /// How long a part takes to cross the bus (invariant 4).
    fn part_transfer_ns(&self, part: &PagePart) -> u64 {
        let data_bytes = part.data.end - part.data.start;
        let moved = u64::from(data_bytes) + u64::from(part.spare.end - part.spare.start);
        let bus_bytes = moved.max(self.config.geometry.bus_bytes(data_bytes));
        Nanos::of_transfer(bus_bytes, self.config.timing.bus_bytes_per_second).0
    }
}
