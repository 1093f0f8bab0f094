//! A full volume: pages that have found room can be changed for ever, in whichever pieces.

use super::*;

/// A volume whose pages are as many as found room, and what each of them holds.
struct Full {
    bench: Bench,
    rng: Rng,
    pages: Vec<Vec<u8>>,
    /// What the next write of each has to cover, as the pool would know.
    changed: Vec<ChangedRanges>,
}

impl Full {
    /// Makes pages until no more find room, as the engine asks for it.
    fn fill(disk: Disk, settings: LogStructuredSettings, seed: u64) -> Self {
        let bench = Bench::new(disk, settings).unwrap();
        let (pages, changed) = (Vec::new(), Vec::new());
        let mut full = Self { bench, rng: Rng::new(seed), pages, changed };
        let count = 1 + to_index(full.rng.below(16));
        while full.has_room(count) {
            let first = full.pages.len();
            full.pages.resize(first + count, vec![0; PAGE_BYTES as usize]);
            full.changed.resize(first + count, ChangedRanges::default());
            let indexes: Vec<usize> = (first..first + count).collect();
            full.write(&indexes, true).unwrap();
            full.bench.propagation.sync().unwrap();
            // Now and then each page gets a difference, which takes room beside it.
            if full.pages.len() / 128 > first / 128 {
                let indexes: Vec<usize> = (0..full.pages.len()).collect();
                full.write(&indexes, false).unwrap();
            }
        }
        full
    }

    fn has_room(&mut self, count: usize) -> bool {
        match self.bench.propagation.find_room(count as u64) {
            Ok(found) => found >= count as u64,
            Err(StorageError::NoSpace { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn address(index: usize) -> PageAddress {
        page(1, 1 + nandu_base::to_u32(index as u64))
    }

    /// Gives pages bytes that nothing can be left out of; a page that is there may get a few only, so
    /// that a difference will do.
    fn write(&mut self, indexes: &[usize], is_new: bool) -> Result<(), StorageError> {
        let mut writes = Vec::new();
        for &index in indexes {
            let page = &mut self.pages[index];
            let before = page.clone();
            let end = page.len() - TRAILER_BYTES;
            let start = if !is_new && self.rng.below(2) == 0 { end - 100 } else { 16 };
            self.rng.fill(&mut page[start..end]);
            seal_page(page, Self::address(index));
            note_difference(&before, page, &mut self.changed[index]);
            let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            buffer.copy_from_slice(page);
            let changed = self.changed[index].clone();
            writes.push(PageWrite { address: Self::address(index), buffer, changed, is_new });
        }
        self.bench.propagation.write_sealed(&mut writes)?;
        for (&index, write) in indexes.iter().zip(writes) {
            self.changed[index] = write.changed;
        }
        Ok(())
    }

    /// Changes a few pages, mostly of those that are changed often, and makes that durable or not.
    fn change(&mut self) -> Result<(), StorageError> {
        let page_count = self.pages.len() as u64;
        let mut indexes: Vec<usize> = Vec::new();
        for _ in 0..(1 + self.rng.below(12)).min(page_count) {
            let among = if self.rng.below(4) == 0 { page_count } else { page_count / 8 + 1 };
            indexes.push(to_index(self.rng.below(among)));
        }
        indexes.sort_unstable();
        indexes.dedup();
        self.write(&indexes, false)?;
        match self.rng.below(3) {
            0 => Ok(()),
            _ => self.bench.propagation.sync(),
        }
    }

    /// Syncs and opens again, as each command of a user does; all pages are as they were.
    fn reopen(&mut self) -> Result<(), StorageError> {
        self.bench.propagation.sync()?;
        restart(&self.bench.disk, FaultPlan::default());
        self.bench.io = io_of(DeviceVolume::open(Box::new(self.bench.disk.clone()))?);
        let settings = self.bench.settings.clone();
        self.bench.propagation =
            LogStructured::open(Media::of_data(self.bench.io.clone()), settings)?;
        self.bench.propagation.audit();
        self.has_room(1);
        for (index, page) in self.pages.iter().enumerate() {
            let buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            self.bench.propagation.start_read(Self::address(index), buffer)?;
            let read = self.bench.propagation.next_read().expect("one was begun");
            read.result?;
            assert!(read.buffer[..] == page[..], "{}", Self::address(index));
            self.changed[index] = read.changed;
        }
        Ok(())
    }
}

#[test]
fn pages_that_found_room_can_be_changed_for_ever() {
    let (mut page_count, mut difference_count) = (0, 0);
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let sector_count = 1024 + rng.below(3072);
        let mut one_of = |count: usize| to_index(rng.below(count as u64));
        let settings = LogStructuredSettings {
            packing: [PagePacking::Packed, PagePacking::Whole][one_of(2)],
            segment_bytes: 8192 << one_of(4),
            write_bytes: 4096 << one_of(2),
            victim: SegmentVictimKind::ALL[one_of(SegmentVictimKind::ALL.len())],
            ..small()
        };
        let what = format!("seed {seed}, {sector_count} sectors, {settings:?}");
        let mut full = Full::fill(disk(sector_count, FaultPlan::default()), settings, seed);
        page_count += full.pages.len();
        difference_count += full.bench.propagation.counters().difference_count;
        for round in 0..200 {
            let is_last = round % 20 == 19;
            let answer = full.change().and_then(|()| if is_last { full.reopen() } else { Ok(()) });
            answer.unwrap_or_else(|error| panic!("{what}, round {round}: {error}"));
        }
    }
    assert!(difference_count > 24 * 800, "pages had differences before: {difference_count}");
    assert!(page_count > 24 * 800, "volumes of 512 KiB to 2 MiB are full: {page_count} pages");
}
