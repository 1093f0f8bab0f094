//! The report over the results that the repository keeps: read back, measured, and asked what is stale.

use nandu_lab::report::found::{Found, State, newest_machine, results_below};
use nandu_lab::report::html::{page, pictures};
use nandu_lab::{points, write_report};
use std::fs;
use std::path::{Path, PathBuf};

/// Telephones load this much in a moment.
const PAGE_BYTES_MAX: usize = 1_500_000;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/amd-epyc-2core")
}

fn found() -> Vec<Found> {
    results_below(&kept()).expect("kept results are read").results
}

#[test]
fn the_page_over_all_kept_results_is_small_and_well_formed() {
    let found = found();
    assert!(found.len() > 45, "{}", found.len());
    let html = page(&found);
    assert!(html.len() < PAGE_BYTES_MAX, "{} bytes", html.len());
    let body = html.trim_start_matches("<!doctype html>");
    let document = roxmltree::Document::parse(body).expect("well-formed");
    let sections = document.descendants().filter(|node| node.has_tag_name("section")).count();
    assert_eq!(sections, found.len());
    let mut ids: Vec<&str> =
        document.descendants().filter_map(|node| node.attribute("id")).collect();
    let id_count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), id_count, "each link has one target");
}

#[test]
fn every_axis_of_every_kept_figure_has_three_labels() {
    let pictures = pictures(&found());
    assert!(pictures.len() > 60, "{}", pictures.len());
    for (name, svg) in pictures {
        let picture = roxmltree::Document::parse(&svg).expect("well-formed");
        let count = |class: &str| {
            picture.descendants().filter(|node| node.attribute("class") == Some(class)).count()
        };
        let is_of_bars = count("row") > 0;
        assert!(count("x") >= 3, "{name}: {} labels below", count("x"));
        assert!(is_of_bars || count("y") >= 3, "{name}: {} labels at the side", count("y"));
    }
}

#[test]
fn hollow_markers_are_explained_where_there_are_some() {
    let (with, without): (Vec<Found>, Vec<Found>) = found().into_iter().partition(|found| {
        let figures = &found.outcome.figures;
        !figures.is_empty() || found.outcome.grids.iter().any(|grid| grid.bars)
    });
    let lead = |runs: &[Found]| {
        let html = page(runs);
        let start = html.find("<p class=\"lead\">").expect("it has a lead");
        let end = html[start..].find("</p>").expect("it ends");
        html[start..start + end].to_owned()
    };
    let said = lead(&with);
    assert!(said.contains(" figures. Hollow markers"), "{said}");
    let said = lead(&without[..1]);
    assert!(said.ends_with(">1 experiment."), "{said}");
}

#[test]
fn the_report_opens_with_what_papers_lead_with_and_nandu_misses() {
    let html = page(&found());
    let lists: Vec<&str> = html.split("<details class=\"missed\"").skip(1).collect();
    let [first, second] = lists[..] else { panic!("{} lists", lists.len()) };
    assert!(
        first
            .starts_with(" open=\"open\"><summary>What papers lead with and nandu does not find: ")
    );
    assert!(second.starts_with("><summary>What else the papers found and nandu does not: "));
    let first = first.split("</details>").next().unwrap();
    for experiment in ["s000-figure-4-1", "s000-figure-8-4", "s002-figure-3-3", "s003-table-2"] {
        assert!(first.contains(&format!("#e-{experiment}")), "{experiment}");
    }
    assert!(first.contains("</a>, at the scale of the paper: "));
    let before = html.split("<details class=\"missed\"").next().unwrap();
    assert!(!before.contains("class=\"verdicts\"") && !before.contains("class=\"stale\""));
}

#[test]
fn the_list_of_experiments_has_a_bound_where_it_stands_above_all_else() {
    let html = page(&found());
    let narrow = html.split("@media (max-width: 60rem)").nth(1).expect("there is such a rule");
    let rule = narrow.split("nav {").nth(1).unwrap().split('}').next().unwrap();
    assert!(rule.contains("position: static") && rule.contains("max-height: "), "{rule}");
}

#[test]
fn a_method_of_several_paragraphs_is_several_paragraphs() {
    let html = html_of_methods();
    assert!(html.len() > 45, "{}", html.len());
    assert!(html.iter().any(|method| method.matches("<p>").count() > 2));
    assert!(html.iter().all(|method| !method.contains("\n\n")));
}

/// What stands in each experiment's block of method.
fn html_of_methods() -> Vec<String> {
    let html = page(&found());
    let blocks = html.split("<div class=\"method\">").skip(1);
    blocks.map(|block| block.split("</div>").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_published_point_of_every_experiment_is_in_its_series_csv() {
    let mut point_count = 0;
    for Found { outcome, .. } in found() {
        let csv = points::to_csv(&outcome);
        for published in &outcome.published {
            let of_series: Vec<Vec<&str>> = csv
                .lines()
                .map(|line| line.split(',').collect::<Vec<_>>())
                .filter(|fields| fields[0] == published.series)
                .collect();
            for (x, value) in &published.points {
                let is_there = of_series.iter().any(|fields| {
                    let number = |field: usize| fields[field].parse::<f64>().ok();
                    let near = |at: f64| (at - x.0).abs() <= 1e-6 * at.abs().max(1e-3);
                    number(1).is_some_and(near) && number(5) == Some(*value)
                });
                assert!(is_there, "{} {} at {}", outcome.experiment, published.series, x.0);
                point_count += 1;
            }
        }
    }
    assert!(point_count > 300, "{point_count}");
}

/// A copy of the kept results of an experiment, in `<folder>/results/machine`.
fn copy(folder: &Path, name: &str) -> PathBuf {
    let target = folder.join("results/machine").join(name);
    fs::create_dir_all(&target).expect("a scratch folder");
    for file in ["series.csv", "meta.json"] {
        fs::copy(kept().join(name).join(file), target.join(file)).expect("a kept file");
    }
    target
}

fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("a copied file");
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replacen(from, to, 1)).expect("a copied file");
}

#[test]
fn what_the_experiment_does_not_ask_any_more_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let place = copy(folder.path(), "s000/table-3-1");
    let machine = newest_machine(&folder.path().join("results")).unwrap();
    assert!(machine.ends_with("machine"));
    let state = || results_below(&machine).unwrap().results[0].state.clone();
    let [csv, meta] = ["series.csv", "meta.json"].map(|file| place.join(file));
    let stale_because = |words: &str| match state() {
        State::Stale(why) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    };
    let before = fs::read_to_string(&csv).unwrap();
    assert!(!matches!(state(), State::Stale(_) | State::Unknown), "{:?}", state());
    change(&csv, "device-a.random_read,", "device-a.random_red,");
    stale_because("no series device-a.random_red");
    fs::write(&csv, before).unwrap();
    change(&meta, "\"config_hash\": \"", "\"config_hash\": \"0");
    stale_because("has changed");
    let report = write_report(&machine).unwrap();
    assert_eq!(report.stale[0].0, "s000/table-3-1");
    let html = fs::read_to_string(report.path).unwrap();
    assert!(html.contains("Stale: "));
}

#[test]
fn results_of_two_machines_are_told_apart_and_what_has_no_experiment_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    copy(folder.path(), "s000/table-3-1");
    let results = folder.path().join("results");
    fs::rename(results.join("machine"), results.join("first")).unwrap();
    copy(folder.path(), "s000/table-3-1");
    let other = copy(folder.path(), "s000/table-3-2");
    fs::rename(&other, other.with_file_name("nobody-knows")).unwrap();
    let found = results_below(&results).unwrap();
    let names: Vec<&str> =
        found.results.iter().map(|found| found.outcome.experiment.as_str()).collect();
    assert_eq!(names, ["first/s000/table-3-1", "machine/s000/table-3-1"]);
    assert!(found.skipped[0].0.ends_with("nobody-knows"));
}

#[test]
fn what_the_document_says_of_many_clients_is_what_is_kept() {
    let path = kept().join("clients/lookups/series.csv");
    let text = fs::read_to_string(&path).expect("it is kept");
    let series = points::from_csv(&path, &text).expect("it is ours");
    let value = |name: &str, x: f64| {
        let series = series.iter().find(|series| series.name == format!("nvme.{name}"));
        series.and_then(|series| series.at(x)).unwrap_or_else(|| panic!("{name} at {x}"))
    };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench.md");
    let document = fs::read_to_string(document).expect("the document is there");
    let table = document.split("<!-- lookups:begin -->").nth(1).expect("a table");
    let table = table.split("<!-- lookups:end -->").next().expect("its end");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
    let mut row_count = 0;
    for row in rows {
        let cells: Vec<f64> =
            row.split('|').filter_map(|cell| cell.trim().replace(',', "").parse().ok()).collect();
        let x = cells[0];
        let names = ["free.operations_s", "free.misses", "page_reads_s", "free.of_page_reads"];
        for ((name, cell), digits) in names.iter().zip(&cells[1..]).zip([0, 2, 0, 2]) {
            assert_eq!(format!("{cell:.digits$}"), format!("{:.digits$}", value(name, x)), "{row}");
        }
        row_count += 1;
    }
    assert_eq!(row_count, 4);
    let words = document.split_whitespace().collect::<Vec<_>>().join(" ");
    let three = |name: &str| {
        let of = |cores: u32| format!("{:.2}", value(&format!("cores{cores}.{name}"), 0.0));
        format!("{}, {} and {}", of(1), of(2), of(4))
    };
    let (bend, expected) = (three("bend"), three("expected_bend"));
    let sentence = format!("Measured at {bend} clients on 1, 2 and 4 cores, foretold {expected}");
    assert!(words.contains(&sentence), "{sentence}");
}
