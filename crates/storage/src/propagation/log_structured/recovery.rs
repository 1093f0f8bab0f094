//! Opening: the newest map image, then the chain of partial segments behind it.
//!
//! ```text
//!   image ─► where each frontier stood ─► partial segment ─► … ─► end of the segment, or no more
//!                 ▲                                                    │
//!                 └──────────── the next segment, as they named it ◄───┘
//! ```
//!
//! 1. Partial segments are applied in the order of their sequence, without a gap: what comes behind a
//!    torn one was never synced.
//! 2. Those of another generation than the image's are not part of the chain.
//! 3. Opening ends with a checkpoint, so what lies behind the end of the chain is never taken for part
//!    of a later one.
//! 4. A partial segment tells which ones were durable before it. Whoever finds the chain to end before
//!    that has found damage. Of its last ones the log's control block tells (`engine/checkpoint`).

use super::checkpoint::{FRONTIER_COUNT, Image, read_newest_image};
use super::frontier::Position;
use super::partial::{Entry, EntryKind, Summary, read_summary};
use super::settings::LogStructuredSettings;
use super::{Files, LogStructured, MAP_FILES, SEGMENTS_FILE, transfer};
use crate::StorageError;
use crate::error::unless_full;
use crate::propagation::Media;
use nandu_base::to_index;
use std::collections::VecDeque;

/// A partial segment of the chain.
#[derive(Debug)]
struct Link {
    summary: Summary,
    offset: u32,
    /// Where its frontier stands after it.
    after: Position,
}

/// One frontier's part of the chain, as it is read.
struct Chain {
    position: Position,
    /// Partial segments that were read and are not applied yet.
    links: VecDeque<Link>,
    /// What lies behind an unreadable one says that all up to this one were durable.
    durable_sequence: u64,
    /// The last segment read was read to its end.
    is_done: bool,
}

impl LogStructured {
    /// Opens what [`Self::create`] made, as it was at the last sync or later.
    ///
    /// # Errors
    /// If there is nothing of the kind or it is damaged, a setting makes no sense or differs from that
    /// at creation where it may not, or the device fails.
    pub fn open(media: Media, settings: LogStructuredSettings) -> Result<Self, StorageError> {
        let io = media.data();
        settings.check(io.sector_bytes())?;
        let files = Files::find(io)?;
        let Some((durable_map, image)) = read_newest_image(io, files.maps)? else {
            return Err(corrupt("neither of the two page maps is whole"));
        };
        check_sizes(&settings, &image)?;
        let Image { positions, segments, map, differences, generation, next_sequence, .. } = image;
        let mut opened = Self::assemble(media, settings, files);
        (opened.map, opened.differences, opened.segments) = (map, differences, segments);
        (opened.generation, opened.durable_map) = (generation, durable_map);
        opened.next_sequence = next_sequence;
        opened.roll_forward(positions)?;
        if !opened.io.is_read_only() {
            // Without room for it the next write needs one first.
            unless_full(opened.checkpoint())?;
        }
        Ok(opened)
    }

    /// Applies the chain, and settles what each segment is.
    fn roll_forward(&mut self, positions: [Position; FRONTIER_COUNT]) -> Result<(), StorageError> {
        let mut ends = positions;
        let mut chains = positions.map(|position| Chain {
            position,
            links: VecDeque::new(),
            durable_sequence: 0,
            is_done: false,
        });
        loop {
            for (frontier, chain) in (0_u8..).zip(&mut chains) {
                while chain.links.is_empty() && !chain.is_done {
                    self.read_links(frontier, chain)?;
                }
            }
            let is_next = |chain: &Chain| {
                let link = chain.links.front();
                link.is_some_and(|link| link.summary.header.sequence == self.next_sequence)
            };
            let Some(index) = chains.iter().position(is_next) else { break };
            let link = chains[index].links.pop_front().expect("it was looked at");
            self.apply_link(&link)?;
            ends[index] = link.after;
        }
        for Chain { links, durable_sequence, .. } in &chains {
            let claims = links.iter().map(|link| link.summary.header.durable_sequence);
            if claims.chain([*durable_sequence]).any(|claim| claim >= self.next_sequence) {
                let lost = self.next_sequence;
                let what =
                    format!("write {lost} is unreadable, yet a later one says it is durable");
                return Err(corrupt(&what));
            }
        }
        for (frontier, end) in self.frontiers.iter_mut().zip(ends) {
            frontier.position = end;
        }
        let named = ends.iter().filter_map(|position| position.next).collect::<Vec<_>>();
        let open = ends.iter().filter_map(|position| position.segment).collect::<Vec<_>>();
        if let Some(&segment) = open.iter().chain(&named).max() {
            self.extend_to(segment);
        }
        self.segments.set_states(&open, &named);
        for index in 0..FRONTIER_COUNT {
            self.close_if_full(index);
        }
        Ok(())
    }

    fn apply_link(&mut self, link: &Link) -> Result<(), StorageError> {
        let Summary { header, entries, .. } = &link.summary;
        self.extend_to(header.segment);
        if link.offset == 0 && self.segments.get(header.segment).live_bytes > 0 {
            let what = format!("segment {} was written again while it was live", header.segment);
            return Err(corrupt(&what));
        }
        self.apply(header, link.offset, entries);
        let lacks_base = |entry: &&Entry| {
            entry.kind == EntryKind::Difference && self.map.get(entry.address).is_none()
        };
        if let Some(entry) = entries.iter().find(lacks_base) {
            return Err(corrupt(&format!("{} has a difference from nothing", entry.address)));
        }
        self.counters.recovered_write_count += 1;
        Ok(())
    }

    /// Segments that the file got after the image.
    fn extend_to(&mut self, segment: u32) {
        while self.segments.count() <= segment {
            self.segments.restore(None);
        }
    }

    /// Reads what a frontier wrote into the segment where it stands, and moves to the next one.
    fn read_links(&mut self, frontier: u8, chain: &mut Chain) -> Result<(), StorageError> {
        let Position { segment, offset, next } = chain.position;
        let Some(segment) = segment else {
            match next {
                Some(next) => {
                    chain.position = Position { segment: Some(next), offset: 0, next: None };
                }
                None => chain.is_done = true,
            }
            return Ok(());
        };
        let segment_bytes = self.settings.segment_bytes;
        if offset > segment_bytes {
            return Err(corrupt("a frontier stands outside its segment"));
        }
        let start = u64::from(segment) * u64::from(segment_bytes) + u64::from(offset);
        let length = (segment_bytes - offset) as usize;
        let bytes = match length {
            0 => transfer::buffer(&self.io, 0),
            length => transfer::read(&self.io, self.files.segments, start, length)?,
        };
        let (mut at, mut next, is_first) = (0, next, offset == 0);
        while let Some(summary) = read_summary(&bytes[at..]) {
            let header = summary.header;
            if header.segment != segment || header.frontier != frontier {
                break;
            }
            if header.generation > self.generation {
                return Err(corrupt("the newer of the two page maps is damaged"));
            }
            if header.generation < self.generation || !summary.records_are_whole(&bytes[at..]) {
                break;
            }
            next = header.next_segment;
            let link_offset = offset + nandu_base::to_u32(at as u64);
            at += header.byte_count as usize;
            let end = offset + nandu_base::to_u32(at as u64);
            let after = Position { segment: Some(segment), offset: end, next };
            chain.links.push_back(Link { summary, offset: link_offset, after });
        }
        chain.durable_sequence =
            chain.durable_sequence.max(self.claim_behind(&bytes[at..], segment));
        // An empty segment that was named, but not written, ends the chain.
        let goes_on = at > 0 || !is_first;
        match next.filter(|_| goes_on) {
            Some(next) => {
                chain.position = Position { segment: Some(next), offset: 0, next: None };
            }
            None => chain.is_done = true,
        }
        Ok(())
    }
}

impl LogStructured {
    /// The last write that a partial segment somewhere in these bytes of a segment calls durable; of
    /// this generation only, since others are not part of the chain.
    fn claim_behind(&self, bytes: &[u8], segment: u32) -> u64 {
        let is_ours = |summary: &Summary| {
            let header = &summary.header;
            header.generation == self.generation && header.segment == segment
        };
        (0..bytes.len())
            .step_by(self.sector_bytes as usize)
            .filter_map(|at| read_summary(&bytes[at..]).filter(is_ours))
            .map(|summary| summary.header.durable_sequence)
            .max()
            .unwrap_or(0)
    }
}

fn check_sizes(settings: &LogStructuredSettings, image: &Image) -> Result<(), StorageError> {
    for (name, wanted, found) in [
        ("page_bytes", settings.page_bytes, image.page_bytes),
        ("segment_bytes", settings.segment_bytes, image.segment_bytes),
    ] {
        if wanted != found {
            let what = format!("{name} is {wanted}, but it was created with {found}; use that");
            return Err(StorageError::InvalidSetting { what });
        }
    }
    let file_bytes = u64::from(image.segments.count()) * u64::from(image.segment_bytes);
    let is_inside = |position: &Position| {
        let segments = position.segment.iter().chain(&position.next);
        segments.into_iter().all(|&segment| segment < image.segments.count())
    };
    if !image.positions.iter().all(is_inside) || to_index(file_bytes) == usize::MAX {
        return Err(corrupt("a frontier stands outside the file"));
    }
    Ok(())
}

fn corrupt(what: &str) -> StorageError {
    let place = format!("the page map (files {SEGMENTS_FILE}, {}, {})", MAP_FILES[0], MAP_FILES[1]);
    StorageError::Corrupt { place, what: format!("{what}; restore the database from a copy") }
}
