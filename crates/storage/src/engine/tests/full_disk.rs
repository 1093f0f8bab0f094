//! Somebody else takes what room there is, while pages get their places when they are written.

use super::*;
use crate::propagation::{LogStructuredSettings, PropagationConfig};

const ROW_COUNT: u64 = 20_000;

/// Bytes of random content, and as many as there are elsewhere unless the length is one of its own.
fn value_of(version: u64, has_own_length: bool) -> Vec<u8> {
    let mut rng = Rng::new(version);
    let length = if has_own_length { 50 + rng.below(200) } else { 150 };
    let mut value = vec![0; to_index(length)];
    rng.fill(&mut value);
    value
}

/// One transaction that gives one row a value; false where there was no room.
fn change(engine: &mut Engine, number: u64, value: Vec<u8>, rows: &mut Rows) -> bool {
    let key = number.to_be_bytes().to_vec();
    engine.begin().unwrap();
    match put(engine, &key, Some(&value)) {
        Ok(()) => {
            let commit = engine.commit().unwrap().unwrap();
            engine.log().make_durable(commit).unwrap();
            rows.insert(key, value);
            true
        }
        Err(StorageError::NoSpace { what }) => {
            assert!(!what.contains("the transaction does not fit"), "no small one is told: {what}");
            engine.rollback().unwrap();
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_last_room_of_a_disk_is_taken_in_few_steps_and_all_of_it() {
    for torn_pages in [TornPages::DoubleWrite, TornPages::Trust] {
        let (device, mut rows) = (device(), Rows::new());
        let mut engine = create(&device, &settings(torn_pages));
        let file = tree_file(&engine);
        let mut lengths = std::collections::BTreeSet::new();
        let mut number = 0;
        while change(&mut engine, number, value_of(number, false), &mut rows) {
            lengths.insert(engine.data_io.byte_count(file));
            number += 1;
        }
        let longest = *lengths.last().unwrap();
        let step_count = lengths.range(longest / 8 * 7..).count();
        assert!(step_count < 40, "{step_count} steps up to {longest}");
        let free_bytes = engine.data_io.free_bytes().unwrap();
        assert!(free_bytes < 8192, "{free_bytes} bytes are left");
        assert_state(&engine, &rows, None, "full");
    }
}

/// A file that leaves nothing to others.
fn take_all_room(engine: &Engine) -> FileId {
    let ballast = engine.data_io.create("ballast").unwrap();
    let mut bytes = 0;
    let mut step = 16 << 20;
    while step >= 4096 {
        match engine.data_io.set_byte_count(ballast, bytes + step) {
            Ok(()) => bytes += step,
            Err(StorageError::NoSpace { .. }) => step /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    ballast
}

/// Makes the map's files as short as those of databases are that left no room for a map of more.
fn shorten_maps(engine: &Engine) {
    for (file, name) in engine.data_io.files() {
        if name.starts_with("page-map") {
            let bytes = engine.data_io.byte_count(file) / 8;
            engine.data_io.set_byte_count(file, bytes.next_multiple_of(4096)).unwrap();
            engine.data_io.sync(file).unwrap();
        }
    }
}

#[test]
fn a_database_can_be_opened_and_read_whose_room_others_took() {
    for seed in 0..8_u64 {
        let mut rng = Rng::new(seed);
        let settings = Settings {
            pool_bytes: [64 << 10, 256 << 10][to_index(seed % 2)],
            log_bytes: 4 << 20,
            checkpoint_bytes: [48 << 10, 1 << 20][to_index(seed / 2 % 2)],
            propagation: PropagationConfig::LogStructured(LogStructuredSettings {
                page_bytes: 1024,
                segment_bytes: 64 << 10,
                write_bytes: 16 << 10,
                ..Default::default()
            })
            .into(),
            ..log_structured()
        };
        let (device, mut rows) = (device(), Rows::new());
        let mut engine = create(&device, &settings);
        for number in 0..ROW_COUNT {
            assert!(
                change(&mut engine, number, value_of(number, false), &mut rows),
                "there is room"
            );
        }
        engine.close().unwrap();
        let (mut engine, _) = reopen(&device, &settings).unwrap();
        let has_short_maps = seed >= 4;
        if has_short_maps {
            shorten_maps(&engine);
        }
        let ballast = take_all_room(&engine);
        let (mut changed_count, mut refused_count) = (0, 0);
        for version in 0..6000 {
            let number = rng.below(ROW_COUNT);
            let value = value_of(ROW_COUNT + version, seed >= 6);
            let is_changed = change(&mut engine, number, value, &mut rows);
            changed_count += u64::from(is_changed);
            refused_count += u64::from(!is_changed);
            if refused_count > 200 {
                break;
            }
        }
        let what = format!("seed {seed}: {changed_count} changed, {refused_count} refused");
        assert!(changed_count > 100, "{what}");
        assert_state(&engine, &rows, None, &what);
        drop(engine);
        restore_power(&device);
        let smaller = Settings { pool_bytes: settings.pool_bytes / 2, ..settings.clone() };
        let (first, second) =
            if has_short_maps { (&settings, &settings) } else { (&settings, &smaller) };
        for settings in [first, second, first] {
            let (engine, _) =
                reopen(&device, settings).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_state(&engine, &rows, None, &what);
            drop(engine);
            restore_power(&device);
        }
        let (mut engine, _) = reopen(&device, &settings).unwrap();
        engine.data_io.remove(ballast).unwrap();
        for version in 0..500 {
            let number = rng.below(ROW_COUNT);
            let value = value_of(version, true);
            assert!(change(&mut engine, number, value, &mut rows), "{what}: room again");
        }
        assert_state(&engine, &rows, None, &what);
    }
}
