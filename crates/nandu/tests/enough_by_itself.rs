//! Whoever embeds the engine names no other crate of it: each type that what is re-exported names
//! is re-exported, too.
//!
//! 1. What a type names is read in its source: fields, what variants hold, and the signatures of
//!    its own functions.
//! 2. What only operators of queries and the engine's own parts call is no embedder's:
//!    [`OF_OPERATORS`].

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
const OTHERS: &[&str] = &[
    "Arc",
    "AsRef",
    "AtomicU64",
    "BTreeMap",
    "Bound",
    "Box",
    "Error",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "Into",
    "IntoIterator",
    "Item",
    "Iterator",
    "None",
    "Option",
    "Ordering",
    "Path",
    "PathBuf",
    "Range",
    "Result",
    "Self",
    "String",
    "Vec",
];
/// Of the language and of serde.
const TRAITS: &[&str] = &["Deserialize", "DeserializeOwned", "Send", "Serialize", "Sized", "Sync"];

/// What an operator of `nandu_query`, or a part of the engine, is given and gives: of `Plan`, how
/// it is opened and run beside `nandu::join`; of `Tables` and `EngineView`, pages and the memory
/// for them; how a propagation and a replacement are made. The operators themselves and SQLite's
/// columns are called as types that are re-exported.
const OF_OPERATORS: &[&str] = &[
    "Affinity",
    "ChunkRule",
    "ColumnSink",
    "DoubleWriteFile",
    "Execution",
    "Grant",
    "Indexes",
    "Io",
    "Join",
    "JoinStream",
    "KeyColumn",
    "Media",
    "Medium",
    "PairSink",
    "PaxTable",
    "Placement",
    "Replacement",
    "SortCounts",
    "TableTree",
    "Tree",
];

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
    let is_open = |(place, line): &(usize, &str)| {
        kind == "enum" || line.starts_with("pub ") || *place == 0 && line.contains("(pub ")
    };
    let open = lines.enumerate().filter(is_open).map(|(_, line)| line);
    Some(open.filter(|line| !line.starts_with("//") && !line.starts_with('#')).collect())
}

/// The types that a line names: behind a colon, or in parentheses.
fn types_in(line: &str) -> impl Iterator<Item = &str> {
    let rest = line.find([':', '(']).map_or("", |at| &line[at..]);
    let words = rest.split(|one: char| !one.is_alphanumeric());
    // One letter is a parameter.
    words.filter(|word| word.len() > 1 && word.starts_with(char::is_uppercase) && !is_other(word))
}

fn is_other(word: &str) -> bool {
    OTHERS.contains(&word) || TRAITS.contains(&word)
}

/// The signatures of the functions that anybody may call of a type.
fn signatures_of(sources: &[String], name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        // One of the same name that is not public has functions of its own.
        if source.contains(&format!("\nstruct {name} ")) {
            continue;
        }
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            let is_own = line.starts_with("impl") && !line.contains(" for ");
            let named = line.strip_suffix(" {").map(|head| head.rsplit(' ').next().unwrap());
            if !is_own || named.is_none_or(|it| it.split('<').next() != Some(name)) {
                continue;
            }
            let mut block = lines.by_ref().take_while(|line| *line != "}");
            while let Some(line) = block.next() {
                let is_begun = line.starts_with("    pub ") && line.contains("fn ");
                let mut signature = line.to_owned();
                while is_begun && !signature.ends_with('{') && !signature.ends_with('}') {
                    signature.push_str(block.next().unwrap());
                }
                if is_begun {
                    found.push(signature);
                }
            }
        }
    }
    found
}

/// All names that a source re-exports from crates whose name begins so; from all crates of ours
/// with "".
fn re_exported<'s>(source: &'s str, from: &str) -> BTreeSet<&'s str> {
    let from = format!("nandu_{from}");
    source
        .split("\npub use ")
        .skip(1)
        .filter(|item| item.starts_with(&from))
        .flat_map(|item| item[..item.find(';').unwrap()].split(|one: char| !one.is_alphanumeric()))
        .filter(|word| word.starts_with(char::is_uppercase))
        .collect()
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

#[test]
fn each_type_that_a_field_or_a_function_of_a_re_exported_type_names_is_re_exported() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(crates.join(path)).unwrap();
    let (library, join, device) =
        (read("nandu/src/lib.rs"), read("nandu/src/join.rs"), read("device/src/lib.rs"));
    let of_query = re_exported(&join, "query");
    let of_engine = re_exported(&library, "");
    let mut reached: BTreeSet<&str> = of_query.union(&of_engine).copied().collect();
    // Of the contract all is there.
    assert!(library.contains("pub use nandu_device as device;"));
    reached.extend(device.split("pub use ").skip(1).flat_map(|item| {
        item[..item.find(';').unwrap()].split(|one: char| !one.is_alphanumeric())
    }));
    let mut seen = BTreeSet::new();
    let parts = [(&["query"][..], of_query), (&["base", "drives", "storage"][..], of_engine)];
    for (directories, names) in parts {
        let mut all = Vec::new();
        for name in directories {
            sources(&crates.join(name).join("src"), &mut all);
        }
        for name in names {
            let lines = lines_of(&all, name).unwrap_or_default();
            let fields = lines.into_iter().map(str::to_owned);
            for line in signatures_of(&all, name).into_iter().chain(fields) {
                for word in types_in(&line).filter(|word| !OF_OPERATORS.contains(word)) {
                    assert!(reached.contains(word), "{name} names {word}: {}", line.trim());
                    seen.insert(word.to_owned());
                }
            }
        }
    }
    for name in ["Device", "Division", "EngineView", "IndexMemory", "JoinKind", "Row", "Side"] {
        assert!(seen.contains(name), "{name}: {seen:?}");
    }
}
