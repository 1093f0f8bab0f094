//! Test programs: where a manifest names them, no file of `tests` is in none.
//!
//! A crate with `autotests = false` has one program for most of its tests. A file that neither that
//! program nor the manifest names would not even be compiled, and nobody would miss it.

use super::Problem;
use super::source::{SourceFile, SourceTree};

/// Files of `tests`, beside the manifests that name programs.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let manifests = tree.files.iter().filter(|file| {
        file.path.ends_with("/Cargo.toml")
            && file.lines().any(|(_, line)| line.trim() == "autotests = false")
    });
    manifests.flat_map(|manifest| check_crate(tree, manifest)).collect()
}

fn check_crate(tree: &SourceTree, manifest: &SourceFile) -> Vec<Problem> {
    let directory = format!("{}tests/", manifest.path.trim_end_matches("Cargo.toml"));
    let all = tree.file(&format!("{directory}all.rs"));
    let name_of = |file: &SourceFile| {
        let name = file.path.strip_prefix(&directory)?.strip_suffix(".rs")?;
        // A program of several files has a directory; what others there are is taken in by name.
        let name = name.strip_suffix("/main").unwrap_or(name);
        (!name.contains('/')).then(|| name.to_owned())
    };
    let is_named = |name: &str| {
        let of_all = format!("mod {name};");
        let of_manifest = format!("name = \"{name}\"");
        all.is_some_and(|all| all.lines().any(|(_, line)| line == of_all))
            || manifest.lines().any(|(_, line)| line == of_manifest)
    };
    let files = tree.files.iter().filter_map(|file| Some((file, name_of(file)?)));
    let left_out = files.filter(|(_, name)| !is_named(name));
    let problem = |(file, name): (&SourceFile, String)| {
        let what = "these tests are in no program";
        Problem::new(&file.path, 1, what, format!("write `mod {name};` into {directory}all.rs"))
    };
    left_out.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    const MANIFEST: &str = "[package]\nautotests = false\n[[test]]\nname = \"all\"\n\
        [[test]]\nname = \"cut\"\n";

    #[test]
    fn a_file_that_no_program_names_is_found() {
        let found = problems_of(
            &[
                ("crates/x/Cargo.toml", MANIFEST),
                ("crates/x/tests/all.rs", "//! All.\n\nmod common;\nmod one;\n"),
                ("crates/x/tests/one.rs", ""),
                ("crates/x/tests/two.rs", ""),
                ("crates/x/tests/cut/main.rs", ""),
                ("crates/x/tests/cut/model.rs", ""),
                ("crates/x/tests/three/main.rs", ""),
                ("crates/x/tests/common/mod.rs", ""),
                ("crates/y/Cargo.toml", "[package]\n"),
                ("crates/y/tests/free.rs", ""),
            ],
            check,
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/x/tests/three/main.rs:1: these tests are in no"));
        assert!(found[1].ends_with("write `mod two;` into crates/x/tests/all.rs"), "{found:?}");
    }
}
