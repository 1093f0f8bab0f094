//! Experiments that join tables, on simulated drives and on the local disk.

use nandu_lab::{
    Experiment, LabError, LocalTarget, Outcome, RunObserver, RunOptions, Unwatched, run,
};
use nandu_probe::Observer;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const JOIN: &str = r#"
kind = "join"
scale_factor = 1
over = 32
page_over = 2
joins = ["block_nested_loops", "sort_merge", "grace_hash", "hybrid_hash"]
memory = ["8MiB", "16MiB"]
page_bytes = ["8KiB"]
"#;

const CPU: &str = r"
[measure.cpu]
scan_ns = 500
build_ns = 1500
probe_ns = 1500
compare_ns = 150
copy_ns = 1000
disk_request_ns = 19000
flash_request_ns = 57000
";

const INDEX_JOIN: &str = r#"
kind = "index_join"
layouts = ["queue", "tree"]
scale_factor = 0.01
memory = "1MiB"
page_bytes = "4KiB"
selectivities = [1, 20]
"#;

const FLASH: &str = "[measure.drives.flash]\nbase = 'sim:ocz-core'\ncapacity = '8GiB'\n";
const HERE: &str = "[measure.drives.here]\nbase = 'local'\n";

fn outcome(folder: &Path, measure: &str, drives: &str) -> Outcome {
    watched(folder, measure, drives, &mut Unwatched).expect("it runs")
}

fn watched(
    folder: &Path,
    measure: &str,
    drives: &str,
    observer: &mut dyn RunObserver,
) -> Result<Outcome, LabError> {
    let head = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n";
    let text = format!("{head}[measure]\n{measure}\n{drives}");
    let experiment = Experiment::parse("joins", "joins.toml", &text).expect("the text is one");
    let mut options = RunOptions::new(folder.join("out"));
    options.resume = false;
    options.local = Some(LocalTarget {
        name: "directory".into(),
        open: Box::new(|| Err("databases are made in the directory".into())),
        directory: folder.to_path_buf(),
    });
    run(&experiment, &options, observer)
}

fn value(outcome: &Outcome, name: &str, x: f64) -> f64 {
    let series = outcome.series.iter().find(|series| series.name == name);
    series.and_then(|series| series.at(x)).unwrap_or_else(|| panic!("{name} has no point at {x}"))
}

#[test]
fn joins_on_a_simulated_drive_take_the_same_time_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let measure = format!("{JOIN}{CPU}");
    let first = outcome(folder.path(), &measure, FLASH);
    assert_eq!(first.series, outcome(folder.path(), &measure, FLASH).series);
    let (small, large) = (f64::from(8 << 20), f64::from(16 << 20));
    for join in ["block_nested_loops", "sort_merge", "grace_hash", "hybrid_hash"] {
        let at = |metric: &str, x| value(&first, &format!("flash.{join}.{metric}"), x);
        for x in [small, large] {
            let sum = at("io_s", x) + at("user_s", x) + at("kernel_s", x);
            assert!((at("total_s", x) - sum).abs() < 1e-6, "{join}");
        }
        let writes = at("written_gib", small);
        if join == "block_nested_loops" {
            assert_eq!(writes, 0.0);
            assert!(at("read_gib", small) > 1.5 * at("read_gib", large), "more chunks");
        } else {
            assert!(writes > 0.08, "{join} writes {writes} GiB");
            let phases = at("phase_1_s", small) + at("phase_2_s", small);
            assert!((phases - at("io_s", small)).abs() < 1e-6);
        }
    }
    let written = |x| value(&first, "flash.hybrid_hash.written_gib", x);
    assert!(written(small) > 1.2 * written(large), "what stays in memory is not written");
}

#[test]
fn joins_tell_what_their_drive_used() {
    let folder = tempfile::tempdir().unwrap();
    let measure = format!("{JOIN}{CPU}");
    let told = outcome(folder.path(), &measure, FLASH);
    assert!(!told.energy.is_empty());
    for step in &told.energy {
        // ocz-core: 0.5 W idle and 2 W while it works.
        let watts = step.energy.mean_watts.unwrap();
        assert!((0.5..2.0).contains(&watts), "{}: {watts} W", step.step);
    }
    let without = FLASH.replace("ocz-core", "toshiba-320");
    assert!(outcome(folder.path(), &measure, &without).energy.is_empty(), "it tells none");
}

#[test]
fn requests_of_a_page_are_as_many_as_pages_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let measure = JOIN.replace("page_over = 2", "requests = 'pages'");
    let measure = measure.replace("\"8MiB\", ", "");
    let found = outcome(folder.path(), &measure, FLASH);
    let at = |metric: &str| {
        value(&found, &format!("flash.block_nested_loops.{metric}"), f64::from(16 << 20))
    };
    let pages = at("read_gib") * f64::from(1 << 30) / 8192.0 / 1000.0;
    assert!((at("reads") - pages).abs() < pages / 100.0, "{} requests, {pages} pages", at("reads"));
    assert_eq!(at("cpu_s"), 0.0, "no model, no time");
}

#[test]
fn joins_on_the_local_disk_take_time_of_processor_and_disk() {
    let folder = tempfile::tempdir().unwrap();
    let found = outcome(folder.path(), JOIN, HERE);
    let at =
        |metric: &str| value(&found, &format!("here.hybrid_hash.{metric}"), f64::from(16 << 20));
    assert!(at("io_s") > 0.0 && at("total_s") >= at("io_s"));
    assert!(found.series.iter().all(|series| !series.name.contains("model")));
}

#[test]
fn index_joins_take_longer_the_more_qualifies_and_agree_with_the_hash_join() {
    let folder = tempfile::tempdir().unwrap();
    let drives = "[measure.drives.flash]\nbase = 'sim:device-a'\ncapacity = '64MiB'\n";
    let found = outcome(folder.path(), INDEX_JOIN, &format!("{drives}{HERE}"));
    for layout in ["queue", "tree"] {
        for join in ["inl_s", "ism_s", "hash_s"] {
            let at = |x| value(&found, &format!("flash.{layout}.{join}"), x);
            assert!(at(20.0) > at(1.0), "{layout} {join}");
            assert!(value(&found, &format!("here.{layout}.{join}"), 1.0) > 0.0);
        }
        let at = |join: &str| value(&found, &format!("flash.{layout}.{join}"), 1.0);
        assert!(at("ism_s") < at("hash_s"), "few rows are found by index");
    }
}

#[test]
fn joins_that_fetch_late_read_less_the_less_qualifies_and_agree_with_the_hash_joins() {
    let folder = tempfile::tempdir().unwrap();
    let measure = "kind = 'late_join'\nscale_factor = 0.01\nmemory = '1MiB'\npage_bytes = '4KiB'\n\
                   span_pages = 18\nshares = [0.1, 100]\n";
    let drives = "[measure.drives.flash]\nbase = 'sim:device-a'\ncapacity = '64MiB'\n";
    let found = outcome(folder.path(), measure, &format!("{drives}{HERE}"));
    let at = |name: &str, share: f64| value(&found, name, share);
    for join in ["flash", "rare"] {
        let pages = format!("flash.pages.{join}");
        assert!(at(&pages, 0.1) * 1.2 < at(&pages, 100.0), "{join}");
        assert!(at(&format!("here.time_s.{join}"), 100.0) > 0.0);
    }
    assert!(at("flash.pages.columns", 0.1) < at("flash.pages.rows", 0.1), "some columns of all");
    assert!(at("flash.time_s.flash", 0.1) < at("flash.time_s.rows", 0.1), "few rows are fetched");
}

const SMALL_FLASH: &str = "[measure.drives.flash]\nbase = 'sim:device-a'\ncapacity = '64MiB'\n";

#[test]
fn the_processor_takes_nothing_or_what_is_measured_or_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let x = f64::from(16 << 20);
    let measure = JOIN.replace("\"8MiB\", ", "");
    let found = |cpu: &str| outcome(folder.path(), &format!("{measure}{cpu}"), FLASH);
    let (none, measured) = (found("cpu = 'none'\n"), found("cpu = 'measured'\n"));
    let modelled = found(CPU);
    for join in ["block_nested_loops", "sort_merge", "grace_hash", "hybrid_hash"] {
        let of = |found: &Outcome, metric: &str| value(found, &format!("flash.{join}.{metric}"), x);
        assert_eq!(of(&none, "cpu_s"), 0.0);
        let sum = of(&measured, "io_s") + of(&measured, "user_s") + of(&measured, "kernel_s");
        assert!((of(&measured, "total_s") - sum).abs() < 1e-6, "{join}");
        assert!(of(&measured, "cpu_s") > 0.0 && of(&measured, "cpu_s") != of(&modelled, "cpu_s"));
        assert_eq!(of(&none, "io_s"), of(&measured, "io_s"), "the drive stands still meanwhile");
    }
    // Joins by index take the same key.
    let found = |cpu: &str| outcome(folder.path(), &format!("{INDEX_JOIN}{cpu}"), SMALL_FLASH);
    let (none, measured, modelled) = (found(""), found("cpu = 'measured'\n"), found(CPU));
    assert_eq!(modelled.series, found(CPU).series, "what is modelled is bit-identical");
    for join in ["inl_s", "ism_s", "hash_s"] {
        let of = |found: &Outcome| value(found, &format!("flash.queue.{join}"), 20.0);
        assert!(of(&measured) > of(&none), "{join}");
        assert!(of(&modelled) > of(&none), "{join}");
    }
}

/// Somebody who asks the run to stop by one of the two ways that there are.
#[derive(Default)]
struct Stopper {
    flag: Arc<AtomicBool>,
    /// Which question for cancellation is answered with yes, and no other.
    yes_at: Option<u32>,
    asked: Cell<u32>,
}

impl Observer for Stopper {
    fn progress(&mut self, _fraction: f64, _what: &str) {}
    fn is_cancelled(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        Some(self.asked.get()) == self.yes_at
    }
}

impl RunObserver for Stopper {
    fn step_started(&mut self, _index: usize, _count: usize, _label: &str, _resumed: bool) {}
    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

#[test]
fn a_join_that_runs_stops_at_its_next_block() {
    for measure in [JOIN, INDEX_JOIN] {
        let folder = tempfile::tempdir().unwrap();
        // Nothing but the join itself looks at the flag.
        let mut stopper = Stopper { flag: Arc::new(AtomicBool::new(true)), ..Stopper::default() };
        let drives = if measure == JOIN { FLASH } else { SMALL_FLASH };
        let ended = watched(folder.path(), measure, drives, &mut stopper);
        assert!(matches!(ended, Err(LabError::Cancelled { .. })), "{measure}");
    }
}

#[test]
fn a_load_before_the_joins_stops_when_asked_to() {
    for measure in [JOIN, INDEX_JOIN] {
        let folder = tempfile::tempdir().unwrap();
        // A directory is not filled first, so at most two questions come before the load. Were there none in
        // it, the flag would end the first join before there is a third.
        let flag = Arc::new(AtomicBool::new(true));
        let mut stopper = Stopper { flag, yes_at: Some(3), ..Stopper::default() };
        let ended = watched(folder.path(), measure, HERE, &mut stopper);
        assert!(matches!(ended, Err(LabError::Cancelled { .. })), "{measure}");
        assert_eq!(stopper.asked.get(), 3, "{measure}");
    }
}
