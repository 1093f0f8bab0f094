//! Chooses how the elements are found in which an expression is answered: all of the document is read, or
//! an index says where they are.
//!
//! ```text
//!   //order[@id = 7]/total      elements    /shop/order
//!                               condition   /shop/order/@id = 7
//!                                             │ number://order/@id
//!                                             ▼
//!                                           labels of ids ─► of the orders above ─► each read, and asked
//! ```
//!
//! 1. A condition holds of each element in which anything is found, and an index finds all elements of
//!    which it holds. What is found in these is asked of the nodes, so one that is too many does no harm.
//! 2. Containers are compared: those of the document, and those of the elements that were found. A lookup
//!    ends when it has found too many.

use super::conditions::{Alternative, conditions, is_of_texts};
use super::evaluate::{NameTest, Namespaces};
use super::plan::{Access, QueryPlan, next_classes};
use super::tree::{Axis, Expression, NodeTest, Path, Step};
use crate::document::{Document, Exactness};
use crate::error::XmlError;
use crate::index::{Coverage, IndexDefinition, IndexKind, Looked, Sought, collect};
use crate::label::Label;
use crate::synopsis::{ClassId, StepKind};
use nandu_storage::database::Tables;
use std::collections::BTreeSet;

/// How many labels are held in memory at most.
const FOUND_COUNT_MAX: u64 = 1 << 20;

/// Elements that indexes have found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundElements {
    /// The indexes; none where the document has no such element.
    pub indexes: Vec<IndexDefinition>,
    /// How many entries were read.
    pub entry_count: u64,
    /// The labels of the elements, none in another, in the order of the document.
    pub labels: Vec<Label>,
}

/// How many containers are read, as expected from the counts of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerCosts {
    /// All of the document.
    pub scan_count: u64,
    /// For each element that an index finds.
    pub element_count: u64,
}

struct Chooser<'c> {
    tables: &'c Tables,
    document: &'c Document,
    namespaces: &'c Namespaces,
    plan: &'c QueryPlan,
    coverage: Coverage,
}

impl QueryPlan {
    /// The plan, with indexes of the document where reading what they find is less than reading all.
    ///
    /// # Errors
    /// If a page cannot be read, or an index is damaged.
    pub fn choose(
        mut self,
        tables: &Tables,
        document: &Document,
        namespaces: &Namespaces,
    ) -> Result<Self, XmlError> {
        if self.holds_document() {
            return Ok(self);
        }
        let coverage = document.catalog.coverage();
        let found = if self.place.is_none() {
            Chooser { tables, document, namespaces, plan: &self, coverage }.found()?
        } else if let Some(plan) = self.above(document) {
            Chooser { tables, document, namespaces, plan: &plan, coverage }.found()?
        } else {
            None
        };
        if let Some(found) = found {
            self.access = Access::Found(found);
        }
        Ok(self)
    }

    /// The plan for the elements in which those lie that are asked for by their places: an index does not know
    /// which one of them it finds. `None` where they lie in one another, or in the outermost.
    fn above(&self, document: &Document) -> Option<Self> {
        let synopsis = document.synopsis();
        let parent = |class: &ClassId| synopsis.get(*class).map(|class| class.parent);
        let classes = self.classes.iter().map(parent).collect::<Option<BTreeSet<ClassId>>>()?;
        let is_inner = |class: &ClassId| synopsis.get(*class).is_some_and(|class| class.level > 1);
        let is_apart = classes.is_disjoint(&self.classes) && classes.iter().all(is_inner);
        let rest = Expression::Path(Path { from_document: false, steps: Vec::new() });
        is_apart.then(|| Self { classes, place: None, rest, ..self.clone() })
    }

    /// How many containers its ways read.
    #[must_use]
    pub fn container_costs(&self, document: &Document) -> ContainerCosts {
        let classes = document.synopsis().classes();
        let mut is_below = vec![false; classes.len()];
        let (mut own_count, mut below_count, mut all_count) = (0, 0, 0);
        for (place, class) in classes.iter().enumerate() {
            let is_own = self.holds(ClassId(nandu_base::to_u32(place as u64)));
            is_below[place] = is_own || is_below[class.parent.0 as usize];
            own_count += if is_own { class.node_count } else { 0 };
            below_count += if is_below[place] { class.node_count } else { 0 };
            all_count += class.node_count;
        }
        let scan_count = document.catalog.totals.container_count.max(1);
        let inside = u128::from(scan_count) * u128::from(below_count)
            / (u128::from(all_count.max(1)) * u128::from(own_count.max(1)));
        let element_count = 1 + u64::try_from(inside).unwrap_or(u64::MAX);
        ContainerCosts { scan_count, element_count }
    }
}

impl Chooser<'_> {
    /// What indexes find, if it is worth it.
    fn found(&self) -> Result<Option<FoundElements>, XmlError> {
        let synopsis = self.document.synopsis();
        let own: Vec<ClassId> = { self.plan.classes.iter() }
            .copied()
            .filter(|&class| self.may_have_nodes(class))
            .collect();
        if own.is_empty() {
            return Ok(Some(FoundElements::default()));
        }
        let ContainerCosts { scan_count, element_count } = self.plan.container_costs(self.document);
        let mut limit = (scan_count / element_count).min(FOUND_COUNT_MAX);
        let mut best = None;
        let steps = match &self.plan.rest {
            Expression::Path(path) => &path.steps[..],
            _ => &[],
        };
        for alternatives in conditions(steps, self.document.format()) {
            let Some(found) = self.where_one_holds(&alternatives, limit)? else { continue };
            limit = found.entry_count.saturating_sub(1);
            best = Some(found);
        }
        let all_count = own.iter().filter_map(|&class| synopsis.get(class));
        if all_count.map(|class| class.node_count).sum::<u64>() <= limit {
            let values = own.iter().map(|&class| (class, None)).collect();
            best = self.look_up(values, limit)?.or(best);
        }
        Ok(best)
    }

    /// The elements in which one of the alternatives holds; `None` if indexes do not know, or find too
    /// many entries.
    fn where_one_holds(
        &self,
        alternatives: &[Alternative<'_>],
        limit: u64,
    ) -> Result<Option<FoundElements>, XmlError> {
        let mut values = Vec::new();
        for alternative in alternatives {
            let Some(classes) = self.classes_of(&alternative.path) else { return Ok(None) };
            values.extend(classes.into_iter().map(|class| (class, Some(alternative.sought))));
        }
        self.look_up(values, limit)
    }

    /// Looks up what is sought of classes, each in an index that knows it.
    fn look_up(
        &self,
        values: Vec<(ClassId, Option<Sought<'_>>)>,
        limit: u64,
    ) -> Result<Option<FoundElements>, XmlError> {
        let mut found = FoundElements::default();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for (class, sought) in values {
            if !self.may_have_nodes(class) {
                continue;
            }
            let Some(place) = self.index_of(class, sought) else { return Ok(None) };
            let Some(level) = self.level_of(class) else { return Ok(None) };
            let left = limit.saturating_sub(found.labels.len());
            let mut looked = Looked::default();
            collect(self.tables, self.document, (place, class), sought, left, &mut looked)?;
            if looked.is_cut {
                return Ok(None);
            }
            found.entry_count += looked.labels.len() as u64;
            for label in looked.labels {
                let element = label.ancestor(level).ok_or_else(|| {
                    self.document.damaged("an entry of an index has a label of another level")
                })?;
                found.labels.push(element);
            }
            let index = &self.document.catalog.indexes[place].definition;
            if !found.indexes.contains(index) {
                found.indexes.push(index.clone());
            }
        }
        found.labels.sort_unstable();
        let mut last: Option<Label> = None;
        found.labels.retain(|label| {
            let is_in = |last: &Label| last == label || last.is_ancestor_of(label);
            let is_new = !last.as_ref().is_some_and(is_in);
            if is_new {
                last = Some(label.clone());
            }
            is_new
        });
        Ok(Some(found))
    }

    /// Whether there may be nodes of a class.
    fn may_have_nodes(&self, class: ClassId) -> bool {
        let class = self.document.synopsis().get(class);
        let is_exact = self.document.catalog.exactness == Exactness::Classes;
        class.is_some_and(|class| class.node_count > 0 || !is_exact)
    }

    /// The place of an index that knows such values of a class.
    fn index_of(&self, class: ClassId, sought: Option<Sought<'_>>) -> Option<usize> {
        let kind = match sought {
            None => IndexKind::Elements,
            Some(Sought::Text(_) | Sought::Beginning(_)) => IndexKind::Text,
            Some(Sought::Numbers(..)) => IndexKind::Number,
        };
        let mask = self.coverage.mask(class);
        let indexes = self.document.catalog.indexes.iter().enumerate();
        indexes
            .filter(|(place, index)| mask & (1 << place) != 0 && index.definition.kind() == kind)
            .map(|(place, _)| place)
            .next()
    }

    /// The level of the outermost element that is held in which nodes of a class lie, or that they are.
    fn level_of(&self, class: ClassId) -> Option<usize> {
        let synopsis = self.document.synopsis();
        let (mut at, mut level) = (class, None);
        while at != ClassId::DOCUMENT {
            let class = synopsis.get(at)?;
            if self.plan.holds(at) {
                level = usize::try_from(class.level).ok();
            }
            at = class.parent;
        }
        level
    }

    /// The classes of the values to which steps lead from the plan's elements; `None` if the value of a
    /// node of these need not be what the steps lead to.
    fn classes_of(&self, path: &[&Step]) -> Option<BTreeSet<ClassId>> {
        // Such a step leads to texts and comments beside elements.
        let is_itself = |step: &&&Step| step.axis == Axis::SelfNode;
        let last = path.iter().rev().find(|step| !is_itself(step));
        if last.is_some_and(|step| step.axis == Axis::DescendantOrSelf) {
            return None;
        }
        let mut classes = self.plan.classes.clone();
        for (place, step) in path.iter().enumerate() {
            if is_of_texts(step) {
                let is_last = place + 1 == path.len();
                return (is_last && self.have_one_text(&classes)).then_some(classes);
            }
            classes = self.step(&classes, step)?;
        }
        Some(classes)
    }

    fn step(&self, from: &BTreeSet<ClassId>, step: &Step) -> Option<BTreeSet<ClassId>> {
        let Self { document, namespaces, .. } = *self;
        let names = NameTest::of(&step.test, namespaces).ok()?;
        match (step.axis, names) {
            (Axis::SelfNode | Axis::DescendantOrSelf, None) if step.test != NodeTest::Node => None,
            (Axis::SelfNode, None) => Some(from.clone()),
            (Axis::DescendantOrSelf, None) | (Axis::Child | Axis::Descendant, Some(_)) => {
                next_classes(from, step, document, namespaces).ok()
            }
            (Axis::Attribute, Some(names)) => {
                let classes = document.synopsis().classes().iter().zip(0_u32..);
                let fitting = classes.filter(|(class, _)| {
                    class.kind == StepKind::Attribute
                        && from.contains(&class.parent)
                        && document.vocabulary().get(class.name).is_some_and(|it| names.fits(it))
                });
                Some(fitting.map(|(_, id)| ClassId(id)).collect())
            }
            _ => None,
        }
    }

    /// Whether elements of these classes have one text at most, which then is their value.
    fn have_one_text(&self, classes: &BTreeSet<ClassId>) -> bool {
        let counts = self.document.catalog.totals.counts;
        let mut all = self.document.synopsis().classes().iter().zip(0_u32..);
        self.document.catalog.exactness >= Exactness::Totals
            && counts.comment_count == 0
            && counts.instruction_count == 0
            && !all.any(|(class, id)| {
                class.kind.is_element()
                    && classes.contains(&class.parent)
                    && self.may_have_nodes(ClassId(id))
            })
    }
}
