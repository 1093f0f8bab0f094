//! Rows of the tables, copied out of them to be looked at and changed.

use super::CustomerChoice;
use crate::error::BenchError;
use nandu_load::TpccTable;
use nandu_load::tpcc::last_name;
use nandu_load::tpcc::schema::customer_by_name;
use nandu_storage::StorageError;
use nandu_storage::database::{Row, RowRange, Tables, WriteTransaction};
use nandu_storage::sqlite::{RecordView, Value, ValueRef};

/// A row, copied.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    bytes: Vec<u8>,
}

impl Fetched {
    pub(super) fn of(row: RecordView<'_>) -> Self {
        Self { bytes: row.bytes().to_vec() }
    }

    fn view(&self) -> RecordView<'_> {
        RecordView::new(&self.bytes).expect("it is a copy of a record")
    }

    /// The number in a column; 0 where there is none.
    pub(super) fn integer(&self, column: usize) -> i64 {
        integer_of(self.view().get(column)).unwrap_or(0)
    }

    /// The text in a column.
    pub(super) fn text(&self, column: usize) -> String {
        String::from_utf8_lossy(self.bytes_of(column)).into_owned()
    }

    /// Texts that stand side by side.
    pub(super) fn texts<const N: usize>(&self, first: usize) -> [String; N] {
        std::array::from_fn(|place| self.text(first + place))
    }

    /// The bytes of the text in a column.
    pub(super) fn bytes_of(&self, column: usize) -> &[u8] {
        match self.view().get(column) {
            ValueRef::Text(text) => text,
            _ => &[],
        }
    }

    /// Whether the text in a column has `ORIGINAL` in it.
    pub(super) fn is_original(&self, column: usize) -> bool {
        self.bytes_of(column).windows(8).any(|part| part == b"ORIGINAL")
    }

    /// All values, for a row that is to take its place.
    pub(super) fn values(&self) -> Vec<ValueRef<'_>> {
        self.view().columns().collect()
    }
}

/// A number, where a value is one.
pub(super) const fn integer_of(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

/// The row with a key.
pub(super) fn fetch<const N: usize>(
    tables: &Tables,
    table: TpccTable,
    key: [i64; N],
) -> Result<Fetched, BenchError> {
    let found = tables.get_by_key(table.name(), &key.map(ValueRef::Integer), Fetched::of)?;
    found.ok_or_else(|| missing(table, &format!("{key:?}")))
}

/// The row with a key, which is going to be changed.
pub(super) fn fetch_to_change<const N: usize>(
    write: &mut WriteTransaction<'_>,
    table: TpccTable,
    key: [i64; N],
) -> Result<Fetched, BenchError> {
    write.claim_by_key(table.name(), &key.map(ValueRef::Integer))?;
    fetch(write, table, key)
}

/// The rows with some keys, all on their way at once; `None` for a key that no row has.
pub(super) fn fetch_all<const N: usize>(
    tables: &Tables,
    table: TpccTable,
    keys: &[[i64; N]],
) -> Result<Vec<Option<Fetched>>, BenchError> {
    let rows: Vec<Row> = keys.iter().map(|key| key.map(Value::Integer).to_vec()).collect();
    let mut found = vec![None; keys.len()];
    tables.get_batch_by_key(table.name(), &rows, |place, row| {
        found[place] = Some(Fetched::of(row));
    })?;
    Ok(found)
}

/// What is told where the tables are not those of TPC-C.
pub(super) fn missing(table: TpccTable, key: &str) -> BenchError {
    let what =
        format!("a row of table {} with the key {key}; did nandu load these tables?", table.name());
    StorageError::NotFound { what }.into()
}

/// The number of a customer of a district. Of those with a last name it is the one in the middle by first name,
/// rounded up (clause 2.5.2.2).
pub(super) fn find_customer(
    tables: &Tables,
    (warehouse, district): (i64, i64),
    choice: CustomerChoice,
) -> Result<i64, BenchError> {
    let name = match choice {
        CustomerChoice::Number(number) => return Ok(number),
        CustomerChoice::LastName(number) => last_name(number),
    };
    let table = TpccTable::CustomerByName;
    let key = [
        ValueRef::Integer(warehouse),
        ValueRef::Integer(district),
        ValueRef::Text(name.as_bytes()),
    ];
    let range = RowRange::of(table.name()).within(&key).with_ahead_count(0);
    let mut rows = tables.rows(range)?;
    let mut numbers = Vec::new();
    while let Some((_, row)) = rows.next_row()? {
        numbers.extend(integer_of(row.get(customer_by_name::CN_C_ID)));
    }
    let middle = numbers.len().saturating_sub(1) / 2;
    numbers.get(middle).copied().ok_or_else(|| missing(table, &name))
}
