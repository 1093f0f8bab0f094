//! Answers an expression over a stored document: what can be is answered part by part, so that memory
//! holds a part and not the document.
//!
//! ```text
//!   /bib//book[@year > 1990]/title
//!   └─ front ─┘└──── rest ───────┘
//!
//!   front   steps down by names alone      ─► classes of the synopsis, before anything is read
//!   rest    answered in each element of these classes, with what is below it in memory
//!   fold    of a count or a sum: what becomes of the parts of the answer
//! ```
//!
//! 1. The front has steps to elements without predicates, as many as may be; the rest looks at nothing
//!    that is not the element or below it. Where that cannot be, the document is the element.
//! 2. Elements of the front that lie in one another are read with the outermost.
//! 3. Where the n-th of those in one element is asked for, they are counted as they are read.

use super::choose::FoundElements;
use super::evaluate::{NameTest, Namespaces, Refusal, evaluate};
use super::fragment::{Fragment, FragmentBuilder, FragmentKind, Node};
use super::located::{Located, Places};
use super::tree::{Axis, Expression, Function, NodeTest, Path, Step};
use super::value::Value;
use crate::document::Document;
use crate::error::XmlError;
use crate::record::{NodeKind, Record};
use crate::synopsis::ClassId;
use crate::vocabulary::NameId;
use crate::walk::{NodeVisitor, walk, walk_in};
use nandu_storage::database::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// How an expression is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// Classes of the elements in which the rest is answered; the document's for all of it.
    pub classes: BTreeSet<ClassId>,
    /// Which of those in one element, counted from 1; all without it.
    pub place: Option<u32>,
    /// What is answered in each of them.
    pub rest: Expression,
    /// What all answers are added up to, if nodes are not what is asked for.
    pub fold: Option<Fold>,
    /// How the elements are found.
    pub access: Access,
}

/// What becomes of nodes that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many there are.
    Count,
    /// The sum of their numbers.
    Sum,
}

/// How elements are found in which an expression is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// All of the document is read.
    Scan,
    /// Indexes have found them, or the document has none.
    Found(FoundElements),
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
        let (path, fold) = match expression {
            Expression::Path(path) => (path, None),
            Expression::Call(function, arguments) => match (function, &arguments[..]) {
                (Function::Count, [Expression::Path(path)]) => (path, Some(Fold::Count)),
                (Function::Sum, [Expression::Path(path)]) => (path, Some(Fold::Sum)),
                _ => return Ok(Self::whole(expression.clone())),
            },
            _ => return Ok(Self::whole(expression.clone())),
        };
        let divided = if path.from_document { divided(&path.steps) } else { None };
        let Some(Divided { front, place, rest }) = divided else {
            return Ok(Self::whole(expression.clone()));
        };
        let mut classes = BTreeSet::from([ClassId::DOCUMENT]);
        for step in &front {
            classes = next_classes(&classes, step, document, namespaces)?;
        }
        let rest = Expression::Path(Path { from_document: false, steps: rest });
        Ok(Self { classes, place, rest, fold, access: Access::Scan })
    }

    fn whole(rest: Expression) -> Self {
        let (classes, access) = (BTreeSet::from([ClassId::DOCUMENT]), Access::Scan);
        Self { classes, place: None, rest, fold: None, access }
    }

    /// Whether all of the document is held in memory.
    #[must_use]
    pub fn holds_document(&self) -> bool {
        self.classes.contains(&ClassId::DOCUMENT)
    }
}

/// The steps of a path, in two parts.
struct Divided {
    front: Vec<Step>,
    /// Which of the elements that the last step of the front finds in one.
    place: Option<u32>,
    rest: Vec<Step>,
}

/// The most steps that lead to classes, the last of them to those of elements, so that what is left can
/// be asked of each of these; and what is left. `None` if there are none.
fn divided(steps: &[Step]) -> Option<Divided> {
    let alone = |step: &Step| Step { predicates: Vec::new(), ..step.clone() };
    let plain_count = steps.iter().take_while(|step| is_front(step)).count();
    // What is asked of the elements to which a step leads can be asked of each alone.
    let own = steps.get(plain_count).filter(|step| leads_to_elements(step)).map(placed);
    let own = own.filter(|(_, predicates)| !predicates.iter().any(is_by_place));
    for length in (1..=plain_count + usize::from(own.is_some())).rev() {
        if !leads_to_elements(&steps[length - 1]) {
            continue;
        }
        let (mut place, mut rest) = (None, Vec::new());
        if let Some((its_place, predicates)) = own.filter(|_| length > plain_count) {
            let (axis, test, predicates) = (Axis::SelfNode, NodeTest::Node, predicates.to_vec());
            rest.push(Step { axis, test, predicates });
            place = its_place;
        }
        rest.extend_from_slice(&steps[length..]);
        if stays_below(&rest, 0) {
            let front = steps[..length].iter().map(alone).collect();
            return Some(Divided { front, place, rest });
        }
    }
    None
}

/// The place that the first predicate of a step asks for, if it is that of a child and written as a
/// number; and the other predicates.
fn placed(step: &Step) -> (Option<u32>, &[Expression]) {
    let Some((Expression::Number(number), others)) = step.predicates.split_first() else {
        return (None, &step.predicates);
    };
    // Of other numbers there is no such node, or so far away that all may be held.
    let place = number.to_string().parse().ok().filter(|&place: &u32| place > 0);
    match place {
        Some(place) if step.axis == Axis::Child => (Some(place), others),
        _ => (None, &step.predicates),
    }
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

/// Whether steps, and what their predicates ask, stay at an element or below it, from nodes that are so
/// many levels below it at least.
fn stays_below(steps: &[Step], mut level: usize) -> bool {
    steps.iter().all(|step| {
        let next = match step.axis {
            Axis::Attribute | Axis::Child | Axis::Descendant => Some(level + 1),
            Axis::DescendantOrSelf | Axis::SelfNode => Some(level),
            Axis::Parent => level.checked_sub(1),
            Axis::FollowingSibling | Axis::PrecedingSibling => Some(level).filter(|&it| it > 0),
            _ => None,
        };
        level = next.unwrap_or(0);
        next.is_some() && step.predicates.iter().all(|predicate| asks_below(predicate, level))
    })
}

/// Whether an expression asks nothing of what is not at an element or below it, at a node so many levels
/// below it at least.
fn asks_below(expression: &Expression, level: usize) -> bool {
    let is_below = match expression {
        Expression::Path(path) => !path.from_document && stays_below(&path.steps, level),
        // How deep nodes are at which it begins is not known.
        Expression::From { predicates, steps, .. } => {
            predicates.iter().all(|predicate| asks_below(predicate, 0)) && stays_below(steps, 0)
        }
        // The language is that of an element above.
        Expression::Call(function, _) => *function != Function::Lang,
        _ => true,
    };
    is_below && expression.operands().into_iter().all(|operand| asks_below(operand, level))
}

/// The classes to which a step of a front leads.
pub(super) fn next_classes(
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
        let is_element = class.kind.is_element();
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
    let mut answerer =
        Answerer::new(document, plan, (namespaces, limits), look, Telling::All(tell));
    answerer.run(tables)
}

/// The nodes that an expression chooses by `plan`, in the order of the document, with their labels.
///
/// # Errors
/// As [`query`]; and if the expression gives no nodes, or so many that they have more bytes than
/// `limits` say.
pub fn locate(
    tables: &Tables,
    document: &Document,
    plan: &QueryPlan,
    (namespaces, limits): (&Namespaces, QueryLimits),
    look: &dyn Fn() -> bool,
) -> Result<Vec<Located>, XmlError> {
    let mut found = Vec::new();
    let telling = Telling::Places(Places::default(), &mut found);
    let mut answerer = Answerer::new(document, plan, (namespaces, limits), look, telling);
    answerer.run(tables)?;
    Ok(found)
}

/// Who hears of what is found.
enum Telling<'a> {
    All(&'a mut dyn FnMut(Found<'_>) -> Result<(), XmlError>),
    /// Labels of what is in memory, and what was chosen.
    Places(Places, &'a mut Vec<Located>),
}

impl Telling<'_> {
    fn value(&mut self, value: &Value) -> Result<(), XmlError> {
        match self {
            Self::All(tell) => tell(Found::Value(value)),
            Self::Places(..) => {
                let what = "the expression gives no nodes, and nodes are wanted";
                Err(XmlError::Invalid { what: what.to_owned() })
            }
        }
    }

    fn node(&mut self, fragment: &Fragment, node: Node) -> Result<(), XmlError> {
        match self {
            Self::All(tell) => tell(Found::Node(fragment, node)),
            Self::Places(places, found) => {
                found.push(places.located(fragment, node));
                Ok(())
            }
        }
    }
}

struct Answerer<'a> {
    plan: &'a QueryPlan,
    document: &'a Document,
    namespaces: &'a Namespaces,
    limits: QueryLimits,
    look: &'a dyn Fn() -> bool,
    telling: Telling<'a>,
    builder: FragmentBuilder,
    /// How many elements are open, the outermost of the front among them.
    depth: usize,
    /// Of the document and each open element, how many elements of the front are in it so far, where
    /// one of them is asked for.
    counts: Vec<u32>,
    /// Whether nothing that follows can be asked for.
    is_done: bool,
    /// What was counted or added so far.
    folded: f64,
}

impl<'a> Answerer<'a> {
    fn new(
        document: &'a Document,
        plan: &'a QueryPlan,
        (namespaces, limits): (&'a Namespaces, QueryLimits),
        look: &'a dyn Fn() -> bool,
        telling: Telling<'a>,
    ) -> Self {
        let builder = FragmentBuilder::of(document);
        let (depth, counts, is_done, folded) = (0, vec![0], false, 0.0);
        Self {
            plan,
            document,
            namespaces,
            limits,
            look,
            telling,
            builder,
            depth,
            counts,
            is_done,
            folded,
        }
    }

    /// Reads what is to be read, and tells what is found.
    fn run(&mut self, tables: &Tables) -> Result<(), XmlError> {
        let (plan, document) = (self.plan, self.document);
        match &plan.access {
            Access::Scan if plan.classes.is_empty() => {}
            Access::Scan => match walk(tables, document, self, |_, _| Ok(())) {
                Err(XmlError::Cancelled) if self.is_done => {}
                walked => walked?,
            },
            Access::Found(found) => {
                for label in &found.labels {
                    if !walk_in(tables, document, label, self)? {
                        return Err(document.damaged("an index leads to a node that is not there"));
                    }
                }
            }
        }
        if plan.holds_document() {
            self.answer()?;
        }
        match plan.fold {
            Some(_) => self.telling.value(&Value::Number(self.folded)),
            None => Ok(()),
        }
    }

    /// Keeps the label of the node that came last, if it is wanted.
    fn place(&mut self, label: &[u8]) -> Result<(), XmlError> {
        match &mut self.telling {
            Telling::Places(places, _) => places.push(self.document, &self.builder, label),
            Telling::All(_) => Ok(()),
        }
    }

    /// Whether all elements of the front are in one element, the outermost.
    fn is_in_outermost(&self) -> bool {
        let synopsis = self.document.synopsis();
        self.plan.classes.iter().all(|&class| synopsis.get(class).is_some_and(|it| it.level <= 2))
    }

    fn is_kept(&self) -> bool {
        self.depth > 0 || self.plan.holds_document()
    }

    fn check(&self) -> Result<(), XmlError> {
        if (self.look)() {
            return Err(XmlError::Cancelled);
        }
        let limit = self.limits.fragment_bytes;
        let mut bytes = self.builder.byte_count();
        if let Telling::Places(places, found) = &self.telling {
            bytes += places.byte_count() + found.len() * size_of::<Located>();
        }
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
            false => chosen(self.plan, fragment),
        };
        let mut all: Vec<Node> = Vec::new();
        for node in context {
            let value = evaluate(&self.plan.rest, fragment, node, self.namespaces, self.look)
                .map_err(refused)?;
            match value {
                Value::Nodes(nodes) => all.extend(nodes),
                value => self.telling.value(&value)?,
            }
        }
        all.sort_unstable();
        all.dedup();
        match self.plan.fold {
            Some(Fold::Count) => self.folded += all.len() as f64,
            Some(Fold::Sum) => {
                for &node in &all {
                    self.folded += fragment.number_of(&fragment.string(node));
                }
            }
            None => {
                for node in all {
                    self.telling.node(fragment, node)?;
                }
            }
        }
        self.builder.clear();
        if let Telling::Places(places, _) = &mut self.telling {
            places.clear();
        }
        Ok(())
    }
}

/// The elements of the front in a fragment, of which the outermost is one.
fn chosen(plan: &QueryPlan, fragment: &Fragment) -> Vec<Node> {
    let all = 1..Node::try_from(fragment.node_count()).unwrap_or(Node::MAX);
    let of_front = all.filter(|&node| {
        fragment.kind(node) == FragmentKind::Element && plan.classes.contains(&fragment.class(node))
    });
    let Some(place) = plan.place else { return of_front.collect() };
    let mut counts: BTreeMap<Option<Node>, u32> = BTreeMap::new();
    let is_in_place = |&node: &Node| {
        let count = counts.entry(fragment.parent(node)).or_default();
        *count += 1;
        // Those before the outermost are not here.
        node == 1 || *count == place
    };
    of_front.filter(is_in_place).collect()
}

impl NodeVisitor for Answerer<'_> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        let mut is_chosen = self.plan.classes.contains(&class);
        if let Some(place) = self.plan.place {
            if let Some(count) = self.counts.last_mut().filter(|_| is_chosen) {
                *count = count.saturating_add(1);
                is_chosen = *count == place;
            }
            self.counts.push(0);
        }
        if self.depth > 0 || is_chosen {
            self.depth += 1;
        }
        if self.is_kept() {
            self.builder.open_class(class, self.document.synopsis());
            self.check()?;
        }
        Ok(())
    }

    fn open_at(&mut self, class: ClassId, label: &[u8]) -> Result<(), XmlError> {
        self.open(class)?;
        if self.is_kept() { self.place(label) } else { Ok(()) }
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        if self.is_kept() {
            self.builder.close();
        }
        if self.plan.place.is_some() {
            self.counts.pop();
        }
        if self.depth > 0 {
            self.depth -= 1;
            if self.depth == 0 && !self.plan.holds_document() {
                self.answer()?;
                if self.plan.place.is_some() && self.is_in_outermost() {
                    // Whoever walks has to be told to end, by an error.
                    self.is_done = true;
                    return Err(XmlError::Cancelled);
                }
            }
        }
        Ok(())
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        if !self.is_kept() {
            return Ok(());
        }
        self.builder.leaf_of(record, self.document.synopsis())?;
        if !record.is_continued && record.kind != NodeKind::Doctype {
            self.place(record.label)?;
        }
        self.check()
    }
}
