//! Runs of small experiments: same seed same bytes, stops and resumes, failing devices, reports.

use nandu_device::{Device, FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice};
use nandu_lab::{
    Experiment, LabError, LocalTarget, Outcome, RunObserver, RunOptions, Unwatched, run, run_seeds,
    write_report,
};
use nandu_probe::Observer;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DISK: &str = r#"
title = "A <disk> & its \"sizes\""
question = "How fast is it?"
method = "Few requests."
paper = "-"
reference = "none"

[measure]
kind = "probe"
devices = ["DEVICE"]
request_bytes = ["4KiB", "64KiB"]

[measure.scale]
flash_capacity = "8MiB"
disk_capacity = "1GB"
request_count = 50
point_bytes = "4MiB"

[[published]]
series = "NAME.random_read"
source = "[S] S000 </script><script>alert(1)</script>"
unit = "MB/s"
points = [["4KiB", 0.3]]

[[figure]]
title = "Throughput"
x = { label = "request size", unit = "B", log = true }
y = { label = "throughput", unit = "MB/s", log = true }
series = ["*.random_read", "*.sequential_read"]

[[bars]]
title = "Bars"
value = { label = "throughput", unit = "MB/s" }
rows = ["random_read", "sequential_read"]
columns = ["NAME"]
cell = "{column}.{row}"
at = "4KiB"

[[table]]
title = "Table"
value = { label = "throughput", unit = "MB/s" }
rows = ["random_read", "random_write"]
columns = ["NAME"]
cell = "{column}.{row}"
at = "4KiB"

[[shape]]
class = "prediction"
kind = "ratio_to_published"
series = "NAME.random_read"

[[shape]]
class = "own"
kind = "ordering"
above = "NAME.sequential_read"
below = "NAME.random_read"
at = "4KiB"
"#;

fn experiment(device: &str) -> Experiment {
    let name = device.strip_prefix("sim:").unwrap_or(device);
    let text = DISK.replace("DEVICE", device).replace("NAME", name);
    Experiment::parse("test/disk", "disk.toml", &text).expect("the experiment is valid")
}

fn files(folder: &Path) -> [Vec<u8>; 3] {
    let folder = folder.join("test/disk");
    ["outcome.json", "series.csv", "table.md"]
        .map(|file| fs::read(folder.join(file)).expect("a finished run leaves the file"))
}

/// Counts questions for cancellation, and says yes from the given one on.
#[derive(Default)]
struct Impatient {
    steps_allowed: usize,
    steps_started: usize,
    resumed_count: usize,
    stop: Arc<AtomicBool>,
}

impl Observer for Impatient {
    fn progress(&mut self, _fraction: f64, _what: &str) {}
    fn is_cancelled(&self) -> bool {
        self.steps_started > self.steps_allowed
    }
}

impl RunObserver for Impatient {
    fn step_started(&mut self, _index: usize, _count: usize, _label: &str, resumed: bool) {
        self.steps_started += 1;
        self.resumed_count += usize::from(resumed);
        self.stop.store(self.is_cancelled(), Ordering::Relaxed);
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let experiment = experiment("sim:wd2000jb");
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let runs = folders.each_ref().map(|folder| {
        run(&experiment, &RunOptions::new(folder.path()), &mut Unwatched).unwrap();
        files(folder.path())
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn another_seed_is_another_configuration() {
    let experiment = experiment("sim:wd2000jb");
    let folder = tempfile::tempdir().unwrap();
    let mut options = RunOptions::new(folder.path());
    let first = run(&experiment, &options, &mut Unwatched).unwrap();
    options.seed = 2;
    let mut observer = Impatient { steps_allowed: 9, ..Impatient::default() };
    let second = run(&experiment, &options, &mut observer).unwrap();
    assert_eq!(observer.resumed_count, 0);
    assert_ne!(first.config_hash, second.config_hash);
    assert_ne!(first.series, second.series);
}

#[test]
fn a_stopped_run_resumes_to_the_bytes_of_an_uninterrupted_one() {
    let experiment = experiment("sim:wd2000jb");
    let whole = tempfile::tempdir().unwrap();
    run(&experiment, &RunOptions::new(whole.path()), &mut Unwatched).unwrap();
    for steps_allowed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let options = RunOptions::new(folder.path());
        let mut observer = Impatient { steps_allowed, ..Impatient::default() };
        let error = run(&experiment, &options, &mut observer).unwrap_err();
        assert!(
            matches!(error, LabError::Cancelled { finished_count, step_count: 4 }
                if finished_count == steps_allowed),
            "{error}"
        );
        assert!(!folder.path().join("test/disk/outcome.json").exists());
        let mut observer = Impatient { steps_allowed: 9, ..Impatient::default() };
        run(&experiment, &options, &mut observer).unwrap();
        assert_eq!(observer.resumed_count, steps_allowed);
        assert_eq!(files(folder.path()), files(whole.path()));
    }
}

#[test]
fn a_damaged_step_is_measured_again() {
    let experiment = experiment("sim:wd2000jb");
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions::new(folder.path());
    run(&experiment, &options, &mut Unwatched).unwrap();
    let before = files(folder.path());
    fs::write(folder.path().join("test/disk/steps/002.json"), "{ half").unwrap();
    let mut observer = Impatient { steps_allowed: 9, ..Impatient::default() };
    run(&experiment, &options, &mut observer).unwrap();
    assert_eq!(observer.resumed_count, 3);
    assert_eq!(files(folder.path()), before);
}

fn memory() -> MemoryDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: 16_384 };
    MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() })
}

fn run_local(
    folder: &Path,
    open: impl Fn() -> Result<Box<dyn Device>, String>,
) -> Result<Outcome, LabError> {
    let mut options = RunOptions::new(folder);
    options.local =
        Some(LocalTarget { name: "memory".into(), open: Box::new(open), directory: folder.into() });
    run(&experiment("local"), &options, &mut Unwatched)
}

#[test]
fn a_device_that_fails_in_mid_run_keeps_the_finished_steps() {
    let folder = tempfile::tempdir().unwrap();
    let error = run_local(folder.path(), || {
        let plan = FaultPlan { fail_requests: [250].into(), ..FaultPlan::default() };
        Ok(Box::new(FaultyDevice::new(memory(), plan)))
    })
    .unwrap_err();
    assert!(error.to_string().starts_with("step `local.sequential_write`"), "{error}");
    let steps = folder.path().join("test/disk/steps");
    assert!(steps.join("001.json").exists());
    assert!(!steps.join("002.json").exists());
    run_local(folder.path(), || Ok(Box::new(memory()))).unwrap();
}

#[test]
fn a_device_that_cannot_be_opened_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let error = run_local(folder.path(), || Err("no space is left".into())).unwrap_err();
    assert!(error.to_string().contains("no space is left"), "{error}");
}

#[test]
fn without_a_local_device_its_series_are_absent_and_shapes_about_it_fail() {
    let folder = tempfile::tempdir().unwrap();
    let outcome =
        run(&experiment("local"), &RunOptions::new(folder.path()), &mut Unwatched).unwrap();
    assert!(outcome.series.is_empty());
    assert_eq!(outcome.notes.len(), 1);
    assert!(!outcome.holds());
}

#[test]
fn verdicts_go_by_several_seeds_and_series_by_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment("sim:device-a");
    let options = RunOptions::new(folder.path());
    let several = run_seeds(&experiment, &options, 3, &mut Unwatched).unwrap();
    assert_eq!(several.seeds, [1, 2, 3]);
    let mut second = RunOptions::new(folder.path().join("alone"));
    second.seed = 2;
    let alone = [
        run(&experiment, &RunOptions::new(folder.path().join("first")), &mut Unwatched).unwrap(),
        run(&experiment, &second, &mut Unwatched).unwrap(),
    ];
    assert_eq!(several.series, alone[0].series);
    let by_seed = several.verdicts[1].decided.clone().unwrap().by_seed;
    let ratio = |outcome: &Outcome| {
        let at = |name: &str| outcome.series(name).unwrap().at(4096.0).unwrap();
        at("device-a.sequential_read") / at("device-a.random_read")
    };
    assert_eq!(by_seed.len(), 3);
    assert_eq!(by_seed[..2], [ratio(&alone[0]), ratio(&alone[1])]);
    let resumed = run_seeds(&experiment, &options, 3, &mut Unwatched).unwrap();
    assert_eq!(resumed, several);
}

#[test]
fn what_is_not_random_runs_twice_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n[measure]\n\
                kind = 'closed_form'\nread_us = 20\nwrite_us = 200\nerase_us = 1500\n\
                erase_block_page_count = 64\nlive_fractions = [0.5]\n";
    let experiment = Experiment::parse("test/form", "form.toml", text).unwrap();
    let seeds = run_seeds(&experiment, &RunOptions::new(folder.path()), 9, &mut Unwatched);
    assert_eq!(seeds.unwrap().seeds, [1, 2]);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = run(&experiment("local"), &RunOptions::new(&file), &mut Unwatched).unwrap_err();
    assert!(error.to_string().starts_with("cannot create"), "{error}");
}

fn report_of(folder: &Path) -> String {
    let options = RunOptions::new(folder);
    run(&experiment("sim:wd2000jb"), &options, &mut Unwatched).expect("the drive is simulated");
    let report = write_report(folder).expect("there is a result");
    fs::read_to_string(report.path).expect("the page was written")
}

#[test]
fn the_report_is_one_file_that_fetches_nothing_and_escapes_everything() {
    let folder = tempfile::tempdir().unwrap();
    let html = report_of(folder.path());
    assert!(html.contains("default-src 'none'"));
    for fetch in ["<script", "<link", "<img", "<iframe", "@import", "href=\"http", "url("] {
        assert!(!html.contains(fetch), "{fetch}");
    }
    assert!(html.contains("A &lt;disk&gt; &amp; its &quot;sizes&quot;"));
    assert!(html.contains("request size"));
}

/// Texts of the elements of a document whose class is `class`.
fn texts<'a>(document: &'a roxmltree::Document<'_>, class: &str) -> Vec<&'a str> {
    let nodes = document.descendants().filter(|node| node.attribute("class") == Some(class));
    nodes.filter_map(|node| node.text()).collect()
}

#[test]
fn the_page_is_well_formed_and_its_shapes_come_after_its_figures_by_class() {
    let folder = tempfile::tempdir().unwrap();
    let html = report_of(folder.path());
    let page = roxmltree::Document::parse(html.trim_start_matches("<!doctype html>")).unwrap();
    let last_figure = html.rfind("</figure>").unwrap();
    let [prediction, own] = ["1 predictions: ", "1 claims of our own"]
        .map(|words| html.rfind(words).expect("a table for each class"));
    assert!(last_figure < prediction && prediction < own);
    let heads = |head: &str| -> Vec<String> {
        let cells = page.descendants().filter(|node| node.attribute("data-head") == Some(head));
        cells.map(|cell| cell.text().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(heads("at"), ["4 KiB", "4 KiB"]);
    assert_eq!(heads("limits"), ["0.769 to 1.3", "above 1"]);
    assert!(heads("value").iter().all(|value| value.parse::<f64>().is_ok()));
}

#[test]
fn figures_are_files_too_with_three_labels_on_each_axis() {
    let folder = tempfile::tempdir().unwrap();
    report_of(folder.path());
    let read = |name: &str| fs::read_to_string(folder.path().join("figures").join(name)).unwrap();
    for (name, axes) in [("test-disk-1.svg", vec!["x", "y"]), ("test-disk-2.svg", vec!["x"])] {
        let svg = read(name);
        let picture = roxmltree::Document::parse(&svg).expect("well-formed");
        for axis in axes {
            let labels = texts(&picture, axis);
            assert!(labels.len() >= 3, "{name} {axis}: {labels:?}");
        }
    }
    // The hollow marker of the published value says its place and value.
    assert!(read("test-disk-1.svg").contains("<title>4 KiB: 0.30</title>"));
}

#[test]
fn published_values_are_in_series_csv() {
    let folder = tempfile::tempdir().unwrap();
    report_of(folder.path());
    let csv = fs::read_to_string(folder.path().join("test/disk/series.csv")).unwrap();
    let row = csv.lines().find(|row| row.starts_with("wd2000jb.random_read,4096,B,")).unwrap();
    assert!(row.ends_with(",MB/s,0.3"), "{row}");
}

#[test]
fn an_empty_folder_has_nothing_to_report() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_report(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("no results in"), "{error}");
}
