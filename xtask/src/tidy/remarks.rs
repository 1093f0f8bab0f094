//! Doc comments of functions, types, constants and fields that others see say more than two words: what is
//! so short repeats the name, or is a riddle. Those of variants and of private fields may be short, where
//! the type says the rest.

use super::Problem;
use super::source::{SourceFile, SourceTree};

/// A comment of fewer words says nothing that the name does not.
const WORD_COUNT_MIN: usize = 3;
/// What may stand before the word that says what is declared.
const QUALIFIERS: &[&str] = &["pub", "async", "unsafe", "const", "extern", "default"];
/// What is declared.
const ITEMS: &[&str] = &["fn", "struct", "enum", "trait", "type", "static", "union"];

/// No doc comment of an item has one or two words.
pub(super) fn check(tree: &SourceTree) -> Vec<Problem> {
    tree.with_extension("rs").flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    // The line on which the comment began, and how many words it has so far.
    let mut comment: Option<(usize, usize)> = None;
    for (number, line) in file.lines() {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("///") {
            let (first, count) = comment.unwrap_or((number, 0));
            comment = Some((first, count + words.split_whitespace().count()));
            continue;
        }
        // Attributes stand between a comment and its item.
        if line.starts_with("#[") {
            continue;
        }
        if let Some((first, count)) = comment.take()
            && count < WORD_COUNT_MIN
            && (is_item(line) || is_visible_field(line))
        {
            problems.push(Problem::new(
                &file.path,
                first,
                "a doc comment of one or two words",
                "say what the name does not: of what, in which unit, why",
            ));
        }
    }
    problems
}

/// Whether a line declares a field that is visible outside of its module: `pub name: Type`.
fn is_visible_field(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("pub") else { return false };
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let is_name =
        |name: &str| name.chars().all(|sign| sign.is_alphanumeric() || sign == '_' || sign == '#');
    rest.starts_with(' ')
        && rest.trim_start().split_once(": ").is_some_and(|(name, _)| is_name(name))
}

/// Whether a line declares a function, a type or a constant, not a field or a variant.
fn is_item(line: &str) -> bool {
    let mut words = line.split([' ', '(', ')']).filter(|word| !word.is_empty()).peekable();
    let mut is_constant = false;
    while let Some(word) = words.next() {
        match word {
            _ if ITEMS.contains(&word) => return true,
            "crate" | "super" | "self" | "in" => {}
            _ if QUALIFIERS.contains(&word) => is_constant = word == "const",
            // `const NAME: u32`, where a field is `name: u32`.
            name => return is_constant && (name.ends_with(':') || words.peek().is_some()),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;

    #[test]
    fn short_comments_of_items_and_visible_fields_are_found_and_those_of_variants_are_not() {
        let text = "//! Head.\n\n/// Parameters.\n#[derive(Debug)]\npub struct A {\n    /// Its size.\n    \
                    pub size: u64,\n    /// Its size.\n    hidden: u64,\n}\n\n/// The largest.\n\
                    const MAX: u32 = 1;\n\n    /// Does it.\n    pub(crate) const fn run() {}\n\n\
                    /// Reads a line of text.\nfn read() {}\n\n/// Of\n/// several lines.\n\
                    enum B {\n    /// One.\n    One,\n}\n\npub(crate) struct C {\n    /// Ours.\n    \
                    #[serde(default)]\n    pub(super) r#type: u8,\n    /// The name.\n    \
                    pub(crate) name: u8,\n}\n";
        let found = problems_of(&[("crates/x/src/a.rs", text)], check);
        let lines: Vec<&str> =
            found.iter().map(|problem| problem.split(':').nth(1).unwrap()).collect();
        assert_eq!(lines, ["3", "6", "12", "15", "29", "32"], "{found:?}");
    }
}
