//! All contenders beside each other over few rows: the same answers and sound tables, and tables that are
//! not sound are seen.

use super::clients::{self, Work};
use super::contender::{Contender, Setting, Store, StoreKind};
use super::plan::{self, Options};
use super::sqlite;
use nandu::DatabaseOptions;
use nandu_bench::tpcc::{Input, Output, Terminal, TpccCounts, execute};
use nandu_load::tpcc::{LOAD_MOMENT_US, check};
use nandu_load::{Tpcc, TpccScale, TpccTable};
use nandu_storage::database::{Flow, Isolation};
use nandu_storage::sqlite::{Value, ValueRef};
use rusqlite::types::ValueRef as StoredRef;
use std::path::Path;

const SMALL: TpccScale = TpccScale { item_count: 500, customer_count: 40 };
const TRANSACTIONS: u64 = 1000;
const TERMINALS: u32 = 5;

fn small() -> Tpcc {
    Tpcc::with_scale(2, SMALL, 11).unwrap()
}

fn setting(client_count: u32) -> Setting {
    Setting { memory_bytes: 8 << 20, group_bytes: 96 << 20, client_count }
}

fn opened(contender: Contender, directory: &Path, client_count: u32) -> Box<dyn Store> {
    contender.store_kind().load(directory, &small()).unwrap();
    contender.open(directory, &setting(client_count)).unwrap()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

/// A directory for a contender, into which the user of a server can look, too.
fn scratch_of(contender: Contender) -> tempfile::TempDir {
    if contender.store_kind() != StoreKind::Postgresql {
        return scratch();
    }
    let directory = tempfile::tempdir().unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), everybody).unwrap();
    directory
}

/// The inputs of terminals, one after the other.
fn inputs() -> Vec<Input> {
    let mut terminals: Vec<Terminal> =
        (0..TERMINALS).map(|number| Terminal::new(&small(), number, 3)).collect();
    let input = |number: u64| {
        let terminal = &mut terminals[nandu_base::to_index(number % u64::from(TERMINALS))];
        terminal.next_input(LOAD_MOMENT_US + number.cast_signed() * 1_000_003)
    };
    (0..TRANSACTIONS).map(input).collect()
}

/// What ours answers, and all rows in the end.
fn ours(directory: &Path, isolation: Isolation) -> (Vec<Output>, Vec<Vec<Vec<Value>>>) {
    StoreKind::Nandu.load(directory, &small()).unwrap();
    let (database, _) = nandu::open_database(directory, &DatabaseOptions::default()).unwrap();
    let mut counts = TpccCounts::default();
    let execute = |input: &Input| execute(&database, isolation, input, &mut counts).unwrap();
    let outputs = inputs().iter().map(execute).collect();
    assert!(counts.rolled_back_count > 0 && counts.remote_order_count > 0, "{counts:?}");
    assert!(counts.delivered_order_count > 200, "{counts:?}");
    assert_eq!(counts.retries.retry_count, 0);
    assert!(check(&database.read()).unwrap().is_sound());
    let rows = |table: TpccTable| {
        let mut rows = Vec::new();
        let look = |_, row: nandu_storage::sqlite::RecordView<'_>| {
            rows.push(row.columns().map(ValueRef::to_value).collect());
            Flow::Continue(())
        };
        database.read().scan(table.name(), look).unwrap();
        rows
    };
    let rows = TpccTable::ALL.into_iter().map(rows).collect();
    database.close().unwrap();
    (outputs, rows)
}

/// What SQLite has in the place of one of our tables, in our order.
fn rows_of_sqlite(connection: &rusqlite::Connection, table: TpccTable) -> Vec<Vec<Value>> {
    let select = match table {
        TpccTable::CustomerByName => {
            "SELECT c_w_id, c_d_id, c_last, c_first, c_id FROM customer ORDER BY 1, 2, 3, 4, 5"
                .into()
        }
        TpccTable::OrdersByCustomer => {
            "SELECT o_w_id, o_d_id, o_c_id, o_id FROM orders ORDER BY 1, 2, 3, 4".into()
        }
        TpccTable::History => "SELECT * FROM history ORDER BY rowid".into(),
        _ => {
            let key = (1..=table.key_column_count()).map(|column| column.to_string());
            let key: Vec<String> = key.collect();
            format!("SELECT * FROM {} ORDER BY {}", table.name(), key.join(", "))
        }
    };
    let mut statement = connection.prepare(&select).unwrap();
    let count = statement.column_count();
    let value = |stored: StoredRef<'_>| match stored {
        StoredRef::Null => Value::Null,
        StoredRef::Integer(number) => Value::Integer(number),
        StoredRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
        other => panic!("no column of TPC-C: {other:?}"),
    };
    let row = |row: &rusqlite::Row<'_>| {
        Ok((0..count).map(|place| value(row.get_ref(place).unwrap())).collect())
    };
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// What a contender answers.
fn theirs(contender: Contender, directory: &Path) -> Vec<Output> {
    let store = opened(contender, directory, 1);
    let mut session = store.session(0).unwrap();
    let outputs = inputs().iter().map(|input| session.execute(input).unwrap()).collect();
    assert_eq!(session.retry_count(), 0, "{contender:?}");
    drop(session);
    assert_eq!(store.broken_conditions(&small()).unwrap(), [""; 0], "{contender:?}");
    store.close().unwrap();
    outputs
}

#[test]
fn all_contenders_give_the_same_answers_and_sqlite_ends_with_the_same_rows() {
    let directory = scratch();
    let place = |name: &str| directory.path().join(name);
    let (outputs, rows) = ours(&place("serializable"), Isolation::Serializable);
    let (others, other_rows) = ours(&place("snapshot"), Isolation::Snapshot);
    assert_eq!(outputs, others);
    assert!(rows == other_rows, "rows at the two levels differ");
    let inputs = inputs();
    for contender in Contender::ALL.into_iter().filter(|it| it.version().is_ok()) {
        let apart = scratch_of(contender);
        let place = match contender {
            Contender::Sqlite => place(contender.label()),
            _ => apart.path().join(contender.label()),
        };
        let theirs = theirs(contender, &place);
        for ((ours, theirs), input) in outputs.iter().zip(&theirs).zip(&inputs) {
            assert_eq!(clients::shown(ours), clients::shown(theirs), "{contender:?}: {input:?}");
            let is_whole = contender != Contender::PostgresqlFunctions;
            assert!(!is_whole || ours == theirs, "{contender:?}: {input:?}");
        }
    }
    let file = place(Contender::Sqlite.label()).join(sqlite::FILE);
    let connection = rusqlite::Connection::open(file).unwrap();
    for (table, ours) in TpccTable::ALL.into_iter().zip(&rows) {
        assert!(rows_of_sqlite(&connection, table) == *ours, "{}", table.name());
    }
}

#[test]
fn four_clients_leave_as_many_orders_as_they_committed_and_all_conditions_hold() {
    for contender in Contender::ALL.into_iter().filter(|it| it.version().is_ok()) {
        let directory = scratch_of(contender);
        let store = opened(contender, &directory.path().join("store"), 4);
        let before = store.order_count().unwrap();
        let work = Work {
            tpcc: small(),
            client_count: 4,
            warm_up_count: 50,
            transaction_count: 400,
            seed: 5,
        };
        let done = clients::work(store.as_ref(), &work).unwrap();
        assert_eq!(store.broken_conditions(&small()).unwrap(), [""; 0], "{contender:?}");
        assert_eq!(store.order_count().unwrap() - before, done.order_count, "{contender:?}");
        assert!(done.figures["tpmc"] > 0.0, "{contender:?}");
        assert!(done.figures.contains_key("new_order_p99_us"), "{contender:?}");
        store.close().unwrap();
    }
}

/// A statement that breaks a condition, and the number of one that then does not hold.
const BREAKS: [(usize, &str); 12] = [
    (1, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2"),
    (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3"),
    (3, "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 35"),
    (4, "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 7"),
    (5, "UPDATE orders SET o_carrier_id = 3 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 38"),
    (6, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 9"),
    (
        7,
        "UPDATE order_line SET ol_delivery_d = 5 WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 39",
    ),
    (8, "UPDATE history SET h_w_id = 1 WHERE h_w_id = 2 AND h_c_id = 4"),
    (9, "UPDATE history SET h_d_id = 1 WHERE h_w_id = 1 AND h_d_id = 2 AND h_c_id = 4"),
    (
        10,
        "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 2 AND c_d_id = 9 AND c_id = 8",
    ),
    (11, "UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 1 AND c_d_id = 4 AND c_id = 2"),
    (12, "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 5 AND c_id = 3"),
];

#[test]
fn each_condition_is_seen_to_be_broken() {
    let directory = scratch();
    for (number, statement) in BREAKS {
        let directory = directory.path().join(number.to_string());
        let store = opened(Contender::Sqlite, &directory, 1);
        assert_eq!(store.broken_conditions(&small()).unwrap(), [""; 0]);
        let connection = rusqlite::Connection::open(directory.join(sqlite::FILE)).unwrap();
        assert!(connection.execute(statement, []).unwrap() > 0, "{statement}");
        let broken = store.broken_conditions(&small()).unwrap();
        let sign = format!("{number} (in ");
        assert!(broken.iter().any(|it| it.starts_with(&sign)), "{number}: {broken:?}");
    }
}

#[test]
fn a_run_that_is_not_sound_is_an_error() {
    let run = |outcome| crate::process::Run {
        outcome,
        plan: None,
        metrics: std::collections::BTreeMap::new(),
    };
    let told = super::process::Told {
        broken: Vec::new(),
        order_count: 5,
        counted_order_count: 5,
        digest: String::new(),
        figures: std::collections::BTreeMap::new(),
    };
    let judge = |run, told| plan::judge(Contender::Sqlite, &run, Some(told));
    assert!(judge(run(Ok(Vec::new())), told.clone()).is_ok());
    assert!(judge(run(Err("broke".to_owned())), told.clone()).is_err());
    let lost = super::process::Told { counted_order_count: 4, ..told.clone() };
    let error = judge(run(Ok(Vec::new())), lost).unwrap_err().to_string();
    assert!(error.contains("5 orders were committed, and 4 are there"), "{error}");
    let broken = super::process::Told { broken: vec!["3 (in 1 places)".to_owned()], ..told };
    let error = judge(run(Ok(Vec::new())), broken).unwrap_err().to_string();
    assert!(error.contains("conditions that do not hold: 3"), "{error}");
}

#[test]
fn more_clients_than_terminals_are_refused() {
    let words = ["tpcc", "--warehouses", "1", "--clients", "11"];
    let directory = scratch();
    let words = words.into_iter().map(std::ffi::OsString::from);
    let words = words.chain(["--directory".into(), directory.path().into()]);
    let error = plan::run(&<Options as clap::Parser>::parse_from(words)).unwrap_err();
    assert!(error.to_string().contains("from 1 to 10"), "{error}");
}
