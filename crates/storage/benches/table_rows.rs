//! What a row with a key and two texts takes of the processor in a whole database over a device in
//! memory: put in transactions of a hundred that are durable, loaded past the log into a clustered
//! table and one by columns, got by its key, scanned, and read from the device through a small pool.
//! Processor time, the median of five rounds. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Rng, to_u32};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::StorageError;
use nandu_storage::database::{
    Column, ColumnType, Database, Flow, LoadOptions, NewTable, RowOrder, TableKind,
};
use nandu_storage::engine::{Settings, Volumes};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use std::time::Instant;

const NAMES: [&str; 6] = ["put", "loaded", "loaded by columns", "got", "scanned", "missed"];
const NAME: &str = "Supplier#000001762, with näme";
const COMMENT: &str = "carefully final requests wake along the slyly regular foxes, and then some \
                       deposits haggle quickly above the even, blithe packages";

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (count, rounds) = if measure { (200_000, 5) } else { (500, 1) };
    let mut times = NAMES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (all, time) in times.iter_mut().zip(run(count)) {
            all.push(time);
        }
    }
    for (name, times) in NAMES.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.0} ns a row", times[times.len() / 2]);
    }
}

/// Nanoseconds of a row for each of [`NAMES`].
fn run(count: i64) -> [f64; 6] {
    let large = database(256 << 20);
    let mut writer = large.write().expect("a new database");
    writer.create_table("put", columns(), TableKind::Clustered { key: vec![0] }).expect("room");
    writer.commit().expect("a device without faults");
    let put = time(count, || {
        for first in (0..count).step_by(100) {
            let mut writer = large.write().expect("a sound database");
            for key in first..(first + 100).min(count) {
                writer.put("put", &row(key)).expect("room");
            }
            writer.commit().expect("a device without faults");
        }
    });
    let loaded = time(count, || load(&large, "rows", TableKind::Clustered { key: vec![0] }, count));
    let by_columns = time(count, || load(&large, "pax", TableKind::Pax { span_pages: 8 }, count));
    let got = time(count, || get(&large, count, count));
    let scanned = time(count, || {
        let reader = large.read();
        let mut bytes = 0;
        let look = |_, record: nandu_storage::sqlite::RecordView<'_>| {
            if let ValueRef::Text(text) = record.get(2) {
                bytes += text.len();
            }
            Flow::Continue(())
        };
        reader.scan("rows", look).expect("a sound table");
        assert_eq!(bytes as i64, count * COMMENT.len() as i64);
    });
    let small = database(1 << 20);
    load(&small, "rows", TableKind::Clustered { key: vec![0] }, count);
    let missed = time(count / 4, || get(&small, count, count / 4));
    [put, loaded, by_columns, got, scanned, missed]
}

fn get(database: &Database, count: i64, wanted: i64) {
    let mut rng = Rng::new(1);
    let reader = database.read();
    for _ in 0..wanted {
        let key = rng.below(count.unsigned_abs()).cast_signed();
        let found = reader.get_by_key("rows", &[ValueRef::Integer(key)], |record| {
            record.get(0) == ValueRef::Null
        });
        assert!(found.expect("a sound table").is_some());
    }
}

fn load(database: &Database, name: &str, kind: TableKind, count: i64) {
    let table = NewTable { name: name.into(), columns: columns(), kind, indexes: Vec::new() };
    let options = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
    let mut writer = database.write().expect("a sound database");
    let loaded = writer.load_table::<StorageError>(&table, &options, |load| {
        (0..count).try_for_each(|key| load.push(&row(key)))
    });
    loaded.expect("room");
    writer.commit().expect("a device without faults");
}

fn database(pool_bytes: u64) -> Database {
    let geometry = Geometry { sector_bytes: 4096, sector_count: 50_000 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).expect("a sound geometry"));
    let settings = Settings { pool_bytes, ..Settings::default() };
    Database::create(Volumes::new(data, None), &settings, 1).expect("room")
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("id", ColumnType::Integer).not_null(),
        Column::new("name", ColumnType::Text),
        Column::new("comment", ColumnType::Text),
    ]
}

fn row(key: i64) -> [ValueRef<'static>; 3] {
    [ValueRef::Integer(key), ValueRef::Text(NAME.as_bytes()), ValueRef::Text(COMMENT.as_bytes())]
}

/// Nanoseconds of one of `count` rows: those that this thread ran, where the kernel tells them.
fn time(count: i64, work: impl FnOnce()) -> f64 {
    let ran = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let (wall, start) = (Instant::now(), ran());
    work();
    let wall_ns = wall.elapsed().as_nanos() as f64;
    let ran_ns = start.zip(ran()).map(|(start, end)| (end - start) as f64);
    ran_ns.unwrap_or(wall_ns) / f64::from(to_u32(count.unsigned_abs()))
}
