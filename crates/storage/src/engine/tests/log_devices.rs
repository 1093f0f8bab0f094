//! A log on a device of its own, a memory that is written by lines: one that vanishes, is too small, or is
//! that of another database.

use super::*;
use crate::log::LogWritingKind;
use nandu_device::Device;

const LOG_DEVICE_BYTES: u64 = 4 << 20;

fn memory_of(byte_count: u64) -> TestDevice {
    let geometry = Geometry { sector_bytes: 64, sector_count: byte_count / 64 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

fn direct() -> Settings {
    Settings { log_writing: LogWritingKind::Direct, ..settings(TornPages::DoubleWrite) }
}

fn volumes_of(data: &TestDevice, log: Option<&TestDevice>) -> Result<Volumes, StorageError> {
    let open = |device: &TestDevice| -> Result<Box<dyn crate::Volume>, StorageError> {
        Ok(Box::new(DeviceVolume::open(Box::new(device.clone()))?))
    };
    Ok(Volumes::new(open(data)?, log.map(open).transpose()?))
}

fn format(device: &TestDevice) {
    drop(DeviceVolume::format(Box::new(device.clone())).unwrap());
}

/// A database whose log lies on a memory, after a crash; with what was committed.
fn crashed(identity: u64) -> (TestDevice, TestDevice, Rows) {
    let (data, log) = (device(), memory_of(LOG_DEVICE_BYTES));
    format(&data);
    format(&log);
    let volumes = volumes_of(&data, Some(&log)).unwrap();
    let mut engine = Engine::create(volumes, &direct(), identity).unwrap();
    let mut committed = Rows::new();
    fill_tree(&mut engine);
    run(&mut engine, &mut Rng::for_part(identity, "log devices"), 40, &mut committed);
    drop(engine);
    restore_power(&data);
    restore_power(&log);
    (data, log, committed)
}

fn fill_tree(engine: &mut Engine) {
    let file = engine.create_file(TREE_FILE).unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
}

fn written(device: &TestDevice) -> u64 {
    device.lock().counters().writes.request_count
}

fn refusal(data: &TestDevice, log: Option<&TestDevice>) -> String {
    match Engine::open(volumes_of(data, log).unwrap(), &direct()) {
        Ok(_) => panic!("it is opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_log_of_another_database_or_none_is_refused_and_nothing_is_changed() {
    let (data, log, committed) = crashed(7);
    let (others_data, others_log, others) = crashed(8);
    let empty = memory_of(LOG_DEVICE_BYTES);
    format(&empty);
    let (plain, settings) = (device(), settings(TornPages::DoubleWrite));
    create(&plain, &settings).close().unwrap();
    let devices = [&data, &log, &others_data, &others_log, &empty, &plain];
    let before = devices.map(written);
    let said = refusal(&data, Some(&others_log));
    assert!(said.contains("belongs to another database; name the device of the log"), "{said}");
    let said = refusal(&data, Some(&empty));
    assert!(said.contains("has no log; name the device of the log"), "{said}");
    let said = refusal(&data, None);
    assert!(said.contains("lies on a device of its own; name that, too"), "{said}");
    let said = refusal(&plain, Some(&log));
    assert!(said.contains("lies there, not on") && said.contains("leave that out"), "{said}");
    assert_eq!(devices.map(written), before, "nothing was written anywhere");
    for (data, log, committed) in [(&data, &log, committed), (&others_data, &others_log, others)] {
        let (engine, _) = Engine::open(volumes_of(data, Some(log)).unwrap(), &direct()).unwrap();
        assert_state(&engine, &committed, None, "with its own log");
    }
    reopen(&plain, &settings).unwrap();
}

#[test]
fn a_log_device_that_is_too_small_makes_no_database() {
    let (data, small) = (device(), memory_of(600 << 10));
    format(&data);
    format(&small);
    let create =
        |log: &TestDevice| Engine::create(volumes_of(&data, Some(log)).unwrap(), &direct(), 7);
    let error = create(&small).err().unwrap();
    let said = error.to_string();
    assert!(matches!(error, StorageError::NoSpace { .. }), "{said}");
    assert!(said.contains("log"), "{said}");
    let error = Engine::open(volumes_of(&data, Some(&small)).unwrap(), &direct()).err().unwrap();
    assert!(matches!(error, StorageError::NotADatabase { .. }), "{error}");
    let large = memory_of(LOG_DEVICE_BYTES);
    format(&large);
    create(&large).unwrap().close().unwrap();
}

#[test]
fn a_log_device_that_vanishes_at_any_request_loses_nothing_that_was_promised() {
    for cut in (1..400).step_by(9) {
        let (data, log) = (device(), memory_of(LOG_DEVICE_BYTES));
        format(&data);
        format(&log);
        let volumes = volumes_of(&data, Some(&log)).unwrap();
        let mut engine = Engine::create(volumes, &direct(), 7).unwrap();
        fill_tree(&mut engine);
        let base = log.lock().submitted_count();
        log.lock().set_plan(cut_plan(base + cut, cut));
        let (mut rng, mut committed) = (Rng::for_part(cut, "log devices"), Rows::new());
        let uncertain = run(&mut engine, &mut rng, 200, &mut committed);
        assert!(log.lock().submitted_count() >= base + cut, "it vanished");
        // What is asked afterwards is refused, and told as the log's.
        let error = put_alone(&mut engine).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, StorageError::Poisoned { .. }), "cut {cut}: {said}");
        drop(engine);
        data.forget_completions();
        restore_power(&log);
        let volumes = volumes_of(&data, Some(&log)).unwrap();
        let (engine, _) = Engine::open(volumes, &direct()).unwrap();
        assert_state(&engine, &committed, uncertain.as_ref(), &format!("cut {cut}"));
    }
}

fn put_alone(engine: &mut Engine) -> Result<(), StorageError> {
    engine.begin()?;
    put(engine, b"later", Some(b"refused"))?;
    let commit = engine.commit()?.expect("it changed something");
    engine.log().make_durable(commit)
}

#[test]
fn a_large_transaction_of_small_changes_is_taken_back_in_a_log_of_lines() {
    let (data, log) = (device(), memory_of(LOG_DEVICE_BYTES));
    format(&data);
    format(&log);
    let volumes = volumes_of(&data, Some(&log)).unwrap();
    let mut engine = Engine::create(volumes, &direct(), 7).unwrap();
    fill_tree(&mut engine);
    engine.begin().unwrap();
    // As much as there is room for: what is kept for taking it back has to be enough.
    let full = (0_u64..).find_map(|key| put(&mut engine, &key.to_be_bytes(), Some(b"v")).err());
    assert!(matches!(full, Some(StorageError::NoSpace { .. })), "{full:?}");
    engine.rollback().unwrap();
    assert_state(&engine, &Rows::new(), None, "taken back");
    engine.close().unwrap();
    let volumes = volumes_of(&data, Some(&log)).unwrap();
    // Whoever opens it may have records collected, and directly again the next time.
    let (engine, _) = Engine::open(volumes, &settings(TornPages::DoubleWrite)).unwrap();
    assert_state(&engine, &Rows::new(), None, "buffered");
}
