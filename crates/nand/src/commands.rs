//! The commands of a chip array: what each checks, changes, takes and counts (flash reference 1.1, 1.2).
//!
//! 1. Checks come first: a refused command changes nothing, except that the erase that finds a block
//!    worn out marks it.
//! 2. Every flash page, and every plane of a multi-plane command, adds to one counter cell.
//! 3. Without power every command is refused, and the one at which it goes is torn (see `power.rs`); that
//!    one is not counted.
//! 4. A batch (`read_rows`, `program_rows`) is the same commands one after the other, issued together.
//! 5. Cells change when a command is issued. Its time comes when `after` has ended and its die gets to it.

mod parts;

pub use parts::{PagePart, Piece};

use crate::array::{JournalEntry, SavedBlock};
use crate::events::{Command, Kind};
use crate::power::Power;
use crate::{
    Content, ERASED_TAG, METADATA_TAG, NandArray, NandError, Payload, ProgramOrder, Ticket,
};
use nandu_base::{Cause, FlashOperation, Nanos, Ppn, to_index, to_u32};
use std::sync::Arc;

/// Where a command goes.
#[derive(Clone, Copy, Debug)]
struct Place {
    die: usize,
    /// Plane group: erase blocks of a die that work together.
    group: u32,
}

/// When a command ends, and when a single server began it.
#[derive(Clone, Copy, Debug)]
struct Span {
    ticket: Ticket,
    begun_at: Nanos,
}

/// One row of a batch of reads: the same index in planes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRead {
    /// Index of the flash pages inside their erase blocks.
    pub index: u32,
    /// Bit `p` asks for the plane `p` after the first.
    pub plane_mask: u32,
    /// Units that cross the bus, at most all of the row.
    pub unit_count: u32,
}

impl NandArray {
    /// Reads `bytes` of one flash page; an erased one is legal.
    ///
    /// # Errors
    /// If the address is out of range, or the page or its erase block torn.
    #[inline]
    pub fn read(
        &mut self,
        after: Ticket,
        page: Ppn,
        bytes: u32,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let (erase_block, _) = self.pages.div_rem(page.0);
        // Which looks up nothing of the erase block: its record is seldom in a cache.
        let is_common = bytes == self.config.geometry.flash_page_bytes
            && self.torn_pages.is_empty()
            && self.torn_block_count == 0
            && !self.awaits_power_failure()
            && erase_block < self.blocks.len() as u64;
        if !is_common {
            return self.read_planes(after, page, 1, bytes, cause);
        }
        self.transferred_bytes += u64::from(bytes);
        let transfer_ns = self.unit_transfer_ns[self.units];
        Ok(self.sense(after, self.place_of(erase_block), (page.0, 1), transfer_ns, cause))
    }

    /// Reads the same index in several planes of a die in one array time. Bit `p` of `plane_mask`
    /// asks for the plane `p` after the one of `first`; `bytes` is the transfer of all together.
    ///
    /// # Errors
    /// If an address is out of range, or a page or its erase block torn.
    pub fn read_planes(
        &mut self,
        after: Ticket,
        first: Ppn,
        plane_mask: u32,
        bytes: u32,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let planes = u64::from(plane_mask.count_ones());
        let place = self.check_planes(first, u32::BITS - plane_mask.leading_zeros())?;
        let page_bytes = self.config.geometry.flash_page_bytes;
        if u64::from(bytes) > u64::from(page_bytes) * planes {
            let count = u64::from(page_bytes) * planes;
            return Err(NandError::OutOfRange { what: "byte", index: u64::from(bytes), count });
        }
        self.check_torn_planes(first.0, plane_mask)?;
        let transfer = self.transfer_ns(bytes);
        self.transferred_bytes += u64::from(bytes);
        Ok(self.sense(after, place, (first.0, planes), transfer, cause))
    }

    /// Reads several rows of the plane group that begins at erase block `first_block`, one after the
    /// other, all waiting for `after`.
    ///
    /// # Errors
    /// As [`Self::read_planes`]; none is read then.
    pub fn read_rows(
        &mut self,
        after: Ticket,
        first_block: u32,
        rows: impl Iterator<Item = RowRead> + Clone,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let base = self.config.geometry.flash_page(first_block, 0);
        let masks = rows.clone().fold(0, |all, row| all | row.plane_mask);
        let place = self.check_planes(base, (u32::BITS - masks.leading_zeros()).max(1))?;
        let stride = self.config.geometry.die_count();
        let planes = (0..u32::BITS).filter(|plane| masks >> plane & 1 == 1);
        let is_torn = |block: &u32| self.blocks[*block as usize].torn;
        if let Some(block) = planes.map(|plane| first_block + plane * stride).find(is_torn) {
            return Err(NandError::TornEraseBlock { erase_block: block.into() });
        }
        if !self.torn_pages.is_empty() {
            for row in rows.clone() {
                self.check_torn_planes(base.0 + u64::from(row.index), row.plane_mask)?;
            }
        }
        let read_ns = self.config.timing.read_ns.0;
        let array = self.config.timing.command_ns.0 + read_ns;
        let (mut total_ns, mut planes, mut unit_count) = (0, 0, 0);
        for row in rows.clone() {
            unit_count += u64::from(row.unit_count);
            planes += u64::from(row.plane_mask.count_ones());
            total_ns += array + self.unit_transfer_ns[row.unit_count as usize];
        }
        self.schedule.count(FlashOperation::Read, cause, planes);
        let end = if self.schedule.is_single_server() {
            self.schedule.empty_register(place.die);
            self.schedule.follow(after, total_ns)
        } else {
            // Each may begin when `after` has ended; their die has them in order.
            let (mut last, mut unit_count, mut count) = (after, 0, 0);
            for row in rows {
                if row.unit_count != unit_count && count > 0 {
                    last = self.issue_reads(after, (unit_count, count), cause, place);
                    count = 0;
                }
                (unit_count, count) = (row.unit_count, count + 1);
            }
            match count {
                0 => last,
                _ => self.issue_reads(after, (unit_count, count), cause, place),
            }
        };
        let page_bytes = u64::from(self.config.geometry.flash_page_bytes);
        self.transferred_bytes += unit_count * page_bytes / self.units as u64;
        Ok(end)
    }

    /// `count` reads of rows of which `unit_count` units cross the bus, one after the other.
    #[inline]
    fn issue_reads(
        &mut self,
        after: Ticket,
        (unit_count, count): (u32, usize),
        cause: Cause,
        place: Place,
    ) -> Ticket {
        let transfer_ns = self.unit_transfer_ns[unit_count as usize];
        let read_ns = self.config.timing.read_ns.0;
        let command = self.command(Kind::Read, cause, place, (read_ns, transfer_ns));
        self.schedule.issue_many(after, &command, count)
    }

    /// A command with the array's command time.
    #[inline]
    fn command(
        &self,
        kind: Kind,
        cause: Cause,
        place: Place,
        (array_ns, transfer_ns): (u64, u64),
    ) -> Command {
        let Place { die, group } = place;
        let command_ns = self.config.timing.command_ns.0;
        let yields = self.cleaning_yields && cause == Cause::Cleaning;
        Command { kind, cause, die, group, command_ns, array_ns, transfer_ns, sensed: None, yields }
    }

    /// Issues a command; tells when a single server began it.
    #[inline]
    fn issue(&mut self, after: Ticket, command: &Command) -> Span {
        let ticket = self.schedule.issue(after, command);
        let length = command.command_ns + command.array_ns + command.transfer_ns;
        Span { ticket, begun_at: Nanos(ticket.time().0.saturating_sub(length)) }
    }

    #[inline]
    fn check_torn_planes(&self, first: u64, plane_mask: u32) -> Result<(), NandError> {
        let mut rest = plane_mask;
        while rest != 0 {
            self.check_torn(first + u64::from(rest.trailing_zeros()) * self.plane_stride())?;
            rest &= rest - 1;
        }
        Ok(())
    }

    /// One array read of `planes` planes from flash page `first` on, and its transfer.
    #[inline]
    fn sense(
        &mut self,
        after: Ticket,
        place: Place,
        (first, planes): (u64, u64),
        transfer: u64,
        cause: Cause,
    ) -> Ticket {
        let kind = if cause == Cause::Host { Kind::UrgentRead } else { Kind::Read };
        let mut command =
            self.command(kind, cause, place, (self.config.timing.read_ns.0, transfer));
        // Neighbouring units of one flash page are sensed once: the page register still holds them.
        if self.units > 1 {
            command.sensed = Some((first, planes));
        } else {
            self.schedule.count(FlashOperation::Read, cause, planes);
        }
        self.schedule.issue(after, &command)
    }

    /// Reads the spare area alone; the array time is that of a read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn spare_read(
        &mut self,
        after: Ticket,
        page: Ppn,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        if self.sequences.is_empty() {
            return Err(NandError::NoSequences);
        }
        let place = self.check_planes(page, 1)?;
        self.check_torn(page.0)?;
        let timing = &self.config.timing;
        let spare_bytes = u64::from(self.config.geometry.spare_bytes);
        let transfer = Nanos::of_transfer(spare_bytes, timing.bus_bytes_per_second).0;
        let command = self.command(Kind::Read, cause, place, (timing.read_ns.0, transfer));
        let ticket = self.schedule.issue(after, &command);
        self.schedule.count(FlashOperation::SpareRead, cause, 1);
        self.transferred_bytes += spare_bytes;
        Ok(ticket)
    }

    /// Programs one flash page, or with a longer payload the same index of the planes that follow, in
    /// one array time.
    ///
    /// # Errors
    /// If a law forbids it or the payload does not fit.
    #[inline]
    pub fn program(
        &mut self,
        after: Ticket,
        first: Ppn,
        payload: Payload<'_>,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        if payload.lpns.len() == self.units
            && let Some(end) = self.program_next(after, first.0, &payload, cause)
        {
            return Ok(end);
        }
        let planes = to_u32((payload.lpns.len() / self.units) as u64);
        self.program_rows(after, first, planes, payload, cause)
    }

    /// The common program, its laws checked at once: a page at or above the pointer of a sound erase
    /// block, without content, journal or faults. None leaves everything to the general way, which
    /// also names the law that is broken.
    #[inline]
    fn program_next(
        &mut self,
        after: Ticket,
        page: u64,
        payload: &Payload<'_>,
        cause: Cause,
    ) -> Option<Ticket> {
        if !self.is_plain || self.awaits_power_failure() || !self.torn_pages.is_empty() {
            return None;
        }
        let (erase_block, index) = self.pages.div_rem(page);
        let block = self.blocks.get_mut(to_index(erase_block))?;
        if index < u64::from(block.next_page) || block.bad || block.torn {
            return None;
        }
        if block.next_page == 0 {
            block.first_sequence = payload.sequence;
        }
        let offset = u32::try_from(payload.sequence.checked_sub(block.first_sequence)?).ok()?;
        block.next_page = to_u32(index) + 1;
        if let Some(sequence) = self.sequences.get_mut(to_index(page)) {
            *sequence = offset;
        }
        if let [lpn] = payload.lpns {
            self.tags[to_index(page)] = *lpn;
        } else {
            let first = to_index(page) * self.units;
            self.tags[first..first + self.units].copy_from_slice(payload.lpns);
        }
        self.schedule.count(FlashOperation::Program, cause, 1);
        self.transferred_bytes += u64::from(self.config.geometry.flash_page_bytes);
        let program_ns = self.program_ns_at(to_u32(index));
        let transfer_ns = self.unit_transfer_ns[self.units];
        if self.schedule.is_single_server() && self.units == 1 {
            let length = self.config.timing.command_ns.0 + transfer_ns + program_ns;
            return Some(self.schedule.follow(after, length));
        }
        let place = self.place_of(erase_block);
        let command = self.command(Kind::Program, cause, place, (program_ns, transfer_ns));
        Some(self.schedule.issue(after, &command))
    }

    /// Programs consecutive rows of `planes` planes from flash page `first` on, one after the other,
    /// all waiting for `after`. The payload holds the rows in order, in each the planes in order; the
    /// sequence number is that of the first row and rises by one a row.
    ///
    /// # Errors
    /// If a law forbids one of them or the payload does not fit; none is programmed then.
    pub fn program_rows(
        &mut self,
        after: Ticket,
        first: Ppn,
        planes: u32,
        payload: Payload<'_>,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let width = planes as usize * self.units;
        let rows = payload.lpns.len().checked_div(width).unwrap_or(0);
        if rows == 0 || rows * width != payload.lpns.len() {
            let units_per_flash_page = self.config.units_per_flash_page;
            let length = payload.lpns.len();
            return Err(NandError::PayloadLength { length, units_per_flash_page });
        }
        let place = self.check_planes(first, planes)?;
        let stride = self.plane_stride();
        let last_sequence = payload.sequence + (rows as u64 - 1);
        for plane in 0..u64::from(planes) {
            self.check_programs(first.0 + plane * stride, rows, (payload.sequence, last_sequence))?;
        }
        let transfer = self.unit_transfer_ns[self.units] * u64::from(planes);
        let (_, index) = self.pages.div_rem(first.0);
        let program_ns = self.config.timing.program_ns.0;
        let mut command = self.command(Kind::Program, cause, place, (program_ns, transfer));
        let mut end = after;
        // Where the power may fail each row has its own time and fate; else all are stored at once.
        let may_fail = self.config.power_cut_journal || self.awaits_power_failure();
        let step = if may_fail { 1 } else { rows };
        for row in (0..rows).step_by(step) {
            let power = self.draw_power()?;
            let span = match step {
                1 => {
                    command.array_ns = self.program_ns_at(to_u32(index + row as u64));
                    self.issue(after, &command)
                }
                _ => {
                    let ticket = self.issue_rows(after, command, (to_u32(index), step));
                    Span { ticket, begun_at: Nanos::ZERO }
                }
            };
            for plane in 0..planes as usize {
                let page = first.0 + plane as u64 * stride + row as u64;
                let part = payload.part(row * width + plane * self.units, row as u64);
                self.store(span, page, (step, width), part);
                if power == Power::FailsInside {
                    self.tear_page(page);
                }
            }
            if power == Power::FailsInside {
                return Err(NandError::PowerLost);
            }
            let count = u64::from(planes) * step as u64;
            self.schedule.count(FlashOperation::Program, cause, count);
            self.transferred_bytes += u64::from(self.config.geometry.flash_page_bytes) * count;
            end = span.ticket;
        }
        Ok(end)
    }

    /// Programs `count` rows from index `first` on, one after the other; answers the last.
    #[inline]
    fn issue_rows(
        &mut self,
        after: Ticket,
        mut command: Command,
        (first, count): (u32, usize),
    ) -> Ticket {
        if self.config.timing.program_type_ns.is_empty() {
            return self.schedule.issue_many(after, &command, count);
        }
        let mut last = after;
        for index in (first..).take(count) {
            command.array_ns = self.program_ns_at(index);
            last = self.schedule.issue(after, &command);
        }
        last
    }

    /// What the program of the flash page of that index takes in the array.
    #[inline]
    fn program_ns_at(&self, index: u32) -> u64 {
        let timing = &self.config.timing;
        timing.program_type_ns.time_of(index).unwrap_or(timing.program_ns).0
    }

    /// Programs one row of `planes` planes with metadata of the translation layer, at most a row's bytes.
    ///
    /// # Errors
    /// As [`Self::program`].
    pub fn program_metadata(
        &mut self,
        after: Ticket,
        first: Ppn,
        planes: u32,
        (sequence, content): (u64, Arc<[u8]>),
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let row_bytes = u64::from(self.config.geometry.flash_page_bytes) * u64::from(planes);
        if content.len() as u64 > row_bytes {
            let index = content.len() as u64;
            return Err(NandError::OutOfRange { what: "byte", index, count: row_bytes });
        }
        let lpns = vec![METADATA_TAG; planes as usize * self.units];
        let payload = Payload { lpns: &lpns, sequence, contents: &[] };
        let done = self.program_rows(after, first, planes, payload, cause)?;
        self.contents.insert(first.0 * self.units as u64, content);
        Ok(done)
    }

    /// Moves a flash page inside its plane: array read and array program, nothing over the bus. The
    /// tags move along, the sequence number is new.
    ///
    /// # Errors
    /// If the planes differ or a law forbids the read or the program.
    pub fn copy_back(
        &mut self,
        after: Ticket,
        (from, to): (Ppn, Ppn),
        sequence: u64,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        self.check_planes(from, 1)?;
        let place = self.check_planes(to, 1)?;
        let stride = self.config.geometry.die_count() * self.config.geometry.planes_per_die;
        let blocks = [from, to].map(|page| to_u32(self.pages.div_rem(page.0).0));
        if blocks[0] % stride != blocks[1] % stride {
            return Err(NandError::DifferentPlane { from: from.0, to: to.0 });
        }
        self.check_torn(from.0)?;
        let Some(tags) = self.spare(from).map(|spare| spare.lpns.to_vec()) else {
            return Err(NandError::NotProgrammed { flash_page: from.0 });
        };
        self.check_programs(to.0, 1, (sequence, sequence))?;
        let units = self.config.units_per_flash_page;
        let contents: Vec<Content> = match self.config.keep_content {
            true => (0..units).map(|unit| self.content(from, unit)).collect(),
            false => Vec::new(),
        };
        let power = self.draw_power()?;
        let (_, row) = self.pages.div_rem(to.0);
        let array = self.config.timing.read_ns.0 + self.program_ns_at(to_u32(row));
        let command = self.command(Kind::Program, cause, place, (array, 0));
        let span = self.issue(after, &command);
        let payload = Payload { lpns: &tags, sequence, contents: &contents };
        self.store(span, to.0, (1, self.units), payload);
        if power == Power::FailsInside {
            self.tear_page(to.0);
            return Err(NandError::PowerLost);
        }
        self.schedule.count(FlashOperation::CopyBack, cause, 1);
        Ok(span.ticket)
    }

    /// Erases one erase block.
    ///
    /// # Errors
    /// If it is bad, worn out (then it is bad from after on) or out of range.
    pub fn erase(&mut self, after: Ticket, block: u32, cause: Cause) -> Result<Ticket, NandError> {
        self.erase_planes(after, block, 1, cause)
    }

    /// Erases the erase blocks of `plane_count` planes of a row, from `first` on, in one array time.
    ///
    /// # Errors
    /// As [`Self::erase`]; none is erased then.
    pub fn erase_planes(
        &mut self,
        after: Ticket,
        first: u32,
        plane_count: u32,
        cause: Cause,
    ) -> Result<Ticket, NandError> {
        let place = self.check_planes(self.config.geometry.flash_page(first, 0), plane_count)?;
        let stride = self.config.geometry.die_count();
        let endurance = self.config.rules.endurance;
        self.check_power()?;
        for plane in 0..plane_count {
            let erase_block = first + plane * stride;
            let block = &mut self.blocks[erase_block as usize];
            if block.bad {
                return Err(NandError::BadEraseBlock { erase_block: u64::from(erase_block) });
            }
            if endurance > 0 && block.erase_count >= endurance {
                block.bad = true;
                let erase_block = u64::from(erase_block);
                return Err(NandError::WornOut { erase_block, endurance });
            }
        }
        let power = self.draw_power()?;
        let command = self.command(Kind::Erase, cause, place, (self.config.timing.erase_ns.0, 0));
        let span = self.issue(after, &command);
        for plane in 0..plane_count {
            self.clear(span, first + plane * stride);
            if power == Power::FailsInside {
                self.tear_block(first + plane * stride);
            }
        }
        if power == Power::FailsInside {
            return Err(NandError::PowerLost);
        }
        self.schedule.count(FlashOperation::Erase, cause, u64::from(plane_count));
        Ok(span.ticket)
    }

    /// Distance between the same index of neighbouring planes, in flash pages.
    #[inline]
    fn plane_stride(&self) -> u64 {
        self.dies.value() * self.pages.value()
    }

    #[inline]
    fn place_of(&self, erase_block: u64) -> Place {
        let (in_die, die) = self.dies.div_rem(erase_block);
        let planes = u64::from(self.config.geometry.planes_per_die);
        let row = if planes == 1 { in_die } else { in_die / planes };
        Place { die: to_index(die), group: to_u32(row * self.dies.value() + die) }
    }

    /// Checks `plane_count` planes from the flash page on; answers where they lie.
    #[inline]
    fn check_planes(&self, page: Ppn, planes: u32) -> Result<Place, NandError> {
        let count = self.config.geometry.flash_page_count();
        if page.0 >= count {
            return Err(NandError::OutOfRange { what: "flash page", index: page.0, count });
        }
        let (block, _) = self.pages.div_rem(page.0);
        if planes != 1 {
            let (in_die, _) = self.dies.div_rem(block);
            let plane = in_die % u64::from(self.config.geometry.planes_per_die);
            let (index, count) = (plane + u64::from(planes), self.config.geometry.planes_per_die);
            if planes == 0 || index > u64::from(count) {
                return Err(NandError::OutOfRange { what: "plane", index, count: count.into() });
            }
        }
        Ok(self.place_of(block))
    }

    #[inline]
    fn check_torn(&self, page: u64) -> Result<(), NandError> {
        self.check_power()?;
        let (block, _) = self.pages.div_rem(page);
        if self.blocks[to_index(block)].torn {
            return Err(NandError::TornEraseBlock { erase_block: block });
        }
        if !self.torn_pages.is_empty() && self.torn_pages.contains_key(&page) {
            return Err(NandError::Torn { flash_page: page });
        }
        Ok(())
    }

    /// Checks the programs of `rows` flash pages from `page` on, with sequence numbers in that range.
    #[inline]
    fn check_programs(
        &self,
        page: u64,
        rows: usize,
        (sequence, last_sequence): (u64, u64),
    ) -> Result<(), NandError> {
        let (erase_block, index) = self.pages.div_rem(page);
        let block = &self.blocks[to_index(erase_block)];
        let end = index + rows as u64;
        if end > self.pages.value() {
            let count = self.pages.value();
            return Err(NandError::OutOfRange { what: "row", index: end - 1, count });
        }
        if block.bad {
            return Err(NandError::BadEraseBlock { erase_block });
        }
        if block.torn {
            return Err(NandError::TornEraseBlock { erase_block });
        }
        // From the program pointer on every page is erased (invariant 2 of the array).
        let ascending = self.config.rules.program_order == ProgramOrder::Ascending;
        let above_pointer = ascending && index >= u64::from(block.next_page);
        if !above_pointer || !self.torn_pages.is_empty() {
            for page in page..page + rows as u64 {
                let erased = self.tags[to_index(page) * self.units] == ERASED_TAG;
                if !erased || self.torn_pages.contains_key(&page) {
                    return Err(NandError::NotErased { flash_page: page });
                }
            }
        }
        if ascending && !above_pointer {
            return Err(NandError::ProgramOrder { flash_page: page, next_index: block.next_page });
        }
        let empty = block.next_page == 0;
        let first_sequence = if empty { sequence } else { block.first_sequence };
        if sequence < first_sequence || last_sequence - first_sequence > u64::from(u32::MAX) {
            return Err(NandError::Sequence { flash_page: page, sequence, first_sequence });
        }
        Ok(())
    }

    /// Stores `rows` flash pages of one erase block from `page` on; the payload of the next row lies
    /// `width` units further on.
    #[inline]
    fn store(
        &mut self,
        span: Span,
        page: u64,
        (rows, width): (usize, usize),
        payload: Payload<'_>,
    ) {
        let (erase_block, index) = self.pages.div_rem(page);
        let (erase_block, index) = (to_u32(erase_block), to_u32(index));
        let block = &mut self.blocks[erase_block as usize];
        if self.config.power_cut_journal {
            let before = *block;
            let page = Some(index);
            let Span { ticket, begun_at } = span;
            let (saved, part) = (None, None);
            let entry = JournalEntry { ticket, begun_at, erase_block, before, page, saved, part };
            self.journal.push(entry);
        }
        if block.next_page == 0 {
            block.first_sequence = payload.sequence;
        }
        block.next_page = block.next_page.max(index + to_u32(rows as u64));
        let slot = to_index(page);
        let offset = to_u32(payload.sequence - block.first_sequence);
        if let Some(sequences) = self.sequences.get_mut(slot..slot + rows) {
            for (sequence, value) in sequences.iter_mut().zip(offset..) {
                *sequence = value;
            }
        }
        let tags = &mut self.tags[slot * self.units..(slot + rows) * self.units];
        if width == self.units {
            tags.copy_from_slice(&payload.lpns[..rows * width]);
        } else {
            for (tags, lpns) in tags.chunks_mut(self.units).zip(payload.lpns.chunks(width)) {
                tags.copy_from_slice(&lpns[..self.units]);
            }
        }
        if self.config.keep_content {
            for (row, contents) in payload.contents.chunks(width).take(rows).enumerate() {
                let first = (page + row as u64) * self.units as u64;
                for (key, content) in (first..).zip(contents.iter().take(self.units)) {
                    if let Some(content) = content {
                        self.contents.insert(key, Arc::clone(content));
                    }
                }
            }
        }
    }

    fn clear(&mut self, span: Span, erase_block: u32) {
        let first = self.config.geometry.flash_page(erase_block, 0).0;
        let end = first + self.pages.value();
        let range = to_index(first)..to_index(end);
        let tag_range = range.start * self.units..range.end * self.units;
        if self.config.power_cut_journal {
            let keys = tag_range.clone().map(|key| key as u64);
            let torn = self.torn_pages.range(first..end);
            let held = |key| self.contents.get(&key).map(|content| (key, Arc::clone(content)));
            let saved = SavedBlock {
                tags: self.tags[tag_range.clone()].to_vec(),
                sequences: self.sequences.get(range.clone()).unwrap_or(&[]).to_vec(),
                contents: keys.filter_map(held).collect(),
                counts: self.partial_counts.get(range.clone()).unwrap_or(&[]).to_vec(),
                torn: torn.map(|(page, part)| (*page, part.clone())).collect(),
            };
            let before = self.blocks[erase_block as usize];
            let saved = Some(Box::new(saved));
            let Span { ticket, begun_at } = span;
            let (page, part) = (None, None);
            let entry = JournalEntry { ticket, begun_at, erase_block, before, page, saved, part };
            self.journal.push(entry);
        }
        let block = &mut self.blocks[erase_block as usize];
        block.erase_count += 1;
        self.torn_block_count -= u32::from(block.torn);
        (block.next_page, block.first_sequence, block.torn) = (0, 0, false);
        self.tags[tag_range.clone()].fill(ERASED_TAG);
        if let Some(counts) = self.partial_counts.get_mut(range) {
            counts.fill(0);
        }
        if !self.torn_pages.is_empty() {
            self.torn_pages.retain(|page, _| !(first..end).contains(page));
        }
        if !self.contents.is_empty() {
            for key in tag_range {
                self.contents.remove(&(key as u64));
            }
        }
    }

    #[inline]
    fn transfer_ns(&self, bytes: u32) -> u64 {
        if bytes == self.config.geometry.flash_page_bytes {
            return self.unit_transfer_ns[self.units];
        }
        let bus_bytes = self.config.geometry.bus_bytes(bytes);
        Nanos::of_transfer(bus_bytes, self.config.timing.bus_bytes_per_second).0
    }
}
