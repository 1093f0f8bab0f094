//! Stored tables for tests of operators: the same random rows in a heap with an index, and in a
//! clustered table, beside a plain copy.

use super::RowShape;
use crate::execution::{Execution, Limits};
use crate::relation::Rows;
use nandu_base::Rng;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::database::{Column, ColumnType, Database, TableKind, Tables};
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, Volumes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The columns of every table: the key, a second column of few values, a payload, and a number that
/// no other row has.
pub const COLUMNS: [&str; 4] = ["key", "second", "payload", "id"];
/// The name of the index by key, and of that by second column and key.
pub const INDEXES: [&str; 2] = ["by_key", "by_both"];

/// An empty database in memory, with a pool of 64 pages.
///
/// # Panics
/// If the page size is none that the engine takes.
#[must_use]
pub fn database(page_bytes: u32, propagation: PropagationKind) -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).expect("the device is empty"));
    let settings = Settings {
        page_bytes,
        pool_bytes: u64::from(page_bytes) * 64,
        log_bytes: 4 << 20,
        checkpoint_bytes: 256 << 10,
        propagation: propagation.into(),
        ..Settings::default()
    };
    Database::create(Volumes::new(data, None), &settings, 1).expect("it is empty")
}

/// Random rows whose key has a type.
#[must_use]
pub fn typed_rows(
    name: &str,
    shape: RowShape,
    key_type: ColumnType,
    page_bytes: usize,
    rng: &mut Rng,
) -> (Rows, Vec<Vec<Value>>) {
    let mut rows = Rows::new(name, page_bytes);
    let mut all = Vec::new();
    for id in 0..shape.row_count {
        let mut number = rng.below(shape.key_count.max(1));
        if shape.is_skewed && rng.below(2) == 0 {
            number = 0;
        }
        let small = nandu_base::to_u32(number);
        let key = match key_type {
            _ if rng.below(100) < shape.null_percent => Value::Null,
            ColumnType::Integer => Value::Integer(i64::from(small) - 3),
            // Every third is an integer, too.
            ColumnType::Real if number % 3 == 2 => Value::Real(f64::from(small) - 2.5),
            ColumnType::Real => Value::Real(f64::from(small) - 3.0),
            ColumnType::Text => Value::Text(format!("key {number}")),
            ColumnType::Blob => Value::Blob(vec![u8::try_from(number % 251).unwrap_or(0); 3]),
        };
        let second = Value::Integer(rng.below(3).cast_signed());
        let payload = vec![7; nandu_base::to_index(rng.below(shape.payload_bytes_max + 1))];
        let id = Value::Integer(i64::try_from(id).unwrap_or(0));
        let row = vec![key, second, Value::Blob(payload), id];
        rows.push(&row);
        all.push(row);
    }
    (rows, all)
}

/// Makes the table `name` of these rows, in their order: a heap with both indexes, or a tree by key
/// and number.
///
/// # Panics
/// If the rows do not fit.
pub fn store(
    database: &Database,
    name: &str,
    key_type: ColumnType,
    is_clustered: bool,
    rows: &[Vec<Value>],
) {
    let types = [key_type, ColumnType::Integer, ColumnType::Blob, ColumnType::Integer];
    let columns: Vec<Column> =
        COLUMNS.iter().zip(types).map(|(name, kind)| Column::new(name, kind)).collect();
    let kind = match is_clustered {
        true => TableKind::Clustered { key: vec![0, 3] },
        false => TableKind::Heap,
    };
    let mut writing = database.write().expect("nobody else writes");
    writing.create_table(name, columns, kind).expect("it is new");
    if !is_clustered {
        writing.create_index(name, INDEXES[0], &["key"]).expect("it is new");
        writing.create_index(name, INDEXES[1], &["second", "key"]).expect("it is new");
    }
    for row in rows {
        let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        writing.insert(name, &row).expect("the row has its types");
    }
    writing.commit().expect("the device is sound");
}

/// An execution on the volume of a database.
#[must_use]
pub fn execution_on(tables: &Tables, limits: Limits) -> Execution {
    let io = tables.engine().data_io();
    Execution::new(limits, io.clone(), io, None, Arc::new(AtomicBool::new(false)))
}
