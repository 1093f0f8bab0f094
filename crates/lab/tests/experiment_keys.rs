//! `docs/experiments.md` has each key that the parser of experiments knows, and no other: the parser is
//! asked, section by section, what it would have known in place of a key that it does not. The example
//! of the document runs.

use nandu_lab::{Experiment, RunOptions, Unwatched, run, shape};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const HEAD: &str = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n";

/// Sections of the document about a table within a kind of measurement: heading, kind, and where the
/// table stands in the file.
const INNER: [(&str, &str, &str); 36] = [
    ("clients: measure.variants.NAME", "clients", "[measure.variants.n]"),
    ("measure.simulated", "closed_form", "[measure.simulated]"),
    ("measure.cases.NAME", "dispersal", "[measure.cases.n]"),
    (
        "measure.members.NAME with kind = \"flash\"",
        "dispersal",
        "[measure.members.n]\nkind = 'flash'",
    ),
    (
        "measure.members.NAME with kind = \"disk\"",
        "dispersal",
        "[measure.members.n]\nkind = 'disk'",
    ),
    ("measure.arrays.NAME", "dispersal", "[measure.arrays.n]"),
    ("measure.placements.NAME", "bfs_placement", "[measure.placements.n]"),
    ("measure.measured.NAME", "energy", "[measure.measured.n]"),
    ("five_minutes: measure.drives.NAME", "five_minutes", "[measure.drives.n]"),
    ("measure.memories.NAME", "five_minutes", "[measure.memories.n]"),
    ("money: measure.drives.NAME", "money", "[measure.drives.n]"),
    ("measure.quotients.NAME", "money", "[measure.quotients.n]"),
    ("measure.lives.NAME", "money", "[measure.lives.n]"),
    ("measure.arrays.NAME.coding", "dispersal", "[measure.arrays.n.coding]"),
    ("file_system: measure.variants.NAME", "file_system", "[measure.variants.n]"),
    ("measure.formulas.NAME", "file_system", "[measure.formulas.n]"),
    ("jobs: measure.sweep", "jobs", "[measure.sweep]"),
    ("log_devices: measure.variants.NAME", "log_devices", "[measure.variants.n]"),
    ("jobs: measure.variants.NAME", "jobs", "[measure.variants.n]"),
    ("methods: measure.variants.NAME", "methods", "[measure.variants.n]"),
    ("measure.axes.NAME", "methods", "[measure.axes.n]"),
    ("propagation: measure.variants.NAME", "propagation", "[measure.variants.n]"),
    ("measure.variants.NAME.log_structured", "propagation", "[measure.variants.n.log_structured]"),
    ("measure.device", "shifting", "[measure.device]"),
    ("simulation: measure.sweep", "simulation", "[measure.sweep]"),
    ("simulation: measure.variants.NAME", "simulation", "[measure.variants.n]"),
    ("measure.rows", "tpcc", "[measure.rows]"),
    ("tpox: measure.variants.NAME", "tpox", "[measure.variants.n]"),
    ("tree_maintenance: measure.variants.NAME", "tree_maintenance", "[measure.variants.n]"),
    ("measure.scale", "probe", "[measure.scale]"),
    ("measure.scale", "tour", "[measure.scale]"),
    ("measure.scale.disk_file", "probe", "[measure.scale.disk_file]"),
    ("Drives of the experiment's own", "aging", "[measure.drives.n]"),
    ("Drives under a database", "restart", "[measure.drives.n]"),
    ("Page cache", "restart", "[measure.drives.n.page_cache]"),
    ("The processor", "join", "[measure.cpu.modelled]"),
];

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    fs::read_to_string(path).expect("the document is there")
}

/// The text of each section, by its heading.
fn sections(document: &str) -> BTreeMap<String, String> {
    let mut sections = BTreeMap::new();
    let mut heading = String::new();
    for line in document.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
        }
        let text: &mut String = sections.entry(heading.clone()).or_default();
        text.push_str(line);
        text.push('\n');
    }
    sections
}

/// The keys of the table of a section.
fn documented(section: &str) -> Vec<String> {
    let table = section.lines().skip_while(|line| !line.starts_with("| key |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let mut keys: Vec<String> =
        rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect();
    keys.sort();
    keys
}

/// What the parser would have known in place of `zzz`, which it names with the place in the file.
fn known(text: &str) -> Vec<String> {
    let error = Experiment::parse("x", "x.toml", text).expect_err("zzz is no key").to_string();
    // A key stands before that, where it is a value that nobody knows.
    let (_, said) = error.split_once("unknown").unwrap_or_else(|| panic!("{text}\n{error}"));
    let said = said.split("; did you mean").next().unwrap_or_default();
    let mut names: Vec<String> =
        said.split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect();
    names.sort();
    names
}

/// All sections with a table of keys, and the keys that the parser knows there.
fn expected() -> BTreeMap<String, Vec<String>> {
    let mut expected = BTreeMap::new();
    let mut add = |heading: &str, keys: Vec<String>| {
        let before = expected.insert(heading.to_owned(), keys.clone());
        assert!(before.is_none_or(|before| before == keys), "{heading} has two lists of keys");
    };
    add("The file", known(&format!("{HEAD}zzz = 1\n")));
    for (heading, table) in [
        ("derived", "[[derived]]"),
        ("published", "[[published]]"),
        ("figure", "[[figure]]"),
        ("bars and table", "[[bars]]"),
        ("bars and table", "[[table]]"),
    ] {
        add(heading, known(&format!("{HEAD}{table}\nzzz = 1\n")));
    }
    add("Axis", known(&format!("{HEAD}[[figure]]\nx = {{ zzz = 1 }}\n")));
    let mut standing: Vec<String> = shape::STANDING_KEYS.iter().map(|&key| key.into()).collect();
    standing.push(shape::FULL_KEY.into());
    standing.sort();
    add("shape", standing);
    for claim in known(&format!("{HEAD}[[shape]]\nclass = 'own'\nkind = 'zzz'\n")) {
        add(&claim, known(&format!("{HEAD}[[shape]]\nclass = 'own'\nkind = '{claim}'\nzzz = 1\n")));
    }
    for kind in known(&format!("{HEAD}[measure]\nkind = 'zzz'\n")) {
        add(&kind, known(&format!("{HEAD}[measure]\nkind = '{kind}'\nzzz = 1\n")));
    }
    for (heading, kind, table) in INNER {
        add(heading, known(&format!("{HEAD}[measure]\nkind = '{kind}'\n{table}\nzzz = 1\n")));
    }
    expected
}

#[test]
fn the_document_has_each_key_that_the_parser_knows_and_no_other() {
    let document = document();
    let sections = sections(&document);
    let expected = expected();
    assert!(expected.len() > 50, "{} tables", expected.len());
    for (heading, keys) in &expected {
        let section = sections.get(heading).unwrap_or_else(|| panic!("no section `{heading}`"));
        assert_eq!(documented(section), *keys, "section `{heading}`");
    }
    for (heading, section) in &sections {
        if section.contains("| key |") {
            assert!(expected.contains_key(heading), "nobody checks section `{heading}`");
        }
    }
}

#[test]
fn the_document_has_each_word_that_a_key_takes() {
    let document = document();
    let sections = sections(&document);
    for (heading, lines) in [
        ("jobs", "metrics = ['zzz']"),
        ("simulation", "metrics = ['zzz']"),
        ("simulation", "closed_curves = ['zzz']"),
        ("index_join", "layouts = ['zzz']"),
        ("clients", "distribution = 'zzz'"),
        ("join", "joins = ['zzz']"),
        ("join", "requests = 'zzz'"),
        ("shifting", "reading = 'zzz'"),
    ] {
        for word in known(&format!("{HEAD}[measure]\nkind = '{heading}'\n{lines}\n")) {
            let place = if lines.starts_with("reading") { "measure.arrays.NAME" } else { heading };
            let is_there = sections[place].contains(&format!("`{word}`"));
            assert!(is_there, "`{word}` is missing in section `{place}`");
        }
    }
}

#[test]
fn the_example_of_the_document_runs_and_its_shape_holds() {
    let document = document();
    let fence = document.split("```toml\n").nth(1).expect("an example");
    let text = fence.split("```").next().expect("its end");
    let example = Experiment::parse("example", "example.toml", text).expect("it is valid");
    let folder = tempfile::tempdir().expect("a scratch folder");
    let outcome = run(&example, &RunOptions::new(folder.path()), &mut Unwatched).expect("it runs");
    assert!(outcome.holds(), "{:?}", outcome.verdicts);
    assert_eq!(outcome.figures[0].traces.len(), 2);
}
