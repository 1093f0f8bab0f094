//! What others wrote and is built into nandu: its licences, and crates that are there in several
//! versions. Nothing here asks the network; advisories do (CONTRIBUTING.md).
//!
//! 1. Every crate that is built on this machine has a licence whose conditions nandu keeps: one of
//!    [`LICENCES`], or an expression of SPDX that one of them fulfils.
//! 2. Cargo.lock has one version of a crate, or as many as [`DUPLICATES`] says. More is a crate that was
//!    added without looking; fewer is a row that can go.

use super::Problem;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const LOCK: &str = "Cargo.lock";
const HERE: &str = "xtask/src/tidy/supplies.rs";

/// Licences that ask for no more than their text beside the program.
const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Crates of which several versions are built or at least locked: how many, and who asks for the older
/// ones. No version of ours, or of those who ask, would bring them together.
const DUPLICATES: [(&str, usize, &str); 11] = [
    ("ahash", 2, "hashbrown of reed-solomon-erasure's cache, and parquet"),
    ("bitflags", 2, "redox_syscall, on another system"),
    ("cpufeatures", 2, "sha2 and reed-solomon-simd"),
    ("getrandom", 3, "both versions of ahash"),
    ("hashbrown", 5, "reed-solomon-erasure's cache, fjall, rusqlite's cache, parquet"),
    ("parking_lot_core", 2, "reed-solomon-erasure"),
    ("r-efi", 2, "getrandom, on another system"),
    ("redox_syscall", 2, "parking_lot_core, on another system"),
    ("syn", 2, "zerocopy of parquet's ahash, fjall"),
    ("windows-sys", 2, "corosensei, on another system"),
    ("winnow", 2, "toml"),
];

/// The part of `cargo metadata` that matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// Looks at the licence of each crate in `metadata`, the JSON that cargo prints with dependencies.
///
/// # Errors
/// If the metadata is not what cargo prints.
pub(super) fn check_licences(metadata: &str) -> Result<Vec<Problem>, String> {
    let metadata: Metadata =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut problems = Vec::new();
    for Package { name, version, license } in metadata.packages {
        let what = match &license {
            None => format!("{name} {version} names no licence"),
            Some(expression) if is_allowed(expression) => continue,
            Some(expression) => format!("{name} {version} has the licence {expression}"),
        };
        let remedy = "leave the crate out, or read the licence and add it to LICENCES";
        problems.push(Problem::new(LOCK, 1, what, remedy));
    }
    Ok(problems)
}

/// Counts the versions of each crate in the text of a Cargo.lock.
pub(super) fn check_duplicates(lock: &str) -> Vec<Problem> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut name = "";
    for line in lock.lines() {
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        if let Some(found) = value("name") {
            name = found;
        } else if let Some(version) = value("version") {
            versions.entry(name).or_default().insert(version);
        }
    }
    let mut problems = Vec::new();
    for (name, found) in &versions {
        let known = DUPLICATES.iter().find(|(known, ..)| known == name);
        let allowed = known.map_or(1, |&(_, count, _)| count);
        if found.len() > allowed {
            let found: Vec<&str> = found.iter().copied().collect();
            let what = format!("{name} is there in versions {}", found.join(", "));
            let remedy =
                format!("`cargo tree -i {name}` says for whom; unite them, or add a row here");
            problems.push(Problem::new(LOCK, 1, what, format!("{remedy}: {HERE}")));
        }
    }
    for (name, count, _) in DUPLICATES {
        let found = versions.get(name).map_or(0, BTreeSet::len);
        if found < count {
            let what = format!("{name} has {found} versions, DUPLICATES says {count}");
            problems.push(Problem::new(HERE, 1, what, "say how many there are, or remove the row"));
        }
    }
    problems
}

/// Whether one may keep to [`LICENCES`] and to this expression of SPDX; `/` is an old `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

/// `all OR all …`; `None` where it is none.
fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut is_allowed = all_of(rest)?;
    while let Some(("OR", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        is_allowed |= all_of(rest)?;
    }
    Some(is_allowed)
}

/// `one AND one …`.
fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut is_allowed = one(rest)?;
    while let Some(("AND", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        is_allowed &= one(rest)?;
    }
    Some(is_allowed)
}

/// A licence, perhaps `WITH` an exception, or an expression in brackets.
fn one(rest: &mut &[&str]) -> Option<bool> {
    match **rest {
        ["(", ref inner @ ..] => {
            *rest = inner;
            let is_allowed = any_of(rest)?;
            *rest = rest.strip_prefix(&[")"])?;
            Some(is_allowed)
        }
        [licence, "WITH", exception, ref after @ ..] => {
            *rest = after;
            Some(LICENCES.contains(&format!("{licence} WITH {exception}").as_str()))
        }
        [licence, ref after @ ..] if !["AND", "OR", "WITH", ")"].contains(&licence) => {
            *rest = after;
            Some(LICENCES.contains(&licence))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_licences_are_weighed() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "GPL-2.0-only OR MIT",
            "Unlicense/MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "MIT AND BSD-3-Clause",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "AGPL-3.0 OR (MIT AND SSPL-1.0)",
            "MIT WITH Some-exception",
            "MIT OR",
            "(MIT",
            "MIT MIT",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn a_licence_that_is_not_known_is_told_with_its_crate() {
        let metadata = r#"{"packages": [
            {"name": "good", "version": "1.0.0", "license": "MIT/Apache-2.0"},
            {"name": "bad", "version": "2.0.0", "license": "GPL-3.0-only"},
            {"name": "mute", "version": "3.0.0", "license": null}]}"#;
        let problems = check_licences(metadata).unwrap();
        let whats: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(
            whats,
            ["bad 2.0.0 has the licence GPL-3.0-only", "mute 3.0.0 names no licence"]
        );
        assert!(check_licences("no JSON").is_err());
    }

    #[test]
    fn versions_that_nobody_knows_of_are_told_and_rows_that_can_go() {
        let crates = |names: &[(&str, usize)]| {
            let mut lock = String::new();
            for &(name, count) in names {
                for version in 0..count {
                    lock +=
                        &format!("[[package]]\nname = \"{name}\"\nversion = \"{version}.0.0\"\n\n");
                }
            }
            check_duplicates(&lock)
        };
        let mut known: Vec<(&str, usize)> =
            DUPLICATES.iter().map(|&(name, count, _)| (name, count)).collect();
        known.push(("alone", 1));
        assert_eq!(crates(&known), []);
        known.push(("twice", 2));
        let problems = crates(&known);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].what, "twice is there in versions 0.0.0, 1.0.0");
        known.pop();
        known[0].1 += 1;
        assert_eq!(crates(&known).len(), 1, "one more than is known");
        known[0].1 -= 2;
        assert_eq!(crates(&known).len(), 1, "one less than is known");
    }
}
