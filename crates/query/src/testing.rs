//! For tests of operators: executions on a device in memory, random rows, and a join that anybody can
//! see is right.

pub mod tables;

use crate::execution::{Execution, Limits};
use crate::join::{Join, JoinStream, JoinType};
use crate::relation::{Relation, Rows};
use crate::tuple::Tuple;
use crate::{Key, QueryError};
use nandu_base::Rng;
use nandu_device::MemoryConfig;
use nandu_device::{Geometry, MemoryDevice};
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A pair as values: row number and record of each side.
pub type PlainPair = (Option<(i64, Vec<u8>)>, Option<(i64, Vec<u8>)>);

/// Limits of so many pages, without a write budget.
#[must_use]
pub fn limits(page_bytes: u32, memory_pages: u32) -> Limits {
    Limits {
        page_bytes,
        memory_pages,
        write_budget_bytes: None,
        reads_ahead: false,
        work_costs: None,
    }
}

/// A volume in memory of `capacity_bytes`.
///
/// # Panics
/// If it is too small for a volume.
#[must_use]
pub fn memory_io(capacity_bytes: u64) -> Io {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity_bytes / 512 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volume = DeviceVolume::format(Box::new(device)).expect("the device is empty");
    Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)))
}

/// An execution on a volume in memory.
#[must_use]
pub fn execution(limits: Limits) -> Execution {
    let io = memory_io(64 << 20);
    Execution::new(limits, io.clone(), io, None, Arc::new(AtomicBool::new(false)))
}

/// What random rows are like.
#[derive(Clone, Copy, Debug)]
pub struct RowShape {
    /// How many rows there are.
    pub row_count: usize,
    /// How many different keys there are.
    pub key_count: u64,
    /// Whether most rows have one key.
    pub is_skewed: bool,
    /// The part of the keys that is NULL, in percent.
    pub null_percent: u64,
    /// Bytes of the payload at most.
    pub payload_bytes_max: u64,
}

/// Rows of a key, now an integer, now a double or a text, and a payload.
#[must_use]
pub fn random_rows(name: &str, shape: RowShape, page_bytes: usize, rng: &mut Rng) -> Rows {
    let mut rows = Rows::new(name, page_bytes);
    for _ in 0..shape.row_count {
        let mut number = rng.below(shape.key_count.max(1));
        if shape.is_skewed && rng.below(2) == 0 {
            number = 0;
        }
        let key = match rng.below(100) {
            percent if percent < shape.null_percent => Value::Null,
            percent if percent % 7 == 0 => Value::Real(f64::from(nandu_base::to_u32(number))),
            _ if number % 5 == 4 => Value::Text(format!("key {number}")),
            _ => Value::Integer(number.cast_signed()),
        };
        let length = nandu_base::to_index(rng.below(shape.payload_bytes_max + 1));
        let payload = vec![u8::try_from(number % 251).unwrap_or(0); length];
        rows.push(&[key, Value::Blob(payload)]);
    }
    rows
}

/// What a join of `left` and `right` by their first columns gives: every row with every other, looked
/// at one by one. Sorted.
///
/// # Panics
/// If a row is no record.
#[must_use]
pub fn expected(left: &Rows, right: &Rows, key: &Key, join_type: JoinType) -> Vec<PlainPair> {
    let plain = |tuple: Tuple<'_>| Some((tuple.row_number, tuple.record.to_vec()));
    let matches = |one: Tuple<'_>, other: Tuple<'_>| {
        let (one, other) = (key.values(one).expect("sound"), key.values(other).expect("sound"));
        one.iter().zip(&other).all(|(a, b): (&ValueRef<'_>, &ValueRef<'_>)| {
            !a.is_null() && !b.is_null() && a.compare(b).is_eq()
        })
    };
    let mut pairs = Vec::new();
    let mut right_matched = vec![false; right.tuples().count()];
    for one in left.tuples() {
        let mut is_matched = false;
        for (index, other) in right.tuples().enumerate() {
            if matches(one, other) {
                is_matched = true;
                right_matched[index] = true;
                if !matches!(join_type, JoinType::Semi | JoinType::Anti) {
                    pairs.push((plain(one), plain(other)));
                }
            }
        }
        let alone = match join_type {
            JoinType::Left | JoinType::Full | JoinType::Anti => !is_matched,
            JoinType::Semi => is_matched,
            JoinType::Inner | JoinType::Right => false,
        };
        if alone {
            pairs.push((plain(one), None));
        }
    }
    if matches!(join_type, JoinType::Right | JoinType::Full) {
        for (other, is_matched) in right.tuples().zip(right_matched) {
            if !is_matched {
                pairs.push((None, plain(other)));
            }
        }
    }
    pairs.sort();
    pairs
}

/// All pairs of a stream, sorted.
///
/// # Errors
/// As the stream.
pub fn collect(stream: &mut dyn JoinStream) -> Result<Vec<PlainPair>, QueryError> {
    let plain = |tuple: Tuple<'_>| (tuple.row_number, tuple.record.to_vec());
    let mut pairs = Vec::new();
    while stream.advance()? {
        pairs.extend(
            stream.batch().tuples().map(|(left, right)| (left.map(plain), right.map(plain))),
        );
    }
    pairs.sort();
    Ok(pairs)
}

/// A join of two relations by one key.
#[must_use]
pub fn join<'r>(
    left: &'r dyn Relation,
    right: &'r dyn Relation,
    key: &'r Key,
    join_type: JoinType,
) -> Join<'r> {
    use crate::join::JoinInput;
    Join {
        left: JoinInput { relation: left, key },
        right: JoinInput { relation: right, key },
        join_type,
    }
}
