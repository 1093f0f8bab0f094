//! The engine waits by `nandu_workers` alone: a lock of the standard library that is held while a worker
//! lets another run would hang a simulation for good.

use super::Problem;
use super::source::SourceTree;

/// Where the engine is.
const ENGINE: &str = "crates/storage/src/";
/// Devices for tests, which lie below what waits.
const EXCEPT: [&str; 2] =
    ["crates/storage/src/log/test_volume.rs", "crates/storage/src/volume/testing.rs"];
/// What waits without letting other workers run.
const WORDS: [&str; 5] = ["Mutex", "RwLock", "Condvar", "yield_now", "park"];

/// Looks for locks, words and spinning of the standard library.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.with_extension("rs") {
        if !file.path.starts_with(ENGINE) || EXCEPT.contains(&file.path.as_str()) {
            continue;
        }
        for (number, line) in file.lines_outside_tests() {
            let is_standard =
                ["std::sync::", "std::thread::"].iter().any(|path| line.contains(path));
            let is_word = |word: &&&str| {
                line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .any(|found| found == **word)
            };
            if let Some(word) = WORDS.iter().find(is_word).filter(|_| is_standard) {
                let what = format!("`{word}` of the standard library");
                let remedy =
                    "take that of nandu_workers: whoever waits lets other workers run".to_owned();
                problems.push(Problem { path: file.path.clone(), line: number, what, remedy });
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::check;

    #[test]
    fn the_engine_waits_by_workers_alone() {
        let text = "use std::sync::{Arc, Mutex};\nuse nandu_workers::sync::Mutex;\nstd::thread::yield_now();\n\
                    use std::sync::Arc;\n#[cfg(test)]\nuse std::sync::Mutex;\n";
        let files = [("crates/storage/src/a.rs", text), ("crates/query/src/a.rs", text)];
        let problems = problems_of(&files, check);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/storage/src/a.rs:1: `Mutex`"), "{problems:?}");
        assert!(problems[1].starts_with("crates/storage/src/a.rs:3: `yield_now`"), "{problems:?}");
    }
}
