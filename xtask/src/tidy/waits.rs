//! The engine waits by `nandu_workers` alone: a lock of the standard library that is held while a worker
//! lets another run would hang a simulation for good.
//!
//! 1. Whatever a path leads through counts: lists in braces over several lines, modules that are used under
//!    their own name or another (`use std::sync as s`), all of a module (`use std::sync::*`).

use super::Problem;
use super::source::{SourceFile, SourceTree};

/// Where the engine is.
const ENGINE: &str = "crates/storage/src/";
/// Devices for tests, which lie below what waits.
const EXCEPT: [&str; 2] =
    ["crates/storage/src/log/test_volume.rs", "crates/storage/src/volume/testing.rs"];
/// What waits without letting other workers run.
const WORDS: [&str; 8] =
    ["Mutex", "RwLock", "Condvar", "yield_now", "park", "park_timeout", "sleep", "mpsc"];
/// Where that is.
const MODULES: [&str; 2] = ["std::sync", "std::thread"];

/// Looks for locks, words and spinning of the standard library.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let engine =
        |file: &&SourceFile| file.path.starts_with(ENGINE) && !EXCEPT.contains(&file.path.as_str());
    tree.with_extension("rs").filter(engine).flat_map(problems_in).collect()
}

/// A path that a `use` brings in.
struct Import {
    line: usize,
    /// From the crate on, without a name that it is given.
    path: String,
    /// What it is called here.
    name: String,
}

fn problems_in(file: &SourceFile) -> Vec<Problem> {
    let code: Vec<(usize, &str)> = file
        .lines_outside_tests()
        .map(|(number, line)| (number, line.split("//").next().unwrap_or(line)))
        .collect();
    let imports = imports_of(&code);
    let problem = |line, word: &str| Problem {
        path: file.path.clone(),
        line,
        what: format!("`{word}` of the standard library"),
        remedy: "take that of nandu_workers: whoever waits lets other workers run".to_owned(),
    };
    let mut problems = Vec::new();
    // What the modules are called, here.
    let mut modules: Vec<String> = MODULES.map(str::to_owned).to_vec();
    for import in &imports {
        let (parent, last) = import.path.rsplit_once("::").unwrap_or(("", &import.path));
        let is_whole = last == "*" && MODULES.contains(&parent);
        if is_whole || MODULES.iter().any(|module| word_behind(&import.path, module).is_some()) {
            let found =
                WORDS.iter().find(|word| import.path.split("::").any(|part| part == **word));
            if let Some(word) = found.or(is_whole.then_some(&"*")) {
                problems.push(problem(import.line, word));
            }
        }
        if import.path == "std" {
            modules.extend(["sync", "thread"].map(|module| format!("{}::{module}", import.name)));
        } else if MODULES.contains(&import.path.as_str()) {
            modules.push(import.name.clone());
        }
    }
    for &(number, line) in &code {
        let word = modules.iter().find_map(|module| word_behind(line, module));
        let is_known = problems.iter().any(|problem| problem.line == number);
        if let Some(word) = word.filter(|_| !is_known) {
            problems.push(problem(number, word));
        }
    }
    problems.sort_by_key(|problem| problem.line);
    problems
}

/// The first of [`WORDS`] that follows on `module::` in `text`.
fn word_behind(text: &str, module: &str) -> Option<&'static str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(module).find_map(|(start, _)| {
        let before = &text[..start];
        let is_of_another = before.ends_with("::") && !MODULES.contains(&module);
        if before.ends_with(is_letter) || is_of_another {
            return None;
        }
        let rest = text[start + module.len()..].strip_prefix("::")?;
        let word = rest.split(|c| !is_letter(c)).next()?;
        WORDS.into_iter().find(|found| *found == word)
    })
}

/// All that the code uses, each path by itself.
fn imports_of(code: &[(usize, &str)]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut lines = code.iter();
    while let Some(&(number, line)) = lines.next() {
        let mut words = line.trim_start();
        if words.starts_with("pub") {
            words = words.split_once(' ').map_or("", |(_, rest)| rest);
        }
        let Some(begun) = words.strip_prefix("use ") else { continue };
        let mut tree = begun.to_owned();
        while !tree.contains(';') {
            let Some((_, next)) = lines.next() else { break };
            tree.push_str(next.trim());
        }
        expand(number, "", tree.split(';').next().unwrap_or_default(), &mut imports);
    }
    imports
}

/// Adds the paths of a tree of names behind `before`.
fn expand(line: usize, before: &str, tree: &str, imports: &mut Vec<Import>) {
    let tree = tree.trim().trim_start_matches("::");
    if let Some((head, rest)) = tree.split_once('{') {
        let before = format!("{before}{}", head.trim());
        let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
        let mut depth = 0;
        let split = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        };
        inner.split(split).for_each(|part| expand(line, &before, part, imports));
        return;
    }
    let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = format!("{before}{}", path.trim());
    let path = path.strip_suffix("::self").unwrap_or(&path).to_owned();
    let name = match name.trim() {
        "" => path.rsplit("::").next().unwrap_or(&path).to_owned(),
        name => name.to_owned(),
    };
    if !path.is_empty() {
        imports.push(Import { line, path, name });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::check;

    fn found(text: &str) -> Vec<String> {
        let problems = problems_of(&[("crates/storage/src/a.rs", text)], check);
        let short = |problem: String| {
            let rest = problem.strip_prefix("crates/storage/src/a.rs:").unwrap_or(&problem);
            rest.split(" of the").next().unwrap_or(rest).to_owned()
        };
        problems.into_iter().map(short).collect()
    }

    #[test]
    fn the_engine_waits_by_workers_alone() {
        let text = "use std::sync::{Arc, Mutex};\nuse nandu_workers::sync::Mutex;\nstd::thread::yield_now();\n\
                    use std::sync::Arc;\n#[cfg(test)]\nuse std::sync::Mutex;\n";
        assert_eq!(found(text), ["1: `Mutex`", "3: `yield_now`"]);
        let elsewhere = problems_of(&[("crates/query/src/a.rs", text)], check);
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }

    #[test]
    fn no_way_to_write_the_path_hides_it() {
        for (text, expected) in [
            ("use std::{sync::Mutex};\n", "1: `Mutex`"),
            ("use std::{\n    cell::Cell,\n    sync::{Arc, RwLock as Lock},\n};\n", "1: `RwLock`"),
            ("use ::std::sync::Condvar;\n", "1: `Condvar`"),
            ("pub(crate) use std::sync::Mutex as M;\n", "1: `Mutex`"),
            ("use std::sync;\nlet a = sync::Mutex::new(1);\n", "2: `Mutex`"),
            ("use std::sync::{self, Arc};\nlet a = sync::RwLock::new(1);\n", "2: `RwLock`"),
            ("use std::sync as locks;\nstatic A: locks::Mutex<u8> = A;\n", "2: `Mutex`"),
            ("use std as s;\nlet a: s::sync::Mutex<u8>;\n", "2: `Mutex`"),
            ("use std::thread;\nthread::park();\n", "2: `park`"),
            ("use std::thread::sleep;\n", "1: `sleep`"),
            ("use std::sync::*;\n", "1: `*`"),
            ("use std::sync::mpsc::channel;\n", "1: `mpsc`"),
            ("let a = ::std::sync::Mutex::new(1);\n", "1: `Mutex`"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
    }

    #[test]
    fn what_is_no_lock_of_the_standard_library_stays() {
        let text = "use nandu_workers::sync::{self, Mutex};\nuse std::sync::{Arc, OnceLock};\n\
                    use std::{sync::atomic::AtomicU64, thread};\nlet a = Mutex::new(1);\n\
                    // std::sync::Mutex would hang\nuse std::sync;\nnandu_workers::sync::Mutex::new(1);\nif thread::panicking() {}\n";
        assert_eq!(found(text), [""; 0]);
        assert_eq!(found("use nandu_workers::sync;\nsync::Mutex::new(1);\n"), [""; 0]);
    }
}
