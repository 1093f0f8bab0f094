//! `nandu db` as a user runs it: make, load, read, check, and what is refused.

mod common;

use common::{failure_of, stdout_of};

#[test]
fn a_table_is_made_loaded_read_and_found_sound() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let columns = ["id:integer", "name:text", "photo:blob"];
    for (table, key) in [("people", &["--key", "id"][..]), ("heap", &[][..])] {
        let words = [&["db", "create", "shop", table], &columns[..], key].concat();
        stdout_of(directory, &words);
    }
    std::fs::write(directory.join("rows.tsv"), "7\tIda\t00ff\n-3\t\\N\t\n12\tOle\t01\n").unwrap();
    for table in ["people", "heap"] {
        assert_eq!(stdout_of(directory, &["db", "load", "shop", table, "rows.tsv"]), "3 rows\n");
    }
    assert_eq!(stdout_of(directory, &["db", "get", "shop", "people", "7"]), "7\tIda\t00ff\n");
    let people = stdout_of(directory, &["db", "scan", "shop", "people"]);
    assert_eq!(people, "-3\t\\N\t\n7\tIda\t00ff\n12\tOle\t01\n", "in the order of the key");
    let heap = stdout_of(directory, &["db", "scan", "shop", "heap", "--limit", "1"]);
    assert_eq!(heap, "7\tIda\t00ff\n", "in the order of arrival");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("6 rows"));
    assert!(stdout_of(directory, &["db", "stat", "shop"]).contains("clustered"));
    let json = stdout_of(directory, &["db", "check", "shop", "--json"]);
    assert!(json.contains("\"findings\": []"), "{json}");
}

#[test]
fn bad_input_is_refused_and_a_load_is_all_or_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    failure_of(directory, &["db", "check", "nowhere"], 2);
    failure_of(directory, &["db", "create", "shop", "t", "id:int"], 2);
    failure_of(directory, &["db", "create", "shop", "t", "id:integer", "--key", "no"], 2);
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer", "--key", "id"]);
    failure_of(directory, &["db", "create", "shop", "t", "id:integer"], 2);
    std::fs::write(directory.join("rows.tsv"), "1\n2\nthree\n").unwrap();
    let said = failure_of(directory, &["db", "load", "shop", "t", "rows.tsv"], 2);
    assert!(said.contains("rows.tsv:3"), "{said}");
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "t"]), "");
    failure_of(directory, &["db", "get", "shop", "t", "1"], 2);
}

#[test]
fn a_long_load_is_stored_in_parts_and_goes_on_where_it_stopped() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer", "name:text", "price:real"]);
    let row_of = |number: u32| format!("{number}\ta\\tb\t{number}.0");
    let mut rows: Vec<String> = (1..=5000).map(row_of).collect();
    rows[4499] = "none".to_owned();
    std::fs::write(directory.join("rows.tsv"), rows.join("\n")).unwrap();
    let said = failure_of(directory, &["db", "load", "shop", "t", "rows.tsv"], 2);
    assert!(said.contains("rows.tsv:4500") && said.contains("--skip 4096"), "{said}");
    rows[4499] = "4500\t\\N\t-0.5".to_owned();
    std::fs::write(directory.join("rows.tsv"), rows.join("\n")).unwrap();
    let words = ["db", "load", "shop", "t", "rows.tsv", "--skip", "4096"];
    assert_eq!(stdout_of(directory, &words), "904 rows\n");
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "t"]), rows.join("\n") + "\n");
    assert_eq!(stdout_of(directory, &["db", "get", "shop", "t", "4500"]), "4500\t\\N\t-0.5\n");
}

#[test]
fn an_index_is_made_once_and_checked_with_its_table() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "orders", "id:integer", "customer:text"]);
    std::fs::write(directory.join("rows.tsv"), "1\tIda\n2\tOle\n3\tIda\n").unwrap();
    stdout_of(directory, &["db", "load", "shop", "orders", "rows.tsv"]);
    let words = ["db", "index", "shop", "orders", "by_customer", "customer", "id"];
    assert_eq!(stdout_of(directory, &words), "");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("3 index entries"));
    assert!(stdout_of(directory, &["db", "stat", "shop"]).contains("by_customer"));
    failure_of(directory, &words, 2);
    failure_of(directory, &["db", "index", "shop", "orders", "other", "nothing"], 2);
}
