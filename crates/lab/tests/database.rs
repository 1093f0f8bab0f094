//! Experiments that put a database on something: a drive, an array, a directory of this machine.

use nandu_lab::{Experiment, LabError, LocalTarget, Outcome, RunOptions, Unwatched, run};
use std::path::Path;

const TREE: &str = r#"
kind = "tree_maintenance"
record_count = 2000
value_bytes = 100
pool_bytes_per_record = 40
page_bytes = ["512B", "4KiB"]
randomness = [0, 100]
warm_up_count = 100
operation_count = 200
variants.plain = { log_apart = true, durability = "none", torn_pages = "trust" }
"#;

const ACCESS: &str = r#"
kind = "access_path"
row_count = 20000
row_bytes = 196
pool_bytes_per_row = 40
page_bytes = "4KiB"
selectivities = [0.1, 1, 10, 50]
"#;

const RESTART: &str = r#"
kind = "restart"
record_count = 20000
value_bytes = 100
pool = "512KiB"
page_bytes = "4KiB"
intervals = ["128KiB"]
record_cpu = "2us"
"#;

const PROPAGATION: &str = r#"
kind = "propagation"
page_bytes = ["16KiB"]
file = "8MiB"
log_rounds = 2
operation_count = 200
variants.in-place = { propagation = "in_place" }
variants.log = { propagation = "log_structured", log_structured = { packing = "whole" } }
"#;

const CLIENTS: &str = r#"
kind = "clients"
workload = "a"
record_count = 2000
field_bytes = 100
memory = "512KiB"
clients = [1, 4]
operation_count = 400
variants.places = {}
variants.chips = { set = { propagation = "page_differential_chips" } }
"#;

fn experiment(measure: &str, drives: &str) -> Experiment {
    let head = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n";
    let text = format!("{head}[measure]\n{measure}\n{drives}");
    Experiment::parse("database", "database.toml", &text).expect("the text is an experiment")
}

fn run_in(folder: &Path, experiment: &Experiment, has_local: bool) -> Result<Outcome, LabError> {
    let mut options = RunOptions::new(folder.join("out"));
    options.local = has_local.then(|| LocalTarget {
        name: "directory".into(),
        open: Box::new(|| Err("databases are made in the directory".into())),
        directory: folder.to_path_buf(),
    });
    run(experiment, &options, &mut Unwatched)
}

fn value(outcome: &Outcome, name: &str, x: f64) -> f64 {
    let series = outcome.series.iter().find(|series| series.name == name);
    series.and_then(|series| series.at(x)).unwrap_or_else(|| panic!("{name} has no point at {x}"))
}

#[test]
fn the_local_disk_is_measured_in_directories_that_do_not_stay() {
    for (measure, name, x) in [
        (TREE, "here.plain.r100.lookups_s", 4096.0),
        (ACCESS, "here.chosen_s", 1.0),
        (PROPAGATION, "here.log.random_write", 16384.0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let experiment = experiment(measure, "[measure.drives.here]\nbase = 'local'");
        let outcome = run_in(folder.path(), &experiment, true).unwrap();
        assert!(value(&outcome, name, x) > 0.0);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "only the results are there: {left:?}");
        let folder = tempfile::tempdir().unwrap();
        let outcome = run_in(folder.path(), &experiment, false).unwrap();
        assert!(outcome.series.is_empty());
        assert!(outcome.notes[0].contains("no local device"), "{:?}", outcome.notes);
    }
}

#[test]
fn what_makes_no_sense_of_a_local_drive_is_refused() {
    let head = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n";
    for more in ["capacity = '1GiB'", "member_count = 2", "set = { hdd = {} }"] {
        let drives = format!("[measure.drives.here]\nbase = 'local'\n{more}");
        let text = format!("{head}[measure]\n{ACCESS}\n{drives}");
        let error = Experiment::parse("database", "database.toml", &text).unwrap_err();
        assert!(error.to_string().contains("`here` is local"), "{error}");
    }
}

#[test]
fn a_planner_that_knows_its_disk_is_never_far_from_the_best_path() {
    let folder = tempfile::tempdir().unwrap();
    let drives = "[measure.drives.disk]\nbase = 'sim:wd2000jb'\ncapacity = '2GB'";
    let outcome = run_in(folder.path(), &experiment(ACCESS, drives), false).unwrap();
    let at = |name: &str, x| value(&outcome, &format!("disk.{name}"), x);
    assert!(at("index_s", 50.0) > 10.0 * at("table_s", 50.0));
    assert!(at("index_s", 1.0) > at("sorted_s", 1.0));
    for percent in [0.1, 1.0, 10.0, 50.0] {
        assert!((1.0..2.0).contains(&at("over_best", percent)), "at {percent} %");
    }
}

#[test]
fn eight_disks_restart_sooner_than_one() {
    let folder = tempfile::tempdir().unwrap();
    let disk = "base = 'sim:barracuda-7200-11'\ncapacity = '1GB'";
    let drives =
        format!("[measure.drives.one]\n{disk}\n[measure.drives.eight]\n{disk}\nmember_count = 8");
    let outcome = run_in(folder.path(), &experiment(RESTART, &drives), false).unwrap();
    let at = |name: &str| value(&outcome, name, 131_072.0);
    assert!(at("one.pages") > 50.0);
    assert_eq!(at("one.pages").to_bits(), at("eight.pages").to_bits(), "the same work");
    assert!(at("one.page_reads_s") > at("eight.page_reads_s"));
}

#[test]
fn a_log_spares_a_flash_disk_of_2007_its_random_writes() {
    let folder = tempfile::tempdir().unwrap();
    // Where writes begin at flash pages, that is; within a page the drive copies.
    let drives = "[measure.drives.a]\nbase = 'sim:device-a'\ncapacity = '64MiB'\n\
                  set = { sector_bytes = 2048 }";
    let outcome = run_in(folder.path(), &experiment(PROPAGATION, drives), false).unwrap();
    let at = |name: &str| value(&outcome, &format!("a.{name}"), 16384.0);
    assert!(at("log.random_write") > 4.0 * at("in-place.random_write"));
    assert!(at("in-place.sequential_read") > at("log.sequential_read"));
    assert!(at("log.written") > 1.0);
}

#[test]
fn a_setting_of_a_propagation_is_reached_by_the_engine_s_name_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let drives = "[measure.drives.a]\nbase = 'sim:device-a'\ncapacity = '64MiB'";
    let more = "variants.set = { propagation = \"log_structured\", \
                set = { log_structured = { packing = \"whole\" } } }\n";
    let text = format!("{PROPAGATION}{more}");
    let outcome = run_in(folder.path(), &experiment(&text, drives), false).unwrap();
    for pattern in ["random_write", "random_read", "written"] {
        let at = |variant: &str| value(&outcome, &format!("a.{variant}.{pattern}"), 16384.0);
        assert_eq!(at("log").to_bits(), at("set").to_bits(), "{pattern}");
    }
    let head = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n";
    for (set, told) in [
        ("propagation = 'in_place'", "say `propagation` of the measurement"),
        ("durability = 'none'", "are of no propagation"),
        ("log_structured = { victm = 1 }", "there is no setting `victm`"),
        (
            "propagaton = 'in_place'",
            "there is no setting `propagaton`; did you mean `propagation`?",
        ),
        ("}, log_structured = { victm = 1", "unknown field `victm`"),
        ("}, log_structurd = { ", "did you mean `log_structured`?"),
        ("log_structured = { victim = 'fifo' }", "`set.log_structured` is of another propagation"),
        ("}, log_structured = { victim = 'fifo'", "`log_structured` is of another propagation"),
        ("}, log_structured = { victim = 'fifo'", "say `propagation = \"log_structured\"`"),
        (
            "log_structured = { victim = 'fifo' } }, propagation = 'log_structured', \
             log_structured = { packing = 'whole'",
            "`set.log_structured` stands beside `log_structured`; say all of it in one of them",
        ),
    ] {
        let in_place =
            if set.contains("propagation = 'log") { "" } else { "propagation = 'in_place', " };
        let variant = format!("variants.bad = {{ {in_place}set = {{ {set} }} }}\n");
        let text = format!("{head}[measure]\n{PROPAGATION}{variant}\n{drives}");
        let error = Experiment::parse("database", "database.toml", &text).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn pages_lie_on_chips_where_the_propagation_has_them_there() {
    let folder = tempfile::tempdir().unwrap();
    let drives = "[measure.drives.a]\nbase = 'sim:device-a'\ncapacity = '64MiB'";
    let outcome = run_in(folder.path(), &experiment(CLIENTS, drives), false).unwrap();
    let rate = |variant: &str| value(&outcome, &format!("a.{variant}.operations_s"), 4.0);
    assert!(rate("chips") > 0.0 && rate("places") > 0.0);
    assert_ne!(rate("chips").to_bits(), rate("places").to_bits());
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!("{PROPAGATION}variants.chips = {{ propagation = 'page_differential_chips' }}");
    let outcome = run_in(folder.path(), &experiment(&text, drives), false).unwrap();
    let at = |name: &str| value(&outcome, &format!("a.chips.{name}"), 16384.0);
    // A page and its summary, which is a flash page of 2048 bytes, for each that is synced.
    assert!((1.1..3.0).contains(&at("written")), "{}", at("written"));
    assert!(at("random_read") > 0.0 && at("sequential_write") > 0.0);
    let folder = tempfile::tempdir().unwrap();
    let local = "[measure.drives.a]\nbase = 'local'";
    let error = run_in(folder.path(), &experiment(&text, local), true).unwrap_err().to_string();
    assert!(error.contains("a local directory has nothing but one volume"), "{error}");
}
