//! What holds of a document of JSON beside what holds of all.

use super::fits;
use crate::document::Document;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::{ClassId, StepKind};
use std::collections::BTreeSet;

/// Looks at the nodes of a document in order.
#[derive(Debug)]
pub(crate) struct JsonRules {
    open: Vec<Value>,
    /// The parts of a text so far.
    text: Vec<u8>,
}

/// A value that is open.
#[derive(Debug, Default)]
struct Value {
    /// Members or items.
    children: Option<StepKind>,
    has_text: bool,
    keys: BTreeSet<ClassId>,
}

impl JsonRules {
    pub(crate) const fn new() -> Self {
        Self { open: Vec::new(), text: Vec::new() }
    }

    /// An element begins. Says what is wrong with that.
    pub(crate) fn open(&mut self, document: &Document, class: ClassId) -> Result<(), &'static str> {
        let kind = document.synopsis().get(class).map(|class| class.kind);
        let outer = self.open.last_mut();
        // What is in the value is looked at whatever was wrong with its place.
        let answer = match outer {
            None => Ok(()),
            Some(outer) if outer.has_text || outer.children.is_some_and(|it| Some(it) != kind) => {
                Err("a value is more than one thing at once")
            }
            Some(outer) => {
                outer.children = kind;
                let is_new = kind == Some(StepKind::Array) || outer.keys.insert(class);
                if is_new { Ok(()) } else { Err("an object has a key twice") }
            }
        };
        self.open.push(Value::default());
        answer
    }

    /// The innermost element ends.
    pub(crate) fn close(&mut self) -> Result<(), &'static str> {
        match self.open.pop() {
            Some(Value { children: None, has_text: false, .. }) => Err("a value has nothing in it"),
            _ => Ok(()),
        }
    }

    /// Another node, or a part of one.
    pub(crate) fn leaf(&mut self, record: &Record<'_>) -> Result<(), &'static str> {
        let Some(own) = self.open.last_mut().filter(|_| record.kind == NodeKind::Text) else {
            return Err("a node is none that JSON has");
        };
        let is_second = std::mem::replace(&mut own.has_text, true) || own.children.is_some();
        if !record.is_continued {
            self.text.clear();
            if is_second {
                return Err("a value is more than one thing at once");
            }
        }
        self.text.extend_from_slice(record.value);
        if record.goes_on {
            return Ok(());
        }
        let does_fit = fits(record.value_type, &self.text);
        match record.value_type {
            _ if does_fit => Ok(()),
            ValueType::Text => Err("a string is no text"),
            _ => Err("a value is none of its type"),
        }
    }
}
