//! `nandu db` as a user runs it: make, load, read, check, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Nobody, failure_of, names, run, run_under, set_mode, stderr, stdout_of};
use nandu::{Database, DatabaseOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A database `shop` with a heap `t`, its index, and a clustered `c`, of many pages each.
fn make_shop(directory: &Path) {
    let no_key: &[&str] = &[];
    for (table, key) in [("t", no_key), ("c", &["--key", "id"][..])] {
        let words = [&["db", "create", "shop", table, "id:integer", "name:text"][..], key].concat();
        stdout_of(directory, &words);
    }
    let rows: Vec<String> = (0..2000).map(|id| format!("{id}\tcustomer {id}")).collect();
    std::fs::write(directory.join("rows.tsv"), rows.join("\n")).unwrap();
    stdout_of(directory, &["db", "load", "shop", "t", "rows.tsv"]);
    stdout_of(directory, &["db", "load", "shop", "c", "rows.tsv"]);
    stdout_of(directory, &["db", "index", "shop", "t", "by_name", "name"]);
}

fn open_shop(directory: &Path) -> Database {
    nandu::open_database(&directory.join("shop"), &DatabaseOptions::default()).unwrap().0
}

/// Changes a byte of a page of a file of the shop.
fn damage(directory: &Path, file: &str, page: u64) {
    let path = directory.join("shop").join(file);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, (page - 1) * 4096 + 1000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], (page - 1) * 4096 + 1000).unwrap();
}

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
    failure_of(directory, &["db", "create", "shop", "t/u", "id:integer"], 2);
    failure_of(directory, &["db", "create", "shop", "t", "id:integer", "ID:text"], 2);
    assert!(!directory.join("shop").exists(), "what is refused makes no database");
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

#[test]
fn damage_is_told_with_table_and_page_and_an_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make_shop(directory);
    damage(directory, "t.sqlite", 4);
    damage(directory, "t.sqlite", 6);
    damage(directory, "c.tree", 5);
    damage(directory, "t.by_name.tree", 3);
    let output = run(directory, &["db", "check", "shop"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for (what, page) in [
        ("table t", "page 4 of t.sqlite"),
        ("table t", "page 6 of t.sqlite"),
        ("table c", "page 5 of c.tree"),
        ("index by_name of t", "page 3 of t.by_name.tree"),
    ] {
        let line = format!("{what}: {page} does not match its checksum; restore it from a copy");
        assert!(said.lines().any(|other| other == line), "{line}: {said}");
    }
    let complained = failure_of(directory, &["db", "check", "shop", "--json"], 1);
    assert!(complained.contains("rules are broken; restore a copy"), "{complained}");
    let said = failure_of(directory, &["db", "scan", "shop", "t"], 3);
    assert!(said.contains("page 4 of t.sqlite does not match its checksum"), "{said}");
}

#[test]
fn a_page_size_that_no_page_has_is_refused_and_makes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    for size in ["1000", "256", "131072", "1GiB"] {
        let words = ["db", "create", "shop", "t", "id:integer", "--page-size", size];
        let said = failure_of(directory, &words, 2);
        assert!(said.contains("is not a power of two from 512 to 65536"), "{said}");
    }
    let create = ["db", "create", "shop", "t", "id:integer", "--page-size", "99999999999999"];
    assert!(failure_of(directory, &create, 2).contains("page size 99999999999999"));
    failure_of(directory, &["db", "create", "shop", "t", "id:integer", "--page-size", "0"], 2);
    assert_eq!(names(directory), [""; 0]);
}

#[test]
fn a_page_size_that_is_not_the_databases_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let create = |table, size| ["db", "create", "shop", table, "id:integer", "--page-size", size];
    stdout_of(directory, &create("a", "8KiB"));
    let said = failure_of(directory, &create("b", "4096"), 2);
    assert!(said.contains("shop has pages of 8192 bytes"), "{said}");
    std::fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
    let load = ["load", "csv", "rows.csv", "--table", "b", "shop", "--page-size", "4KiB"];
    let said = failure_of(directory, &load, 2);
    assert!(said.contains("shop has pages of 8192 bytes"), "{said}");
    let stat = stdout_of(directory, &["db", "stat", "shop", "--json"]);
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["stats"].as_array().unwrap().len(), 1);
    stdout_of(directory, &create("b", "8192"));
    stdout_of(directory, &["db", "create", "shop", "c", "id:integer"]);
}

#[test]
fn a_database_that_another_process_holds_is_refused_with_its_number() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make_shop(directory);
    let held = open_shop(directory);
    let holder = format!("shop is open in process {}", std::process::id());
    for words in [
        &["db", "scan", "shop", "t"][..],
        &["db", "check", "shop"],
        &["db", "create", "shop", "u", "id:integer"],
        &["db", "load", "shop", "t", "rows.tsv"],
    ] {
        let said = failure_of(directory, words, 2);
        assert!(said.contains(&holder), "{said}");
    }
    held.close().unwrap();
    stdout_of(directory, &["db", "check", "shop"]);
}

#[test]
fn a_restart_is_told_on_stderr_and_in_json() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make_shop(directory);
    let shop = open_shop(directory);
    let mut write = shop.write().unwrap();
    write.delete_by_key("c", &[nandu::ValueRef::Integer(7)]).unwrap();
    write.commit().unwrap();
    let mut write = shop.write().unwrap();
    write.delete_by_key("c", &[nandu::ValueRef::Integer(8)]).unwrap();
    shop.flush().unwrap();
    // The process ends in the middle of a transaction.
    write.abandon();
    drop(shop);
    let output = run(directory, &["db", "check", "shop", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.starts_with("shop was not closed; restart took "), "{said}");
    assert!(said.contains("1 transaction undone") && said.lines().count() == 1, "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["restart"]["loser_count"], 1);
    assert_eq!(json["row_count"], 3999);
    let output = run(directory, &["db", "check", "shop", "--json"]);
    assert_eq!(stderr(&output), "");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["restart"], serde_json::Value::Null);
}

#[test]
fn what_only_reads_works_where_nothing_can_be_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make_shop(directory);
    set_mode(directory, 0o755);
    let shop = directory.join("shop");
    for name in names(&shop) {
        set_mode(&shop.join(name), 0o444);
    }
    set_mode(&shop, 0o555);
    let nobody = Nobody::new();
    let run = |words: &[&str]| nobody.run(directory, words);
    let told = |words: &[&str]| {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(told(&["db", "get", "shop", "c", "7"]), "7\tcustomer 7\n");
    assert_eq!(told(&["db", "scan", "shop", "t", "--limit", "1"]), "0\tcustomer 0\n");
    assert!(told(&["db", "check", "shop"]).contains("4000 rows, 2000 index entries"));
    assert!(told(&["db", "stat", "shop"]).contains("clustered"));
    let output = run(&["db", "create", "shop", "u", "id:integer"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("shop is read-only"), "{}", stderr(&output));
    set_mode(&shop, 0o755);
}

#[test]
fn rows_of_values_that_no_column_holds_are_refused_with_their_line() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "t", "x:real", "y:text"]);
    for (wrong, said) in [
        (&b"1.5\ta\n9007199254740993\tb\n"[..], "rows.tsv:2"),
        (b"1.5\ta\nNaN\tb\n", "rows.tsv:2"),
        (b"1.5\ta\n1\tB\xe4r\n", "it is not UTF-8"),
        (b"1.5\ta\n1e999\tb\n", "rows.tsv:2"),
    ] {
        std::fs::write(directory.join("rows.tsv"), wrong).unwrap();
        let told =
            crate::common::failure_of(directory, &["db", "load", "shop", "t", "rows.tsv"], 2);
        assert!(told.contains(said), "{told}");
    }
    let told = crate::common::failure_of(directory, &["db", "load", "shop", "t", "/dev/zero"], 2);
    assert!(told.contains("line 1 of /dev/zero: it has more than 16 MiB"), "{told}");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("0 rows"));
}

#[test]
fn rows_and_tables_come_go_and_change() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let columns = ["id:integer", "name:text", "price:real", "photo:blob"];
    stdout_of(
        directory,
        &[&["db", "create", "shop", "c"], &columns[..], &["--key", "id"]].concat(),
    );
    stdout_of(directory, &[&["db", "create", "shop", "t"], &columns[..]].concat());
    stdout_of(directory, &["db", "index", "shop", "t", "by_name", "name"]);
    for (row, said) in [(["7", "Ida", "2.5", "00ff"], "1\n"), (["-8", "\\N", "1e300", ""], "2\n")] {
        stdout_of(directory, &[&["db", "insert", "shop", "c"], &row[..]].concat());
        let number = stdout_of(directory, &[&["db", "insert", "shop", "t"], &row[..]].concat());
        assert_eq!(number, said);
    }
    let said = failure_of(directory, &["db", "insert", "shop", "c", "7", "x", "1.0", ""], 2);
    assert!(said.contains("exists already"), "{said}");
    let said = failure_of(directory, &["db", "insert", "shop", "c", "7"], 2);
    assert!(said.contains("1 value instead of 4: c has the columns id, name, price"), "{said}");
    stdout_of(
        directory,
        &["db", "update", "shop", "c", "7", "--set", "name=a\\tb", "--set", "price=3"],
    );
    stdout_of(directory, &["db", "update", "shop", "t", "2", "--set", "name=Ole"]);
    assert_eq!(stdout_of(directory, &["db", "get", "shop", "c", "7"]), "7\ta\\tb\t3.0\t00ff\n");
    assert_eq!(stdout_of(directory, &["db", "get", "shop", "t", "2"]), "-8\tOle\t1e300\t\n");
    for (words, part) in [
        (&["update", "shop", "c", "7", "--set", "id=8"][..], "delete the row and insert it anew"),
        (&["update", "shop", "c", "9", "--set", "name=x"], "c has no row 9"),
        (&["update", "shop", "c", "7", "--set", "nam=x"], "did you mean `name`?"),
        (&["update", "shop", "c", "7", "--set", "price=x"], "is no number"),
        (&["delete", "shop", "t", "3"], "t has no row 3"),
        (&["delete", "shop", "t", "3", "4"], "have one number each"),
        (&["drop", "shop", "d"], "there is no table d"),
    ] {
        let said = failure_of(directory, &[&["db"], words].concat(), 2);
        assert!(said.contains(part), "{said}");
    }
    stdout_of(directory, &["db", "delete", "shop", "c", "-8"]);
    stdout_of(directory, &["db", "delete", "shop", "t", "1"]);
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "c"]), "7\ta\\tb\t3.0\t00ff\n");
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "t"]), "-8\tOle\t1e300\t\n");
    let schema = stdout_of(directory, &["db", "schema", "shop"]);
    let made = format!(
        "nandu db create shop c {0} --key id\nnandu db create shop t {0}\n\
         nandu db index shop t by_name name\n",
        columns.join(" ")
    );
    assert_eq!(schema, made);
    let json = stdout_of(directory, &["db", "schema", "shop", "t", "--json"]);
    assert!(json.contains("\"by_name\"") && !json.contains("\"c\""), "{json}");
    stdout_of(directory, &["db", "drop", "shop", "c"]);
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("1 row,"));
}

#[test]
fn a_shell_reads_the_commands_of_a_schema_as_they_are_meant() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let odd = ["a b:integer", "$(touch x):text", "c\n touch y #:text", "'\"\\`:real", "-x:blob"];
    for (table, options) in [("heap", &["--page-size", "1024"][..]), ("-t", &["--key=-x,a b"])] {
        let words = [&["db", "create"], options, &["--", "a shop", table], &odd].concat();
        stdout_of(directory, &words);
    }
    stdout_of(directory, &["db", "index", "--", "a shop", "heap", "by", "-x", "'\"\\`"]);
    std::fs::write(directory.join("pax.csv"), "\"p\ntouch y\"\n1\n").unwrap();
    stdout_of(directory, &["load", "csv", "pax.csv", "--table", "p", "--pax", "a shop"]);
    let schema = stdout_of(directory, &["db", "schema", "a shop"]);
    std::fs::create_dir(directory.join("again")).unwrap();
    // `nandu` of the commands is the program under test.
    let script = format!("nandu() {{ '{}' \"$@\"; }}\n{schema}", env!("CARGO_BIN_EXE_nandu"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-euc", &script]).current_dir(directory.join("again"));
    let made = shell.output().unwrap();
    assert!(made.status.success(), "{schema}{}", stderr(&made));
    assert_eq!(names(&directory.join("again")), ["a shop"], "nothing else was run: {schema}");
    let again = stdout_of(&directory.join("again"), &["db", "schema", "a shop"]);
    let of_pax = |line: &&str| !line.starts_with("# p");
    assert_eq!(again.trim_end(), schema.lines().filter(of_pax).collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_size_of_the_log_is_chosen_at_the_making_shown_and_changed_by_a_copy() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let create = |table, size| ["db", "create", "shop", table, "id:integer", "--log-size", size];
    let said = failure_of(directory, &create("a", "255KiB"), 2);
    assert!(said.contains("a log has at least 64 pages, 262144 bytes here"), "{said}");
    assert_eq!(names(directory), [""; 0]);
    stdout_of(directory, &create("a", "1MiB"));
    assert_eq!(std::fs::metadata(directory.join("shop/log")).unwrap().len() >> 20, 1);
    let schema = stdout_of(directory, &["db", "schema", "shop"]);
    assert_eq!(schema, "nandu db create shop a id:integer --log-size 1048576\n");
    stdout_of(directory, &create("b", "1024KiB"));
    let said = failure_of(directory, &create("c", "2MiB"), 2);
    assert!(said.contains("db compact shop NEW --log-size 2097152"), "{said}");
    // Loaded past the log, whatever its size; a copy has the same one, or another.
    stdout_of(directory, &["db", "compact", "shop", "same"]);
    stdout_of(directory, &["db", "compact", "shop", "longer", "--log-size", "2MiB"]);
    for (copy, log_bytes) in [("same", 1 << 20), ("longer", 2 << 20)] {
        let json = stdout_of(directory, &["db", "schema", copy, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["log_bytes"], &json["page_bytes"]), (&log_bytes.into(), &4096.into()));
    }
    std::fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
    let load = ["load", "csv", "rows.csv", "--table", "r", "new", "--log-size", "8MiB"];
    stdout_of(directory, &load);
    assert!(stdout_of(directory, &["db", "schema", "new"]).contains("--log-size 8388608"));
}

#[test]
fn any_setting_is_chosen_at_the_making_and_refused_where_it_stays_another() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let create = |table, setting| ["db", "create", "shop", table, "id:integer", "--set", setting];
    let said = failure_of(directory, &create("a", "propagatoin=in_place"), 2);
    assert!(said.contains("did you mean `propagation`?"), "{said}");
    let said = failure_of(directory, &create("a", "pool_bytes=1KiB"), 2);
    assert!(said.contains("pool_bytes 1024 is below 131072"), "{said}");
    assert_eq!(names(directory), [""; 0]);
    stdout_of(directory, &create("a", "propagation=log_structured"));
    // What is not fixed may be another each time.
    for setting in ["propagation=log_structured", "pool_bytes=8MiB", "durability=none"] {
        let table = setting.split_once('=').unwrap().0;
        stdout_of(directory, &create(table, setting));
    }
    let said = failure_of(directory, &create("c", "propagation=in_place"), 2);
    assert!(said.contains("shop was made with another value, which stays"), "{said}");
    std::fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
    let load =
        |target, setting| ["load", "csv", "rows.csv", "--table", "r", target, "--set", setting];
    stdout_of(directory, &load("new", "page_bytes=512"));
    let json = stdout_of(directory, &["db", "schema", "new", "--json"]);
    assert!(json.contains("\"page_bytes\": 512"), "{json}");
    failure_of(directory, &load("shop", "page_bytes=512"), 2);
}

#[test]
fn any_number_of_rows_is_loaded_into_a_database_with_the_smallest_log() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    // In no order, so that each row changes another page.
    let name = "n".repeat(300);
    let rows: Vec<String> = (0..3000).map(|at| format!("{}\t{name}", at * 1117 % 3000)).collect();
    std::fs::write(directory.join("rows.tsv"), rows.join("\n")).unwrap();
    let no_key: &[&str] = &[];
    for (table, key) in [("heap", no_key), ("tree", &["--key", "id"][..])] {
        let create = ["db", "create", "shop", table, "id:integer", "name:text"];
        stdout_of(directory, &[&create[..], &["--log-size", "256KiB"], key].concat());
        let said = stdout_of(directory, &["db", "load", "shop", table, "rows.tsv"]);
        assert_eq!(said, "3000 rows\n", "{table}");
    }
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains(" 6000 rows"));
    // One row that does not fit by itself is told with its line, and those before it are there.
    let huge = format!("5000\tx\n5001\t{}\n", "n".repeat(200_000));
    std::fs::write(directory.join("huge.tsv"), huge).unwrap();
    let said = failure_of(directory, &["db", "load", "shop", "heap", "huge.tsv"], 3);
    assert!(said.contains("the first row is stored"), "{said}");
    assert!(said.contains("huge.tsv:2: no space is left") && said.contains("the log"), "{said}");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains(" 6001 rows"));
}

#[test]
fn rows_leave_as_csv_json_and_parquet_and_come_back() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let columns = ["id:integer", "name:text", "price:real", "photo:blob"];
    stdout_of(directory, &[&["db", "create", "shop", "t"], &columns[..]].concat());
    for row in [
        ["7", "a \"b\", c", "2.5", "00ff"],
        ["8", "two\\nlines", "\\N", "\\N"],
        ["9", "\\N", "inf", ""],
    ] {
        stdout_of(directory, &[&["db", "insert", "shop", "t"], &row[..]].concat());
    }
    let csv = "id,name,price,photo\n7,\"a \"\"b\"\", c\",2.5,00ff\n8,\"two\nlines\",,\n9,,inf,\n";
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "t", "--format", "csv"]), csv);
    let json = stdout_of(directory, &["db", "scan", "shop", "t", "--format", "json"]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    let wanted = serde_json::json!({"id": 7, "name": "a \"b\", c", "price": 2.5, "photo": "00ff"});
    assert_eq!(first, wanted);
    let in_order = "{\"id\":7,\"name\":\"a \\\"b\\\", c\",\"price\":2.5,\"photo\":\"00ff\"}\n";
    assert!(json.starts_with(in_order), "{json}");
    let row = stdout_of(directory, &["db", "get", "shop", "t", "1", "--json"]);
    let places = ["\"id\"", "\"name\"", "\"price\"", "\"photo\""].map(|name| row.find(name));
    assert!(places.is_sorted() && places[0].is_some(), "{row}");
    let third: serde_json::Value = serde_json::from_str(json.lines().nth(2).unwrap()).unwrap();
    assert_eq!(third["price"], "inf", "JSON has no such number");
    for file in ["rows.csv", "rows.json", "rows.parquet", "rows.tsv"] {
        assert_eq!(stdout_of(directory, &["db", "export", "shop", "t", file]), "3 rows\n");
        let said = failure_of(directory, &["db", "export", "shop", "t", file], 2);
        assert!(said.contains("--overwrite"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(directory.join("rows.csv")).unwrap(), csv);
    assert_eq!(std::fs::read_to_string(directory.join("rows.json")).unwrap(), json);
    let all = stdout_of(directory, &["db", "scan", "shop", "t"]);
    stdout_of(directory, &["load", "parquet", "rows.parquet", "--table", "p", "shop"]);
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "p"]), all, "to the last bit");
    stdout_of(directory, &[&["db", "create", "shop", "back"], &columns[..]].concat());
    stdout_of(directory, &["db", "load", "shop", "back", "rows.tsv"]);
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "back"]), all);
    let said = failure_of(directory, &["db", "export", "shop", "t", "rows.xls"], 2);
    assert!(said.contains(".parquet"), "{said}");
    let said = failure_of(directory, &["db", "export", "shop", "tt", "new.csv"], 2);
    assert!(said.contains("there is no table tt"), "{said}");
    assert_eq!(names(directory), ["rows.csv", "rows.json", "rows.parquet", "rows.tsv", "shop"]);
}

#[test]
fn a_compact_copy_places_pages_as_the_database_does() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let mut options = DatabaseOptions::default();
    options.settings.propagation = nandu::PropagationKind::LogStructured.into();
    let segmented = nandu::create_database(&directory.join("segmented"), &options).unwrap();
    segmented.close().unwrap();
    options.settings.propagation = nandu::PropagationKind::InPlace.into();
    options.settings.torn_pages = nandu::TornPages::LogImages;
    let imaged = nandu::create_database(&directory.join("imaged"), &options).unwrap();
    imaged.close().unwrap();
    for database in ["segmented", "imaged"] {
        stdout_of(directory, &["db", "create", database, "t", "id:integer"]);
        stdout_of(directory, &["db", "insert", database, "t", "7"]);
        let copy = format!("{database}-copy");
        stdout_of(directory, &["db", "compact", database, &copy]);
        let settings = |name: &str| {
            let path = directory.join(name);
            let opened = nandu::open_database(&path, &DatabaseOptions::default()).unwrap().0;
            let settings = opened.read().engine().settings().clone();
            opened.close().unwrap();
            settings
        };
        assert_eq!(settings(&copy), settings(database));
        assert_eq!(stdout_of(directory, &["db", "scan", &copy, "t"]), "7\n");
    }
}

#[test]
fn a_load_commits_before_the_shortest_log_is_full() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let columns = ["id:integer", "text:text", "--key", "id", "--log-size", "262144"];
    stdout_of(directory, &[&["db", "create", "shop", "t"], &columns[..]].concat());
    // In no order, so that each row logs a change of a page of its own.
    let line = |at: u64| format!("{}\t{}\n", at * 7919 % 6007, "x".repeat((at % 90) as usize));
    let rows: String = (0..6000).map(line).collect();
    std::fs::write(directory.join("rows.tsv"), rows).unwrap();
    assert_eq!(stdout_of(directory, &["db", "load", "shop", "t", "rows.tsv"]), "6000 rows\n");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("6000 rows"));
    // A row that no log of this size takes ends it, with what came before stored.
    let large = format!("9001\tsmall\n9002\t{}\n", "x".repeat(200_000));
    std::fs::write(directory.join("large.tsv"), large).unwrap();
    let said = failure_of(directory, &["db", "load", "shop", "t", "large.tsv"], 3);
    assert!(said.contains("large.tsv:2: no space is left") && said.contains("--skip 1 "), "{said}");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("6001 rows"));
}

#[test]
fn a_compact_copy_has_the_same_rows_in_less_room() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make_shop(directory);
    {
        let database = open_shop(directory);
        let mut write = database.write().unwrap();
        for id in (0..2000).filter(|id| id % 10 != 0) {
            write.delete("t", id + 1).unwrap();
            write.delete_by_key("c", &[nandu::ValueRef::Integer(id)]).unwrap();
        }
        write.commit().unwrap();
        database.close().unwrap();
    }
    assert_eq!(stdout_of(directory, &["db", "compact", "shop", "small"]), "400 rows\n");
    for table in ["t", "c"] {
        let scan = |shop| stdout_of(directory, &["db", "scan", shop, table]);
        assert_eq!(scan("small"), scan("shop"));
    }
    let schema = |shop: &str| stdout_of(directory, &["db", "schema", shop]).replace(shop, "x");
    assert_eq!(schema("small"), schema("shop"));
    assert!(stdout_of(directory, &["db", "check", "small"]).contains("400 rows"));
    let pages = |shop| {
        let json = stdout_of(directory, &["db", "stat", shop, "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
        stats["stats"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stat| stat["page_count"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert!(2 * pages("small") < pages("shop"), "{} of {}", pages("small"), pages("shop"));
    let said = failure_of(directory, &["db", "compact", "shop", "small"], 2);
    assert!(said.contains("small"), "{said}");
}

#[test]
fn a_limit_on_memory_is_told_before_a_database_is_opened() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer"]);
    for command in [
        "create shop u id:integer",
        "scan shop t",
        "insert shop t 1",
        "check shop",
        "compact shop copy",
    ] {
        // The program itself takes some forty megabytes of addresses, more where it is not optimised.
        let words: Vec<&str> = std::iter::once("db").chain(command.split(' ')).collect();
        let output = run_under(directory, "-v 100000", &words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("a database takes 72 MiB of memory"), "{command}: {said}");
        assert!(said.contains("ulimit -v"), "{command}: {said}");
    }
    assert_eq!(names(directory), ["shop"]);
}

#[test]
fn a_table_whose_name_is_mistyped_is_named_by_every_command() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "orders", "id:integer"]);
    std::fs::write(directory.join("rows.tsv"), "7\n").unwrap();
    for words in [
        &["drop", "shop", "odrers"][..],
        &["index", "shop", "order", "by_id", "id"],
        &["scan", "shop", "orderes"],
        &["get", "shop", "ordres", "1"],
        &["insert", "shop", "ordres", "1"],
        &["update", "shop", "ordres", "1", "--set", "id=2"],
        &["delete", "shop", "ordres", "1"],
        &["load", "shop", "ordres", "rows.tsv"],
        &["export", "shop", "ordres", "rows.csv"],
        &["schema", "shop", "ordres"],
    ] {
        let said = failure_of(directory, &[&["db"], words].concat(), 2);
        assert!(said.contains("did you mean `orders`?"), "{words:?}: {said}");
    }
}

#[test]
fn a_raw_tree_is_made_filled_read_checked_copied_and_comes_back_from_files() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "nodes", "--raw"]);
    let said = failure_of(directory, &["db", "create", "shop", "x", "key:blob", "--raw"], 2);
    assert!(said.contains("--raw"), "{said}");
    for [key, value] in [["01ff", "aa"], ["01", "bb"], ["", "cc"], ["02", ""]] {
        let said = stdout_of(directory, &["db", "insert", "shop", "nodes", key, value]);
        assert_eq!(said, "", "a row that has a key gets no number");
    }
    let all = "\tcc\n01\tbb\n01ff\taa\n02\t\n";
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "nodes"]), all);
    assert_eq!(stdout_of(directory, &["db", "get", "shop", "nodes", "01ff"]), "01ff\taa\n");
    stdout_of(directory, &["db", "update", "shop", "nodes", "02", "--set", "value=dd"]);
    let said =
        failure_of(directory, &["db", "update", "shop", "nodes", "02", "--set", "key=03"], 2);
    assert!(said.contains("delete the row"), "{said}");
    stdout_of(directory, &["db", "delete", "shop", "nodes", "01ff"]);
    let all = "\tcc\n01\tbb\n02\tdd\n";
    assert_eq!(stdout_of(directory, &["db", "scan", "shop", "nodes"]), all);
    let schema = stdout_of(directory, &["db", "schema", "shop"]);
    assert_eq!(schema, "nandu db create shop nodes --raw\n");
    assert!(stdout_of(directory, &["db", "stat", "shop"]).contains("raw"));
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("3 rows,"));
    for file in ["nodes.parquet", "nodes.tsv"] {
        stdout_of(directory, &["db", "export", "shop", "nodes", file]);
    }
    stdout_of(directory, &["load", "parquet", "nodes.parquet", "--table", "p", "--raw", "shop"]);
    stdout_of(directory, &["db", "create", "shop", "back", "--raw"]);
    stdout_of(directory, &["db", "load", "shop", "back", "nodes.tsv"]);
    stdout_of(directory, &["db", "compact", "shop", "copy"]);
    for (database, table) in [("shop", "p"), ("shop", "back"), ("copy", "nodes"), ("copy", "p")] {
        assert_eq!(stdout_of(directory, &["db", "scan", database, table]), all);
    }
    std::fs::write(directory.join("three.csv"), "a,b,c\n1,2,3\n").unwrap();
    let said =
        failure_of(directory, &["load", "csv", "three.csv", "--table", "t", "--raw", "shop"], 2);
    assert!(said.contains("key and value"), "{said}");
    let said = failure_of(directory, &["explain", "shop", "nodes.key", "p.key"], 2);
    assert!(said.contains("joins do not read it"), "{said}");
}
