//! Whoever embeds the engine names no other crate of it: each type that its settings name is re-exported.
//!
//! 1. What a type names is read in its source: fields, and what variants hold.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::path::Path;

/// What an embedder fills in.
const SETTINGS: [&str; 9] = [
    "BackUpOptions",
    "BackUpProgress",
    "DatabaseOptions",
    "DeviceCosts",
    "IndexDefinition",
    "LoadOptions",
    "NewTable",
    "SimulatedDrive",
    "StorageError",
];

/// Types of the standard library, and words that are no types.
const OTHERS: [&str; 9] =
    ["Arc", "BTreeMap", "Box", "None", "Option", "PathBuf", "Self", "String", "Vec"];

/// The sources of all crates that the crate may re-export from.
fn sources(root: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The lines of a type, without what is said about them: of a struct the fields that anybody can fill in.
fn lines_of<'s>(sources: &'s [String], name: &str) -> Option<Vec<&'s str>> {
    let starts = ["struct", "enum"].map(|kind| (kind, format!("\npub {kind} {name}")));
    let (kind, body) = sources.iter().find_map(|source| {
        let is_whole = |rest: &&str| !rest.starts_with(|next: char| next.is_alphanumeric());
        starts.iter().find_map(|(kind, start)| {
            let body = source.split(start.as_str()).nth(1).filter(is_whole)?;
            Some((*kind, body))
        })
    })?;
    let lines = body.lines().take_while(|line| *line != "}").map(str::trim);
    // What only tests have is for no user.
    let before = std::iter::once("").chain(lines.clone());
    let lines = lines.zip(before).filter(|(_, before)| *before != "#[cfg(test)]");
    let lines = lines.map(|(line, _)| line);
    let is_open =
        |(place, line): &(usize, &str)| kind == "enum" || *place == 0 || line.starts_with("pub ");
    let open = lines.enumerate().filter(is_open).map(|(_, line)| line);
    Some(open.filter(|line| !line.starts_with("//") && !line.starts_with('#')).collect())
}

/// The types that a line names: behind a colon, or in parentheses.
fn types_in(line: &str) -> impl Iterator<Item = &str> {
    let rest = line.find([':', '(']).map_or("", |at| &line[at..]);
    let words = rest.split(|one: char| !one.is_alphanumeric());
    words.filter(|word| word.starts_with(char::is_uppercase) && !OTHERS.contains(word))
}

#[test]
fn each_type_that_a_setting_names_is_re_exported() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    // A column is that of a table, not that of a batch.
    for name in ["base", "device", "drives", "nandu", "storage", "query"] {
        sources(&crates.join(name).join("src"), &mut all);
    }
    let own: String = ["lib.rs", "join.rs", "simulated.rs", "back_up.rs", "open.rs"]
        .map(|file| std::fs::read_to_string(crates.join("nandu/src").join(file)).unwrap())
        .concat();
    let own: BTreeSet<&str> = own
        .split("\npub ")
        .skip(1)
        .flat_map(|item| {
            item[..item.find([';', '{', '}']).unwrap_or(item.len())].split([' ', '<', '('])
        })
        .chain(own.split("\npub use ").skip(1).flat_map(|item| {
            item[..item.find(';').unwrap()].split([' ', ',', '{', '}', ':', '\n'])
        }))
        .collect();
    let mut wanted: Vec<String> = SETTINGS.map(str::to_owned).into();
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        assert!(own.contains(name.as_str()), "{name} is named, and not re-exported");
        // Those that a macro makes hold a number.
        let lines = lines_of(&all, &name).unwrap_or_default();
        wanted.extend(lines.into_iter().flat_map(types_in).map(str::to_owned));
    }
    for name in ["Settings", "LogStructuredSettings", "Durability", "DirectIo", "DeviceError"] {
        assert!(seen.contains(name), "{name}: {seen:?}");
    }
}
