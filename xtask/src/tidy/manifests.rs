//! Manifests: third-party crates stand once, in the root, each with its reason; the crates' own
//! manifests take them and the lints from there.
//!
//! Read line by line, which suffices for the form that these rules demand.

use super::Problem;
use super::source::{SourceFile, SourceTree};

/// A reason shorter than this says nothing.
const REASON_CHARACTERS_MIN: usize = 8;

/// One `name = …` of a table, with the lines that its brackets span.
struct Entry<'a> {
    line: usize,
    name: &'a str,
    text: String,
    reason: String,
}

/// Reasons in the root, nothing but `workspace = true` elsewhere, nothing that no source mentions.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let members: Vec<&SourceFile> =
        tree.files.iter().filter(|file| is_member(&file.path)).collect();
    let mut problems: Vec<Problem> =
        members.iter().flat_map(|file| check_member(tree, file)).collect();
    if let Some(root) = tree.file("Cargo.toml") {
        problems.extend(check_root(root, &members));
    }
    problems
}

/// Whether a file is the manifest of a crate of this workspace; `fuzz` is one of its own.
fn is_member(path: &str) -> bool {
    path.ends_with("/Cargo.toml") && path != "fuzz/Cargo.toml"
}

fn check_root(root: &SourceFile, members: &[&SourceFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let used: Vec<&str> = members
        .iter()
        .flat_map(|file| entries_of(file, |table| table.ends_with("dependencies")))
        .map(|entry| entry.name)
        .collect();
    for entry in entries_of(root, |table| table == "workspace.dependencies") {
        let mut add = |what: String, remedy: &str| {
            problems.push(Problem::new(&root.path, entry.line, what, remedy));
        };
        let is_ours = entry.text.contains("path =");
        if !is_ours && entry.reason.chars().count() < REASON_CHARACTERS_MIN {
            add(format!("`{}` has no reason", entry.name), "say in a comment on its line why");
        }
        if !is_ours && !used.contains(&entry.name) {
            add(format!("no crate uses `{}`", entry.name), "remove it");
        }
    }
    for (number, line) in root.lines() {
        if line.starts_with("[workspace.dependencies.") {
            let what = "a dependency has its own table";
            let remedy = "write it on one line, with its reason";
            problems.push(Problem::new(&root.path, number, what, remedy));
        }
    }
    problems
}

fn check_member(tree: &SourceTree, file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for entry in entries_of(file, |table| table.contains("dependencies")) {
        let compact: String = entry.text.split_whitespace().collect();
        if !compact.contains("workspace=true") {
            let what = format!("`{}` is not taken from the workspace", entry.name);
            let remedy = "name it in the root Cargo.toml, and write `workspace = true` here";
            problems.push(Problem::new(&file.path, entry.line, what, remedy));
        }
        if !is_mentioned(tree, file, entry.name) {
            let what = format!("the source does not mention `{}`", entry.name);
            problems.push(Problem::new(&file.path, entry.line, what, "remove the dependency"));
        }
    }
    let takes_lints = entries_of(file, |table| table == "lints")
        .iter()
        .any(|entry| entry.name == "workspace" && entry.text.ends_with("true"));
    if !takes_lints {
        let remedy = "add `[lints]` with `workspace = true`";
        problems.push(Problem::new(&file.path, 1, "the workspace lints are off", remedy));
    }
    problems
}

/// Whether a Rust file of the crate with this manifest has `name::` or `name!`.
fn is_mentioned(tree: &SourceTree, manifest: &SourceFile, name: &str) -> bool {
    let directory = manifest.path.trim_end_matches("Cargo.toml");
    let identifier = name.replace('-', "_");
    tree.with_extension("rs").filter(|file| file.path.starts_with(directory)).any(|file| {
        file.text
            .match_indices(&identifier)
            .any(|(at, _)| file.text[at + identifier.len()..].starts_with(['!', ':']))
    })
}

/// The entries of the tables that `wanted` names.
fn entries_of(file: &SourceFile, wanted: impl Fn(&str) -> bool) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut is_wanted = false;
    let mut depth = 0_usize;
    for (number, line) in file.lines() {
        let (code, comment) = split_comment(line);
        let code = code.trim();
        if depth == 0 {
            if let Some(table) = code.strip_prefix('[') {
                is_wanted = wanted(table.trim_end_matches(']').trim());
                continue;
            }
            let Some((key, _)) = code.split_once('=').filter(|_| is_wanted) else { continue };
            let name = key.trim().split_once('.').map_or(key.trim(), |(name, _)| name);
            entries.push(Entry { line: number, name, text: String::new(), reason: String::new() });
        }
        if let Some(entry) = entries.last_mut().filter(|_| is_wanted) {
            entry.text.push_str(code);
            entry.reason.push_str(comment.trim());
            let opened = code.matches(['[', '{']).count();
            depth = (depth + opened).saturating_sub(code.matches([']', '}']).count());
        }
    }
    entries
}

/// A line up to its `#` outside a string, and what follows it.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, letter) in line.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '#' if !quoted => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    (line, "")
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    const MEMBER: &str = "[package]\nname = \"x\"\n[lints]\nworkspace = true\n[dependencies]\n";

    fn check_both(root: &str, dependencies: &str) -> Vec<String> {
        let member = format!("{MEMBER}{dependencies}");
        let source =
            "use serde::Serialize;\nuse ours::x;\nwide!();\nlibc::open();\nlet loose = 1;\n";
        let files = [
            ("Cargo.toml", root),
            ("crates/x/Cargo.toml", &member),
            ("crates/x/src/lib.rs", source),
        ];
        problems_of(&files, check)
    }

    #[test]
    fn who_embeds_the_engine_compiles_no_simulator() {
        let tree = |features: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO"));
            command.args(["tree", "--package", "nandu", "--edges", "normal", "--prefix", "none"]);
            let output = command.args(features).output().expect("cargo runs this test");
            String::from_utf8(output.stdout).expect("names are ASCII")
        };
        let alone = tree(&[]);
        assert!(alone.contains("nandu-storage "), "{alone}");
        for name in ["nandu-nand ", "nandu-ftl ", "nandu-array ", "nandu-sim ", "toml "] {
            assert!(!alone.contains(name), "{name} in {alone}");
        }
        assert!(tree(&["--features", "simulated"]).contains("nandu-ftl "));
    }

    /// Whatever a registry asks for but where the repository is, which has no address of its own.
    #[test]
    fn the_crates_that_an_embedder_needs_are_packages() {
        let cargo = |arguments: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO"));
            command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            let output = command.output().expect("cargo runs this test");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {told}");
            String::from_utf8(output.stdout).expect("names are ASCII")
        };
        let tree = ["tree", "-p", "nandu", "-e", "normal", "--all-features", "--prefix", "none"];
        let mut names: Vec<String> = cargo(&tree)
            .lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|name| name.starts_with("nandu"))
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 10, "{names:?}");

        let metadata = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("it is JSON");
        let packages = metadata["packages"].as_array().expect("there are packages");
        let mut archives = Vec::new();
        for package in packages {
            let name = package["name"].as_str().expect("it has a name");
            if names.iter().any(|needed| needed == name) {
                let version = package["version"].as_str().expect("it has a version");
                archives.push(format!("{name}-{version}.crate"));
                for key in ["description", "license", "rust_version", "readme"] {
                    assert!(package[key].is_string(), "{name} has no {key}");
                }
                for key in ["keywords", "categories"] {
                    let count = package[key].as_array().map_or(0, Vec::len);
                    assert!((1..=5).contains(&count), "{name} has {count} {key}");
                }
            }
        }

        // Each of them names versions of the others, which no registry has: so without a lock file.
        let place = tempfile::tempdir().expect("a scratch directory");
        let target = place.path().to_str().expect("it is UTF-8");
        let mut package = vec!["package", "--no-verify", "--offline", "--exclude-lockfile"];
        package.extend(["--allow-dirty", "--target-dir", target]);
        package.extend(names.iter().flat_map(|name| ["-p", name]));
        cargo(&package);
        assert_eq!(archives.len(), names.len(), "{archives:?}");
        for archive in archives {
            let packed = place.path().join("package").join(archive);
            assert!(packed.exists(), "{}", packed.display());
        }
        for name in &names {
            let files = cargo(&["package", "--list", "--offline", "--allow-dirty", "-p", name]);
            for file in ["Cargo.toml", "README.md", "src/lib.rs"] {
                assert!(files.lines().any(|line| line == file), "{name} without {file}");
            }
        }
    }

    #[test]
    fn each_feature_of_the_crate_for_embedders_is_in_its_documentation() {
        let manifest = include_str!("../../../crates/nandu/Cargo.toml");
        let library = include_str!("../../../crates/nandu/src/lib.rs");
        let features = manifest.split("[features]\n").nth(1).expect("there are some");
        let features = features.split("\n[").next().expect("they end");
        let lines = features.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        assert!(names.contains(&"simulated"), "{names:?}");
        for name in names.into_iter().filter(|&name| name != "default") {
            assert!(library.contains(&format!("`{name}`")), "{name} is not documented");
        }
    }

    #[test]
    fn reasons_and_workspace_entries_pass() {
        let root = "[workspace.dependencies]\nours = { path = \"crates/ours\" }\n\
                    serde = \"1\" # profiles and results\n\
                    wide = { version = \"1\", features = [\n  \"a#b\",\n] } # several lines\n";
        let used = "serde.workspace = true\nours.workspace = true\n\
                    wide = { workspace = true, optional = true }\n";
        assert_eq!(check_both(root, used), Vec::<String>::new());
    }

    #[test]
    fn a_missing_reason_is_found() {
        let root = "[workspace.dependencies]\n# A heading is no reason.\nserde = \"1\"\n";
        let found = check_both(root, "serde.workspace = true\n");
        assert_eq!(
            found,
            ["Cargo.toml:3: `serde` has no reason; say in a comment on its line why"]
        );
    }

    #[test]
    fn an_unused_third_party_is_found() {
        let root = "[workspace.dependencies]\nserde = \"1\" # profiles and results\n";
        assert_eq!(check_both(root, ""), ["Cargo.toml:2: no crate uses `serde`; remove it"]);
    }

    #[test]
    fn a_dependency_that_the_source_does_not_mention_is_found() {
        let found = check_both("", "libc.workspace = true\nloose.workspace = true\n");
        assert_eq!(
            found,
            ["crates/x/Cargo.toml:7: the source does not mention `loose`; remove the dependency"]
        );
    }

    #[test]
    fn a_version_in_a_member_is_found() {
        for own in ["libc = \"0.2\"\n", "libc = { version = \"0.2\" }\n", "libc.version = \"0\"\n"]
        {
            let found = check_both("", own);
            assert_eq!(found.len(), 1, "{own}: {found:?}");
            assert!(found[0].starts_with("crates/x/Cargo.toml:6: `libc` is not taken"));
        }
    }

    #[test]
    fn a_member_without_the_workspace_lints_is_found() {
        let found = problems_of(&[("crates/x/Cargo.toml", "[package]\nname = \"x\"\n")], check);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
