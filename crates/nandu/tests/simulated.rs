//! Databases over simulated drives: the same run gives the same times and rows, and mistakes are told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "simulated")]

use nandu::simulated::{SimulatedDatabase, SimulatedDrive};
use nandu::{Column, ColumnType, PropagationKind, Settings, StorageError, TableKind, Value};
use nandu_base::{ByteCount, Nanos};

/// How long a thousand durable inserts take on a drive, and what was asked of it.
fn inserts(name: &str) -> (Nanos, u64) {
    let size = Some(ByteCount::mib(256));
    let drive = SimulatedDrive { name, size, seed: 3 };
    let settings =
        Settings { log_bytes: 8 << 20, checkpoint_bytes: 2 << 20, ..Settings::default() };
    let simulated = SimulatedDatabase::create(&drive, &settings).unwrap();
    let database = simulated.database();
    let mut write = database.write().unwrap();
    let columns = vec![Column::new("id", ColumnType::Integer)];
    write.create_table("things", columns, TableKind::Heap).unwrap();
    write.commit().unwrap();
    let before = simulated.now();
    for id in 0..1000 {
        let mut write = database.write().unwrap();
        write.insert("things", &[Value::from(id).as_ref()]).unwrap();
        write.commit().unwrap();
    }
    let took = simulated.now().saturating_sub(before);
    assert_eq!(database.read().stat().unwrap()[0].row_count, 1000);
    (took, simulated.counters().writes.byte_count)
}

#[test]
fn the_same_run_takes_the_same_time_and_another_drive_another() {
    let flash = inserts("nvme-tlc-2024");
    assert_eq!(flash, inserts("nvme-tlc-2024"));
    let card = inserts("kingston-cf-1g");
    assert!(card.0 > flash.0, "{} on the card, {} on the drive", card.0, flash.0);
}

#[test]
fn a_drive_that_is_not_there_or_too_small_is_told() {
    let create = |name, size| {
        let drive = SimulatedDrive { name, size, seed: 1 };
        SimulatedDatabase::create(&drive, &Settings::default()).map(drop).unwrap_err()
    };
    let told = create("nvme-tlc-2042", None);
    assert!(matches!(told, StorageError::InvalidSetting { .. }), "{told}");
    assert!(told.to_string().contains("nvme-tlc-2042"), "{told}");
    let told = create("nvme-tlc-2024", Some(ByteCount::kib(5)));
    assert!(matches!(told, StorageError::InvalidSetting { .. }), "{told}");
}

#[test]
fn pages_lie_on_chips_where_the_propagation_has_them_there() {
    let settings = |kind: PropagationKind| Settings {
        propagation: kind.into(),
        log_bytes: 8 << 20,
        checkpoint_bytes: 2 << 20,
        pool_bytes: 256 << 10,
        ..Settings::default()
    };
    let kind = PropagationKind::PageDifferentialChips;
    let size = Some(ByteCount::mib(64));
    let drive = SimulatedDrive { name: "device-a", size, seed: 3 };
    let simulated = SimulatedDatabase::create(&drive, &settings(kind)).unwrap();
    let database = simulated.database();
    let mut write = database.write().unwrap();
    let columns = vec![Column::new("id", ColumnType::Integer)];
    write.create_table("things", columns, TableKind::Heap).unwrap();
    write.commit().unwrap();
    // In parts, which fit the log.
    for part in 0..20 {
        let mut write = database.write().unwrap();
        for id in part * 5000..(part + 1) * 5000 {
            write.insert("things", &[Value::from(id).as_ref()]).unwrap();
        }
        write.commit().unwrap();
    }
    database.checkpoint().unwrap();
    database.drop_cached_pages().unwrap();
    assert!(database.read().check().unwrap().findings.is_empty());
    let flash = database.read().engine().device_counters().0.flash.unwrap();
    let own = simulated.counters().flash.unwrap();
    let on_chips = flash.commands.programmed_pages() - own.commands.programmed_pages();
    assert!(on_chips > 200, "{on_chips} flash pages of 100,000 rows");
    // A disk has none.
    let drive = SimulatedDrive { name: "wd2000jb", size, seed: 3 };
    let told = SimulatedDatabase::create(&drive, &settings(kind)).map(drop).unwrap_err();
    assert!(told.to_string().contains("sim:wd2000jb has no flash chips of its own"), "{told}");
}
