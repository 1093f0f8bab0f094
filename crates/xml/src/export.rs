//! A document as text again: one of XML equal to what was imported, by canonical XML (`xmllint
//! --c14n`); one of JSON as `json` has it.
//!
//! 1. What canonical XML keeps is kept: elements with their prefixes, attributes, texts, comments,
//!    instructions. A document type is written as it was. Which quotes there were, sections of
//!    CDATA, references and white space in tags are not stored.
//! 2. Memory holds a buffer and the elements that are open.

use crate::document::Document;
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::record::{NodeKind, Record};
use crate::synopsis::ClassId;
use crate::walk::{NodeVisitor, walk};
use nandu_storage::database::Tables;
use std::io::Write;

const BUFFER_BYTES: usize = 64 << 10;

/// Writes a document as what it was made from, XML or JSON. Gives the number of bytes.
///
/// # Errors
/// If a page cannot be read, the document is damaged, or `output` fails.
pub fn export(
    tables: &Tables,
    document: &Document,
    output: &mut dyn Write,
) -> Result<u64, XmlError> {
    if document.format() == DocumentFormat::Json {
        return crate::json::export(tables, document, output);
    }
    let names = document.vocabulary().names();
    let written: Vec<Box<[u8]>> =
        names.iter().map(|name| name.written().into_bytes().into_boxed_slice()).collect();
    let classes = document.synopsis().classes();
    let names = classes.iter().map(|class| written.get(class.name.0 as usize).cloned());
    let mut exporter = Exporter {
        names: names.map(Option::unwrap_or_default).collect(),
        buffer: Vec::with_capacity(2 * BUFFER_BYTES),
        output,
        byte_count: 0,
        in_tag: false,
        depth: 0,
    };
    exporter.buffer.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    walk(tables, document, &mut exporter, |_, _| Ok(()))?;
    exporter.flush(0)?;
    exporter.output.flush().map_err(|error| XmlError::Write { error })?;
    Ok(exporter.byte_count)
}

struct Exporter<'e> {
    /// How each class is written.
    names: Vec<Box<[u8]>>,
    buffer: Vec<u8>,
    output: &'e mut dyn Write,
    byte_count: u64,
    /// Whether the tag of the innermost element has no end yet.
    in_tag: bool,
    depth: usize,
}

impl Exporter<'_> {
    /// Writes the buffer if it has more bytes than this.
    #[inline]
    fn flush(&mut self, limit: usize) -> Result<(), XmlError> {
        if self.buffer.len() > limit {
            self.output.write_all(&self.buffer).map_err(|error| XmlError::Write { error })?;
            self.byte_count += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    #[inline]
    fn end_tag(&mut self) {
        if std::mem::take(&mut self.in_tag) {
            self.buffer.push(b'>');
        }
    }

    #[inline]
    fn put_name(&mut self, class: ClassId) {
        self.buffer.extend_from_slice(&self.names[class.0 as usize]);
    }

    fn end_line(&mut self) {
        if self.depth == 0 {
            self.buffer.push(b'\n');
        }
    }
}

impl NodeVisitor for Exporter<'_> {
    #[inline]
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        self.end_tag();
        self.buffer.push(b'<');
        self.put_name(class);
        self.in_tag = true;
        self.depth += 1;
        self.flush(BUFFER_BYTES)
    }

    #[inline]
    fn close(&mut self, class: ClassId) -> Result<(), XmlError> {
        self.depth -= 1;
        if std::mem::take(&mut self.in_tag) {
            self.buffer.extend_from_slice(b"/>");
        } else {
            self.buffer.extend_from_slice(b"</");
            self.put_name(class);
            self.buffer.push(b'>');
        }
        self.end_line();
        Ok(())
    }

    #[inline]
    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        let (is_first, is_last) = (!record.is_continued, !record.goes_on);
        let (front, back): (&[u8], &[u8]) = match record.kind {
            NodeKind::Attribute if is_first => {
                self.buffer.push(b' ');
                self.put_name(record.class);
                (b"=\"", b"\"")
            }
            NodeKind::Namespace if is_first => {
                self.buffer.extend_from_slice(b" xmlns");
                if !self.names[record.class.0 as usize].is_empty() {
                    self.buffer.push(b':');
                    self.put_name(record.class);
                }
                (b"=\"", b"\"")
            }
            NodeKind::Attribute | NodeKind::Namespace => (b"", b"\""),
            kind => {
                self.end_tag();
                match kind {
                    NodeKind::Comment => (b"<!--", b"-->"),
                    NodeKind::Instruction => (b"<?", b"?>"),
                    NodeKind::Doctype => (b"<!DOCTYPE ", b">"),
                    _ => (b"", b""),
                }
            }
        };
        if is_first {
            self.buffer.extend_from_slice(front);
        }
        match record.kind {
            NodeKind::Attribute | NodeKind::Namespace => {
                escape(record.value, is_special_in_attribute, &mut self.buffer);
            }
            NodeKind::Text => escape(record.value, is_special_in_text, &mut self.buffer),
            _ => self.buffer.extend_from_slice(record.value),
        }
        if is_last {
            self.buffer.extend_from_slice(back);
            if !matches!(record.kind, NodeKind::Attribute | NodeKind::Namespace) {
                self.end_line();
            }
        }
        self.flush(BUFFER_BYTES)
    }
}

#[inline]
pub(crate) const fn is_special_in_text(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'>' | b'\r')
}

#[inline]
pub(crate) const fn is_special_in_attribute(byte: u8) -> bool {
    matches!(byte, b'&' | b'<' | b'"' | b'\t' | b'\n' | b'\r')
}

/// Appends text with references in place of what would be taken for something else.
#[inline]
pub(crate) fn escape(text: &[u8], is_special: impl Fn(u8) -> bool, bytes: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| is_special(byte)) {
        bytes.extend_from_slice(&rest[..at]);
        bytes.extend_from_slice(match rest[at] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\t' => b"&#9;",
            b'\n' => b"&#10;",
            _ => b"&#13;",
        });
        rest = &rest[at + 1..];
    }
    bytes.extend_from_slice(rest);
}
