//! The engine under power cuts, with a tree on top and a map as its model.

mod exhaustive;
mod failures;
mod file_caches;
mod full_disk;
mod log_devices;
mod regressions;
mod restarts;

use super::*;
use crate::btree::{self, Tree};
use crate::log::Durability;
use crate::pool::ReplacementKind;
use crate::volume::DeviceVolume;
use nandu_base::{Rng, to_index};
use nandu_device::{
    FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, SharedDevice, UnflushedFate,
};
use std::collections::BTreeMap as Model;

type TestDevice = SharedDevice<FaultyDevice<MemoryDevice>>;
type Rows = Model<Vec<u8>, Vec<u8>>;

const TREE_FILE: &str = "rows.tree";

fn device() -> TestDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 16 << 11 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

fn settings(torn_pages: TornPages) -> Settings {
    Settings {
        page_bytes: 1024,
        pool_bytes: 32 << 10,
        log_bytes: 1 << 20,
        checkpoint_bytes: 24 << 10,
        replacement: ReplacementKind::default(),
        torn_pages,
        ..Settings::default()
    }
}

/// Pages in segments, where none is torn and the log needs no images.
fn log_structured() -> Settings {
    let propagation = crate::propagation::PropagationKind::LogStructured.into();
    Settings { propagation, ..settings(TornPages::LogImages) }
}

/// The same with base pages and differentials.
fn page_differential() -> Settings {
    let kind = crate::propagation::PropagationKind::PageDifferential;
    let propagation = crate::propagation::PropagationSettings::small(kind, 1024, 3);
    Settings { propagation, ..settings(TornPages::LogImages) }
}

fn volumes(device: &TestDevice, is_new: bool) -> Result<Volumes, StorageError> {
    let device = Box::new(device.clone());
    let data = if is_new { DeviceVolume::format(device)? } else { DeviceVolume::open(device)? };
    Ok(Volumes::new(Box::new(data), None))
}

fn create(device: &TestDevice, settings: &Settings) -> Engine {
    let mut engine = Engine::create(volumes(device, true).unwrap(), settings, 7).unwrap();
    let file = engine.create_file(TREE_FILE).unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
    engine
}

fn reopen(
    device: &TestDevice,
    settings: &Settings,
) -> Result<(Engine, RestartReport), StorageError> {
    Engine::open(volumes(device, false)?, settings)
}

fn tree_file(engine: &Engine) -> FileId {
    engine.files().into_iter().find(|(_, name)| name == TREE_FILE).unwrap().0
}

fn contents(engine: &Engine) -> Rows {
    let tree = Tree::at(tree_file(engine));
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut scan = tree.scan(everything, btree::Direction::Forward);
    let mut rows = Rows::new();
    while let Some((key, value)) = scan.next(engine).unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

fn put(engine: &mut Engine, key: &[u8], value: Option<&[u8]>) -> Result<(), StorageError> {
    let file = tree_file(engine);
    engine.act(|pages| {
        let mut undo = pages.begin_undo(StructureKind::Tree, file);
        let tree = Tree::at(file);
        match value {
            Some(value) => tree.upsert(pages, key, value, &mut undo)?,
            None => tree.delete(pages, key, &mut undo)?,
        };
        pages.set_undo(undo);
        Ok(())
    })
}

/// Inserts the keys that are not there yet of eight that lie beside each other, in runs.
fn put_run(engine: &mut Engine, first: u64, rows: &mut Rows) -> Result<(), StorageError> {
    let file = tree_file(engine);
    let record = |key: u64| (key.to_be_bytes()[5..].to_vec(), vec![7; to_index(key % 50)]);
    let records: Vec<(Vec<u8>, Vec<u8>)> = (first..first + 8).map(record).collect();
    let mut rest = records.as_slice();
    while !rest.is_empty() {
        let count = engine.act(|pages| {
            let mut undo = pages.begin_undo(StructureKind::Tree, file);
            let count = Tree::at(file).insert_run(pages, rest, &mut undo)?;
            pages.set_undo(undo);
            pages.set_undo_change_count(count as u64);
            Ok(count)
        })?;
        rows.extend(rest[..count].iter().cloned());
        // None were inserted where the first key is there already.
        rest = &rest[count.max(1)..];
    }
    Ok(())
}

/// Random transactions until one fails or `count` are done. `committed` is what a restart must show;
/// the answer is what it may show as well: the outcome of the commit that failed.
fn run(engine: &mut Engine, rng: &mut Rng, count: u32, committed: &mut Rows) -> Option<Rows> {
    for _ in 0..count {
        let mut rows = committed.clone();
        let Ok(()) = engine.begin() else { return None };
        let change_count = 1 + rng.below(12);
        let mut savepoint = None;
        for change in 0..change_count {
            if change == 4 {
                savepoint = Some((engine.savepoint(), rows.clone()));
            }
            let number = rng.below(300);
            let key = number.to_be_bytes()[5..].to_vec();
            if change % 4 == 3 {
                if put_run(engine, number, &mut rows).is_err() {
                    return None;
                }
                continue;
            }
            let fill = key[2];
            let value = vec![fill; to_index(rng.below(120))];
            let value = (rng.below(4) > 0).then_some(value);
            if put(engine, &key, value.as_deref()).is_err() {
                return None;
            }
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        if let Some((savepoint, before)) = savepoint
            && rng.below(3) == 0
        {
            if engine.rollback_to(savepoint).is_err() {
                return None;
            }
            rows = before;
        }
        if rng.below(5) == 0 {
            if engine.rollback().is_err() {
                return None;
            }
            continue;
        }
        match engine.commit() {
            Err(_) => return Some(rows),
            Ok(None) => {}
            Ok(Some(lsn)) => {
                let log = engine.log();
                if log.make_commit_durable(lsn, Durability::EveryCommit).is_err() {
                    return Some(rows);
                }
            }
        }
        *committed = rows;
    }
    None
}

fn cut_plan(at: u64, seed: u64) -> FaultPlan {
    let unflushed =
        [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn][(seed % 3) as usize];
    let torn_sector_count = Some((seed / 3 % 4) as u32);
    FaultPlan {
        power_cut_at_request: Some(at),
        torn_sector_count,
        unflushed,
        seed,
        ..FaultPlan::default()
    }
}

fn restore_power(device: &TestDevice) {
    device.lock().cut_power();
    device.forget_completions();
    let mut device = device.lock();
    device.set_plan(FaultPlan::default());
    device.power_on();
}

fn assert_state(engine: &Engine, committed: &Rows, uncertain: Option<&Rows>, context: &str) {
    engine.audit();
    let found = contents(engine);
    assert!(&found == committed || Some(&found) == uncertain, "{context}: rows differ");
    let report = btree::check(engine, tree_file(engine));
    assert!(report.findings.is_empty(), "{context}: {:?}", report.findings);
}

#[test]
fn what_was_committed_is_there_after_closing_and_after_a_crash() {
    for settings in [
        settings(TornPages::LogImages),
        settings(TornPages::DoubleWrite),
        settings(TornPages::Trust),
        log_structured(),
        page_differential(),
    ] {
        let device = device();
        let mut engine = create(&device, &settings);
        let (mut rng, mut committed) = (Rng::for_part(3, "engine"), Rows::new());
        assert_eq!(run(&mut engine, &mut rng, 200, &mut committed), None);
        assert_state(&engine, &committed, None, "before");
        engine.close().unwrap();
        let (mut engine, report) = reopen(&device, &settings).unwrap();
        assert!(report.was_closed && report.redone_count == 0);
        assert_state(&engine, &committed, None, "closed");
        assert_eq!(run(&mut engine, &mut rng, 100, &mut committed), None);
        // An active transaction is taken back.
        engine.begin().unwrap();
        put(&mut engine, b"never", Some(b"seen")).unwrap();
        engine.log().flush().unwrap();
        drop(engine);
        device.forget_completions();
        let (engine, report) = reopen(&device, &settings).unwrap();
        assert!(!report.was_closed);
        assert_eq!(report.loser_count, 1);
        assert_state(&engine, &committed, None, "crashed");
    }
}

#[test]
fn a_power_cut_at_any_request_loses_nothing_committed() {
    for settings in [
        settings(TornPages::LogImages),
        settings(TornPages::DoubleWrite),
        log_structured(),
        page_differential(),
    ] {
        let (torn_pages, propagation) = (settings.torn_pages, settings.propagation.kind);
        let mut cut = 1;
        loop {
            let device = device();
            let mut engine = create(&device, &settings);
            let base = device.lock().submitted_count();
            device.lock().set_plan(cut_plan(base + cut, cut));
            let (mut rng, mut committed) = (Rng::for_part(cut, "engine"), Rows::new());
            let uncertain = run(&mut engine, &mut rng, 60, &mut committed);
            let is_over = device.lock().submitted_count() < base + cut;
            drop(engine);
            restore_power(&device);
            // A second cut, in the middle of the restart.
            let base = device.lock().submitted_count();
            device.lock().set_plan(cut_plan(base + 1 + cut % 97, cut + 1));
            let again = reopen(&device, &settings);
            drop(again);
            restore_power(&device);
            let context = format!("{propagation:?}, {torn_pages:?}, cut at request {cut}");
            let (engine, _) = reopen(&device, &settings).unwrap();
            assert_state(&engine, &committed, uncertain.as_ref(), &context);
            if is_over {
                break;
            }
            cut += 7;
        }
    }
}
