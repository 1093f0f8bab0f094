//! Checkpoints: the whole map and what recovery has to know, into two files in turn.
//!
//! ```text
//!   header  magic 8 │ version 4 │ page bytes 4 │ segment bytes 4 │ segment count 4 │ generation 8 │
//!           next sequence 8 │ run count 8 │ of differences 8 │ body bytes 8 │
//!           frontier: segment 4, offset 4, next 4 (twice) │
//!           CRC of the body 4 │ CRC of the header before it 4
//!   body    segment: used bytes 4, written at 8, changed at 8 (each)
//!           run: word of the first page 8, count 4, location 8 (each) … of pages, then of differences
//!
//!   checkpoint: flush the segments ─► write the other file ─► flush it ─► free empty segments
//! ```
//!
//! Numbers are big endian. An image costs 8 bytes a page; one is due when 32 times as much was written,
//! so it adds at most 3 % to what is written, and what recovery reads of segments is bounded by the
//! larger of `checkpoint_segment_count` segments and 6 % of the database (with pages of 4 KiB).
//!
//! 1. The file that holds the durable image is never written.
//! 2. Whatever an image refers to was durable before it was written.
//! 3. After an attempt that failed no partial segment is written before one that succeeded: whether the
//!    failed one is on the device does not matter then, both say the same.

use super::LogStructured;
use super::frontier::Position;
use super::map::PageMap;
use super::record::Location;
use super::segments::SegmentTable;
use super::transfer;
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use nandu_base::{to_index, to_u32};
use nandu_device::IoBuffer;

const MAGIC: [u8; 8] = *b"nanduMP1";
const VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 96;
const SEGMENT_ENTRY_BYTES: u64 = 20;
const RUN_HEADER_BYTES: u64 = 12;
const LOCATION_BYTES: u64 = 8;
const NO_SEGMENT: u32 = u32::MAX;
/// The files of images are so much longer than they need to be at least, if there is room.
const AHEAD_BYTES_MIN: u64 = 16 << 10;
/// Segments that there may be beyond those that pages ask for, for each that they fill.
const SEGMENTS_AHEAD: u64 = 4;
/// An image is due when so many times its length was written.
const IMAGE_RATIO: u64 = 32;
pub(super) const FRONTIER_COUNT: usize = 2;

/// A stored image, decoded.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) page_bytes: u32,
    pub(super) segment_bytes: u32,
    pub(super) generation: u64,
    pub(super) next_sequence: u64,
    pub(super) positions: [Position; FRONTIER_COUNT],
    pub(super) segments: SegmentTable,
    pub(super) map: PageMap,
    pub(super) differences: PageMap,
}

/// The fixed part of an image.
#[derive(Clone, Copy, Debug)]
struct Header {
    page_bytes: u32,
    segment_bytes: u32,
    segment_count: u32,
    generation: u64,
    next_sequence: u64,
    run_counts: [u64; 2],
    body_bytes: u64,
    positions: [Position; FRONTIER_COUNT],
}

impl LogStructured {
    /// Bytes of the image of the map as it is.
    fn image_bytes(&self) -> u64 {
        let map_bytes =
            |map: &PageMap| map.run_count() * RUN_HEADER_BYTES + map.page_count() * LOCATION_BYTES;
        u64::from(self.segments.count()) * SEGMENT_ENTRY_BYTES
            + map_bytes(&self.map)
            + map_bytes(&self.differences)
    }

    /// Bytes that the file of an image may come to need with so many pages more, of which any may have a
    /// difference.
    pub(super) fn image_bytes_max(&self, more_page_count: u64) -> u64 {
        let more = more_page_count.saturating_mul(RUN_HEADER_BYTES + LOCATION_BYTES);
        // Differences are of pages that are in the map, so their runs are no longer than its runs.
        let map_bytes = map_bytes_exactly(&self.map).saturating_add(more).saturating_mul(2);
        let dense_count = u64::from(self.settings.dense_page_count(self.sector_bytes));
        let segment_count = u64::from(self.segments.count().max(self.segment_count_max()))
            + SEGMENTS_AHEAD * (1 + more_page_count / dense_count);
        let body_bytes = (segment_count * SEGMENT_ENTRY_BYTES).saturating_add(map_bytes);
        let header_bytes = (HEADER_BYTES as u64).next_multiple_of(u64::from(self.sector_bytes));
        header_bytes + body_bytes.next_multiple_of(u64::from(self.sector_bytes))
    }

    /// Sees to it that both files have room for an image with so many pages more, and says for how many
    /// they have.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn widen_maps(&self, more_page_count: u64) -> Result<u64, StorageError> {
        let needed = self.image_bytes_max(more_page_count);
        for file in self.files.maps {
            self.widen_map(file, needed)?;
        }
        let lengths = self.files.maps.map(|file| self.io.byte_count(file));
        let more_bytes = lengths[0].min(lengths[1]) - needed;
        Ok(more_page_count + more_bytes / (3 * (RUN_HEADER_BYTES + LOCATION_BYTES)))
    }

    /// Makes a file of an image so long, and half as long again where there is room, so that a map that
    /// grows does not change the file's length each time.
    fn widen_map(&self, file: FileId, needed: u64) -> Result<(), StorageError> {
        if self.io.byte_count(file) >= needed {
            return Ok(());
        }
        let ahead = (needed / 2).max(AHEAD_BYTES_MIN);
        let wanted = (needed + ahead).next_multiple_of(u64::from(self.sector_bytes));
        match self.io.set_byte_count(file, wanted) {
            Err(StorageError::NoSpace { .. }) => self.io.set_byte_count(file, needed),
            answer => answer,
        }
    }

    /// Whether enough was written since the last checkpoint.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let least = u64::from(self.settings.checkpoint_segment_count)
            * u64::from(self.settings.segment_bytes);
        self.needs_checkpoint || self.chain_bytes >= least.max(IMAGE_RATIO * self.image_bytes())
    }

    /// Makes the map durable as it is. What waits in the frontiers is not in it.
    pub(super) fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.needs_checkpoint = true;
        self.make_durable()?;
        let is_shorter = self.segments.cut(self.segment_count_max());
        let image = self.encode_image(self.generation + 1);
        let target = 1 - self.durable_map;
        let file = self.files.maps[target];
        self.widen_map(file, image.len() as u64)?;
        transfer::write_long(&self.io, file, &image)?;
        self.io.sync(file)?;
        self.durable_map = target;
        self.generation += 1;
        self.checkpoint_sequence = self.next_sequence;
        self.chain_bytes = 0;
        self.needs_checkpoint = false;
        self.counters.checkpoint_count += 1;
        self.counters.checkpoint_bytes += image.len() as u64;
        self.segments.clear_stuck();
        self.release();
        if is_shorter {
            // What lies past the end reads as zeros: as a page that was never written.
            self.reads.settle(&self.io);
            let bytes = u64::from(self.segments.count()) * u64::from(self.settings.segment_bytes);
            self.io.set_byte_count(self.files.segments, bytes)?;
        }
        Ok(())
    }

    fn encode_image(&self, generation: u64) -> Vec<u8> {
        let body_bytes = self.image_bytes_exactly();
        let header_bytes = HEADER_BYTES.next_multiple_of(self.sector_bytes as usize);
        let mut image = Vec::with_capacity(header_bytes + to_index(body_bytes));
        image.resize(header_bytes, 0);
        for known in self.segments.iter() {
            image.extend_from_slice(&known.used_bytes.to_be_bytes());
            image.extend_from_slice(&known.written_at.to_be_bytes());
            image.extend_from_slice(&known.changed_at.to_be_bytes());
        }
        for (first, run) in self.map.runs().chain(self.differences.runs()) {
            image.extend_from_slice(&first.to_be_bytes());
            image.extend_from_slice(&to_u32(run.len() as u64).to_be_bytes());
            for location in run {
                image.extend_from_slice(&location.to_word().to_be_bytes());
            }
        }
        assert_eq!((image.len() - header_bytes) as u64, body_bytes, "the length was foretold");
        let header = Header {
            page_bytes: self.settings.page_bytes,
            segment_bytes: self.settings.segment_bytes,
            segment_count: self.segments.count(),
            generation,
            next_sequence: self.next_sequence,
            run_counts: [self.map.run_count(), self.differences.run_count()],
            body_bytes,
            positions: [0, 1].map(|index: usize| self.frontiers[index].position),
        };
        let body_sum = crc32c::crc32c(&image[header_bytes..]);
        image[..HEADER_BYTES].copy_from_slice(&header.encode(body_sum));
        image.resize(image.len().next_multiple_of(self.sector_bytes as usize), 0);
        image
    }

    fn image_bytes_exactly(&self) -> u64 {
        u64::from(self.segments.count()) * SEGMENT_ENTRY_BYTES
            + map_bytes_exactly(&self.map)
            + map_bytes_exactly(&self.differences)
    }
}

/// What a map takes of an image: runs may have holes, which take room, too.
fn map_bytes_exactly(map: &PageMap) -> u64 {
    let run_bytes = |run: &[Location]| RUN_HEADER_BYTES + run.len() as u64 * LOCATION_BYTES;
    map.runs().map(|(_, run)| run_bytes(run)).sum()
}

impl Header {
    fn encode(&self, body_sum: u32) -> Vec<u8> {
        let mut fields = Vec::with_capacity(HEADER_BYTES);
        fields.extend_from_slice(&MAGIC);
        for value in [VERSION, self.page_bytes, self.segment_bytes, self.segment_count] {
            fields.extend_from_slice(&value.to_be_bytes());
        }
        let [pages, differences] = self.run_counts;
        for value in [self.generation, self.next_sequence, pages, differences, self.body_bytes] {
            fields.extend_from_slice(&value.to_be_bytes());
        }
        for position in self.positions {
            let segment = position.segment.unwrap_or(NO_SEGMENT);
            let next = position.next.unwrap_or(NO_SEGMENT);
            for value in [segment, position.offset, next] {
                fields.extend_from_slice(&value.to_be_bytes());
            }
        }
        fields.extend_from_slice(&body_sum.to_be_bytes());
        let sum = crc32c::crc32c(&fields);
        fields.extend_from_slice(&sum.to_be_bytes());
        assert_eq!(fields.len(), HEADER_BYTES, "the layout of the header");
        fields
    }

    /// The header and the checksum of the body, if the header is whole.
    fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let fields: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let short = |at: usize| fields[at..].first_chunk().map(|word| u32::from_be_bytes(*word));
        let long = |at: usize| fields[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
        let sum = crc32c::crc32c(&fields[..HEADER_BYTES - 4]);
        if fields[..8] != MAGIC || short(8)? != VERSION || short(HEADER_BYTES - 4)? != sum {
            return None;
        }
        let named = |at: usize| short(at).filter(|&segment| segment != NO_SEGMENT);
        let position = |at: usize| {
            let offset = short(at + 4)?;
            Some(Position { segment: named(at), offset, next: named(at + 8) })
        };
        let header = Self {
            page_bytes: short(12)?,
            segment_bytes: short(16)?,
            segment_count: short(20)?,
            generation: long(24)?,
            next_sequence: long(32)?,
            run_counts: [long(40)?, long(48)?],
            body_bytes: long(56)?,
            positions: [position(64)?, position(76)?],
        };
        Some((header, short(88)?))
    }
}

/// Reads the newest image that is whole, and says in which of the files it is. Of the other one no more
/// than the header is read, unless the newer is damaged.
///
/// # Errors
/// If the device fails.
pub(super) fn read_newest_image(
    io: &Io,
    files: [FileId; 2],
) -> Result<Option<(usize, Image)>, StorageError> {
    let headers = [read_header(io, files[0])?, read_header(io, files[1])?];
    let generation = |index: usize| headers[index].as_ref().map(|(_, header, _)| header.generation);
    let newer = usize::from(generation(0) < generation(1));
    for index in [newer, 1 - newer] {
        if let Some((first, header, body_sum)) = &headers[index]
            && let Some(image) = read_image(io, files[index], first, header, *body_sum)?
        {
            return Ok(Some((index, image)));
        }
    }
    Ok(None)
}

/// The bytes of a file's header, what they say, and the checksum of the body; `None` if they are none.
fn read_header(io: &Io, file: FileId) -> Result<Option<(IoBuffer, Header, u32)>, StorageError> {
    let header_bytes = HEADER_BYTES.next_multiple_of(io.sector_bytes() as usize);
    if io.byte_count(file) < header_bytes as u64 {
        return Ok(None);
    }
    let first = transfer::read(io, file, 0, header_bytes)?;
    Ok(Header::decode(&first).map(|(header, body_sum)| (first, header, body_sum)))
}

/// The image behind a header; `None` if it is not whole.
fn read_image(
    io: &Io,
    file: FileId,
    first: &[u8],
    header: &Header,
    body_sum: u32,
) -> Result<Option<Image>, StorageError> {
    let sector_bytes = io.sector_bytes() as usize;
    let file_bytes = io.byte_count(file);
    let header_bytes = first.len();
    if header.body_bytes > file_bytes - header_bytes as u64 {
        return Ok(None);
    }
    let image_bytes = header_bytes + to_index(header.body_bytes);
    let image = transfer::read_long(io, file, image_bytes.next_multiple_of(sector_bytes))?;
    let body = &image[header_bytes..image_bytes];
    if image[..HEADER_BYTES] != first[..HEADER_BYTES] || crc32c::crc32c(body) != body_sum {
        return Ok(None);
    }
    Ok(decode_body(header, body))
}

/// The image of a body, which may say anything.
fn decode_body(header: &Header, body: &[u8]) -> Option<Image> {
    let segment_bytes = header.segment_bytes;
    let table_bytes = u64::from(header.segment_count).checked_mul(SEGMENT_ENTRY_BYTES)?;
    let (table, mut runs) = body.split_at_checked(to_index(table_bytes))?;
    let mut segments = SegmentTable::new(segment_bytes);
    for entry in table.chunks_exact(to_index(SEGMENT_ENTRY_BYTES)) {
        let used_bytes = u32::from_be_bytes(*entry.first_chunk()?);
        let written_at = u64::from_be_bytes(*entry[4..].first_chunk()?);
        let changed_at = u64::from_be_bytes(*entry[12..].first_chunk()?);
        if used_bytes > segment_bytes {
            return None;
        }
        segments.restore(Some((used_bytes, written_at, changed_at)));
    }
    let [pages, differences] = header.run_counts;
    let map = take_runs(&mut runs, pages, &mut segments)?;
    let differences = take_runs(&mut runs, differences, &mut segments)?;
    if differences.iter().any(|(page, _)| map.get(page).is_none()) {
        return None;
    }
    Some(Image {
        page_bytes: header.page_bytes,
        segment_bytes,
        generation: header.generation,
        next_sequence: header.next_sequence,
        positions: header.positions,
        segments,
        map,
        differences,
    })
}

/// A map of so many runs, whose records lie in `segments`.
fn take_runs(bytes: &mut &[u8], run_count: u64, segments: &mut SegmentTable) -> Option<PageMap> {
    let mut map = PageMap::default();
    for _ in 0..run_count {
        let (first, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let run_bytes = u32::from_be_bytes(*count) as usize * to_index(LOCATION_BYTES);
        let (run, rest) = rest.split_at_checked(run_bytes)?;
        for (word, location) in (u64::from_be_bytes(*first)..).zip(run.chunks_exact(8)) {
            let location = Location::from_word(u64::from_be_bytes(*location.first_chunk()?));
            if location.is_none() {
                continue;
            }
            if !segments.has_room_for(location) {
                return None;
            }
            segments.add_live(location);
            map.set(PageAddress::from_word(word), location);
        }
        *bytes = rest;
    }
    Some(map)
}
