//! Format, open, and how the table of files becomes durable.
//!
//! ```text
//!   commit: wait for all in flight ─► flush ─► write the other slot ─► flush ─► trim and free pending
//! ```
//!
//! 1. The slot with the durable table is never written.

use super::{DeviceVolume, Extent, FileEntry, FreeUnits, OWN_ID, PIECE_BYTES_MAX, Piece, Table};
use crate::volume::Volume;
use crate::volume::device_volume::table::{Layout, RANGE_COUNT_MAX, Slot, VERSION, padded};
use crate::{FileId, StorageError};
use nandu_base::{Nanos, to_index, to_u32};
use nandu_device::{CompletionQueue, Device, DeviceError, Geometry, IoBuffer, Operation, Request};
use std::collections::BTreeSet;
use std::ops::Range;

/// Units of zeros that are written ahead of a file's last written byte, where it was made longer.
const ZEROS_AHEAD_UNITS: u64 = 8;

impl DeviceVolume {
    /// Makes an empty volume. Everything on the device is lost.
    ///
    /// # Errors
    /// If the device is too small, or refuses or fails.
    pub fn format(device: Box<dyn Device + Send>) -> Result<Self, StorageError> {
        let layout = Layout::of(device.info().geometry)?;
        let mut volume = Self::of(device, Table::empty(layout), 0);
        // Into both slots, so that the table of an older volume does not win.
        volume.commit(volume.device.now())?;
        volume.commit(volume.device.now())?;
        Ok(volume)
    }

    /// Opens the volume on a device.
    ///
    /// # Errors
    /// If there is none, or one of another version; if its table is damaged or the device was made
    /// shorter; or if the device fails.
    pub fn open(device: Box<dyn Device + Send>) -> Result<Self, StorageError> {
        let geometry = device.info().geometry;
        let guess = Layout::of(geometry)?;
        let mut volume = Self::of(device, Table::empty(guess), 0);
        // What is read becomes the durable table, so it has to be durable.
        volume.flush(volume.device.now())?;
        let header = volume.read_bytes(0, u64::from(geometry.sector_bytes))?;
        let slot_bytes = Table::slot_bytes_of(&header).unwrap_or(guess.slot_bytes);
        let slot_bytes = u64::from(slot_bytes);
        if 2 * slot_bytes > geometry.capacity().0 {
            return Err(volume.corrupt("the device is shorter than the volume was".into()));
        }
        let mut best: Option<(u32, Table)> = None;
        let mut troubles = Vec::new();
        for slot in 0..2 {
            match Table::decode(&volume.read_bytes(u64::from(slot) * slot_bytes, slot_bytes)?) {
                Slot::Sound(table) => {
                    if best.as_ref().is_none_or(|(_, known)| known.generation < table.generation) {
                        best = Some((slot, *table));
                    }
                }
                trouble => troubles.push(trouble),
            }
        }
        let Some((slot, table)) = best else { return Err(volume.no_table(troubles)) };
        volume.adopt(slot, table)?;
        Ok(volume)
    }

    /// Bytes at the head of a device of this geometry that hold the table of files, twice; 0 where no
    /// volume fits on it.
    #[must_use]
    pub fn table_bytes_on(geometry: Geometry) -> u64 {
        let bytes = |layout: Layout| u64::from(layout.first_unit()) * u64::from(layout.unit_bytes);
        Layout::of(geometry).map_or(0, bytes)
    }

    fn of(device: Box<dyn Device + Send>, table: Table, durable_slot: u32) -> Self {
        let queue_depth = device.info().queue_depth_max;
        let free = FreeUnits::new(table.layout.first_unit(), table.layout.unit_count);
        Self {
            device,
            table,
            free,
            pending: Vec::new(),
            durable_slot,
            changed: BTreeSet::new(),
            flights: (0..queue_depth).map(|_| None).collect(),
            vacant: (0..queue_depth).rev().collect(),
            ready: CompletionQueue::default(),
        }
    }

    fn corrupt(&self, what: String) -> StorageError {
        StorageError::Corrupt { place: self.name().to_owned(), what }
    }

    fn no_table(&self, troubles: Vec<Slot>) -> StorageError {
        let place = self.name().to_owned();
        for trouble in &troubles {
            if let Slot::OtherVersion(version) = trouble {
                let what =
                    format!("its layout has version {version}, this program reads {VERSION}");
                return StorageError::NotADatabase { place, what };
            }
        }
        for trouble in troubles {
            if let Slot::Damaged(what) = trouble {
                return self.corrupt(format!("{what}, and there is no older one"));
            }
        }
        let what = "it does not begin as a volume does".to_owned();
        StorageError::NotADatabase { place, what }
    }

    /// Takes over a stored table, which may say anything.
    fn adopt(&mut self, slot: u32, table: Table) -> Result<(), StorageError> {
        let (layout, geometry) = (table.layout, self.device.info().geometry);
        if !layout.is_sound() {
            return Err(self.corrupt("the sizes in its table make no sense".into()));
        }
        if layout.sector_bytes != geometry.sector_bytes {
            let what = format!(
                "{} has sectors of {} bytes, but was written with {}; open it with those",
                self.name(),
                geometry.sector_bytes,
                layout.sector_bytes
            );
            return Err(StorageError::InvalidSetting { what });
        }
        let volume_bytes = u64::from(layout.unit_count) * u64::from(layout.unit_bytes);
        if volume_bytes > geometry.capacity().0 {
            let found = geometry.capacity().0;
            let what = format!("it was made with {volume_bytes} bytes and has {found} now");
            return Err(self.corrupt(what));
        }
        let mut free = FreeUnits::new(layout.first_unit(), layout.unit_count);
        for entry in table.files.values() {
            if !entry.extents.iter().all(|&extent| free.take_exactly(extent)) {
                let what = format!("{} has units that are not free for it", entry.name);
                return Err(self.corrupt(what));
            }
            let room = entry.unit_count() * u64::from(layout.unit_bytes);
            let sector_bytes = u64::from(layout.sector_bytes);
            let whole = entry
                .written
                .iter()
                .all(|range: Range<u64>| (range.start | range.end).is_multiple_of(sector_bytes));
            if entry.byte_count > room || entry.written.end() > entry.byte_count || !whole {
                return Err(self.corrupt(format!("the length of {} is wrong", entry.name)));
            }
        }
        (self.table, self.free, self.durable_slot) = (table, free, slot);
        Ok(())
    }

    /// Whether a sync of `file` has to write the table. Removals become durable with any sync.
    pub(super) fn table_must_be_written(&self, file: FileId) -> bool {
        let is_removed = |changed: &FileId| !self.table.files.contains_key(changed);
        self.changed.contains(&file)
            || !self.pending.is_empty()
            || self.changed.iter().any(is_removed)
    }

    /// Makes `file` durable.
    pub(super) fn make_durable(&mut self, file: FileId, now: Nanos) -> Result<(), StorageError> {
        if !self.table_must_be_written(file) {
            return self.flush(now);
        }
        self.write_zeros_ahead(file)?;
        self.commit(now)
    }

    /// Makes the table and all that it names durable.
    pub(super) fn commit(&mut self, now: Nanos) -> Result<(), StorageError> {
        while self.device.in_flight() > 0 {
            let completion = self.device.next_completion(Nanos::MAX);
            self.absorb(completion.expect("what is in flight completes"));
        }
        let changed: Vec<FileId> = self.changed.iter().copied().collect();
        for file in changed {
            self.fill_small_gaps(file, RANGE_COUNT_MAX)?;
        }
        self.flush(now)?;
        self.table.generation += 1;
        let slot = 1 - self.durable_slot;
        self.write_slot(slot, self.table.encode())?;
        self.flush(now)?;
        self.durable_slot = slot;
        self.changed.clear();
        for extent in std::mem::take(&mut self.pending) {
            self.trim(extent);
            self.free.give(extent);
        }
        Ok(())
    }

    fn flush(&mut self, now: Nanos) -> Result<(), StorageError> {
        let done = self.run(now, Request::flush(OWN_ID));
        // Always an error of the device, even where the reason is a lack of room: what was written
        // before may be lost, while after a refusal all would be as it was.
        let what = || format!("flush of {}", self.name());
        done.map(drop).map_err(|error| StorageError::Device { what: what(), error })
    }

    /// Fills the smallest gaps between a file's written ranges until there are at most so many ranges.
    pub(super) fn fill_small_gaps(
        &mut self,
        file: FileId,
        range_count_max: usize,
    ) -> Result<(), StorageError> {
        loop {
            let Some(entry) = self.table.files.get(&file) else { return Ok(()) };
            if entry.written.count() <= range_count_max {
                return Ok(());
            }
            let gap = entry.written.smallest_gap().expect("there are several ranges");
            self.write_zeros(file, gap)?;
        }
    }

    /// Writes zeros behind the last written byte of a file that was made longer than that.
    fn write_zeros_ahead(&mut self, file: FileId) -> Result<(), StorageError> {
        let FileEntry { byte_count, written, .. } = self.entry(file)?;
        let start = written.end();
        let ahead = ZEROS_AHEAD_UNITS * u64::from(self.table.layout.unit_bytes);
        let end = (start + ahead).min(*byte_count);
        if start == 0 || start >= end {
            return Ok(());
        }
        self.write_zeros(file, start..end)
    }

    fn write_zeros(&mut self, file: FileId, range: Range<u64>) -> Result<(), StorageError> {
        let mut pieces = Vec::new();
        let step = u64::from(self.table.layout.slot_bytes);
        for start in (range.start..range.end).step_by(to_index(step)) {
            self.pieces(file, start..range.end.min(start + step), &mut pieces);
        }
        for piece in pieces {
            let bytes = vec![0; to_index(piece.byte_count)];
            let what = format!("zeros for {}", self.table.files[&file].name);
            self.write_bytes(piece.device_offset, &bytes, what)?;
        }
        self.entry_mut(file).written.add(range);
        self.changed.insert(file);
        Ok(())
    }

    fn write_slot(&mut self, slot: u32, bytes: Vec<u8>) -> Result<(), StorageError> {
        let offset = u64::from(slot) * u64::from(self.table.layout.slot_bytes);
        let bytes = padded(bytes, self.table.layout.sector_bytes);
        let what = format!("writing the table of files of {}", self.name());
        self.write_bytes(offset, &bytes, what)
    }

    fn write_bytes(
        &mut self,
        device_offset: u64,
        bytes: &[u8],
        what: String,
    ) -> Result<(), StorageError> {
        let alignment = self.buffer_alignment().max(1) as usize;
        let mut buffer = IoBuffer::with_alignment(bytes.len(), alignment);
        buffer.copy_from_slice(bytes);
        let byte_count = bytes.len() as u64;
        let piece = Piece { file_offset: 0, device_offset, byte_count };
        let request = self.request_of(Operation::Write, piece, Some(buffer));
        let done = self.run(self.device.now(), request);
        done.map(drop).map_err(|error| self.error_of(what, error))
    }

    fn read_bytes(&mut self, offset: u64, byte_count: u64) -> Result<IoBuffer, StorageError> {
        let sector_bytes = u64::from(self.device.info().geometry.sector_bytes);
        let alignment = self.buffer_alignment().max(1) as usize;
        let buffer = IoBuffer::with_alignment(to_index(byte_count), alignment);
        let sector_count = to_u32(byte_count / sector_bytes);
        let request = Request::read(OWN_ID, offset / sector_bytes, sector_count, Some(buffer));
        match self.run(self.device.now(), request) {
            Ok(buffer) => Ok(buffer.expect("the buffer comes back")),
            Err(error) => {
                let what = format!("reading the table of files of {}", self.name());
                Err(self.error_of(what, error))
            }
        }
    }

    /// A hint only: whether the device takes it does not matter.
    fn trim(&mut self, extent: Extent) {
        if !self.device.info().supports_trim {
            return;
        }
        let unit_bytes = u64::from(self.table.layout.unit_bytes);
        let sector_bytes = u64::from(self.sector_bytes());
        let (start, end) =
            (u64::from(extent.first) * unit_bytes, u64::from(extent.end()) * unit_bytes);
        for offset in (start..end).step_by(to_index(PIECE_BYTES_MAX)) {
            let sector_count = to_u32((end - offset).min(PIECE_BYTES_MAX) / sector_bytes);
            let request = Request::trim(OWN_ID, offset / sector_bytes, sector_count);
            let _ = self.run(self.device.now(), request);
        }
    }

    /// Runs one request of the volume's own and waits; takes in what completes meanwhile.
    fn run(&mut self, now: Nanos, mut request: Request) -> Result<Option<IoBuffer>, DeviceError> {
        self.wait_for_room();
        request.id = OWN_ID;
        let now = self.present(now);
        self.device.submit(now, request).map_err(|rejected| rejected.error)?;
        loop {
            let completion = self.device.next_completion(Nanos::MAX);
            let completion = completion.expect("what is in flight completes");
            if completion.id == OWN_ID {
                return completion.result.map(|()| completion.buffer);
            }
            self.absorb(completion);
        }
    }
}
