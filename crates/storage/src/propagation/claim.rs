//! Whose a medium beside the data is, as the medium itself says.
//!
//! ```text
//!   volume      file `owner`: two slots of 4 KiB or a sector, written in turn
//!   raw flash   erase blocks 0 to 3, which look bad to the propagation: the next flash page of one,
//!               and from opening to opening the first of the next
//!   claim       magic 8 │ CRC 4 │ sequence 8 │ database 8 │ run 4 │ next run 4 │ flags 1
//!               │ length 1, medium … │ length 1, place … │ zeros to 512
//! ```
//!
//! 1. Of the claims that are whole the one with the highest sequence counts. It stays where it is until
//!    the next one is durable.
//! 2. On a volume a claim lies in a sector, which no cut tears.
//! 3. On raw flash an erase block is erased only while the claim that counts lies in another. Where an
//!    interrupted program destroys the flash page before it, too, every second one stays blank.
//! 4. The propagation neither makes nor removes, programs nor erases what a claim lies in.

use super::{FlashIo, Medium};
use crate::StorageError;
use crate::volume::{Io, IoOwner};
use nandu_base::Cause;
use nandu_device::raw_flash::{BLANK, FlashCommand, FlashCompletion, FlashError, FlashPart};
use nandu_device::{IoBuffer, Operation};

/// The file of a volume that has its claim.
pub(super) const CLAIM_FILE: &str = "owner";
/// So many erase blocks of raw flash, the first ones, are for its claim.
pub(super) const CLAIM_BLOCK_COUNT: u32 = 4;

const MAGIC: [u8; 8] = *b"nanduOWN";
const CLAIM_BYTES: u32 = 512;
/// The checksum covers what follows it.
const COVERED_FROM: usize = 12;
const TEXTS_FROM: usize = 37;
const IS_MADE: u8 = 1;
const IS_CLOSED: u8 = 2;
/// The name of a place is cut off behind so many bytes. That of a medium is never as long.
const TEXT_BYTES_MAX: usize = 200;
const SLOT_BYTES_MIN: u64 = 4096;

/// Whose a medium is, and of which moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The number that tells its database from others.
    pub(crate) database: u64,
    /// Which medium of the database it is.
    pub(crate) medium: String,
    /// Where the data was, when this was said: a word for whoever looks for it.
    pub(crate) place: String,
    /// The run of the log in which it was changed last.
    pub(crate) run: u32,
    /// The run that was about to begin; [`Self::run`] once it had.
    pub(crate) next_run: u32,
    /// Whether there is such a database, or it was being made.
    pub(crate) is_made: bool,
    /// Whether `run` ended in order, and changes nothing any more.
    pub(crate) is_closed: bool,
}

/// A medium beside the data, with what it says of itself.
pub(crate) struct ClaimedMedium {
    name: String,
    store: Store,
    sequence: u64,
    claim: Option<Claim>,
    /// Something lies where a claim would, and is none.
    is_damaged: bool,
}

enum Store {
    Volume(Io),
    Flash(ClaimBlocks),
}

/// The first erase blocks of raw flash.
struct ClaimBlocks {
    chips: FlashIo,
    /// The one with the claim that counts.
    holder: Option<u32>,
    /// Erase block and index of the next claim, where it needs no erase.
    next: Option<(u32, u32)>,
}

/// What lies where a claim may be.
enum Found {
    Whole(u64, Claim),
    Nothing,
    Damaged,
}

impl ClaimedMedium {
    /// Looks what `medium`, which is to be `name`, says of itself.
    ///
    /// # Errors
    /// If it has no room for a claim, or does not answer.
    pub(crate) fn find(name: &str, medium: &Medium) -> Result<Self, StorageError> {
        let store = match medium {
            Medium::Volume(io) => Store::Volume(io.clone()),
            Medium::RawFlash(chips) => Store::Flash(ClaimBlocks::new(chips.clone())?),
        };
        let (sequence, claim, is_damaged) = (0, None, false);
        let mut medium = Self { name: name.to_owned(), store, sequence, claim, is_damaged };
        match &medium.store {
            Store::Volume(io) => {
                let io = io.clone();
                medium.read_slots(&io)?;
            }
            Store::Flash(_) => medium.read_blocks()?,
        }
        Ok(medium)
    }

    /// The name by which it was handed over.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it says, if it does.
    pub(crate) const fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Whether it says something that is not to be understood.
    pub(crate) const fn is_damaged(&self) -> bool {
        self.is_damaged && self.claim.is_none()
    }

    /// What it is and where, as it is told.
    pub(crate) fn told(&self) -> String {
        let name = &self.name;
        match &self.store {
            Store::Volume(io) => format!("the volume `{name}` ({})", io.name()),
            Store::Flash(blocks) => {
                format!("the raw flash `{name}` ({})", blocks.chips.info().name)
            }
        }
    }

    /// Says `claim` from now on, durably.
    ///
    /// # Errors
    /// If the medium fails; it says the one or the other then.
    pub(crate) fn say(&mut self, claim: Claim) -> Result<(), StorageError> {
        self.sequence += 1;
        let bytes = claim.encode(self.sequence);
        match &mut self.store {
            Store::Volume(io) => write_slot(io, self.sequence, &bytes)?,
            Store::Flash(blocks) => blocks.program(&bytes)?,
        }
        self.claim = Some(claim);
        Ok(())
    }

    /// Takes note of what was found; true if it counts for now.
    fn note(&mut self, found: Found) -> bool {
        match found {
            Found::Whole(sequence, claim) if sequence > self.sequence => {
                (self.sequence, self.claim) = (sequence, Some(claim));
                true
            }
            Found::Whole(..) | Found::Nothing => false,
            Found::Damaged => {
                self.is_damaged = true;
                false
            }
        }
    }

    fn read_slots(&mut self, io: &Io) -> Result<(), StorageError> {
        let Some((file, _)) = io.files().into_iter().find(|(_, name)| name == CLAIM_FILE) else {
            return Ok(());
        };
        for slot in 0..2 {
            let (buffer, offset) = (slot_buffer(io), slot * slot_bytes(io));
            if io.byte_count(file) >= offset + buffer.len() as u64 {
                let ticket = io.submit(IoOwner::Operator, file, Operation::Read, offset, buffer)?;
                let buffer = finish(io, ticket, Operation::Read)?;
                self.note(Claim::decode(&buffer[..CLAIM_BYTES as usize], 0));
            }
        }
        Ok(())
    }

    fn read_blocks(&mut self) -> Result<(), StorageError> {
        for block in 0..CLAIM_BLOCK_COUNT {
            let Store::Flash(blocks) = &self.store else { unreachable!("it is raw flash") };
            for bytes in blocks.written_in(block)? {
                if self.note(Claim::decode(&bytes, BLANK))
                    && let Store::Flash(blocks) = &mut self.store
                {
                    blocks.holder = Some(block);
                }
            }
        }
        // Whatever else lay on the chips before is nobody's claim.
        self.is_damaged = false;
        Ok(())
    }
}

fn slot_bytes(io: &Io) -> u64 {
    u64::from(io.sector_bytes()).max(SLOT_BYTES_MIN)
}

/// A sector, which has room for a claim.
fn slot_buffer(io: &Io) -> IoBuffer {
    let alignment = io.buffer_alignment().max(1) as usize;
    IoBuffer::with_alignment(io.sector_bytes().max(CLAIM_BYTES) as usize, alignment)
}

fn write_slot(io: &Io, sequence: u64, claim: &[u8]) -> Result<(), StorageError> {
    let known = io.files().into_iter().find(|(_, name)| name == CLAIM_FILE);
    let file = known.map_or_else(|| io.create(CLAIM_FILE), |(file, _)| Ok(file))?;
    if io.byte_count(file) < 2 * slot_bytes(io) {
        io.set_byte_count(file, 2 * slot_bytes(io))?;
    }
    let mut buffer = slot_buffer(io);
    buffer[..claim.len()].copy_from_slice(claim);
    let offset = sequence % 2 * slot_bytes(io);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Write, offset, buffer)?;
    finish(io, ticket, Operation::Write)?;
    io.sync(file)
}

fn finish(io: &Io, ticket: u64, operation: Operation) -> Result<IoBuffer, StorageError> {
    let done = io.wait(ticket);
    done.result.map_err(|error| {
        let what = format!("cannot {} the file {CLAIM_FILE} of {}", operation.label(), io.name());
        StorageError::Device { what, error }
    })?;
    Ok(done.buffer.expect("a request that is done hands its buffer back"))
}

impl ClaimBlocks {
    fn new(chips: FlashIo) -> Result<Self, StorageError> {
        let geometry = chips.info().geometry;
        let has_room = geometry.erase_block_count > CLAIM_BLOCK_COUNT
            && geometry.flash_page_bytes >= CLAIM_BYTES;
        if has_room {
            return Ok(Self { chips, holder: None, next: None });
        }
        let what = format!(
            "{} has no room to say whose it is: that takes more than {CLAIM_BLOCK_COUNT} erase blocks, \
             of flash pages of {CLAIM_BYTES} bytes at least",
            chips.info().name
        );
        Err(StorageError::InvalidSetting { what })
    }

    /// Indexes of the flash pages of an erase block that may have a claim.
    fn indexes(&self) -> impl Iterator<Item = u32> + use<> {
        let info = self.chips.info();
        let step = if info.has_paired_pages { 2 } else { 1 };
        (0..info.geometry.flash_pages_per_erase_block).step_by(step)
    }

    /// What was programmed in an erase block, and can be read.
    fn written_in(&self, block: u32) -> Result<Vec<Vec<u8>>, StorageError> {
        let mut written = Vec::new();
        if self.chips.is_bad(block) {
            return Ok(written);
        }
        let geometry = self.chips.info().geometry;
        for index in self.indexes() {
            let data = Some(FlashPart::room(0, CLAIM_BYTES));
            let flash_page = geometry.flash_page(block, index);
            match self.run(FlashCommand::Read { flash_page, data, spare: None }) {
                Ok(done) => {
                    let FlashCommand::Read { data: Some(part), .. } = done.command else {
                        unreachable!("it was a read of data")
                    };
                    if part.buffer.iter().all(|&byte| byte == BLANK) {
                        break;
                    }
                    written.push(part.buffer.to_vec());
                }
                // A claim that a cut interrupted.
                Err(FlashError::Torn { .. }) => {}
                Err(error) => return Err(self.told("read", &error)),
            }
        }
        Ok(written)
    }

    fn program(&mut self, claim: &[u8]) -> Result<(), StorageError> {
        let (block, index) = match self.next.take() {
            Some(place) => place,
            None => (self.erase_another()?, 0),
        };
        let flash_page = self.chips.info().geometry.flash_page(block, index);
        let data = Some(FlashPart::copy_of(0, claim));
        let done = self.run(FlashCommand::Program { flash_page, data, spare: None });
        done.map_err(|error| self.told("program", &error))?;
        self.holder = Some(block);
        self.next = self.indexes().find(|&next| next > index).map(|next| (block, next));
        Ok(())
    }

    /// Erases one behind that with the claim, round and round.
    fn erase_another(&self) -> Result<u32, StorageError> {
        let first = self.holder.map_or(0, |holder| holder + 1);
        for block in (first..first + CLAIM_BLOCK_COUNT).map(|block| block % CLAIM_BLOCK_COUNT) {
            if Some(block) == self.holder || self.chips.is_bad(block) {
                continue;
            }
            match self.run(FlashCommand::Erase { erase_block: block }) {
                Ok(_) => return Ok(block),
                Err(FlashError::WornOut { .. }) => {}
                Err(error) => return Err(self.told("erase", &error)),
            }
        }
        let what = format!(
            "the first {CLAIM_BLOCK_COUNT} erase blocks of {}, which say whose it is, are bad but one \
             at most; take other chips",
            self.chips.info().name
        );
        Err(StorageError::NoSpace { what })
    }

    fn run(&self, command: FlashCommand) -> Result<FlashCompletion, FlashError> {
        let ticket = self.chips.submit(Cause::Host, command).map_err(|rejected| rejected.error)?;
        let done = self.chips.wait(ticket);
        done.result.clone().map(|()| done)
    }

    fn told(&self, verb: &str, error: &FlashError) -> StorageError {
        let place = self.chips.info().name.clone();
        let what = format!("cannot {verb} what says whose it is: {error}");
        StorageError::Corrupt { place, what }
    }
}

impl Claim {
    fn encode(&self, sequence: u64) -> Vec<u8> {
        let mut flags = 0;
        flags |= if self.is_made { IS_MADE } else { 0 };
        flags |= if self.is_closed { IS_CLOSED } else { 0 };
        let mut bytes = MAGIC.to_vec();
        bytes.resize(COVERED_FROM, 0);
        bytes.extend([sequence, self.database].iter().flat_map(|long| long.to_be_bytes()));
        bytes.extend([self.run, self.next_run].iter().flat_map(|word| word.to_be_bytes()));
        bytes.push(flags);
        for text in [&self.medium, &self.place] {
            let text = cut_off(text);
            bytes.push(u8::try_from(text.len()).expect("it was cut off"));
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.resize(CLAIM_BYTES as usize, 0);
        let sum = crc32c::crc32c(&bytes[COVERED_FROM..]).to_be_bytes();
        bytes[MAGIC.len()..COVERED_FROM].copy_from_slice(&sum);
        bytes
    }

    /// What `bytes` say, on a medium that was full of `empty` bytes.
    fn decode(bytes: &[u8], empty: u8) -> Found {
        if bytes.iter().all(|&byte| byte == empty) {
            return Found::Nothing;
        }
        let sum = crc32c::crc32c(&bytes[COVERED_FROM..]).to_be_bytes();
        if bytes[..MAGIC.len()] != MAGIC || bytes[MAGIC.len()..COVERED_FROM] != sum {
            return Found::Damaged;
        }
        Self::parse(bytes).unwrap_or(Found::Damaged)
    }

    fn parse(bytes: &[u8]) -> Option<Found> {
        let long = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let word = |at: usize| bytes[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let (sequence, database, run, next_run) = (long(12)?, long(20)?, word(28)?, word(32)?);
        let flags = bytes[TEXTS_FROM - 1];
        let mut rest = &bytes[TEXTS_FROM..];
        let mut text = || {
            let (&length, after) = rest.split_first()?;
            let (text, after) = after.split_at_checked(length.into())?;
            rest = after;
            String::from_utf8(text.to_vec()).ok()
        };
        let (medium, place) = (text()?, text()?);
        let (is_made, is_closed) = (flags & IS_MADE != 0, flags & IS_CLOSED != 0);
        let claim = Self { database, medium, place, run, next_run, is_made, is_closed };
        Some(Found::Whole(sequence, claim))
    }
}

fn cut_off(text: &str) -> &str {
    let mut ends = (0..=text.len().min(TEXT_BYTES_MAX)).rev();
    let end = ends.find(|&end| text.is_char_boundary(end));
    &text[..end.expect("a text begins with a character")]
}

#[cfg(test)]
mod tests;
