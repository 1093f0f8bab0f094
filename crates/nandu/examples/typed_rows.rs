//! Rows as types of the program: tuples and structs, put, found and iterated over.
//!
//! Run with: `cargo run -p nandu --example typed_rows`

use nandu::{Column, ColumnType, DatabaseOptions, RowRange, StorageError, TableKind, ValueRef};
use serde::{Deserialize, Serialize};

/// A row of the table `orders`: fields are columns by their names.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    customer: i64,
    number: u32,
    price: f64,
    note: Option<String>,
}

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), StorageError> {
    let place = tempfile::tempdir().expect("a scratch directory");
    let directory = place.path().join("shop");
    let database = nandu::create_database(&directory, &DatabaseOptions::default())?;

    let mut write = database.write()?;
    let columns = vec![
        Column::new("customer", ColumnType::Integer).not_null(),
        Column::new("number", ColumnType::Integer).not_null(),
        Column::new("price", ColumnType::Real),
        Column::new("note", ColumnType::Text),
    ];
    write.create_table("orders", columns, TableKind::Clustered { key: vec![0, 1] })?;
    for number in 1..=3 {
        let note = (number == 2).then(|| "urgent".to_owned());
        let order = Order { customer: 7, number, price: f64::from(number) * 9.5, note };
        write.put_as("orders", &order)?;
    }
    // A tuple is the columns in their order.
    write.put_as("orders", &(8, 1, 0.5, None::<&str>))?;
    write.commit()?;

    let snapshot = database.snapshot();
    let order: Option<Order> = snapshot.get_by_key_as("orders", &(7, 2))?;
    println!("one of them: {order:?}");

    // The last orders of customer 7 first: a bound may name the first columns of the key only.
    let customer = [ValueRef::Integer(7)];
    let range = RowRange::of("orders").within(&customer).backward();
    for order in snapshot.rows(range)?.typed() {
        let Order { number, price, .. } = order?;
        println!("order {number} for {price}");
    }

    // The iterator is the snapshot's, whatever is changed meanwhile, in whichever thread.
    let rows = snapshot.rows("orders")?.typed();
    let sum = std::thread::spawn(move || {
        rows.map(|row| row.map(|(_, _, price, _): (i64, i64, f64, Option<String>)| price)).sum()
    });
    let sum: Result<f64, StorageError> = sum.join().expect("it does not panic");
    println!("all together: {}", sum?);

    drop(snapshot);
    database.close()
}
