//! The engine over files that are synced one by one, as those of a directory are: a sync of one says
//! nothing about another. A kill leaves what was written and not synced in the kernel's memory, where
//! the next process finds it, and where a power cut takes any of it.

use super::*;
use crate::Lsn;
use crate::database::{Column, ColumnType, Database, LoadOptions, NewTable, TableKind};
use crate::sqlite::Value;
use crate::volume::{FileRequest, Volume, free_number};
use nandu_base::Nanos;
use nandu_device::{Completion, DeviceError, Operation, TimeSource};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

const SECTOR_BYTES: usize = 512;
const QUEUE_DEPTH: u32 = 16;

/// A file as the kernel shows it, and what of that is on the disk.
#[derive(Clone, Debug)]
struct CachedFile {
    name: String,
    records_from: Lsn,
    shown: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that were written since the last sync.
    unsynced: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<FileId, CachedFile>,
    ready: VecDeque<Completion>,
    request_count: u64,
    /// From this request on the power is off.
    cut_at: Option<u64>,
    /// Nothing can be noted any more, as in a manifest, while a file that is to go takes room.
    is_full: bool,
}

/// A volume over a disk that outlives it.
#[derive(Clone, Debug, Default)]
struct CachedVolume(Arc<Mutex<Disk>>);

impl CachedFile {
    /// What a power cut leaves: of each sector that was not synced the old or the new content.
    fn lose(&mut self, rng: &mut Rng) {
        let length = if rng.below(2) == 0 { self.durable.len() } else { self.shown.len() };
        let mut left = self.durable.clone();
        left.resize(self.shown.len().max(length), 0);
        for &sector in &self.unsynced {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            if range.end <= self.shown.len() && rng.below(2) == 0 {
                left[range.clone()].copy_from_slice(&self.shown[range]);
            }
        }
        left.truncate(length);
        (self.shown, self.durable) = (left.clone(), left);
        self.unsynced.clear();
    }
}

impl CachedVolume {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    fn cut_power(&self, rng: &mut Rng) {
        let mut disk = self.disk();
        disk.files.values_mut().for_each(|file| file.lose(rng));
        (disk.cut_at, disk.ready) = (None, VecDeque::new());
    }

    fn request(&self, what: &str) -> Result<MutexGuard<'_, Disk>, StorageError> {
        let mut disk = self.disk();
        disk.request_count += 1;
        if disk.cut_at.is_some_and(|at| disk.request_count >= at) {
            let (what, error) = (what.to_owned(), DeviceError::PowerLost);
            return Err(StorageError::Device { what, error });
        }
        Ok(disk)
    }
}

impl Volume for CachedVolume {
    fn name(&self) -> &'static str {
        "files in memory"
    }

    fn sector_bytes(&self) -> u32 {
        u32::try_from(SECTOR_BYTES).unwrap()
    }

    fn buffer_alignment(&self) -> u32 {
        1
    }

    fn queue_depth_max(&self) -> u32 {
        QUEUE_DEPTH
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Virtual
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn now(&self) -> Nanos {
        Nanos(self.disk().request_count)
    }

    fn files(&self) -> Vec<(FileId, String)> {
        self.disk().files.iter().map(|(&file, found)| (file, found.name.clone())).collect()
    }

    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        let mut disk = self.request("create")?;
        let number = free_number(disk.files.keys().copied(), "memory")?;
        let (name, shown, durable) = (name.to_owned(), Vec::new(), Vec::new());
        let unsynced = BTreeSet::new();
        disk.files.insert(number, CachedFile { name, records_from, shown, durable, unsynced });
        Ok(number)
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.disk().files[&file].records_from
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        let mut disk = self.request("remove")?;
        if disk.is_full && !disk.files[&file].shown.is_empty() {
            return Err(StorageError::NoSpace { what: "the manifest".to_owned() });
        }
        disk.files.remove(&file);
        Ok(())
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.disk().files.get(&file).map_or(0, |found| found.shown.len() as u64)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        let mut disk = self.request("resize")?;
        disk.files.get_mut(&file).unwrap().shown.resize(to_index(bytes), 0);
        Ok(())
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        let FileRequest { id, operation, offset_bytes, mut buffer, .. } = request;
        let mut disk = self.request(operation.label())?;
        let start = to_index(offset_bytes);
        let found = disk.files.get_mut(&file).unwrap();
        match (operation, &mut buffer) {
            (Operation::Read, Some(buffer)) => {
                buffer.fill(0);
                let there = found.shown.get(start..).unwrap_or_default();
                let count = there.len().min(buffer.len());
                buffer[..count].copy_from_slice(&there[..count]);
            }
            (Operation::Write, Some(buffer)) => {
                let end = start + buffer.len();
                if end > found.shown.len() {
                    found.shown.resize(end, 0);
                }
                found.shown[start..end].copy_from_slice(buffer);
                found.unsynced.extend(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
            }
            _ => {}
        }
        let (issued_at, completed_at, result) = (now, now, Ok(()));
        disk.ready.push_back(Completion { id, operation, issued_at, completed_at, result, buffer });
        Ok(())
    }

    fn next_completion(&mut self, _until: Nanos) -> Option<Completion> {
        self.disk().ready.pop_front()
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.disk().ready.len()).unwrap()
    }

    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        let mut disk = self.request("sync")?;
        let found = disk.files.get_mut(&file).unwrap();
        found.durable.clone_from(&found.shown);
        found.unsynced.clear();
        Ok(now)
    }

    fn sync_found(&mut self) -> Result<(), StorageError> {
        for (file, _) in self.files() {
            self.sync(file, Nanos::ZERO)?;
        }
        Ok(())
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        time
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn volumes_of(disks: &[CachedVolume]) -> Volumes {
    let boxed = |disk: &CachedVolume| Box::new(disk.clone()) as Box<dyn Volume>;
    Volumes::new(boxed(&disks[0]), disks.get(1).map(boxed))
}

fn live(disks: &[CachedVolume], settings: &Settings, seed: u64) {
    let context = format!(
        "{:?} {:?} seed {seed}, {} disks",
        settings.propagation.kind,
        settings.torn_pages,
        disks.len()
    );
    let mut engine = Engine::create(volumes_of(disks), settings, 7).unwrap();
    let file = engine.create_file(TREE_FILE).unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
    let (mut rng, mut committed) = (Rng::for_part(seed, "file caches"), Rows::new());
    let mut uncertain = None;
    for life in 0..4 {
        // A life ends at any request, the process alone or with the power.
        let is_cut = life % 2 == 1;
        if rng.below(3) > 0 {
            for disk in disks {
                let mut disk = disk.disk();
                disk.cut_at = Some(disk.request_count + 1 + rng.below(60));
            }
        }
        let outcome = run(&mut engine, &mut rng, 1 + (seed % 7) as u32 * 5, &mut committed);
        uncertain = uncertain.or(outcome);
        if rng.below(2) == 0 {
            // As evictions do: all is written, nothing is synced.
            let _ = engine.drop_cached_pages();
        }
        drop(engine);
        for disk in disks {
            let mut disk = disk.disk();
            disk.ready.clear();
            disk.cut_at = None;
        }
        if is_cut {
            disks.iter().for_each(|disk| disk.cut_power(&mut rng));
        }
        let (opened, _) = Engine::open(volumes_of(disks), settings)
            .unwrap_or_else(|error| panic!("{context}, life {life}: {error}"));
        assert_state(&opened, &committed, uncertain.as_ref(), &context);
        committed = contents(&opened);
        uncertain = None;
        engine = opened;
    }
}

#[test]
fn what_a_killed_process_wrote_is_durable_before_the_log_is_cut() {
    let ways = [settings(TornPages::LogImages), settings(TornPages::DoubleWrite), log_structured()];
    for settings in ways {
        for seed in 0..10 {
            live(&[CachedVolume::default()], &settings, seed);
            live(&[CachedVolume::default(), CachedVolume::default()], &settings, seed);
        }
    }
}

/// What a disk whose files are synced one by one has to find, beside the crash simulator: a sync that is
/// left out there may be covered by that of another file.
#[cfg(feature = "plant")]
#[test]
fn syncs_that_are_left_out_are_found() {
    use crate::plant::{EngineBug, Planted};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let settings = settings(TornPages::DoubleWrite);
    for bug in [
        EngineBug::BatchUnsynced,
        EngineBug::NothingPutBack,
        EngineBug::CheckpointWithoutSync,
        EngineBug::NoWriteAheadRule,
        EngineBug::LogNeverSynced,
    ] {
        let found = (0..20).find(|&seed| {
            let _planted = Planted::new(bug).unwrap();
            let disks = [CachedVolume::default(), CachedVolume::default()];
            catch_unwind(AssertUnwindSafe(|| live(&disks, &settings, seed))).is_err()
        });
        assert!(found.is_some(), "{}", bug.label());
    }
}

fn table(name: &str) -> NewTable {
    NewTable {
        name: name.to_owned(),
        columns: vec![Column::new("id", ColumnType::Integer)],
        kind: TableKind::Heap,
        indexes: Vec::new(),
    }
}

/// Loads rows, up to where there is no room.
fn load(database: &Database, name: &str, disk: &CachedVolume, is_full: bool) {
    let mut write = database.write().unwrap();
    let loaded = write.load_table(&table(name), &LoadOptions::default(), |rows| {
        for id in 0..500 {
            rows.push(&[Value::Integer(id).as_ref()])?;
        }
        disk.disk().is_full = is_full;
        match is_full {
            true => Err(StorageError::NoSpace { what: "a page".to_owned() }),
            false => Ok(()),
        }
    });
    assert_eq!(loaded.is_err(), is_full);
    write.commit().unwrap();
}

#[test]
fn files_that_are_worth_nothing_make_room_for_the_note_that_they_go() {
    let settings = settings(TornPages::LogImages);
    let disk = CachedVolume::default();
    let has = |name: &str| disk.disk().files.values().any(|file| file.name == name);
    let disks = [disk.clone()];
    let database = Database::create(volumes_of(&disks), &settings, 7).unwrap();
    load(&database, "kept", &disk, false);
    load(&database, "stray", &disk, true);
    assert!(!has("stray.sqlite"), "a load that fails leaves nothing");
    // A drop counts, also where the file has to wait for the next opening.
    drop_table(&database, "kept");
    assert!(has("kept.sqlite"));
    drop(database);
    let (database, _) = Database::open(volumes_of(&disks), &settings).unwrap();
    assert!(!has("kept.sqlite"));
    // Or for the closing.
    load(&database, "again", &disk, false);
    disk.disk().is_full = true;
    drop_table(&database, "again");
    assert!(has("again.sqlite"));
    database.close().unwrap();
    assert!(!has("again.sqlite"));
    let (database, report) = Database::open(volumes_of(&disks), &settings).unwrap();
    assert!(report.was_closed);
    assert_eq!(database.read().definitions().unwrap().count(), 0);
}

fn drop_table(database: &Database, name: &str) {
    let mut write = database.write().unwrap();
    write.drop_table(name).unwrap();
    write.commit().unwrap();
}
