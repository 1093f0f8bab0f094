//! Segments on raw flash: each is some erase blocks side by side, whose flash pages are programmed upwards.
//!
//! ```text
//!   segment   │ erase block: flash page, flash page, … │ erase block: … │
//!   write     │ summary │ base page │ base page │ differential page │ blank to the end of a unit │
//! ```
//!
//! A flash page of page-differential logging has the bytes of a page: it is some flash pages of the chips, or
//! shares one with others.
//!
//! 1. A segment is erased when it is begun, and at no other time but when all is made. One with a bad erase
//!    block has nothing, from the factory or since an erase failed, which takes nothing that is needed.
//! 2. What was programmed is durable. Where an interrupted program destroys the flash page before it, too,
//!    a unit is two flash pages, so that it destroys nothing of an earlier write.
//! 3. What a cut left undefined is an error to whoever reads it, and blank to who looks for summaries.

use super::medium::SegmentMedium;
use super::settings::{DIFFERENCE_BYTES_MIN, RESERVE_COUNT_MIN};
use super::{PageDifferential, PageDifferentialSettings};
use crate::page::check_page_bytes;
use crate::propagation::log_structured::reads::{PieceReads, ReadPiece};
use crate::propagation::{FlashIo, Media};
use crate::volume::Io;
use crate::{FileId, StorageError};
use nandu_base::{Cause, Ppn, Rng, to_index, to_u32};
use nandu_device::raw_flash::{BLANK, FlashCommand, FlashError, FlashPart};
use nandu_device::{DeviceError, IoBuffer};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The raw flash.
pub(in crate::propagation) const CHIPS: &str = "chips";
const CHIPS_FILE: &str = "differentials-on-chips";
/// The file on the volume of the data which says that the chips have the pages of this database.
pub(in crate::propagation) const FILES_ON_CHIPS: [&str; 1] = [CHIPS_FILE];

/// A segment has so many pages at least.
const SEGMENT_PAGES_MIN: u64 = 16;
/// And so many bytes at most.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Erase blocks of a segment at most, if they are chosen.
const SEGMENT_BLOCKS_MAX: u32 = 1024;
/// Flash pages of fewer bytes there are none.
const FLASH_PAGE_BYTES_MIN: u32 = 512;
/// A write has so many pages at least, if that is chosen.
const WRITE_PAGES_MIN: u32 = 4;
/// Segments that there are beside those in reserve, at least.
const MORE_SEGMENTS_MIN: u32 = 4;
/// Erase blocks that are looked at together when all is made.
const LOOKED_AT_ONCE: usize = 64;

/// The settings of page-differential logging on raw flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageDifferentialChipsSettings {
    /// A page whose differential has more bytes than this, with what is told of it, is written as a new
    /// base page; at most a page. The paper measures 256 and 2048.
    pub difference_bytes_max: u32,
    /// Erase blocks of a segment, 1 to 1024; more, where these have no room for sixteen pages.
    pub segment_block_count: u32,
    /// Bytes that are gathered for one write, four pages at least; at most a segment are.
    pub write_bytes: u32,
    /// Cleaning begins when so many segments or fewer can be written; 4 at least.
    pub reserve_segment_count: u32,
}

impl Default for PageDifferentialChipsSettings {
    fn default() -> Self {
        Self {
            difference_bytes_max: 256,
            segment_block_count: 1,
            write_bytes: 256 << 10,
            reserve_segment_count: 6,
        }
    }
}

impl PageDifferentialChipsSettings {
    /// These settings, as far as they were fixed when the propagation was made, and the rest of `wanted`.
    pub(in crate::propagation) fn with(&self, wanted: &Self) -> Self {
        Self { segment_block_count: self.segment_block_count, ..wanted.clone() }
    }

    /// Small, so that a small database has to clean.
    #[must_use]
    pub fn small(page_bytes: u32, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "differentials on chips");
        let mut one_of = |choices: &[u32]| choices[to_index(rng.below(choices.len() as u64))];
        Self {
            difference_bytes_max: one_of(&[128, 256, 256, page_bytes / 2]),
            segment_block_count: one_of(&[1, 1, 2]),
            write_bytes: one_of(&[4, 4, 8]) * page_bytes,
            reserve_segment_count: 4,
        }
    }

    /// Checks that the settings can work together, for pages of `page_bytes`.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self, page_bytes: u32) -> Result<(), StorageError> {
        check_page_bytes(page_bytes)?;
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        let Self { difference_bytes_max, segment_block_count, write_bytes, .. } = *self;
        if difference_bytes_max < DIFFERENCE_BYTES_MIN {
            return invalid(format!(
                "difference_bytes_max {difference_bytes_max} is below {DIFFERENCE_BYTES_MIN}; choose \
                 256, say"
            ));
        }
        if !(1..=SEGMENT_BLOCKS_MAX).contains(&segment_block_count) {
            return invalid(format!(
                "segment_block_count {segment_block_count} is not from 1 to {SEGMENT_BLOCKS_MAX}"
            ));
        }
        if write_bytes < WRITE_PAGES_MIN * page_bytes {
            return invalid(format!(
                "write_bytes {write_bytes} is below {WRITE_PAGES_MIN} pages of {page_bytes}"
            ));
        }
        let reserve_segment_count = self.reserve_segment_count;
        if reserve_segment_count < RESERVE_COUNT_MIN {
            return invalid(format!(
                "reserve_segment_count {reserve_segment_count} is below {RESERVE_COUNT_MIN}"
            ));
        }
        Ok(())
    }
}

/// Segments on raw flash.
struct ChipSegments {
    chips: FlashIo,
    flash_page_bytes: u32,
    sector_bytes: u32,
    write_unit_bytes: u32,
    segment_block_count: u32,
    segment_count: u32,
    /// Those that can have something.
    usable_count: u32,
    /// Why commands are given.
    cause: Cause,
    reads: RefCell<BegunReads>,
}

/// Reads that nobody has waited for yet.
#[derive(Default)]
struct BegunReads {
    last_ticket: u64,
    begun: BTreeMap<u64, BegunRead>,
    /// Those of pages that were asked for, in their order.
    pieces: VecDeque<u64>,
}

struct BegunRead {
    /// The tickets of the flash pages, each with the bytes that it is to fill.
    parts: Vec<(u64, Range<usize>)>,
    /// What is to be filled, if the one flash page does not fill it by itself.
    target: Option<IoBuffer>,
    refused: Option<FlashError>,
}

impl PageDifferential {
    /// Makes an empty propagation on raw flash; whatever the chips had is gone. It is there when this
    /// returns, durably.
    ///
    /// # Errors
    /// If a setting makes no sense or the chips do not suit, the file exists, or a device fails.
    pub fn create_on_chips(
        media: Media,
        page_bytes: u32,
        settings: &PageDifferentialChipsSettings,
    ) -> Result<Self, StorageError> {
        let chips = media.raw_flash(CHIPS)?.clone();
        let (medium, settings) = ChipSegments::new(chips, page_bytes, settings)?;
        medium.check_room(settings.reserve_segment_count)?;
        medium.erase_what_is_there()?;
        let io = media.into_data();
        let file = io.create(CHIPS_FILE)?;
        io.sync(file)?;
        let usable = (0..medium.segment_count).map(|segment| medium.is_usable(segment));
        let usable: Vec<bool> = usable.collect();
        let mut created = Self::assemble((io, file), settings, Box::new(medium));
        for is_usable in usable {
            match is_usable {
                true => created.segments.push((0, 0), 0),
                false => created.segments.push_lost(),
            }
        }
        created.begin_era()?;
        Ok(created)
    }

    /// Opens what [`Self::create_on_chips`] made, as it was at the last sync or later.
    ///
    /// # Errors
    /// If there is nothing of the kind or it is damaged, a setting makes no sense or differs from that
    /// at creation where it may not, or a device fails.
    pub fn open_on_chips(
        media: Media,
        page_bytes: u32,
        settings: &PageDifferentialChipsSettings,
    ) -> Result<Self, StorageError> {
        let chips = media.raw_flash(CHIPS)?.clone();
        let (medium, settings) = ChipSegments::new(chips, page_bytes, settings)?;
        let io = media.into_data();
        let known = io.files().into_iter().find(|(_, name)| name == CHIPS_FILE);
        let Some((file, _)) = known else {
            let what = format!("file {CHIPS_FILE} of page-differential logging");
            return Err(StorageError::NotFound { what });
        };
        Self::recover((io, file), settings, Box::new(medium))
    }

    /// Whether the volume of the data says that there is one on raw flash.
    #[must_use]
    pub fn is_on_chips(io: &Io) -> bool {
        io.files().iter().any(|(_, name)| name == CHIPS_FILE)
    }
}

impl ChipSegments {
    /// The segments of these chips, and the settings of all that is above them.
    fn new(
        chips: FlashIo,
        page_bytes: u32,
        settings: &PageDifferentialChipsSettings,
    ) -> Result<(Self, PageDifferentialSettings), StorageError> {
        settings.check(page_bytes)?;
        let info = chips.info();
        let geometry = info.geometry;
        let flash_page_bytes = geometry.flash_page_bytes;
        let unit_pages = if info.has_paired_pages { 2 } else { 1 };
        let per_block = geometry.flash_pages_per_erase_block;
        let block_bytes = u64::from(per_block) * u64::from(flash_page_bytes);
        let least_bytes = SEGMENT_PAGES_MIN * u64::from(page_bytes.max(flash_page_bytes));
        let least_count = least_bytes.div_ceil(block_bytes);
        let block_count = least_count.max(settings.segment_block_count.into());
        let segment_bytes = block_count * block_bytes;
        if !flash_page_bytes.is_power_of_two() || flash_page_bytes < FLASH_PAGE_BYTES_MIN {
            let what = format!("its flash pages have {flash_page_bytes} bytes, no power of two");
            return Err(unsuited(&chips, &what));
        }
        if !per_block.is_multiple_of(unit_pages) {
            let what = format!("its erase blocks have {per_block} flash pages, in no pairs");
            return Err(unsuited(&chips, &what));
        }
        if segment_bytes > SEGMENT_BYTES_MAX {
            let what = format!(
                "a segment of {block_count} erase blocks has {segment_bytes} bytes, more than \
                 {SEGMENT_BYTES_MAX}; choose a smaller segment_block_count"
            );
            return Err(unsuited(&chips, &what));
        }
        let (segment_bytes, segment_block_count) = (to_u32(segment_bytes), to_u32(block_count));
        let write_unit_bytes = flash_page_bytes * unit_pages;
        let write_bytes = settings.write_bytes.min(segment_bytes) / write_unit_bytes;
        let least_bytes = WRITE_PAGES_MIN * page_bytes.max(write_unit_bytes);
        let write_bytes = (write_bytes * write_unit_bytes).max(least_bytes.min(segment_bytes));
        let mut medium = Self {
            flash_page_bytes,
            sector_bytes: flash_page_bytes.min(page_bytes),
            write_unit_bytes,
            segment_block_count,
            segment_count: geometry.erase_block_count / segment_block_count,
            usable_count: 0,
            cause: Cause::Host,
            reads: RefCell::default(),
            chips,
        };
        let usable = (0..medium.segment_count).filter(|&segment| medium.is_usable(segment));
        medium.usable_count = to_u32(usable.count() as u64);
        let settings = PageDifferentialSettings {
            page_bytes,
            difference_bytes_max: settings.difference_bytes_max.min(page_bytes),
            segment_bytes,
            write_bytes,
            // Nobody else has a use for the rest of the chips.
            spare_percent: u32::MAX,
            spare_segment_count: u32::MAX,
            reserve_segment_count: settings.reserve_segment_count,
        };
        Ok((medium, settings))
    }

    /// Whether there are enough segments for a new propagation. One that is there can be read with fewer.
    fn check_room(&self, reserve_segment_count: u32) -> Result<(), StorageError> {
        let least_count = reserve_segment_count.saturating_add(MORE_SEGMENTS_MIN);
        if self.usable_count >= least_count {
            return Ok(());
        }
        let what = format!(
            "it has {} segments of {} erase blocks that are not bad, fewer than {least_count}; take \
             larger chips",
            self.usable_count, self.segment_block_count
        );
        Err(unsuited(&self.chips, &what))
    }

    fn blocks_of(&self, segment: u32) -> Range<u32> {
        segment * self.segment_block_count..(segment + 1) * self.segment_block_count
    }

    /// Erases what is not blank, whoever left it. An erase block is written from its first flash page on.
    fn erase_what_is_there(&self) -> Result<(), StorageError> {
        let geometry = self.chips.info().geometry;
        let good = (0..geometry.erase_block_count).filter(|&it| !self.chips.is_bad(it));
        let good: Vec<u32> = good.collect();
        for blocks in good.chunks(LOOKED_AT_ONCE) {
            let look = |&erase_block: &u32| {
                let data = Some(FlashPart::room(0, self.sector_bytes));
                let flash_page = geometry.flash_page(erase_block, 0);
                self.submit(FlashCommand::Read { flash_page, data, spare: None })
            };
            let looks: Vec<_> = blocks.iter().map(look).collect();
            let mut erases = Vec::new();
            for (&erase_block, look) in blocks.iter().zip(looks) {
                let done = self.chips.wait(look.map_err(|error| self.failed("read", 0, error))?);
                let is_blank = match done.command {
                    FlashCommand::Read { data: Some(part), .. } if done.result.is_ok() => {
                        part.buffer.iter().all(|&byte| byte == BLANK)
                    }
                    _ => false,
                };
                if !is_blank {
                    erases.push(self.submit(FlashCommand::Erase { erase_block }));
                }
            }
            self.end_erases(erases)?;
        }
        Ok(())
    }

    /// Waits for erases; false if one of the erase blocks is bad now.
    fn end_erases(&self, erases: Vec<Result<u64, FlashError>>) -> Result<bool, StorageError> {
        let results = erases.into_iter().map(|erase| self.chips.wait(erase?).result);
        // Each is waited for, also behind one that failed.
        let results: Vec<Result<(), FlashError>> = results.collect();
        let mut is_good = true;
        for result in results {
            match result {
                Ok(()) => {}
                Err(FlashError::WornOut { .. } | FlashError::BadEraseBlock { .. }) => {
                    is_good = false;
                }
                Err(error) => return Err(self.failed("erase", 0, error)),
            }
        }
        Ok(is_good)
    }

    /// The flash pages of some bytes: each with where these begin in it, and which of the bytes it has.
    fn parts(
        &self,
        offset_bytes: u64,
        bytes: usize,
    ) -> impl Iterator<Item = (Ppn, u32, Range<usize>)> + use<> {
        let flash_page_bytes = u64::from(self.flash_page_bytes);
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset_bytes + done as u64;
            let first_byte = at % flash_page_bytes;
            let start = done;
            done = bytes.min(done + to_index(flash_page_bytes - first_byte));
            let part = (Ppn(at / flash_page_bytes), to_u32(first_byte), start..done);
            (done > start).then_some(part)
        })
    }

    fn submit(&self, command: FlashCommand) -> Result<u64, FlashError> {
        self.chips.submit(self.cause, command).map_err(|rejected| rejected.error)
    }

    fn begin(&self, offset_bytes: u64, target: IoBuffer) -> Result<u64, StorageError> {
        let bytes = target.len();
        let mut begun = BegunRead { parts: Vec::new(), target: None, refused: None };
        let mut target = Some(target);
        for (flash_page, first_byte, range) in self.parts(offset_bytes, bytes) {
            let is_all = range.len() == bytes;
            let part = match target.take_if(|_| is_all) {
                Some(target) => FlashPart::new(first_byte, target),
                None => FlashPart::room(first_byte, to_u32(range.len() as u64)),
            };
            let read = FlashCommand::Read { flash_page, data: Some(part), spare: None };
            match self.submit(read) {
                Ok(ticket) => begun.parts.push((ticket, range)),
                Err(error) if is_all => return Err(self.failed("read", offset_bytes, error)),
                Err(error) => begun.refused = Some(error),
            }
        }
        begun.target = target;
        let mut reads = self.reads.borrow_mut();
        reads.last_ticket += 1;
        let ticket = reads.last_ticket;
        reads.begun.insert(ticket, begun);
        Ok(ticket)
    }

    /// Waits for what was begun. With `is_blank_if_torn` what a cut left undefined is blank.
    fn end(&self, ticket: u64, is_blank_if_torn: bool) -> (Result<(), FlashError>, IoBuffer) {
        let begun = self.reads.borrow_mut().begun.remove(&ticket);
        let BegunRead { parts, mut target, refused } = begun.expect("it was begun");
        let mut result = refused.map_or(Ok(()), Err);
        for (ticket, range) in parts {
            let done = self.chips.wait(ticket);
            let FlashCommand::Read { data: Some(mut part), .. } = done.command else {
                unreachable!("it was a read of data")
            };
            match done.result {
                Err(FlashError::Torn { .. }) if is_blank_if_torn => part.buffer.fill(BLANK),
                found => result = result.and(found),
            }
            match &mut target {
                Some(target) => target[range].copy_from_slice(&part.buffer),
                None => target = Some(part.buffer),
            }
        }
        (result, target.unwrap_or_else(|| IoBuffer::with_alignment(0, 1)))
    }

    fn read_now(
        &self,
        offset_bytes: u64,
        bytes: usize,
        is_blank_if_torn: bool,
    ) -> Result<IoBuffer, StorageError> {
        let ticket = self.begin(offset_bytes, self.piece_buffer(bytes))?;
        let (result, buffer) = self.end(ticket, is_blank_if_torn);
        result.map(|()| buffer).map_err(|error| self.failed("read", offset_bytes, error))
    }

    fn failed(&self, verb: &str, offset_bytes: u64, error: FlashError) -> StorageError {
        let what = format!("cannot {verb} segments on {}, at {offset_bytes}", self.name());
        StorageError::Device { what, error: device_error(error) }
    }

    fn name(&self) -> &str {
        &self.chips.info().name
    }
}

fn unsuited(chips: &FlashIo, why: &str) -> StorageError {
    let name = &chips.info().name;
    let what = format!("{name} does not suit page-differential logging: {why}");
    StorageError::InvalidSetting { what }
}

/// The same trouble in the words of devices.
fn device_error(error: FlashError) -> DeviceError {
    match error {
        FlashError::PowerLost => DeviceError::PowerLost,
        FlashError::Torn { flash_page } => {
            DeviceError::Media { first_sector: flash_page, what: error.to_string() }
        }
        error => DeviceError::Unsupported { what: error.to_string() },
    }
}

impl PieceReads for ChipSegments {
    fn piece_buffer(&self, bytes: usize) -> IoBuffer {
        IoBuffer::zeroed(bytes)
    }

    fn begin_piece(
        &self,
        _file: FileId,
        offset_bytes: u64,
        target: IoBuffer,
    ) -> Result<u64, StorageError> {
        let ticket = self.begin(offset_bytes, target)?;
        self.reads.borrow_mut().pieces.push_back(ticket);
        Ok(ticket)
    }

    fn next_piece(&self) -> ReadPiece {
        let ticket = self.reads.borrow_mut().pieces.pop_front().expect("a read is in flight");
        let (result, buffer) = self.end(ticket, false);
        ReadPiece { ticket, result: result.map_err(device_error), buffer: Some(buffer) }
    }
}

impl SegmentMedium for ChipSegments {
    fn told(&self) -> String {
        format!("the raw flash `{CHIPS}` ({})", self.name())
    }

    fn is_on_data(&self) -> bool {
        false
    }

    fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    fn write_unit_bytes(&self) -> u32 {
        self.write_unit_bytes
    }

    fn found_count(&self) -> u32 {
        self.segment_count
    }

    fn fixed_segment_count(&self) -> Option<u32> {
        Some(self.segment_count)
    }

    fn segment_count_max(&self) -> Option<u64> {
        Some(self.usable_count.into())
    }

    fn is_usable(&self, segment: u32) -> bool {
        !self.blocks_of(segment).any(|erase_block| self.chips.is_bad(erase_block))
    }

    fn grow_to(&self, count: u32) -> Result<bool, StorageError> {
        Ok(count <= self.segment_count)
    }

    fn shrink_to(&self, _count: u32) -> Result<(), StorageError> {
        Ok(())
    }

    fn begin_segment(&mut self, segment: u32) -> Result<bool, StorageError> {
        let erase = |erase_block| self.submit(FlashCommand::Erase { erase_block });
        let erases = self.blocks_of(segment).map(erase).collect();
        let is_good = self.end_erases(erases)?;
        self.usable_count -= u32::from(!is_good);
        Ok(is_good)
    }

    fn set_is_cleaning(&mut self, is_cleaning: bool) {
        self.cause = if is_cleaning { Cause::Cleaning } else { Cause::Host };
    }

    fn begin_read(&self, offset_bytes: u64, target: IoBuffer) -> Result<u64, StorageError> {
        self.begin(offset_bytes, target)
    }

    fn end_read(&self, ticket: u64) -> Option<IoBuffer> {
        let (result, buffer) = self.end(ticket, false);
        result.ok().map(|()| buffer)
    }

    fn read(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError> {
        self.read_now(offset_bytes, bytes, false)
    }

    fn read_whatever(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError> {
        self.read_now(offset_bytes, bytes, true)
    }

    fn is_blank_from(&self, offset_bytes: u64) -> Result<bool, StorageError> {
        // Writes are made one after the other, each from its first flash page on.
        let ticket = self.begin(offset_bytes, self.piece_buffer(self.sector_bytes as usize))?;
        match self.end(ticket, false) {
            (Ok(()), bytes) => Ok(bytes.iter().all(|&byte| byte == BLANK)),
            (Err(FlashError::Torn { .. }), _) => Ok(false),
            (Err(error), _) => Err(self.failed("read", offset_bytes, error)),
        }
    }

    fn write(&self, offset_bytes: u64, buffer: IoBuffer) -> Result<(), StorageError> {
        let mut programs = Vec::new();
        for (flash_page, first_byte, range) in self.parts(offset_bytes, buffer.len()) {
            let data = Some(FlashPart::copy_of(first_byte, &buffer[range]));
            let program = self.submit(FlashCommand::Program { flash_page, data, spare: None });
            let is_refused = program.is_err();
            programs.push(program);
            if is_refused {
                break;
            }
        }
        let wait = |program: Result<u64, FlashError>| self.chips.wait(program?).result;
        // Each is waited for, also behind one that failed.
        let results: Vec<Result<(), FlashError>> = programs.into_iter().map(wait).collect();
        let result = results.into_iter().collect::<Result<(), FlashError>>();
        result.map_err(|error| self.failed("program", offset_bytes, error))
    }

    fn sync(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
