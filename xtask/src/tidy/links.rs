//! Every relative link of a document leads somewhere, its anchor to a heading.
//!
//! Links are `[text](target)` and `[name]: target` outside code. Addresses with a scheme are not
//! followed: the checks need no network. Source and manifests that name a document under `docs/`
//! are held to the same.

use super::Problem;
use super::source::{SourceFile, SourceTree};
use std::collections::BTreeMap;

/// Every link resolves.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    let documents = tree.with_extension("md").flat_map(|file| check_document(tree, file));
    let mentions = tree
        .files
        .iter()
        .filter(|file| !file.has_extension("md") && !file.path.starts_with("xtask/src/tidy"))
        .flat_map(|file| check_mentions(tree, file));
    documents.chain(mentions).collect()
}

/// The files that a document links to, relative to the root, without anchors.
pub(super) fn resolved_targets(file: &SourceFile) -> Vec<String> {
    links_of(file)
        .into_iter()
        .filter_map(|(_, target)| {
            resolve(&file.path, target.split_once('#').map_or(target, |(path, _)| path))
        })
        .collect()
}

fn check_document(tree: &SourceTree, file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, target) in links_of(file) {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let resolved = if path.is_empty() {
            Some(file.path.clone())
        } else {
            resolve(&file.path, path).filter(|path| tree.root.join(path).exists())
        };
        let Some(resolved) = resolved else {
            let what = format!("the link `{target}` leads nowhere");
            problems.push(Problem::new(&file.path, number, what, "name an existing file"));
            continue;
        };
        let Some(document) = tree.file(&resolved).filter(|file| file.has_extension("md")) else {
            continue;
        };
        if !anchor.is_empty() && !anchors_of(document).iter().any(|found| found == anchor) {
            let what = format!("`{resolved}` has no heading for `#{anchor}`");
            problems.push(Problem::new(&file.path, number, what, "name an existing heading"));
        }
    }
    problems
}

/// Documents named in comments of source, as `docs/….md`.
fn check_mentions(tree: &SourceTree, file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        let words =
            line.split(|letter: char| !letter.is_ascii_alphanumeric() && !"/._-".contains(letter));
        for word in words.filter(|word| word.starts_with("docs/") && word.ends_with(".md")) {
            if !tree.root.join(word).exists() {
                let what = format!("`{word}` does not exist");
                problems.push(Problem::new(&file.path, number, what, "name an existing document"));
            }
        }
    }
    problems
}

/// Line and target of every link without a scheme.
fn links_of(file: &SourceFile) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in file.prose_lines() {
        let code = code_spans(line);
        for (at, mark) in line.match_indices("](") {
            if code.iter().any(|span| span.contains(&at)) {
                continue;
            }
            let rest = &line[at + mark.len()..];
            let target = rest.split_once(')').map_or(rest, |(target, _)| target);
            links.push((number, target));
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            links.push((number, target));
        }
    }
    links
        .into_iter()
        .map(|(number, target)| (number, target.split_whitespace().next().unwrap_or("")))
        .filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// Byte ranges of a line between backticks.
fn code_spans(line: &str) -> Vec<std::ops::Range<usize>> {
    let ticks: Vec<usize> = line.match_indices('`').map(|(at, _)| at).collect();
    ticks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

/// `target` seen from the file at `from`, relative to the root; `None` above the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a forge gives to the headings of a document: lower case, hyphens for spaces,
/// no punctuation, a number where a heading repeats.
fn anchors_of(file: &SourceFile) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in file.prose_lines() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .flat_map(char::to_lowercase)
            .collect();
        let repeat = seen.entry(anchor.clone()).or_default();
        anchors.push(if *repeat == 0 { anchor } else { format!("{anchor}-{repeat}") });
        *repeat += 1;
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    #[test]
    fn links_resolve_relative_to_their_document() {
        let files = [
            (
                "README.md",
                "[docs](docs/a.md), [self](#first-part), [web](https://host/x)\n## First part\n",
            ),
            (
                "docs/a.md",
                "[up](../README.md) [folder](../docs) `[code](nowhere)`\n\n```\n[x](y)\n```\n",
            ),
        ];
        assert!(problems_of(&files, check).is_empty());
    }

    #[test]
    fn a_dead_link_is_named_with_its_line() {
        let found = problems_of(&[("docs/a.md", "# A\n\n[gone](b.md)\n[out](../../x)\n")], check);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "docs/a.md:3: the link `b.md` leads nowhere; name an existing file");
    }

    #[test]
    fn link_definitions_are_links() {
        let found = problems_of(&[("a.md", "See [b].\n\n[b]: b.md\n")], check);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn anchors_are_headings() {
        let text = "# `Device`: the contract\n## Units & errors\n## Same\n## Same\n\
                    [1](#device-the-contract) [2](#units--errors) [3](#same-1) [4](#same-2)\n";
        let found = problems_of(&[("a.md", text)], check);
        assert_eq!(
            found,
            ["a.md:5: `a.md` has no heading for `#same-2`; name an existing heading"]
        );
    }

    #[test]
    fn documents_named_in_source_exist() {
        let files =
            [("docs/a.md", ""), ("profiles/x.toml", "# see docs/a.md\n# and docs/b.md, too\n")];
        let found = problems_of(&files, check);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("profiles/x.toml:2: `docs/b.md` does not exist"));
    }
}
