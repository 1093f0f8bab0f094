//! Answers an expression over a stored document by its plan, so that memory holds a part and not the document.
//!
//! 1. Elements that are held and lie in one another are read with the outermost.
//! 2. The last of those in one element is known when another one comes, or that element ends; what was held is
//!    answered or forgotten then. All of them are of one path, so none lies in another.

use super::evaluate::{Namespaces, evaluate};
use super::fragment::{Fragment, FragmentBuilder, FragmentKind, Node};
use super::located::{Located, Places};
use super::plan::{Access, Fold, Place, QueryPlan, refused};
use super::value::Value;
use crate::document::Document;
use crate::error::XmlError;
use crate::record::{NodeKind, Record};
use crate::synopsis::ClassId;
use crate::walk::{NodeVisitor, walk, walk_in};
use nandu_storage::database::Tables;
use std::collections::BTreeMap;

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
    /// Where what is in memory may be the last one of an element: how many elements are open there.
    pending: Option<usize>,
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
        let (depth, counts, pending, is_done, folded) = (0, vec![0], None, false, 0.0);
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
            pending,
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
                    let walked = walk_in(tables, document, label, self);
                    if self.is_done && matches!(walked, Err(XmlError::Cancelled)) {
                        break;
                    }
                    if !walked? {
                        return Err(document.damaged("an index leads to a node that is not there"));
                    }
                }
            }
        }
        if plan.holds_document() || self.pending.is_some() {
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
        self.forget();
        Ok(())
    }

    /// Forgets what is in memory.
    fn forget(&mut self) {
        self.pending = None;
        self.builder.clear();
        if let Telling::Places(places, _) = &mut self.telling {
            places.clear();
        }
    }

    /// An element has ended, with which nothing is held any more.
    fn end_held(&mut self) -> Result<(), XmlError> {
        if self.plan.place == Some(Place::Last) {
            self.pending = Some(self.counts.len());
            return Ok(());
        }
        self.answer()?;
        if let Some(Place::Range(_, last)) = self.plan.place
            && self.is_in_outermost()
            && self.counts.last().is_some_and(|&count| count >= last)
        {
            // Whoever walks has to be told to end, by an error.
            self.is_done = true;
            return Err(XmlError::Cancelled);
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
        node == 1 || place.has(*count)
    };
    of_front.filter(is_in_place).collect()
}

impl NodeVisitor for Answerer<'_> {
    fn open(&mut self, class: ClassId) -> Result<(), XmlError> {
        let mut is_chosen = self.plan.holds(class);
        if let Some(place) = self.plan.place {
            if let Some(count) = self.counts.last_mut().filter(|_| is_chosen) {
                *count = count.saturating_add(1);
                is_chosen = place.has(*count);
                if self.pending.is_some() {
                    // It was not the last one.
                    self.forget();
                }
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
            if self.pending.is_some_and(|open_count| self.counts.len() < open_count) {
                self.answer()?;
            }
        }
        if self.depth > 0 {
            self.depth -= 1;
            if self.depth == 0 && !self.plan.holds_document() {
                self.end_held()?;
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
