//! The floor table of ARCHITECTURE.md against what cargo knows: the table that a newcomer reads is
//! the rule that holds.
//!
//! 1. Every crate of the workspace has one row, every row a crate.
//! 2. A crate's normal and build dependencies inside the workspace lie on lower floors, and are
//!    those of its row. Dev-dependencies are free.
//! 3. A crate outside the building (`–`) is used by nobody.
//! 4. A crate whose front page says `Floor N:` says the floor of its row.

use super::Problem;
use super::source::{SourceFile, SourceTree};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- floors:begin -->";
const END: &str = "<!-- floors:end -->";

/// One row: `| floor | crate | … | uses |`.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    /// `None` outside the building.
    floor: Option<u32>,
    uses: BTreeSet<String>,
}

/// The part of `cargo metadata` that matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    kind: Option<String>,
    /// Only crates of the workspace have one.
    path: Option<String>,
}

/// Compares the table in `tree` with `metadata`, the JSON that cargo prints.
///
/// # Errors
/// If the metadata is not what cargo prints.
pub(super) fn check(tree: &SourceTree, metadata: &str) -> Result<Vec<Problem>, String> {
    let metadata: Metadata =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let Some(document) = tree.file(DOCUMENT) else {
        let remedy = "write it, with the floor table";
        return Ok(vec![Problem::new(DOCUMENT, 1, "the file is missing", remedy)]);
    };
    let (rows, mut problems) = parse_table(document);
    let edges: BTreeMap<String, BTreeSet<String>> =
        metadata.packages.iter().map(|package| (package.directory(), package.uses())).collect();
    for (name, row) in rows.iter().filter(|(name, _)| !edges.contains_key(*name)) {
        let what = format!("there is no crate `{name}`");
        problems.push(Problem::new(DOCUMENT, row.line, what, "remove the row"));
    }
    problems.extend(rows.iter().flat_map(|(name, row)| check_front_page(tree, name, row)));
    for (name, uses) in &edges {
        match rows.get(name) {
            Some(row) => problems.extend(check_edges(tree, name, row, uses, &rows)),
            None => {
                let what = format!("the floor table has no row for `{name}`");
                problems.push(Problem::new(DOCUMENT, 1, what, "add it, on the lowest floor"));
            }
        }
    }
    Ok(problems)
}

fn check_edges(
    tree: &SourceTree,
    name: &str,
    row: &Row,
    uses: &BTreeSet<String>,
    rows: &BTreeMap<String, Row>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let storey = |floor: Option<u32>| floor.map_or("outside".into(), |it| format!("floor {it}"));
    for used in uses {
        let Some(target) = rows.get(used) else { continue };
        let is_lower = match (row.floor, target.floor) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(own), Some(other)) => other < own,
        };
        if !is_lower {
            let (own, other) = (storey(row.floor), storey(target.floor));
            let what = format!("{name} ({own}) must not use {used} ({other})");
            let remedy = "move what both need to a lower floor";
            let folder = if row.floor.is_some() { "crates/" } else { "" };
            let manifest = format!("{folder}{name}/Cargo.toml");
            let line = tree.file(&manifest).map_or(1, |file| line_of(file, used));
            problems.push(Problem::new(&manifest, line, what, remedy));
        }
    }
    if *uses != row.uses {
        let list =
            |set: &BTreeSet<String>| set.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let what = format!("{name} uses [{}], its row says [{}]", list(uses), list(&row.uses));
        let remedy = "correct the row, in a commit that says why";
        problems.push(Problem::new(DOCUMENT, row.line, what, remedy));
    }
    problems
}

fn check_front_page(tree: &SourceTree, name: &str, row: &Row) -> Option<Problem> {
    let file = ["lib.rs", "main.rs"]
        .into_iter()
        .find_map(|root| tree.file(&format!("crates/{name}/src/{root}")))?;
    let (claim, _) = file.text.lines().next()?.strip_prefix("//! Floor ")?.split_once(':')?;
    let floor = row.floor.map_or("–".into(), |floor| floor.to_string());
    let what = format!("the head says floor {claim}, the floor table {floor}");
    (claim != floor).then(|| Problem::new(&file.path, 1, what, "correct the head"))
}

/// Where a manifest names the crate in directory `used`.
fn line_of(manifest: &SourceFile, used: &str) -> usize {
    let package = format!("nandu-{used}");
    manifest.lines().find(|(_, line)| line.starts_with(&package)).map_or(1, |(number, _)| number)
}

/// The rows between the marks by crate, and what is wrong with the table itself.
fn parse_table(document: &SourceFile) -> (BTreeMap<String, Row>, Vec<Problem>) {
    let mut rows = BTreeMap::new();
    let mut problems = Vec::new();
    let lines: Vec<(usize, &str)> = document
        .lines()
        .skip_while(|(_, line)| line.trim() != BEGIN)
        .take_while(|(_, line)| line.trim() != END)
        .filter(|(_, line)| line.starts_with('|'))
        .skip(2)
        .collect();
    if lines.is_empty() {
        let what = format!("no table stands between {BEGIN} and {END}");
        problems.push(Problem::new(DOCUMENT, 1, what, "put the floor table there"));
    }
    for (number, line) in lines {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let floor = match cells[0] {
            "–" | "-" => Some(None),
            digits => digits.parse().ok().map(Some),
        };
        let (Some(floor), [_, name, _, .., uses]) = (floor, cells.as_slice()) else {
            let what = "not a row `| floor | crate | … | uses |`";
            problems.push(Problem::new(DOCUMENT, number, what, "give a number or – as floor"));
            continue;
        };
        let uses = uses
            .split([' ', ','])
            .map(|name| name.trim_matches('`'))
            .filter(|name| !matches!(*name, "" | "–" | "-" | "std"))
            .map(String::from)
            .collect();
        let name = name.trim_matches('`').to_string();
        if rows.insert(name.clone(), Row { line: number, floor, uses }).is_some() {
            let what = format!("`{name}` has two rows");
            problems.push(Problem::new(DOCUMENT, number, what, "remove one"));
        }
    }
    (rows, problems)
}

impl Package {
    /// The name of its directory, by which the table knows it.
    fn directory(&self) -> String {
        let directory = self.manifest_path.trim_end_matches("/Cargo.toml");
        last_part(directory)
    }

    /// Directories of the workspace crates that it is built with.
    fn uses(&self) -> BTreeSet<String> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .filter_map(|dependency| dependency.path.as_deref().map(last_part))
            .collect()
    }
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A crate with its dependencies, each of a kind.
    type Crate<'a> = (&'a str, &'a [(Option<&'a str>, &'a str)]);

    /// What check says of a table with `rows`.
    fn problems_of(rows: &str, crates: &[Crate<'_>]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let table = format!(
            "# Title\n{BEGIN}\n| floor | crate | what | uses |\n|---|---|---|---|\n{rows}\n{END}\n"
        );
        std::fs::write(directory.path().join(DOCUMENT), table).unwrap();
        let packages: Vec<_> = crates
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(
                        |(kind, name)| json!({ "kind": kind, "path": format!("/r/crates/{name}") }),
                    )
                    .chain([json!({ "kind": null, "path": null })])
                    .collect();
                let manifest_path = format!("/r/crates/{name}/Cargo.toml");
                json!({ "manifest_path": manifest_path, "dependencies": dependencies })
            })
            .collect();
        let tree = SourceTree::load(directory.path()).unwrap();
        let problems = check(&tree, &json!({ "packages": packages }).to_string()).unwrap();
        problems.iter().map(ToString::to_string).collect()
    }

    const ROWS: &str =
        "| 0 | `base` | units | std |\n| 1 | nand | chips | base |\n| – | xtask | chores | – |";

    #[test]
    fn a_table_that_agrees_with_cargo_passes() {
        let crates: &[Crate<'_>] = &[("base", &[]), ("nand", &[(None, "base")]), ("xtask", &[])];
        assert_eq!(problems_of(ROWS, crates), Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_and_a_level_edge_are_refused() {
        let found = problems_of(
            "| 0 | base | units | nand |\n| 1 | nand | chips | device |\n| 1 | device | io | – |",
            &[("base", &[(None, "nand")]), ("nand", &[(Some("build"), "device")]), ("device", &[])],
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("base (floor 0) must not use nand (floor 1)"));
        assert!(found[1].contains("nand (floor 1) must not use device (floor 1)"));
    }

    #[test]
    fn dev_dependencies_are_free() {
        let crates: &[Crate<'_>] =
            &[("base", &[(Some("dev"), "nand")]), ("nand", &[(None, "base")]), ("xtask", &[])];
        assert_eq!(problems_of(ROWS, crates), Vec::<String>::new());
    }

    #[test]
    fn missing_rows_missing_crates_and_missing_edges_are_found() {
        let found = problems_of(ROWS, &[("base", &[]), ("nand", &[]), ("ftl", &[])]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("there is no crate `xtask`"));
        assert!(found[1].contains("no row for `ftl`"));
        assert!(found[2].contains("nand uses [], its row says [base]"));
    }

    #[test]
    fn a_front_page_that_names_another_floor_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("crates/base/src");
        std::fs::create_dir_all(&source).unwrap();
        for (head, is_wrong) in [("Floor 0: x", false), ("Floor 4: x", true), ("Units.", false)] {
            std::fs::write(source.join("lib.rs"), format!("//! {head}\n")).unwrap();
            let tree = SourceTree::load(directory.path()).unwrap();
            let row = Row { line: 1, floor: Some(0), uses: BTreeSet::new() };
            assert_eq!(check_front_page(&tree, "base", &row).is_some(), is_wrong, "{head}");
        }
    }

    #[test]
    fn an_empty_table_and_a_spoilt_row_are_found() {
        assert!(problems_of("", &[]).concat().contains("no table stands between"));
        assert!(problems_of("| high | base | units | – |", &[]).concat().contains("not a row"));
    }
}
