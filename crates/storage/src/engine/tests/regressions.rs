//! Faults that the crash simulation has found once, each as the shortest story that shows it.

use super::*;
use crate::{ChangePages, PageOperation};
use nandu_base::to_index;

fn ways() -> [Settings; 4] {
    let [images, copies] = [TornPages::LogImages, TornPages::DoubleWrite].map(settings);
    [images, copies, log_structured(), page_differential()]
}

/// One transaction of rows `numbers`, durable in the log, not in place.
fn insert(engine: &mut Engine, numbers: std::ops::Range<u64>, rows: &mut Rows) {
    engine.begin().unwrap();
    for number in numbers {
        let (key, value) = (number.to_be_bytes().to_vec(), vec![7; 100]);
        put(engine, &key, Some(&value)).unwrap();
        rows.insert(key, value);
    }
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
}

fn crash(device: &TestDevice, engine: Engine) {
    drop(engine);
    restore_power(device);
}

#[test]
fn a_file_that_redo_made_longer_is_not_cut_when_it_is_given_room() {
    for torn_pages in [TornPages::LogImages, TornPages::DoubleWrite] {
        let roomy =
            Settings { checkpoint_bytes: 256 << 10, pool_bytes: 512 << 10, ..settings(torn_pages) };
        let device = device();
        let mut rows = Rows::new();
        let mut engine = create(&device, &roomy);
        insert(&mut engine, 0..600, &mut rows);
        crash(&device, engine);
        let (mut engine, report) = reopen(&device, &roomy).unwrap();
        assert!(report.redone_count >= 600);
        let file = tree_file(&engine);
        let noted = engine.file_bytes[&file];
        let byte_count = |engine: &Engine| engine.data_io.byte_count(file);
        let redone = byte_count(&engine);
        let page_bytes = u64::from(roomy.page_bytes);
        assert!(redone > noted + 20 * page_bytes, "redo wrote past {noted}, up to {redone}");
        let next = PageAddress::new(file, nandu_base::to_u32(noted / page_bytes) + 1);
        engine.make_room(next).unwrap();
        assert!(byte_count(&engine) >= redone, "the file was cut");
        engine.drop_cached_pages().unwrap();
        assert_state(&engine, &rows, None, "after it was given room");
    }
}

#[test]
fn what_log_and_copies_say_of_removed_files_does_not_hinder_opening() {
    for settings in ways() {
        let device = device();
        let mut rows = Rows::new();
        let mut engine = create(&device, &settings);
        insert(&mut engine, 0..20, &mut rows);
        let passing = engine.create_file("passing.tree").unwrap();
        engine.begin().unwrap();
        engine.act(|pages| Tree::create(pages, passing)).unwrap();
        for number in 0..30_u8 {
            let inserted = engine.act(|pages| {
                let mut undo = pages.begin_undo(StructureKind::Tree, passing);
                Tree::at(passing).insert(pages, &[number], &[number; 90], &mut undo)?;
                pages.set_undo(undo);
                Ok(())
            });
            inserted.unwrap();
            // Pages that were written before have copies, too.
            engine.pool.write_back(&WriteBack::default()).unwrap();
        }
        engine.log().flush().unwrap();
        // The end of its transaction is not durable: a restart meets both redo and undo of it.
        engine.remove_file(passing).unwrap();
        // What makes another file makes the removal durable.
        engine.create_file("other.tree").unwrap();
        crash(&device, engine);
        let (engine, report) = reopen(&device, &settings).unwrap();
        assert_eq!(report.loser_count, 1);
        assert_state(&engine, &rows, None, "a file is gone");
        let names: Vec<String> = engine.files().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, [TREE_FILE, "other.tree"]);
    }
}

#[test]
fn a_transaction_that_fills_the_log_is_rolled_back_in_the_room_it_kept() {
    for settings in ways() {
        let settings = Settings { log_bytes: 96 << 10, ..settings };
        let device = device();
        let mut rows = Rows::new();
        let mut engine = create(&device, &settings);
        insert(&mut engine, 0..50, &mut rows);
        engine.begin().unwrap();
        let mut number = 0_u64;
        let full = loop {
            let key = (number * 7919 % 400).to_be_bytes();
            match put(&mut engine, &key, Some(&[9; 60])) {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
            assert!(number < 100_000, "the log has an end");
        };
        assert!(matches!(full, StorageError::NoSpace { .. }), "{full}");
        engine.rollback().unwrap();
        assert_state(&engine, &rows, None, "rolled back");
        engine.checkpoint().unwrap();
        insert(&mut engine, 50..60, &mut rows);
        crash(&device, engine);
        let (engine, _) = reopen(&device, &settings).unwrap();
        assert_state(&engine, &rows, None, "opened again");
    }
}

#[test]
fn what_a_transaction_keeps_of_the_log_is_not_taken_by_those_that_end_beside_it() {
    for settings in ways() {
        let mut engine = create(&device(), &settings);
        let begin_with = |engine: &mut Engine, key: u64| {
            engine.begin().unwrap();
            put(engine, &key.to_be_bytes(), Some(&[5; 40])).unwrap();
            engine.audit();
        };
        begin_with(&mut engine, 1);
        let kept_bytes = engine.log().reserved_bytes();
        assert!(kept_bytes > 0);
        let parked = engine.park();
        for key in 2..200 {
            begin_with(&mut engine, key);
            match key % 2 {
                0 => drop(engine.commit().unwrap()),
                _ => engine.rollback().unwrap(),
            }
            engine.audit();
            assert_eq!(engine.log().reserved_bytes(), kept_bytes, "after {key}");
        }
        engine.resume(parked);
        engine.rollback().unwrap();
        assert_eq!(engine.log().reserved_bytes(), 0);
    }
}

#[test]
fn an_action_that_the_log_refuses_keeps_no_room_in_it() {
    for settings in ways() {
        let mut engine = create(&device(), &settings);
        let root = PageAddress::new(tree_file(&engine), 1);
        engine.begin().unwrap();
        put(&mut engine, b"key", Some(b"value")).unwrap();
        // As long as it is there, nobody gives back all that is kept.
        engine.park();
        engine.begin().unwrap();
        let free_bytes = engine.log().free_bytes();
        let bytes = [1; 900];
        let (code, second) = (PageOperation::BYTES, &[][..]);
        let operation = PageOperation { code, operand: 0, first: &bytes, second };
        let refused = engine.act(|pages| (0..400).try_for_each(|_| pages.change(root, operation)));
        assert!(matches!(refused, Err(StorageError::TooLarge { .. })), "{refused:?}");
        assert_eq!(engine.log().free_bytes(), free_bytes);
        engine.rollback().unwrap();
    }
}

#[test]
fn a_checkpoint_beside_others_counts_if_all_is_written_and_none_has_overtaken_it() {
    let (settings, device) = (settings(TornPages::DoubleWrite), device());
    let mut rows = Rows::new();
    let mut engine = create(&device, &settings);
    for numbers in [0..50, 50..60] {
        insert(&mut engine, numbers, &mut rows);
        engine.checkpoint().unwrap();
    }
    let sync = |engine: &Engine| {
        let (sync, found) = engine.plan_sync();
        sync.write().unwrap();
        engine.land_cleaning();
        found
    };
    let begun = engine.begin_checkpoint().unwrap().unwrap();
    let due = engine.pages_due(begun);
    assert!(!due.is_empty(), "pages are dirty since before the last one");
    let found = sync(&engine);
    assert!(engine.end_checkpoint(begun, &found).unwrap().is_none(), "they are not written");
    for part in due {
        engine.plan_writing(&part).unwrap().write().unwrap();
        engine.land_cleaning();
    }
    let found = sync(&engine);
    let ended = engine.end_checkpoint(begun, &found).unwrap().expect("now they are");
    engine.checkpoint().unwrap();
    let control = engine.log().control();
    assert!(!engine.complete_checkpoint(ended).unwrap(), "another was first");
    assert_eq!(engine.log().control(), control);
    let begun = engine.begin_checkpoint().unwrap().unwrap();
    let found = sync(&engine);
    engine.checkpoint().unwrap();
    assert!(engine.end_checkpoint(begun, &found).unwrap().is_none(), "another was first");
    crash(&device, engine);
    let (engine, _) = reopen(&device, &settings).unwrap();
    assert_state(&engine, &rows, None, "opened again");
}

#[test]
fn the_largest_rows_are_rolled_back_in_the_smallest_pool() {
    for settings in ways() {
        let device = device();
        let mut rows = Rows::new();
        let mut engine = create(&device, &settings);
        insert(&mut engine, 0..50, &mut rows);
        let row_bytes = to_index(engine.settings().row_bytes_max());
        engine.begin().unwrap();
        for (key, fill) in [(3_u64, 1), (3, 2), (200, 3), (201, 4), (3, 5)] {
            put(&mut engine, &key.to_be_bytes(), Some(&vec![fill; row_bytes])).unwrap();
        }
        put(&mut engine, &200_u64.to_be_bytes(), None).unwrap();
        engine.rollback().unwrap();
        assert_state(&engine, &rows, None, "rolled back");
        crash(&device, engine);
        let (engine, _) = reopen(&device, &settings).unwrap();
        assert_state(&engine, &rows, None, "opened again");
    }
}

#[test]
fn who_reads_needs_no_room() {
    // In place a page has its room. Here it goes to the device with few others, so that most cannot go.
    let mut settings = log_structured();
    settings.propagation.log_structured.write_bytes = 4 << 10;
    let device = device();
    let mut rows = Rows::new();
    let mut engine = create(&device, &settings);
    insert(&mut engine, 0..600, &mut rows);
    engine.checkpoint_fully().unwrap();
    engine.begin().unwrap();
    for key in rows.keys().step_by(30).cloned().collect::<Vec<_>>() {
        put(&mut engine, &key, Some(&[7; 30])).unwrap();
        rows.insert(key, vec![7; 30]);
    }
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
    assert!(!engine.pool().dirty_pages().is_empty(), "some wait to be written");
    let full_from_request = Some(device.lock().submitted_count() + 1);
    device.lock().set_plan(FaultPlan { full_from_request, ..FaultPlan::default() });
    let misses_before = engine.pool_counters().miss_count;
    assert_state(&engine, &rows, None, "full");
    assert!(engine.pool_counters().miss_count > misses_before + 32, "more than the pool holds");
}

#[test]
fn a_full_device_fails_the_change_and_leaves_the_database_intact() {
    for settings in ways() {
        let geometry = Geometry { sector_bytes: 512, sector_count: 14 << 11 };
        let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let device = SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()));
        let mut rows = Rows::new();
        let mut engine = create(&device, &settings);
        insert(&mut engine, 0..100, &mut rows);
        let mut number = 1000_u64;
        let full = 'full: loop {
            engine.begin().unwrap();
            let mut added = Rows::new();
            for _ in 0..20 {
                let (key, value) = (number.to_be_bytes().to_vec(), vec![8; 200]);
                match put(&mut engine, &key, Some(&value)) {
                    Ok(()) => drop(added.insert(key, value)),
                    Err(error) => break 'full error,
                }
                number += 1;
            }
            let commit = engine.commit().unwrap().unwrap();
            engine.log().make_durable(commit).unwrap();
            rows.append(&mut added);
            assert!(number < 100_000, "the device has an end");
        };
        assert!(matches!(full, StorageError::NoSpace { .. }), "{full}");
        engine.rollback().unwrap();
        assert_state(&engine, &rows, None, "full");
        crash(&device, engine);
        let (mut engine, _) = reopen(&device, &settings).unwrap();
        assert_state(&engine, &rows, None, "opened while it is full");
        // Deleting makes room in pages that are there, however often they were written since.
        for round in 0..3 {
            engine.begin().unwrap();
            for key in rows.keys().step_by(2).take(200).cloned().collect::<Vec<_>>() {
                put(&mut engine, &key, None).unwrap();
                rows.remove(&key);
            }
            let commit = engine.commit().unwrap().unwrap();
            engine.log().make_durable(commit).unwrap();
            engine.checkpoint_fully().unwrap();
            insert(&mut engine, 60 * round..60 * (round + 1), &mut rows);
            assert_state(&engine, &rows, None, "with room again");
        }
        // Nor does it matter how often rows change that become no longer, nor that there is no room at all.
        let mut keys: Vec<Vec<u8>> = rows.keys().cloned().collect();
        for fill in 20..23 {
            keys.reverse();
            for (index, key) in keys.iter().step_by(5).enumerate() {
                engine.begin().unwrap();
                let value = vec![fill; rows[key].len()];
                put(&mut engine, key, Some(&value)).unwrap();
                let commit = engine.commit().unwrap().unwrap();
                engine.log().make_durable(commit).unwrap();
                rows.insert(key.clone(), value);
                if index % 20 == 0 {
                    engine.close().unwrap();
                    engine = reopen(&device, &settings).unwrap().0;
                }
            }
            assert_state(&engine, &rows, None, "written anew");
        }
        crash(&device, engine);
        let (engine, _) = reopen(&device, &settings).unwrap();
        assert_state(&engine, &rows, None, "opened again");
    }
}
