//! Verification of a whole tree, and its statistics: what `nandu db check` and `stat` say of it.
//!
//! Findings, not errors: a broken page is told, and the rest is looked at, unless the device does not
//! answer any more. The walk is bounded by the level, which falls with every step, and by looking at
//! each page once.

use super::allocate::{META_PAGE, Meta, ROOT_PAGE, free_page};
use super::node::{Node, Payload, Shape};
use super::overflow::{self, Chain};
use super::tree::{Tree, check_level};
use crate::{FileId, PageAddress, ReadPages, StorageError};
use nandu_base::to_index;
use std::collections::BTreeSet;

/// Findings that are told; one more says that there are others.
const FINDING_COUNT_MAX: usize = 100;

/// What is found in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeReport {
    /// What is wrong, a sentence each; empty for a sound tree.
    pub findings: Vec<String>,
    /// Why the device did not answer; then the rest was not looked at.
    pub failure: Option<StorageError>,
    /// Pages of the file that are the tree's.
    pub page_count: u32,
    /// Keys that the leaves hold.
    pub entry_count: u64,
    /// The nodes of each level, leaves first.
    pub levels: Vec<LevelStatistics>,
    /// Pages of overflow chains.
    pub overflow_page_count: u64,
    /// Bytes of values in overflow chains.
    pub overflow_bytes: u64,
    /// Pages of the file that are free to be taken.
    pub free_page_count: u64,
}

/// The nodes of one level, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// Nodes of the level, a page each.
    pub page_count: u64,
    /// Cells: keys, or separators.
    pub cell_count: u64,
    /// Bytes of cells, slots and prefixes.
    pub used_bytes: u64,
    /// Bytes that there are for these.
    pub capacity_bytes: u64,
}

impl LevelStatistics {
    /// Used bytes of those that there are, in millionths.
    #[must_use]
    pub fn fill_ppm(&self) -> u64 {
        self.used_bytes * 1_000_000 / self.capacity_bytes.max(1)
    }
}

impl TreeReport {
    /// How many levels there are.
    #[must_use]
    pub fn height(&self) -> usize {
        self.levels.len()
    }

    fn find(&mut self, address: PageAddress, what: &str) {
        self.tell(format!("{address}: {what}"));
    }

    fn tell(&mut self, finding: String) {
        match self.findings.len() {
            0..FINDING_COUNT_MAX => self.findings.push(finding),
            FINDING_COUNT_MAX => self.findings.push("there is more, which is left out".to_owned()),
            _ => {}
        }
    }

    fn trouble(&mut self, address: PageAddress, error: StorageError) {
        match error {
            StorageError::Corrupt { what, .. } => self.find(address, &what),
            error => {
                self.tell(error.to_string());
                if !error.is_damage() {
                    self.failure = self.failure.take().or(Some(error));
                }
            }
        }
    }
}

/// Looks at every page of the tree in `file`.
pub fn check<P: ReadPages>(pages: &P, file: FileId) -> TreeReport {
    let mut checker = Checker {
        pages,
        tree: Tree::at(file),
        seen: BTreeSet::from([META_PAGE]),
        last_leaf: None,
        report: TreeReport::default(),
    };
    let meta = match Meta::read(pages, file) {
        Ok(meta) => meta,
        Err(error) => {
            checker.report.trouble(PageAddress::new(file, META_PAGE), error);
            return checker.report;
        }
    };
    checker.report.page_count = meta.page_count;
    checker.nodes();
    checker.free_pages(meta);
    if checker.report.failure.is_none() {
        checker.count_pages(meta);
    }
    checker.report
}

struct Checker<'a, P> {
    pages: &'a P,
    tree: Tree,
    seen: BTreeSet<u32>,
    last_leaf: Option<(u32, u32)>,
    report: TreeReport,
}

/// A node to be looked at, and what is known of it.
struct Visit {
    page: u32,
    above: Option<u8>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// What is taken from a node.
struct Look {
    level: u8,
    next: u32,
    statistics: LevelStatistics,
    children: Vec<Visit>,
    chains: Vec<Chain>,
    trouble: Option<&'static str>,
}

impl<P: ReadPages> Checker<'_, P> {
    /// All nodes, leaves in the order of their keys.
    fn nodes(&mut self) {
        let mut open = vec![Visit { page: ROOT_PAGE, above: None, lower: None, upper: None }];
        while let Some(visit) = open.pop() {
            let address = self.tree.address(visit.page);
            if self.report.failure.is_some() || !self.take(visit.page) {
                continue;
            }
            let look = match self.tree.node(self.pages, visit.page, |node| visit.look(&node)) {
                Ok(look) => look,
                Err(error) => {
                    self.report.trouble(address, error);
                    continue;
                }
            };
            if let Some(what) = look.trouble {
                self.report.find(address, what);
            }
            self.follow_leaf(visit.page, &look);
            self.add(&look);
            for chain in look.chains {
                self.chain(address, chain);
            }
            if look.level == 1 {
                let addresses: Vec<_> =
                    look.children.iter().map(|child| self.tree.address(child.page)).collect();
                self.pages.prefetch(&addresses);
            }
            open.extend(look.children.into_iter().rev());
        }
        if let Some((page, next)) = self.last_leaf
            && next != 0
        {
            self.report.find(self.tree.address(page), "it is the last leaf, but has a successor");
        }
    }

    /// Notes that a page has its use; `false` if it had one already.
    fn take(&mut self, page: u32) -> bool {
        let address = self.tree.address(page);
        if page > self.report.page_count {
            self.report.find(address, "it is used, but past the end of the tree");
        }
        let first = self.seen.insert(page);
        if !first {
            self.report.find(address, "it is used twice");
        }
        first
    }

    /// Leaves are chained in the order in which the walk meets them.
    fn follow_leaf(&mut self, page: u32, look: &Look) {
        if look.level > 0 {
            return;
        }
        if let Some((before, next)) = self.last_leaf.replace((page, look.next))
            && next != page
        {
            let what = "its successor is not the leaf with the next keys";
            self.report.find(self.tree.address(before), what);
        }
    }

    fn add(&mut self, look: &Look) {
        let level = usize::from(look.level);
        if self.report.levels.len() <= level {
            self.report.levels.resize(level + 1, LevelStatistics::default());
        }
        let sum = &mut self.report.levels[level];
        sum.page_count += 1;
        sum.cell_count += look.statistics.cell_count;
        sum.used_bytes += look.statistics.used_bytes;
        sum.capacity_bytes += look.statistics.capacity_bytes;
        if level == 0 {
            self.report.entry_count += look.statistics.cell_count;
        }
    }

    fn chain(&mut self, leaf: PageAddress, chain: Chain) {
        let mut left = to_index(chain.byte_count);
        let count = chain.page_count(self.pages.usable_bytes());
        let mut page = chain.first;
        for index in 1..=count {
            let address = self.tree.address(page);
            if page == 0 {
                return self.report.find(leaf, "a value's chain is too short");
            }
            if !self.take(page) {
                return;
            }
            self.report.overflow_page_count += 1;
            let opened = self.pages.read(address, |bytes| {
                overflow::open(bytes).map(|(data, next)| (data.len(), next))
            });
            let (data_bytes, next) = match opened {
                Ok(Ok(answer)) => answer,
                Ok(Err(what)) => return self.report.find(address, what),
                Err(error) => return self.report.trouble(address, error),
            };
            let full_bytes = overflow::data_bytes(self.pages.usable_bytes());
            if data_bytes != left.min(full_bytes) {
                self.report.find(address, "it holds another part of a value than it should");
            }
            left = left.saturating_sub(data_bytes);
            if index == count && (next != 0 || page != chain.last) {
                self.report.find(address, "it is not the end of its chain as it should be");
            }
            page = next;
        }
        self.report.overflow_bytes += chain.byte_count;
    }

    fn free_pages(&mut self, meta: Meta) {
        let mut page = meta.free_first;
        for _ in 0..meta.free_count {
            let address = self.tree.address(page);
            if page == 0 {
                break;
            }
            if !self.take(page) {
                return;
            }
            self.report.free_page_count += 1;
            match self.pages.read(address, free_page) {
                Ok(Ok(next)) => page = next,
                Ok(Err(what)) => return self.report.find(address, what),
                Err(error) => return self.report.trouble(address, error),
            }
        }
        if page != 0 || self.report.free_page_count != u64::from(meta.free_count) {
            let what = "the list of free pages is not as long as counted";
            self.report.find(self.tree.address(META_PAGE), what);
        }
    }

    /// Every page has a use.
    fn count_pages(&mut self, meta: Meta) {
        let mut expected = META_PAGE;
        let used: Vec<u32> = self.seen.range(..=meta.page_count).copied().collect();
        for page in used.into_iter().chain([meta.page_count.saturating_add(1)]) {
            if page > expected {
                let what = match page - expected {
                    1 => "nothing uses it".to_owned(),
                    count => format!("nothing uses it and the next {}", count - 1),
                };
                self.report.find(self.tree.address(expected), &what);
            }
            expected = page.saturating_add(1);
        }
    }
}

impl Visit {
    fn look(&self, node: &Node<'_>) -> Shape<Look> {
        check_level(node, self.above)?;
        let count = node.count();
        let mut look = Look {
            level: node.level(),
            next: node.next(),
            statistics: LevelStatistics {
                page_count: 1,
                cell_count: count as u64,
                used_bytes: node.used_bytes() as u64,
                capacity_bytes: node.capacity_bytes() as u64,
            },
            children: Vec::new(),
            chains: Vec::new(),
            trouble: node.audit().and_then(|()| self.check_bounds(node)).err(),
        };
        if node.is_leaf() {
            for slot in 0..count {
                if let Ok(Payload::Chain(chain)) = node.payload(slot) {
                    match Chain::from_bytes(chain) {
                        Ok(chain) => look.chains.push(chain),
                        Err(what) => look.trouble = look.trouble.or(Some(what)),
                    }
                }
            }
            return Ok(look);
        }
        if look.next != 0 {
            look.trouble = look.trouble.or(Some("an inner node has a successor"));
        }
        let mut lower = self.lower.clone();
        for index in 0..=count {
            let upper = if index < count { node.key(index).ok() } else { self.upper.clone() };
            match node.child(index) {
                Ok(page) => {
                    let above = Some(look.level);
                    look.children.push(Visit { page, above, lower, upper: upper.clone() });
                }
                Err(what) => look.trouble = look.trouble.or(Some(what)),
            }
            lower = upper;
        }
        Ok(look)
    }

    /// Separators bound what is below them.
    fn check_bounds(&self, node: &Node<'_>) -> Shape<()> {
        if node.count() == 0 {
            return Ok(());
        }
        let (first, last) = (node.key(0)?, node.key(node.count() - 1)?);
        if self
            .lower
            .as_ref()
            .is_some_and(|lower| if node.is_leaf() { first < *lower } else { first <= *lower })
        {
            return Err("its first key is below the separator before it");
        }
        if self.upper.as_ref().is_some_and(|upper| last >= *upper) {
            return Err("its last key is not below the separator after it");
        }
        Ok(())
    }
}
