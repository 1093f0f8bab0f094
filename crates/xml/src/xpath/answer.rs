//! Answers an expression over a stored document: what can be is answered part by part, so that memory
//! holds a part and not the document.
//!
//! ```text
//!   /bib//book[@year > 1990]/title
//!   └─ front ─┘└──── rest ───────┘
//!
//!   front   steps down by names alone      ─► classes of the synopsis, before anything is read
//!   rest    answered in each element of these classes, with what is below it in memory
//! ```
//!
//! 1. The front has steps to elements without predicates; the rest looks at nothing that is not below
//!    the element. Where that cannot be, the front is empty and the document is the element.
//! 2. Elements of the front that lie in one another are read with the outermost.

use super::evaluate::{NameTest, Namespaces, Refusal, evaluate};
use super::fragment::{Fragment, FragmentBuilder, FragmentKind, Node};
use super::tree::{Axis, Expression, Function, NodeTest, Path, Step};
use super::value::Value;
use crate::document::Document;
use crate::error::XmlError;
use crate::record::Record;
use crate::synopsis::{ClassId, StepKind, Synopsis};
use crate::vocabulary::NameId;
use crate::walk::{NodeVisitor, walk};
use nandu_storage::database::Tables;
use std::collections::BTreeSet;

/// How an expression is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// Classes of the elements in which the rest is answered; the document's for all of it.
    pub classes: BTreeSet<ClassId>,
    /// What is answered in each of them.
    pub rest: Expression,
}

/// How large a part of a document may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Bytes of nodes and text.
    pub fragment_bytes: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self { fragment_bytes: 256 << 20 }
    }
}

/// A part of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Found<'f> {
    /// A node, and what it lies in.
    Node(&'f Fragment, Node),
    /// What is no node.
    Value(&'f Value),
}

impl QueryPlan {
    /// A plan for `expression` over a document with this synopsis.
    ///
    /// # Errors
    /// If a prefix stands for no namespace.
    pub fn new(
        expression: &Expression,
        document: &Document,
        namespaces: &Namespaces,
    ) -> Result<Self, XmlError> {
        let Expression::Path(path) = expression else {
            return Ok(Self::whole(expression.clone()));
        };
        let (front, rest) = divided(&path.steps);
        if !path.from_document || front.is_empty() || !rest.iter().all(looks_below) {
            return Ok(Self::whole(expression.clone()));
        }
        let mut classes = BTreeSet::from([ClassId::DOCUMENT]);
        for step in &front {
            classes = next_classes(&classes, step, document, namespaces)?;
        }
        let rest = Expression::Path(Path { from_document: false, steps: rest });
        Ok(Self { classes, rest })
    }

    fn whole(rest: Expression) -> Self {
        Self { classes: BTreeSet::from([ClassId::DOCUMENT]), rest }
    }

    /// Whether all of the document is held in memory.
    #[must_use]
    pub fn holds_document(&self) -> bool {
        self.classes.contains(&ClassId::DOCUMENT)
    }
}

/// The steps that lead to classes, the last of them to those of elements; and what is left to be
/// asked of these.
fn divided(steps: &[Step]) -> (Vec<Step>, Vec<Step>) {
    let mut length = steps.iter().take_while(|step| is_front(step)).count();
    let mut rest = Vec::new();
    // What is asked of the elements to which a step leads can be asked of each alone.
    if let Some(step) = steps.get(length)
        && leads_to_elements(step)
        && !step.predicates.iter().any(is_by_place)
    {
        let (axis, test, predicates) = (Axis::SelfNode, NodeTest::Node, step.predicates.clone());
        rest.push(Step { axis, test, predicates });
        length += 1;
    }
    while length > 0 && !leads_to_elements(&steps[length - 1]) {
        length -= 1;
        rest.clear();
    }
    let alone = |step: &Step| Step { predicates: Vec::new(), ..step.clone() };
    let front = steps[..length].iter().map(alone).collect();
    rest.extend_from_slice(&steps[length..]);
    (front, rest)
}

/// Whether a step leads down by names alone, or is that of `//`.
fn is_front(step: &Step) -> bool {
    let is_anywhere = step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node;
    (is_anywhere || leads_to_elements(step)) && step.predicates.is_empty()
}

/// Whether a step leads down to elements.
const fn leads_to_elements(step: &Step) -> bool {
    matches!(step.axis, Axis::Child | Axis::Descendant)
        && matches!(step.test, NodeTest::Name(_) | NodeTest::AnyName | NodeTest::AnyOf { .. })
}

/// Whether a predicate may ask for the place among the nodes of a step. Predicates of a path in it count
/// the nodes of that path's own steps.
fn is_by_place(predicate: &Expression) -> bool {
    fn tells_place(expression: &Expression) -> bool {
        matches!(expression, Expression::Call(Function::Position | Function::Last, _))
            || expression.operands().into_iter().any(tells_place)
    }
    predicate.is_number() || tells_place(predicate)
}

/// Whether a step, and what its predicates ask, stays below the node from which it leads.
fn looks_below(step: &Step) -> bool {
    matches!(
        step.axis,
        Axis::Attribute | Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfNode
    ) && step.predicates.iter().all(asks_below)
}

fn asks_below(expression: &Expression) -> bool {
    let is_below = match expression {
        Expression::Path(path) => !path.from_document && path.steps.iter().all(looks_below),
        Expression::From { predicates, steps, .. } => {
            predicates.iter().all(asks_below) && steps.iter().all(looks_below)
        }
        // The language is that of an element above.
        Expression::Call(function, _) => *function != Function::Lang,
        _ => true,
    };
    is_below && expression.operands().into_iter().all(asks_below)
}

/// The classes to which a step of a front leads.
fn next_classes(
    from: &BTreeSet<ClassId>,
    step: &Step,
    document: &Document,
    namespaces: &Namespaces,
) -> Result<BTreeSet<ClassId>, XmlError> {
    let (synopsis, vocabulary) = (document.synopsis(), document.vocabulary());
    let names = NameTest::of(&step.test, namespaces).map_err(refused)?;
    let is_named = |id: NameId| {
        names.is_none_or(|names| vocabulary.get(id).is_some_and(|name| names.fits(name)))
    };
    let mut next = BTreeSet::new();
    let mut is_below = vec![false; synopsis.classes().len()];
    for (class, id) in synopsis.classes().iter().zip(0_u32..) {
        let (id, parent) = (ClassId(id), class.parent);
        let is_start = from.contains(&id);
        // Classes come after the one above.
        let below_parent = id != ClassId::DOCUMENT && is_below[parent.0 as usize];
        is_below[id.0 as usize] = is_start || below_parent;
        let is_reached = match step.axis {
            Axis::Child => id != ClassId::DOCUMENT && from.contains(&parent),
            Axis::Descendant => below_parent,
            _ => is_start || below_parent,
        };
        let is_element = class.kind == StepKind::Element;
        let fits = match step.axis {
            Axis::DescendantOrSelf => is_element || is_start,
            _ => is_element && is_named(class.name),
        };
        if is_reached && fits {
            next.insert(id);
        }
    }
    Ok(next)
}

fn refused(refusal: Refusal) -> XmlError {
    match refusal {
        Refusal::Invalid { what } => XmlError::Invalid { what },
        Refusal::Stopped => XmlError::Cancelled,
    }
}

/// Answers an expression by `plan`, and tells `tell` all that is found, nodes in the order of the
/// document. `look` says whether to stop.
///
/// # Errors
/// If a part of the document has more bytes than `limits` say, the expression asks what is not
/// known, a page cannot be read, the document is damaged, or `tell` or `look` say so.
pub fn query(
    tables: &Tables,
    document: &Document,
    plan: &QueryPlan,
    (namespaces, limits): (&Namespaces, QueryLimits),
    look: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Found<'_>) -> Result<(), XmlError>,
) -> Result<(), XmlError> {
    let builder = FragmentBuilder::with_names(document.vocabulary().clone());
    let synopsis = document.synopsis();
    let mut answerer =
        Answerer { plan, synopsis, namespaces, limits, look, tell, builder, depth: 0 };
    if !plan.classes.is_empty() {
        walk(tables, document, &mut answerer, |_, _| Ok(()))?;
    }
    if plan.holds_document() {
        answerer.answer()?;
    }
    Ok(())
}

struct Answerer<'a> {
    plan: &'a QueryPlan,
    synopsis: &'a Synopsis,
    namespaces: &'a Namespaces,
    limits: QueryLimits,
    look: &'a dyn Fn() -> bool,
    tell: &'a mut dyn FnMut(Found<'_>) -> Result<(), XmlError>,
    builder: FragmentBuilder,
    /// How many elements are open, the outermost of the front among them.
    depth: usize,
}

impl Answerer<'_> {
    fn is_kept(&self) -> bool {
        self.depth > 0 || self.plan.holds_document()
    }

    fn check(&self) -> Result<(), XmlError> {
        if (self.look)() {
            return Err(XmlError::Cancelled);
        }
        let (bytes, limit) = (self.builder.byte_count(), self.limits.fragment_bytes);
        if bytes > limit {
            let what = format!(
                "{} has more than {limit} bytes in memory; give more, or ask for a smaller part",
                if self.plan.holds_document() { "the document" } else { "a part of the document" }
            );
            return Err(XmlError::Invalid { what });
        }
        Ok(())
    }

    /// Answers the rest in what is in memory, and forgets that.
    fn answer(&mut self) -> Result<(), XmlError> {
        let fragment = self.builder.fragment();
        let context: Vec<Node> = match self.plan.holds_document() {
            true => vec![0],
            false => {
                let all = 1..Node::try_from(fragment.node_count()).unwrap_or(Node::MAX);
                all.filter(|&node| {
                    fragment.kind(node) == FragmentKind::Element
                        && self.plan.classes.contains(&fragment.class(node))
                })
                .collect()
            }
        };
        let mut all: Vec<Node> = Vec::new();
        for node in context {
            let value = evaluate(&self.plan.rest, fragment, node, self.namespaces, self.look)
                .map_err(refused)?;
            match value {
                Value::Nodes(nodes) => all.extend(nodes),
                value => (self.tell)(Found::Value(&value))?,
            }
        }
        all.sort_unstable();
        all.dedup();
        for node in all {
            (self.tell)(Found::Node(fragment, node))?;
        }
        self.builder.clear();
        Ok(())
    }
}

impl NodeVisitor for Answerer<'_> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        if self.depth > 0 || self.plan.classes.contains(&class) {
            self.depth += 1;
        }
        if self.is_kept() {
            self.builder.open(self.builder.name_of(class, self.synopsis), class);
            self.check()?;
        }
        Ok(())
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        if self.is_kept() {
            self.builder.close();
        }
        if self.depth > 0 {
            self.depth -= 1;
            if self.depth == 0 && !self.plan.holds_document() {
                self.answer()?;
            }
        }
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        if !self.is_kept() {
            return Ok(());
        }
        self.builder.leaf_of(record, self.synopsis)?;
        self.check()
    }
}
