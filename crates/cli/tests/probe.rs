//! `nandu probe`, on simulated drives and on a directory of this machine.

use crate::common::{failure_of, interrupt, names, run, start, stderr, stdout_of};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

/// A probe of a directory that takes a moment: few sizes, short runs.
const SMALL: [&str; 6] = ["--size", "4MiB", "--request-bytes", "4KiB,64KiB", "--duration", "20ms"];

#[test]
fn the_same_seed_gives_the_same_bytes_on_a_simulated_drive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for name in ["one", "two"] {
        let (json, parquet) = (format!("{name}.json"), format!("{name}.parquet"));
        let profile = format!("{name}.profile");
        let files = ["--json", &json, "--parquet", &parquet, "--profile", &profile];
        let what = ["probe", "sim:device-a", "--size", "64MiB", "--request-count", "200"];
        let table = stdout_of(path, &[&what[..], &files].concat());
        assert!(table.contains("random"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }
    for kind in ["json", "parquet", "profile"] {
        let read = |name: &str| fs::read(path.join(format!("{name}.{kind}"))).unwrap();
        assert!(!read("one").is_empty() && read("one") == read("two"), "{kind}");
    }
    let profile = fs::read_to_string(path.join("one.profile")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    let models = profile["models"].as_array().unwrap();
    assert!(!models.is_empty(), "{profile}");
    for model in models {
        let error = model["line"]["error_max"].as_f64().unwrap();
        assert_eq!(model["fits"], error <= 0.3, "{model}");
    }
}

#[test]
fn a_directory_is_probed_with_pure_json_and_stays_empty() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&["probe", "."], &SMALL[..], &["--json"]].concat();
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(directory.path(), &arguments)).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 4 * 2 * 2);
    assert!(json["machine"]["engine"].is_string(), "{}", json["machine"]);
    assert!(names(directory.path()).is_empty());
}

#[test]
fn the_inside_of_a_simulated_drive_is_shown_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let probe = |target: &str, more: &[&str]| {
        stdout_of(directory.path(), &[&["probe", target], &SMALL[..], more].concat())
    };
    let table = probe("sim:nvme-tlc-2024", &[]);
    for part in ["Where time goes", "transfer", "Dies and channels", "link to the host"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let json = |target| -> serde_json::Value {
        serde_json::from_str(&probe(target, &["--json"])).unwrap()
    };
    let inside = &json("sim:nvme-tlc-2024")["inside"];
    let lengths = ["die_held_share", "channel_busy_share"].map(|list| {
        let shares = inside[list].as_array().unwrap();
        let within = |share: &serde_json::Value| (0.0..=1.0).contains(&share.as_f64().unwrap());
        assert!(shares.iter().all(within) && shares.iter().any(|share| *share != 0.0), "{inside}");
        shares.len()
    });
    assert_eq!(lengths, [16, 8], "dies and channels of the profile");
    for link in ["link_to_drive", "link_to_host"] {
        assert!(inside[link]["busy_share"].as_f64().unwrap() > 0.0, "{inside}");
    }
    assert!(json("sim:wd2000jb")["inside"].is_null(), "a disk has no dies");
}

#[test]
fn an_array_is_probed_by_its_address_over_drives_and_over_directories() {
    let directory = tempfile::tempdir().unwrap();
    let probe = |target: &str| -> serde_json::Value {
        let arguments = [&["probe", target], &SMALL[..], &["--json"]].concat();
        serde_json::from_str(&stdout_of(directory.path(), &arguments)).unwrap()
    };
    let simulated = probe("array:stripe/4KiB:sim:myers-chip*4");
    assert_eq!(simulated["results"].as_array().unwrap().len(), 4 * 2 * 2);
    assert!(simulated["machine"].is_null(), "{}", simulated["machine"]);
    fs::create_dir(directory.path().join("disk")).unwrap();
    let real = probe("array:parity/4KiB:./disk*3");
    assert!(real["machine"]["engine"].is_string(), "{}", real["machine"]);
    assert!(names(&directory.path().join("disk")).is_empty());
    let said = failure_of(directory.path(), &["probe", "array:stripe:sim:pmc*4"], 2);
    assert!(said.contains("did you mean `pcm`?"), "{said}");
    let shown = stdout_of(directory.path(), &["drives", "array:parity:sim:pcm*4"]);
    assert!(shown.contains("23.8 GiB"), "{shown}");
}

#[test]
fn an_existing_file_is_refused_and_unchanged_until_it_may_be_destroyed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("precious");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let short = ["--request-bytes", "4KiB", "--duration", "10ms", "--queue-depth", "1"];
    let probe = |more: &[&'static str]| [&["probe", "precious"], &short[..], more].concat();
    let said = failure_of(directory.path(), &probe(&[]), 2);
    assert!(said.contains("--destroy-data"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), vec![7; 1 << 20]);
    stdout_of(directory.path(), &probe(&["--read-only"]));
    assert_eq!(fs::read(&file).unwrap(), vec![7; 1 << 20]);
    stdout_of(directory.path(), &probe(&["--destroy-data"]));
    assert_ne!(fs::read(&file).unwrap(), vec![7; 1 << 20]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let said = failure_of(directory.path(), &probe(&["--destroy-data"]), 3);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn places_that_do_not_exist_or_have_no_room_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let said = failure_of(path, &["probe", "no/such/directory"], 2);
    assert!(said.contains("no/such/directory"), "{said}");
    let said = failure_of(path, &["probe", "device-a"], 2);
    assert!(said.contains("did you mean `sim:device-a`"), "{said}");
    let said = failure_of(path, &["probe", ".", "--size", "900TiB"], 2);
    assert!(said.contains("--size"), "{said}");
    let said = failure_of(path, &["probe", "sim:device-a", "--json", "no/x.json"], 2);
    assert!(said.contains("no/x.json"), "{said}");
    let said = failure_of(path, &["probe", ".", "--series", "endurance", "--size", "1MiB"], 2);
    assert!(said.contains("--force"), "{said}");
    assert!(names(path).is_empty());
}

#[test]
fn a_plan_with_an_unknown_key_names_file_line_and_nearest_key() {
    let directory = tempfile::tempdir().unwrap();
    let plan = "[[step]]\n[step.pattern]\naccess = \"random\"\nread_percent = 100\n\
                request_byte = \"4KiB\"\nlimit = { request_count = 5 }\n";
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let said = failure_of(directory.path(), &["probe", "sim:device-a", "--plan", "plan.toml"], 2);
    assert!(said.contains("plan.toml:5") && said.contains("request_bytes"), "{said}");
    let plan = plan.replace("request_byte ", "request_bytes ");
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    stdout_of(directory.path(), &["probe", "sim:device-a", "--plan", "plan.toml"]);
}

#[test]
fn a_fio_job_runs_and_its_unknown_keys_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let job = "[reads]\nrw=randread\nbs=4k\niodepth=4\nsize=1m\nwibble=3\n";
    fs::write(directory.path().join("job.fio"), job).unwrap();
    let table = stdout_of(directory.path(), &["probe", "sim:nvme-tlc-2024", "--job", "job.fio"]);
    assert!(table.contains("reads") && table.contains("wibble"), "{table}");
    assert!(!table.contains("Profile"), "nothing of a profile was measured: {table}");
}

#[test]
fn ctrl_c_during_a_probe_ends_it_with_130_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let long = ["probe", ".", "--size", "4MiB", "--duration", "30s", "--queue-depth", "1"];
    let mut child = start(directory.path(), &long);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first line of progress says that the device is being measured or filled.
    lines.next().unwrap().unwrap();
    interrupt(&child);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("interrupted: ")), "{said:?}");
    assert!(names(directory.path()).is_empty());
    let output = run(directory.path(), &[&["probe", "."], &SMALL[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_steady_state_series_says_in_which_rounds_it_was_reached() {
    let directory = tempfile::tempdir().unwrap();
    let what = ["probe", "sim:device-a", "--size", "16MiB", "--series", "steady-state"];
    let table = stdout_of(directory.path(), &[&what[..], &["--json", "steady.json"]].concat());
    assert!(table.contains("reached in rounds"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let json = fs::read_to_string(directory.path().join("steady.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (steady, state) = (&json["steady_state"], &json["steady_state"]["state"]);
    assert_eq!(state["reached"], true, "{steady}");
    let rounds = steady["rounds_iops"].as_array().unwrap();
    assert!((5..=25).contains(&rounds.len()), "{steady}");
    assert_eq!(rounds.len(), json["results"][0]["runs"].as_array().unwrap().len());
    // The rule stops at the first window that agrees, so the window is the last five rounds; the
    // excursion follows from them alone.
    let window: Vec<f64> = rounds[rounds.len() - 5..].iter().map(|r| r.as_f64().unwrap()).collect();
    let mean = window.iter().sum::<f64>() / 5.0;
    let largest = window.iter().copied().fold(f64::MIN, f64::max);
    let smallest = window.iter().copied().fold(f64::MAX, f64::min);
    let excursion = state["excursion"].as_f64().unwrap();
    assert!(((largest - smallest) / mean - excursion).abs() < 1e-9, "{steady}");
    assert!(excursion <= steady["options"]["excursion_max"].as_f64().unwrap(), "{steady}");
    let written = steady["written_share"].as_f64().unwrap();
    assert!((written - rounds.len() as f64 / 5.0).abs() < 0.01, "{steady}");
    assert!(state["rise"].as_f64().unwrap().abs() <= 0.10, "{steady}");
    assert_eq!(table.lines().filter(|line| line.ends_with(" *")).count(), 5, "{table}");
}

#[test]
fn a_steady_state_that_two_requests_a_round_cannot_show_is_not_claimed() {
    let directory = tempfile::tempdir().unwrap();
    let what = ["probe", "sim:device-a", "--size", "16MiB", "--series", "steady-state"];
    let table = stdout_of(directory.path(), &[&what[..], &["--request-count", "2"]].concat());
    let rounds = table.lines().filter(|line| line.ends_with(" *")).count();
    assert_eq!(rounds, 5, "{table}");
    assert!(table.contains("not reached after 25 rounds"), "{table}");
    assert!(table.contains("warning  the steady state was not reached"), "{table}");
    let read_only = [&what[..], &["--read-only"]].concat();
    failure_of(directory.path(), &read_only, 2);
}

#[test]
fn a_mixed_job_tells_its_reads_and_its_writes_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let job = "[mix]\nrw=randrw\nrwmixread=70\nbs=4k\nsize=2m\n";
    fs::write(path.join("job.fio"), job).unwrap();
    let words = ["probe", "sim:device-a", "--size", "16MiB", "--job", "job.fio"];
    let table = stdout_of(path, &words);
    let line = |start: &str| {
        let found = table.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start:?} in {table}"))
    };
    assert_eq!(line("mix").matches(" -").count(), 5, "rates of all, latencies of neither: {table}");
    assert!(line("  its reads").contains(" us") && line("  its writes").contains("s"), "{table}");
    let json = stdout_of(path, &[&words[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let medians = &json["results"][0]["medians"];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{medians}"));
    let (read, write) = (&medians["read"], &medians["write"]);
    let sum = number(&read["iops"]) + number(&write["iops"]);
    assert!((sum / number(&medians["iops"]) - 1.0).abs() < 1e-9, "{medians}");
    assert!(number(&read["iops"]) > 1.5 * number(&write["iops"]), "{medians}");
    assert!(number(&write["latency_mean_ns"]) > number(&read["latency_mean_ns"]), "{medians}");
    assert_eq!(medians["latency_mean_ns"], read["latency_mean_ns"]);
}

#[test]
fn an_option_of_fio_that_makes_another_load_is_refused_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let keys =
        ["rate_iops=100", "bsrange=4k-8k", "verify=md5", "ba=8k", "blockalign=64k", "filesize=8m"];
    for key in keys {
        fs::write(path.join("job.fio"), format!("[a]\nrw=randwrite\n{key}\n")).unwrap();
        let said = failure_of(path, &["probe", "sim:device-a", "--job", "job.fio"], 2);
        assert!(said.starts_with("error: job.fio:3: `"), "{said}");
    }
}

#[test]
fn a_drive_without_a_write_cache_is_not_said_to_have_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let own = include_str!("../../../profiles/device-a.toml");
    let none = own.replace("write_buffer_bytes = 32768", "write_buffer_bytes = 0");
    assert_ne!(own, none);
    fs::write(path.join("bare.toml"), none).unwrap();
    fs::create_dir(path.join("profiles")).unwrap();
    fs::rename(path.join("bare.toml"), path.join("profiles/bare.toml")).unwrap();
    let probe = |name: &str| {
        stdout_of(path, &[&["probe", name, "--request-count", "200"], &SMALL[..4]].concat())
    };
    let said = probe("sim:bare").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!said.contains("cache"), "{said}");
    let said = probe("sim:device-a").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("write cache"), "{said}");
}

#[test]
fn times_that_no_clock_has_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let pattern = "access = \"random\"\nread_percent = 0\nrequest_bytes = \"4KiB\"\n\
                   limit = { request_count = 9 }";
    let plan = |prepare: &str, more: &str| {
        let text = format!("[[step]]\nprepare = [{prepare}]\n[step.pattern]\n{pattern}\n{more}\n");
        fs::write(path.join("plan.toml"), text).unwrap();
        ["probe", "sim:nvme-tlc-2024", "--size", "64MiB", "--plan", "plan.toml", "--quiet"]
    };
    let idle = |seconds: u64| format!("{{ idle = {{ duration = \"{seconds}s\" }} }}");
    stdout_of(path, &plan(&idle(9_000_000_000), "think_ns = 86400000000000"));
    let said = failure_of(path, &plan(&[idle(9_000_000_000), idle(900_000_000)].join(","), ""), 2);
    assert!(said.contains("the run passes 292 years") && said.contains("less"), "{said}");
    let said = failure_of(path, &plan("", "think_ns = 9223372036854775807"), 2);
    assert!(said.contains("think_ns is longer than a day"), "{said}");
    fs::write(path.join("job.fio"), "[a]\nrw=randread\nthinktime=9000000000s\n").unwrap();
    let job = ["probe", "sim:device-a", "--job", "job.fio", "--quiet"];
    let said = failure_of(path, &job, 2);
    assert!(said.starts_with("error: job.fio:1: job `a`: think"), "{said}");
}
