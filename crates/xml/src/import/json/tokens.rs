//! The words of a text of JSON, one after the other: json-event-parser finds them in a buffer of ours,
//! so that each has its place.
//!
//! ```text
//!   buffer   …│ ,\n  "key" : │ 12.50 │ , "next…      read on, more room if that is not enough
//!             ├──── passed ───┤ word
//!             place of "key"
//! ```
//!
//! 1. Memory holds one word, [`PIECE_BYTES_MAX`] of it at most, and as much of what follows it as the
//!    buffer has room for.
//! 2. A word is looked for from its beginning again when more of it has come; the buffer grows to twice
//!    its size, so that is no more than twice.

use crate::error::{Place, XmlError};
use crate::import::{PIECE_BYTES_MAX, Trouble};
use json_event_parser::{JsonEvent, JsonSyntaxError, LowLevelJsonParser, LowLevelJsonParserResult};
use std::borrow::Cow;
use std::io::{self, Read};

const BUFFER_BYTES: usize = 256 << 10;
/// Blanks behind the text: the parser wants some bytes behind a word before it says what is wrong with
/// that.
const END: [u8; 8] = [b' '; 8];
/// What the parser says where a text ends too early.
pub(super) const UNEXPECTED_END: &str = "Unexpected end of file";
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// What a word is; its text is in [`Tokens::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    Key,
    String,
    Number,
    Boolean(bool),
    Null,
}

/// Reads words; see the module's head.
pub(super) struct Tokens<R> {
    input: R,
    parser: LowLevelJsonParser,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the blanks were put behind the text.
    is_at_end: bool,
    /// Bytes that were read, and those of them that the parser has passed.
    byte_count: u64,
    passed_count: u64,
    /// Where what was not passed begins.
    next: Place,
    /// Where the last word began.
    place: Place,
    text: String,
    last: Option<Token>,
}

/// What the parser made of what is in the buffer.
enum Step {
    Word(Token),
    NeedsMore,
    Wrong(JsonSyntaxError),
}

impl<R: Read> Tokens<R> {
    pub(super) fn new(input: R) -> Self {
        let place = Place { line: 1, column: 1 };
        Self {
            input,
            parser: LowLevelJsonParser::new(),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            is_at_end: false,
            byte_count: 0,
            passed_count: 0,
            next: place,
            place,
            text: String::new(),
            last: None,
        }
    }

    /// Where the last word began, or the error is.
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// The text of the last word, if it is a key, a string or a number.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// How many bytes were read.
    pub(super) const fn byte_count(&self) -> u64 {
        self.byte_count
    }

    /// The next word; none at the end.
    pub(super) fn next(&mut self, file: &str) -> Result<Option<Token>, Trouble> {
        if self.byte_count == 0 && !self.is_at_end {
            self.begin(file)?;
        }
        loop {
            match self.step() {
                Step::Word(token) => {
                    self.last = Some(token);
                    return Ok(self.last);
                }
                Step::Wrong(error) => return Err(self.told(&error)),
                Step::NeedsMore if self.is_at_end => {
                    self.place = self.next;
                    return Ok(None);
                }
                Step::NeedsMore => self.fill(file)?,
            }
        }
    }

    /// Reads the beginning, which says if the encoding is another one.
    fn begin(&mut self, file: &str) -> Result<(), Trouble> {
        self.fill(file)?;
        match &self.buffer[..self.end] {
            [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] | [0, ..] | [_, 0, ..] => Err(
                "its encoding is UTF-16 or UTF-32, and only UTF-8 is read; convert it (iconv -f \
                     UTF-16 -t UTF-8)"
                    .into(),
            ),
            text => {
                if text.starts_with(&BYTE_ORDER_MARK) {
                    self.start = BYTE_ORDER_MARK.len();
                }
                Ok(())
            }
        }
    }

    /// Has the parser look for a word.
    fn step(&mut self) -> Step {
        let Self { parser, buffer, text, .. } = self;
        let rest = &buffer[self.start..self.end];
        let LowLevelJsonParserResult { consumed_bytes, event } =
            parser.parse_next(rest, self.is_at_end);
        let mut keep = |word: Cow<'_, str>| match word {
            Cow::Borrowed(word) => {
                text.clear();
                text.push_str(word);
            }
            Cow::Owned(word) => *text = word,
        };
        let step = match event {
            None => Step::NeedsMore,
            Some(Err(error)) => Step::Wrong(error),
            Some(Ok(event)) => Step::Word(match event {
                JsonEvent::StartObject => Token::BeginObject,
                JsonEvent::EndObject => Token::EndObject,
                JsonEvent::StartArray => Token::BeginArray,
                JsonEvent::EndArray => Token::EndArray,
                JsonEvent::Boolean(value) => Token::Boolean(value),
                JsonEvent::Null => Token::Null,
                JsonEvent::ObjectKey(key) => {
                    keep(key);
                    Token::Key
                }
                JsonEvent::String(string) => {
                    keep(string);
                    Token::String
                }
                JsonEvent::Number(number) => {
                    keep(number);
                    Token::Number
                }
                JsonEvent::Eof => return Step::NeedsMore,
            }),
        };
        if !matches!(step, Step::Wrong(_)) {
            let passed = &rest[..consumed_bytes];
            let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
            let before = passed.iter().position(|byte| !is_between(byte));
            let (before, word) = passed.split_at(before.unwrap_or(passed.len()));
            self.next.pass(before);
            self.place = self.next;
            self.next.pass(word);
            self.start += consumed_bytes;
            self.passed_count += consumed_bytes as u64;
        }
        step
    }

    /// Reads until the buffer is full, of which half is free at least, or there is no more.
    fn fill(&mut self, file: &str) -> Result<(), Trouble> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end as u64 > PIECE_BYTES_MAX {
            self.place = self.next;
            let mib = PIECE_BYTES_MAX >> 20;
            let what = format!("a string or number is longer than {mib} MiB, which is the limit");
            return Err(what.into());
        }
        if self.end + END.len() > self.buffer.len() / 2 {
            // As much as the longest word takes, and then more, so that a longer one is noticed.
            let most = nandu_base::to_index(PIECE_BYTES_MAX) + BUFFER_BYTES;
            self.buffer.resize((2 * self.buffer.len()).min(most), 0);
        }
        let limit = self.buffer.len() - END.len();
        while self.end < limit {
            match self.input.read(&mut self.buffer[self.end..limit]) {
                Ok(0) => {
                    self.is_at_end = true;
                    self.buffer[self.end..self.end + END.len()].copy_from_slice(&END);
                    self.end += END.len();
                    return Ok(());
                }
                Ok(count) => {
                    self.end += count;
                    self.byte_count += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let file = file.to_owned();
                    return Err(Trouble::Other(XmlError::Read { file, error }));
                }
            }
        }
        Ok(())
    }

    /// What the parser says is wrong, and where.
    fn told(&mut self, error: &JsonSyntaxError) -> Trouble {
        let text_end = if self.is_at_end { self.end - END.len() } else { self.end };
        let from = error.location().start.offset.saturating_sub(self.passed_count);
        let at = self.start + usize::try_from(from).unwrap_or_default();
        let at = at.min(text_end).max(self.start);
        self.place = self.next;
        self.place.pass(&self.buffer[self.start..at]);
        match error.message() {
            // It says so, or what it would have liked there.
            _ if self.is_at_end && at >= text_end => UNEXPECTED_END.into(),
            UNEXPECTED_END if self.buffer[at] == b'"' => {
                // The parser passes the end of a string behind half of a character.
                let string = &self.buffer[at..text_end];
                let Some(half) = half_character(string) else {
                    return "a string begins here and does not end".into();
                };
                self.place.pass(&string[..half]);
                "an escape is half of a character, a surrogate without its other".into()
            }
            // It takes what follows a key for one.
            "Object keys must be strings" if self.last == Some(Token::Key) => {
                "a colon is missing between a key and its value".into()
            }
            what if what.starts_with("Invalid UTF-8") => {
                "there are bytes that are no UTF-8, the only encoding that is read".into()
            }
            what => {
                let mut letters = what.chars();
                let first = letters.next().map(|letter| letter.to_lowercase().to_string());
                (first.unwrap_or_default() + letters.as_str()).into()
            }
        }
    }
}

/// Where in a string, from its quote on, an escape stands for half of a character.
fn half_character(string: &[u8]) -> Option<usize> {
    let unit = |at: usize| {
        let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 1;
    loop {
        match (string.get(at)?, unit(at)) {
            (b'"', _) => return None,
            (b'\\', Some(0xD800..=0xDBFF)) => match unit(at + 6) {
                Some(0xDC00..=0xDFFF) => at += 12,
                _ => return Some(at),
            },
            (b'\\', Some(0xDC00..=0xDFFF)) => return Some(at),
            (b'\\', _) => at += 2,
            _ => at += 1,
        }
    }
}
