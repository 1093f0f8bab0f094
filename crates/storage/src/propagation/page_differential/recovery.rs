//! Opening: the summaries of all segments, in any order.
//!
//! ```text
//!   summaries ─► the last write that one of them says to be durable, and the writes that follow it
//!             ─► of those: cuts ─► the newest base page of each page ─► its newest differential
//! ```
//!
//! 1. What follows the last write that is known to be durable counts as long as each names the one
//!    before it, and its flash pages are whole. What comes behind a torn one was never synced.
//! 2. Of pages that have several versions the stamps decide, not the order in which they are found.
//! 3. The last write tells the state of the table with it. Whoever finds another one has found damage.
//! 4. What counted once more is durable before anything is written.
//! 5. Opening ends with a write that tells of the opening, and of the writes that did not count: none of
//!    them does later.
//! 6. A summary that the medium cannot read is none, unless the write that follows the last may have it:
//!    nobody knows then what was synced, and nothing is opened. Of differentials those count that can be
//!    read. Where what could not be read is missing, that is told as the trouble of the medium that it is,
//!    and nothing is written: it is there once it can be read again.

use super::differential::{Found as FoundDifferential, differentials_of, stored_bytes};
use super::map::Difference;
use super::medium::{Gap, SegmentMedium, VolumeSegments, unless_unreadable};
use super::notes::Note;
use super::summary::{Entry, EntryKind, HEADER_BYTES, Summary, read_summary, summary_bytes};
use super::{Location, PageDifferential, PageDifferentialSettings, SEGMENTS_FILE};
use crate::error::unless_full;
use crate::propagation::Media;
use crate::propagation::log_structured::record::UNIT_BYTES;
use crate::volume::Io;
use crate::{FileId, StorageError};
use nandu_base::to_u32;
use nandu_device::IoBuffer;
use std::collections::BTreeMap;

/// Neither writes nor openings are ever as many, so that no number behind them passes the last.
const NUMBER_MAX: u64 = 1 << 62;

/// A write as it was found.
#[derive(Debug)]
struct Found {
    summary: Summary,
    /// Where it starts in the file.
    start: u64,
}

impl Found {
    const fn sequence(&self) -> u64 {
        self.summary.header.sequence
    }
}

/// All writes, and what is seen of those that no other leads to.
#[derive(Debug, Default)]
struct Survey {
    found: Vec<Found>,
    /// The last sequence or stamp that there ever was.
    clock: u64,
    era: u64,
    /// The last write that any of them says to be durable.
    claim: u64,
    /// The first byte of differentials that the medium could not read, and what it answered.
    unreadable: Option<Gap>,
    /// The same of all places where the summary of a write could have been.
    gaps: Vec<Gap>,
    /// What it is all on, where damage is told.
    told: String,
}

impl PageDifferential {
    /// Opens what [`Self::create`] made, as it was at the last sync or later.
    ///
    /// # Errors
    /// If there is nothing of the kind or it is damaged, a setting makes no sense or differs from that
    /// at creation where it may not, or the device fails.
    pub fn open(media: Media, settings: PageDifferentialSettings) -> Result<Self, StorageError> {
        let io = media.into_data();
        settings.check(io.sector_bytes())?;
        let known = io.files().into_iter().find(|(_, name)| name == SEGMENTS_FILE);
        let Some((file, _)) = known else {
            let what = format!("file {SEGMENTS_FILE} of page-differential logging");
            return Err(StorageError::NotFound { what });
        };
        let medium = Box::new(VolumeSegments::new(io.clone(), file, settings.segment_bytes));
        Self::recover((io, file), settings, medium)
    }

    /// Takes up what is on `medium`.
    pub(super) fn recover(
        (io, file): (Io, FileId),
        settings: PageDifferentialSettings,
        medium: Box<dyn SegmentMedium>,
    ) -> Result<Self, StorageError> {
        let mut opened = Self::assemble((io, file), settings, medium);
        let mut survey = opened.survey()?;
        let last = opened.follow(&survey)?;
        opened.check_gaps(&survey, last)?;
        opened.drop_void(&mut survey, last);
        opened.fill_table(&mut survey)?;
        let state = survey.found.iter().find(|it| it.sequence() == last);
        let state = state.map(|found| found.summary.header.state);
        if state != Some(opened.table.state()) {
            let what = format!("write {last} left other pages than are found");
            return Err(survey.damaged(&what));
        }
        if survey.claim > last {
            let what =
                format!("write {} is unreadable, yet a later one says it is durable", survey.claim);
            return Err(survey.damaged(&what));
        }
        opened.counters.recovered_write_count = survey.found.len() as u64;
        opened.segments.settle(survey.claim);
        opened.era = survey.era + 1;
        opened.clock = survey.clock;
        if survey.clock > last {
            opened.void = Some((last + 1, survey.clock));
        }
        (opened.last_sequence, opened.told_sequence) = (last, last);
        (opened.last_claim, opened.claimed_sequence) = (survey.claim, survey.claim);
        opened.durable_sequence = survey.claim;
        if !opened.io.is_read_only() {
            // What was found need not be durable, and segments that it emptied are written next.
            opened.medium.sync()?;
            opened.durable_sequence = last;
            // Without room for it the next write needs some first.
            unless_full(opened.begin_era())?;
        }
        Ok(opened)
    }

    /// Reads all summaries, and learns what each segment was.
    fn survey(&mut self) -> Result<Survey, StorageError> {
        let mut survey = Survey { told: self.medium.told(), ..Survey::default() };
        for segment in 0..self.medium.found_count() {
            if !self.medium.is_usable(segment) {
                self.segments.push_lost();
                continue;
            }
            let first = survey.found.len();
            let used_bytes = self.survey_segment(segment, &mut survey)?;
            let sequence = |found: Option<&Found>| found.map_or(0, Found::sequence);
            let found = &survey.found[first..];
            let sequences = (sequence(found.first()), sequence(found.last()));
            self.segments.push(sequences, used_bytes);
        }
        Ok(survey)
    }

    fn survey_segment(&self, segment: u32, survey: &mut Survey) -> Result<u32, StorageError> {
        let segment_bytes = self.settings.segment_bytes;
        let start = u64::from(segment) * u64::from(segment_bytes);
        let mut offset = 0;
        let mut before: Option<(u64, u64, u64)> = None;
        while offset < segment_bytes {
            let Some(summary) = self.read_summary_at(start, offset, survey)? else { break };
            let header = summary.header;
            let follows = match before {
                None => header.opened_at == header.sequence,
                Some((era, opened_at, sequence)) => {
                    (header.era, header.opened_at) == (era, opened_at) && header.sequence > sequence
                }
            };
            if header.segment != segment || !follows {
                break;
            }
            check_sizes(&self.settings, &summary)?;
            check_numbers(&summary, &survey.told, start + u64::from(offset))?;
            before = Some((header.era, header.opened_at, header.sequence));
            survey.note(&summary);
            survey.found.push(Found { summary, start: start + u64::from(offset) });
            offset += header.byte_count;
        }
        self.look_behind(segment, offset, survey)?;
        Ok(offset)
    }

    /// What is behind the last write of a segment may say something of those that cannot be read.
    fn look_behind(
        &self,
        segment: u32,
        offset: u32,
        survey: &mut Survey,
    ) -> Result<(), StorageError> {
        let start = u64::from(segment) * u64::from(self.settings.segment_bytes);
        let left = (self.settings.segment_bytes - offset) as usize;
        if left == 0 || self.medium.is_blank_from(start + u64::from(offset))? {
            return Ok(());
        }
        let (bytes, _) = self.medium.read_what_can_be(start + u64::from(offset), left)?;
        for at in (0..left).step_by(self.sector_bytes as usize) {
            let summary = read_summary(&bytes[at..]);
            let says = |it: &Summary| it.header.segment == segment && has_sound_numbers(it);
            if let Some(summary) = summary.filter(says) {
                survey.note(&summary);
            }
        }
        Ok(())
    }

    /// Reads where the summary of a write may be; `None` if the medium cannot, which is noted.
    fn read_front(
        &self,
        at: u64,
        bytes: usize,
        survey: &mut Survey,
    ) -> Result<Option<IoBuffer>, StorageError> {
        let read = unless_unreadable(self.medium.read_whatever(at, bytes))?;
        let noted = read.map_err(|error| survey.gaps.push((at, error)));
        Ok(noted.ok())
    }

    fn read_summary_at(
        &self,
        start: u64,
        offset: u32,
        survey: &mut Survey,
    ) -> Result<Option<Summary>, StorageError> {
        let left = (self.settings.segment_bytes - offset) as usize;
        let first_bytes = HEADER_BYTES.next_multiple_of(self.sector_bytes as usize);
        if left < first_bytes {
            return Ok(None);
        }
        let at = start + u64::from(offset);
        let Some(first) = self.read_front(at, first_bytes, survey)? else { return Ok(None) };
        let Some(bytes) = summary_bytes(&first).filter(|&bytes| bytes <= left) else {
            return Ok(None);
        };
        let summary = if bytes <= first_bytes {
            read_summary(&first)
        } else {
            let bytes = bytes.next_multiple_of(self.sector_bytes as usize);
            let all = self.read_front(at, bytes, survey)?;
            all.and_then(|all| read_summary(&all))
        };
        let fits = |it: &Summary| {
            let byte_count = it.header.byte_count;
            byte_count as usize <= left && byte_count.is_multiple_of(self.sector_bytes)
        };
        Ok(summary.filter(fits))
    }

    /// The last write that counts.
    fn follow(&self, survey: &Survey) -> Result<u64, StorageError> {
        let durable = |it: &Found| it.summary.header.durable_sequence;
        let mut last = survey.found.iter().map(durable).max().unwrap_or(0);
        let mut followers: BTreeMap<u64, Vec<&Found>> = BTreeMap::new();
        for found in &survey.found {
            followers.entry(found.summary.header.previous).or_default().push(found);
        }
        while let Some(found) = followers.get_mut(&last) {
            found.sort_by_key(|found| found.sequence());
            let mut next = None;
            while let Some(found) = found.pop().filter(|_| next.is_none()) {
                if self.is_whole(found)? {
                    next = Some(found.sequence());
                }
            }
            match next {
                Some(next) => last = next,
                None => break,
            }
        }
        match last {
            0 => Err(survey.damaged("there is no write that is whole")),
            last => Ok(last),
        }
    }

    /// Refuses what is unreadable where a write may begin that follows the last: behind it in its segment, or
    /// at the start of one. Any other segment was left when the last was written.
    fn check_gaps(&self, survey: &Survey, last: u64) -> Result<(), StorageError> {
        let found = survey.found.iter().find(|it| it.sequence() == last);
        let segment_of_last = found.map(|found| self.segments.of(found.start));
        let may_follow = |at: u64| {
            let is_start = at.is_multiple_of(u64::from(self.settings.segment_bytes));
            is_start || Some(self.segments.of(at)) == segment_of_last
        };
        match survey.gaps.iter().find(|(at, _)| may_follow(*at)) {
            Some(gap) => Err(unreadable(&survey.told, gap, "what was written last may be there")),
            None => Ok(()),
        }
    }

    /// Whether all flash pages of a write are as they were written.
    fn is_whole(&self, found: &Found) -> Result<bool, StorageError> {
        for entry in found.summary.entries.iter().filter(|entry| entry.has_flash_page()) {
            let at = found.start + u64::from(entry.start);
            let read = unless_unreadable(self.medium.read_whatever(at, self.slot_bytes()))?;
            let bytes = read.map_err(|error| {
                // It may have been synced, or torn.
                let what = format!("nobody knows whether write {} is whole", found.sequence());
                unreadable(&self.medium.told(), &(at, error), &what)
            })?;
            if crc32c::crc32c(&bytes) != entry.sum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves those that count, of which the last is `last`: neither later ones nor those of which one
    /// that counts says that they never were.
    fn drop_void(&mut self, survey: &mut Survey, last: u64) {
        survey.found.retain(|found| found.sequence() <= last);
        survey.found.sort_by_key(Found::sequence);
        let mut voids: Vec<(u64, u64)> = Vec::new();
        let mut counted = Vec::new();
        while let Some(found) = survey.found.pop() {
            let sequence = found.sequence();
            if voids.iter().any(|(from, to)| (*from..=*to).contains(&sequence)) {
                continue;
            }
            let entries = found.summary.entries.iter();
            let is_void = |entry: &&Entry| entry.kind == EntryKind::Void;
            voids.extend(entries.filter(is_void).map(|entry| (entry.address, entry.stamp)));
            counted.push(found);
        }
        counted.reverse();
        survey.found = counted;
    }

    fn fill_table(&mut self, survey: &mut Survey) -> Result<(), StorageError> {
        let mut unreadable = None;
        self.fill_notes(survey);
        for (found, entry) in survey.entries().filter(|(_, entry)| entry.kind == EntryKind::Base) {
            if !self.notes.is_gone(entry.page(), entry.stamp) {
                let offset = found.start + u64::from(entry.start);
                self.apply_base(entry.page(), entry.stamp, offset, 0);
            }
        }
        let differentials = |entry: &Entry| entry.kind == EntryKind::Differentials;
        for (found, entry) in survey.entries().filter(|(_, entry)| differentials(entry)) {
            let flash_page = found.start + u64::from(entry.start);
            let (bytes, gap) = self.medium.read_what_can_be(flash_page, self.slot_bytes())?;
            // If any of what is not whole is needed, the state tells.
            if gap.is_none() && crc32c::crc32c(&bytes) != entry.sum {
                continue;
            }
            // Damage that has the right sum, too, changes no page.
            let sequence = found.sequence();
            let is_sound =
                |it: &FoundDifferential<'_>| it.base_stamp < it.stamp && it.stamp < sequence;
            let all: Vec<FoundDifferential<'_>> = match &gap {
                None => differentials_of(&bytes).filter(is_sound).collect(),
                Some(_) => self.differentials_around_gaps(&bytes, is_sound),
            };
            for it in all {
                let record_bytes = to_u32(it.record.len() as u64);
                let at = Location::new(flash_page + it.at as u64, record_bytes, false);
                let room_bytes = self.room_of_difference(it.record.len());
                let difference = Difference { at, flash_page, stamp: it.stamp, room_bytes };
                self.apply_difference(it.address, it.base_stamp, difference, 0);
            }
            unreadable = unreadable.or(gap);
        }
        survey.unreadable = unreadable;
        Ok(())
    }

    /// The differentials of a flash page that has zeros for what cannot be read: behind that nothing says
    /// where the next one begins, but that it is of a base page that is there.
    fn differentials_around_gaps<'a>(
        &self,
        flash_page: &'a [u8],
        is_sound: impl Fn(&FoundDifferential<'_>) -> bool,
    ) -> Vec<FoundDifferential<'a>> {
        let is_of_base = |it: &FoundDifferential<'_>| {
            self.table.get(it.address).is_some_and(|place| place.base_stamp == it.base_stamp)
        };
        let (mut start, mut all) = (0, Vec::new());
        while let Some(rest) = flash_page.get(start..).filter(|rest| !rest.is_empty()) {
            let next = differentials_of(rest).next();
            match next.filter(|it| is_sound(it) && is_of_base(it)) {
                Some(it) => {
                    all.push(FoundDifferential { at: start + it.at, ..it });
                    start += stored_bytes(it.record.len());
                }
                None => start += UNIT_BYTES as usize,
            }
        }
        all
    }

    fn fill_notes(&mut self, survey: &Survey) {
        for (found, entry) in survey.entries() {
            let segment = self.segments.of(found.start);
            let note = Note { stamp: entry.stamp, segment };
            match entry.kind {
                EntryKind::Truncated => {
                    let before = self.notes.cut(entry.page());
                    if before.is_none_or(|before| before.stamp <= entry.stamp) {
                        let freed = self.notes.add_cut(entry.page(), note);
                        self.segments.add_note(segment);
                        freed.into_iter().for_each(|freed| self.segments.remove_note(freed, 0));
                    }
                }
                EntryKind::Void => {
                    let freed = self.notes.add_void(entry.address, note);
                    self.segments.add_note(segment);
                    freed.into_iter().for_each(|freed| self.segments.remove_note(freed, 0));
                }
                EntryKind::Base | EntryKind::Differentials => {}
            }
        }
    }
}

impl Survey {
    fn note(&mut self, summary: &Summary) {
        let header = &summary.header;
        self.clock = self.clock.max(header.sequence);
        self.era = self.era.max(header.era);
        self.claim = self.claim.max(header.durable_sequence);
    }

    /// Why nothing is opened: for what the medium cannot read, if there is any, else for what is damaged.
    fn damaged(&self, what: &str) -> StorageError {
        match self.gaps.first().or(self.unreadable.as_ref()) {
            None => corrupt(self.told.clone(), &format!("{what};")),
            Some(gap) => unreadable(&self.told, gap, what),
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&Found, &Entry)> {
        self.found.iter().flat_map(|found| {
            let entries = found.summary.entries.iter();
            entries.map(move |entry| (found, entry))
        })
    }
}

fn check_sizes(settings: &PageDifferentialSettings, summary: &Summary) -> Result<(), StorageError> {
    let header = &summary.header;
    for (name, wanted, found) in [
        ("page_bytes", settings.page_bytes, header.page_bytes),
        ("segment_bytes", settings.segment_bytes, header.segment_bytes),
    ] {
        if wanted != found {
            let what = format!("{name} is {wanted}, but it was created with {found}; use that");
            return Err(StorageError::InvalidSetting { what });
        }
    }
    Ok(())
}

fn has_sound_numbers(summary: &Summary) -> bool {
    // Of a summary that was read no other number is above these.
    summary.header.era.max(summary.header.sequence) < NUMBER_MAX
}

fn check_numbers(summary: &Summary, told: &str, at: u64) -> Result<(), StorageError> {
    if has_sound_numbers(summary) {
        return Ok(());
    }
    let place = format!("{told} at byte {at}");
    let (sequence, era) = (summary.header.sequence, summary.header.era);
    Err(corrupt(place, &format!("nobody wrote so often: write {sequence} of opening {era};")))
}

/// What the medium answered, and what that keeps from being known.
fn unreadable(told: &str, (at, error): &Gap, what: &str) -> StorageError {
    let what = format!(
        "cannot read {told} at byte {at}, and {what}; try again, or restore the database from a copy"
    );
    StorageError::Device { what, error: error.clone() }
}

fn corrupt(place: String, what: &str) -> StorageError {
    StorageError::Corrupt { place, what: format!("{what} restore the database from a copy") }
}
