//! Whole loads into databases in directories: judged by SQLite, repeated, stopped in the middle.

use nandu::{Database, DatabaseOptions, TableKind, Value, ValueRef, create_database};
use nandu_load::{
    CsvOptions, CsvRows, Dataset, IndexOn, KeyOrder, Layout, LayoutKind, LoadError, LoadJob,
    LoadObserver, RowWidth, TpchComments, TpchTable, load_tables,
};
use nandu_storage::database::{Flow, LoadOptions, NewTable};
use std::ops::Bound;
use std::path::Path;

const CUSTOMER_AND_ORDERS: [TpchTable; 2] = [TpchTable::Customer, TpchTable::Orders];

fn create(directory: &Path) -> Database {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 2 << 20;
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
    create_database(directory, &options).expect("a new directory takes a database")
}

fn dataset(width: RowWidth, order: KeyOrder) -> Dataset {
    Dataset { order, comments: TpchComments::Short, ..Dataset::new(width, 0.01) }
}

fn index(table: &str, column: &str) -> IndexOn {
    IndexOn { table: table.to_owned(), column: column.to_owned() }
}

#[test]
fn sqlite_finds_a_loaded_heap_sound_and_counts_what_tpch_has() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("db");
    let database = create(&directory);
    let layout = Layout { kind: LayoutKind::Heap, indexes: vec![index("orders", "o_custkey")] };
    let dataset = dataset(RowWidth::Tpch, KeyOrder::Random);
    let mut jobs = dataset.jobs(&CUSTOMER_AND_ORDERS, &layout, &LoadOptions::default()).unwrap();
    let reports = load_tables(&database, &mut jobs, &mut ()).unwrap();
    assert_eq!((reports[0].row_count, reports[1].row_count), (1500, 15_000));
    assert_eq!((reports[0].index_entry_count, reports[1].index_entry_count), (0, 15_000));
    let check = database.read().check().unwrap();
    assert_eq!(
        (check.findings.len(), check.row_count, check.index_entry_count),
        (0, 16_500, 15_000)
    );
    // Both ways to the orders of one customer.
    let key = [ValueRef::Integer(370)];
    let bounds = (Bound::Included(&key[..]), Bound::Included(&key[..]));
    let mut by_index = Vec::new();
    let read = database.read();
    read.index_rows("orders", "o_custkey", bounds, Default::default(), |_, row| {
        by_index.push(row.get(0).to_value());
    })
    .unwrap();
    let mut by_scan = Vec::new();
    read.scan("orders", |_, row| {
        if row.get(1) == ValueRef::Integer(370) {
            by_scan.push(row.get(0).to_value());
        }
        Flow::Continue(())
    })
    .unwrap();
    assert!(!by_scan.is_empty());
    assert_eq!(by_index, by_scan);
    drop(read);
    database.close().unwrap();
    let file = directory.join("orders.sqlite");
    let sqlite = rusqlite::Connection::open(file).unwrap();
    let verdict: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let sums = "SELECT count(*), sum(o_custkey), round(sum(o_totalprice), 2) FROM orders";
    let found: (i64, i64, f64) =
        sqlite.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut wanted = (0, 0, 0);
    for order in tpchgen::generators::OrderGenerator::new_with_distributions_and_text_pool(
        0.01,
        1,
        1,
        tpchgen::distribution::Distributions::static_default(),
        &tpchgen::text::TextPool::new(
            1 << 20,
            tpchgen::distribution::Distributions::static_default(),
        ),
    )
    .iter()
    {
        wanted.0 += 1;
        wanted.1 += order.o_custkey;
        wanted.2 += order.o_totalprice.0;
    }
    assert_eq!(found, (wanted.0, wanted.1, wanted.2 as f64 / 100.0));
}

#[test]
fn the_same_seed_gives_the_same_bytes_of_every_table() {
    let place = tempfile::tempdir().unwrap();
    let bytes_of = |name: &str, seed| {
        let directory = place.path().join(name);
        let database = create(&directory);
        let dataset = Dataset { seed, ..dataset(RowWidth::S001, KeyOrder::Random) };
        let layout = Layout { kind: LayoutKind::Heap, indexes: vec![index("orders", "o_custkey")] };
        let mut jobs =
            dataset.jobs(&CUSTOMER_AND_ORDERS, &layout, &LoadOptions::default()).unwrap();
        load_tables(&database, &mut jobs, &mut ()).unwrap();
        database.close().unwrap();
        ["customer.sqlite", "orders.sqlite", "orders.o_custkey.tree"]
            .map(|file| std::fs::read(directory.join(file)).unwrap())
    };
    let first = bytes_of("first", 1);
    assert_eq!(first, bytes_of("second", 1));
    let other = bytes_of("other", 2);
    assert!(first.iter().zip(&other).all(|(left, right)| left != right));
}

#[test]
fn clustered_tables_have_their_index_beside_them_and_random_order_scatters_leaves() {
    let place = tempfile::tempdir().unwrap();
    let layout =
        Layout { kind: LayoutKind::Clustered, indexes: vec![index("orders", "o_custkey")] };
    let mut page_counts = Vec::new();
    let mut rows = Vec::new();
    for order in [KeyOrder::Key, KeyOrder::Random] {
        let database = create(&place.path().join(format!("{order:?}")));
        let mut jobs = dataset(RowWidth::S000, order)
            .jobs(&CUSTOMER_AND_ORDERS, &layout, &LoadOptions::default())
            .unwrap();
        let reports = load_tables(&database, &mut jobs, &mut ()).unwrap();
        assert_eq!(reports.len(), 3);
        let read = database.read();
        assert_eq!(read.check().unwrap().findings, [""; 0]);
        let stats = read.stat().unwrap();
        let names: Vec<&str> = stats.iter().map(|stat| stat.name.as_str()).collect();
        assert_eq!(names, ["customer", "orders", "orders_o_custkey"]);
        assert_eq!(stats[2].row_count, 15_000);
        page_counts.push(stats[1].page_count);
        let mut content = Vec::new();
        for table in names {
            read.scan(table, |_, row| {
                content.push(row.columns().map(ValueRef::to_value).collect::<Vec<Value>>());
                Flow::Continue(())
            })
            .unwrap();
        }
        rows.push(content);
    }
    assert_eq!(rows[0], rows[1]);
    assert!(page_counts[1] > page_counts[0], "{page_counts:?}");
}

/// Cancels in the middle of the second table.
struct Impatient(u64);

impl LoadObserver for Impatient {
    fn rows_loaded(&mut self, table: &str, row_count: u64, fraction: f64) {
        assert!((0.0..=1.0).contains(&fraction));
        if table == "orders" {
            self.0 = row_count;
        }
    }

    fn is_cancelled(&self) -> bool {
        self.0 > 5000
    }
}

#[test]
fn a_cancelled_load_leaves_neither_table_nor_file() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("db");
    let database = create(&directory);
    let layout = Layout { kind: LayoutKind::Heap, indexes: vec![index("customer", "c_custkey")] };
    let jobs = || {
        dataset(RowWidth::S001, KeyOrder::Random)
            .jobs(&CUSTOMER_AND_ORDERS, &layout, &LoadOptions::default())
            .unwrap()
    };
    let outcome = load_tables(&database, &mut jobs(), &mut Impatient(0));
    assert!(matches!(outcome, Err(LoadError::Cancelled)));
    assert_eq!(database.read().definitions().unwrap().count(), 0);
    let tables = || {
        let names = std::fs::read_dir(&directory).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("customer") || name.starts_with("orders")).count()
    };
    assert_eq!(tables(), 0);
    load_tables(&database, &mut jobs(), &mut ()).unwrap();
    assert_eq!(tables(), 3);
}

#[test]
fn csv_rows_are_sorted_into_a_clustered_table_and_a_bad_line_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let database = create(&place.path().join("db"));
    let job = |text: &str| {
        let input = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let source = CsvRows::open(input, "rows.csv", None, &CsvOptions::default()).unwrap();
        let table = NewTable {
            name: "things".to_owned(),
            columns: source.columns().to_vec(),
            kind: TableKind::Clustered { key: vec![0] },
            indexes: Vec::new(),
        };
        [LoadJob { table, options: LoadOptions::default(), source: Box::new(source) }]
    };
    let error = load_tables(&database, &mut job("id,name\n3,c\n1\n"), &mut ()).unwrap_err();
    assert!(error.to_string().starts_with("rows.csv:3: 1 field instead of 2"), "{error}");
    assert_eq!(database.read().definitions().unwrap().count(), 0);
    load_tables(&database, &mut job("id,name\n3,c\n1,a\n2,\n"), &mut ()).unwrap();
    let mut names = Vec::new();
    database
        .read()
        .scan("things", |_, row| {
            names.push(row.get(1).to_value());
            Flow::Continue(())
        })
        .unwrap();
    let text = |name: &str| Value::Text(name.to_owned());
    assert_eq!(names, [text("a"), Value::Null, text("c")]);
    let error = load_tables(&database, &mut job("id,name\n3,c\n"), &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "table things exists already");
}

#[test]
fn tables_and_indexes_that_do_not_exist_are_named() {
    let place = tempfile::tempdir().unwrap();
    let database = create(&place.path().join("db"));
    let jobs = |width, tables: &[TpchTable], kind, indexes: &[(&str, &str)]| {
        let indexes = indexes.iter().map(|(table, column)| index(table, column)).collect();
        let layout = Layout { kind, indexes };
        let made = dataset(width, KeyOrder::Key).jobs(tables, &layout, &LoadOptions::default());
        made.unwrap_err().to_string()
    };
    let customer = [TpchTable::Customer];
    let said = jobs(RowWidth::S001, &customer, LayoutKind::Heap, &[("customer", "c_name")]);
    assert_eq!(said, "customer has no column c_name; it has c_custkey, c_pad");
    let said = jobs(RowWidth::S001, &customer, LayoutKind::Heap, &[("orders", "o_custkey")]);
    assert!(said.contains("orders.o_custkey is of a table that is not loaded"), "{said}");
    let said = jobs(RowWidth::S001, &[TpchTable::Orders], LayoutKind::Clustered, &[]);
    assert!(said.contains("only a heap can hold it"), "{said}");
    let said = jobs(RowWidth::S000, &[TpchTable::Part], LayoutKind::Heap, &[]);
    assert!(said.contains("part has the width tpch"), "{said}");
    database.close().unwrap();
}
