//! A heap table with a secondary index: rows are found by value, in two orders of fetching, and the
//! table's file is then one that `sqlite3` opens:
//!
//! `cargo run -p nandu --example index_scan -- /some/new/directory 20000`

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use nandu::{Column, ColumnType, Database, DatabaseOptions, FetchOrder, StorageError, TableKind};
use nandu::{Value, ValueRef};
use std::ops::Bound;
use std::path::PathBuf;

const TABLE: &str = "orders";
const INDEX: &str = "by_price";

fn fill(database: &Database, row_count: i64) -> Result<(), StorageError> {
    let columns = vec![
        Column::new("customer", ColumnType::Text).not_null(),
        Column::new("price", ColumnType::Integer).not_null(),
    ];
    let mut write = database.write()?;
    write.create_table(TABLE, columns, TableKind::Heap)?;
    write.create_index(TABLE, INDEX, &["price"])?;
    for number in 0..row_count {
        let customer = format!("customer {}", number % 97);
        let price = number * 7919 % 10_007;
        write.insert(TABLE, &[ValueRef::Text(customer.as_bytes()), ValueRef::Integer(price)])?;
    }
    write.commit()
}

/// Counts the rows with a price from 100 to 199 and adds the prices up.
fn total(database: &Database, order: FetchOrder) -> Result<(u64, i64), StorageError> {
    let (least, limit) = ([ValueRef::Integer(100)], [ValueRef::Integer(200)]);
    let bounds = (Bound::Included(&least[..]), Bound::Excluded(&limit[..]));
    let (mut count, mut sum) = (0, 0);
    database.read().index_rows(TABLE, INDEX, bounds, order, |_, row| {
        if let Value::Integer(price) = row.get(1).to_value() {
            (count, sum) = (count + 1, sum + price);
        }
    })?;
    Ok((count, sum))
}

fn main() -> Result<(), StorageError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(|| PathBuf::from("orders.nandu"), PathBuf::from);
    let row_count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut options = DatabaseOptions::default();
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (64 << 20, 8 << 20);
    let database = nandu::create_database(&directory, &options)?;
    fill(&database, row_count)?;
    // In the order of the index each row is fetched by itself; in that of addresses, in batches.
    for order in [FetchOrder::Key, FetchOrder::Address] {
        let (count, sum) = total(&database, order)?;
        println!("{order:?}: {count} rows, {sum} in all");
    }
    let report = database.read().check()?;
    println!("{} rows, {} index entries sound", report.row_count, report.index_entry_count);
    database.close()?;
    let path = directory.join(format!("{TABLE}.sqlite"));
    println!("now try: sqlite3 {} 'select * from {TABLE} limit 3'", path.display());
    Ok(())
}
