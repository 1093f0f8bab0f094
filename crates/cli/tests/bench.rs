//! `nandu bench`: the same twice on a simulated drive, nothing left behind on a disk, errors that say what
//! to do.

#![allow(clippy::unwrap_used, reason = "a test of a file that is not what it should be has failed")]

use crate::common::{failure_of, interrupt, names, run, start, stderr, stdout_of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn json_of(directory: &Path, words: &str) -> Value {
    let words: Vec<&str> = words.split(' ').collect();
    serde_json::from_str(&stdout_of(directory, &words)).unwrap()
}

#[test]
fn two_runs_on_a_simulated_drive_differ_in_what_depends_on_the_run_alone() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench ycsb --workload a --distribution uniform --records 2000 --operations 2000 --clients 16 --cores 4 \
                 --processor-time 3us --memory 1MiB --device sim:nvme-tlc-2024 --json";
    let mut documents = [json_of(directory.path(), words), json_of(directory.path(), words)];
    for document in &mut documents {
        assert!(document.as_object_mut().unwrap().remove("run").is_some());
    }
    assert_eq!(documents[0], documents[1]);
    // Of the drive, the engine and the clients as they are; whoever changes what one of them does in
    // which time writes down the new one.
    assert_eq!(documents[0]["history"], "c43a83c893ebc42a", "the bits are those of every machine");
    assert_eq!(documents[0]["operation_count"], 2000);
}

#[test]
fn tpcc_is_the_same_twice_on_a_simulated_drive_and_consistent_on_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench tpcc --scale 200,20 --warehouses 2 --transactions 600 --clients 6 \
                 --memory 1MiB --device sim:nvme-tlc-2024 --json";
    let mut documents = [json_of(directory.path(), words), json_of(directory.path(), words)];
    for document in &mut documents {
        assert!(document.as_object_mut().unwrap().remove("run").is_some());
    }
    assert_eq!(documents[0], documents[1]);
    let document = &documents[0];
    assert_eq!((&document["operation_count"], &document["server_count"]), (&600.into(), &2.into()));
    let minutes = document["elapsed_ns"].as_f64().unwrap() / 60e9;
    let committed = document["new_order_count"].as_f64().unwrap();
    assert!((document["tpmc"].as_f64().unwrap() * minutes - committed).abs() < 1e-6);
    let words = "bench tpcc --scale 100,10 --transactions 400 --clients 4 --quiet";
    let said = stdout_of(directory.path(), &words.split(' ').collect::<Vec<_>>());
    assert!(said.contains("consistency: 12 of 12 conditions hold for 1 warehouse\n"), "{said}");
    assert!(said.contains("delivery-deferred") && said.contains("new orders a minute"), "{said}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn pages_on_raw_flash_lie_on_the_chips_of_a_simulated_drive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let options = "--set propagation=page_differential_chips --set log_bytes=8MiB \
                   --set checkpoint_bytes=1MiB";
    let words = "bench ycsb --workload a --records 3000 --operations 1500 --memory 1MiB";
    let of = |device: &str, rest: &str| {
        json_of(path, &format!("{words} --device {device} {rest} --json"))
    };
    let on_chips = of("sim:device-a", options);
    assert_eq!(on_chips["settings"]["propagation"], "page_differential_chips");
    assert!(on_chips["flash"]["program_count"].as_u64().unwrap() > 100, "{on_chips}");
    assert_eq!(of("sim:device-a", options)["history"], on_chips["history"]);
    assert_ne!(of("sim:device-a", "--seed 1")["history"], on_chips["history"]);
    for device in ["sim:wd2000jb", "sim:pcm-block"] {
        let wrong = format!("{words} --device {device} --set propagation=page_differential_chips");
        let said = failure_of(path, &wrong.split(' ').collect::<Vec<_>>(), 2);
        assert!(said.contains("has no flash chips of its own"), "{said}");
        assert!(said.contains("take a simulated solid-state drive"), "{said}");
    }
}

#[test]
fn a_group_of_commits_that_is_whole_waits_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    let mean_us = |settings: &str| {
        let words = "bench ycsb --workload a --records 500 --operations 800 --clients 8 --json";
        let log = "--device sim:dram-like --log sim:nvme-tlc-2024";
        let document = json_of(directory.path(), &format!("{words} {log}{settings}"));
        let kinds = document["operations"].as_array().unwrap();
        let update = kinds.iter().find(|kind| kind["kind"] == "update").unwrap();
        update["latency_ns"]["mean"].as_f64().unwrap() / 1e3
    };
    let delay = " --set commit_delay_ns=20000000";
    let (at_once, delayed) = (mean_us(""), mean_us(delay));
    let group = mean_us(&format!("{delay} --set commit_group_count=4"));
    assert!(delayed > 20_000.0 && at_once < 5_000.0, "{delayed} beside {at_once}");
    assert!(group < delayed / 4.0, "{group} beside {delayed}");
}

#[test]
fn a_log_lies_where_it_is_told_to_and_on_lines_a_commit_takes_the_time_of_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let of_log = |rest: &str| {
        let words = "bench ycsb --workload a --records 500 --operations 400 --device sim:dram-like";
        json_of(path, &format!("{words} --json {rest}"))
    };
    let update_us = |document: &Value| {
        let kinds = document["operations"].as_array().unwrap();
        let update = kinds.iter().find(|kind| kind["kind"] == "update").unwrap();
        update["latency_ns"]["mean"].as_f64().unwrap() / 1e3
    };
    let direct = of_log("--log sim:pcm-lines --set log_writing=direct");
    let behind_blocks = of_log("--log sim:pcm-block");
    let disk = of_log("--log sim:wd2000jb");
    assert_eq!(direct["log"], "sim:pcm-lines");
    assert!(direct["log_device"]["line_write_count"].as_u64().unwrap() > 800, "{direct}");
    assert_eq!(disk["log_device"]["line_write_count"], Value::Null);
    assert!(update_us(&direct) < 10.0, "{}", update_us(&direct));
    assert!(update_us(&behind_blocks) > 2.0 * update_us(&direct), "{}", update_us(&behind_blocks));
    assert!(update_us(&disk) > 100.0 * update_us(&behind_blocks), "{}", update_us(&disk));
    assert_eq!(of_log("--seed 1")["log_device"], Value::Null);
    // On this disk, too, and nothing is left of either.
    std::fs::create_dir(path.join("other")).unwrap();
    let words = "bench ycsb --workload a --records 200 --operations 50 --log other --json";
    let document = json_of(path, words);
    assert!(document["log_device"]["flush_count"].as_u64().unwrap() > 0, "{document}");
    assert_eq!(names(path), ["other"]);
    assert_eq!(names(&path.join("other")), [""; 0]);
    let wrong = "bench ycsb --device sim:dram-like --log other";
    let said = failure_of(path, &wrong.split(' ').collect::<Vec<_>>(), 2);
    assert!(said.contains("--log other: beside a simulated drive") && said.contains("sim:NAME"));
}

#[test]
fn a_run_on_a_disk_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench ycsb --workload f --records 500 --operations 300 --clients 3 \
                 --think-time 100us --json";
    let document = json_of(directory.path(), words);
    assert_eq!(document["operation_count"], 300);
    assert_eq!(document["core_count"], Value::Null);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_is_told_twice_at_once_to_stop_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = "bench ycsb --records 2000 --operations 1000000000 --clients 2 --quiet";
    let child = start(path, &words.split(' ').collect::<Vec<_>>());
    // It listens for signals before it makes its directory.
    while names(path).is_empty() {
        std::thread::yield_now();
    }
    // As `timeout` does, which sends one to its child and one to the group; two of a kind may be one.
    let both = ["-c", "kill -INT $0; kill -TERM $0", &child.id().to_string()];
    assert!(Command::new("sh").args(both).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(names(path), [""; 0], "{}", stderr(&output));
}

#[test]
fn a_report_has_its_figures_and_stands_beside_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = "bench ycsb --workload a --records 2000 --operations 2000 --clients 8 --field-bytes 200 \
                 --memory 1MiB --device sim:nvme-tlc-2024 --out out --json";
    let document = json_of(path, words);
    let number = |key: &str| document[key].as_f64().unwrap_or_else(|| panic!("{key}"));
    // Down the levels: a change of a field writes a record, its log, pages of it, and cells.
    let records = number("record_written_bytes");
    assert!(records > 0.0 && number("log_bytes") > 0.0, "{document}");
    assert!(number("written_bytes") > number("log_bytes"), "{document}");
    assert_eq!(number("write_amplification"), number("programmed_bytes") / records);
    let parts = ["conflict_count", "deadlock_count", "lock_timeout_count"].map(number);
    assert_eq!(number("retry_count"), parts.iter().sum::<f64>());
    let page = std::fs::read_to_string(path.join("out/ycsb-a/report.html")).unwrap();
    for title in [
        "Throughput over time",
        "Latency, from when",
        "Bytes at each level",
        "Write amplification",
        "Aborts",
        "Watts over time",
    ] {
        assert!(page.contains(title), "{title}");
    }
    let pictures = std::fs::read_dir(path.join("out/ycsb-a/figures")).unwrap().count();
    assert_eq!(pictures, 4, "a curve, two groups of bars, and watts");
    let series = std::fs::read_to_string(path.join("out/ycsb-a/series.csv")).unwrap();
    assert!(series.contains("read.latency_us") && series.contains("write_amplification"));
    // Where there is no place for it, nothing is measured first.
    std::fs::write(path.join("file"), "text").unwrap();
    let told =
        failure_of(path, &["bench", "ycsb", "--records", "1000000000", "--out", "file/here"], 3);
    assert!(told.contains("cannot write"), "{told}");
    // Another workload beside it, and both on one page.
    stdout_of(
        path,
        &[
            "bench",
            "ycsb",
            "--workload",
            "c",
            "--records",
            "500",
            "--operations",
            "50",
            "--out",
            "out",
        ],
    );
    stdout_of(path, &["report", "out"]);
    let both = std::fs::read_to_string(path.join("out/report.html")).unwrap();
    assert!(both.contains("id=\"e-ycsb-a\"") && both.contains("id=\"e-ycsb-c\""));
}

#[test]
fn what_makes_no_sense_is_told_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = |words: &str, expected: &str| {
        let words: Vec<&str> = ["bench", "ycsb"].into_iter().chain(words.split(' ')).collect();
        let output = run(directory.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let told = stderr(&output);
        assert!(told.contains(expected), "{words:?}: {told}");
    };
    wrong("--set durabilty=none", "there is no setting `durabilty`; did you mean `durability`?");
    wrong("--set durability=sometimes", "--set durability=sometimes");
    wrong("--set pool_bytes", "write KEY=VALUE");
    wrong("--set page_bytes=1000", "1000");
    wrong("--cores 2", "for simulated drives");
    wrong("--device nowhere", "is no directory");
    wrong("--device sim:nvme-tcl-2024", "nvme-tlc-2024");
    wrong("--device sim:nvme-tlc-2024 --capacity 100TiB", "--capacity 100 TiB");
    wrong("--clients 0", "0 is not in");
    let sim = "--device sim:nvme-tlc-2024 --clients 3";
    for time in ["--think-time 1000000000s", "--processor-time 18446744073s"] {
        let remedy = "more than 100 years; take shorter times or fewer operations";
        wrong(&format!("{sim} {time} --operations 100"), remedy);
    }
}

#[test]
fn what_was_recorded_is_summed_up_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = "bench ycsb --records 2000 --operations 1500 --memory 256KiB --clients 4 --quiet \
                 --device sim:nvme-tlc-2024 --record pages --json";
    let bench = json_of(path, words);
    let number =
        |document: &Value, key: &str| document[key].as_u64().unwrap_or_else(|| panic!("{key}"));
    let stat = json_of(path, "trace stat pages --json");
    assert!(number(&stat, "read_count") >= number(&bench, "pool_miss_count") / 2, "{stat}");
    assert!(number(&stat, "write_count") > 100, "{stat}");
    let replay = json_of(path, "trace replay pages --device sim:nvme-tlc-2024 --json");
    assert_eq!(number(&replay, "page_write_count"), number(&stat, "write_count"));
    let bytes = number(&stat, "write_count") * number(&stat, "page_bytes");
    assert_eq!(number(&replay, "written_bytes"), bytes, "in place each page is written as a whole");
    let tier = json_of(path, "trace tier pages --size 16,64 --warm-up 0 --json");
    let tiers = tier["tiers"].as_array().unwrap();
    assert_eq!(tiers.len(), 12, "each policy with each size");
    for tier in tiers {
        for key in ["read_count", "write_count"] {
            assert_eq!(number(tier, key), number(&stat, key), "{tier}");
        }
    }
    let found = |index: usize| tiers[index]["hit_share"].as_f64().unwrap();
    (0..6).for_each(|policy| assert!(found(policy) < found(policy + 6), "{tier}"));
    let sim = json_of(path, "sim myers_slc --trace pages --remap modulo --json");
    let requests = ["read_count", "write_count", "sync_count"].map(|key| number(&stat, key));
    assert_eq!(number(&sim, "request_count"), requests.iter().sum::<u64>(), "{sim}");
    let said = failure_of(path, &words.split(' ').collect::<Vec<_>>(), 2);
    assert!(
        said.contains("pages: exists already; name another file, or pass --overwrite"),
        "{said}"
    );
}

#[test]
fn a_stopped_run_leaves_the_trace_of_what_it_did_and_a_stopped_load_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let stopped_when = |words: &str, is_it: &dyn Fn() -> bool| {
        let child = start(path, &words.split(' ').collect::<Vec<_>>());
        while !is_it() {
            std::thread::yield_now();
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        stderr(&output)
    };
    let words = "bench ycsb --memory 256KiB --device sim:nvme-tlc-2024 --record pages";
    let is_begun = || !names(path).is_empty();
    let load = format!("{words} --records 1000000 --operations 100");
    let said = stopped_when(&load, &is_begun);
    assert!(said.contains("stopped while loading"), "{said}");
    assert_eq!(names(path), [""; 0]);

    // The head of the trace and some kilobytes of it are written once clients are at work.
    let is_recorded = || {
        let bytes = |name: &String| std::fs::metadata(path.join(name)).map_or(0, |it| it.len());
        names(path).iter().map(bytes).sum::<u64>() > 0
    };
    let work = format!("{words} --records 2000 --operations 1000000000");
    let said = stopped_when(&work, &is_recorded);
    assert!(said.contains(" of pages, until the run was stopped"), "{said}");
    assert_eq!(names(path), ["pages"]);
    let stat = json_of(path, "trace stat pages --json");
    assert!(stat["read_count"].as_u64().unwrap() > 100, "{stat}");
    let replay = json_of(path, "trace replay pages --device sim:nvme-tlc-2024 --json");
    assert_eq!(replay["page_write_count"], stat["write_count"], "{replay}");
}
