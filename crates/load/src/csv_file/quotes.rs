//! Where text follows a closing quote, which the reader of records would take for more of the field.
//!
//! ```text
//!   start ──"──► quoted ◄──"──► closed
//!     ▲ └─other─► plain           │
//!     └── delimiter, line end ────┘ other: text behind the quote
//! ```
//!
//! 1. The watch sees the bytes that the reader gets, and takes them apart as the reader does: a quote that
//!    is not the first byte of a field is text.

/// What the next byte is to the field that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// Behind a quote that closes the field, or is the first of the two that stand for one.
    Closed,
}

/// A watch over bytes as they are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuoteWatch {
    state: State,
    delimiter: u8,
    /// Bytes that were seen.
    seen: u64,
    /// The first byte of text behind a closing quote, counted from the file's beginning.
    text_behind_quote: Option<u64>,
}

impl QuoteWatch {
    pub(super) const fn new(delimiter: u8) -> Self {
        Self { state: State::Start, delimiter, seen: 0, text_behind_quote: None }
    }

    /// The first byte of text behind a closing quote, counted from the file's beginning.
    pub(super) const fn text_behind_quote(&self) -> Option<u64> {
        self.text_behind_quote
    }

    /// Looks at the next bytes.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let start = self.seen;
        self.seen += bytes.len() as u64;
        if self.text_behind_quote.is_some() {
            return;
        }
        // The reader leaves out a mark of the order of bytes.
        let mut at = if start == 0 && bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        while at < bytes.len() {
            let quote = || memchr::memchr(b'"', &bytes[at..]).map(|distance| at + distance);
            match self.state {
                State::Start | State::Plain => {
                    let Some(quote) = quote() else {
                        self.state = self.behind(bytes[bytes.len() - 1]);
                        return;
                    };
                    let before =
                        if quote > at { self.behind(bytes[quote - 1]) } else { self.state };
                    self.state = if before == State::Start { State::Quoted } else { State::Plain };
                    at = quote + 1;
                }
                State::Quoted => {
                    let Some(quote) = quote() else { return };
                    self.state = State::Closed;
                    at = quote + 1;
                }
                State::Closed => {
                    self.state = match bytes[at] {
                        b'"' => State::Quoted,
                        byte => self.behind(byte),
                    };
                    if self.state == State::Plain {
                        self.text_behind_quote = Some(start + at as u64);
                        return;
                    }
                    at += 1;
                }
            }
        }
    }

    /// What follows a byte outside quotes.
    const fn behind(&self, byte: u8) -> State {
        if byte == self.delimiter || byte == b'\n' || byte == b'\r' {
            State::Start
        } else {
            State::Plain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, step: usize) -> Option<u64> {
        let mut watch = QuoteWatch::new(b',');
        text.as_bytes().chunks(step).for_each(|bytes| watch.see(bytes));
        watch.text_behind_quote()
    }

    #[test]
    fn text_behind_a_quote_is_found_wherever_reads_are_cut() {
        for (text, place) in [
            ("\"x\"y,1\n", Some(3)),
            ("a,b\n1,\"x\" \n", Some(9)),
            ("a,b\n1,\"x\"\"\" ,\n", Some(11)),
            ("a,\"b\nc\"\r\n\"d\"e", Some(12)),
            ("\"\"\"\"\"x\"y\n", Some(7)),
            ("\"x\",\"\"\r\n\"\"\n\"a\"\"b\"\n\"c\"", None),
            ("a\"b\"c, \"d\"e,f\"\n", None),
            ("\"never closed y,\n", None),
            ("", None),
        ] {
            for step in 1..=text.len().max(1) {
                assert_eq!(found(text, step), place, "{text:?} by {step}");
            }
        }
        assert_eq!(found("\u{feff}\"x\"y", 100), Some(6));
        assert_eq!(found("\u{feff}\"x\",y", 100), None);
    }
}
