//! The tree against a model, its pages against the redo of its changes, and both against bad luck.

mod bulk;
mod estimate;
mod faults;
mod model;
mod pages;
mod prefix;
mod run;

use super::{Cursor, Direction, Tree, TreeReport, Undo, apply, apply_undo, check};
use crate::access::{ChangePages, MemoryPages, ReadPages};
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::{FileId, PageAddress, PageOperation, StorageError};
use nandu_base::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

const FILE: FileId = FileId(7);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn empty(page_bytes: u32) -> (MemoryPages, Tree) {
    let mut pages = MemoryPages::new(page_bytes, apply);
    let tree = Tree::create(&mut pages, FILE).unwrap();
    (pages, tree)
}

fn page_sizes() -> impl Iterator<Item = u32> {
    (PAGE_BYTES_MIN.ilog2()..=PAGE_BYTES_MAX.ilog2()).map(|bits| 1 << bits)
}

/// All that a scan gives.
fn collect(mut cursor: Cursor, pages: &impl ReadPages) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((key, value)) = cursor.next(pages).unwrap() {
        all.push((key.to_vec(), value.to_vec()));
    }
    all
}

fn everything() -> (Bound<&'static [u8]>, Bound<&'static [u8]>) {
    (Bound::Unbounded, Bound::Unbounded)
}

/// The tree is sound, and holds what the model holds.
fn assert_same(pages: &impl ReadPages, tree: &Tree, model: &Model) -> TreeReport {
    let report = check(pages, FILE);
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!(report.entry_count, model.len() as u64);
    let wanted: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(collect(tree.scan(everything(), Direction::Forward), pages), wanted);
    let mut found = collect(tree.scan(everything(), Direction::Backward), pages);
    found.reverse();
    assert_eq!(found, wanted);
    report
}

fn get(pages: &impl ReadPages, tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    tree.get(pages, key, <[u8]>::to_vec).unwrap()
}

fn number(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}
