//! Pages of a file over a propagation, with what was written of each in memory beside it. Those that changed
//! wait there until so many are written together, as a pool does.
//!
//! 1. A page that is read is what was written last; one that waits is written first.
//! 2. What takes time is a read or a write, or the sync behind writes, which counts as written.

use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_device::IoBuffer;
use nandu_storage::page::TRAILER_BYTES;
use nandu_storage::propagation::{ChangedRanges, Media, PageWrite, Placement, PropagationConfig};
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, StorageError, Volumes};
use std::sync::Arc;

const FILE: &str = "pages";
/// Pages that are written together at first.
const FILLED_TOGETHER: u64 = 64;

/// How many there were, and what they took.
pub(super) type Times = (u64, Nanos);

/// A file of pages.
pub(super) struct PageStore {
    io: Io,
    placement: Placement,
    file: FileId,
    alignment: usize,
    held: Vec<HeldPage>,
    /// Pages that changed and are to be written with others, none of them twice.
    waiting: Vec<u64>,
    written_together: usize,
    reads: Times,
    writes: Times,
}

struct HeldPage {
    bytes: Vec<u8>,
    /// What its next write has to cover beside what changes.
    changed: ChangedRanges,
}

impl PageStore {
    /// A file of so many pages of so many bytes, each written once; later ones are written so many together.
    pub(super) fn create(
        volumes: Volumes,
        config: &PropagationConfig,
        (page_bytes, page_count, written_together): (u32, u64, u32),
        seed: u64,
    ) -> Result<Self, StorageError> {
        let Volumes { data, others, .. } = volumes;
        let clock = Arc::default();
        let io = Io::new(data, Arc::clone(&clock));
        let file = io.create(FILE)?;
        let media = Media::with_clock(io.clone(), others, &clock);
        let (placement, _) = config.build(page_bytes, media, None, false)?;
        if placement.get().needs_room_in_files() {
            io.set_byte_count(file, (page_count + 1) * u64::from(page_bytes))?;
        }
        let mut rng = Rng::for_part(seed, "first pages");
        let mut first_page = || {
            let mut bytes = vec![0; page_bytes as usize];
            rng.fill(&mut bytes);
            HeldPage { bytes, changed: ChangedRanges::default() }
        };
        let held = (0..page_count).map(|_| first_page()).collect();
        let none = (0, Nanos::ZERO);
        let mut store = Self {
            alignment: placement.buffer_alignment() as usize,
            io,
            placement,
            file,
            held,
            waiting: Vec::new(),
            written_together: written_together as usize,
            reads: none,
            writes: none,
        };
        for first in (0..page_count).step_by(to_index(FILLED_TOGETHER)) {
            let pages: Vec<u64> = (first..page_count.min(first + FILLED_TOGETHER)).collect();
            store.write(&pages)?;
        }
        store.sync()?;
        Ok(store)
    }

    /// Reads and writes since the times were forgotten.
    pub(super) const fn times(&self) -> (Times, Times) {
        (self.reads, self.writes)
    }

    pub(super) const fn forget_times(&mut self) {
        (self.reads, self.writes) = ((0, Nanos::ZERO), (0, Nanos::ZERO));
    }

    pub(super) fn audit(&self) {
        self.placement.audit();
    }

    fn address(&self, page: u64) -> PageAddress {
        PageAddress::new(self.file, to_u32(page + 1))
    }

    /// Reads a page, and compares it.
    pub(super) fn read(&mut self, page: u64) -> Result<(), StorageError> {
        if self.waiting.contains(&page) {
            self.write_waiting()?;
        }
        let start = self.io.present();
        let address = self.address(page);
        let held = &mut self.held[to_index(page)];
        let buffer = IoBuffer::with_alignment(held.bytes.len(), self.alignment);
        self.placement.start_read(address, buffer)?;
        let read = self.placement.next_read().expect("one was begun");
        read.result?;
        if read.buffer[..] != held.bytes[..] {
            let place = format!("page {page}");
            let what = "it is not what was written last".to_owned();
            return Err(StorageError::Corrupt { place, what });
        }
        held.changed = read.changed;
        self.reads.0 += 1;
        self.reads.1 += self.io.present() - start;
        Ok(())
    }

    /// Changes so many bytes of a page that was read so many times, each time at another place, and has it
    /// written.
    pub(super) fn update(
        &mut self,
        page: u64,
        (changed_bytes, times): (u32, u32),
        rng: &mut Rng,
    ) -> Result<(), StorageError> {
        let held = &mut self.held[to_index(page)];
        let usable = to_u32((held.bytes.len() - TRAILER_BYTES) as u64);
        let count = changed_bytes.min(usable);
        for _ in 0..times {
            let first = to_u32(rng.below(u64::from(usable - count) + 1));
            let range = first..first + count;
            rng.fill(&mut held.bytes[range.start as usize..range.end as usize]);
            held.changed.add(range);
        }
        self.waiting.push(page);
        if self.waiting.len() >= self.written_together { self.write_waiting() } else { Ok(()) }
    }

    fn write_waiting(&mut self) -> Result<(), StorageError> {
        let pages = std::mem::take(&mut self.waiting);
        let start = self.io.present();
        self.write(&pages)?;
        self.writes.0 += pages.len() as u64;
        self.writes.1 += self.io.present() - start;
        Ok(())
    }

    fn write(&mut self, pages: &[u64]) -> Result<(), StorageError> {
        let write_of = |&page: &u64| {
            let address = self.address(page);
            let held = &self.held[to_index(page)];
            let mut buffer = IoBuffer::with_alignment(held.bytes.len(), self.alignment);
            buffer.copy_from_slice(&held.bytes);
            PageWrite { address, buffer, changed: held.changed.clone(), is_new: false }
        };
        let mut writes: Vec<PageWrite> = pages.iter().map(write_of).collect();
        self.placement.write(&mut writes)?;
        for (&page, write) in pages.iter().zip(writes) {
            let held = &mut self.held[to_index(page)];
            held.bytes.copy_from_slice(&write.buffer);
            held.changed = write.changed;
        }
        Ok(())
    }

    /// Makes all that was written durable.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        self.write_waiting()?;
        let start = self.io.present();
        self.placement.sync()?;
        self.writes.1 += self.io.present() - start;
        Ok(())
    }
}
