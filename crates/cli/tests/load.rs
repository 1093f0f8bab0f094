//! `nandu load` as a user runs it: generated rows, CSV and Parquet, what is refused, Ctrl-C.

mod common;

use common::{failure_of, interrupt, names, nandu, start, stdout_of};
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

#[test]
fn bad_input_is_named_by_its_place_and_leaves_no_table() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("a.csv"), "id,n\n1,2\n3,x\n").unwrap();
    let words = ["load", "csv", "a.csv", "--table", "a", "--types", "n:integer", "shop"];
    let said = failure_of(directory, &words, 2);
    assert!(said.contains("a.csv:3, column n: `x` is no integer"), "{said}");
    assert!(!names(&directory.join("shop")).iter().any(|name| name.starts_with("a.")));
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
    let said = common::stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("nothing was stored"), "{said}");
    assert!(!table.exists());
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("0 rows"));
}
