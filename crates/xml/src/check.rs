//! Whether a stored document keeps its rules, record by record.
//!
//! 1. What is found is told; a rule that makes the rest unreadable ends the check.

use crate::compression::Compression;
use crate::document::{Document, Exactness};
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::index::{IndexCheck, IndexDefinition, Indexer, Indexing};
use crate::json::JsonRules;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::{ClassId, StepKind};
use crate::tree_writer::Counts;
use crate::walk::{NodeVisitor, walk};
use nandu_storage::database::Tables;
use serde::Serialize;

/// How many findings are told.
const FINDING_COUNT_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DocumentCheck {
    /// Every rule that is broken, up to a hundred. Empty for a sound document.
    pub findings: Vec<String>,
    /// What there is, as counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Containers that were read.
    pub container_count: u64,
    /// Entries of indexes that were compared with their nodes.
    pub index_entry_count: u64,
}

/// Checks that records are in order, that labels, classes and kinds fit each other, that text is
/// text, that the catalogue has counted right, and that indexes have an entry for each node of theirs
/// and no other. In a transaction that may change the document counts are not compared: others may be
/// adding to them.
///
/// # Errors
/// If a page cannot be read. Damage is a finding.
pub fn check(tables: &Tables, document: &Document) -> Result<DocumentCheck, XmlError> {
    let json = (document.format() == DocumentFormat::Json).then(JsonRules::new);
    let mut checker = Checker {
        document,
        json,
        report: DocumentCheck::default(),
        node_counts: vec![0; document.synopsis().classes().len()],
        depth: 0,
        root_count: 0,
        value: Vec::new(),
    };
    let limit = document.catalog.container_bytes;
    let (mut container_count, mut long_count) = (0, 0);
    let mut index_check = IndexCheck::new(tables, document);
    let kinds = document.indexes().map(IndexDefinition::kind).collect();
    let mut indexer = Indexer::new(kinds, document.catalog.coverage(), document.format());
    let mut expect = |place: usize, key: &[u8]| index_check.expect(place, key);
    let indexing = indexer.with_sink(&mut expect);
    let mut both = Both { checker: &mut checker, indexing };
    let walked = walk(tables, document, &mut both, |_, value| {
        container_count += 1;
        long_count += u64::from(value.len() as u64 > limit);
        Ok(())
    });
    checker.report.container_count = container_count;
    match walked {
        Err(XmlError::Damaged { what, .. }) => checker.find(what),
        walked => {
            walked?;
            if long_count > 0 && document.compression() == Compression::None {
                checker.find(format!("{long_count} containers have more than {limit} bytes"));
            }
            let is_counted = document.catalog.exactness == Exactness::Classes;
            checker.compare(is_counted);
            let told = document.catalog.totals.container_count;
            if is_counted && told != container_count {
                checker.find(format!(
                    "the catalogue counts {told} containers, and there are {container_count}"
                ));
            }
            let (findings, entry_count) = index_check.finish()?;
            findings.into_iter().for_each(|finding| checker.find(finding));
            checker.report.index_entry_count = entry_count;
        }
    }
    Ok(checker.report)
}

/// Tells two of the same nodes.
struct Both<'b, 'c, S> {
    checker: &'b mut Checker<'c>,
    indexing: Indexing<'b, S>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), XmlError>> NodeVisitor for Both<'_, '_, S> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        self.checker.open(class)
    }

    fn open_at(&mut self, class: ClassId, label: &[u8]) -> Result<(), XmlError> {
        self.checker.open(class)?;
        self.indexing.open_at(class, label)
    }

    fn close(&mut self, class: ClassId) -> Result<(), XmlError> {
        self.checker.close(class)?;
        self.indexing.close(class)
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        self.checker.leaf(record)?;
        self.indexing.leaf(record)
    }
}

struct Checker<'c> {
    document: &'c Document,
    /// The rules of JSON, for a document of it.
    json: Option<JsonRules>,
    report: DocumentCheck,
    /// By class.
    node_counts: Vec<u64>,
    depth: u64,
    root_count: u64,
    /// The parts of a value that goes on.
    value: Vec<u8>,
}

impl Checker<'_> {
    fn find(&mut self, what: impl Into<String>) {
        if self.report.findings.len() < FINDING_COUNT_MAX {
            self.report.findings.push(what.into());
        }
    }

    /// What the catalogue says.
    fn compare(&mut self, is_counted: bool) {
        if self.root_count != 1 {
            self.find(format!("it has {} outermost elements", self.root_count));
        }
        if !is_counted {
            return;
        }
        let catalog = &self.document.catalog;
        let (mut found, mut kept) = (self.report.counts, catalog.totals.counts);
        for kind in NodeKind::ALL {
            let (found, kept) = (*found.of_kind(kind), *kept.of_kind(kind));
            if found != kept {
                let what = kind.label();
                self.find(format!("there are {found} {what}, and its catalogue counts {kept}"));
            }
        }
        // Levels that went are still counted.
        if found.value_bytes != kept.value_bytes || found.level_count > kept.level_count {
            self.find("its values or levels are not as many as its catalogue counts");
        }
        let classes = catalog.synopsis.classes().iter().zip(0u32..).skip(1);
        for (class, id) in classes {
            let found = self.node_counts[id as usize];
            if found != class.node_count {
                let kept = class.node_count;
                self.find(format!("class {id} has {found} nodes, and its catalogue counts {kept}"));
            }
        }
    }
}

impl NodeVisitor for Checker<'_> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        let counts = &mut self.report.counts;
        self.root_count += u64::from(self.depth == 0);
        self.depth += 1;
        counts.element_count += 1;
        counts.level_count = counts.level_count.max(self.depth);
        self.node_counts[class.0 as usize] += 1;
        let document = self.document;
        let kind = document.synopsis().get(class).map(|class| class.kind);
        let kept = match &mut self.json {
            Some(json) => json.open(document, class),
            None if kind == Some(StepKind::Array) => Err("there are items of arrays, as in JSON"),
            None => Ok(()),
        };
        kept.unwrap_or_else(|what| self.find(what));
        Ok(())
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        self.depth -= 1;
        let kept = self.json.as_mut().map_or(Ok(()), JsonRules::close);
        kept.unwrap_or_else(|what| self.find(what));
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        let counts = &mut self.report.counts;
        counts.value_bytes += record.value.len() as u64;
        if !record.is_continued {
            *counts.of_kind(record.kind) += 1;
            if matches!(record.kind, NodeKind::Attribute | NodeKind::Namespace) {
                self.node_counts[record.class.0 as usize] += 1;
            }
        }
        if let Some(json) = &mut self.json {
            let kept = json.leaf(record);
            kept.unwrap_or_else(|what| self.find(format!("{what}: {:02x?}", record.label)));
            return Ok(());
        }
        let is_text = match record.is_continued || record.goes_on {
            false => std::str::from_utf8(record.value).is_ok(),
            true => {
                self.value.extend_from_slice(record.value);
                record.goes_on || std::str::from_utf8(&std::mem::take(&mut self.value)).is_ok()
            }
        };
        if !is_text || record.value_type != ValueType::Text {
            self.find(format!("the value of {:02x?} is no text", record.label));
        }
        if record.kind == NodeKind::Text && self.depth == 0 {
            self.find("there is text outside of the outermost element");
        }
        Ok(())
    }
}
