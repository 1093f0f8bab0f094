//! A document of JSON as text again: the same value, with keys in the order in which they were and
//! numbers as they were written.
//!
//! 1. Memory holds a buffer and the values that are open.
//! 2. What no import would have made is damage.

use super::{put_escaped, put_leaf, put_string};
use crate::document::Document;
use crate::error::XmlError;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::{ClassId, StepKind};
use crate::walk::{NodeVisitor, walk};
use nandu_storage::database::Tables;
use std::io::Write;

const BUFFER_BYTES: usize = 64 << 10;

/// What a value that is open has turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing has come of it yet.
    Unknown,
    Object,
    Array,
    /// A value without others in it.
    Leaf,
}

/// Writes a document as JSON. Gives the number of bytes.
pub(crate) fn export(
    tables: &Tables,
    document: &Document,
    output: &mut dyn Write,
) -> Result<u64, XmlError> {
    let mut exporter =
        Exporter { document, buffer: Vec::new(), output, byte_count: 0, open: Vec::new() };
    walk(tables, document, &mut exporter, |_, _| Ok(()))?;
    exporter.buffer.push(b'\n');
    exporter.flush(0)?;
    exporter.output.flush().map_err(|error| XmlError::Write { error })?;
    Ok(exporter.byte_count)
}

struct Exporter<'e> {
    document: &'e Document,
    buffer: Vec<u8>,
    output: &'e mut dyn Write,
    byte_count: u64,
    open: Vec<Shape>,
}

impl Exporter<'_> {
    /// Writes the buffer if it has more bytes than this.
    fn flush(&mut self, limit: usize) -> Result<(), XmlError> {
        if self.buffer.len() > limit {
            self.output.write_all(&self.buffer).map_err(|error| XmlError::Write { error })?;
            self.byte_count += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn damaged<T>(&self, what: &str) -> Result<T, XmlError> {
        Err(self.document.damaged(what))
    }
}

impl NodeVisitor for Exporter<'_> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        let Some(step) = self.document.synopsis().get(class) else {
            return self.damaged("a class leads nowhere");
        };
        let shape = if step.kind == StepKind::Array { Shape::Array } else { Shape::Object };
        if let Some(outer) = self.open.last_mut() {
            let is_first = *outer == Shape::Unknown;
            if is_first {
                *outer = shape;
                self.buffer.push(if shape == Shape::Array { b'[' } else { b'{' });
            } else if *outer == shape {
                self.buffer.push(b',');
            } else {
                return self.damaged("a value is more than one thing at once");
            }
            if shape == Shape::Object {
                let Some(name) = self.document.vocabulary().get(step.name) else {
                    return self.damaged("a key is missing");
                };
                put_string(name.local.as_bytes(), &mut self.buffer);
                self.buffer.push(b':');
            }
        }
        self.open.push(Shape::Unknown);
        self.flush(BUFFER_BYTES)
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        match self.open.pop() {
            Some(Shape::Object) => self.buffer.push(b'}'),
            Some(Shape::Array) => self.buffer.push(b']'),
            Some(Shape::Leaf) => {}
            Some(Shape::Unknown) | None => return self.damaged("a value has nothing in it"),
        }
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        let (is_first, is_last) = (!record.is_continued, !record.goes_on);
        let Some(own) = self.open.last_mut().filter(|_| record.kind == NodeKind::Text) else {
            return self.damaged("a node is none that JSON has");
        };
        if is_first && std::mem::replace(own, Shape::Leaf) != Shape::Unknown {
            return self.damaged("a value is more than one thing at once");
        }
        match record.value_type {
            ValueType::Text => {
                if is_first {
                    self.buffer.push(b'"');
                }
                put_escaped(record.value, &mut self.buffer);
                if is_last {
                    self.buffer.push(b'"');
                }
            }
            ValueType::Number | ValueType::Boolean => self.buffer.extend_from_slice(record.value),
            value_type if is_first => put_leaf(value_type, record.value, &mut self.buffer),
            _ => {}
        }
        self.flush(BUFFER_BYTES)
    }
}
