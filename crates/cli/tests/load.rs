//! `nandu load` as a user runs it: generated rows, CSV, Parquet and files of SQLite, what is refused,
//! Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, nandu, run, start, stdout_of};
use std::io::Write;
use std::process::Stdio;

#[test]
fn the_tables_of_a_join_are_generated_indexed_and_found_sound() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let words = [
        "load",
        "tpch",
        "--scale-factor",
        "0.02",
        "--row-width",
        "s001",
        "--tables",
        "customer,orders",
        "--index",
        "orders.o_custkey",
        "--json",
        "shop",
    ];
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    assert_eq!(json["tables"][0]["row_count"], 3000);
    assert_eq!(json["tables"][1]["table"], "orders");
    assert_eq!(json["tables"][1]["index_entry_count"], 30_000);
    assert!(json["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("33000 rows, 30000 index"));
    let said = failure_of(directory, &words, 2);
    assert!(said.contains("table customer exists already"), "{said}");
}

#[test]
fn a_log_that_lies_apart_is_named_at_each_opening() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let told = |line: &str| stdout_of(directory, &line.split(' ').collect::<Vec<_>>());
    let refused = |line: &str| failure_of(directory, &line.split(' ').collect::<Vec<_>>(), 2);
    told("load tpcc --scale 100,10 --log shop-log shop");
    assert_eq!(names(directory), ["shop", "shop-log"]);
    assert!(!directory.join("shop/log").exists() && directory.join("shop-log/log").exists());
    for command in ["check-tpcc shop", "check shop", "get shop warehouse 1", "schema shop"] {
        let said = refused(&format!("db {command}"));
        assert!(said.contains("lies on a device of its own; name that, too"), "{command}: {said}");
        told(&format!("db {command} --log shop-log"));
    }
    told("db delete shop warehouse 1 --log shop-log");
    assert!(refused("db get shop warehouse 1 --log shop-log").contains("has no row 1"));
    // Tables of a second call go there, too.
    std::fs::write(directory.join("a.csv"), "id\n2\n").unwrap();
    assert!(refused("load csv a.csv --table a shop").contains("name that, too"));
    told("load csv a.csv --table a --log shop-log shop");
    assert_eq!(told("db scan shop a --log shop-log"), "2\n");
    // The log of another database, and one where there is none.
    told("db create other t id:integer --log other-log");
    let said = refused("db check shop --log other-log");
    assert!(said.contains("belongs to another database"), "{said}");
    told("db create plain t id:integer");
    let said = refused("db check plain --log shop-log");
    assert!(said.contains("lies there, not on"), "{said}");
    // A place that is taken is no place for a new one, and nothing is left.
    let words = ["load", "csv", "a.csv", "--table", "a", "--log", "shop-log", "new"];
    let output = run(directory, &words);
    assert!(!output.status.success() && !directory.join("new").exists());
    assert!(told("db check shop --log shop-log").contains("rows"));
}

#[test]
fn csv_comes_from_a_file_or_a_pipe() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("a.csv"), "id;name\n2;\"x;\ny\"\n1;\n").unwrap();
    let words = ["load", "csv", "a.csv", "--table", "a", "--key", "id", "--delimiter", ";", "shop"];
    assert!(stdout_of(directory, &words).contains("2 "));
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "a"]), "1\t\\N\n2\tx;\\ny\n");
    let words = ["load", "csv", "-", "--table", "b", "--no-header", "shop"];
    let mut child =
        nandu(directory, &words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1,2.5\n3,4\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "b"]), "1\t2.5\n3\t4.0\n");
}

/// A Parquet file of one column whose first page lies before the file: the crate `parquet` panics there.
const PAGE_BEFORE_THE_FILE: &[u8] = b"PAR1\x15\x02\x19\x2c\x48\x01r\x15\x02\0\x15\x04\x25\0\x18\x01a\0\
    \x16\x02\x19\x1c\x19\x1c\x26\x08\x1c\x15\x04\x19\x15\0\x19\x18\x01a\x15\0\x16\x02\x16\x10\x16\x10\
    \x26\x07\0\0\x16\x10\x16\x02\0\0\x36\0\0\0PAR1";

#[test]
fn a_parquet_file_that_breaks_its_format_is_an_error_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("bad.parquet"), PAGE_BEFORE_THE_FILE).unwrap();
    let words = ["load", "parquet", "bad.parquet", "--table", "t", "--quiet", "shop"];
    let said = failure_of(directory, &words, 2);
    let error =
        "error: bad.parquet: it breaks a rule of the format; is it a Parquet file, and whole?";
    assert_eq!(said.trim_end(), error);
    assert_eq!(names(directory), ["bad.parquet"]);
}

fn music(directory: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(directory.join("music.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA encoding = 'UTF-16le';
             CREATE TABLE Artist(ArtistId INTEGER PRIMARY KEY, Name NVARCHAR(120));
             INSERT INTO Artist VALUES(7, 'Zoë'), (2, NULL);
             CREATE TABLE \"Order Details\"(Id INT, Price NUMERIC(9, 2), Note);
             INSERT INTO \"Order Details\" VALUES(1, 3, x'00ff'), (2, 2.5, NULL)",
        )
        .unwrap();
    connection
}

#[test]
fn tables_of_a_sqlite_file_are_loaded_by_name_or_all() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let connection = music(directory);
    let words = ["load", "sqlite", "music.db", "--table", "order details", "--as", "details"];
    let words = [&words[..], &["--index", "id", "shop", "--json"]].concat();
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    assert_eq!(json["tables"][0]["table"], "details");
    assert_eq!(json["tables"][0]["index_entry_count"], 2);
    assert_eq!(json["restart"], serde_json::Value::Null);
    let scan = |table| stdout_of(directory, &["db", "scan", "shop", table]);
    assert_eq!(scan("details"), "1\t3.0\t00ff\n2\t2.5\t\\N\n");
    connection.execute_batch("DROP TABLE \"Order Details\"; CREATE TABLE empty(x TEXT)").unwrap();
    stdout_of(directory, &["load", "sqlite", "music.db", "shop"]);
    assert_eq!((scan("artist"), scan("empty")), ("2\t\\N\n7\tZoë\n".to_owned(), String::new()));
    let words = ["load", "sqlite", "music.db", "--table", "artist", "--as", "by_id"];
    let words = [&words[..], &["--key", "artistid", "--types", "name:blob", "shop"]].concat();
    stdout_of(directory, &words);
    let row = stdout_of(directory, &["db", "get", "shop", "by_id", "7"]);
    assert_eq!(row, "7\t5a6fc3ab\n");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("6 rows, 2 index entries"));
}

#[test]
fn sqlite_files_that_cannot_be_loaded_are_refused_with_what_would_do() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let connection = music(directory);
    let refused = |words: &[&str]| {
        let said = failure_of(directory, &[&["load", "sqlite"], words].concat(), 2);
        assert!(said.starts_with("error: ") && !said.contains("panicked"), "{said}");
        said
    };
    let said = refused(&["music.db", "--table", "Album", "shop"]);
    assert!(said.contains("music.db: it has no table Album; its tables are Artist, Order Details"));
    let said = refused(&["music.db", "--key", "Id", "shop"]);
    assert!(said.contains("name it with --table: Artist, Order Details"), "{said}");
    let said = refused(&["music.db", "shop"]);
    assert!(said.contains("`Order Details` is no name") && said.contains("--as ANOTHER"), "{said}");
    assert!(!directory.join("shop").exists(), "nothing was made");
    let said = refused(&["nothing.db", "shop"]);
    assert!(said.contains("nothing.db"), "{said}");
    std::fs::write(directory.join("a.csv"), "id,n\n1,2\n").unwrap();
    let said = refused(&["a.csv", "shop"]);
    assert!(said.contains("a.csv: it is no SQLite file"), "{said}");
    connection.execute_batch("PRAGMA journal_mode = WAL; DELETE FROM Artist").unwrap();
    let said = refused(&["music.db", "--table", "Artist", "shop"]);
    assert!(said.contains("music.db-wal; run `PRAGMA wal_checkpoint(TRUNCATE)`"), "{said}");
    assert!(!directory.join("shop").exists());
    drop(connection);
    // The last connection brings the log home and removes it.
    stdout_of(directory, &["load", "sqlite", "music.db", "--table", "Artist", "shop"]);
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "artist"]), "");
}

#[test]
fn bad_input_is_named_by_its_place_and_leaves_no_table() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("a.csv"), "id,n\n1,2\n3,x\n").unwrap();
    let words = ["load", "csv", "a.csv", "--table", "a", "--types", "n:integer", "shop"];
    let said = failure_of(directory, &words, 2);
    assert!(said.contains("a.csv:3, column n: `x` is no integer"), "{said}");
    assert!(!directory.join("shop").exists(), "a database that was made for the load is gone");
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer"]);
    let before = names(&directory.join("shop"));
    failure_of(directory, &words, 2);
    assert_eq!(names(&directory.join("shop")), before, "one that was there is as it was");
    for words in [
        &["load", "csv", "none.csv", "--table", "a", "shop"][..],
        &["load", "csv", "a.csv", "--table", "a", "--key", "no", "shop"],
        &["load", "parquet", "a.csv", "--table", "a", "shop"],
        &["load", "tpch", "--tables", "order", "shop"],
        &["load", "tpch", "--tables", "part", "--row-width", "s000", "shop"],
        &["load", "tpch", "--scale-factor", "-1", "--tables", "orders", "shop"],
    ] {
        failure_of(directory, words, 2);
    }
}

#[test]
fn ctrl_c_ends_a_load_and_leaves_no_table() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let words = [
        "load",
        "tpch",
        "--scale-factor",
        "100",
        "--row-width",
        "s001",
        "--tables",
        "customer",
        "shop",
    ];
    let mut child = start(directory, &words);
    let table = directory.join("shop/customer.sqlite");
    // The file's first pages say that the load is on its way.
    while !std::fs::metadata(&table).is_ok_and(|file| file.len() > 0) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = crate::common::stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("nothing was stored"), "{said}");
    assert!(!directory.join("shop").exists(), "the database was made for the load");
}

#[test]
fn the_documents_of_tpox_are_loaded_and_found_sound_by_seed() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let words = ["load", "tpox", "--size", "40KB", "--mapping", "prefix", "--json", "--seed", "3"];
    let load = |to| {
        let json = stdout_of(directory, &[&words[..], &[to]].concat());
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    let json = load("bank");
    assert_eq!((&json["mapping"], &json["size_bytes"]), (&"prefix".into(), &40_000.into()));
    let counts = json["documents"].as_array().unwrap().iter().map(|it| &it["subtree_count"]);
    assert_eq!(counts.collect::<Vec<_>>(), [3, 9, 2]);
    assert_eq!(
        json["documents"][2]["indexes"],
        serde_json::json!(["text:/security/t:Security/t:Symbol"])
    );
    load("again");
    for name in ["custacc", "order", "security"] {
        // The index by which a run of the benchmark finds what it asks for.
        let stat = stdout_of(directory, &["xml", "stat", "bank", "--name", name]);
        assert_eq!(stat.matches("text:/").count(), 1, "{stat}");
        let [one, other] = ["bank", "again"]
            .map(|database| stdout_of(directory, &["xml", "export", database, "--name", name]));
        assert!(one == other && one.contains(&format!("<{name}>")), "{one}");
        stdout_of(directory, &["xml", "check", "bank", "--name", name]);
    }
    let before = names(&directory.join("bank"));
    let said = failure_of(directory, &[&words[..], &["bank"]].concat(), 2);
    assert!(said.contains("a document custacc already; name another directory"), "{said}");
    assert_eq!(names(&directory.join("bank")), before);
    let said = failure_of(directory, &["load", "tpox", "--size", "19KB", "small"], 2);
    assert!(said.contains("20KB has one of each") && !directory.join("small").exists(), "{said}");
}

#[test]
fn the_tables_of_tpcc_are_the_same_by_seed_and_a_broken_condition_is_named() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = |to| {
        let words = ["load", "tpcc", "--scale", "100,10", "--warehouses", "2", "--seed", "3", to];
        stdout_of(directory, &words)
    };
    let said = load("store");
    assert!(said.contains("order_line") && said.contains("MB/s"), "{said}");
    load("again");
    for table in ["stock", "customer", "order_line", "history", "customer_by_name"] {
        let [one, other] =
            ["store", "again"].map(|name| stdout_of(directory, &["db", "scan", name, table]));
        assert!(one == other && !one.is_empty(), "{table}");
    }
    stdout_of(directory, &["db", "check", "store"]);
    let said = stdout_of(directory, &["db", "check-tpcc", "store"]);
    assert_eq!(said, "consistency: 12 of 12 conditions hold for 2 warehouses\n");
    stdout_of(directory, &["db", "update", "store", "warehouse", "2", "--set", "w_ytd=100001"]);
    let output = run(directory, &["db", "check-tpcc", "store"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let first = "condition 1 (3.3.2.1), W_YTD = sum(D_YTD), does not hold for 1 of 2:\n  \
                 warehouse 2: 100001 and 100000\n";
    assert!(said.starts_with(first) && said.contains("condition 8 (3.3.2.8)"), "{said}");
    let said = failure_of(directory, &["load", "tpcc", "--scale", "100,10", "store"], 2);
    assert!(said.contains("table item"), "{said}");
    let said = failure_of(directory, &["load", "tpcc", "--warehouses", "0", "new"], 2);
    assert!(said.contains("0 is not in 1..=1000000"), "{said}");
    let said = failure_of(directory, &["load", "tpcc", "--scale", "100,15", "new"], 2);
    assert!(said.contains("make no TPC-C") && !directory.join("new").exists(), "{said}");
    let said = failure_of(directory, &["db", "check-tpcc", "nowhere"], 2);
    assert!(said.contains("nowhere"), "{said}");
}

#[test]
fn ctrl_c_ends_a_load_of_documents_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let mut child = start(directory, &["load", "tpox", "--size", "10GB", "bank"]);
    let bank = directory.join("bank");
    let is_under_way = || {
        let files = std::fs::read_dir(&bank).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().contains("custacc-nodes"))
    };
    while !is_under_way() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", crate::common::stderr(&output));
    assert!(!bank.exists(), "the database was made for the load");
}

#[test]
fn a_load_that_is_killed_leaves_what_the_next_one_replaces() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let endless = ["load", "tpch", "--scale-factor", "100", "--tables", "customer", "shop"];
    let mut child = start(directory, &endless);
    while !std::fs::metadata(directory.join("shop/customer.sqlite"))
        .is_ok_and(|file| file.len() > 0)
    {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let said = failure_of(directory, &["db", "check", "shop"], 2);
    assert!(said.contains("interrupted"), "{said}");
    std::fs::write(directory.join("a.csv"), "id\n1\n").unwrap();
    stdout_of(directory, &["load", "csv", "a.csv", "--table", "a", "shop"]);
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("1 row,"));
    assert!(!directory.join("shop/customer.sqlite").exists());
}
