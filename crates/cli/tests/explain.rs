//! `nandu explain` as a user runs it: estimates, runs beside them, what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, names, run, stderr, stdout_of};

#[test]
fn estimates_stand_beside_what_the_joins_did() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.05 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let words = "explain shop customer.c_custkey orders.o_custkey --memory 1MiB \
                 --analyze --join all --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    assert_eq!(json["pair_count"], 75_000, "each order has one customer");
    let rows = json["explanation"]["rows"].as_array().unwrap();
    let mut run_count = 0;
    for row in rows.iter().filter(|row| !row["actual"].is_null()) {
        run_count += 1;
        let number = |part: &str, name: &str| row[part][name].as_u64().unwrap();
        let estimated = number("estimate", "pages_read") + number("estimate", "pages_written");
        let actual = number("actual", "pages");
        assert!(estimated.abs_diff(actual) * 100 <= estimated * 5, "{row}");
        if row["kind"] == "block_nested_loops" {
            assert_eq!(number("actual", "pages_written"), 0);
        }
    }
    assert!(run_count >= 5, "{run_count} of seven joins need no index, some in two roles");
    let left: Vec<String> = std::fs::read_dir(directory.join("shop"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("spill"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let line = "explain shop customer.c_custkey orders.o_custkey --memory 1MiB --analyze --json \
                --no-calibrate --join hybrid_hash,block_nested_loops,grace_hash --threads";
    let [one, two] = ["1", "2"].map(|threads| explained(directory, &format!("{line} {threads}")));
    assert_eq!((&one["thread_count"], &two["thread_count"]), (&1.into(), &2.into()));
    assert_eq!(two["pair_count"], 75_000, "two threads find what one finds");
    let processor_ns = |json: &serde_json::Value, kind: &str| {
        let rows = json["explanation"]["rows"].as_array().unwrap();
        let of_kind = rows.iter().filter(|row| row["kind"] == kind);
        of_kind.map(|row| row["estimate"]["cpu_ns"].as_u64().unwrap()).min().unwrap()
    };
    let shares = ["hybrid_hash", "block_nested_loops", "grace_hash"]
        .map(|kind| processor_ns(&two, kind) * 100 / processor_ns(&one, kind));
    assert!(shares[0] < 60 && shares[1] < 60 && shares[2] == 100, "{shares:?} percent");
}

#[test]
fn tables_in_pax_pages_are_read_by_the_columns_that_are_wanted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load =
        "load tpch --scale-factor 0.01 --tables customer,orders --layout pax --span-pages 32 shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let explain = |columns: &str| {
        let line = format!(
            "explain shop customer.c_custkey orders.o_custkey --memory 1MiB --analyze \
             --join hybrid_hash,flash_join,rare_join --json {columns}"
        );
        let words: Vec<&str> = line.split_whitespace().collect();
        let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
        assert_eq!(json["pair_count"], 15_000, "each order has one customer");
        let rows = json["explanation"]["rows"].as_array().unwrap();
        let pages = |kind: &str| {
            let of_kind = rows.iter().filter(|row| row["kind"] == kind);
            of_kind.filter_map(|row| row["actual"]["pages"].as_u64()).min().unwrap()
        };
        ["hybrid_hash", "flash_join", "rare_join"].map(pages)
    };
    let all = explain("");
    let few = explain("--columns customer.c_name --columns orders.o_orderdate,o_totalprice");
    for (all, few) in all.into_iter().zip(few) {
        assert!(few * 2 < all, "{few} and {all} pages");
    }
    let first_of = |rest: &str| {
        let line = format!("explain shop customer.c_custkey orders.o_custkey --memory 1MiB {rest}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = stdout_of(directory, &words);
        said.lines().find(|line| line.starts_with("> ")).unwrap().to_owned()
    };
    let few = "--columns customer.c_name --columns orders.o_comment";
    let (all, some) = (first_of(few), first_of(&format!("{few} --pairs 2")));
    assert!(!all.contains("flash_join") && some.contains("flash_join"), "{all}\n{some}");
    let words =
        ["explain", "shop", "customer.c_custkey", "orders.o_custkey", "--columns", "part.p_name"];
    let said = failure_of(directory, &words, 2);
    assert!(said.contains("name columns of these"), "{said}");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("16500 rows"));
    let row = stdout_of(directory, &["db", "get", "shop", "customer", "7"]);
    assert!(row.split('\t').count() == 8, "{row}");
    std::fs::write(directory.join("row.tsv"), row).unwrap();
    let said = failure_of(directory, &["db", "load", "shop", "customer", "row.tsv"], 2);
    assert!(said.contains("never changed"), "{said}");
}

#[test]
fn joins_by_index_stand_among_the_others_where_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.01 --row-width s001 --tables customer,orders \
                --index customer.c_custkey --index orders.o_custkey shop";
    stdout_of(directory, &load.split_whitespace().collect::<Vec<_>>());
    let words = "explain shop customer.c_custkey orders.o_custkey --memory 256KiB --analyze \
                 --join index_nested_loops,index_sort_merge,hybrid_hash --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    assert_eq!(json["pair_count"], 15_000, "each order has one customer");
    let rows = json["explanation"]["rows"].as_array().unwrap();
    let ran = rows.iter().filter(|row| !row["actual"].is_null());
    let mut kinds: Vec<&str> = ran.map(|row| row["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["hybrid_hash", "index_nested_loops", "index_sort_merge"]);
    // A customer without orders comes out once.
    let words = "explain shop customer.c_custkey orders.o_custkey --memory 256KiB --analyze \
                 --join all --type full --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    assert!(json["pair_count"].as_u64().unwrap() >= 15_000, "{json}");
    let rejected = json["explanation"]["rejected"].to_string();
    assert!(rejected.contains("does no full join"), "{rejected}");
}

#[test]
fn a_budget_is_kept_and_mistakes_are_named() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.01 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let explain = |rest: &str| {
        let line = format!("explain shop {rest}");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words
    };
    let words = explain("customer.c_custkey orders.o_custkey --memory 256KiB --write-budget 0");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = stdout_of(directory, &words);
    assert!(said.contains("> block_nested_loops"), "{said}");
    assert!(said.contains("- grace_hash"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    for (rest, wanted) in [
        ("customer.nothing orders.o_custkey --analyze", "nothing"),
        ("nobody.c_custkey orders.o_custkey", "nobody"),
        ("customer orders.o_custkey", "TABLE.COLUMN"),
        ("customer.c_custkey, orders.o_custkey", "TABLE.COLUMN"),
        ("customer.c_custkey orders.o_custkey,o_orderkey", "name as many of both"),
        ("customer.c_custkey orders.o_custkey --analyze --join quick", "hybrid_hash"),
    ] {
        let words = explain(rest);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = failure_of(directory, &words, 2);
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_sweep_runs_all_joins_with_a_measured_processor() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.003 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let words = "explain shop customer.c_custkey orders.o_custkey --calibrate --processor cpu.json \
                 --sweep 256KiB,4MiB --repetitions 1 --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert!(!point["runs"].as_array().unwrap().is_empty());
        assert!(point["chosen_by_fastest"].as_f64().unwrap() >= 1.0, "{point}");
    }
    let words = "explain shop customer.c_custkey orders.o_custkey --processor cpu.json";
    let words: Vec<&str> = words.split_whitespace().collect();
    assert!(stdout_of(directory, &words).contains("hybrid_hash"));
    std::fs::write(directory.join("cpu.json"), "{}").unwrap();
    let said = failure_of(directory, &words, 2);
    assert!(said.contains("--calibrate"), "{said}");
}

#[test]
fn the_processor_is_measured_at_the_first_use_only() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.001 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    // The usual way to start the program asks for the chosen constants.
    let explain = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nandu"));
        command.args(["explain", "shop", "customer.c_custkey", "orders.o_custkey"]).args(more);
        command.current_dir(directory).env("XDG_CACHE_HOME", directory.join("caches"));
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let stdout = String::from_utf8(output.stdout.clone()).unwrap();
        (stdout, stderr(&output))
    };
    let (first, said) = explain(&[]);
    assert!(said.contains("measuring the processor once"), "{said}");
    // Where the name of the processor is long, the path has a line of its own.
    let in_one_line = |text: &str| text.replace('\n', " ");
    assert!(in_one_line(&first).contains("processor: measured now, kept in "), "{first}");
    let kept = names(&directory.join("caches/nandu"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    let (second, said) = explain(&[]);
    assert_eq!(said, "", "nothing is measured");
    assert!(in_one_line(&second).contains("processor: as measured earlier ("), "{second}");
    let estimates = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with("  join "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(estimates(&first), estimates(&second));
    let (json, _) = explain(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["processor"]["source"], "kept");
    let (chosen, _) = explain(&["--no-calibrate"]);
    assert!(chosen.contains("processor: chosen constants"), "{chosen}");
    assert_ne!(estimates(&chosen), estimates(&second));
}

#[test]
fn streams_that_a_probe_measured_price_what_is_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.01 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let probe = "probe sim:device-a --request-count 50 --profile device.json";
    stdout_of(directory, &probe.split(' ').collect::<Vec<_>>());
    let whole = std::fs::read_to_string(directory.join("device.json")).unwrap();
    let mut profile: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert!(profile["streams"]["points"].as_array().unwrap().len() > 100);
    profile.as_object_mut().unwrap().remove("streams");
    std::fs::write(directory.join("old.json"), profile.to_string()).unwrap();
    let grace_ns = |file: &str| {
        let words = "explain shop customer.c_custkey orders.o_custkey --memory 256KiB --json";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--profile", file]);
        let json: serde_json::Value = serde_json::from_str(&stdout_of(directory, &words)).unwrap();
        let rows = json["explanation"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["kind"] == "grace_hash").unwrap();
        row["estimate"]["io_ns"].as_u64().unwrap()
    };
    let (with_streams, without) = (grace_ns("device.json"), grace_ns("old.json"));
    assert!(with_streams > 0 && with_streams != without, "{with_streams} and {without}");
}

#[test]
fn too_little_memory_is_told() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.01 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let explain = |memory: &'static str| {
        let words = ["explain", "shop", "customer.c_custkey", "orders.o_custkey", "--memory"];
        [&words[..], &[memory, "--analyze"]].concat()
    };
    // Below the square-root bound there is a plan still: buckets are cut again, runs merged again.
    let said = stdout_of(directory, &explain("32KiB"));
    assert!(said.contains("15000 pairs"), "{said}");
    // A page is not enough for any join, and the error says how much is.
    let said = failure_of(directory, &explain("4KiB"), 2);
    assert!(said.contains("no join can be run in 4 KiB; --memory 8KiB is enough"), "{said}");
}

/// The joins that ran, each once, in the order of their names.
fn kinds_run(json: &serde_json::Value) -> Vec<String> {
    let rows = json["explanation"]["rows"].as_array().unwrap();
    let ran = rows.iter().filter(|row| !row["actual"].is_null());
    let mut kinds: Vec<String> = ran.map(|row| row["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn explained(directory: &std::path::Path, line: &str) -> serde_json::Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    serde_json::from_str(&stdout_of(directory, &words)).unwrap()
}

#[test]
fn clustered_tables_are_joined_and_looked_up_by_their_own_key() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.01 --tables customer,orders \
                --layout clustered --index orders.o_custkey tree";
    stdout_of(directory, &load.split_whitespace().collect::<Vec<_>>());
    let run = "--memory 256KiB --analyze --join all --json";
    // The customers are in the order of what is compared, the orders are not.
    let json =
        explained(directory, &format!("explain tree customer.c_custkey orders.o_custkey {run}"));
    assert_eq!(json["pair_count"], 15_000, "each order has one customer");
    let kinds = kinds_run(&json);
    for kind in ["block_nested_loops", "grace_hash", "index_nested_loops"] {
        assert!(kinds.iter().any(|it| it == kind), "{kinds:?}");
    }
    assert_eq!(json["explanation"]["rejected"][0][0], "index_sort_merge", "{json}");
    // Those of the second table are, followed by the number of the order.
    let json = explained(
        directory,
        &format!("explain tree customer.c_custkey orders_o_custkey.o_custkey {run}"),
    );
    assert_eq!(json["pair_count"], 15_000, "each order has one entry");
    assert!(kinds_run(&json).iter().any(|it| it == "index_sort_merge"), "{json}");
}

#[test]
fn keys_of_several_columns_reach_the_planner() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let left = |row: u32| (!row.is_multiple_of(23)).then_some((row % 17, row % 5));
    let right = |row: u32| (row % 13, row % 7);
    let (mut lefts, mut rights) = (String::from("a,b,x\n"), String::from("y,c,d\n"));
    for row in 0..300 {
        match left(row) {
            Some((a, b)) => lefts += &format!("{a},{b},{row}\n"),
            None => lefts += &format!("{},,{row}\n", row % 17),
        }
    }
    for row in 0..400 {
        let (c, d) = right(row);
        rights += &format!("{row},{c},{d}\n");
    }
    std::fs::write(directory.join("left.csv"), lefts).unwrap();
    std::fs::write(directory.join("right.csv"), rights).unwrap();
    let pairs = (0..300).flat_map(|l| (0..400).map(move |r| (left(l), right(r))));
    let pair_count = pairs.filter(|(l, r)| *l == Some(*r)).count();
    assert!(pair_count > 100);
    for line in [
        "load csv left.csv --table l --types a:integer,b:integer shop",
        "load csv right.csv --table r --key c,d,y shop",
        "db index shop l by_both a b",
    ] {
        stdout_of(directory, &line.split(' ').collect::<Vec<_>>());
    }
    let json =
        explained(directory, "explain shop l.a,b r.c,d --memory 64KiB --analyze --join all --json");
    assert_eq!(json["pair_count"], pair_count, "{json}");
    // Both have an index by both columns: one of a heap, one a tree.
    let kinds = kinds_run(&json);
    for kind in ["grace_hash", "hybrid_hash", "index_nested_loops", "index_sort_merge"] {
        assert!(kinds.iter().any(|it| it == kind), "{kinds:?}");
    }
}

#[test]
fn figures_say_where_they_are_from_and_tell_the_kernels_part() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let load = "load tpch --scale-factor 0.02 --row-width s001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let tables = "explain shop customer.c_custkey orders.o_custkey";
    let sweep = explained(directory, &format!("{tables} --sweep 256KiB --json"));
    let answer = explained(directory, &format!("{tables} --memory 256KiB --analyze --json"));
    for json in [&sweep, &answer] {
        let command = json["run"]["command"].as_str().unwrap();
        assert!(command.starts_with(&format!("nandu {tables}")), "{command}");
        assert_eq!(json["nandu"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(!json["run"]["commit"].as_str().unwrap().is_empty());
        assert!(json["run"]["machine"]["thread_count"].as_u64().unwrap() >= 1, "{json}");
        assert!(json["run"]["date"].as_str().unwrap().ends_with(" UTC"), "{json}");
    }
    for run in sweep["points"][0]["runs"].as_array().unwrap() {
        let actual = |name: &str| run["actual"][name].as_u64().unwrap();
        assert!(actual("cpu_ns") > 0 && actual("system_ns") <= actual("cpu_ns"), "{run}");
    }
}

/// Two tables in PAX pages, each of whose keys thirty rows have.
fn many_to_many() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let mut text = "k,name\n".to_owned();
    for row in 0..3000 {
        text += &format!("{},name {row}\n", row % 100);
    }
    std::fs::write(place.path().join("rows.csv"), text).unwrap();
    for table in ["one", "other"] {
        let words =
            ["load", "csv", "rows.csv", "--table", table, "--pax", "--span-pages", "32", "shop"];
        stdout_of(place.path(), &words);
    }
    place
}

#[test]
fn a_join_that_may_write_all_pairs_is_no_choice_under_a_budget_unless_these_are_known() {
    let place = many_to_many();
    let explain = |more: &str| {
        let line = format!("explain shop one.k other.k --memory 1MiB --write-budget 0 {more}");
        stdout_of(place.path(), &line.split_whitespace().collect::<Vec<_>>())
    };
    let line_of = |text: String| {
        let found = text.lines().find(|line| line.contains("rare_join")).map(str::to_owned);
        found.unwrap()
    };
    let said = line_of(explain("--analyze --join all"));
    assert!(said.starts_with('-') && said.contains("may write all pairs"), "{said}");
    let said = line_of(explain("--pairs 90000"));
    assert!(said.starts_with('-') && said.contains("may write "), "{said}");
    assert!(!line_of(explain("--pairs 100")).starts_with('-'));
}

#[test]
fn a_join_that_passes_its_budget_takes_no_other_result_with_it() {
    let place = many_to_many();
    // Far fewer pairs than there are.
    let line = "explain shop one.k other.k --memory 1MiB --write-budget 0 --pairs 100 --analyze --join all";
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = run(place.path(), &words);
    let (text, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("rare_join: this operator would write more temporary data"), "{said}");
    assert!(text.contains("no result: this operator would write more temporary data"), "{text}");
    assert!(text.contains("  as run") && text.ends_with("90000 pairs\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_is_never_equal_is_no_join() {
    let place = many_to_many();
    let said = failure_of(place.path(), &["explain", "shop", "one.k", "other.name"], 2);
    assert!(
        said.contains("one.k holds numbers, other.name texts: none of them are ever equal"),
        "{said}"
    );
}
