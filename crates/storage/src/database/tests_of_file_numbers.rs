//! File numbers that are used again, also where the log, the copies of pages or the map of segments
//! still speak of the file that had the number before.

use super::*;
use crate::engine::TornPages;
use crate::propagation::{PropagationKind, PropagationSettings};
use crate::sqlite::{Value, ValueRef};
use crate::volume::DeviceVolume;
use crate::{FileId, StorageError};
use nandu_device::UnflushedFate;
use nandu_device::{FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, SharedDevice};
use std::collections::{BTreeMap, BTreeSet};

type TestDevice = SharedDevice<FaultyDevice<MemoryDevice>>;

/// What a cut does to unflushed writes, and how many sectors of the write at hand arrive.
const FATES: [(UnflushedFate, Option<u32>); 4] = [
    (UnflushedFate::Dropped, None),
    (UnflushedFate::Kept, Some(1)),
    (UnflushedFate::Torn, Some(2)),
    (UnflushedFate::Dropped, Some(1)),
];

/// The ids of the rows of each table.
type State = BTreeMap<String, BTreeSet<i64>>;

/// What a restart may show.
#[derive(Default)]
struct Trail {
    committed: State,
    uncertain: Option<State>,
}

fn ways() -> [Settings; 4] {
    let way = |propagation, torn_pages| Settings {
        page_bytes: 512,
        pool_bytes: 24 << 10,
        log_bytes: 256 << 10,
        checkpoint_bytes: 16 << 10,
        propagation: PropagationSettings::from(propagation),
        torn_pages,
        ..Settings::default()
    };
    [
        way(PropagationKind::InPlace, TornPages::LogImages),
        way(PropagationKind::InPlace, TornPages::DoubleWrite),
        way(PropagationKind::LogStructured, TornPages::Trust),
        way(PropagationKind::PageDifferential, TornPages::Trust),
    ]
}

fn device() -> TestDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 32 << 11 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

fn create(device: &TestDevice, settings: &Settings) -> Database {
    let data = Box::new(DeviceVolume::format(Box::new(device.clone())).unwrap());
    Database::create(Volumes::new(data, None), settings, 1).unwrap()
}

fn open(device: &TestDevice, settings: &Settings) -> Result<Database, StorageError> {
    device.forget_completions();
    let data = Box::new(DeviceVolume::open(Box::new(device.clone()))?);
    Ok(Database::open(Volumes::new(data, None), settings)?.0)
}

fn columns() -> Vec<Column> {
    vec![Column::new("id", ColumnType::Integer).not_null(), Column::new("data", ColumnType::Text)]
}

/// Tells rows of one table from those of another that lay in the same file.
fn text_of(table: &str, id: i64) -> String {
    format!("{id} of {table} {}", table.repeat(40))
}

fn put(write: &mut WriteTransaction<'_>, table: &str, id: i64) -> Result<(), StorageError> {
    let (id, text) = (Value::Integer(id), Value::Text(text_of(table, id)));
    let row = [id.as_ref(), text.as_ref()];
    match write.definition(table)?.kind {
        TableKind::Clustered { .. } => write.put(table, &row).map(drop),
        _ => write.insert(table, &row).map(drop),
    }
}

fn state_of(tables: &Tables) -> State {
    let mut state = State::new();
    let names: Vec<String> =
        tables.definitions().unwrap().map(|table| table.name.clone()).collect();
    for table in names {
        let mut ids = BTreeSet::new();
        let look = |_, row: crate::sqlite::RecordView<'_>| {
            let (ValueRef::Integer(id), ValueRef::Text(text)) = (row.get(0), row.get(1)) else {
                panic!("{table} has a row of another table");
            };
            assert_eq!(text, text_of(&table, id).as_bytes(), "a row of {table}");
            ids.insert(id);
            Flow::Continue(())
        };
        tables.scan(&table, look).unwrap();
        state.insert(table, ids);
    }
    state
}

fn file_of(tables: &Tables, table: &str) -> FileId {
    tables.definition(table).unwrap().file
}

/// Makes a table, fills it row by row or past the log, and lets others in.
#[derive(Clone, Copy)]
enum Making {
    Heap,
    Clustered,
    Loaded,
}

fn make(
    write: &mut WriteTransaction<'_>,
    table: &str,
    making: Making,
    ids: std::ops::Range<i64>,
) -> Result<(), StorageError> {
    let kind = match making {
        Making::Heap => TableKind::Heap,
        Making::Clustered | Making::Loaded => TableKind::Clustered { key: vec![0] },
    };
    if matches!(making, Making::Loaded) {
        let (name, indexes) = (table.to_owned(), Vec::new());
        let new = NewTable { name, columns: columns(), kind, indexes };
        let options = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
        let load = |load: &mut TableLoad<'_>| {
            ids.clone().try_for_each(|id| {
                let text = text_of(table, id);
                load.push(&[ValueRef::Integer(id), ValueRef::Text(text.as_bytes())])
            })
        };
        return write.load_table::<StorageError>(&new, &options, load).map(drop);
    }
    write.create_table(table, columns(), kind)?;
    if matches!(making, Making::Heap) {
        write.create_index(table, "by_id", &["id"])?;
    }
    ids.clone().try_for_each(|id| put(write, table, id))
}

/// Commits, and keeps in the trail what may be seen if that is cut.
fn commit(
    write: WriteTransaction<'_>,
    trail: &mut Trail,
    state: State,
) -> Result<(), StorageError> {
    trail.uncertain = Some(state.clone());
    write.commit()?;
    *trail = Trail { committed: state, uncertain: None };
    Ok(())
}

/// Tables come and go, so that each has the numbers of those before it.
fn small_run(database: &Database, trail: &mut Trail) -> Result<(), StorageError> {
    let makings = [Making::Heap, Making::Loaded, Making::Clustered];
    for round in 0..6_i64 {
        let table = format!("t{round}");
        let making = makings[nandu_base::to_index(round.unsigned_abs()) % 3];
        let mut state = trail.committed.clone();
        let mut write = database.write()?;
        make(&mut write, &table, making, 0..12)?;
        state.insert(table.clone(), (0..12).collect());
        commit(write, trail, state.clone())?;
        let mut write = database.write()?;
        (12..18).try_for_each(|id| put(&mut write, &table, id))?;
        state.insert(table.clone(), (0..18).collect());
        commit(write, trail, state.clone())?;
        // A table that is taken back leaves its numbers, too.
        let mut write = database.write()?;
        make(&mut write, "never", making, 0..5)?;
        write.rollback()?;
        if round == 3 {
            database.checkpoint()?;
        }
        let mut write = database.write()?;
        write.drop_table(&table)?;
        state.remove(&table);
        commit(write, trail, state)?;
    }
    Ok(())
}

/// The same beside others that write to a table that stays: one from before to after, some in between.
fn run_beside_writers(database: &Database, trail: &mut Trail) -> Result<(), StorageError> {
    let stays = "stays";
    let mut write = database.write()?;
    make(&mut write, stays, Making::Heap, 0..3)?;
    let state = State::from([(stays.to_owned(), (0..3).collect())]);
    commit(write, trail, state)?;
    let makings = [Making::Heap, Making::Loaded, Making::Clustered];
    for round in 0..6_i64 {
        let add = |write: &mut WriteTransaction<'_>, id: i64| put(write, stays, 10 * round + id);
        let with = |trail: &Trail, ids: &[i64]| {
            let mut state = trail.committed.clone();
            let rows = state.get_mut(stays).expect("it stays");
            rows.extend(ids.iter().map(|id| 10 * round + id));
            state
        };
        let (mut longest, mut in_vain) = (database.write()?, database.write()?);
        add(&mut longest, 4)?;
        add(&mut in_vain, 5)?;
        let mut changer = database.write()?;
        let (table, before) = (format!("t{round}"), format!("t{}", round - 1));
        make(&mut changer, &table, makings[nandu_base::to_index(round.unsigned_abs()) % 3], 0..9)?;
        let has_before = trail.committed.contains_key(&before);
        if has_before {
            changer.drop_table(&before)?;
        }
        let mut between = database.write()?;
        add(&mut between, 6)?;
        let state = with(trail, &[6]);
        commit(between, trail, state)?;
        if round == 2 {
            database.checkpoint()?;
        }
        in_vain.rollback()?;
        if round % 3 == 1 {
            changer.rollback()?;
        } else {
            let mut state = trail.committed.clone();
            state.remove(&before);
            state.insert(table, (0..9).collect());
            commit(changer, trail, state)?;
        }
        add(&mut longest, 7)?;
        let state = with(trail, &[4, 7]);
        commit(longest, trail, state)?;
    }
    Ok(())
}

#[test]
fn tables_come_and_go_without_using_numbers_up() {
    for settings in ways() {
        let device = device();
        let mut database = create(&device, &settings);
        let mut highest = FileId(0);
        for cycle in 0..150_i64 {
            let table = format!("t{cycle}");
            let mut write = database.write().unwrap();
            make(&mut write, &table, Making::Heap, 0..3).unwrap();
            write.commit().unwrap();
            highest = highest.max(file_of(&database.read(), &table));
            let mut write = database.write().unwrap();
            write.drop_table(&table).unwrap();
            write.commit().unwrap();
            if cycle % 50 == 49 {
                drop(database);
                database = open(&device, &settings).unwrap();
            }
        }
        assert!(highest.0 < 16, "{:?}: {highest:?} of 150 tables", settings.propagation.kind);
        assert!(state_of(&database.read()).is_empty());
    }
}

/// The power is cut at every third request: at every one it takes some seconds.
fn cut_step() -> u64 {
    std::env::var("NANDU_CUT_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn a_cut_at_every_request_leaves_no_table_with_rows_of_one_that_had_its_file_number() {
    cut_at_every_request(small_run);
}

#[test]
fn a_cut_at_every_request_of_one_that_changes_tables_leaves_what_others_committed() {
    cut_at_every_request(run_beside_writers);
}

fn cut_at_every_request(run: fn(&Database, &mut Trail) -> Result<(), StorageError>) {
    let step = cut_step();
    for settings in ways() {
        let kind = (settings.propagation.kind, settings.torn_pages);
        let (mut cut, mut is_over) = (0, false);
        while !is_over {
            cut += step;
            let (unflushed, torn_sector_count) =
                FATES[nandu_base::to_index(cut / step) % FATES.len()];
            let device = device();
            let database = create(&device, &settings);
            let base = device.lock().submitted_count();
            device.lock().set_plan(FaultPlan {
                power_cut_at_request: Some(base + cut),
                torn_sector_count,
                unflushed,
                seed: cut,
                ..FaultPlan::default()
            });
            let mut trail = Trail::default();
            let outcome = run(&database, &mut trail);
            is_over = device.lock().submitted_count() < base + cut;
            assert!(outcome.is_ok() || !is_over, "nothing else fails: {outcome:?}");
            drop(database);
            restore_power(&device);
            let context = format!("{kind:?}, cut at request {cut}");
            let database = open(&device, &settings)
                .unwrap_or_else(|error| panic!("{context}: it does not open: {error}"));
            let found = state_of(&database.read());
            let is_known = found == trail.committed || Some(&found) == trail.uncertain.as_ref();
            assert!(is_known, "{context}: {found:?}");
            assert_eq!(database.read().check().unwrap().findings, [""; 0], "{context}");
            // What comes next has the numbers of what the crash left, and is there after another one.
            let mut write = database.write().unwrap();
            make(&mut write, "next", Making::Heap, 0..5).unwrap();
            write.commit().unwrap();
            drop(database);
            let database = open(&device, &settings).unwrap();
            let expected = found.into_iter().chain([("next".to_owned(), (0..5).collect())]);
            assert_eq!(state_of(&database.read()), expected.collect(), "{context}, again");
        }
        assert!(cut > 100, "{kind:?}: {cut} requests");
    }
}

fn restore_power(device: &TestDevice) {
    device.lock().cut_power();
    device.forget_completions();
    let mut device = device.lock();
    device.set_plan(FaultPlan::default());
    device.power_on();
}

/// A log that was damaged may lose the commit that dropped a table, after its file went: what has the number
/// now is not taken for its rows, nor is a table without its file empty.
#[test]
fn a_table_is_not_what_lies_in_the_next_file_with_its_number() {
    for settings in &ways() {
        for made_again in [None, Some("gone.table"), Some("other.table")] {
            let device = device();
            let database = create(&device, settings);
            let mut write = database.write().unwrap();
            write.create_table("stays", columns(), TableKind::Heap).unwrap();
            write.create_table("gone", columns(), TableKind::Heap).unwrap();
            put(&mut write, "gone", 1).unwrap();
            write.commit().unwrap();
            database.close().unwrap();

            let data = Box::new(DeviceVolume::open(Box::new(device.clone())).unwrap());
            let (mut engine, _) = Engine::open(Volumes::new(data, None), settings).unwrap();
            let files = engine.files();
            let (file, _) = files.iter().find(|(_, name)| name.starts_with("gone.")).unwrap();
            engine.remove_file(*file).unwrap();
            if let Some(name) = made_again {
                // So that the log has grown since the first file was made, as by the commit that drops it.
                assert_eq!(engine.create_file(name).unwrap(), *file, "the number is free");
            }
            engine.close().unwrap();

            let error = open(&device, settings).unwrap_err().to_string();
            let state = if made_again.is_some() { "belongs to a later table" } else { "is gone" };
            assert!(error.contains("gone") && error.contains(state), "{error}");
        }
    }
}
