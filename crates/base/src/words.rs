//! Words in messages: which of the valid ones a user meant, behind every "did you mean" of the program,
//! how text is shown that came from outside, and where its lines end.
//!
//! Two words are alike if more than half of their letters are the same in the same order, by the
//! distance of Damerau and Levenshtein (letters left out, added, changed or swapped with the next).
//! Short forms are alike too: whoever writes `queue` means `queue_depth`. Upper and lower case are
//! the same.

use std::borrow::Cow;

/// Letters of a short form at least. Fewer begin too many words.
const SHORT_FORM_LETTERS: usize = 3;

/// The candidate that is most like `word`, the first of equals; `None` if none is like it.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let likeness = likeness(&word, &candidate.to_lowercase());
        if likeness > best.map_or(0.0, |(most, _)| most) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `1 row`, `2 rows`, `0 entries`: a count of what `one` is called, by the rule of regular nouns.
#[must_use]
pub fn counted(count: impl Into<u64>, one: &str) -> String {
    let count = count.into();
    match one.strip_suffix('y') {
        _ if count == 1 => format!("1 {one}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {one}s"),
    }
}

/// `text` in lines of at most `width` characters, which end at spaces; a longer word is a line alone. Of a
/// text without words it is one line, which is empty.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    fill(text.split_whitespace(), width)
}

/// The same of parts that have spaces between them and are never broken.
#[must_use]
pub fn fill<'a>(parts: impl IntoIterator<Item = &'a str>, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let line = lines.last_mut().expect("there is always one line");
        let needed = line.chars().count() + 1 + part.chars().count();
        if line.is_empty() {
            line.push_str(part);
        } else if needed <= width {
            line.push(' ');
            line.push_str(part);
        } else {
            lines.push(part.into());
        }
    }
    lines
}

/// `text` for one line of a terminal: control characters, line ends among them, are escaped as Rust and
/// others write them (`\\n`, `\\u{1b}`), so that text from outside can neither move the cursor nor look
/// like another line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The same for a message of several lines: line ends stay.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character == '\n')
}

/// The same for lines of fields with tabs between them: line ends and tabs stay.
#[must_use]
pub fn visible_rows(text: &str) -> Cow<'_, str> {
    escaped(text, |character| "\n\t".contains(character))
}

/// `text` with its control characters escaped but for those that stay.
fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |character: char| character.is_control() && !stays(character);
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// The end of a message that refuses `word`: `` ; did you mean `…`? ``, empty if no candidate is
/// like it.
#[must_use]
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates)
        .map_or_else(String::new, |candidate| format!("; did you mean `{candidate}`?"))
}

/// Of a message of serde, "unknown field `x`, expected one of `a`, `b`": which of them `x` was
/// meant to be. `None` for any other message, and if none is like it.
#[must_use]
pub fn nearest_expected(message: &str) -> Option<&str> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let written = quoted.next()?;
    nearest(written, quoted)
}

/// From 0, not alike, to 1, the same. Both in lower case.
fn likeness(word: &str, candidate: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein(word, candidate);
    let is_short_form = word.chars().count() >= SHORT_FORM_LETTERS && candidate.starts_with(word);
    if likeness > 0.5 || is_short_form { likeness } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_stay_within_their_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert_eq!(fill(["a b", "c d", "e"], 5), ["a b", "c d e"]);
    }

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        for (written, meant) in [
            ("unifrom", "uniform"),
            ("raed", "read"),
            ("pmc", "pcm"),
            ("QUEUE_DEPHT", "queue_depth"),
            ("queue", "queue_depth"),
            ("mymemory", "my-memory"),
            ("nam", "Name"),
            ("que_depth", "queue_depth"),
            ("table-3-1", "s000/table-3-1"),
        ] {
            let known = ["price", "uniform", "pcm", "s000/table-3-1", "Name", "my-memory"];
            let known = known.into_iter().chain(["read", "queue_depth"]);
            assert_eq!(nearest(written, known), Some(meant), "{written}");
        }
    }

    #[test]
    fn what_is_like_nothing_gets_no_hint() {
        for written in ["", "q", "size", "customers", "zzz", "ärger"] {
            assert_eq!(
                did_you_mean(written, ["queue_depth", "start", "rate", "id"]),
                "",
                "{written}"
            );
        }
        assert_eq!(did_you_mean("strat", ["rate", "start"]), "; did you mean `start`?");
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn only_one_is_no_plural() {
        assert_eq!(counted(1_u64, "row"), "1 row");
        assert_eq!([0_u32, 2].map(|count| counted(count, "row")), ["0 rows", "2 rows"]);
        assert_eq!(
            [1_u32, 3].map(|n| counted(n, "index entry")),
            ["1 index entry", "3 index entries"]
        );
    }

    #[test]
    fn no_control_character_is_shown_as_it_is() {
        for (text, shown) in [
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("a\tb\r\nc", "a\\tb\\r\\nc"),
            ("\u{7f}\u{9b}\0", "\\u{7f}\\u{9b}\\u{0}"),
            ("Zoë \\n `x`", "Zoë \\n `x`"),
            ("", ""),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_lines("a\u{1b}\n  b\r\n"), "a\\u{1b}\n  b\\r\n");
        assert_eq!(visible_rows("a\t\u{1b}\r\nb\t\u{9b}\n"), "a\t\\u{1b}\\r\nb\t\\u{9b}\n");
        for code in (0..0x20).chain(0x7f..0xa0) {
            let text = String::from(char::from_u32(code).unwrap());
            assert!(!visible(&text).contains(char::is_control), "{code:#x}");
        }
    }

    #[test]
    fn the_first_of_equals_is_named() {
        assert_eq!(nearest("device-x", ["device-a", "device-b"]), Some("device-a"));
    }

    #[test]
    fn a_message_of_serde_names_what_it_expects() {
        let message = "unknown field `strat`, expected one of `bytes`, `start`";
        assert_eq!(nearest_expected(message), Some("start"));
        assert_eq!(nearest_expected("missing field `strat`, not `start`"), None);
        assert_eq!(nearest_expected("unknown field"), None);
    }
}
